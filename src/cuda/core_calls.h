// The calls of the core kernels (backend.cu), for dispatch.cu.
#pragma once

#include "plan.h"

namespace sdtw::cuda {

// Picks the kernels of a call for the current device, into plan.cuda.kernels.
void choose_core_kernels(sdtw::Plan &plan, Call call);

// With the kernels that the plan names. Of a core problem, backward and alignment with state.
void core_forward(const sdtw::Plan &plan, const Buffers &buffers);
void core_backward(const sdtw::Plan &plan, const Buffers &buffers);
void core_alignment(const sdtw::Plan &plan, const Buffers &buffers);

}  // namespace sdtw::cuda
