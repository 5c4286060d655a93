// What the drivers know of a pair before and beside its cells: lengths, defined results, which engine it needs, and how
// tile boundaries are kept in state.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/packed.h"
#include "cpu/layout.h"

namespace sdtw::cpu {

enum class Kind : uint8_t {
  solved,  // by the recurrence
  zero,    // value is known (0 or +infinity) and the gradient is 0
  nan,     // value and gradient are NaN
};

struct Lengths {
  int64_t n, m;
  Kind kind;     // solved: both are at least 1
  double value;  // of a pair that is not solved
};

inline int64_t read_length(const void *lengths, int bits, int64_t index, int64_t full) {
  if (!lengths) return full;
  return bits == 32 ? static_cast<const int32_t *>(lengths)[index] : static_cast<const int64_t *>(lengths)[index];
}

// A pair's lengths as state has them; -1 is one out of range.
struct NotedLengths {
  int32_t n, m;
};
static_assert(largest_size <= INT32_MAX);

inline NotedLengths note_lengths(const Problem &p, const Buffers &b, int64_t pair) {
  const auto note = [&](const void *lengths, int64_t full) {
    const int64_t length = read_length(lengths, p.length_bits, pair, full);
    return length < 0 || length > full ? -1 : int32_t(length);
  };
  return {note(b.x_len, p.n), note(b.y_len, p.m)};
}

inline Lengths lengths_of(NotedLengths noted) {
  const auto [n, m] = noted;
  if (n < 0 || m < 0) return {0, 0, Kind::nan, std::numeric_limits<double>::quiet_NaN()};
  if (n == 0 || m == 0) return {0, 0, Kind::zero, n == m ? 0. : std::numeric_limits<double>::infinity()};
  return {n, m, Kind::solved, 0};
}

template <class Element, class Array>
auto *element(const Array &array, int64_t pair) {
  using Pointer =
      std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(array.data)>>, const Element *, Element *>;
  return static_cast<Pointer>(array.data) + pair * array.stride[0];
}

// in_gammas: the value / gamma.
inline void write_value(const Problem &p, const Buffers &b, int64_t pair, double in_gammas) {
  const double value = in_gammas * p.gamma;
  if (p.dtype == SDTW_F64)
    static_cast<double *>(b.value)[pair] = value;
  else
    static_cast<float *>(b.value)[pair] = static_cast<float>(value);
}

inline double read_grad_value(const Problem &p, const Buffers &b, int64_t pair) {
  if (!b.grad_value) return 1;
  return p.dtype == SDTW_F64 ? static_cast<const double *>(b.grad_value)[pair]
                             : static_cast<const float *>(b.grad_value)[pair];
}

// What computes a pair: cells in float, from costs of series in one of two forms, or everything in double.
enum class Engine : uint8_t {
  plain = plain_cost,
  double_costs = double_cost,
  float64,
};
inline CostForm cost_form(Engine engine) { return engine == Engine::float64 ? plain_cost : CostForm(engine); }

// The engine for float32 series of these lengths whose costs are at most `bound` (which may be infinite or NaN).
inline Engine engine_for(double bound, int64_t n, int64_t m, const Problem &p) {
  const double scale = core::log2_e / p.gamma, step = bound * scale, total = step * double(n + m);
  if (!core::is_float_scale(scale) || !(total <= core::Exponent<float>::limit)) return Engine::float64;
  if (std::max(n, m) > 4096 && core::is_thin(n, m)) return Engine::float64;
  return total <= core::plain_cost_limit && step <= core::plain_cost_step(double(p.features)) ? Engine::plain
                                                                                              : Engine::double_costs;
}

// The largest given |cost| that T's engine takes; that of float64 must be below it (core/numbers.h).
template <class T>
double largest_given_cost(const Problem &p) {
  const double scale = core::log2_e / p.gamma;
  if (sizeof(T) == 8) return core::largest_wide_cost / scale;
  return std::min(core::float_cost_limit, core::Exponent<T>::limit / double(p.n + p.m)) / double(T(scale));
}

// R / gamma = -log(m 2^e): finite wherever there is a path, even if R is beyond a double's range.
template <class T>
double value_of(T m, typename core::Exponent<T>::type e) {
  if (double(e) < -core::Exponent<T>::limit) return std::numeric_limits<double>::infinity();
  return -(std::log2(double(m)) + double(e)) * core::ln_2;
}

// Tile boundaries in state. The float64 engine of a float32 problem has to do with the float engine's 8 bytes.
template <class T, class In>
struct Boundary {
  using E = typename core::Exponent<T>::type;
  static constexpr bool packed = sizeof(T) > sizeof(In);
  static constexpr size_t size = packed ? sizeof(T) : sizeof(T) + sizeof(E);

