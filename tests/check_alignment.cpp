#include "check_alignment.h"

namespace test {

double large_value_error(const Case &c, double value) {
  if (c.problem.gamma == 0) return 0;
  const double in_gammas = std::abs(value) / c.problem.gamma;
  return c.problem.dtype == SDTW_F64 || in_gammas > 0x1p38 ? 0x1p-52 * in_gammas : 0;
}

std::string check_alignment(const double *e, int64_t n, int64_t m, int64_t padded, double factor, double tolerance) {
  std::vector<double> column(m, 0);
  const auto say = [](const char *what, int64_t index, double number) {
    std::ostringstream text;
    text << what << " " << index << ": " << number;
    return text.str();
  };
  for (int64_t i = 0; i < n; ++i) {
    double row = 0;
    for (int64_t j = 0; j < m; ++j) {
      const double cell = e[i * padded + j] / factor;
      if (!(cell >= 0 && cell <= 1 + tolerance)) return say("E is no probability in row", i, cell);
      row += cell;
      column[j] += cell;
    }
    if (!(row >= 1 - tolerance)) return say("sum of E in row", i, row);
  }
  for (int64_t j = 0; j < m; ++j)
    if (!(column[j] >= 1 - tolerance)) return say("sum of E in column", j, column[j]);
  const double first = e[0] / factor, last = e[(n - 1) * padded + m - 1] / factor;
  if (!(std::abs(first - 1) <= tolerance)) return say("E of cell", 0, first);
  if (!(std::abs(last - 1) <= tolerance)) return say("E of the last cell, of row", n - 1, last);
  return {};
}

std::string check_alignment(const Case &c, const Result &result, int64_t b) {
  const int64_t n = c.length_x(b), m = c.length_y(b), padded = c.problem.m, first = b * c.problem.n * padded;
  if (n < 1 || m < 1 || !std::isfinite(result.value[b])) return {};
  const sdtw_dtype dtype = c.problem.dtype;
  const double tolerance = 1e-5 + large_value_error(c, result.value[b]) +
                           (is_half(dtype) ? 2 * half_an_ulp(dtype, 1) + 0x1p-25 * static_cast<double>(n + m) : 0);
  std::string wrong;
  if (!result.alignment.empty()) wrong = check_alignment(result.alignment.data() + first, n, m, padded, 1, tolerance);
  const double g = c.grad_value.empty() ? 1 : c.grad_value[b];
  if (wrong.empty() && !c.fused() && c.unit_steps() && !result.grad_x.empty() &&
      std::abs(g) > (is_half(dtype) ? 1e-3 : 1e-20) && std::abs(g) < (is_half(dtype) ? 1e3 : 1e20)) {
    wrong = check_alignment(result.grad_x.data() + first, n, m, padded, g, tolerance);
    if (!wrong.empty()) wrong = "gradient of costs: " + wrong;
  }
  return wrong;
}

}  // namespace test
