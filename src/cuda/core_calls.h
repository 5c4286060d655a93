// The calls of the core kernels (backend.cu), for dispatch.cu.
#pragma once

#include "cuda/args.h"

namespace sdtw::cuda {

// Picks the kernels of a call for the current device, into plan.cuda.kernels.
void choose_core_kernels(sdtw::Plan &plan, Call call);

// Whether the current device has the kernels of a plan with unit points.
bool has_units(const sdtw::Plan &plan);

// Whether the current device has those of a plan with a corridor.
bool has_corridors();

// With the kernels that the plan names. Of a core problem, backward and alignment with state. series: of which series
// each pair is, if not of those of its own number.
void core_forward(const sdtw::Plan &plan, const Buffers &buffers, const SeriesOfPair *series = nullptr);
void core_backward(const sdtw::Plan &plan, const Buffers &buffers, const SeriesOfPair *series = nullptr);
void core_alignment(const sdtw::Plan &plan, const Buffers &buffers);

// All pairs without state (all_pairs.cu): waves of pairs, each of which is a core problem with a list of series.
void pairs_forward(const sdtw::Plan &plan, const Buffers &buffers);
void pairs_backward(const sdtw::Plan &plan, const Buffers &buffers);

}  // namespace sdtw::cuda
