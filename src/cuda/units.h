// Cosine by the core kernels. Before the sweeps points are divided by their norms: D = 1 - <u, v> then. After backward
// the sums over these points become gradients of the caller's: with P = 1 - u u^T, that of x is P s / |x|.
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
  double *norms[2];  // of x negative where `rounded` has the opposite of y; null: not wanted
  // What gradients are made of, as in general::Normalised; null: not wanted. Points of norm 0, to whose cells gradients
  // owe nothing, have infinities there. As zeros they would add as much of the other point as others take away from it:
  // with a thousand of them float32's rounding of that showed in what the projection leaves.
  float *rounded[2];
  int *bounds;  // of the costs of each pair, as of Costs::tensor (pair.cuh); null: they are known
};
void launch_units(const Units &units, cudaStream_t stream);

// Gradients of both series of each pair, times grad_value: NaN and 0 as the results of the pair ask for.
struct UnitGradients {
  Units of;
  const double *sums[2];  // over differences of `rounded`; null: the gradient is not wanted
  general::Target to[2];
  const float *grad_value;  // null: 1
  const int *status;
};
void launch_unit_gradients(const UnitGradients &gradients, cudaStream_t stream);

}  // namespace sdtw::cuda
