// Problems of the whole family: computed as far as a backend goes, and judged against a reference.
#pragma once

#include <optional>

#include "limits.h"
#include "problem.h"
#include "skips.h"

namespace test {

// As run(), but for what the backend does not implement, which is counted (skips.h): calls without state and tangents
// are left out of the result, and nothing else.
inline std::optional<Result> try_run(Case c) {
  const auto attempt = [&]() -> std::optional<Result> {
    try {
      return run(c);
    } catch (const Unsupported &error) {
      skips().add(error.what());
      return std::nullopt;
    }
  };
  std::optional<Result> result = attempt();
  if (!result && (!c.tangent_x.empty() || !c.tangent_y.empty())) {
    c.tangent_x.clear(), c.tangent_y.clear();
    result = attempt();
  }
  if (!result && c.recompute) {
    c.recompute = false;
    result = attempt();
  }
  return result;
}

// What is wrong with a result, a line for each fault. over: errors as multiples of what is allowed, for statistics.
template <class Real>
std::vector<std::string> judge(const Case &c, const Result &result, const Reference<Real> &ref,
                               Errors *over = nullptr) {
  std::vector<std::string> faults;
  Errors worst;
  const auto hold = [&](const char *what, double Errors::*which, double error, double limit, const std::string &of) {
    worst.*which = std::max(worst.*which, error / limit);
    if (error <= limit) return;
    std::ostringstream text;
    text.precision(3);
    text << what << " off by " << error << ", allowed " << limit << of;
    faults.push_back(text.str());
  };
  Errors most = limits(c, 0);  // of the pairs of a series
  for (int64_t b = 0; b < c.batch(); ++b) {
    const double value = static_cast<double>(ref.value[b]);
    const Errors error = compare_pair(c, result, ref, b), limit = limits(c, std::isfinite(value) ? value : 0);
    most = larger(most, limit);
    const std::string of = ", of pair " + std::to_string(b) + " of lengths (" + std::to_string(c.length_x(b)) + ", " +
                           std::to_string(c.length_y(b)) + ")";
    hold("value", &Errors::value, error.value, limit.value, of);
    hold("gradient", &Errors::gradient, error.gradient, limit.gradient, of);
    hold("alignment", &Errors::alignment, error.alignment, limit.alignment, of);
    hold("tangent of the value", &Errors::value_tangent, error.value_tangent, limit.value_tangent, of);
    hold("tangent of the gradient", &Errors::gradient_tangent, error.gradient_tangent, limit.gradient_tangent, of);
  }
  if (c.all_pairs()) {
    const Errors error = compare(c, result, ref);
    hold("gradient", &Errors::gradient, error.gradient, most.gradient, ", of a series");
    hold("tangent of the gradient", &Errors::gradient_tangent, error.gradient_tangent, most.gradient_tangent,
         ", of a series");
  }
  if (over) *over = worst;
  return faults;
}

// Holds a result against the oracle, whose reference it may have been held against already. At gamma = 0 another path
// may be as good.
template <class Real>
std::vector<std::string> judge_by_oracle(const Case &c, const Result &result, const Reference<Real> &ref,
                                         Errors *over = nullptr) {
  std::vector<std::string> faults = judge(c, result, ref, over);
  if (faults.empty() || c.problem.gamma != 0 || result.alignment.empty()) return faults;
  return judge(c, result, reference_along<Real>(c, result.alignment), over);
}

}  // namespace test
