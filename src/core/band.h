// Which cells a path may visit (sdtw.h, sdtw_band), for host and device.
#pragma once

#include <cmath>

#include "core/numbers.h"
#include "sdtw.h"

namespace sdtw::core {

struct Interval {
  int64_t first, end;  // empty where end <= first
};

// The diagonals that SDTW_BAND_SAKOE_CHIBA, or SDTW_BAND_ABSOLUTE, which does not follow to the last cell, lies
// between: cell (i, j) of n rows and m columns is admitted if least <= j - i <= most.
template <class Int>
struct Diagonals {
  Int least, most;

  SDTW_HOST_DEVICE Diagonals(Int n, Int m, Int radius, bool follows = true)
      : least((follows && m < n ? m - n : 0) - radius), most((follows && m > n ? m - n : 0) + radius) {}
};

// The corridor of a pair of n rows and m columns. Of two rows the lower one begins and ends no further left. All
// devices and instruction sets have the same cells.
struct Band {
  sdtw_band kind = SDTW_BAND_NONE;
  double radius = 0;  // or the slope
  int64_t n = 0, m = 0;

  SDTW_HOST_DEVICE bool admits(int64_t i, int64_t j) const {
    const Interval of_row = columns(i);
    return of_row.first <= j && j < of_row.end;
  }

  // As far as it matters, of bands that have one.
  SDTW_HOST_DEVICE int64_t whole_radius() const { return radius < double(n + m) ? int64_t(radius) : n + m; }

  // The columns of a row that it admits.
  SDTW_HOST_DEVICE Interval columns(int64_t i) const {
    if (kind == SDTW_BAND_NONE) return {0, m};
    if (kind == SDTW_BAND_ITAKURA) return overlap(columns_of_cone(i), columns_of_cone(n - 1 - i), m);
    const Diagonals<int64_t> admitted = diagonals();
    return {clamp(i + admitted.least, m), clamp(i + admitted.most + 1, m)};
  }

  // The rows of a column that it admits: those whose columns have it.
  SDTW_HOST_DEVICE Interval rows(int64_t j) const {
    if (kind == SDTW_BAND_NONE) return {0, n};
    if (kind == SDTW_BAND_ITAKURA) return overlap(rows_of_cone(j), rows_of_cone(m - 1 - j), n);
    const Diagonals<int64_t> admitted = diagonals();
    return {clamp(j - admitted.most, n), clamp(j - admitted.least + 1, n)};
  }

  // No fewer columns than `rows` rows, each below the other, admit together, and few more.
  SDTW_HOST_DEVICE int64_t widest(int64_t rows) const {
    if (kind == SDTW_BAND_NONE) return m;
    if (kind != SDTW_BAND_ITAKURA) {
      const Diagonals<int64_t> admitted = diagonals();
      return clamp(rows + admitted.most - admitted.least, m);
    }
    // A parallelogram in a square is at most 1 - 1 / slope of it wide, and from row to row moves by the slope.
    // Half a hundredth of a row, as below, is on either side.
    const double scale = double(m) / double(n), per_row = scale * radius;
    const double columns = double(m) * (1 - 1 / radius) + (double(rows) + 0.02) * per_row + 4;
    return columns < double(m) ? clamp(int64_t(columns), m) : m;
  }

 private:
  SDTW_HOST_DEVICE Diagonals<int64_t> diagonals() const {
    return {n, m, whole_radius(), kind == SDTW_BAND_SAKOE_CHIBA};
  }

  // Itakura's parallelogram is where a cone from the first cell and, turned by half, one from the last overlap:
  //   n j / (slope m) - 1/200 <= i <= slope n j / m + 1/200,
  // as tslearn rounds its bounds of rows to hundredths.
  //
  // of, opposite: what the cone has of a row, or a column, and of that which is as far from the other end; all: cells
  // there.
  SDTW_HOST_DEVICE static Interval overlap(Interval of, Interval opposite, int64_t all) {
    const int64_t first = all - opposite.end, end = all - opposite.first;
    return {clamp(of.first > first ? of.first : first, all), clamp(of.end < end ? of.end : end, all)};
  }
  // Where about the cone begins and ends is known to less than a millionth of a cell. Which of two cells it is, is the
  // sign of a fused multiply-add, which has one rounding and so the sign of what it rounds. Its factors are exact up to
  // 2^45 cells. Compilers find no product here that they could round in another way.
  SDTW_HOST_DEVICE Interval columns_of_cone(int64_t i) const {
    const double slope = bounded_slope(), below = double(200 * i - 1), above = double(200 * i + 1);
    const double per_row = double(m) / double(200 * n);
    const double first = nearest(below / slope * per_row), last = nearest(above * slope * per_row);
    const bool has_first = std::fma(slope, double(200 * n) * first, -(below * double(m))) >= 0;
    const bool has_last = std::fma(slope, above * double(m), -(double(200 * n) * last)) >= 0;
    return {int64_t(has_first ? first : first + 1), int64_t(has_last ? last + 1 : last)};
  }
  SDTW_HOST_DEVICE Interval rows_of_cone(int64_t j) const {
    const double slope = bounded_slope(), at = double(200 * n) * double(j);
    const double first = nearest((at / (slope * double(m)) - 1) / 200),
                 last = nearest((slope * at / double(m) + 1) / 200);
    const bool has_first = std::fma(slope, (200 * first + 1) * double(m), -at) >= 0;
    const bool has_last = std::fma(slope, at, -((200 * last - 1) * double(m))) >= 0;
    return {int64_t(has_first ? first : first + 1), int64_t(has_last ? last + 1 : last)};
  }
  SDTW_HOST_DEVICE double bounded_slope() const { return std::fmin(radius, 0x1p38); }  // beyond 200 n and m none differ
  SDTW_HOST_DEVICE static double nearest(double column) {  // as far as it matters: columns are less than 2^30
    return std::rint(std::fmin(std::fmax(column, -0x1p31), 0x1p31));
  }
  SDTW_HOST_DEVICE static int64_t clamp(int64_t v, int64_t most) { return v < 0 ? 0 : v > most ? most : v; }
};

}  // namespace sdtw::core
