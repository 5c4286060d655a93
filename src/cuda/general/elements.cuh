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

__device__ __forceinline__ double grad_of(const void *grad_value, bool f64, int64_t pair) {
  if (!grad_value) return 1;
  return f64 ? static_cast<const double *>(grad_value)[pair] : static_cast<const float *>(grad_value)[pair];
}

}  // namespace sdtw::cuda::general
