// Elements of the caller's arrays, read and written whatever their type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/memory.cuh"

namespace sdtw::cuda {

template <class T>
__device__ __forceinline__ T element(const void *data, int64_t i, sdtw_dtype dtype) {
  switch (dtype) {
    case SDTW_F64: return static_cast<T>(__ldg(static_cast<const double *>(data) + i));
    case SDTW_F16: return static_cast<T>(__half2float(__ldg(static_cast<const __half *>(data) + i)));
    case SDTW_BF16: return static_cast<T>(__bfloat162float(__ldg(static_cast<const __nv_bfloat16 *>(data) + i)));
    default: return static_cast<T>(__ldg(static_cast<const float *>(data) + i));
  }
}
// Of a number's bits, of either half type.
__device__ __forceinline__ float half_type_number(unsigned short bits, sdtw_dtype dtype) {
  if (dtype == SDTW_BF16) return __uint_as_float(static_cast<unsigned>(bits) << 16);
  __half v;
  static_assert(sizeof v == sizeof bits, "the bits of a half are those of a short");
  memcpy(&v, &bits, sizeof v);
  return __half2float(v);
}
__device__ __forceinline__ unsigned short half_type_bits(float v, sdtw_dtype dtype) {
  unsigned short bits;
  const auto take = [&](auto rounded) {
    static_assert(sizeof rounded == sizeof bits, "the bits of a half are those of a short");
    memcpy(&bits, &rounded, sizeof bits);
  };
  dtype == SDTW_BF16 ? take(__float2bfloat16_rn(v)) : take(__float2half_rn(v));
  return bits;
}
// As an element of float32, or as the bits of one of a half type.
template <class Element>
__device__ __forceinline__ Element rounded(float v, sdtw_dtype dtype) {
  if constexpr (std::is_same_v<Element, float>)
    return v;
  else
    return half_type_bits(v, dtype);
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

}  // namespace sdtw::cuda
