// Problems of the whole family: computed as far as a backend goes, and judged against a reference.
#pragma once

#include <optional>

#include "compare.h"

namespace test {

// As run(), but for what the backend does not implement, which is counted (skips.h): calls without state and tangents
// are left out of the result, and nothing else.
std::optional<Result> try_run(Case c);

// What is wrong with a result, a line for each fault. over: errors as multiples of what is allowed, for statistics.
template <class Real>
std::vector<std::string> judge(const Case &c, const Result &result, const Reference<Real> &ref, Errors *over = nullptr);

// Holds a result against the oracle, whose reference it may have been held against already. At gamma = 0 another path
// may be as good.
template <class Real>
std::vector<std::string> judge_by_oracle(const Case &c, const Result &result, const Reference<Real> &ref,
                                         Errors *over = nullptr);

// What the oracle says of a case, computed when it is first asked for.
class Oracle {
 public:
  explicit Oracle(Case of) : c(std::move(of)) {}
  const Case &of() const { return c; }

  // The faults that hold(reference) finds. Results of fewer digits than a double's are held against a reference in
  // double first, which takes a fraction of the time; if there is a fault, its own digits may have been too few.
  template <class Hold>
  std::vector<std::string> faults(const Hold &hold) {
    if (c.problem.dtype != SDTW_F64) {
      if (!in_double) in_double = reference<double>(c);
      const std::vector<std::string> found = hold(*in_double);
      if (found.empty()) return found;
    }
    if (!in_long_double) in_long_double = reference<long double>(c);
    return hold(*in_long_double);
  }

 private:
  Case c;
  std::optional<Reference<double>> in_double;
  std::optional<Reference<long double>> in_long_double;
};

// Computes a problem again and again: twice the same bits, on a CPU those that state gives, and forward alone.
std::vector<std::string> compute_and_judge(Case &c, bool compares, Errors &over, bool &refused);

}  // namespace test
