// Short pairs by other metrics than the squared distance. Which of them it is a kernel knows when it is launched
// (Args::metric); those of squared distances are compiled without any of this.
//
// Euclidean: D is the root of the squared distance, and gradients are of weights E / D, 0 where points coincide.
//
// Cosine: D = 1 - c, c = <x, y> / (|x| |y|), or 1 where x or y is 0. With u = x / |x| and v = y / |y| the gradient for
// x is sum_j E (c u - v) / |x|: products of E with points that are divided by their norms, and sums of E c.
//
// City block: costs are summed up from differences, and gradients from E with the sign of each (signed_sums.cuh).
#pragma once

#include <cfloat>

#include "cuda/element.cuh"
#include "cuda/general/cost_sums.cuh"
#include "cuda/short_pairs/block.cuh"

namespace sdtw::cuda::short_pairs {

template <class Shape>
__device__ __forceinline__ bool is_square(const Args &a) {
  return Shape::squares || a.metric == SDTW_SQEUCLIDEAN;
}

template <class Shape>
__device__ __forceinline__ bool is_cosine(const Args &a) {
  return !Shape::squares && a.metric == SDTW_COSINE;
}

template <class Shape>
__device__ __forceinline__ bool is_cityblock(const Args &a) {
  return !Shape::squares && a.metric == SDTW_CITYBLOCK;
}

template <class Shape>
__device__ __forceinline__ bool is_euclidean(const Args &a) {
  return !Shape::squares && a.metric == SDTW_EUCLIDEAN;
}

// Whether gradients need the costs of cells.
__host__ __device__ __forceinline__ bool needs_costs(sdtw_metric metric) {
  return metric == SDTW_EUCLIDEAN || metric == SDTW_COSINE;
}

// What is left of a sum, unless that is NaN.
__device__ __forceinline__ double at_least_0(double d) { return d < 0 ? 0 : d; }

// Called, since a root in float64 takes a hundred instructions, and a thread needs those of dozens of cells.
static __device__ __noinline__ double exact_root(double square) { return sqrt(square); }

// Of a point, from its squared norm: 0 if that is 0, and NaN if there is anything in it that is not finite.
static __device__ __noinline__ double inverse_norm(double square) {
  if (square == 0) return 0;
  return isfinite(square) ? 1 / sqrt(square) : __longlong_as_double(0x7ff8000000000000ll);
}
// From 0 to 2, of which rounding may have more, or NaN.
__device__ __forceinline__ double cosine_distance(double product, double inverse_x, double inverse_y) {
  const double d = at_least_0(1 - product * inverse_x * inverse_y);
  return d > 2 ? 2 : d;
}

// The Euclidean distance of two points, summed up from differences, of each lane that lacks one; for the others 0.
// Where they are few, all lanes share the features of one after the other. Not inlined, it gets no reference to what
// the caller keeps, which would be in memory then.
static __device__ __noinline__ double distances_of(const Args &a, const Pair pair, int own_row, int own_column,
                                                   bool lacks) {
  const auto sum_of = [&](int row, int column, int from, int apart) {
    const int64_t x = x_of(a, pair.index) * a.x.stride[0] + row * a.x.stride[1];
    const int64_t y = y_of(a, pair.index) * a.y.stride[0] + column * a.y.stride[1];
    double sum = 0;
    for (int f = from; f < a.features; f += apart) {
      const double difference = element<double>(a.x.data, x + f * a.x.stride[2], a.dtype) -
                                element<double>(a.y.data, y + f * a.y.stride[2], a.dtype);
      sum = fma(difference, difference, sum);
    }
    return sum;
  };
  unsigned lanes = __ballot_sync(all_lanes, lacks);
  if (4 * __popc(lanes) > a.features) return lacks ? sqrt(sum_of(own_row, own_column, 0, 1)) : 0;
  double own = 0;
  for (; lanes != 0; lanes &= lanes - 1) {
    const int lane = __ffs(static_cast<int>(lanes)) - 1;
    const int row = __shfl_sync(all_lanes, own_row, lane), column = __shfl_sync(all_lanes, own_column, lane);
    const double sum = warp_sum(sum_of(row, column, lane_id(), warp));
    if (lane_id() == lane) own = sum;
  }
  return sqrt(own);
}
// The same as the root of what products have left, `all` less twice a product, or if that is not precise enough from
// differences, by all lanes of a warp. The root is the general engine's, but of numbers that are no normal floats.
__device__ __forceinline__ double root_of(const Args &a, const Pair &pair, int row, int column, double all,
                                          double square) {
  const bool is_precise = general::has_precise_root(square, all, a.scale * 0x1p-23 * all);
  const bool lacks = !is_precise && row < pair.n && column < pair.m;
  const double distance = __any_sync(all_lanes, lacks) ? distances_of(a, pair, row, column, lacks) : 0;
  if (!is_precise) return distance;
  const auto rounded = static_cast<float>(square);
  return general::has_fast_root(rounded) ? general::root_of(square, rounded) : exact_root(square);
}

// What gradients need of the costs: a number of each cell, in a plane behind all else in shared memory, or in the
// second one once there is E; and of cosine the inverse norm of each point, behind all else.
template <class Shape>
struct Kept {
  using Planes = short_pairs::Planes<Shape::R>;
  static constexpr int points = Shape::rows + Shape::columns;
  float *cells;
  double *inverse_norms;
  float unit;  // what Euclidean distances are multiplied by

  // A float holds reciprocals of all distances of floats in these units: where it has no room for squared distances, of
  // the largest, else of the smallest.
  static __device__ __forceinline__ float unit_of(float bound) { return bound < INFINITY ? 0x1p40f : 0x1p-16f; }

  static __host__ __device__ size_t bytes(int columns) {
    return (Shape::keeps ? Planes::size_for(columns) * sizeof(float) : 0) + points * sizeof(double);
  }
  __device__ __forceinline__ Kept(const Planes &planes, float *behind_all, float of_distances)
      : cells(Shape::keeps ? behind_all : planes.data + planes.size),
        inverse_norms(reinterpret_cast<double *>(behind_all + (Shape::keeps ? planes.size : 0))),
        unit(of_distances) {}

  // Of cosine that is D, or D - 2 where that is nearer to 0, so that c is known as precisely near -1 as near 1; it may
  // be -0.
  __device__ __forceinline__ void put(const Args &a, int row, int column, double distance) const {
    const bool turned = a.metric == SDTW_COSINE && distance > 1;
    const double kept = a.metric == SDTW_EUCLIDEAN ? distance * static_cast<double>(unit) : distance;
    cells[Planes::place(row, column)] = static_cast<float>(turned ? -(2 - distance) : kept);
  }
  static __device__ __forceinline__ double cosine(float cell) {
    return copysign(1.0, static_cast<double>(cell)) - static_cast<double>(cell);
  }

  // Makes E / (D unit) of E, by all threads.
  __device__ __forceinline__ void divide(const Planes &planes) const {
    for (int i = threadIdx.x; i < planes.size; i += Shape::threads) {
      float &e = planes.data[i];
      e = is_live(e) && cells[i] > 0 ? fminf(e / cells[i], FLT_MAX) : 0;
    }
    __syncthreads();
  }
};

}  // namespace sdtw::cuda::short_pairs
