// What a thread sums up for its cells of a tile: terms of features in shared memory, derivatives along tangents, and
// roots of the sums.
#pragma once

#include "cuda/costs/two_floats.cuh"
#include "cuda/general/points.cuh"
#include "cuda/room.h"

namespace sdtw::cuda::general {

// What costs are summed up in: two floats in float problems where float64 is slow, but in double for resident points,
// which there are none of there.
template <class Cell, bool in_double>
using SumOf = std::conditional_t<avoids_float64 && !Cell::wide && !in_double, TwoFloats, double>;
// A coordinate in shared memory as differences are taken of it: floats have exact ones.
template <class Sum, class In>
__device__ __forceinline__ auto coordinate(In v) {
  if constexpr (std::is_same_v<Sum, double>)
    return static_cast<double>(v);
  else if constexpr (sizeof(In) == sizeof(float))
    return v;
  else
    return TwoFloats::of(v);
}
using cuda::difference;
__device__ __forceinline__ double difference(double a, double b) { return a - b; }
template <bool absolute>
__device__ __forceinline__ void add_term(double &sum, double difference) {
  sum = absolute ? sum + fabs(difference) : fma(difference, difference, sum);
}
template <bool absolute>
__device__ __forceinline__ void add_term(TwoFloats &sum, const TwoFloats &difference) {
  cuda::add(sum, absolute ? cuda::absolute(difference) : square(difference));
}

// What a difference of two points, and of their tangents, adds to the cost's derivative.
template <bool absolute>
__device__ __forceinline__ void add_change(double &sum, double difference, double dt) {
  const double direction = absolute ? core::CityBlock::direction(difference) : core::SqEuclidean::direction(difference);
  sum = fma(direction, dt, sum);
}
template <bool absolute>
__device__ __forceinline__ void add_change(TwoFloats &sum, const TwoFloats &difference, const TwoFloats &dt) {
  if constexpr (absolute)
    cuda::add(sum, cuda::product(dt, core::CityBlock::direction(difference.high)));
  else
    cuda::add(sum, cuda::product(difference, dt));
}

__device__ __forceinline__ void add_to(double &sum, double v) { sum += v; }
__device__ __forceinline__ void add_to(TwoFloats &sum, const TwoFloats &v) { cuda::add(sum, v); }
__device__ __forceinline__ void halve(double &v) { v = core::Cosine::finish(v); }
__device__ __forceinline__ void halve(TwoFloats &v) { v = {v.high * 0.5f, v.low * 0.5f}; }
template <class Real>
__device__ __forceinline__ Real rounded_of(double v) {
  return static_cast<Real>(v);
}
template <class Real>
__device__ __forceinline__ Real rounded_of(const TwoFloats &v) {
  return v.high + v.low;
}
__device__ __forceinline__ double leading_of(double v) { return v; }
__device__ __forceinline__ float leading_of(const TwoFloats &v) { return v.high; }

// A thread's cells of a tile: rows K l, ... of its lane l, and S steps from u0 on.
template <int S_, class Sum_ = double>
struct Sums {
  static constexpr int S = S_;
  using Sum = Sum_;
  Sum v[S][K];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < S; i++)
#pragma unroll
      for (int k = 0; k < K; k++) v[i][k] = Sum{};
  }
};

