#include "family.h"

namespace test {

std::vector<Case> on_backends(const std::string &line) {
  const Case drawn = problem(line);
  std::vector<Case> result;
  for (const Backend &backend : backends()) {
    result.push_back(drawn);
    result.back().exec.device = backend.device;
    result.back().exec.cpu_isa = backend.isa;
    add_core(result);
  }
  return result;
}

void check(const Case &c, const Result &result, std::optional<Oracle> &oracle) {
  if (!oracle || oracle->of().problem.dtype != c.problem.dtype) oracle.emplace(c);
  const std::vector<std::string> faults =
      oracle->faults([&](const auto &ref) { return judge_by_oracle(c, result, ref); });
  INFO((faults.empty() ? "" : faults[0]));
  CHECK(faults.empty());
}

void check_line(const std::string &line) {
  std::optional<Oracle> oracle;
  each_result(line, [&](const Case &c, const Result &result) { check(c, result, oracle); });
}

double between(const Case &c) {
  switch (c.problem.dtype) {
    case SDTW_F64: return 1e-9;
    case SDTW_F32: return 4e-5;
    default: return 4e-5 + 4 * half_an_ulp(c.problem.dtype, 1);
  }
}

bool close(const Case &c, const Result &a, const Result &b) {
  const double by = between(c);
  return close(a.value, b.value, by) && close(a.grad_x, b.grad_x, by) && close(a.grad_y, b.grad_y, by) &&
         close(a.alignment, b.alignment, by);
}

std::vector<double> transposed_pairs(const std::vector<double> &from, int64_t batch, int64_t rows, int64_t columns) {
  std::vector<double> to(from.size());
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) to[(b * columns + j) * rows + i] = from[(b * rows + i) * columns + j];
  return to;
}

double dot(const std::vector<double> &a, const std::vector<double> &b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

}  // namespace test
