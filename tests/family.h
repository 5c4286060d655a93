// Checks of the whole family, from lines of problem.h: on every backend, in every type, against the oracle.
#pragma once

#include "catch.h"
#include "check.h"
#include "judge.h"
#include "problem.h"

namespace test {

inline const char *const every_type[] = {"f32", "f64", "f16", "bf16"};

// The case of a line on each backend. The line says nothing of these.
std::vector<Case> on_backends(const std::string &line);

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

// Holds a result against the oracle. It is that of the last case if this one differs by its instruction set alone.
void check(const Case &c, const Result &result, std::optional<Oracle> &oracle);

// Holds what a line gives against the oracle.
void check_line(const std::string &line);

inline bool near(double actual, double expected, double tolerance) { return std::abs(actual - expected) <= tolerance; }

// Whether max |a - b| is within tolerance times the largest of b.
inline bool close(const std::vector<double> &a, const std::vector<double> &b, double tolerance) {
  const auto count = static_cast<int64_t>(b.size());
  return a.size() == b.size() && distance(a.data(), b.data(), count) <= tolerance * max_norm(b.data(), count);
}

// What two results of one type may differ by, where they come about in different ways.
double between(const Case &c);
bool close(const Case &c, const Result &a, const Result &b);

// Swaps the last two dimensions of [batch, rows, columns].
std::vector<double> transposed_pairs(const std::vector<double> &from, int64_t batch, int64_t rows, int64_t columns);

double dot(const std::vector<double> &a, const std::vector<double> &b);

}  // namespace test
