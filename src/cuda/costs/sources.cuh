// The sources of costs by name, and for which GPUs kernels are compiled with them.
#pragma once

#include "cuda/costs/difference_costs.cuh"
#include "cuda/costs/direct_costs.cuh"
#include "cuda/costs/given_costs.cuh"
#include "cuda/costs/piece_costs.cuh"
#include "cuda/costs/slice_costs.cuh"
#include "cuda/costs/tensor_costs.cuh"

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
// Of more than 128 features all of these for forward, and backward's two.
using SplitPieces = PieceCosts<SplitRing, 3>;
using WordPieces = PieceCosts<WordRing, 3>;
using PackedPieces = PieceCosts<PackedRing, 2>;
// Where float64 is slow, of all of these one for forward and backward's two.
using Slices = SliceCosts<PackedRing>;
using SlicesInWords = SliceCosts<WordRing>;

// Costs of many features for LongCell, of short pairs side by side with fewer columns. Where a GPU has no room for
// SmallestLarge LongCell has no pairs (Args::has_long).
using Large = TensorCosts<float, 64, LongRing>;
using LargeOfPairs = TensorCosts<float, 64, LongRing, 48>;
using SmallestLarge = TensorCosts<float, 16, LongRing, 48>;

// Blocks have 64 KB of shared memory on GPUs of compute capability 7.5, and 99 KB or more on all later ones. Smallest
// and SmallestWords, and DirectCosts of series, are for the former, and what else producers compute has no room there
// (least_large in launch.h). A kernel is compiled for the GPUs that it may run on, and elsewhere only traps.
enum class Room { any, small, large };
template <class Source>
constexpr Room room_of = std::is_same_v<Source, Smallest> || std::is_same_v<Source, SmallestWords> ? Room::small
                         : Source::cooperative                                                     ? Room::large
                                                                                                   : Room::any;
#if defined(__CUDA_ARCH__) && !defined(SDTW_CUDA_SHARED_MEMORY)
template <Room room>
constexpr bool is_compiled = room == Room::any || (room == Room::small) == (__CUDA_ARCH__ < 800);
#else
template <Room>
constexpr bool is_compiled = true;
#endif

}  // namespace sdtw::cuda
