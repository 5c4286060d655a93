// The entry points of the general engine, as those of a backend.
#pragma once

#include "plan.h"

namespace sdtw::cuda::general {

void forward(const sdtw::Plan &plan, const Buffers &buffers);
void backward(const sdtw::Plan &plan, const Buffers &buffers);
void alignment(const sdtw::Plan &plan, const Buffers &buffers);
void jvp(const sdtw::Plan &plan, const Buffers &buffers);

}  // namespace sdtw::cuda::general
