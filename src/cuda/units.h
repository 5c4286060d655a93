// Cosine by the core kernels. Before the sweeps points are divided by their norms: D = 1 - <u, v> then, and 1 where a
// point is 0. Backward sums up s = -sum E v over the other series' points v, of which the gradient of x is P s / |x|
// with P = 1 - u u^T. Where matched points are nearly parallel, or opposite, the projection leaves little of s, so the
// sums have all digits of the points.
#pragma once

#include "cuda/args.h"
#include "cuda/general/series.h"

namespace sdtw::cuda {

// Points of x and y, [batch][rows] each, and what is made of them.
struct Units {
  general::Side side[2];
  general::Series points[2];
  int unit_features;  // of the arrays below: those that the series lack are 0
  TwoFloats *units[2];
  double *norms[2];  // null: not wanted
  int *bounds;       // of the costs of each pair, as of Costs::tensor (pair.cuh); null: they are known
};
void launch_units(const Units &units, cudaStream_t stream);

// Gradients of both series of each pair, times grad_value: NaN and 0 as the results of the pair ask for.
struct UnitGradients {
  Units of;
  const double *sums[2];  // s; null: the gradient is not wanted
  general::Target to[2];
  const float *grad_value;  // null: 1
  const int *status;
};
void launch_unit_gradients(const UnitGradients &gradients, cudaStream_t stream);

}  // namespace sdtw::cuda
