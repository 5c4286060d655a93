// Launches the sweeps of one engine: picks the source of costs that suits the problem and fits the GPU, what becomes of
// E, the tile that fits shared memory, and the grid.
#pragma once

#include <algorithm>

#include "backward.cuh"
#include "forward.cuh"
#include "launch.h"
#include "model.h"

namespace sdtw::cuda {

// As many blocks as are resident at once, or as there are tasks: they take tasks until none is left. What the driver
// says of a kernel is kept, since asking takes as long as launching.
template <class Kernel, Kernel kernel, class... More>
void launch(bool overlap, int threads, size_t shared, int64_t blocks, cudaStream_t stream, const Args &a,
            const More &...more) {
  struct Known {
    int device = -1, threads = 0;
    size_t shared = 0;
    int64_t resident = 0;
    bool waits = false;  // for the kernel before it (wait_for_kernel_before): as it was compiled, not as the GPU could
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
    cudaFuncAttributes compiled{};
    check(cudaFuncGetAttributes(&compiled, kernel), "cudaFuncGetAttributes");
    known = {device.id, threads, shared, static_cast<int64_t>(resident) * device.multiprocessors,
             compiled.ptxVersion >= 90};
  }
  // Blocks that come while others are still there may be put two on a multiprocessor, and none on the next.
  const bool even = blocks >= known.resident || known.resident == device.multiprocessors;
  launch_kernel(overlap && known.waits && (even || a.strips == 1), kernel,
                dim3(static_cast<unsigned>(std::min(blocks, known.resident))), threads, shared, stream, a, more...);
}

template <class Source>
bool fits_forward(const Args &a) {
  return forward_bytes<Source>(a) <= current_device().shared_memory;
}

template <class Cell, class Source, bool alone, bool several>
void launch_forward(const Args &a, const Args &again, cudaStream_t stream) {
  const bool overlap = std::is_same_v<Cell, Fast> ? has_bounds(a) : !a.f64;  // of what follows another
  const int64_t sweepers = Source::cooperative ? 1 : Source::warps;          // of a block
  const int64_t blocks = (forward_tasks(a) + sweepers - 1) / sweepers;
  const auto run = [&](auto is_primary) {
    constexpr bool primary = decltype(is_primary)::value;
    using Kernel = decltype(&forward_kernel<Cell, Source, alone, primary, several>);
    launch<Kernel, forward_kernel<Cell, Source, alone, primary, several>>(
        overlap, Source::warps * warp, forward_bytes<Source>(a), blocks, stream, a, again);
  };
  if constexpr (!Cell::wide)
    run(std::is_same<Cell, Fast>{});
  else if (a.f64)
    run(std::true_type{});
  else
    run(std::false_type{});
}

// The most columns of costs that there is room for. Those of a tile, and as many as lanes are apart, must be there at
// once. Of two tiles between checkpoints the right one takes the costs of both; five tiles' are enough to begin with
// the next two meanwhile.
template <class Kernel>
bool fit_columns(Args &a) {
  const int needed = std::max(a.lanes, chunk_columns) + std::max(a.tile_steps, chunk_columns);
  a.cost_columns = ring_of_five;
  if (a.tile_steps == max_tile_steps && a.interval == 2 * max_tile_steps &&
      Kernel::shared_bytes(a) <= current_device().shared_memory)
    return true;
  for (a.cost_columns = Kernel::most_columns; a.cost_columns >= needed; a.cost_columns /= 2)
    if (Kernel::shared_bytes(a) <= current_device().shared_memory) return true;
  return false;
}
// The largest tiles, of at least so many steps, that there is room for, whatever the number of rows: so that results do
// not depend on it.
template <class Kernel>
bool fit_backward(Args &a, int least_steps) {
  for (a.tile_steps = Kernel::most_steps; a.tile_steps >= least_steps; a.tile_steps /= 2) {
    bool fits = fit_columns<Kernel>(a);
    for (const int bits : {3, 4, 5}) {
      Args other = a;
      other.lanes = 1 << bits, other.lane_bits = bits;
      fits = fits && fit_columns<Kernel>(other);
    }
    if (fits) return true;
  }
  return false;
}

template <class Cell, class Source, class Spender, bool several>
bool launch_backward(Args a, int least_steps, cudaStream_t stream) {
  using Kernel = Backward<Cell, Source, Spender, several>;
  if (!fit_backward<Kernel>(a, least_steps)) return false;
  if (a.interval / a.tile_steps - 1 > a.snapshots_each) a.snapshots_each = 0;  // not planned for: tiles are smaller
  const auto log2 = [](int power) { return 31 - __builtin_clz(static_cast<unsigned>(power)); };
  a.tile_bits = log2(a.tile_steps), a.part_bits = log2(a.interval / a.tile_steps);
  using Function = decltype(&backward_kernel<Cell, Source, Spender, several>);
  launch<Function, backward_kernel<Cell, Source, Spender, several>>(true, Kernel::threads, Kernel::shared_bytes(a),
                                                                    a.tasks, stream, a);
  return true;
}

// Costs of many features for the fast engine, float32 problems: what producers do for forward.
using Converted = TensorCosts<double, 64, false>;    // two blocks on a multiprocessor
using Apart = TensorCosts<double, 64, true>;         // one
using ApartOfMany = TensorCosts<double, 128, true>;  // one
using Compact = TensorCosts<float, 64, false>;       // several pairs side by side; backward
using Smallest = TensorCosts<float, 16, false>;      // GPUs with little shared memory

template <class Cell>
void Sweeps<Cell>::forward(const Args &a, const Args &again, cudaStream_t stream) {
  const auto run = [&](auto source) {
    using Source = decltype(source);
    constexpr bool inlined = std::is_base_of_v<InlineBase, Source>;
    if constexpr (inlined)
      if (is_alone(a)) return launch_forward<Cell, Source, true, false>(a, again, stream);
    if constexpr (!inlined)
      if (a.strips == 1) return launch_forward<Cell, Source, false, false>(a, again, stream);
    launch_forward<Cell, Source, false, true>(a, again, stream);
    if constexpr (inlined) launch_forward<Exact, Source, false, true>(a, again, stream);
  };
  if constexpr (Cell::wide) {
    if (a.costs != Costs::given && fits_forward<DifferenceCosts>(a)) return run(DifferenceCosts{});
    run(DirectCosts{});
  } else if (a.costs == Costs::given) {
    run(GivenCosts{});
  } else if (a.costs == Costs::inlined) {
    if (a.features == 1) return run(InlineCosts<1>{});
    run(InlineCosts<2>{});
  } else {
    if (a.lanes == warp) {
      const int multiprocessors = current_device().multiprocessors;
      const int64_t tasks = forward_tasks(a);
      const bool apart =
          expected_cycles(alone_pace, tasks, multiprocessors) < expected_cycles(shared_pace, tasks, multiprocessors);
      if (a.features > Converted::at_once && fits_forward<ApartOfMany>(a)) return run(ApartOfMany{});
      if (apart && fits_forward<Apart>(a)) return run(Apart{});
      if (fits_forward<Converted>(a)) return run(Converted{});
    }
    if (fits_forward<Compact>(a)) return run(Compact{});
    run(Smallest{});
  }
}

// Tiles of fewer steps are recomputed several times over, a checkpoint being further away.
constexpr int comfortable_steps = 8, least_steps = 2;

template <class Cell>
void Sweeps<Cell>::backward(const Args &a, cudaStream_t stream) {
  using Real = typename Cell::Real;
  const auto with = [&](auto source, auto spender, int least) {
    using Source = typename decltype(source)::type;
    using Spender = typename decltype(spender)::type;
    if (a.strips == 1) return launch_backward<Cell, Source, Spender, false>(a, least, stream);
    return launch_backward<Cell, Source, Spender, true>(a, least, stream);
  };
  const auto run = [&](auto source, int least) {
    using Source = decltype(source);
    if (a.dense.data) return with(Type<Source>{}, Type<Dense<Real>>{}, least);
    if constexpr (std::is_base_of_v<InlineBase, Source>)
      return with(Type<Source>{}, Type<Systolic<Source::features>>{}, least);
    else if constexpr (!std::is_same_v<Source, GivenCosts>)
      return with(Type<Source>{}, Type<Sparse<Real>>{}, least);
    return false;
  };
  bool done = false;
  if constexpr (Cell::wide) {
    done = a.costs != Costs::given && run(DifferenceCosts{}, least_steps);
    done = done || run(DirectCosts{}, least_steps);
  } else if (a.costs == Costs::given) {
    done = run(GivenCosts{}, least_steps);
  } else if (a.costs == Costs::inlined) {
    done = a.features == 1 ? run(InlineCosts<1>{}, least_steps) : run(InlineCosts<2>{}, least_steps);
  } else {
    done = run(Compact{}, comfortable_steps) || run(Smallest{}, least_steps);
  }
  if (!done)
    fail(SDTW_STATUS_UNSUPPORTED,
         "this GPU has %zu bytes of shared memory for a block: this problem's kernels need more",
         current_device().shared_memory);
}

}  // namespace sdtw::cuda
