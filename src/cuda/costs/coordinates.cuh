// Coordinates of points for costs that a sweeping warp computes itself: relative to the first point of x, and scaled by
// sqrt(log2(e) / gamma), so that the sum of the squares of their differences is t. In float64, or where that is slow in
// integers, which take 64 bits as well and lie in the same places.
//
// Both have `of`, which makes a coordinate, and its size with its sign in a float's precision at least, of which bounds
// of costs are made; and of some rows and a column of y, of which features are `pitch` apart, `costs` for FloatCell and
// `large_costs` for LongCell. A separator is a coordinate that no point has: it makes a column that the streams put
// between two pairs (streams/rows.cuh).
#pragma once

#include <type_traits>

#include "cuda/args.h"
#include "cuda/costs/two_floats.cuh"
#include "cuda/pair.cuh"

namespace sdtw::cuda {

struct FloatCoordinates {
  using Number = double;
  using Size = double;
  using Origin = double;
  using Unit = double;  // of Root, what coordinates are multiplied by
  static __device__ __forceinline__ Unit unit(const Root &root) { return root.whole; }
  // A thread's own: what comes from the arguments is loaded again and again, and takes more local memory.
  static __device__ __forceinline__ Unit own_unit(double scale, const Root &) { return sqrt(scale); }

  static __device__ __forceinline__ Number of(float v, Origin origin, Unit unit, Size &size) {
    return size = (v - origin) * unit;
  }
  template <int rows, int D>
  static __device__ __forceinline__ void costs(const Number (&x)[rows][D], const Number *y, int pitch,
                                               FloatCost (&cost)[rows]) {
    double sum[rows];
#pragma unroll
    for (int k = 0; k < rows; k++) sum[k] = fixed_point;
    add_squares<rows, D>(x, y, pitch, sum);
#pragma unroll
    for (int k = 0; k < rows; k++) cost[k] = split_fixed(sum[k]);
  }
  template <int rows, int D>
  static __device__ __forceinline__ void large_costs(const Number (&x)[rows][D], const Number *y, int pitch,
                                                     FloatCost (&cost)[rows]) {
    double sum[rows] = {};
    add_squares<rows, D>(x, y, pitch, sum);
#pragma unroll
    for (int k = 0; k < rows; k++) cost[k] = split_large(sum[k]);
  }
  template <int rows, int D>
  static __device__ __forceinline__ void add_squares(const Number (&x)[rows][D], const Number *y, int pitch,
                                                     double (&sum)[rows]) {
#pragma unroll
    for (int f = 0; f < D; f++) {
      const double yf = y[f * pitch];
#pragma unroll
      for (int k = 0; k < rows; k++) {
        const double difference = x[k][f] - yf;
        sum[k] = fma(difference, difference, sum[k]);
      }
    }
  }

  // It makes the sum with fixed_point infinite: f = -1/2 and n = separator_bits.
  static constexpr int separator_bits = 0x7ff00000 - fixed_point_high;  // the high word of infinity, and of fixed_point
  static __device__ __forceinline__ Number separator(int) { return __builtin_huge_val(); }
};

// A coordinate is whole 2^-16 + rest 2^-47, |rest| <= 2^30. Neither of the differences of two is carried into the
// other, and the square of a difference, in units of 2^-32, is that of whole, in 64 bits, and 2 whole rest, without the
// square of rest, which is at most a unit. So t has the same fraction as the sum with fixed_point has, in five
// instructions a feature and three a cell.
struct IntegerCoordinates {
  struct alignas(8) Number {
    int whole, rest;
  };
  using Size = float;
  using Origin = float;
  using Unit = TwoFloats;
  static __device__ __forceinline__ Unit unit(const Root &root) { return {root.high, root.low}; }
  static __device__ __forceinline__ Unit own_unit(double, const Root &root) { return unit(root); }

  static __device__ __forceinline__ Number of(float v, Origin origin, const Unit &unit, Size &size) {
    const TwoFloats scaled = product(difference(v, origin), unit);
    size = scaled.high;
    const float units = scaled.high * 0x1p16f;
    const int near = __float2int_rn(units);
    const float left = (units - static_cast<float>(near)) + scaled.low * 0x1p16f;
    const int nearer = __float2int_rn(left);
    return {static_cast<int>(static_cast<unsigned>(near) + static_cast<unsigned>(nearer)),
            __float2int_rn((left - static_cast<float>(nearer)) * 0x1p31f)};
  }
  // Costs of pairs that are rejected later may be anything, so differences may wrap around.
  static __device__ __forceinline__ int less(int a, int b) {
    return static_cast<int>(static_cast<unsigned>(a) - static_cast<unsigned>(b));
  }
  static __device__ __forceinline__ long long wide_product(int a, int b) { return static_cast<long long>(a) * b; }
  static __device__ __forceinline__ FloatCost split(unsigned long long t_and_half) {
    return {exp2_minus_1(centred(static_cast<unsigned>(t_and_half))), static_cast<int>(t_and_half >> 32)};
  }
  template <int rows, int D>
  static __device__ __forceinline__ void costs(const Number (&x)[rows][D], const Number *y, int pitch,
                                               FloatCost (&cost)[rows]) {
    sum_up<false, rows, D>(x, y, pitch, cost);
  }
  template <int rows, int D>
  static __device__ __forceinline__ void large_costs(const Number (&x)[rows][D], const Number *y, int pitch,
                                                     FloatCost (&cost)[rows]) {
    sum_up<true, rows, D>(x, y, pitch, cost);
  }
  template <bool large, int rows, int D>
  static __device__ __forceinline__ void sum_up(const Number (&x)[rows][D], const Number *y, int pitch,
                                                FloatCost (&cost)[rows]) {
    unsigned long long sum[rows];
    std::conditional_t<large, long long, int> more[rows];  // 2 whole rest
#pragma unroll
    for (int k = 0; k < rows; k++) sum[k] = 1ull << 31, more[k] = 0;
#pragma unroll
    for (int f = 0; f < D; f++) {
      const Number yf = y[f * pitch];
#pragma unroll
      for (int k = 0; k < rows; k++) {
        const int whole = less(x[k][f].whole, yf.whole), rest = less(x[k][f].rest, yf.rest);
        sum[k] += static_cast<unsigned long long>(wide_product(whole, whole));
        if constexpr (large)
          more[k] += wide_product(whole, rest) >> 30;
        else  // whole is below 2^27
          more[k] = less(more[k], -__mulhi(static_cast<int>(static_cast<unsigned>(whole) << 2), rest));
      }
    }
#pragma unroll
    for (int k = 0; k < rows; k++)
      cost[k] = split(sum[k] + static_cast<unsigned long long>(static_cast<long long>(more[k])));
  }

  // Differences from a coordinate of at most 2^10, the range of FloatCell's, may wrap around, but their squares are at
  // least separator_bits and at most 2^30 + 2^25.
  static constexpr int separator_whole = 0x7ec00000, separator_bits = 980000000;
  static __device__ __forceinline__ Number separator(int feature) { return {feature == 0 ? separator_whole : 0, 0}; }
};

using Coordinates = std::conditional_t<avoids_float64, IntegerCoordinates, FloatCoordinates>;
static_assert(sizeof(Coordinates::Number) == sizeof(double), "the host counts so many bytes");

}  // namespace sdtw::cuda
