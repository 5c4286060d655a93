// Launches the kernels of the streams.
#pragma once

#include "cuda/streams/turns.cuh"

namespace sdtw::cuda::streams {

template <class Rows>
struct Shape {
  int threads;
  int64_t groups;  // of a block: fewer where it has little shared memory
  size_t shared;
  explicit Shape(const Args &a) : groups(a.warps > 1 ? 1 : warps_alone) {
    const size_t group = (warp >> a.lane_bits) * Ring<Rows>::bytes(ring_columns_of(a.warps), a.warps);
    while (groups > 1 && more_shared + groups * group > current_device().shared_memory) groups /= 2;
    threads = static_cast<int>(groups * a.warps * warp), shared = more_shared + groups * group;
  }
};

template <class Rows, class Visit>
auto visit_kernel(const Args &a, Visit visit) {
  const Shape<Rows> shape(a);
  using Function = decltype(&stream_kernel<Rows, false>);
  return a.warps > 1 ? visit(stream_kernel<Rows, true>, shape,
                             residency_of<Function, stream_kernel<Rows, true>>(shape.threads, shape.shared).blocks)
                     : visit(stream_kernel<Rows, false>, shape,
                             residency_of<Function, stream_kernel<Rows, false>>(shape.threads, shape.shared).blocks);
}

template <class Rows>
int64_t Kernels<Rows>::resident_of_turns(const Args &a) {
  if constexpr (Rows::banded && !Rows::again) {
    const size_t shared = Turns<Rows>::bytes(a);
    if (shared > current_device().shared_memory) return 0;
    using Function = decltype(&turns_kernel<Rows>);
    return residency_of<Function, turns_kernel<Rows>>(warps_alone * warp, shared).blocks;
  }
  return 0;
}
template <class Rows>
void Kernels<Rows>::launch_turns(const Args &a, cudaStream_t stream) {
  if constexpr (Rows::banded && !Rows::again)
    launch_kernel(false, turns_kernel<Rows>, dim3(static_cast<unsigned>(std::min(a.tasks, resident_of_turns(a)))),
                  warps_alone * warp, Turns<Rows>::bytes(a), stream, a);
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
    launch_kernel(Rows::again, kernel, dim3(static_cast<unsigned>(std::min(blocks, resident))), shape.threads,
                  shape.shared, stream, a);
    return 0;
  });
}

}  // namespace sdtw::cuda::streams
