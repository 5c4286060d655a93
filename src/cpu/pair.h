// What the drivers know of a pair before and beside its cells: lengths, defined results, which engine it needs, and how
// tile boundaries are kept in state.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "core/packed.h"
#include "cpu/layout.h"
#include "cpu/places.h"

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

inline NotedLengths note_lengths(const Problem &p, const Buffers &b, const Place &at) {
  const auto note = [&](const void *lengths, int64_t series, int64_t full) {
    const int64_t length = read_length(lengths, p.length_bits, series, full);
    return length < 0 || length > full ? -1 : int32_t(length);
  };
  return {note(b.x_len, at.x, p.n), note(b.y_len, at.y, p.m)};
}

inline Lengths lengths_of(NotedLengths noted) {
  const auto [n, m] = noted;
  if (n < 0 || m < 0) return {0, 0, Kind::nan, std::numeric_limits<double>::quiet_NaN()};
  if (n == 0 || m == 0) return {0, 0, Kind::zero, n == m ? 0. : std::numeric_limits<double>::infinity()};
  return {n, m, Kind::solved, 0};
}

// What backward is asked for: gradients of series; that of given costs, which is E times the weights of steps and the
// value's gradient; or E itself.
enum class Wanted { gradients, cost_gradient, alignment };

// The matrix that E goes to. Null where it becomes gradients of series, or only the value's tangent is asked for.
inline const sdtw_out *target_of(Wanted wanted, const Buffers &b) {
  if (wanted == Wanted::alignment) return &b.alignment;
  return wanted == Wanted::cost_gradient && b.grad_x.data ? &b.grad_x : nullptr;
}

template <class Element, class Array>
auto *element(const Array &array, int64_t pair) {
  using Pointer =
      std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(array.data)>>, const Element *, Element *>;
  return static_cast<Pointer>(array.data) + pair * array.stride[0];
}

