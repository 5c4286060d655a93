// Points as digits for SliceCosts (slice_costs.cuh): what is stored of a point beforehand, and how a coordinate is cut
// into five or six balanced digits of 8 bits without float64 or 64-bit arithmetic.
#pragma once

#include "cuda/costs/two_floats.cuh"
#include "cuda/pair.cuh"

namespace sdtw::cuda {

// 2^e, |e| <= 126.
__device__ __forceinline__ float power_of_2(int e) { return __int_as_float((e + 127) << 23); }

// log2(e) / gamma, which has 31 digits (scale_of in backend.cu), as 2^exponent times a number in [1, 2).
struct SliceScale {
  int mantissa, exponent;  // the mantissa in units of 2^-30
  __device__ __forceinline__ explicit SliceScale(double scale) {
    const unsigned long long bits = __double_as_longlong(scale);
    mantissa = static_cast<int>((bits & 0xfffffffffffffull | 1ull << 52) >> 22);
    exponent = static_cast<int>(bits >> 52) - 1023;
  }
};

// What a point adds to costs, and its exponent, in one word. Norms have units of 2^-32 and are shifted by 8 bits; below
// these is the exponent.
using PointWord = long long;
__device__ __forceinline__ PointWord *words_of_points(const Args &a, int64_t pair) {
  return reinterpret_cast<PointWord *>(norms_of(a, pair));
}
__device__ __forceinline__ int exponent_of(PointWord word) { return static_cast<signed char>(word); }
// In units of 2^-(32 - left_out).
__device__ __forceinline__ long long norm_of(PointWord word, int left_out) { return word >> (8 + left_out); }
// norm: times log2(e) / gamma. Of pairs that FloatCell does not take the word may be any.
__device__ __forceinline__ PointWord point_word(double norm, int exponent) {
  const long long fixed = norm < 0x1p22 ? __double2ll_rn(norm * 0x1p32) : 0;
  return fixed << 8 | (exponent & 0xff);
}
// The exponent e of a point whose largest |coordinate| this is: that times 2^e is in [63.4, 126.8], so that the first
// digit is at most 127. Where all coordinates are tiny e is limited: then there are digits enough, since costs are as
// tiny beside those of other points.
__device__ __forceinline__ int choose_exponent(float largest) {
  return min(max(6 + 127 - (__float_as_int(largest * 1.01f) >> 23 & 0xff), -118), 100);
}

// How coordinates are cut. A plane has one digit of each of four, the highest digits first. Adding 128 to a digit and
// carrying on makes it a byte; 128 is taken off again by its highest bit.
constexpr float to_integer = 12582912.0f;  // 1.5 2^23: adding it rounds to an integer, in the low bits of the sum
constexpr unsigned digits_bias = 0x80808080u;

constexpr unsigned first_two = 0x5410, last_two = 0x7632;  // bytes of two words, for ptx::permute

// The second bytes, and the lowest, of four words.
__device__ __forceinline__ void planes_of(const unsigned (&words)[4], unsigned &second, unsigned &lowest) {
  constexpr unsigned lows = 0x5140;
  const unsigned of_01 = ptx::permute<lows>(words[0], words[1]), of_23 = ptx::permute<lows>(words[2], words[3]);
  second = ptx::permute<last_two>(of_01, of_23), lowest = ptx::permute<first_two>(of_01, of_23);
}

struct FiveDigits {
  static constexpr int count = 5;
  // v times 2^e, up being 2^(e + 8), as high 2^-8 + low 2^-32 with |low| up to 2^23, or a little more.
  struct Cut {
    int high, low;

    __device__ __forceinline__ Cut(const TwoFloats &v, float up) {
      const float sum = fmaf(v.high, up, to_integer);
      const float rest = fmaf(v.low, up, fmaf(v.high, up, -(sum - to_integer)));
      high = __float_as_int(sum) - __float_as_int(to_integer);
      low = __float2int_rn(rest * 0x1p24f);
    }
  };
  static __device__ __forceinline__ void pack(const Cut (&cut)[4], unsigned (&planes)[count]) {
    unsigned h[4], l[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int biased = cut[i].low + 0x808080;
      l[i] = static_cast<unsigned>(biased);
      h[i] = static_cast<unsigned>(cut[i].high + (biased >> 24) + 0x80);
    }
    constexpr unsigned thirds = 0x0062;
    const unsigned m01 = ptx::permute<thirds>(l[0], l[1]), m23 = ptx::permute<thirds>(l[2], l[3]);
    planes_of(h, planes[0], planes[1]);
    planes[2] = ptx::permute<first_two>(m01, m23);
    planes_of(l, planes[3], planes[4]);
#pragma unroll
    for (int i = 1; i < count; i++) planes[i] ^= digits_bias;
  }
};

struct SixDigits {
  static constexpr int count = 6;
  // v times 2^e, up being 2^(e + 8), as high 2^-8 + middle 2^-24 + low 2^-40 with |middle| up to 2^15 and |low| up to
  // 2^23. Products with `up` are exact, and so is what they leave.
  struct Cut {
    int high, middle, low;

    __device__ __forceinline__ Cut(const TwoFloats &v, float up) {
      const float sum = fmaf(v.high, up, to_integer), rest = fmaf(v.high, up, -(sum - to_integer));
      const float next = fmaf(rest, 0x1p16f, to_integer), last = fmaf(rest, 0x1p16f, -(next - to_integer));
      high = __float_as_int(sum) - __float_as_int(to_integer);
      middle = __float_as_int(next) - __float_as_int(to_integer);
      low = __float2int_rn(fmaf(last, 0x1p16f, v.low * up * 0x1p32f));
    }
    // Its square, in units of 2^-42.
    __device__ __forceinline__ unsigned long long square() const {
      const long long v = high * (1ll << 45) + middle * (1ll << 29) + low * (1ll << 13);
      const auto upper = static_cast<unsigned long long>(__mul64hi(v, v));
      return upper + (static_cast<unsigned long long>(v) * static_cast<unsigned long long>(v) >> 63);
    }
  };
  static __device__ __forceinline__ void pack(const Cut (&cut)[4], unsigned (&planes)[count]) {
    unsigned h[4], m[4], l[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int low = cut[i].low + 0x8080, middle = cut[i].middle + (low >> 16) + 0x8080;
      l[i] = static_cast<unsigned>(low), m[i] = static_cast<unsigned>(middle);
      h[i] = static_cast<unsigned>(cut[i].high + (middle >> 16) + 0x80);
    }
    planes_of(h, planes[0], planes[1]);
    planes_of(m, planes[2], planes[3]);
    planes_of(l, planes[4], planes[5]);
#pragma unroll
    for (int i = 1; i < count; i++) planes[i] ^= digits_bias;
  }
};

}  // namespace sdtw::cuda
