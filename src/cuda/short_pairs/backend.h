// The entry points of the kernels for short pairs of many features (block.cuh): of a core problem in float32, by the
// plan as core kernels would have it. None of them keeps state.
#pragma once

#include "plan.h"

namespace sdtw::cuda::short_pairs {

void forward(const sdtw::Plan &plan, const Buffers &buffers);
// Gradients, or alignments if these are asked for.
void backward(const sdtw::Plan &plan, const Buffers &buffers);

}  // namespace sdtw::cuda::short_pairs
