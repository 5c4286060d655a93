// A Z = m 2^e of two doubles in one word of 64 bits: all that state has room for where a float32 problem's pair is
// computed in float64.
//
// While |e| < 2^39 the word has e exactly and m with a float's 24 bits, as the float engine's state does. Beyond that
// it is e + (m - 1) as a double, which has the fewer digits left for m the larger e is. The last bit tells which: 0
// or 1. A NaN is a word that is not all ones.
#pragma once

#include <cmath>
#include <cstring>

#include "core/numbers.h"

namespace sdtw::core {

struct WideZ {
  double m, e;  // e a whole number
};

SDTW_HOST_DEVICE inline uint64_t bits_of(double v) {
  uint64_t bits;
  std::memcpy(&bits, &v, sizeof bits);
  return bits;
}
SDTW_HOST_DEVICE inline double double_of(uint64_t bits) {
  double v;
  std::memcpy(&v, &bits, sizeof v);
  return v;
}

// m: positive and no denormal, or NaN.
SDTW_HOST_DEVICE inline uint64_t pack(WideZ z) {
  constexpr int mantissa = 23;
  if (z.m != z.m) return 0x7ff8000000000001;
  const int shift = static_cast<int>(bits_of(z.m) >> 52) - 1023;
  const double e = z.e + shift, fraction = double_of((bits_of(z.m) & 0x000fffffffffffff) | bits_of(1)) - 1;
  if (std::fabs(e) < 0x1p39) {
    const auto whole = static_cast<uint64_t>(static_cast<int64_t>(e));
    const double digits = fraction * (1 << mantissa) + 0.5;  // below 2^24: exact
    return ((whole << mantissa) + static_cast<uint64_t>(digits)) << 1;
  }
  return bits_of(e + fraction) | 1;
}

// m in [1, 2].
SDTW_HOST_DEVICE inline WideZ unpack(uint64_t word) {
  constexpr int mantissa = 23;
  if (word & 1) {
    const double v = double_of(word & ~uint64_t{1}), e = std::floor(v);
    return {1 + (v - e), v == v ? e : 0};
  }
  const auto fixed = static_cast<int64_t>(word) >> 1;
  return {1 + static_cast<double>(fixed & ((1 << mantissa) - 1)) * 0x1p-23, static_cast<double>(fixed >> mantissa)};
}

}  // namespace sdtw::core
