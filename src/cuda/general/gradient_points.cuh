// The points that gradients are made of, in shared memory: x of the strip, which stays there if all features have room,
// and y of the columns of half a tile, which are copied while other warps of the block end the round before.
#pragma once

#include "cuda/general/costs.cuh"

namespace sdtw::cuda::general {

// What is summed up for a feature: differences, or their signs (cityblock), or what the metric says. none: the other
// points' opposites with all their digits, of normalised points, from which what lies along a point's own is taken away
// in the end (finish_cosine_kernel). Where points are nearly parallel little is left.
enum class Differences { themselves, signs, either, none };

// In shared memory: x [count][pitch], y [columns][count], and of tangents the same behind that. By `threads` threads.
template <int T, int threads, bool tangents>
struct GradientPoints {
  static constexpr int columns = (T + warp + K - 2) / K * K,
                       series = tangents ? 2 : 1;  // multiples of K, to be aligned
  // Of one feature.
  static __host__ __device__ __forceinline__ size_t bytes(const Args &a) {
    return size_t{series} * (pitch + columns) * staged_bytes(a.of_x.dtype);
  }

  unsigned char *memory;
  int from, count;  // the features that are there

  template <class In>
  __device__ __forceinline__ In *x(int which) const {
    return reinterpret_cast<In *>(memory) + which * count * (pitch + columns);
  }
  template <class In>
  __device__ __forceinline__ In *y(int which) const {
    return x<In>(which) + count * pitch;
  }

  // Copies points [first, first + steps) of a series, those that are in [0, end). to(point, feature): where they go.
  // otherwise: what becomes of those that there are not.
  template <class In, class To, class Otherwise>
  __device__ __forceinline__ void copy(const Series &of, int64_t number, int first, int steps, int end, int thread,
                                       const To &to, const Otherwise &otherwise) const {
    const int points_on = threads / count, features_on = threads % count;
    const int64_t size = of.dtype == SDTW_F64 ? 8 : of.dtype == SDTW_F32 ? 4 : 2;
    const int64_t to_point = of.stride[1] * size, to_feature = of.stride[2] * size;
    const char *const base =
        static_cast<const char *>(of.data) + number * of.stride[0] * size + first * to_point + from * to_feature;
    for (int i = thread / count, f = thread % count; i < steps;) {
      In *const place = to(i, f);
      const char *const at = base + i * to_point + f * to_feature;
      if (!of.data || first + i < 0 || first + i >= end)
        otherwise(place);
      else if (sizeof(In) == sizeof(double) || of.dtype == SDTW_F32)
        __pipeline_memcpy_async(place, at, sizeof(In));
      else
        *place = element<In>(at, 0, of.dtype);
      i += points_on, f += features_on;
      if (f >= count) f -= count, i++;
    }
  }
  template <class In>
  __device__ __forceinline__ void bring_rows(const Series &of, In *rows, const Task &s, int thread) const {
    copy<In>(
        of, s.index.x, s.row, strip_rows, s.n, thread, [&](int i, int f) { return rows + f * pitch + i; },
        [](In *place) { *place = 0; });
  }
  template <class In>
  __device__ __forceinline__ void bring_rows(const Args &a, const Task &s, int thread) const {
    for (int which = 0; which < series; which++) bring_rows<In>(which ? a.tangent_x : a.of_x, x<In>(which), s, thread);
  }
  // Columns of which four features at a time can be copied. Returns whether that is so.
  __device__ __forceinline__ bool copy_by_four(const Series &of, const Task &s, int first, float *to,
                                               int thread) const {
    if (!of.data || of.dtype != SDTW_F32 || of.stride[2] != 1 || of.stride[1] % 4 != 0 || count % 4 != 0) return false;
    const float *const base = static_cast<const float *>(of.data) + s.index.y * of.stride[0] + from;
    if (reinterpret_cast<uintptr_t>(base) % sizeof(float4) != 0) return false;
    const int each = count / 4, columns_on = threads / each, features_on = threads % each;
    for (int i = thread / each, f = thread % each; i < columns;) {
      auto *const place = reinterpret_cast<float4 *>(to) + i * each + f;
      if (first + i < 0 || first + i >= s.m)
        *place = {};
      else
        __pipeline_memcpy_async(place, base + (first + i) * of.stride[1] + 4 * f, sizeof(float4));
      i += columns_on, f += features_on;
      if (f >= each) f -= each, i++;
    }
    return true;
  }
  // Of the columns that lanes meet in T steps.
  template <class In>
  __device__ __forceinline__ void bring_columns(const Args &a, const Task &s, int first_step, int thread) const {
    for (int which = 0; which < series; which++) {
      In *const to = y<In>(which);
      if constexpr (sizeof(In) == sizeof(float))
        if (copy_by_four(which ? a.tangent_y : a.of_y, s, first_step - (warp - 1), to, thread)) continue;
      copy<In>(
          which ? a.tangent_y : a.of_y, s.index.y, first_step - (warp - 1), columns, s.m, thread,
          [&](int i, int f) { return to + i * count + f; }, [](In *place) { *place = 0; });
    }
  }
  __device__ __forceinline__ void bring_rows(const Args &a, const Task &s, int thread) const {
    a.of_x.dtype == SDTW_F64 ? bring_rows<double>(a, s, thread) : bring_rows<float>(a, s, thread);
    __pipeline_commit();
  }
  __device__ __forceinline__ void bring_columns(const Args &a, const Task &s, int first_step, int thread) const {
    a.of_x.dtype == SDTW_F64 ? bring_columns<double>(a, s, first_step, thread)
                             : bring_columns<float>(a, s, first_step, thread);
    __pipeline_commit();
  }
};

// Points, or with `tangents` their tangents, as a thread reads them that has some features of each.
template <class In>
struct StagedPoints {
  const In *x, *y;
  int features;

  template <class Points>
  __device__ __forceinline__ StagedPoints(const Points &points, bool tangents)
      : x(points.template x<In>(tangents)), y(points.template y<In>(tangents)), features(points.count) {}
  // The rows of a lane.
  template <class Real, int own>
  __device__ __forceinline__ void load_rows(Real (&to)[own][K], int lane, const int (&feature)[own]) const {
#pragma unroll
    for (int i = 0; i < own; i++) {
      const Rows<In> rows = *reinterpret_cast<const Rows<In> *>(x + feature[i] * pitch + lane * K);
#pragma unroll
      for (int k = 0; k < K; k++) to[i][k] = static_cast<Real>(rows.v[k]);
    }
  }
  // A column, counted from the one that the last lane meets in the first step.
  template <class Real, int own>
  __device__ __forceinline__ void load_column(Real (&to)[own][1], int column, const int (&feature)[own]) const {
#pragma unroll
    for (int i = 0; i < own; i++) to[i][0] = static_cast<Real>(y[column * features + feature[i]]);
  }
};

}  // namespace sdtw::cuda::general