// in_gammas: the value / gamma; at gamma = 0 the value.
inline void write_value(const Problem &p, const Buffers &b, int64_t pair, double in_gammas) {
  const double value = p.gamma > 0 ? in_gammas * p.gamma : in_gammas;
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

// What computes a pair: cells in float, from costs of series in float or double, the latter by products of points or
// as they are, or everything in double.
enum class Engine : uint8_t { plain, products, double_costs, float64 };
inline CostForm cost_form(Engine engine) {
  return engine == Engine::products || engine == Engine::double_costs ? double_cost : plain_cost;
}

// Whether sweeps compute plain costs of this problem themselves, as long as all of its cells are the core's.
inline bool has_point_costs(const Problem &p) {
  return p.metric == SDTW_SQEUCLIDEAN && p.features == 1 && p.gamma > 0 && p.band == SDTW_BAND_NONE &&
         p.has_unit_steps();
}

// What points relative to a centre, and their squared norms or the sums of their coordinates, are multiplied by for
// costs from products (cpu/metrics.h), which come times `scale`.
struct ProductScales {
  bool coordinates;
  double x, y, norm;
  ProductScales(sdtw_metric metric, double scale) : coordinates(metric == SDTW_CITYBLOCK) {
    x = coordinates ? 2 * scale : -2 * scale;
    y = coordinates ? 2 * scale : 1;
    norm = coordinates ? -scale : scale;
  }
};

// Bounds of what a step costs: its weight times that of the cell, and its penalty.
struct StepBounds {
  double weight = 0, penalty = 0;
  explicit StepBounds(const Problem &p) {
    for (int k = 0; k < 3; ++k) {
      weight = std::max(weight, p.step_weight[k]);
      penalty = std::max(penalty, std::abs(p.step_penalty[k]));
    }
  }
};

// Largest R that the minimum keeps as two floats.
constexpr double hard_float_limit = 1e37;
// Where all costs are less float has not all digits of their squares, or none, and paths are any.
constexpr double hard_float_least = 1e-30;

// What is known of a pair's costs before they are computed.
struct CostBound {
  double largest = 0;  // infinite or NaN if an input is, or if that is what float makes of it
  bool tiny = false;   // differences may be so small that float loses their squares: asked of SDTW_EUCLIDEAN alone
};

// Whether any number is so near 0, but not 0, that the square of its difference from another may not be a normal float.
template <class T>
bool any_tiny(const T *data, int64_t count) {
  bool any = false;
  for (int64_t i = 0; i < count; ++i) {
    const T size = std::abs(data[i]);
    any |= (size > 0) & (size < T(1e-11));
  }
  return any;
}

// What a cost is times in an exponent; gamma = 0 has no exponents, and no division by 0 that a caller might trap.
inline double bits_of_cost(const Problem &p) { return p.gamma > 0 ? core::log2_e / p.gamma : 0; }

// core::is_thin, and pairs of more than 1024 steps beside a 200th of them or less: of 80 000 random ones five had
// gradients, sums of thousands of E of either sign, off by 2.4e-5 to 7.2e-5 of the largest.
inline bool is_thin(int64_t n, int64_t m) {
  const int64_t longer = std::max(n, m), shorter = std::min(n, m);
  return core::is_thin(n, m) || (longer > 1024 && longer > 200 * shorter);
}

// The engine for float32 series, or given costs, of these lengths. Of given costs, which are no sums, split ones would
// be no better.
inline Engine engine_for(const CostBound &bound, int64_t n, int64_t m, const Problem &p) {
  const StepBounds steps(p);
  if (p.gamma == 0) {
    const bool too_large =
        !((bound.largest * std::max(1., steps.weight) + steps.penalty) * double(n + m) < hard_float_limit);
    const bool too_small = bound.tiny || (p.metric == SDTW_SQEUCLIDEAN && bound.largest < hard_float_least);
    return too_large || too_small ? Engine::float64 : Engine::plain;
  }
  const double scale = bits_of_cost(p), heaviest = bound.largest * std::max(1., steps.weight);
  const double step = (heaviest + steps.penalty) * scale, total = step * double(n + m);
  if (!core::is_float_scale(scale) || !(total <= core::Exponent<float>::limit)) return Engine::float64;
  // Nor are weights times it, of costs that are 0 or next to nothing.
  if (!core::is_float_scale(scale * std::max(1., steps.weight))) return Engine::float64;
  // Reciprocals of tiny distances, and for tangents their squares, are no floats.
  if (is_thin(n, m) || bound.tiny) return Engine::float64;
  if (!p.fused()) return Engine::plain;
  const bool precise = p.metric == SDTW_COSINE;
  const double thinness = double(std::max(n, m)) / double(std::min(n, m));
  const double limit = p.metric == SDTW_CITYBLOCK ? core::plain_cityblock_limit : core::plain_cost_limit;
  if (!precise && total * thinness <= limit && step <= core::plain_cost_step(double(p.features))) return Engine::plain;
  // Split costs are weighed as floats.
  const bool alike = p.step_weight[0] == p.step_weight[1] && p.step_weight[1] == p.step_weight[2];
  if (!alike && step >= core::float_cost_limit) return Engine::float64;
  return has_products(p) && step <= core::product_cost_step ? Engine::products : Engine::double_costs;
}

// What a step costs is for no engine, in size, from this on: in exponents (core/numbers.h) or, of the minimum, where
// sums might leave a double's range.
inline double largest_wide_step(const Problem &p) { return p.gamma > 0 ? core::largest_wide_cost : 1e298; }

// The largest given |cost| that T's engine takes, whatever the step; that of float64 must be below it, and one that is
// not may be possible all the same (cpu/poisoned.h).
template <class T>
double largest_given_cost(const Problem &p) {
  const StepBounds steps(p);
  const double scale = p.gamma > 0 ? bits_of_cost(p) : 1;
  if (sizeof(T) == 8) return std::max(0., (largest_wide_step(p) - steps.penalty * scale) / (steps.weight * scale));
  const double heaviest = std::max(1., steps.weight);
  if (p.gamma == 0) return (hard_float_limit / double(p.n + p.m) - steps.penalty) / heaviest;
  const double step = core::Exponent<T>::limit / double(p.n + p.m) - steps.penalty * scale;
  return std::min(core::float_cost_limit, step) / heaviest / double(T(scale));
}

// R / gamma = -log(m 2^e): finite wherever there is a path, even if R is beyond a double's range.
template <class T>
double value_of(T m, typename core::Exponent<T>::type e) {
  if (double(e) < -core::Exponent<T>::limit) return std::numeric_limits<double>::infinity();
  return -(std::log2(double(m)) + double(e)) * core::ln_2;
}

// Tile boundaries in state. The float64 engine of a float32 problem has to do with the float engine's 8 bytes, into
// which the minimum's cells, one number as put_hard has them, go as they are.
template <class T, class In>
struct Boundary {
  using E = typename core::Exponent<T>::type;
  static constexpr bool packed = sizeof(T) == 8 && core::dtype_of<In> != SDTW_F64;
  static constexpr size_t size = packed ? sizeof(T) : sizeof(T) + sizeof(E);
  const bool hard;  // gamma = 0

  // count numbers, into / out of a block of capacity numbers at `data`, from its element `at` on.
  void save(std::byte *data, int64_t capacity, int64_t at, const T *m, const E *e, int64_t count) const {
    if constexpr (packed)
      if (!hard) {
        auto *const out = reinterpret_cast<uint64_t *>(data) + at;
        for (int64_t i = 0; i < count; ++i) out[i] = core::pack({m[i], e[i]});
        return;
      }
    std::memcpy(data + at * sizeof(T), m, count * sizeof(T));
    if (!packed) std::memcpy(data + capacity * sizeof(T) + at * sizeof(E), e, count * sizeof(E));
  }
  void load(const std::byte *data, int64_t capacity, int64_t at, T *m, E *e, int64_t count) const {
    if constexpr (packed)
      if (!hard) {
        const auto *const in = reinterpret_cast<const uint64_t *>(data) + at;
        for (int64_t i = 0; i < count; ++i) {
          const core::WideZ z = core::unpack(in[i]);
          m[i] = z.m;
          e[i] = z.e;
        }
        return;
      }
    std::memcpy(m, data + at * sizeof(T), count * sizeof(T));
    if (!packed) std::memcpy(e, data + capacity * sizeof(T) + at * sizeof(E), count * sizeof(E));
  }
};

// Cells that no path comes from.
template <class T>
void fill_forbidden(T *m, typename core::Exponent<T>::type *e, int64_t count, bool hard = false) {
  if (hard) {
    for (int64_t i = 0; i < count; ++i) put_hard(std::numeric_limits<double>::infinity(), m + i, e + i);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    m[i] = 1;
    e[i] = core::Exponent<T>::forbidden;
  }
}

template <class T>
constexpr T least_inflow = static_cast<T>(core::least_inflow(sizeof(T) == 8));

// Whether any of count values is worth sweeping a tile for.
template <class T>
bool any_live(const T *values, int64_t count) {
  T largest[max_width] = {};  // in columns, for the sake of vectors
  int64_t i = 0;
  for (; i + max_width <= count; i += max_width)
    for (int l = 0; l < max_width; ++l) largest[l] = values[i + l] > largest[l] ? values[i + l] : largest[l];
  for (int64_t l = 0; i + l < count; ++l) largest[l] = values[i + l] > largest[l] ? values[i + l] : largest[l];
  bool live = false;
  for (const T l : largest) live |= l >= least_inflow<T>;
  return live;
}

// How many of `count` values there are up to the last one that is.
template <class T>
int64_t live_part(const T *values, int64_t count) {
  while (count > 0 && !(values[count - 1] >= least_inflow<T>)) --count;
  return count;
}

// What a flow is short of another, relative to itself.
inline double lack_of_flow(double of, double other) { return of > 0 ? (other - of) / of : 0; }

// E is a unit of flow from the last cell to the first: as much leaves a tile as has entered it, but for rounding, which
// over thousands of steps would show in E[0,0] = 1. So outflow is scaled to inflow, tile by tile or more often, and
// lane by lane where lanes are pairs. A correction of less than this, the last bit of T, would be rounded away: it
// waits for more.
template <class T>
constexpr double least_correction = sizeof(T) == 4 ? 0x1p-24 : 0x1p-53;

// Of lanes that are pairs: the factors that scale their outflow are 1 + excess; false if all are 1. lost: what each has
// lost before, relative to what flows, and has not got back.
template <class T>
bool settle(const double *inflow, const double *outflow, int lanes, double *lost, T *excess) {
  bool any = false;
  for (int l = 0; l < lanes; ++l) {
    lost[l] += lack_of_flow(outflow[l], inflow[l]);
    const bool mends = std::abs(lost[l]) >= least_correction<T>;
    excess[l] = mends ? T(lost[l]) : T(0);
    if (mends) lost[l] = 0;
    any |= mends;
  }
  return any;
}

// Writes one value over a matrix: zeros before live tiles are stored, zeros or NaN for pairs that are not solved. As it
// lies in memory, as else each element of a matrix of columns would fetch a line of cache anew.
template <class In>
void fill_matrix(In *data, int64_t rows, int64_t row_stride, int64_t cols, int64_t col_stride, In value) {
  if (std::abs(row_stride) < std::abs(col_stride)) std::swap(rows, cols), std::swap(row_stride, col_stride);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) data[i * row_stride + j * col_stride] = value;
}

