// Launches the kernels of one engine with costs from one source: those that select_kernel.cu has chosen, backward with
// the epilogue that takes E (gradients or the alignment).
#pragma once

#include <algorithm>

#include "cuda/kernels.cuh"

namespace sdtw::cuda {

// Of how many blocks a grid is made: as many as are resident at once, or as have work. If the last of several rounds
// would leave most multiprocessors with little to do, there are fewer, so that rounds are alike: two blocks of four
// sweeping warps keep a multiprocessor as busy as three do.
inline int64_t blocks_of_grid(int64_t blocks, int64_t resident) {
  const int64_t rounds = (blocks + resident - 1) / resident, multiprocessors = current_device().multiprocessors;
  const int64_t of_round = (blocks + rounds - 1) / rounds;
  return std::min({blocks, resident, (of_round + multiprocessors - 1) / multiprocessors * multiprocessors});
}

// Launches as many blocks as are resident at once, or fewer: they take tasks until none is left.
template <class Function, Function kernel, class... More>
void launch_blocks(Room rooms, bool overlap, int threads, size_t shared, int64_t blocks, cudaStream_t stream,
                   const Args &a, const More &...more) {
  require(rooms);
  const int64_t resident = resident_blocks<Function, kernel>(threads, shared);
  // If blocks of the kernel before are still resident, the GPU may put two blocks on one multiprocessor and none on the
  // next. That costs nothing if blocks fill the GPU anyway, or if only one fits a multiprocessor; otherwise pairs of
  // several strips do not overlap: (32, 512, 512, 1) takes 0.167 ms so and 0.157 without.
  const bool even = blocks >= resident || resident == current_device().multiprocessors;
  launch_kernel(overlap && (even || a.strips == 1), kernel,
                dim3(static_cast<unsigned>(blocks_of_grid(blocks, resident))), threads, shared, stream, a, more...);
}

template <class Cell, class Source, bool warp_fallback, Extent extent>
void launch_forward(const Args &a, const Kernel &chosen, cudaStream_t stream) {
  const bool first = std::is_same_v<Cell, FloatCell> || a.f64;
  const bool overlap = !first || has_bounds(a);  // if it follows another kernel of the call
  const int warps = forward_warps<Source>(a);
  const int64_t sweepers = Source::cooperative ? 1 : warps;  // of a block
  const int64_t blocks = (forward_tasks(a) + sweepers - 1) / sweepers;
  const auto run = [&](auto is_primary) {
    constexpr bool primary = decltype(is_primary)::value;
    using Function = decltype(&forward_kernel<Cell, Source, warp_fallback, primary, extent>);
    launch_blocks<Function, forward_kernel<Cell, Source, warp_fallback, primary, extent>>(
        rooms_of_forward<Source, primary>, overlap, warps * warp, chosen.shared_bytes, blocks, stream, a);
  };
  if constexpr (std::is_same_v<Cell, LongCell>)
    run(std::false_type{});
  else if (std::is_same_v<Source, DirectCosts> && !a.f64)
    run(std::bool_constant<!std::is_same_v<Source, DirectCosts>>{});
  else
    run(std::true_type{});
}

template <class Source, Extent extent>
void launch_forward_rest(const Args &a, const Kernel &chosen, cudaStream_t stream) {
  using Function = decltype(&forward_rest_kernel<Source, extent>);
  launch_blocks<Function, forward_rest_kernel<Source, extent>>(rooms_of<Source>, true, Source::warps * warp,
                                                               chosen.shared_bytes, forward_tasks(a), stream, a);
}

// Sources of pairs that share a warp, and so have one strip.
template <class Source>
constexpr bool is_of_short_pairs = std::is_same_v<Source, PackedOfTwo> || std::is_same_v<Source, PackedOfFour> ||
                                   std::is_same_v<Source, SplitOfPairs> || std::is_same_v<Source, LargeOfPairs>;

template <class Cell, class Source>
void ForwardKernels<Cell, Source>::launch(const Args &a, const Kernel &chosen, cudaStream_t stream) {
  constexpr bool is_inline = std::is_base_of_v<InlineBase, Source>, is_long = std::is_same_v<Cell, LongCell>;
  constexpr auto one_strip = Extent::one_strip, strips = Extent::strips, corridor = Extent::corridor;
  const auto launch = [&](auto of) {
    constexpr Extent extent = decltype(of)::value;
    if constexpr (is_long && Source::cooperative)
      launch_forward_rest<Source, extent>(a, chosen, stream);
    else
      launch_forward<Cell, Source, is_long || (is_inline && extent == one_strip), extent>(a, chosen, stream);
  };
  if constexpr (has_corridor<Source> && !Cell::wide && !std::is_same_v<Source, Packed>)  // which are backward's
    if (a.banded) return launch(std::integral_constant<Extent, corridor>{});
  // Kernels for pairs of one strip, or for any number of strips. InlineCosts of LongCell have the latter alone, and
  // FloatCell's the former where warps have the other engines, too.
  if constexpr (is_of_short_pairs<Source>)
    launch(std::integral_constant<Extent, one_strip>{});
  else if constexpr (is_long && is_inline)
    launch(std::integral_constant<Extent, strips>{});
  else if (is_inline ? has_warp_fallback(a) : a.strips == 1)
    launch(std::integral_constant<Extent, one_strip>{});
  else
    launch(std::integral_constant<Extent, strips>{});
}

template <class Cell, class Source, class Epilogue, Extent extent>
void launch_backward(Type<Backward<Cell, Source, Epilogue, extent>>, const Args &a, const Kernel &chosen,
                     cudaStream_t stream) {
  using Function = decltype(&backward_kernel<Cell, Source, Epilogue, extent>);
  launch_blocks<Function, backward_kernel<Cell, Source, Epilogue, extent>>(
      Backward<Cell, Source, Epilogue, extent>::rooms, true, Backward<Cell, Source, Epilogue, extent>::threads,
      chosen.shared_bytes, a.tasks, stream, a);
}

template <class Source, Extent extent>
void launch_warps(Type<WarpBackward<Source, extent>>, const Args &a, const Kernel &chosen, cudaStream_t stream) {
  using Own = WarpBackward<Source, extent>;
  using Function = decltype(&warp_backward_kernel<Source, extent>);
  launch_blocks<Function, warp_backward_kernel<Source, extent>>(Own::rooms, true, chosen.warps * warp,
                                                                chosen.shared_bytes,
                                                                (a.tasks + chosen.warps - 1) / chosen.warps, stream, a);
}

// Completes the arguments by what was chosen.
inline Args with_tiles(Args a, const Kernel &chosen) {
  const auto log2 = [](int power) { return 31 - __builtin_clz(static_cast<unsigned>(power)); };
  a.tile_steps = chosen.tile_steps, a.cost_columns = chosen.cost_columns, a.x_whole = chosen.x_whole;
  if (a.interval / a.tile_steps - 1 > a.snapshots_each) a.snapshots_each = 0;  // tiles are smaller than was planned for
  a.tile_bits = log2(a.tile_steps), a.part_bits = log2(a.interval / a.tile_steps);
  return a;
}

// DoubleCell's kernel in which it follows LongCell: the same epilogue in double.
template <class Long>
struct WideOf;
template <class Source, template <class> class Epilogue, Extent extent>
struct WideOf<Backward<LongCell, Source, Epilogue<float>, extent>> {
  using type = Backward<DoubleCell, DifferenceCosts, Epilogue<double>, extent>;
};

template <class Cell, class Source>
void BackwardKernels<Cell, Source>::launch(const Args &given, const Kernel &chosen, const Kernel &wide,
                                           cudaStream_t stream) {
  const Args a = with_tiles(given, chosen);
  if constexpr (has_warp_kernels<Cell, Source>)
    if (chosen.warps > 0)
      return visit_warp_kernel<Source>(a, [&](auto of_kernel) { launch_warps(of_kernel, a, chosen, stream); });
  visit_kernel<Cell, Source>(a, [&](auto of_kernel) {
    if constexpr (std::is_same_v<Cell, LongCell>) {
      using Long = typename decltype(of_kernel)::type;
      using Wide = typename WideOf<Long>::type;
      using Function = decltype(&backward_rest_kernel<Long, Wide>);
      launch_blocks<Function, backward_rest_kernel<Long, Wide>>(Long::rooms, true, Long::threads,
                                                                std::max(chosen.shared_bytes, wide.shared_bytes),
                                                                a.tasks, stream, a, with_tiles(given, wide));
    } else {
      launch_backward(of_kernel, a, chosen, stream);
    }
    return true;
  });
}

}  // namespace sdtw::cuda
