// A lane's rows in a stream: cells of the column that it has swept last, and one step to the next column. SoftRows is
// the float engine's cell with the costs of InlineCosts; HardRows has R itself, in double, whose sums are exact to
// float32's digits however long a path is.
//
// Before each pair a column of infinities goes through all lanes: its cells are forbidden, and these are the left
// neighbours of the pair. What infinity makes of a cost must be a forbidden cell, and one such column must
// not make the next pair's cells any other than if they were the first.
#pragma once

#include "cuda/costs/inline_costs.cuh"
#include "cuda/streams/args.h"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda::streams {

constexpr double infinity = __builtin_huge_val();

// gamma > 0. An infinite y makes the sum with fixed_point infinite: f = -1/2 and n = 0x3eb80000, about 2^30, which
// takes the exponent of any cell of a pair to less than all that a pair may have (limit). There is one such column
// between two pairs, and the cells behind it are cells of the next pair again: exponents do not add up.
template <int D>
struct SoftRows {
  static constexpr bool soft = true;
  static constexpr int K = cuda::K, features = D;
  using Z = FloatCell::Z;
  struct Ahead {  // what a step needs and does not depend on the step before
    FloatCell::Cost cost[K];
  };

  Strip<FloatCell> strip;
  double x[K][D];

  static __device__ __forceinline__ Z forbidden() { return FloatCell::forbidden(); }
  static __device__ __forceinline__ Z corner() { return FloatCell::one(); }

  // The largest |t| of a pair of n + m steps: what fixed_point has room for; and exponents that stay within 2^28 of 0,
  // far from those behind a column of infinities.
  static __device__ __forceinline__ float limit(float steps) {
    return fminf(cost_limit(Costs::inlined), 268435456.0f / steps);
  }

  // Before the first pair comes a column of infinities as well, and any finite cells will do.
  __device__ __forceinline__ void start(int upper, bool lowest) {
#pragma unroll
    for (int k = 0; k < K; k++) strip.z[k] = corner();
    strip.above = corner(), strip.upper = upper, strip.lowest = lowest;
  }
  // at: y of the lane's column in step 0, of feature 0; those of the next feature are `pitch` further.
  __device__ __forceinline__ Ahead look(const double *at, int pitch, int u) const {
    Ahead a;
    squared_distances<K, D>(x, at + u, pitch, a.cost);
    return a;
  }
  template <class Meanwhile>
  __device__ __forceinline__ void step(const Ahead &a, const Z &top, Meanwhile meanwhile) {
    strip.step(a.cost, top, meanwhile);
  }
  __device__ __forceinline__ void renormalise() { strip.renormalise(); }
  __device__ __forceinline__ Z row(int k) const { return strip.z[k]; }
  static __device__ __forceinline__ double value(const Z &z, const Args &a) {
    return -(z.e + log2(static_cast<double>(z.m))) / a.scale;
  }
};

// gamma = 0.
template <int D>
struct HardRows {
  static constexpr bool soft = false;
  static constexpr int K = hard_rows_per_lane, features = D;
  using Z = double;
  struct Ahead {
    double y[D];
  };

  Z z[K], above;
  int upper;
  bool lowest;
  double x[K][D];

  static __device__ __forceinline__ Z forbidden() { return infinity; }
  static __device__ __forceinline__ Z corner() { return 0; }
  static __device__ __forceinline__ float limit(float) { return 3.402823466e38f; }

  __device__ __forceinline__ void start(int upper_lane, bool is_lowest) {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = corner();
    above = corner(), upper = upper_lane, lowest = is_lowest;
  }
  __device__ __forceinline__ Ahead look(const double *at, int pitch, int u) const {
    Ahead a;
#pragma unroll
    for (int f = 0; f < D; f++) a.y[f] = at[f * pitch + u];
    return a;
  }
  static __device__ __forceinline__ Z least(Z a, Z b) { return a < b ? a : b; }
  template <class Meanwhile>
  __device__ __forceinline__ void step(const Ahead &a, const Z &top, Meanwhile meanwhile) {
    Z up = __shfl_sync(all_lanes, lowest ? top : z[K - 1], upper);
    meanwhile();
    Z corner = above;
    above = up;
#pragma unroll
    for (int k = 0; k < K; k++) {
      const Z left = z[k];
      Z r = least(least(corner, left), up);
#pragma unroll
      for (int f = 0; f < D; f++) {
        const double difference = x[k][f] - a.y[f];
        r = fma(difference, difference, r);
      }
      z[k] = up = r;
      corner = left;
    }
  }
  __device__ __forceinline__ void renormalise() {}
  __device__ __forceinline__ Z row(int k) const { return z[k]; }
  static __device__ __forceinline__ double value(const Z &z, const Args &) { return z; }
};

}  // namespace sdtw::cuda::streams
