// What a backend offers: one namespace per backend, the same functions in each, called by api.cpp with a plan that
// has taken every decision. A backend that was not built is a stub (cuda/stub.cpp) that throws NOT_BUILT.
#pragma once

#include "plan.h"

namespace sdtw {

namespace cpu {
// The best instruction set that both this processor and this build have; never AUTO.
sdtw_cpu_isa best_isa();
// Whether both this processor and this build have it. AUTO: always.
bool has_isa(sdtw_cpu_isa isa);
void forward(const sdtw::Plan &plan, const Buffers &buffers);
void backward(const sdtw::Plan &plan, const Buffers &buffers);
void alignment(const sdtw::Plan &plan, const Buffers &buffers);
void jvp(const sdtw::Plan &plan, const Buffers &buffers);
}  // namespace cpu

namespace cuda {
// A problem as the core kernels compute it: in float32 if it is of half precision; with as many features more, which
// are 0, as points of many are loaded at once.
Problem as_computed(const Problem &problem);
// Throws SDTW_STATUS_NOT_BUILT or SDTW_STATUS_NO_DEVICE where the current device cannot be used.
void require_device();
// Completes a plan for a call on the current device, of which shared memory and multiprocessors count. Where it has no
// kernels for unit points, the general engine takes their place.
void choose_kernels(sdtw::Plan &plan, Call call);
void forward(const sdtw::Plan &plan, const Buffers &buffers);
void backward(const sdtw::Plan &plan, const Buffers &buffers);
void alignment(const sdtw::Plan &plan, const Buffers &buffers);
void jvp(const sdtw::Plan &plan, const Buffers &buffers);
const char *build_info();  // "cuda 13.0 (sm_90)" or "no cuda"
}  // namespace cuda

}  // namespace sdtw
