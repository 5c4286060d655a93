// What is known of a pair before and beside its cells: its lengths, what they define, where its results are, and what
// backward is asked for.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "core/half.h"
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

// Writes one value over a matrix: zeros before live tiles are stored, zeros or NaN for pairs that are not solved. As it
// lies in memory, as else each element of a matrix of columns would fetch a line of cache anew.
template <class In>
void fill_matrix(In *data, int64_t rows, int64_t row_stride, int64_t cols, int64_t col_stride, In value) {
  if (std::abs(row_stride) < std::abs(col_stride)) std::swap(rows, cols), std::swap(row_stride, col_stride);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < cols; ++j) data[i * row_stride + j * col_stride] = value;
}

}  // namespace sdtw::cpu
