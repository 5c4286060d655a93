// The entry points of the kernels for short pairs (block.cuh): of any metric, in float32 or a half type, by the plan as
// other kernels would have it. None of them keeps state. series: as core_calls.h has it, but x of a pair is the
// plan's y if these have changed places; then how backward has ended is written where forward of the core kernels would
// write it to the state.
#pragma once

#include "cuda/args.h"

namespace sdtw::cuda::short_pairs {

// Whether the current device is to compute them so, if the plan says so: where float64 is not slow, and a block has the
// shared memory.
bool are_fit(const sdtw::Plan &plan);

void forward(const sdtw::Plan &plan, const Buffers &buffers, const SeriesOfPair *series = nullptr);
// Gradients, or alignments if these are asked for.
void backward(const sdtw::Plan &plan, const Buffers &buffers, const SeriesOfPair *series = nullptr);

}  // namespace sdtw::cuda::short_pairs
