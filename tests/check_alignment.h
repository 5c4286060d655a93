// What is true of every expected alignment, whatever the costs, and needs no oracle: every path visits the first and
// the last cell, and each row and each column.
#pragma once

#include "compare.h"

namespace test {

// What is wrong with the alignment of a pair, or with the gradient of its given costs; empty if nothing is.
inline std::string check_alignment(const Case &c, const Result &result, int64_t b) {
  const double tolerance = 1e-5 + large_value_error(c, result.value[b]);
  const int64_t n = c.length_x(b), m = c.length_y(b), padded = c.problem.m;
  if (result.alignment.empty() || n < 1 || m < 1 || !std::isfinite(result.value[b])) return {};
  const double *const e = result.alignment.data() + b * c.problem.n * padded;
  std::vector<double> column(m, 0);
  const auto say = [](const char *what, int64_t index, double number) {
    std::ostringstream text;
    text << what << " " << index << ": " << number;
    return text.str();
  };
  for (int64_t i = 0; i < n; ++i) {
    double row = 0;
    for (int64_t j = 0; j < m; ++j) {
      const double cell = e[i * padded + j];
      if (!(cell >= 0 && cell <= 1 + tolerance)) return say("E is no probability in row", i, cell);
      row += cell;
      column[j] += cell;
    }
    if (!(row >= 1 - tolerance)) return say("sum of E in row", i, row);
  }
  for (int64_t j = 0; j < m; ++j)
    if (!(column[j] >= 1 - tolerance)) return say("sum of E in column", j, column[j]);
  if (!(std::abs(e[0] - 1) <= tolerance)) return say("E of cell", 0, e[0]);
  const double last = e[(n - 1) * padded + m - 1];
  if (!(std::abs(last - 1) <= tolerance)) return say("E of the last cell, of row", n - 1, last);
  return {};
}

}  // namespace test
