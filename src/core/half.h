// The types of 16 bits that inputs may have: they are stored, and computed with as float.
//
// Everything is inlined: the CPU kernels compile it once for each instruction set.
#pragma once

#include <cstdint>
#include <cstring>

#include "sdtw.h"

namespace sdtw::core {

inline __attribute__((always_inline)) uint32_t bits_of_float(float v) {
  uint32_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}
inline __attribute__((always_inline)) float float_of_bits(uint32_t bits) {
  float v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

// IEEE binary16. Conversions round to nearest, ties to even.
struct Half {
  uint16_t bits = 0;

  Half() = default;
  __attribute__((always_inline)) explicit Half(float v) {
    const uint32_t all = bits_of_float(v), sign = (all >> 16) & 0x8000, size = all & 0x7fffffff;
    uint32_t rounded;
    if (size > 0x7f800000)
      rounded = 0x7e00;
    else if (size >= 0x477ff000)  // 65520, half way to what would be 65536
      rounded = 0x7c00;
    else if (size < 0x38800000)  // less than 2^-14: the sum with 1/2 rounds it to a multiple of 2^-24
      rounded = bits_of_float(float_of_bits(size) + 0.5f) - 0x3f000000;
    else
      rounded = (size + 0xfff + ((size >> 13) & 1) - (112u << 23)) >> 13;
    bits = static_cast<uint16_t>(sign | rounded);
  }
  __attribute__((always_inline)) operator float() const {
    const uint32_t sign = uint32_t(bits & 0x8000) << 16, size = bits & 0x7fff;
    if (size >= 0x7c00) return float_of_bits(sign | 0x7f800000 | (size & 0x3ff) << 13);
    if (size < 0x400) return float_of_bits(sign | bits_of_float(float(size) * 0x1p-24f));
    return float_of_bits(sign | ((size << 13) + (112u << 23)));
  }
};

// The upper half of a float.
struct BFloat16 {
  uint16_t bits = 0;

  BFloat16() = default;
  __attribute__((always_inline)) explicit BFloat16(float v) {
    const uint32_t all = bits_of_float(v);
    bits = static_cast<uint16_t>(v != v ? 0x7fc0 : (all + 0x7fff + ((all >> 16) & 1)) >> 16);
  }
  __attribute__((always_inline)) operator float() const { return float_of_bits(uint32_t(bits) << 16); }
};

template <class T>
constexpr sdtw_dtype dtype_of = SDTW_F32;
template <>
inline constexpr sdtw_dtype dtype_of<double> = SDTW_F64;
template <>
inline constexpr sdtw_dtype dtype_of<Half> = SDTW_F16;
template <>
inline constexpr sdtw_dtype dtype_of<BFloat16> = SDTW_BF16;
constexpr int dtypes = SDTW_BF16 + 1;

}  // namespace sdtw::core
