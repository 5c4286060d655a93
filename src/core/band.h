// Which cells a path may visit (sdtw.h, sdtw_band), for host and device.
#pragma once

#include <cmath>

#include "core/numbers.h"
#include "sdtw.h"

namespace sdtw::core {

struct Interval {
  int64_t first, end;  // empty where end <= first
};

// The corridor of a pair of n rows and m columns. Of two rows the lower one begins and ends no further left.
struct Band {
  sdtw_band kind = SDTW_BAND_NONE;
  double radius = 0;  // or the slope
  int64_t n = 0, m = 0;

  SDTW_HOST_DEVICE bool admits(int64_t i, int64_t j) const {
    switch (kind) {
      case SDTW_BAND_SAKOE_CHIBA:
        return double(j - i) >= -radius + double(m < n ? m - n : 0) &&
               double(j - i) <= radius + double(m > n ? m - n : 0);
      case SDTW_BAND_ABSOLUTE: return double(i < j ? j - i : i - j) <= radius;
      case SDTW_BAND_ITAKURA: {
        // As tslearn has it: slopes are those of a square, scaled by n / m, and bounds are rounded to hundredths.
        const double most = radius * (double(n) / double(m)), least = 1 / radius * (double(n) / double(m));
        const double from = double(j), to = double(m - 1 - j), row = double(i);
        return row >= hundredths(least * from) && row <= hundredths(most * from) &&
               row >= hundredths(double(n - 1) - most * to) && row <= hundredths(double(n - 1) - least * to);
      }
      default: return true;
    }
  }

  // The columns of a row that it admits.
  SDTW_HOST_DEVICE Interval columns(int64_t i) const {
    if (kind == SDTW_BAND_NONE) return {0, m};
    double first, last;
    if (kind == SDTW_BAND_ITAKURA) {
      const double scale = double(m) / double(n), row = double(i), below = double(n - 1 - i);
      first = std::fmax(row / radius * scale, double(m - 1) - below * radius * scale);
      last = std::fmin(row * radius * scale, double(m - 1) - below / radius * scale);
    } else {
      const bool follows = kind == SDTW_BAND_SAKOE_CHIBA;
      first = double(i) - radius + double(follows && m < n ? m - n : 0);
      last = double(i) + radius + double(follows && m > n ? m - n : 0);
    }
    // Near enough: what is left of rounding is decided cell by cell.
    int64_t from = clamp(std::ceil(first) - 2), to = clamp(std::floor(last) + 2);
    while (from <= to && !admits(i, from)) ++from;
    while (to >= from && !admits(i, to)) --to;
    return {from, to + 1};
  }

 private:
  SDTW_HOST_DEVICE static double hundredths(double v) { return std::rint(100 * v) / 100; }
  SDTW_HOST_DEVICE int64_t clamp(double v) const { return v < 0 ? 0 : v > double(m - 1) ? m - 1 : int64_t(v); }
};

}  // namespace sdtw::core
