// Launches the sweeps of one engine: picks the source of costs, what becomes of E, the tile that fits shared memory,
// and the grid.
#pragma once

#include <algorithm>

#include "backward.cuh"
#include "forward.cuh"
#include "launch.h"

namespace sdtw::cuda {

// As many blocks as are resident at once, or as there are tasks: they take tasks until none is left. What the driver
// says of a kernel is kept, since asking takes as long as launching.
template <class Kernel, Kernel kernel, class... More>
void launch(int threads, size_t shared, int64_t blocks, cudaStream_t stream, const Args &a, const More &...more) {
  struct Known {
    int device = -1, threads = 0;
    size_t shared = 0;
    int64_t resident = 0;
  };
  static thread_local Known known;
  const Device device = current_device();
  if (known.device != device.id || known.threads != threads || known.shared != shared) {
    if (shared > device.shared_memory)
      fail(SDTW_STATUS_UNSUPPORTED,
           "this GPU has %zu bytes of shared memory for a block: this problem's kernels need %zu in this version",
           device.shared_memory, shared);
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(device.shared_memory)),
          "cudaFuncSetAttribute");
    int resident = 0;
    check(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&resident, kernel, threads, shared),
          "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
    known = {device.id, threads, shared, static_cast<int64_t>(resident) * device.multiprocessors};
  }
  kernel<<<static_cast<unsigned>(std::min(blocks, known.resident)), threads, shared, stream>>>(a, more...);
  check_launch();
}

// Forward's columns of costs at a time: two blocks of producers and what they need fit a multiprocessor.
constexpr int forward_columns = 64;

template <class Cell, class Source>
void launch_forward(Args a, Args again, cudaStream_t stream) {
  a.cost_columns = again.cost_columns = forward_columns;
  const int64_t sweepers = Source::cooperative ? 1 : Source::warps;  // of a block
  const int64_t blocks = (forward_tasks(a) + sweepers - 1) / sweepers;
  launch<decltype(&forward_kernel<Cell, Source>), forward_kernel<Cell, Source>>(
      Source::warps * warp, forward_bytes<Source>(a), blocks, stream, a, again);
}

template <class Cell, class Source, class Spender>
void launch_backward(Args a, cudaStream_t stream) {
  using Kernel = Backward<Cell, Source, Spender>;
  const size_t available = current_device().shared_memory;
  constexpr int least_steps = 2;
  a.tile_steps = Cell::wide ? max_tile_steps / 4 : max_tile_steps;
  a.cost_columns = Cell::wide ? 64 : 128;
  if (Kernel::shared_bytes(a) > available) a.cost_columns = 64;
  while (Kernel::shared_bytes(a) > available && a.tile_steps > least_steps) a.tile_steps /= 2;
  if (a.interval / a.tile_steps - 1 > a.snapshots_each) a.snapshots_each = 0;  // not planned for: tiles are smaller
  const auto log2 = [](int power) { return 31 - __builtin_clz(static_cast<unsigned>(power)); };
  a.tile_bits = log2(a.tile_steps), a.part_bits = log2(a.interval / a.tile_steps);
  launch<decltype(&backward_kernel<Cell, Source, Spender>), backward_kernel<Cell, Source, Spender>>(
      Kernel::threads, Kernel::shared_bytes(a), a.tasks, stream, a);
}

// Calls run with the source of costs for the problem.
template <class Cell, class Run>
void with_source(const Args &a, Run run) {
  if (a.precomputed)
    run(GivenCosts<Cell>{});
  else if constexpr (Cell::wide)
    run(DifferenceCosts{});
  else if (a.features == 1)
    run(InlineCosts<1>{});
  else if (a.features == 2)
    run(InlineCosts<2>{});
  else
    run(TensorCosts<float>{});
}
// Whether forward has room for x as float64: not that of several pairs side by side, nor on every GPU.
inline bool holds_doubles(Args a) {
  a.cost_columns = forward_columns;
  return has_bounds(a) && a.lanes == warp && forward_bytes<TensorCosts<double>>(a) <= current_device().shared_memory;
}

template <class Cell>
void Sweeps<Cell>::forward(const Args &a, const Args &again, cudaStream_t stream) {
  const auto run = [&](auto source) {
    using Source = decltype(source);
    launch_forward<Cell, Source>(a, again, stream);
    if constexpr (std::is_same_v<Cell, Fast>) {
      launch_reset(a, stream);
      if constexpr (std::is_base_of_v<InlineBase, Source>)  // pairs of one strip have been seen to
        if (a.strips > 1) launch_forward<Exact, Source>(a, again, stream);
    }
  };
  if constexpr (std::is_same_v<Cell, Fast>)
    if (holds_doubles(a)) return run(TensorCosts<double>{});
  with_source<Cell>(a, run);
}

template <class Cell>
void Sweeps<Cell>::backward(const Args &a, cudaStream_t stream) {
  with_source<Cell>(a, [&](auto source) {
    using Source = decltype(source);
    if (a.dense.data) return launch_backward<Cell, Source, Dense<typename Cell::Real>>(a, stream);
    if constexpr (std::is_base_of_v<InlineBase, Source>)
      launch_backward<Cell, Source, Systolic<Source::features>>(a, stream);
    else if constexpr (Source::cooperative)
      launch_backward<Cell, Source, Sparse<typename Cell::Real>>(a, stream);
  });
}

}  // namespace sdtw::cuda