// A lane's rows of a feature, so far apart.
template <class Sum, int apart, class X, class To>
__device__ __forceinline__ void load_rows(const X *from, To (&to)[K]) {
  if constexpr (apart == 1) {
    const Rows<X> rows = *reinterpret_cast<const Rows<X> *>(from);
#pragma unroll
    for (int k = 0; k < K; k++) to[k] = coordinate<Sum>(rows.v[k]);
  } else {
#pragma unroll
    for (int k = 0; k < K; k++) to[k] = coordinate<Sum>(from[k * apart]);
  }
}
// Adds the terms of features in shared memory: those from `from` on, `apart` apart. of_x: the lane's first row; of_y:
// what it has in the thread's steps. absolute: of cityblock, not of squares.
template <bool absolute, int x_pitch, int x_apart, int y_pitch, class X, class Y, int S, class Sum>
__device__ __forceinline__ void add_terms(const X *of_x, const Y *const (&of_y)[S], int from, int apart, int features,
                                          Sums<S, Sum> &sums) {
#pragma unroll 2
  for (int f = from; f < features; f += apart) {
    decltype(coordinate<Sum>(X{})) x[K];
    load_rows<Sum, x_apart>(of_x + f * x_pitch, x);
    decltype(coordinate<Sum>(Y{})) y[S];
#pragma unroll
    for (int i = 0; i < S; i++) y[i] = coordinate<Sum>(of_y[i][f * y_pitch]);
#pragma unroll
    for (int i = 0; i < S; i++) {
      Sum of[K];
#pragma unroll
      for (int k = 0; k < K; k++) of[k] = difference(x[k], y[i]);
#pragma unroll
      for (int k = 0; k < K; k++) add_term<absolute>(sums.v[i][k], of[k]);
    }
  }
}
// Adds direction(x - y) times the difference of the tangents.
template <bool absolute, int T, class In, int S, class Sum>
__device__ __forceinline__ void add_along(Points<In> p, Points<In> d, int features, int u0, Sums<S, Sum> &sums) {
  const int of_x = lane_id(), of_y = u0 - lane_id() + warp - 1;
#pragma unroll 1
  for (int f = 0; f < features; f++) {
    decltype(coordinate<Sum>(In{})) x[K], dx[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
      const int at = of_x + f * staged_rows + k * rows_apart;
      x[k] = coordinate<Sum>(p.x[at]), dx[k] = coordinate<Sum>(d.x[at]);
    }
#pragma unroll
    for (int i = 0; i < S; i++) {
      const int at = of_y + f * staged_columns<T> + i;
      const auto y = coordinate<Sum>(p.y[at]), dy = coordinate<Sum>(d.y[at]);
#pragma unroll
      for (int k = 0; k < K; k++) add_change<absolute>(sums.v[i][k], difference(x[k], y), difference(dx[k], dy));
    }
  }
}

// Whether a distance is precise enough as the root of a square that products have left of both points' squared norms
// together, `all`, of which they lose up to 2^-50: costs are to be off by 2^-27 of a bit at most, and gradients, which
// are divided by the distance, by 2^-21 of themselves. bits: 2^-23 of those that a distance of `all` costs.
__device__ __forceinline__ bool has_precise_root(double square, double all, double bits) {
  return square > fmax(bits * bits, 0x1p-30 * all);
}

// The square root of a number that as a float, `rounded`, is a normal one (has_fast_root): to within 2^-43 of itself,
// by Newton's method from an approximation in float.
__device__ __forceinline__ bool has_fast_root(float rounded) { return rounded > 1e-30f && rounded < 1e30f; }
__device__ __forceinline__ double root_of(double number, float rounded) {
  const auto inverse = static_cast<double>(ptx::approximate_reciprocal_root(rounded));
  const double v = number * inverse;
  return fma(fma(-v, v, number), 0.5 * inverse, v);
}
// Replaces numbers by their square roots: in float problems root_of, `rows` numbers side by side, but for the rare ones
// that are no normal floats.
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
      rare[i] = Cell::wide || !Cell::soft || !has_fast_root(rounded), any |= rare[i];
      root[i] = root_of(of, rounded);
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

// The same in two floats, those of tiny numbers of 2^80 times as much.
template <class Cell, int rows>
__device__ __forceinline__ void take_roots(TwoFloats (&s)[K]) {
#pragma unroll
  for (int k = 0; k < K; k++) {
    const bool tiny = s[k].high < 0x1p-60f;
    const float up = tiny ? 0x1p80f : 1.0f, down = tiny ? 0x1p-40f : 1.0f;
    const float high = s[k].high * up, inverse = high > 0 ? ptx::approximate_reciprocal_root(high) : 0.0f;
    const float root = high * inverse, rest = fmaf(-root, root, high) + s[k].low * up;
    s[k] = {root * down, rest * (0.5f * inverse) * down};
  }
}

}  // namespace sdtw::cuda::general
