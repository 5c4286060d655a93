// The errors that random problems may have, whatever their data.
#pragma once

#include "compare.h"

namespace test {

// What the library promises of values, and what is asked of gradients: docs/numerics.md. Where costs are so large that
// float32 problems are computed in float64, state has digits for E up to 2^39 gamma; beyond, the fewer the larger.
inline Errors limits(const Case &c, double value) {
  if (c.problem.dtype == SDTW_F64) return {2e-13, 2e-10, 2e-10};
  const double gradient = c.problem.gamma >= 0.1 ? 2e-5 : 2e-4, digits = 0x1p-52 * std::abs(value) / c.problem.gamma;
  return {2e-7, c.fused() ? gradient : gradient + digits, gradient + digits};
}

}  // namespace test
