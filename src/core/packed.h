// A Z = m 2^e of two doubles in one word of 64 bits: all that state has room for where a float32 problem's pair is
// computed in float64.
//
// The word is e + (m - 1), in which e is exact and m has the digits that are left:
//   - While |e| + 1 < 2^39 in fixed point with 23 binary places, so that m has a float's 24 bits, as the float engine's
//     state does. The last bit is 0; in the other forms it is 1.
//   - While |e| + 1 < 2^53 in fixed point with the fewer places the larger e is, 17 to 4. From the first bit on: the
//     sign, a bit that is 0, 57 bits, four bits that say how many of these are places, and the last bit. m is off by no
//     more than a sixteenth of what e would be as a rounded double.
//   - Beyond that as a double, of which the second bit is 1, and m has no digits. A NaN is such a word, and not all
//     ones.
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
// floor(log2(v)), v positive and no denormal.
SDTW_HOST_DEVICE inline int exponent_of(double v) { return static_cast<int>(bits_of(v) >> 52) - 1023; }

// e + fraction in fixed point.
SDTW_HOST_DEVICE inline int64_t fixed_point_of(double e, double fraction, int places) {
  const double digits = fraction * (1 << places) + 0.5;  // 24 digits and a half: exact
  return static_cast<int64_t>(e) * (int64_t{1} << places) + static_cast<int64_t>(digits);
}
SDTW_HOST_DEVICE inline WideZ of_fixed_point(int64_t fixed, int places) {
  const int64_t unit = int64_t{1} << places;
  return {1 + static_cast<double>(fixed & (unit - 1)) / static_cast<double>(unit),
          static_cast<double>(fixed >> places)};
}

struct PackedPlaces {
  static constexpr int small = 23, least = 4, bits = 57;
  static constexpr uint64_t sign = uint64_t{1} << 63, is_double = uint64_t{1} << 62;
};

// m: positive and no denormal, or NaN.
SDTW_HOST_DEVICE inline uint64_t pack(WideZ z) {
  using Places = PackedPlaces;
  if (z.m != z.m) return 0x7ff8000000000001;
  const int shift = exponent_of(z.m);
  const double e = z.e + shift, fraction = double_of((bits_of(z.m) & 0x000fffffffffffff) | bits_of(1)) - 1;
  const double most = std::fabs(e) + 1;  // |e + fraction|, which may be rounded to that
  if (most < 0x1p39) return static_cast<uint64_t>(fixed_point_of(e, fraction, Places::small)) << 1;
  if (most >= 0x1p53) return bits_of(e) | 1;
  const int places = Places::bits - 1 - exponent_of(most);
  const int64_t fixed = fixed_point_of(e, fraction, places);
  const uint64_t magnitude = static_cast<uint64_t>(fixed < 0 ? -fixed : fixed);
  return (fixed < 0 ? Places::sign : 0) | magnitude << 5 | static_cast<uint64_t>(places - Places::least) << 1 | 1;
}

// m in [1, 2].
SDTW_HOST_DEVICE inline WideZ unpack(uint64_t word) {
  using Places = PackedPlaces;
  if (!(word & 1)) return of_fixed_point(static_cast<int64_t>(word) >> 1, Places::small);
  if (word & Places::is_double) {
    const double e = double_of(word & ~uint64_t{1});
    return {1 + (e - e), e == e ? e : 0};
  }
  const auto magnitude = static_cast<int64_t>((word & ~Places::sign) >> 5);
  return of_fixed_point(word & Places::sign ? -magnitude : magnitude, Places::least + static_cast<int>(word >> 1 & 15));
}

}  // namespace sdtw::core
