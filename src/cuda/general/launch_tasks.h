// Launches the kernels of the general engine that take tasks.
#pragma once

#include "cuda/general/task.cuh"
#include "cuda/launch.h"

namespace sdtw::cuda::general {

// Launches as many blocks as are resident at once, or fewer if there are fewer tasks.
template <class Kernel, Kernel kernel>
void launch_tasks(size_t shared, int threads, const Args &a, cudaStream_t stream) {
  static thread_local struct {
    int device = -1;
    unsigned long long context = 0;
    size_t shared = 0;
    int64_t resident = 0;
  } known;
  const Device device = current_device();
  const unsigned long long context = current_context();
  if (known.device != device.id || known.context != context || known.shared != shared) {
    if (shared + sizeof(Block) > device.shared_memory)
      fail(SDTW_STATUS_UNSUPPORTED,
           "this GPU has %zu bytes of shared memory for a block: this problem's kernels need %zu", device.shared_memory,
           shared);
    // The same for every problem: it belongs to the kernel, which other threads launch for problems of their own.
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(device.shared_memory - sizeof(Block))),
          "cudaFuncSetAttribute");
    int resident = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, shared),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    known = {device.id, context, shared, static_cast<int64_t>(resident) * device.multiprocessors};
  }
  launch_kernel(false, kernel, dim3(static_cast<unsigned>(std::min(a.tasks, known.resident))), threads, shared, stream,
                a);
}

}  // namespace sdtw::cuda::general
