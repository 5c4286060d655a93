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

// Computes a problem again and again: twice the same bits, and of a core problem forward alone.
std::vector<std::string> compute_and_judge(Case &c, bool compares, Errors &over, bool &refused);

}  // namespace test
