// What the CPU backend gives in float64, as a reference that is quicker than the oracle, which it is tested against.
#pragma once

#include "compare.h"

namespace test {

// What the CPU backend gives in float64. Without the alignment the scale of values is without the path's cost.
inline Reference<double> cpu_reference(Case c, int32_t threads = 0) {
  c.problem.dtype = SDTW_F64;
  c.exec.device = SDTW_CPU;
  c.exec.cpu_isa = SDTW_CPU_ISA_AUTO;
  c.exec.num_threads = threads;
  Result result = run(c);
  Reference<double> ref;
  const int64_t step = c.problem.n * c.problem.m;
  for (int64_t b = 0; b < c.batch(); ++b) {
    double path = 0;
    for (int64_t i = 0; c.want_alignment && i < c.length_x(b); ++i)
      for (int64_t j = 0; j < c.length_y(b); ++j) {
        const double e = result.alignment[b * step + i * c.problem.m + j];
        const int64_t features = c.problem.features;
        const double cost = c.fused() ? oracle::sqeuclidean<double>(&c.x[(b * c.problem.n + i) * features],
                                                                    &c.y[(b * c.problem.m + j) * features], features)
                                      : c.x[b * step + i * c.problem.m + j];
        if (e != 0) path += e * std::abs(cost);
      }
    ref.scale.push_back(value_scale(result.value[b], path, c.problem.gamma, c.length_x(b), c.length_y(b)));
  }
  ref.value = std::move(result.value);
  ref.grad_x = std::move(result.grad_x);
  ref.grad_y = std::move(result.grad_y);
  ref.alignment = std::move(result.alignment);
  return ref;
}

}  // namespace test
