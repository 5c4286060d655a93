// Selects and launches the sweep kernels of one engine: the source of costs that suits the problem and fits the GPU's
// shared memory, the epilogue that takes E (gradients or the alignment), the tile size, and the grid.
// Invariant: the tile size depends on the problem's features and dtype and on the GPU, not on how many lanes of a warp
// a pair's rows take, so that gradients do not depend on the latter. Trade-off: each combination is a kernel of its
// own. That takes compile time and library size, and leaves registers and the instruction cache to what a kernel needs.
#pragma once

#include <algorithm>

#include "cuda/launch.h"
#include "cuda/pipeline/backward_kernel.cuh"
#include "cuda/pipeline/forward_kernel.cuh"

namespace sdtw::cuda {

// Launches as many blocks as are resident at once, or fewer if fewer have work: they take tasks until none is left.
// What the driver says about a kernel is kept per thread, since asking takes as long as launching.
template <class Kernel, Kernel kernel, class... More>
void launch(bool overlap, int threads, size_t shared, int64_t blocks, cudaStream_t stream, const Args &a,
            const More &...more) {
  struct Known {
    int device = -1, threads = 0;
    size_t shared = 0;
    int64_t resident = 0;
    bool waits = false;  // whether wait_for_kernel_before was compiled into the kernel, not whether the GPU has it
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
  // If blocks of the kernel before are still resident, the GPU may put two blocks on one multiprocessor and none on the
  // next. That costs nothing if blocks fill the GPU anyway, or if only one fits a multiprocessor; otherwise pairs of
  // several strips do not overlap: (32, 512, 512, 1) takes 0.167 ms so and 0.157 without.
  const bool even = blocks >= known.resident || known.resident == device.multiprocessors;
  launch_kernel(overlap && known.waits && (even || a.strips == 1), kernel,
                dim3(static_cast<unsigned>(std::min(blocks, known.resident))), threads, shared, stream, a, more...);
}

template <class Source>
bool fits_forward(const Args &a) {
  return forward_bytes<Source>(a) <= current_device().shared_memory;
}

template <class Cell, class Source, bool warp_fallback, bool several>
void launch_forward(const Args &a, cudaStream_t stream) {
  const bool overlap = Cell::wide ? !a.f64 : has_bounds(a);          // if it follows another kernel of the call
  const int64_t sweepers = Source::cooperative ? 1 : Source::warps;  // of a block
  const int64_t blocks = (forward_tasks(a) + sweepers - 1) / sweepers;
  const auto run = [&](auto is_primary) {
    constexpr bool primary = decltype(is_primary)::value;
    using Kernel = decltype(&forward_kernel<Cell, Source, warp_fallback, primary, several>);
    launch<Kernel, forward_kernel<Cell, Source, warp_fallback, primary, several>>(
        overlap, Source::warps * warp, forward_bytes<Source>(a), blocks, stream, a);
  };
  if constexpr (!Cell::wide)
    run(std::true_type{});
  else if (a.f64)
    run(std::true_type{});
  else
    run(std::false_type{});
}

// Sets cost_columns to the most columns of costs that shared memory has room for, whole tiles of them. The columns of a
// tile and those by which the lanes of a pair are apart must be there at once. With more columns, producer warps
// compute costs of the next tiles while a tile is recomputed.
template <class Kernel>
bool fit_columns(Args &a) {
  const int needed = std::max(a.lanes, chunk_columns) + std::max(a.tile_steps, chunk_columns);
  for (const int columns : {160, 128, 96, 80, 64, 48, 32}) {
    a.cost_columns = columns;
    if (columns >= needed && columns % a.tile_steps == 0 && columns <= Kernel::most_columns &&
        Kernel::shared_bytes(a) <= current_device().shared_memory)
      return true;
  }
  return false;
}
// Sets tile_steps to the largest number of steps, at least least_steps, for which shared memory has room with 8, 16 and
// 32 lanes for a pair alike: so results do not depend on how many lanes the padded rows take.
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

template <class Cell, class Source, class Epilogue, bool several>
bool launch_backward(Args a, int least_steps, cudaStream_t stream) {
  using Kernel = Backward<Cell, Source, Epilogue, several>;
  if (!fit_backward<Kernel>(a, least_steps)) return false;
  if (a.interval / a.tile_steps - 1 > a.snapshots_each) a.snapshots_each = 0;  // tiles are smaller than was planned for
  const auto log2 = [](int power) { return 31 - __builtin_clz(static_cast<unsigned>(power)); };
  a.tile_bits = log2(a.tile_steps), a.part_bits = log2(a.interval / a.tile_steps);
  using Function = decltype(&backward_kernel<Cell, Source, Epilogue, several>);
  launch<Function, backward_kernel<Cell, Source, Epilogue, several>>(true, Kernel::threads, Kernel::shared_bytes(a),
                                                                     a.tasks, stream, a);
  return true;
}

// Costs of many features for FloatCell.
// Forward, a pair in a warp: costs lie in a SplitRing. A multiprocessor holds one block if there are no more strips
// than multiprocessors (SplitAlone) or more than 64 features (SplitOfMany), and two otherwise (Split).
// Forward, short pairs side by side, y of each of them in shared memory: two blocks fit a multiprocessor if costs lie
// in a PackedRing, of fewer columns with four pairs (PackedOfTwo, PackedOfFour). For longer y packed costs are not
// precise enough for values, and there a SplitRing of fewer columns is used (SplitOfPairs).
// Backward has costs in a WordRing, and in a PackedRing for pairs whose costs are too large for words.
using SplitAlone = TensorCosts<double, 64, SplitRing, 64, 2>;
using SplitOfMany = TensorCosts<double, 128, SplitRing, 64, 2>;
using Split = TensorCosts<float, 64, SplitRing>;
using SplitOfPairs = TensorCosts<float, 64, SplitRing, 48>;
using PackedOfTwo = TensorCosts<float, 64, PackedRing>;
using PackedOfFour = TensorCosts<float, 64, PackedRing, 48>;
constexpr int most_packed_columns = 256;
using Words = TensorCosts<float, 64, WordRing>;
using Packed = TensorCosts<float, 64, PackedRing>;
// The same for GPUs with little shared memory: 16 features at a time.
using SmallestWords = TensorCosts<float, 16, WordRing>;
using Smallest = TensorCosts<float, 16, PackedRing, 48>;

template <class Source>
bool fits_twice(const Args &a) {
  constexpr size_t reserved = 1024;  // bytes that the GPU itself takes of every block
  return 2 * (forward_bytes<Source>(a) + reserved) <= current_device().shared_memory_of_multiprocessor;
}

template <class Cell>
void Sweeps<Cell>::forward(const Args &a, cudaStream_t stream) {
  // run_one: kernels for pairs of one strip. run: these, or kernels for any number of strips.
  const auto run_one = [&](auto source) {
    using Source = decltype(source);
    launch_forward<Cell, Source, std::is_base_of_v<InlineBase, Source>, false>(a, stream);
  };
  const auto run = [&](auto source) {
    using Source = decltype(source);
    if (std::is_base_of_v<InlineBase, Source> ? has_warp_fallback(a) : a.strips == 1) return run_one(source);
    launch_forward<Cell, Source, false, true>(a, stream);
  };
  if constexpr (Cell::wide) {
    if (a.costs != Costs::given && fits_forward<DifferenceCosts>(a)) return run(DifferenceCosts{});
    run(DirectCosts{});
  } else if (a.costs == Costs::given) {
    run(GivenCosts{});
  } else if (a.costs == Costs::inlined) {
    if (a.features == 1) return run(InlineCosts<1>{});
    run(InlineCosts<2>{});
  } else if (a.lanes == warp) {
    if (a.features > Split::at_once && fits_forward<SplitOfMany>(a)) return run(SplitOfMany{});
    if (forward_tasks(a) <= current_device().multiprocessors && fits_forward<SplitAlone>(a)) return run(SplitAlone{});
    if (fits_forward<Split>(a)) return run(Split{});
    run(Smallest{});
  } else {
    const bool short_y = a.m <= most_packed_columns;
    if (short_y && fits_twice<PackedOfTwo>(a)) return run_one(PackedOfTwo{});
    if (short_y && fits_twice<PackedOfFour>(a)) return run_one(PackedOfFour{});
    if (fits_forward<SplitOfPairs>(a)) return run_one(SplitOfPairs{});
    run_one(Smallest{});
  }
}

// Steps of a tile. With tiles shorter than comfortable_steps the cells between two checkpoints are recomputed many
// times over, so a source that takes less shared memory is tried first; least_steps is the minimum.
constexpr int comfortable_steps = 8, least_steps = 2;

template <class Cell>
void Sweeps<Cell>::backward(const Args &a, cudaStream_t stream) {
  using Real = typename Cell::Real;
  const auto with = [&](auto source, auto epilogue, int least) {
    using Source = typename decltype(source)::type;
    using Epilogue = typename decltype(epilogue)::type;
    if (a.strips == 1) return launch_backward<Cell, Source, Epilogue, false>(a, least, stream);
    return launch_backward<Cell, Source, Epilogue, true>(a, least, stream);
  };
  const auto run = [&](auto source, int least) {
    using Source = decltype(source);
    if (a.dense.data) return with(Type<Source>{}, Type<AlignmentOutput<Real>>{}, least);
    if constexpr (std::is_base_of_v<InlineBase, Source>)
      return with(Type<Source>{}, Type<ShuffleGradients<Source::features>>{}, least);
    else if constexpr (!std::is_same_v<Source, GivenCosts>)
      return with(Type<Source>{}, Type<SparseGradients<Real>>{}, least);
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
    done = (run(Words{}, comfortable_steps) || run(SmallestWords{}, least_steps)) &&
           (run(Packed{}, comfortable_steps) || run(Smallest{}, least_steps));
  }
  if (!done)
    fail(SDTW_STATUS_UNSUPPORTED,
         "this GPU has %zu bytes of shared memory for a block: this problem's kernels need more",
         current_device().shared_memory);
}

}  // namespace sdtw::cuda
