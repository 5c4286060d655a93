// The types that arrays are stored in, as tests read and write them: rounding to nearest even, written on its own.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "sdtw.h"

namespace test {

inline size_t size_of(sdtw_dtype dtype) { return dtype == SDTW_F64 ? 8 : dtype == SDTW_F32 ? 4 : 2; }
inline bool is_half(sdtw_dtype dtype) { return size_of(dtype) == 2; }

// Digits, and exponents of the least and the largest number, of the two halves.
struct HalfFormat {
  int digits, least_exponent, bits_of_exponent;
};
inline HalfFormat format_of(sdtw_dtype dtype) {
  return dtype == SDTW_F16 ? HalfFormat{11, -14, 5} : HalfFormat{8, -126, 8};
}
inline double largest_of(sdtw_dtype dtype) {
  return dtype == SDTW_F16    ? 65504
         : dtype == SDTW_BF16 ? 0x1.FEp127
         : dtype == SDTW_F32  ? 0x1.fffffep127
                              : 0x1.fffffffffffffp1023;
}

// The nearest number that dtype has.
inline double rounded(sdtw_dtype dtype, double value) {
  if (dtype == SDTW_F64 || !std::isfinite(value) || value == 0) return value;
  if (dtype == SDTW_F32) return static_cast<double>(static_cast<float>(value));
  const HalfFormat format = format_of(dtype);
  const int exponent = std::max(std::ilogb(value), format.least_exponent) - (format.digits - 1);
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
  return std::abs(result) > largest_of(dtype) ? std::copysign(HUGE_VAL, value) : result;
}

// Where types round to infinity, an infinity as the least number that would become one, which is how far off it is at
// least of one that does not.
inline double within_range(sdtw_dtype dtype, double value) {
  if (dtype == SDTW_F64 || !std::isinf(value)) return value;
  return std::copysign(dtype == SDTW_F16 ? 65520 : dtype == SDTW_BF16 ? 0x1.ffp127 : 0x1.ffffffp127, value);
}

// What rounding to dtype may change a number by.
inline double half_an_ulp(sdtw_dtype dtype, double value) {
  if (dtype == SDTW_F32) return 0x1p-150;  // what rounding may take of denormals; of others limits are relative
  if (!is_half(dtype) || !std::isfinite(value)) return 0;
  const HalfFormat format = format_of(dtype);
  const int exponent = value == 0 ? format.least_exponent : std::max(std::ilogb(value), format.least_exponent);
  return std::ldexp(0.5, exponent - (format.digits - 1));
}

inline uint16_t half_bits(sdtw_dtype dtype, double value) {
  const HalfFormat format = format_of(dtype);
  const int fraction_bits = format.digits - 1;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const int special = ((1 << format.bits_of_exponent) - 1) << fraction_bits;
  if (std::isnan(value)) return static_cast<uint16_t>(special | 1 << (fraction_bits - 1));
  const double magnitude = std::abs(rounded(dtype, value));
  if (std::isinf(magnitude)) return static_cast<uint16_t>(sign | special);
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::ilogb(magnitude), format.least_exponent);
  const int digits = static_cast<int>(std::ldexp(magnitude, fraction_bits - exponent));  // the leading 1 too
  return static_cast<uint16_t>(sign | (((exponent - format.least_exponent) << fraction_bits) + digits));
}

inline double half_value(sdtw_dtype dtype, uint16_t bits) {
  const HalfFormat format = format_of(dtype);
  const int fraction_bits = format.digits - 1, largest = (1 << format.bits_of_exponent) - 1;
  const int exponent = (bits & 0x7fff) >> fraction_bits, fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == largest) return fraction ? NAN : sign * HUGE_VAL;
  const int digits = exponent ? fraction + (1 << fraction_bits) : fraction;
  return sign * std::ldexp(digits, std::max(exponent, 1) - 1 + format.least_exponent - fraction_bits);
}

// Reads and writes one element of type dtype as a double.
inline double load(sdtw_dtype dtype, const unsigned char *address) {
  double wide;
  float narrow;
  uint16_t half;
  if (dtype == SDTW_F64) return std::memcpy(&wide, address, sizeof wide), wide;
  if (dtype == SDTW_F32) return std::memcpy(&narrow, address, sizeof narrow), narrow;
  return std::memcpy(&half, address, sizeof half), half_value(dtype, half);
}
inline void store(sdtw_dtype dtype, unsigned char *address, double value) {
  if (dtype == SDTW_F64) {
    std::memcpy(address, &value, sizeof value);
  } else if (dtype == SDTW_F32) {
    const auto narrow = static_cast<float>(value);
    std::memcpy(address, &narrow, sizeof narrow);
  } else {
    const uint16_t half = half_bits(dtype, value);
    std::memcpy(address, &half, sizeof half);
  }
}

}  // namespace test
