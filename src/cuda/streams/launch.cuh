// Launches the kernels of the streams.
#pragma once

#include "cuda/streams/kernel.cuh"

namespace sdtw::cuda::streams {

// Blocks of a kernel that are resident at once. What the driver says is kept per thread and GPU.
template <class Kernel, Kernel kernel>
int64_t resident_blocks(int threads, size_t shared) {
  struct Known {
    unsigned long long context = 0;
    int threads = 0;
    size_t shared = 0;
    int64_t resident = 0;
  };
  static thread_local Known known_of[devices_remembered];
  const Device device = current_device();
  const unsigned long long context = current_context();
  Known &known = known_of[device.id % devices_remembered];
  if (context == 0 || known.context != context || known.threads != threads || known.shared != shared) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(device.shared_memory)),
          "cudaFuncSetAttribute");
    int resident = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, shared),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    known = {context, threads, shared, static_cast<int64_t>(resident) * device.multiprocessors};
  }
  return known.resident;
}

template <class Rows>
struct Shape {
  int threads;
  int64_t groups;  // of a block
  size_t shared;
  explicit Shape(const Args &a)
      : threads((a.warps > 1 ? a.warps : warps_alone) * warp),
        groups(a.warps > 1 ? 1 : warps_alone),
        shared(more_shared + groups * (warp >> a.lane_bits) * Ring<Rows>::bytes(ring_columns_of(a.warps), a.warps)) {}
};

template <class Rows, class Visit>
auto visit_kernel(const Args &a, Visit visit) {
  const Shape<Rows> shape(a);
  using Function = decltype(&stream_kernel<Rows, false>);
  return a.warps > 1 ? visit(stream_kernel<Rows, true>, shape,
                             resident_blocks<Function, stream_kernel<Rows, true>>(shape.threads, shape.shared))
                     : visit(stream_kernel<Rows, false>, shape,
                             resident_blocks<Function, stream_kernel<Rows, false>>(shape.threads, shape.shared));
}

template <class Rows>
int64_t Kernels<Rows>::resident(const Args &a) {
  return visit_kernel<Rows>(
      a, [&](auto, const Shape<Rows> &shape, int64_t blocks) { return blocks * shape.groups * (warp >> a.lane_bits); });
}

template <class Rows>
void Kernels<Rows>::launch(const Args &a, cudaStream_t stream) {
  visit_kernel<Rows>(a, [&](auto kernel, const Shape<Rows> &shape, int64_t resident) {
    const int64_t each = shape.groups * (warp >> a.lane_bits), blocks = (a.tasks + each - 1) / each;
    launch_kernel(false, kernel, dim3(static_cast<unsigned>(std::min(blocks, resident))), shape.threads, shape.shared,
                  stream, a);
    return 0;
  });
}

}  // namespace sdtw::cuda::streams
