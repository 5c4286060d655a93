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
    if (kind == SDTW_BAND_NONE) return true;
    return reaches_right(i, j) && reaches_left(i, j);
  }

  // As far as it matters, of bands that have one.
  SDTW_HOST_DEVICE int64_t whole_radius() const { return radius < double(n + m) ? int64_t(radius) : n + m; }

  // The columns of a row that it admits.
  SDTW_HOST_DEVICE Interval columns(int64_t i) const {
    if (kind == SDTW_BAND_NONE) return {0, m};
    if (kind != SDTW_BAND_ITAKURA) {
      const bool follows = kind == SDTW_BAND_SAKOE_CHIBA;
      const int64_t reach = whole_radius();
      const int64_t first = i - reach + (follows && m < n ? m - n : 0);
      const int64_t last = i + reach + (follows && m > n ? m - n : 0);
      return {clamp(first, m), clamp(last + 1, m)};
    }
    // Each bound is where a condition that is monotone in the column changes. The rounding shifts it by up to
    // `slack` columns, within which it is sought.
    const double scale = double(m) / double(n), row = double(i), below = double(n - 1 - i), end = double(m - 1);
    const double rounding = 0.006 * scale * radius, tight = 0.006 * scale / radius;
    const double from_slow = row / radius * scale, from_steep = end - below * radius * scale;
    const double to_steep = row * radius * scale, to_slow = end - below / radius * scale;
    int64_t low = clamp(floor_of(std::fmax(from_slow - tight, from_steep - rounding)) - 1, m);
    int64_t high = clamp(floor_of(std::fmax(from_slow + tight, from_steep + rounding)) + 2, m);
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      reaches_left(i, middle) ? high = middle : low = middle + 1;
    }
    const int64_t first = low;
    low = clamp(floor_of(std::fmin(to_steep - rounding, to_slow - tight)) - 1, m);
    high = clamp(floor_of(std::fmin(to_steep + rounding, to_slow + tight)) + 2, m);
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      reaches_right(i, middle) ? low = middle + 1 : high = middle;
    }
    return {first, low};
  }

  // No fewer columns than `rows` rows, each below the other, admit together, and few more.
  SDTW_HOST_DEVICE int64_t widest(int64_t rows) const {
    if (kind == SDTW_BAND_NONE) return m;
    if (kind != SDTW_BAND_ITAKURA) {
      const int64_t apart = n > m ? n - m : m - n;
      return clamp(rows + 2 * whole_radius() + (kind == SDTW_BAND_SAKOE_CHIBA ? apart : 0), m);
    }
    // A parallelogram in a square is at most 1 - 1 / slope of it wide, and from row to row moves by the slope.
    // Rounding, as above, is on either side.
    const double scale = double(m) / double(n), per_row = scale * radius;
    const double columns = double(m) * (1 - 1 / radius) + (double(rows) + 0.02) * per_row + 4;
    return columns < double(m) ? clamp(int64_t(columns), m) : m;
  }

 private:
  // The conditions that hold from some column on, and those that hold up to some column.
  SDTW_HOST_DEVICE bool reaches_left(int64_t i, int64_t j) const {
    switch (kind) {
      case SDTW_BAND_SAKOE_CHIBA: return double(j - i) >= -radius + double(m < n ? m - n : 0);
      case SDTW_BAND_ABSOLUTE: return double(i - j) <= radius;
      default:
        return double(i) <= hundredths(radius * (double(n) / double(m)) * double(j)) &&
               double(i) <= hundredths(double(n - 1) - 1 / radius * (double(n) / double(m)) * double(m - 1 - j));
    }
  }
  SDTW_HOST_DEVICE bool reaches_right(int64_t i, int64_t j) const {
    switch (kind) {
      case SDTW_BAND_SAKOE_CHIBA: return double(j - i) <= radius + double(m > n ? m - n : 0);
      case SDTW_BAND_ABSOLUTE: return double(j - i) <= radius;
      default:  // as tslearn has it: slopes are those of a square, scaled by n / m, bounds are rounded to hundredths
        return double(i) >= hundredths(1 / radius * (double(n) / double(m)) * double(j)) &&
               double(i) >= hundredths(double(n - 1) - radius * (double(n) / double(m)) * double(m - 1 - j));
    }
  }
  SDTW_HOST_DEVICE static double hundredths(double v) { return std::rint(100 * v) / 100; }
  SDTW_HOST_DEVICE static int64_t floor_of(double v) {  // as far as it matters: columns are less than 2^30
    return int64_t(std::floor(std::fmin(std::fmax(v, -1e10), 1e10)));
  }
  SDTW_HOST_DEVICE static int64_t clamp(int64_t v, int64_t most) { return v < 0 ? 0 : v > most ? most : v; }
};

}  // namespace sdtw::core
