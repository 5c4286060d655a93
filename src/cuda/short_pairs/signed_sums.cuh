// Gradients of city block distances of short pairs: of x sum_j E[i,j] sign(x[i] - y[j]), and of y likewise, where the
// sign of 0 is 0.
#pragma once

#include "cuda/short_pairs/points.cuh"

namespace sdtw::cuda::short_pairs {

// A thread has a feature of four points of a series, side by side, and goes through the others four at a time.
constexpr int together = 4;

template <class Shape, bool of_x>
__device__ __forceinline__ void store_signed_sums_of(const Args &a, const Pair &pair, const Planes<Shape::R> &planes,
                                                     int first, int feature, const float *points, double factor) {
  using P = Points<Shape>;
  using Staged = StagedPoints<Shape>;
  const sdtw_out &out = of_x ? a.grad_x : a.grad_y;
  const int padded = of_x ? a.n : a.m, own_points = of_x ? pair.n : pair.m, others = of_x ? pair.m : pair.n;
  const int own_feature = static_cast<int>(threadIdx.x) % P::features;
  if (!out.data || first >= padded) return;
  const auto load = [&](bool x, int point, float(&to)[together]) {
#pragma unroll
    for (int i = 0; i < together; i++) to[i] = points[((x ? 0 : P::of_x) + point + i) * Staged::pitch + own_feature];
  };
  float own[together];
  load(of_x, first, own);
  double sum[together] = {};
  for (int other = 0; first < own_points && other < others; other += together) {
    Few<float, together> e[together];  // of four rows of a column each
    float most = 0;
#pragma unroll
    for (int i = 0; i < together; i++) {
      const int at = Planes<Shape::R>::place(of_x ? first : other, (of_x ? other : first) + i);
      e[i] = *reinterpret_cast<const Few<float, together> *>(planes.data + at);
#pragma unroll
      for (int k = 0; k < together; k++) most = fmaxf(most, e[i].v[k]);
    }
    if (!is_live(most)) continue;
    float there[together];
    load(!of_x, other, there);
#pragma unroll
    for (int k = 0; k < together; k++) {
      float part = 0;
#pragma unroll
      for (int i = 0; i < together; i++) {
        const float weight = of_x ? e[i].v[k] : e[k].v[i];
        if (own[k] > there[i]) part += weight;
        if (own[k] < there[i]) part -= weight;
      }
      sum[k] += static_cast<double>(part);
    }
  }
  if (feature + own_feature >= a.features) return;
  const int64_t to = pair.index * out.stride[0] + (feature + own_feature) * out.stride[2];
#pragma unroll
  for (int k = 0; k < together; k++)
    if (first + k < padded)
      put_element(out.data, to + (first + k) * out.stride[1], a.dtype,
                  first + k < own_points ? static_cast<float>(factor * sum[k]) : 0.0f);
}

// Of both series, by all threads. E is in the first plane, 0 in what whole tiles have beyond the pair. staged: memory
// for the points.
template <class Shape>
__device__ __forceinline__ void store_signed_sums(const Args &a, const Pair &pair, const Planes<Shape::R> &planes,
                                                  float *staged, double factor) {
  using P = Points<Shape>;
  StagedPoints<Shape>::each(a, pair, staged, [&](int feature, const float *points) {
    const int threads_of_feature = Shape::threads / P::features;
    for (int four = static_cast<int>(threadIdx.x) / P::features; four < P::count / together; four += threads_of_feature)
      if (four < P::of_x / together)
        store_signed_sums_of<Shape, true>(a, pair, planes, four * together, feature, points, factor);
      else
        store_signed_sums_of<Shape, false>(a, pair, planes, four * together - P::of_x, feature, points, factor);
  });
}

}  // namespace sdtw::cuda::short_pairs
