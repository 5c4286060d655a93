// The calls of the core kernels (backend.cu), for dispatch.cu.
#pragma once

#include "plan.h"

namespace sdtw::cuda {

// Of a core problem, backward and alignment with state.
void core_forward(const sdtw::Plan &plan, const Buffers &buffers);
void core_backward(const sdtw::Plan &plan, const Buffers &buffers);
void core_alignment(const sdtw::Plan &plan, const Buffers &buffers);

}  // namespace sdtw::cuda
