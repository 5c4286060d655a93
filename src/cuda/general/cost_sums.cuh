// What a thread sums up for its cells of a tile: terms of features in shared memory, derivatives along tangents, and
// roots of the sums.
#pragma once

#include "cuda/general/points.cuh"

namespace sdtw::cuda::general {

// A thread's cells of a tile: rows K l, ... of its lane l, and S steps from u0 on.
template <int S_>
struct Sums {
  static constexpr int S = S_;
  double v[S][K];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < S; i++)
#pragma unroll
      for (int k = 0; k < K; k++) v[i][k] = 0;
  }
};

// A lane's rows of a feature, so far apart.
template <int apart, class X>
__device__ __forceinline__ void load_rows(const X *from, double (&to)[K]) {
  if constexpr (apart == 1) {
    const Rows<X> rows = *reinterpret_cast<const Rows<X> *>(from);
#pragma unroll
    for (int k = 0; k < K; k++) to[k] = static_cast<double>(rows.v[k]);
  } else {
#pragma unroll
    for (int k = 0; k < K; k++) to[k] = static_cast<double>(from[k * apart]);
  }
}
// Adds the terms of features in shared memory: those from `from` on, `apart` apart. of_x: the lane's first row; of_y:
// what it has in the thread's steps. absolute: of cityblock, not of squares.
template <bool absolute, int x_pitch, int x_apart, int y_pitch, class X, class Y, int S>
__device__ __forceinline__ void add_terms(const X *of_x, const Y *const (&of_y)[S], int from, int apart, int features,
                                          Sums<S> &sums) {
#pragma unroll 2
  for (int f = from; f < features; f += apart) {
    double x[K];
    load_rows<x_apart>(of_x + f * x_pitch, x);
    double y[S];
#pragma unroll
    for (int i = 0; i < S; i++) y[i] = static_cast<double>(of_y[i][f * y_pitch]);
#pragma unroll
    for (int i = 0; i < S; i++) {
      double difference[K];
#pragma unroll
      for (int k = 0; k < K; k++) difference[k] = x[k] - y[i];
#pragma unroll
      for (int k = 0; k < K; k++) {
        if constexpr (absolute)
          sums.v[i][k] += fabs(difference[k]);
        else
          sums.v[i][k] = fma(difference[k], difference[k], sums.v[i][k]);
      }
    }
  }
}
// Adds direction(x - y) times the difference of the tangents.
template <bool absolute, int T, class In, int S>
__device__ __forceinline__ void add_along(Points<In> p, Points<In> d, int features, int u0, Sums<S> &sums) {
  const int of_x = lane_id(), of_y = u0 - lane_id() + warp - 1;
#pragma unroll 1
  for (int f = 0; f < features; f++) {
    double x[K], dx[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
      const int at = of_x + f * staged_rows + k * rows_apart;
      x[k] = static_cast<double>(p.x[at]), dx[k] = static_cast<double>(d.x[at]);
    }
#pragma unroll
    for (int i = 0; i < S; i++) {
      const int at = of_y + f * staged_columns<T> + i;
      const auto y = static_cast<double>(p.y[at]), dy = static_cast<double>(d.y[at]);
#pragma unroll
      for (int k = 0; k < K; k++) {
        const double difference = x[k] - y, dt = dx[k] - dy;
        const double direction =
            absolute ? core::CityBlock::direction(difference) : core::SqEuclidean::direction(difference);
        sums.v[i][k] = fma(direction, dt, sums.v[i][k]);
      }
    }
  }
}

// Replaces numbers by their square roots. In float problems to within 2^-43 of themselves, by Newton's method from
// approximations in float; `rows` numbers side by side, but for the rare ones that are no normal floats.
template <class Cell, int rows>
__device__ __forceinline__ void take_roots(double (&s)[K]) {
#pragma unroll
  for (int begin = 0; begin < K; begin += rows) {
    bool rare[rows], any = false;
    double root[rows];
#pragma unroll
    for (int i = 0; i < rows; i++) {
      const double of = s[begin + i];
      const auto rounded = static_cast<float>(of);
      rare[i] = Cell::wide || !(rounded > 1e-30f && rounded < 1e30f), any |= rare[i];
      const auto inverse = static_cast<double>(ptx::approximate_reciprocal_root(rounded));
      const double v = of * inverse;
      root[i] = fma(fma(-v, v, of), 0.5 * inverse, v);
    }
    if (any) {
#pragma unroll
      for (int i = 0; i < rows; i++)
        if (rare[i]) root[i] = core::Euclidean::finish(s[begin + i]);
    }
#pragma unroll
    for (int i = 0; i < rows; i++) s[begin + i] = root[i];
  }
}

}  // namespace sdtw::cuda::general
