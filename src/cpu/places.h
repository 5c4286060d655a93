// Which pairs are computed, and where each one's series and results are.
#pragma once

#include "core/pairs.h"
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
  const core::PairIndex pair = core::pair_of_triangle(work, p.batch_x);
  return {pair.x, pair.y, pair.pair, pair.x == pair.y ? -1 : pair.y * p.batch_x + pair.x};
}

// Pairs that are computed.
inline int64_t works_of(const Problem &p) { return p.symmetric ? core::pairs_of_triangle(p.batch_x) : p.batch; }

}  // namespace sdtw::cpu
