// Doubles, and sums of two floats in their place: how lanes pass them to each other, and words that they are stored as.
#pragma once

#include "cuda/costs/two_floats.cuh"
#include "cuda/general/cell.cuh"

namespace sdtw::cuda::general {

__device__ __forceinline__ double whole_of(double v) { return v; }
using cuda::whole_of;
__device__ __forceinline__ double opposite(double v) { return -v; }
__device__ __forceinline__ TwoFloats opposite(const TwoFloats &v) { return {-v.high, -v.low}; }
__device__ __forceinline__ double from_above(double v) { return __shfl_up_sync(all_lanes, v, 1); }
__device__ __forceinline__ TwoFloats from_above(const TwoFloats &v) {
  return {__shfl_up_sync(all_lanes, v.high, 1), __shfl_up_sync(all_lanes, v.low, 1)};
}
__device__ __forceinline__ double of_lane(double v, int lane) { return __shfl_sync(all_lanes, v, lane); }
__device__ __forceinline__ TwoFloats of_lane(const TwoFloats &v, int lane) {
  return {__shfl_sync(all_lanes, v.high, lane), __shfl_sync(all_lanes, v.low, lane)};
}
// As two words of a float's size, of a double any bits.
__device__ __forceinline__ void split(double v, float &first, float &second) {
  first = __int_as_float(__double2hiint(v)), second = __int_as_float(__double2loint(v));
}
__device__ __forceinline__ void split(const TwoFloats &v, float &first, float &second) {
  first = v.high, second = v.low;
}
__device__ __forceinline__ void join(float first, float second, double &v) {
  v = __hiloint2double(__float_as_int(first), __float_as_int(second));
}
__device__ __forceinline__ void join(float first, float second, TwoFloats &v) { v = {first, second}; }
// As a word that is never 0.
__device__ __forceinline__ Word word_of(double v) { return ~DoubleCell::pack(v); }
__device__ __forceinline__ Word word_of(const TwoFloats &v) {
  const unsigned high = v.high == v.high ? __float_as_uint(v.high) : 0x7fc00000u;
  return ~(static_cast<Word>(high) << 32 | __float_as_uint(v.low));
}
__device__ __forceinline__ void take(Word word, double &v) { v = __longlong_as_double(~word); }
__device__ __forceinline__ void take(Word word, TwoFloats &v) {
  v = {__uint_as_float(static_cast<unsigned>(~word >> 32)), __uint_as_float(static_cast<unsigned>(~word))};
}

}  // namespace sdtw::cuda::general
