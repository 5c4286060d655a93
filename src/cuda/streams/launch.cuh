// Launches the kernels of the streams.
#pragma once

#include "cuda/streams/turns.cuh"

namespace sdtw::cuda::streams {

template <class Rows, Group group>
struct Shape {
  int threads;
  int64_t groups = 1;  // of a block: fewer where it has little shared memory
  size_t shared;
  explicit Shape(const Args &a) {
    const size_t rings = (warp >> a.lane_bits) * Ring<Rows>::bytes(ring_columns_of(a.warps), a.warps);
    if (group == Group::warp)
      for (groups = warps_alone; groups > 1 && more_shared + groups * rings > current_device().shared_memory;)
        groups /= 2;
    threads = static_cast<int>(groups * (a.warps + is_fed<group>)*warp);
    shared = more_shared + groups * rings;
    if (group == Group::halves) threads *= 2, shared += rings + 2 * a.warps * warp * Rows::K * sizeof(double);
  }
};

template <class Rows, class Visit>
auto visit_kernel(const Args &a, Visit visit) {
  const auto with = [&](auto of) {
    constexpr Group group = decltype(of)::value;
    constexpr auto kernel = stream_kernel<Rows, group>;
    const Shape<Rows, group> shape(a);
    return visit(kernel, shape, resident_blocks<decltype(+kernel), kernel>(shape.threads, shape.shared));
  };
  if constexpr (Rows::has_halves)
    if (a.halves) return with(std::integral_constant<Group, Group::halves>{});
  if constexpr (least_of_fed<Rows> <= most_warps)
    if (a.warps >= least_of_fed<Rows>) return with(std::integral_constant<Group, Group::fed_block>{});
  return a.warps > 1 ? with(std::integral_constant<Group, Group::block>{})
                     : with(std::integral_constant<Group, Group::warp>{});
}

template <class Rows>
int64_t Kernels<Rows>::resident_of_turns(const Args &a) {
  if constexpr (Rows::banded && !Rows::again) {
    const size_t shared = Turns<Rows>::bytes(a);
    if (shared > current_device().shared_memory) return 0;
    using Function = decltype(&turns_kernel<Rows>);
    return resident_blocks<Function, turns_kernel<Rows>>(warps_alone * warp, shared);
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
      a, [&](auto, const auto &shape, int64_t blocks) { return blocks * shape.groups * (warp >> a.lane_bits); });
}

template <class Rows>
void Kernels<Rows>::launch(const Args &a, cudaStream_t stream) {
  visit_kernel<Rows>(a, [&](auto kernel, const auto &shape, int64_t resident) {
    const int64_t each = shape.groups * (warp >> a.lane_bits), blocks = (a.tasks + each - 1) / each;
    launch_kernel(Rows::again, kernel, dim3(static_cast<unsigned>(std::min(blocks, resident))), shape.threads,
                  shape.shared, stream, a);
    return 0;
  });
}

}  // namespace sdtw::cuda::streams