// The header of state: what wrote it.
struct StateHeader {
  uint64_t magic;
  int64_t batch, batch_x, n, m, features;
  double gamma;
  int32_t metric, dtype, isa, transposed;
  double step_weight[3], step_penalty[3], band_radius;
  int32_t band, symmetric;
  int64_t batch_y, all_pairs;
  int64_t unused[5];
  static constexpr uint64_t expected_magic = 0x375f777464735f63;  // "c_sdtw_7", 7 being the version of the layout

  static StateHeader of(const sdtw::Plan &plan, sdtw_cpu_isa isa) {
    const Problem &p = plan.problem;
    StateHeader h{};
    h.magic = expected_magic;
    h.batch = p.batch, h.batch_x = p.batch_x, h.n = p.n, h.m = p.m, h.features = p.features;
    h.gamma = p.gamma;
    h.metric = p.metric, h.dtype = p.dtype, h.isa = isa, h.transposed = plan.cpu.transposed;
    h.band = p.band, h.symmetric = p.symmetric;
    h.batch_y = p.batch_y, h.all_pairs = p.all_pairs;
    h.band_radius = p.band == SDTW_BAND_NONE ? 0 : p.band_radius;
    std::copy(p.step_weight, p.step_weight + 3, h.step_weight);
    std::copy(p.step_penalty, p.step_penalty + 3, h.step_penalty);
    for (double *number : {&h.gamma, &h.band_radius}) *number += 0.0;  // -0 and 0 are the same problem
    for (int way = 0; way < 3; ++way) h.step_weight[way] += 0.0, h.step_penalty[way] += 0.0;
    return h;
  }
  bool matches(const sdtw::Plan &plan) const {
    const StateHeader other = of(plan, isa);
    return std::memcmp(this, &other, sizeof other) == 0;
  }
};
static_assert(sizeof(StateHeader) == state_header_bytes && std::is_trivially_copyable_v<StateHeader>);

}  // namespace sdtw::cpu
