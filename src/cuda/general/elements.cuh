// What kernels that work on whole series have in common (series.cu, reduce.cu).
#pragma once

#include "cuda/general/costs.cuh"
#include "cuda/general/series.h"

namespace sdtw::cuda::general {

constexpr int threads = 256;  // of a block

__device__ __forceinline__ double element_of(const Target &t, int64_t i) { return element<double>(t.data, i, t.dtype); }
__device__ __forceinline__ int64_t place_in(const Target &t, int64_t b, int64_t row, int64_t column) {
  return b * t.stride[0] + row * t.stride[1] + column * t.stride[2];
}

// How many lanes of a warp share the features of a point: up to four each, then all of them.
__host__ __device__ inline int lanes_of_point(int features) {
  int lanes = 1;
  while (lanes < warp && 4 * lanes < features) lanes *= 2;
  return lanes;
}
// These lanes, as one of them sees them. Those of other points may be elsewhere in the code.
struct Lanes {
  int count, rank;
  unsigned mask;

  explicit __device__ __forceinline__ Lanes(int features)
      : count(lanes_of_point(features)),
        rank(lane_id() % count),
        mask((count == warp ? all_lanes : (1u << count) - 1) << (lane_id() - rank)) {}
  // Of the grid's, and how many these are.
  __device__ __forceinline__ int64_t number() const { return (blockIdx.x * int64_t{threads} + threadIdx.x) / count; }
  __device__ __forceinline__ int64_t all() const { return int64_t{gridDim.x} * threads / count; }
  __device__ __forceinline__ double sum(double v) const {
    for (int step = count / 2; step > 0; step /= 2) v += __shfl_xor_sync(mask, v, step);
    return v;
  }
  __device__ __forceinline__ double max(double v) const {
    for (int step = count / 2; step > 0; step /= 2) v = fmax(v, __shfl_xor_sync(mask, v, step));
    return v;
  }
};
__device__ __forceinline__ int length_of(const Side &side, int64_t series) {
  const int64_t length = read_length(side.lengths, series, side.rows, side.long_lengths);
  return length < 0 || length > side.rows ? 0 : static_cast<int>(length);
}

__device__ __forceinline__ double grad_of(const void *grad_value, bool f64, int64_t pair) {
  if (!grad_value) return 1;
  return f64 ? static_cast<const double *>(grad_value)[pair] : static_cast<const float *>(grad_value)[pair];
}

}  // namespace sdtw::cuda::general
