// Selects and launches the sweep kernels of one engine. `choose` picks, for the plan, the source of costs that suits
// the problem and fits the GPU's shared memory, and the tile size; `launch` launches what was chosen, backward with the
// epilogue that takes E (gradients or the alignment).
// Invariant: the tile size depends on the problem's features and dtype and on the GPU, not on how many lanes of a warp
// a pair's rows take, so that gradients do not depend on the latter. Trade-off: each combination is a kernel of its
// own. That takes compile time and library size, and leaves registers and the instruction cache to what a kernel needs.
#pragma once

#include <algorithm>

#include "cuda/launch.h"
#include "cuda/pipeline/backward_kernel.cuh"
#include "cuda/pipeline/forward_kernel.cuh"

namespace sdtw::cuda {

// Costs of many features for FloatCell.
// Forward, a pair in a warp: costs lie in a SplitRing. A multiprocessor holds one block if there are no more strips
// than multiprocessors (SplitAlone) or more than 64 features (SplitOfMany), and two otherwise (Split).
// Forward, short pairs side by side, y of each of them in shared memory: two blocks fit a multiprocessor if costs lie
// in a PackedRing, of fewer columns with four pairs (PackedOfTwo, PackedOfFour). For longer y packed costs are not
// precise enough for values, and there a SplitRing of fewer columns is used (SplitOfPairs).
// Backward has costs in a WordRing, and in a PackedRing for pairs whose costs are too large for words.
// Smallest: for GPUs with little shared memory, of few features at a time.
using SplitAlone = TensorCosts<double, 64, SplitRing, 64, 2>;
using SplitOfMany = TensorCosts<double, 128, SplitRing, 64, 2>;
using Split = TensorCosts<float, 64, SplitRing>;
using SplitOfPairs = TensorCosts<float, 64, SplitRing, 48>;
using PackedOfTwo = TensorCosts<float, 64, PackedRing>;
using PackedOfFour = TensorCosts<float, 64, PackedRing, 48>;
using Words = TensorCosts<float, 64, WordRing>;
using Packed = TensorCosts<float, 64, PackedRing>;
using SmallestWords = TensorCosts<float, 16, WordRing>;
using Smallest = TensorCosts<float, 16, PackedRing, 48>;
constexpr int most_packed_columns = 256;
// Where float64 is slow, of all of these one for forward and backward's two.
using Slices = SliceCosts<PackedRing>;
using SlicesInWords = SliceCosts<WordRing>;

// Costs of many features for LongCell, of short pairs side by side with fewer columns. Where a GPU has no room for
// SmallestLarge LongCell has no pairs (Args::has_long).
using Large = TensorCosts<float, 64, LongRing>;
using LargeOfPairs = TensorCosts<float, 64, LongRing, 48>;
using SmallestLarge = TensorCosts<float, 16, LongRing, 48>;

// Calls visit with the Type of a source of forward, of those that the engine's kernels are compiled for.
template <class Cell, class Visit>
decltype(auto) visit_forward(Source source, Visit &&visit) {
  if constexpr (Cell::wide) {
    return source == Source::differences ? visit(Type<DifferenceCosts>{}) : visit(Type<DirectCosts>{});
  } else if constexpr (std::is_same_v<Cell, LongCell>) {
    switch (source) {
      case Source::given: return visit(Type<LargeGivenCosts>{});
      case Source::inline_one: return visit(Type<LargeInlineCosts<1>>{});
      case Source::inline_two: return visit(Type<LargeInlineCosts<2>>{});
      case Source::inline_three: return visit(Type<LargeInlineCosts<3>>{});
      case Source::inline_four: return visit(Type<LargeInlineCosts<4>>{});
      case Source::inline_six: return visit(Type<LargeInlineCosts<6>>{});
      case Source::inline_eight: return visit(Type<LargeInlineCosts<8>>{});
      case Source::large: return visit(Type<Large>{});
      case Source::large_of_pairs: return visit(Type<LargeOfPairs>{});
      default: return visit(Type<SmallestLarge>{});
    }
  } else {
    switch (source) {
      case Source::given: return visit(Type<GivenCosts>{});
      case Source::inline_one: return visit(Type<InlineCosts<1>>{});
      case Source::inline_two: return visit(Type<InlineCosts<2>>{});
      case Source::inline_three: return visit(Type<InlineCosts<3>>{});
      case Source::inline_four: return visit(Type<InlineCosts<4>>{});
      case Source::inline_six: return visit(Type<InlineCosts<6>>{});
      case Source::inline_eight: return visit(Type<InlineCosts<8>>{});
      case Source::split_alone: return visit(Type<SplitAlone>{});
      case Source::split_of_many: return visit(Type<SplitOfMany>{});
      case Source::split: return visit(Type<Split>{});
      case Source::split_of_pairs: return visit(Type<SplitOfPairs>{});
      case Source::packed_of_two: return visit(Type<PackedOfTwo>{});
      case Source::packed_of_four: return visit(Type<PackedOfFour>{});
      case Source::slices: return visit(Type<Slices>{});
      default: return visit(Type<Smallest>{});
    }
  }
}
template <class Cell, class Visit>
decltype(auto) visit_backward(Source source, Visit &&visit) {
  if constexpr (Cell::wide) {
    return source == Source::differences ? visit(Type<DifferenceCosts>{}) : visit(Type<DirectCosts>{});
  } else if constexpr (std::is_same_v<Cell, LongCell>) {
    return source == Source::large ? visit(Type<Large>{}) : visit(Type<SmallestLarge>{});
  } else {
    switch (source) {
      case Source::given: return visit(Type<GivenCosts>{});
      case Source::inline_one: return visit(Type<InlineCosts<1>>{});
      case Source::inline_two: return visit(Type<InlineCosts<2>>{});
      case Source::inline_three: return visit(Type<InlineCosts<3>>{});
      case Source::inline_four: return visit(Type<InlineCosts<4>>{});
      case Source::words: return visit(Type<Words>{});
      case Source::smallest_words: return visit(Type<SmallestWords>{});
      case Source::packed: return visit(Type<Packed>{});
      case Source::slices: return visit(Type<Slices>{});
      case Source::slices_in_words: return visit(Type<SlicesInWords>{});
      default: return visit(Type<Smallest>{});
    }
  }
}

// Launches as many blocks as are resident at once, or fewer if fewer have work: they take tasks until none is left.
template <class Function, Function kernel, class... More>
void launch_blocks(bool overlap, int threads, size_t shared, int64_t blocks, cudaStream_t stream, const Args &a,
                   const More &...more) {
  const Residency resident = residency_of<Function, kernel>(threads, shared);
  // If blocks of the kernel before are still resident, the GPU may put two blocks on one multiprocessor and none on the
  // next. That costs nothing if blocks fill the GPU anyway, or if only one fits a multiprocessor; otherwise pairs of
  // several strips do not overlap: (32, 512, 512, 1) takes 0.167 ms so and 0.157 without.
  const bool even = blocks >= resident.blocks || resident.blocks == current_device().multiprocessors;
  launch_kernel(overlap && resident.waits && (even || a.strips == 1), kernel,
                dim3(static_cast<unsigned>(std::min(blocks, resident.blocks))), threads, shared, stream, a, more...);
}

template <class Source>
bool fits_forward(const Args &a) {
  return forward_bytes<Source>(a) <= current_device().shared_memory;
}

template <class Cell, class Source, bool warp_fallback, bool several>
void launch_forward(const Args &a, const Kernel &chosen, cudaStream_t stream) {
  const bool first = std::is_same_v<Cell, FloatCell> || a.f64;
  const bool overlap = !first || has_bounds(a);                      // if it follows another kernel of the call
  const int64_t sweepers = Source::cooperative ? 1 : Source::warps;  // of a block
  const int64_t blocks = (forward_tasks(a) + sweepers - 1) / sweepers;
  const auto run = [&](auto is_primary) {
    constexpr bool primary = decltype(is_primary)::value;
    using Function = decltype(&forward_kernel<Cell, Source, warp_fallback, primary, several>);
    launch_blocks<Function, forward_kernel<Cell, Source, warp_fallback, primary, several>>(
        overlap, Source::warps * warp, chosen.shared_bytes, blocks, stream, a);
  };
  if constexpr (std::is_same_v<Cell, LongCell>)
    run(std::false_type{});
  else if (std::is_same_v<Source, DirectCosts> && !a.f64)
    run(std::bool_constant<!std::is_same_v<Source, DirectCosts>>{});
  else
    run(std::true_type{});
}

template <class Source, bool several>
void launch_forward_rest(const Args &a, const Kernel &chosen, cudaStream_t stream) {
  using Function = decltype(&forward_rest_kernel<Source, several>);
  launch_blocks<Function, forward_rest_kernel<Source, several>>(true, Source::warps * warp, chosen.shared_bytes,
                                                                forward_tasks(a), stream, a);
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
void launch_backward(Type<Backward<Cell, Source, Epilogue, several>>, const Args &a, const Kernel &chosen,
                     cudaStream_t stream) {
  using Function = decltype(&backward_kernel<Cell, Source, Epilogue, several>);
  launch_blocks<Function, backward_kernel<Cell, Source, Epilogue, several>>(
      true, Backward<Cell, Source, Epilogue, several>::threads, chosen.shared_bytes, a.tasks, stream, a);
}

template <class Source>
bool fits_twice(const Args &a) {
  constexpr size_t reserved = 1024;  // bytes that the GPU itself takes of every block
  return 2 * (forward_bytes<Source>(a) + reserved) <= current_device().shared_memory_of_multiprocessor;
}

// InlineCosts of so many features.
inline Source inline_source(int features) {
  if (features > 4) return features > 6 ? Source::inline_eight : Source::inline_six;
  return static_cast<Source>(static_cast<int>(Source::inline_one) + features - 1);
}

// The source of costs for forward.
template <class Cell>
Source forward_source(const Args &a) {
  if constexpr (Cell::wide)
    return a.f64 && a.costs != Costs::given && fits_forward<DifferenceCosts>(a) ? Source::differences : Source::direct;
  if (a.costs == Costs::given) return Source::given;
  if (a.costs == Costs::inlined) return inline_source(a.features);
  if constexpr (std::is_same_v<Cell, LongCell>) {
    if (a.lanes == warp) return fits_forward<Large>(a) ? Source::large : Source::smallest_large;
    return fits_forward<LargeOfPairs>(a) ? Source::large_of_pairs : Source::smallest_large;
  }
  if (a.lanes == warp) {
    if (a.features > Split::at_once && fits_forward<SplitOfMany>(a)) return Source::split_of_many;
    if (forward_tasks(a) <= current_device().multiprocessors && fits_forward<SplitAlone>(a)) return Source::split_alone;
    return fits_forward<Split>(a) ? Source::split : Source::smallest;
  }
  const bool short_y = a.m <= most_packed_columns;
  if (short_y && fits_twice<PackedOfTwo>(a)) return Source::packed_of_two;
  if (short_y && fits_twice<PackedOfFour>(a)) return Source::packed_of_four;
  return fits_forward<SplitOfPairs>(a) ? Source::split_of_pairs : Source::smallest;
}

// Forward with Slices: x whole if it fits, and as many columns in the ring as do then. none: nothing fits.
inline Kernel fit_slices(Args a) {
  for (const bool whole : {true, false})
    for (const int columns : {64, 48}) {
      a.x_whole = whole, a.cost_columns = columns;
      if (fits_forward<Slices>(a)) return {Source::slices, 0, columns, forward_bytes<Slices>(a), whole};
    }
  return {};
}
template <class Cell>
bool ForwardSweeps<Cell>::fits_slices(const Args &a) {
  return std::is_same_v<Cell, FloatCell> && fit_slices(a).source != Source::none;
}

template <class Cell>
Kernel ForwardSweeps<Cell>::choose(const Args &a) {
  if (std::is_same_v<Cell, FloatCell> && a.slices) return fit_slices(a);
  const Source source = forward_source<Cell>(a);
  size_t bytes =
      visit_forward<Cell>(source, [&](auto type) { return forward_bytes<typename decltype(type)::type>(a); });
  if (std::is_same_v<Cell, LongCell> && has_bounds(a))  // beside DoubleCell, in one kernel
    bytes = std::max(bytes, forward_bytes<DifferenceCosts>(a));
  if (bytes > current_device().shared_memory) fail_for_memory(bytes);
  return {source, 0, 0, bytes, false};
}

// Sources of pairs that share a warp, and so have one strip.
template <class Source>
constexpr bool is_of_short_pairs = std::is_same_v<Source, PackedOfTwo> || std::is_same_v<Source, PackedOfFour> ||
                                   std::is_same_v<Source, SplitOfPairs> || std::is_same_v<Source, LargeOfPairs>;

template <class Cell>
void ForwardSweeps<Cell>::launch(const Args &given, const Kernel &chosen, cudaStream_t stream) {
  Args a = given;
  a.cost_columns = chosen.cost_columns, a.x_whole = chosen.x_whole;
  visit_forward<Cell>(chosen.source, [&](auto type) {
    using Source = typename decltype(type)::type;
    constexpr bool is_inline = std::is_base_of_v<InlineBase, Source>;
    // Kernels for pairs of one strip, or for any number of strips.
    if constexpr (std::is_same_v<Cell, LongCell>) {
      if constexpr (is_of_short_pairs<Source>)
        launch_forward_rest<Source, false>(a, chosen, stream);
      else if constexpr (Source::cooperative)
        a.strips == 1 ? launch_forward_rest<Source, false>(a, chosen, stream)
                      : launch_forward_rest<Source, true>(a, chosen, stream);
      else if constexpr (is_inline)  // of one strip they have no second kernel
        launch_forward<Cell, Source, true, true>(a, chosen, stream);
      else
        a.strips == 1 ? launch_forward<Cell, Source, true, false>(a, chosen, stream)
                      : launch_forward<Cell, Source, true, true>(a, chosen, stream);
    } else if constexpr (is_of_short_pairs<Source>)
      launch_forward<Cell, Source, false, false>(a, chosen, stream);
    else if (is_inline ? has_warp_fallback(a) : a.strips == 1)
      launch_forward<Cell, Source, is_inline, false>(a, chosen, stream);
    else
      launch_forward<Cell, Source, false, true>(a, chosen, stream);
  });
}

// Calls visit with the Type of the kernel that takes costs from Source: with the epilogue that the call wants, for
// pairs of one strip or for several.
template <class Cell, class Source, class Visit>
bool visit_kernel(const Args &a, Visit &&visit) {
  using Real = typename Cell::Real;
  const auto with = [&](auto epilogue) {
    using Epilogue = typename decltype(epilogue)::type;
    return a.strips == 1 ? visit(Type<Backward<Cell, Source, Epilogue, false>>{})
                         : visit(Type<Backward<Cell, Source, Epilogue, true>>{});
  };
  if (a.dense.data) return with(Type<AlignmentOutput<Real>>{});
  if constexpr (std::is_base_of_v<InlineBase, Source>)
    return with(Type<ShuffleGradients<Source::features>>{});
  else if constexpr (!std::is_same_v<Source, GivenCosts>)
    return with(Type<SparseGradients<Real>>{});
  return false;
}

// Steps of a tile. With tiles shorter than comfortable_steps the cells between two checkpoints are recomputed many
// times over, so a source that takes less shared memory is tried first; least_steps is the minimum.
constexpr int comfortable_steps = 8, least_steps = 2;

// The kernel that BackwardSweeps::choose gives; none if none fits.
template <class Cell>
Kernel fit_any(Args a, bool large) {
  Kernel chosen{};
  const auto fits = [&](Source source, int least) {
    return visit_backward<Cell>(source, [&](auto type) {
      return visit_kernel<Cell, typename decltype(type)::type>(a, [&](auto of_kernel) {
        using Function = typename decltype(of_kernel)::type;
        if (!fit_backward<Function>(a, least)) return false;
        chosen = {source, a.tile_steps, a.cost_columns, Function::shared_bytes(a), a.x_whole};
        return true;
      });
    });
  };
  [[maybe_unused]] const auto fits_with = [&](bool whole, Source source, int least) {
    a.x_whole = whole;
    return fits(source, least);
  };
  bool found;
  if constexpr (Cell::wide) {
    found = (a.costs != Costs::given && fits(Source::differences, least_steps)) || fits(Source::direct, least_steps);
  } else if constexpr (std::is_same_v<Cell, LongCell>) {
    found = fits(Source::large, comfortable_steps) || fits(Source::smallest_large, least_steps);
  } else if (a.costs != Costs::tensor) {
    found = fits(forward_source<Cell>(a), least_steps);
  } else if (a.slices) {
    const Source source = large ? Source::slices : Source::slices_in_words;
    found = fits_with(true, source, comfortable_steps) || fits_with(false, source, least_steps);
  } else if (large) {
    found = fits(Source::packed, comfortable_steps) || fits(Source::smallest, least_steps);
  } else {
    found = fits(Source::words, comfortable_steps) || fits(Source::smallest_words, least_steps);
  }
  return found ? chosen : Kernel{};
}
template <class Cell>
Kernel BackwardSweeps<Cell>::choose(const Args &a, bool large) {
  const Kernel chosen = fit_any<Cell>(a, large);
  if (chosen.source == Source::none) fail_for_memory(current_device().shared_memory + 1);
  return chosen;
}
// Of gradients and of alignments, so that forward may be followed by either.
template <class Cell>
bool BackwardSweeps<Cell>::fits_slices(const Args &given) {
  int alignment = 0;  // any address
  Args a = given;
  a.slices = true;
  const auto all = [&] {
    return fit_any<Cell>(a, false).source != Source::none && fit_any<Cell>(a, true).source != Source::none;
  };
  a.dense.data = nullptr;
  const bool gradients = all();
  a.dense.data = &alignment;
  return std::is_same_v<Cell, FloatCell> && gradients && all();
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
template <class Source, template <class> class Epilogue, bool several>
struct WideOf<Backward<LongCell, Source, Epilogue<float>, several>> {
  using type = Backward<DoubleCell, DifferenceCosts, Epilogue<double>, several>;
};

template <class Cell>
void BackwardSweeps<Cell>::launch(const Args &given, const Kernel &chosen, const Kernel &wide, cudaStream_t stream) {
  const Args a = with_tiles(given, chosen);
  visit_backward<Cell>(chosen.source, [&](auto type) {
    return visit_kernel<Cell, typename decltype(type)::type>(a, [&](auto of_kernel) {
      if constexpr (std::is_same_v<Cell, LongCell>) {
        using Long = typename decltype(of_kernel)::type;
        using Wide = typename WideOf<Long>::type;
        using Function = decltype(&backward_rest_kernel<Long, Wide>);
        launch_blocks<Function, backward_rest_kernel<Long, Wide>>(true, Long::threads,
                                                                  std::max(chosen.shared_bytes, wide.shared_bytes),
                                                                  a.tasks, stream, a, with_tiles(given, wide));
      } else {
        launch_backward(of_kernel, a, chosen, stream);
      }
      return true;
    });
  });
}

}  // namespace sdtw::cuda
