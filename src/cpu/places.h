// Which pairs are computed, and where each one's series and results are.
#pragma once

#include <cmath>

#include "plan.h"

namespace sdtw::cpu {

// Indices in the caller's arrays, of rows' and columns' series as the plan takes them.
struct Place {
  int64_t x, y;
  int64_t result;  // of the value, the alignment; of a given cost, and its gradient, as well
  int64_t mirror;  // with SDTW_SYMMETRIC, of the results of the pair transposed; -1 if there is no other
};

// p is the plan's problem: transposed where the plan is.
inline Place place_of(const Problem &p, bool transposed, int64_t work) {
  if (!p.all_pairs || !p.fused()) return {work, work, work, -1};
  if (!p.symmetric) {
    const int64_t x = work / p.batch_y, y = work % p.batch_y;
    return {x, y, transposed ? y * p.batch_x + x : work, -1};
  }
  // Row i of the triangle begins at i batch - i (i - 1) / 2.
  const int64_t batch = p.batch_x;
  const auto begin = [&](int64_t i) { return i * batch - i * (i - 1) / 2; };
  const double b = 2 * double(batch) + 1;
  auto i = static_cast<int64_t>((b - std::sqrt(std::fmax(0, b * b - 8 * double(work)))) / 2);
  while (i > 0 && begin(i) > work) --i;
  while (begin(i + 1) <= work) ++i;
  const int64_t j = i + work - begin(i);
  return {i, j, i * batch + j, i == j ? -1 : j * batch + i};
}

// Pairs that are computed.
inline int64_t works_of(const Problem &p) { return p.symmetric ? core::pairs_of_triangle(p.batch_x) : p.batch; }

}  // namespace sdtw::cpu
