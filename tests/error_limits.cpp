#include "error_limits.h"

namespace test {

Errors limits(const Case &c, double value) {
  const bool f64 = c.problem.dtype == SDTW_F64;
  // Exponents that are off by large_value_error have E off by a factor of e to that: at 10, where paths may be
  // anywhere, gradients of (35, 207) of equal costs were off by 9 times their largest entry on a CPU, and 15 times on a
  // GPU.
  const double digits = f64 ? 2e-10 : c.problem.gamma >= 0.1 ? 2e-5 : 2e-4;
  const double gradient = digits + std::expm1(large_value_error(c, value));
  // Tangents of gradients are sums over as many cells of products with a second rounded factor: 2.5e-5 at (5, 514).
  return {f64 ? 2e-13 : value_limit, gradient, gradient, gradient, (f64 ? 1 : 2) * gradient};
}

}  // namespace test
