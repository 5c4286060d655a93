#include "judge.h"

#include "cpu_reference.h"
#include "error_limits.h"
#include "skips.h"

namespace test {

std::optional<Result> try_run(Case c) {
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

template <class Real>
std::vector<std::string> judge(const Case &c, const Result &result, const Reference<Real> &ref, Errors *over) {
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
    for (const std::vector<double> *written : {&result.backward_value, &result.alignment_value, &result.jvp_value})
      if (!written->empty()) {
        const double off =
            ratio(distance(&(*written)[b], &ref.value[b], 1, value_type(c)), static_cast<double>(ref.scale[b]));
        hold("value beside derivatives", &Errors::value, off, limit.value, of);
      }
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

template <class Real>
std::vector<std::string> judge_by_oracle(const Case &c, const Result &result, const Reference<Real> &ref,
                                         Errors *over) {
  std::vector<std::string> faults = judge(c, result, ref, over);
  if (faults.empty() || c.problem.gamma != 0 || result.alignment.empty()) return faults;
  return judge(c, result, reference_along<Real>(c, result.alignment), over);
}

std::vector<std::string> compute_and_judge(Case &c, bool compares, Errors &over, bool &refused) {
  std::vector<std::string> faults;
  c.poison = 0xff;
  const std::optional<Result> result = try_run(c);
  refused = !result;
  if (refused) return faults;
  c.poison = 0x3c;
  const std::optional<Result> again = try_run(c);
  if (!again || !same(*again, *result)) faults.emplace_back("not the same bits twice");
  c.poison = 0xff;
  if (c.exec.device == SDTW_CPU && c.recompute && has_exact_exponents(c)) {
    Case with = c;
    with.exec.flags &= ~uint32_t{SDTW_NO_STATE};
    with.recompute = false;
    if (!same_derivatives(run(with), *result)) faults.emplace_back("not the bits that gradients by state have");
  }
  Case alone = c;
  alone.exec.flags |= SDTW_NO_STATE;
  alone.recompute = false;
  const Result without = run(alone);
  if (!compares) return faults;
  const auto hold = [&](const auto &ref) {
    std::vector<std::string> found = judge_by_oracle(c, *result, ref, &over);
    Result value;
    value.value = without.value;
    for (const std::string &fault : judge(c, value, ref)) found.push_back("without state: " + fault);
    return found;
  };
  // The oracle takes 0.1 us for a cell, the CPU's float64 a hundredth of that.
  const bool has_quick = c.exec.device == SDTW_CUDA && !c.all_pairs() && c.problem.dtype != SDTW_F64;
  if (has_quick && hold(cpu_reference(c, 1)).empty()) return faults;
  for (const std::string &fault : Oracle(c).faults(hold)) faults.push_back(fault);
  return faults;
}

template std::vector<std::string> judge(const Case &, const Result &, const Reference<double> &, Errors *);
template std::vector<std::string> judge_by_oracle(const Case &, const Result &, const Reference<double> &, Errors *);
template std::vector<std::string> judge(const Case &, const Result &, const Reference<long double> &, Errors *);
template std::vector<std::string> judge_by_oracle(const Case &, const Result &, const Reference<long double> &,
                                                  Errors *);

}  // namespace test
