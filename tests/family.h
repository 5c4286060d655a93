// Checks of the whole family, from lines of problem.h: on every backend, in every type, against the oracle.
#pragma once

#include "catch.h"
#include "check.h"
#include "judge.h"

namespace test {

inline const char *const every_type[] = {"f32", "f64", "f16", "bf16"};

// The case of a line on each backend. The line says nothing of these.
inline std::vector<Case> on_backends(const std::string &line) {
  std::vector<Case> result;
  for (const Backend &backend : backends()) {
    result.push_back(problem(line));
    result.back().exec.device = backend.device;
    result.back().exec.cpu_isa = backend.isa;
  }
  return result;
}

// f(case, result) for the line on each backend, in each type unless the line says which.
template <class F>
void each_result(const std::string &line, const F &f) {
  std::vector<std::string> lines{line};
  if (line.find("dtype=") == std::string::npos) {
    lines.clear();
    for (const char *dtype : every_type) lines.push_back(line + " dtype=" + dtype);
  }
  for (const std::string &typed : lines)
    for (const Case &c : on_backends(typed)) {
      INFO("sdtw_differential --problem '" << describe(c) << "'");
      if (const std::optional<Result> result = try_run(c)) f(c, *result);
    }
}

// Holds a result against the oracle.
inline void check(const Case &c, const Result &result, const Reference<long double> &ref) {
  const std::vector<std::string> faults = judge_by_oracle(c, result, ref);
  INFO((faults.empty() ? "" : faults[0]));
  CHECK(faults.empty());
}

// Holds what a line gives against the oracle.
inline void check_line(const std::string &line) {
  Case last{};  // the oracle sees the same in every instruction set
  Reference<long double> ref;
  each_result(line, [&](const Case &c, const Result &result) {
    if (last.x.empty() || last.problem.dtype != c.problem.dtype) last = c, ref = reference<long double>(c);
    check(c, result, ref);
  });
}

inline bool near(double actual, double expected, double tolerance) { return std::abs(actual - expected) <= tolerance; }

// Whether max |a - b| is within tolerance times the largest of b.
inline bool close(const std::vector<double> &a, const std::vector<double> &b, double tolerance) {
  const auto count = static_cast<int64_t>(b.size());
  return a.size() == b.size() && distance(a.data(), b.data(), count) <= tolerance * max_norm(b.data(), count);
}

// What two results of one type may differ by, where they come about in different ways.
inline double between(const Case &c) {
  switch (c.problem.dtype) {
    case SDTW_F64: return 1e-9;
    case SDTW_F32: return 4e-5;
    default: return 4e-5 + 4 * half_an_ulp(c.problem.dtype, 1);
  }
}
inline bool close(const Case &c, const Result &a, const Result &b) {
  const double by = between(c);
  return close(a.value, b.value, by) && close(a.grad_x, b.grad_x, by) && close(a.grad_y, b.grad_y, by) &&
         close(a.alignment, b.alignment, by);
}

// Swaps the last two dimensions of [batch, rows, columns].
inline std::vector<double> transposed_pairs(const std::vector<double> &from, int64_t batch, int64_t rows,
                                            int64_t columns) {
  std::vector<double> to(from.size());
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < columns; ++j) to[(b * columns + j) * rows + i] = from[(b * rows + i) * columns + j];
  return to;
}

inline double dot(const std::vector<double> &a, const std::vector<double> &b) {
  double sum = 0;
  for (size_t k = 0; k < a.size(); ++k) sum += a[k] * b[k];
  return sum;
}

}  // namespace test
