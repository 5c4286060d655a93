// The entry point of the streams: values of pairs of short series of few features, without state.
#pragma once

#include "plan.h"

namespace sdtw::cuda::streams {

// Whether the streams are to compute a call for which the plan has room for them.
bool suits(const sdtw::Plan &plan, const Buffers &buffers);
void forward(const sdtw::Plan &plan, const Buffers &buffers);

}  // namespace sdtw::cuda::streams
