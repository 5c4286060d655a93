// Launches the kernels of the general engine that take tasks.
#pragma once

#include "cuda/general/task.cuh"
#include "cuda/launch.h"

namespace sdtw::cuda::general {

// Launches as many blocks as are resident at once, or fewer if there are fewer tasks.
template <class Kernel, Kernel kernel>
void launch_tasks(size_t shared, int threads, const Args &a, cudaStream_t stream) {
  const int64_t resident = resident_blocks<Kernel, kernel>(threads, shared, sizeof(Block));
  launch_kernel(false, kernel, dim3(static_cast<unsigned>(std::min(a.tasks, resident))), threads, shared, stream, a);
}

}  // namespace sdtw::cuda::general
