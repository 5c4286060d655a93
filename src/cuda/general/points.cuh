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

// An element of any type on its way from global memory: its bits, so that nothing waits for it before it is used.
struct Bits {
  Word word;

  __device__ __forceinline__ void load(const void *data, int64_t i, sdtw_dtype dtype) {
    switch (dtype) {
      case SDTW_F64: word = __ldg(static_cast<const Word *>(data) + i); break;
      case SDTW_F32: word = __ldg(static_cast<const unsigned *>(data) + i); break;
      default: word = __ldg(static_cast<const unsigned short *>(data) + i);
    }
  }
  __device__ __forceinline__ double number(sdtw_dtype dtype) const {
    switch (dtype) {
      case SDTW_F64: return __longlong_as_double(word);
      case SDTW_F16: return half_of(static_cast<unsigned short>(word));
      case SDTW_BF16: return __uint_as_float(static_cast<unsigned>(word) << 16);
      default: return __uint_as_float(static_cast<unsigned>(word));
    }
  }
  static __device__ __forceinline__ float half_of(unsigned short bits) {
    __half v;
    static_assert(sizeof v == sizeof bits, "the bits of a half are those of a short");
    memcpy(&v, &bits, sizeof v);
    return __half2float(v);
  }
};

// A thread's share of the features [from, from + at_once) of a tile's points, on its way from global to shared memory.
// Points outside of the pair are 0. thread: of the `threads` that do so. All of a thread's loads are on their way
// before the first of them is waited for.
template <int T, int threads>
struct Fetched {
  static constexpr int rows_at_once = threads / at_once, of_x = strip_rows / rows_at_once;
  static constexpr int of_y = (T + warp + rows_at_once - 1) / rows_at_once;
  Bits x[of_x], y[of_y];

  template <int count>
  static __device__ __forceinline__ void load(Bits (&to)[count], const Series &series, int64_t number, int from,
                                              int end, int f, bool wanted) {
    const int64_t first = number * series.stride[0] + from * series.stride[1] + f * series.stride[2];
    wanted = wanted && series.data;
#pragma unroll
    for (int i = 0; i < count; i++) {
      const int at = from + i * rows_at_once;
      to[i].word = 0;
      if (wanted && at >= 0 && at < end)
        to[i].load(series.data, first + i * rows_at_once * series.stride[1], series.dtype);
    }
  }
  // with_rows: x is not there yet.
  __device__ __forceinline__ void load(const Args &a, const Task &s, const Series &of_rows, const Series &of_columns,
                                       int first_step, int from, int thread, bool with_rows) {
    const int f = from + thread % at_once, place = thread / at_once;
    if (with_rows) load(x, of_rows, s.index.x, s.row + place, s.n, f, f < a.features);
    load(y, of_columns, s.index.y, first_step - (warp - 1) + place, s.m, f, f < a.features);
  }
  __device__ __forceinline__ void store(Points to, sdtw_dtype dtype, int thread, bool with_rows) const {
    const int f = thread % at_once, first = thread / at_once;
    if (with_rows)
#pragma unroll
      for (int i = 0; i < of_x; i++)
        to.x[f * staged_rows + place_of_row(first + i * rows_at_once)] = x[i].number(dtype);
#pragma unroll
    for (int i = 0; i < of_y; i++)
      if (first + i * rows_at_once < T + warp)
        to.y[f * staged_columns<T> + first + i * rows_at_once] = y[i].number(dtype);
  }
};

}  // namespace sdtw::cuda::general