  // count numbers, into / out of a block of capacity numbers at `data`, from its element `at` on.
  static void save(std::byte *data, int64_t capacity, int64_t at, const T *m, const E *e, int64_t count) {
    if constexpr (packed) {
      auto *const out = reinterpret_cast<uint64_t *>(data) + at;
      for (int64_t i = 0; i < count; ++i) out[i] = core::pack({m[i], e[i]});
    } else {
      std::memcpy(data + at * sizeof(T), m, count * sizeof(T));
      std::memcpy(data + capacity * sizeof(T) + at * sizeof(E), e, count * sizeof(E));
    }
  }
  static void load(const std::byte *data, int64_t capacity, int64_t at, T *m, E *e, int64_t count) {
    if constexpr (packed) {
      const auto *const in = reinterpret_cast<const uint64_t *>(data) + at;
      for (int64_t i = 0; i < count; ++i) {
        const core::WideZ z = core::unpack(in[i]);
        m[i] = z.m;
        e[i] = z.e;
      }
    } else {
      std::memcpy(m, data + at * sizeof(T), count * sizeof(T));
      std::memcpy(e, data + capacity * sizeof(T) + at * sizeof(E), count * sizeof(E));
    }
  }
};

template <class T>
void fill_forbidden(T *m, typename core::Exponent<T>::type *e, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    m[i] = 1;
    e[i] = core::Exponent<T>::forbidden;
  }
}

// Whether any of count values is above the threshold at which a tile is worth sweeping (sdtw.h, sdtw_backward).
template <class T>
bool any_live(const T *values, int64_t count) {
  T largest[max_width] = {};  // in columns, for the sake of vectors
  int64_t i = 0;
  for (; i + max_width <= count; i += max_width)
    for (int l = 0; l < max_width; ++l) largest[l] = values[i + l] > largest[l] ? values[i + l] : largest[l];
  for (int64_t l = 0; i + l < count; ++l) largest[l] = values[i + l] > largest[l] ? values[i + l] : largest[l];
  bool live = false;
  for (const T l : largest) live |= l >= T(core::negligible_alignment);
  return live;
}

// What flows through a tile. E is a unit of flow from the last cell to the first: as much leaves a tile as has entered
// it, but for rounding, which over thousands of steps would show in E[0,0] = 1. So outflow is scaled to inflow, tile by
// tile or more often, and lane by lane where lanes are pairs. Sums are kept in 16 columns, whatever the lanes, which
// compilers make vectors of.
template <class T>
class Flow {
 public:
  static constexpr double least = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;  // correction that is no mere rounding

  // pairs: how many lanes are pairs of their own, a divisor of 16; 1: all numbers are of one pair.
  explicit Flow(int pairs) : pairs_(pairs) {}
  void add(const T *values, int64_t count) {
    int64_t i = 0;
    for (; i + columns <= count; i += columns)
      for (int64_t l = 0; l < columns; ++l) sum[l] += double(values[i + l]);
    for (int64_t l = 0; i + l < count; ++l) sum[l] += double(values[i + l]);
  }

  // Factors that scale the outflow are 1 + excess.
  struct Correction {
    T excess[max_width];
    bool any = false;
    void apply(T *values, int64_t count) const {
      int64_t i = 0;
      for (; i + columns <= count; i += columns)
        for (int64_t l = 0; l < columns; ++l) values[i + l] += values[i + l] * excess[l];
      for (int64_t l = 0; i + l < count; ++l) values[i + l] += values[i + l] * excess[l];
    }
  };
  // lost: what each pair has lost before, relative to what flows, and has not got back: a correction of less than the
  // last bit of T would be rounded away, so it waits for more.
  Correction settle(const Flow &inflow, double *lost) const {
    Correction correction;
    for (int k = 0; k < pairs_; ++k) {
      lost[k] += lacks(inflow, k);
      const bool mends = std::abs(lost[k]) >= least;
      for (int l = k; l < columns; l += pairs_) correction.excess[l] = mends ? T(lost[k]) : T(0);
      if (mends) lost[k] = 0;
      correction.any |= mends;
    }
    return correction;
  }
  // What there is less of than in another flow.
  double lacks(const Flow &other, int pair = 0) const {
    const double here = total(pair);
    return here > 0 ? (other.total(pair) - here) / here : 0;
  }

 private:
  static constexpr int columns = max_width;
  double total(int pair) const {
    double all = 0;
    for (int l = pair; l < columns; l += pairs_) all += sum[l];
    return all;
  }
  const int pairs_;
  double sum[columns] = {};
};

// Writes one value over a matrix: zeros before live tiles are stored, zeros or NaN for pairs that are not solved.
template <class In>
void fill_matrix(In *data, int64_t rows, int64_t row_stride, int64_t cols, int64_t col_stride, In value) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) data[i * row_stride + j * col_stride] = value;
}

// The header of state: what wrote it.
struct StateHeader {
  uint64_t magic;
  int64_t batch, n, m, features;
  double gamma;
  int32_t metric, dtype, isa, transposed;
  static constexpr uint64_t expected_magic = 0x325f777464735f63;  // "c_sdtw_2", 2 being the version of the layout

  static StateHeader of(const sdtw::Plan &plan, sdtw_cpu_isa isa) {
    const Problem &p = plan.problem;
    return {expected_magic, p.batch, p.n, p.m, p.features, p.gamma, p.metric, p.dtype, isa, plan.cpu.transposed};
  }
  bool matches(const sdtw::Plan &plan) const {
    const StateHeader other = of(plan, isa);
    return std::memcmp(this, &other, sizeof other) == 0;
  }
};
static_assert(sizeof(StateHeader) <= 64 && std::is_trivially_copyable_v<StateHeader>);

}  // namespace sdtw::cpu
