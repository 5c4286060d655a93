// The kernels that sweep: with which sources of costs each engine's are compiled, and which of them a problem takes.
// Trade-off: each combination is a kernel of its own. That takes compile time and library size, and leaves registers
// and the instruction cache to what a kernel needs. cmake/cuda.cmake has a file for each few sources.
#pragma once

#include "cuda/gradients/shuffle_gradients.cuh"
#include "cuda/launch.h"
#include "cuda/pipeline/backward_kernel.cuh"
#include "cuda/pipeline/forward_kernel.cuh"
#include "cuda/pipeline/warp_backward.cuh"

namespace sdtw::cuda {

// Launch the kernels with costs from Source (launch_kernels.cuh).
template <class Cell, class Source>
struct ForwardKernels {
  static void launch(const Args &a, const Kernel &chosen, cudaStream_t stream);
};
template <class Cell, class Source>
struct BackwardKernels {
  static void launch(const Args &a, const Kernel &chosen, const Kernel &wide, cudaStream_t stream);
};

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
      default: return visit(Type<LongSlices>{});
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
      case Source::split_pieces: return visit(Type<SplitPieces>{});
      case Source::units: return visit(Type<Units>{});
      case Source::units_of_many: return visit(Type<UnitsOfMany>{});
      case Source::unit_slices: return visit(Type<UnitSlices>{});
      case Source::split_unit_slices: return visit(Type<SplitUnitSlices>{});
      case Source::slices: return visit(Type<Slices>{});
      case Source::split_slices: return visit(Type<SplitSlices>{});
      default: return visit(Type<Smallest>{});
    }
  }
}
template <class Cell, class Visit>
decltype(auto) visit_backward(Source source, Visit &&visit) {
  if constexpr (Cell::wide) {
    return source == Source::differences ? visit(Type<DifferenceCosts>{}) : visit(Type<DirectCosts>{});
  } else if constexpr (std::is_same_v<Cell, LongCell>) {
    return source == Source::large ? visit(Type<Large>{}) : visit(Type<LongSlices>{});
  } else {
    switch (source) {
      case Source::given: return visit(Type<GivenCosts>{});
      case Source::inline_one: return visit(Type<InlineCosts<1>>{});
      case Source::inline_two: return visit(Type<InlineCosts<2>>{});
      case Source::inline_three: return visit(Type<InlineCosts<3>>{});
      case Source::inline_four: return visit(Type<InlineCosts<4>>{});
      case Source::inline_six: return visit(Type<InlineCosts<6>>{});
      case Source::inline_eight: return visit(Type<InlineCosts<8>>{});
      case Source::words: return visit(Type<Words>{});
      case Source::smallest_words: return visit(Type<SmallestWords>{});
      case Source::packed: return visit(Type<Packed>{});
      case Source::word_pieces: return visit(Type<WordPieces>{});
      case Source::packed_pieces: return visit(Type<PackedPieces>{});
      case Source::units_in_words: return visit(Type<UnitsInWords>{});
      case Source::unit_slices_in_words: return visit(Type<UnitSlicesInWords>{});
      case Source::slices: return visit(Type<Slices>{});
      case Source::slices_in_words: return visit(Type<SlicesInWords>{});
      default: return visit(Type<Smallest>{});
    }
  }
}

// Calls visit with the Type of the kernel that takes costs from Source: with its epilogue, for pairs of one strip or
// for several, or with a corridor. False if there is none.
template <class Cell, class Source, class Visit>
bool visit_kernel(const Args &a, Visit &&visit) {
  using Real = typename Cell::Real;
  const auto with = [&](auto epilogue) {
    using Epilogue = typename decltype(epilogue)::type;
    if constexpr (has_corridor<Source>)
      if (a.banded) return visit(Type<Backward<Cell, Source, Epilogue, Extent::corridor>>{});
    if (a.banded) return false;
    return a.strips == 1 ? visit(Type<Backward<Cell, Source, Epilogue, Extent::one_strip>>{})
                         : visit(Type<Backward<Cell, Source, Epilogue, Extent::strips>>{});
  };
  if constexpr (std::is_same_v<Source, GivenCosts> || std::is_same_v<Source, DirectCosts>)
    if (a.dense.data) return with(Type<AlignmentOutput<Real, 4>>{});
  if constexpr (std::is_base_of_v<InlineBase, Source>)
    return with(Type<ShuffleGradients<Source::features>>{});
  else if constexpr (!std::is_same_v<Source, GivenCosts>)
    return with(Type<SparseGradients<Real>>{});
  return false;
}

// The same of kernels in which each warp goes through strips by itself, which few features have in the float engine.
template <class Cell, class Source>
constexpr bool has_warp_kernels = false;
template <int D>
constexpr bool has_warp_kernels<FloatCell, InlineCosts<D>> = D <= max_inline_features;
template <class Source, class Visit>
decltype(auto) visit_warp_kernel(const Args &a, Visit &&visit) {
  return a.strips == 1 ? visit(Type<WarpBackward<Source, Extent::one_strip>>{})
                       : visit(Type<WarpBackward<Source, Extent::strips>>{});
}

}  // namespace sdtw::cuda
