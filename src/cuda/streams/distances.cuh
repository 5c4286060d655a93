// What the rows of soft streams make costs of: coordinates of points, and t = D log2(e) / gamma of them.
//
// Squares have the coordinates of InlineCosts (costs/coordinates.cuh), of which the squares add up to t. Distances are
// of coordinates that are scaled by log2(e) / gamma itself: t is the sum of their differences, or the root of the sum
// of the squares of these. They are in float64, and code that does without has none of them. Of one feature the root is
// the difference itself, so that kernels of one feature have no roots.
#pragma once

#include "cuda/costs/coordinates.cuh"
#include "cuda/general/cost_sums.cuh"
#include "cuda/streams/args.h"

namespace sdtw::cuda::streams {

struct Squares : Coordinates {
  static constexpr bool exists = true;

  __device__ __forceinline__ void start(const Args &) {}
  static __device__ __forceinline__ Number point(float v, Origin origin, const Args &a, Size &size) {
    return of(v, origin, unit(a.root), size);
  }
  // The largest |x| + |y| of which no t of D features is beyond `limit`.
  static __device__ __forceinline__ float reach(float limit, int D) { return sqrtf(limit / static_cast<float>(D)); }
};

// Whether a distance is the root of a sum of squares: of all pairs (Euclidean), of none (city block), or as the problem
// says: of large costs, which are rare, both metrics share kernels.
enum class Roots { none, all, asked };

template <Roots roots>
struct Distances {
  static constexpr bool exists = !avoids_float64;
  using Number = double;
  using Size = double;
  using Origin = double;

  bool is_euclidean;  // if that is asked

  __device__ __forceinline__ void start(const Args &a) { is_euclidean = a.metric == SDTW_EUCLIDEAN; }
  static __device__ __forceinline__ Number point(float v, Origin origin, const Args &a, Size &size) {
    return size = (v - origin) * a.scale;
  }
  static __device__ __forceinline__ float reach(float limit, int D) { return limit / static_cast<float>(D); }

  template <int rows, int D>
  __device__ __forceinline__ void costs(const Number (&x)[rows][D], const Number *y, int pitch,
                                        FloatCost (&cost)[rows]) const {
    double t[rows];
    sum_up<rows, D>(x, y, pitch, fixed_point, t);
#pragma unroll
    for (int k = 0; k < rows; k++) cost[k] = split_fixed(t[k]);
  }
  template <int rows, int D>
  __device__ __forceinline__ void large_costs(const Number (&x)[rows][D], const Number *y, int pitch,
                                              FloatCost (&cost)[rows]) const {
    double t[rows];
    sum_up<rows, D>(x, y, pitch, 0, t);
#pragma unroll
    for (int k = 0; k < rows; k++) cost[k] = split_large(t[k]);
  }
  // t, on top of `zero`.
  template <int rows, int D>
  __device__ __forceinline__ void sum_up(const Number (&x)[rows][D], const Number *y, int pitch, double zero,
                                         double (&t)[rows]) const {
    if (roots == Roots::all || (roots == Roots::asked && is_euclidean)) {
#pragma unroll
      for (int k = 0; k < rows; k++) t[k] = 0x1p-80;  // its root has an inverse, and is nothing beside 2^-32
      FloatCoordinates::add_squares<rows, D>(x, y, pitch, t);
#pragma unroll
      for (int k = 0; k < rows; k++) t[k] = general::root_of(t[k], static_cast<float>(t[k])) + zero;
    } else {
#pragma unroll
      for (int k = 0; k < rows; k++) t[k] = zero;
#pragma unroll
      for (int f = 0; f < D; f++) {
        const double yf = y[f * pitch];
#pragma unroll
        for (int k = 0; k < rows; k++) t[k] += fabs(x[k][f] - yf);
      }
    }
  }
};

}  // namespace sdtw::cuda::streams
