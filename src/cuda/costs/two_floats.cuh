// Numbers of some 46 bits as sums of two floats, for costs in float problems where float64 is slow. Bounds of errors
// are those of Dekker (1971) and Knuth, TAOCP 2, 4.2.2: sums and products of floats are exact, and what is added up
// loses 2^-46 or so of itself each time. No number may overflow a float, or have digits below the range of floats:
// callers give up pairs of which a cost is infinite, or gamma is so small that such digits count.
#pragma once

#include "cuda/memory.cuh"

namespace sdtw::cuda {

struct TwoFloats {
  float high, low;

  // The first 47 bits of a double, without instructions of float64.
  static __device__ __forceinline__ TwoFloats of(double v) {
    const auto upper = static_cast<unsigned>(__double2hiint(v)), lower = static_cast<unsigned>(__double2loint(v));
    const int exponent = static_cast<int>(upper >> 20 & 0x7ff) - 1023;
    if (exponent < -120) return {0, 0};
    if (exponent > 127) return {__uint_as_float((upper & 0x80000000u) | 0x7f800000u), 0};
    const float unit = __uint_as_float(static_cast<unsigned>(exponent + 127) << 23 | (upper & 0x80000000u));
    const float high = __uint_as_float(__float_as_uint(unit) | (upper & 0xfffffu) << 3 | lower >> 29);
    return {high, static_cast<float>(lower & 0x1fffffffu) * 0x1p-52f * unit};
  }
};

__device__ __forceinline__ double whole_of(float v) { return static_cast<double>(v); }
__device__ __forceinline__ double whole_of(const TwoFloats &v) {
  return static_cast<double>(v.high) + static_cast<double>(v.low);
}
// The difference of two floats, exactly.
__device__ __forceinline__ TwoFloats difference(float a, float b) {
  const float high = a - b, of_b = high - a;
  return {high, (a - (high - of_b)) - (b + of_b)};
}
__device__ __forceinline__ TwoFloats difference(const TwoFloats &a, const TwoFloats &b) {
  const TwoFloats d = difference(a.high, b.high);
  return {d.high, d.low + (a.low - b.low)};
}
__device__ __forceinline__ void add(TwoFloats &sum, const TwoFloats &v) {
  const float high = sum.high + v.high, of_v = high - sum.high;
  sum.low += ((sum.high - (high - of_v)) + (v.high - of_v)) + v.low;
  sum.high = high;
}
__device__ __forceinline__ TwoFloats product(const TwoFloats &a, const TwoFloats &b) {
  const float high = __fmul_rn(a.high, b.high);
  return {high, fmaf(a.low, b.high, fmaf(a.high, b.low, fmaf(a.high, b.high, -high)))};
}
__device__ __forceinline__ TwoFloats product(const TwoFloats &a, float b) {
  const float high = __fmul_rn(a.high, b);
  return {high, fmaf(a.low, b, fmaf(a.high, b, -high))};
}
// The same number with as many digits in `high` as there is room for.
__device__ __forceinline__ TwoFloats normalised(const TwoFloats &v) {
  const float high = v.high + v.low;
  return {high, v.low - (high - v.high)};
}
// Rounded up, so that `high` of no difference is 0.
__device__ __forceinline__ TwoFloats square(const TwoFloats &v) {
  const float high = __fmul_ru(v.high, v.high);
  return {high, fmaf(v.high + v.high, v.low, fmaf(v.high, v.high, -high))};
}
__device__ __forceinline__ TwoFloats absolute(const TwoFloats &v) {
  const unsigned sign = __float_as_uint(v.high) & 0x80000000u;
  return {fabsf(v.high), __uint_as_float(__float_as_uint(v.low) ^ sign)};
}

}  // namespace sdtw::cuda
