// The points of a tile in shared memory: how elements are read and written, whatever their type, and how features come
// from global to shared memory, `at_once` at a time, by the warps that fill tiles with costs.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "core/metric.h"
#include "cuda/general/task.cuh"

namespace sdtw::cuda::general {

constexpr int at_once = 8;  // features

// Where x and y of a feature lie in shared memory, in elements. A lane's rows are `rows_apart` apart, so that the lanes
// of a warp read side by side; this and the pitches put what a warp stores into different banks.
constexpr int rows_apart = warp + 1, staged_rows = K * rows_apart + 14;
template <int T>
constexpr int staged_columns = T + warp + 2;
__device__ __forceinline__ constexpr int place_of_row(int row) { return row % K * rows_apart + row / K; }

template <class T>
__device__ __forceinline__ T element(const void *data, int64_t i, sdtw_dtype dtype) {
  switch (dtype) {
    case SDTW_F64: return static_cast<T>(__ldg(static_cast<const double *>(data) + i));
    case SDTW_F16: return static_cast<T>(__half2float(__ldg(static_cast<const __half *>(data) + i)));
    case SDTW_BF16: return static_cast<T>(__bfloat162float(__ldg(static_cast<const __nv_bfloat16 *>(data) + i)));
    default: return static_cast<T>(__ldg(static_cast<const float *>(data) + i));
  }
}
template <class T>
__device__ __forceinline__ void put_element(void *data, int64_t i, sdtw_dtype dtype, T v) {
  switch (dtype) {
    case SDTW_F64: static_cast<double *>(data)[i] = static_cast<double>(v); break;
    case SDTW_F16: static_cast<__half *>(data)[i] = __float2half_rn(static_cast<float>(v)); break;
    case SDTW_BF16: static_cast<__nv_bfloat16 *>(data)[i] = __float2bfloat16_rn(static_cast<float>(v)); break;
    default: static_cast<float *>(data)[i] = static_cast<float>(v);
  }
}

// What an element is as a number.
__device__ __forceinline__ double number_of(double v) { return v; }
__device__ __forceinline__ float number_of(float v) { return v; }
__device__ __forceinline__ float number_of(__half v) { return __half2float(v); }
__device__ __forceinline__ float number_of(__nv_bfloat16 v) { return __bfloat162float(v); }

// Points of a tile in shared memory: x [at_once][staged_rows], y [at_once][staged_columns]; column 0 of y is the one in
// which the last lane is in the tile's first step.
struct Points {
  double *x, *y;
};
template <int T>
constexpr int points_size = at_once *(staged_rows + staged_columns<T>);  // in doubles
template <int T>
__device__ __forceinline__ Points points_at(double *memory, int which) {
  double *x = memory + which * points_size<T>;
  return {x, x + at_once * staged_rows};
}

// A thread's share of the features [from, from + at_once) of a tile's points, on its way from global to shared memory.
// Points outside of the pair are 0. thread: of the `threads` that do so. All of a thread's loads are on their way
// before the first of them is waited for.
template <int T, int threads, class In>
struct Fetched {
  static constexpr int rows_at_once = threads / at_once, of_x = strip_rows / rows_at_once;
  static constexpr int of_y = (T + warp + rows_at_once - 1) / rows_at_once;
  In x[of_x], y[of_y];

  static __device__ __forceinline__ In load(const In *p) {
    if constexpr (sizeof(In) == 2)
      return *p;
    else
      return __ldg(p);
  }
  // with_rows: x is not there yet.
  __device__ __forceinline__ void load(const Args &a, const Task &s, const Series &of_rows, const Series &of_columns,
                                       int first_step, int from, int thread, bool with_rows) {
    const int f = thread % at_once, row = s.row + thread / at_once, column = first_step - (warp - 1) + thread / at_once;
    const bool wanted = from + f < a.features;
    const In zero(0.0f);
    if (with_rows) {
      const In *from_x = static_cast<const In *>(of_rows.data) + s.index.x * of_rows.stride[0] +
                         row * of_rows.stride[1] + (from + f) * of_rows.stride[2];
#pragma unroll
      for (int i = 0; i < of_x; i++) {
        const bool there = wanted && of_rows.data && row + i * rows_at_once < s.n;
        x[i] = there ? load(from_x + i * rows_at_once * of_rows.stride[1]) : zero;
      }
    }
    const In *from_y = static_cast<const In *>(of_columns.data) + s.index.y * of_columns.stride[0] +
                       column * of_columns.stride[1] + (from + f) * of_columns.stride[2];
#pragma unroll
    for (int i = 0; i < of_y; i++) {
      const int at = column + i * rows_at_once;
      const bool there = wanted && of_columns.data && at >= 0 && at < s.m;
      y[i] = there ? load(from_y + i * rows_at_once * of_columns.stride[1]) : zero;
    }
  }
  __device__ __forceinline__ void store(Points to, int thread, bool with_rows) const {
    const int f = thread % at_once, first = thread / at_once;
    if (with_rows)
#pragma unroll
      for (int i = 0; i < of_x; i++) to.x[f * staged_rows + place_of_row(first + i * rows_at_once)] = number_of(x[i]);
#pragma unroll
    for (int i = 0; i < of_y; i++)
      if (first + i * rows_at_once < T + warp) to.y[f * staged_columns<T> + first + i * rows_at_once] = number_of(y[i]);
  }
};

// Calls visit with a number of the type that series have.
template <class Visit>
__device__ __forceinline__ void with_type(sdtw_dtype dtype, const Visit &visit) {
  switch (dtype) {
    case SDTW_F64: return visit(double(0));
    case SDTW_F16: return visit(__half(0.0f));
    case SDTW_BF16: return visit(__nv_bfloat16(0.0f));
    default: return visit(0.0f);
  }
}

}  // namespace sdtw::cuda::general
