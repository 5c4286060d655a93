// Launches the sweeps of one engine: picks the source of costs, the tile that fits shared memory, the grid.
#pragma once

#include <algorithm>

#include "backward.cuh"
#include "forward.cuh"
#include "launch.h"
#include "mma.cuh"
#include "plan.h"

namespace sdtw::cuda {

// Of one block, less what kernels have besides.
inline size_t available_shared_memory() {
  return static_cast<size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) - 64;
}

// As many blocks as are resident at once, or as there are tasks: blocks take tasks until none is left.
template <class Kernel, class... More>
void launch(Kernel kernel, int threads, size_t shared, cudaStream_t stream, const Args &a, const More &...more) {
  if (shared > available_shared_memory())
    fail(SDTW_STATUS_UNSUPPORTED,
         "this GPU has %zu bytes of shared memory for a block: this problem's kernels need %zu in this version",
         available_shared_memory(), shared);
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
        "cudaFuncSetAttribute");
  int resident = 0;
  check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, shared),
        "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  const int64_t blocks = static_cast<int64_t>(resident) * device_attribute(cudaDevAttrMultiProcessorCount);
  const int64_t tasks = a.batch * a.strips;
  kernel<<<static_cast<unsigned>(tasks < blocks ? tasks : blocks), threads, shared, stream>>>(a, more...);
  check_launch();
}

template <class Cell, int K, class Source, class Precise>
void launch_forward(const Args &a, const Args &again, cudaStream_t stream) {
  using Kernel = Forward<Cell, K, Source>;
  const size_t shared = std::max(Kernel::shared_bytes(a), Forward<Cell, K, Precise>::shared_bytes(a));
  launch(forward_kernel<Cell, K, Source, Precise>, Kernel::threads, shared, stream, a, again);
}

template <class Cell, int K, class Source, class Precise>
void launch_backward(Args a, cudaStream_t stream) {
  using Kernel = Backward<Cell, K, Source>;
  const auto shared = [&] {
    return std::max(Kernel::shared_bytes(a, a.tile_steps), Backward<Cell, K, Precise>::shared_bytes(a, a.tile_steps));
  };
  a.tile_steps = Kernel::max_tile_steps;
  while (shared() > available_shared_memory() && a.tile_steps > 8) a.tile_steps /= 2;
  launch(backward_kernel<Cell, K, Source, Precise>, Kernel::threads, shared(), stream, a);
}

// Calls run with the sources for the problem: the usual one, and one that computes costs more precisely. Matrix
// instructions need x at hand for many tiles, which only forward has.
template <class Cell, int K, bool backward, class Run>
void with_sources(const Args &a, Run run) {
  using Copy = CopySource<Cell, K>;
  using Precise = ComputeSource<Cell, K, double, typename Cell::Real>;
  if (a.precomputed) return run(Copy{}, Copy{});
  if constexpr (Cell::wide) {
    run(Precise{}, Precise{});
  } else {
    const auto inlined = [&](auto d) {
      run(InlineSource<K, decltype(d)::value, float>{}, InlineSource<K, decltype(d)::value, double>{});
    };
    if (a.features == 1) return inlined(std::integral_constant<int, 1>{});
    if (a.features == 2) return inlined(std::integral_constant<int, 2>{});
    if (a.features <= 4) return inlined(std::integral_constant<int, 4>{});
    if (a.features <= 8) return inlined(std::integral_constant<int, 8>{});
    using Plain = ComputeSource<Cell, K, float, float>;
    run(Plain{}, std::conditional_t<backward, Precise, MmaSource<K>>{});
  }
}

template <class Cell>
void Sweeps<Cell>::forward(const Args &a, const Args &again, cudaStream_t stream) {
  with_sources<Cell, rows_per_lane, false>(a, [&](auto source, auto precise) {
    launch_forward<Cell, rows_per_lane, decltype(source), decltype(precise)>(a, again, stream);
  });
}

template <class Cell>
void Sweeps<Cell>::backward(const Args &a, cudaStream_t stream) {
  with_sources<Cell, rows_per_lane, true>(a, [&](auto source, auto precise) {
    launch_backward<Cell, rows_per_lane, decltype(source), decltype(precise)>(a, stream);
  });
}

}  // namespace sdtw::cuda
