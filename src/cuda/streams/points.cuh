// Points of series as Rows take them (rows.cuh), and how large these may be.
#pragma once

#include "cuda/general/costs.cuh"
#include "cuda/streams/hard_rows.cuh"

namespace sdtw::cuda::streams {

// Whether the series have this one of D features.
template <int D>
__device__ __forceinline__ bool has_feature(const Args &a, int f) {
  return D <= 2 || f < a.features;
}

// Features of a point, whose first one is element `at` of a series. Those that the series do not have are 0.
template <int D>
__device__ __forceinline__ void load_features(const Args &a, const general::Series &from, int64_t at, float (&to)[D]) {
#pragma unroll
  for (int f = 0; f < D; f++)
    to[f] = has_feature<D>(a, f) ? element<float>(from.data, at + f * from.stride[2], from.dtype) : 0;
}

// The first point of x, to which Rows with gamma > 0 take all points relative.
template <class Rows>
struct Origin {
  typename Rows::Origin v[Rows::features] = {};

  Origin() = default;
  __device__ __forceinline__ Origin(const Args &a, int64_t x) {
    if (!Rows::soft) return;
    float first[Rows::features];
    load_features(a, a.x, x * a.x.stride[0], first);
#pragma unroll
    for (int f = 0; f < Rows::features; f++) v[f] = first[f];
  }
};
// How far x reaches, as bits of floats, of which those of NaN are the largest: the largest |feature|, or, of one that
// soft rows have, how far it goes up and down from the origin, which is seldom in the middle.
template <class Rows>
struct Span {
  static constexpr bool has_sides = Rows::soft && Rows::features == 1;

  int up = 0, down = 0;

  __device__ __forceinline__ void widen(float v) {
    up = max(up, has_sides ? __float_as_int(v) : __float_as_int(v) & 0x7fffffff);
    if (has_sides) down = max(down, __float_as_int(-v));
  }
  __device__ __forceinline__ float largest() const { return __int_as_float(max(up, down)); }
  // x is no further from `middle` than this.
  __device__ __forceinline__ float reach() const {
    return has_sides ? (__int_as_float(up) + __int_as_float(down)) / 2 : __int_as_float(up);
  }
  __device__ __forceinline__ float middle() const {
    return has_sides ? (__int_as_float(up) - __int_as_float(down)) / 2 : 0;
  }
};
// A row of x as Rows take it.
template <class Rows>
__device__ __forceinline__ void load_row(const Args &a, const Origin<Rows> &origin, int64_t x, int row,
                                         typename Rows::Point *to, Span<Rows> &span) {
  constexpr int D = Rows::features;
  float of_row[D];
  load_features(a, a.x, x * a.x.stride[0] + row * a.x.stride[1], of_row);
#pragma unroll
  for (int f = 0; f < D; f++) {
    typename Rows::Size size;
    to[f] = Rows::point(of_row[f], origin.v[f], a, size);
    span.widen(static_cast<float>(size));
  }
}

// Calls visit(i, cost) for rows [begin, end) of x but the first one: what the row costs beside the one before.
template <class Rows, class Visit>
__device__ __forceinline__ void visit_steps(const Args &a, int64_t x, int begin, int end, Visit visit) {
  float own[Rows::features], before[Rows::features];
  for (int i = begin; i < end; i++) {
    load_features(a, a.x, x * a.x.stride[0] + i * a.x.stride[1], own);
    if (i > begin) visit(i, Rows::with_cost(0, own, before));
#pragma unroll
    for (int f = 0; f < Rows::features; f++) before[f] = own[f];
  }
}
// Of rows [first, first + K) of x, which a lane has: what its largest pulse costs that ends there and begins there or
// in as many rows above; and how many rows cost no more than `little` beside the row before. Functions of their own,
// whose registers are not those of the sweep.
template <class Rows>
__device__ __noinline__ float pulse_of_rows(const Args &a, int64_t x, int first, int n) {
  float rise = 0, width = 1, pulse = 0;
  visit_steps<Rows>(a, x, max(first - Rows::K, 0), min(first + Rows::K, n), [&](int i, float cost) {
    const bool stays = cost * 256 <= rise;
    if (i > first && !stays) pulse = fmaxf(pulse, fminf(rise, cost) * width);
    if (cost >= rise)
      rise = cost, width = 1;
    else if (stays)
      width++;
  });
  return pulse;
}
template <class Rows>
__device__ __noinline__ int still_rows(const Args &a, int64_t x, int first, int n, float little) {
  int still = 0;
  visit_steps<Rows>(a, x, max(first - 1, 0), min(first + Rows::K, n),
                    [&](int, float cost) { still += cost <= little; });
  return still;
}

// The largest |x| at which costs of points near it are within the limit.
template <class Rows>
__device__ __forceinline__ float most_of_x(const Args &a) {
  return Rows::reach(a, 0);
}
// How far from the middle of x y may be, of a pair of n rows and m columns, if x is up to `reach` from there.
template <class Rows>
__device__ __forceinline__ float most_of_y(const Args &a, float reach, int n, int m) {
  if (!Rows::soft) return Rows::reach(a, 0);
  // Paths of a parallelogram cannot always go diagonally.
  const bool is_slanted = Rows::banded && a.band.kind == SDTW_BAND_ITAKURA;
  const float steps = is_slanted ? static_cast<float>(n) + static_cast<float>(m) : steps_of_path(n, m);
  return 0.999f * Rows::reach(a, steps) - reach;
}

}  // namespace sdtw::cuda::streams
