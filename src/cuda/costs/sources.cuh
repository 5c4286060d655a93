// The sources of costs by name, and for which GPUs kernels are compiled with them.
#pragma once

#include "cuda/costs/difference_costs.cuh"
#include "cuda/costs/direct_costs.cuh"
#include "cuda/costs/given_costs.cuh"
#include "cuda/costs/piece_costs.cuh"
#include "cuda/costs/slice_costs.cuh"
#include "cuda/costs/tensor_costs.cuh"
#include "cuda/room.h"

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
using Split = TensorCosts<float, 64, SplitRing, 64, 2>;
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
// Where float64 is slow, and in 99 KB, of all of these two for forward, of short y and of long, and backward's two.
using Slices = SliceCosts<PackedRing>;
using SplitSlices = SliceCosts<SplitRing>;
using SlicesInWords = SliceCosts<WordRing>;

// Of unit points (cosine), of up to 64 features at a time, and of more. Forward has x as doubles, and fewer columns in
// the ring, so that short pairs fit side by side. Backward has costs in words alone, whose rounding is a multiple of
// that of x to 31 bits. Where float64 is slow costs are in integers, as others are.
using Units = TensorCosts<double, 64, SplitRing, 48, 2, TwoFloats>;
using UnitsOfMany = TensorCosts<double, 128, SplitRing, 48, 2, TwoFloats>;
using UnitSlices = SliceCosts<PackedRing, TwoFloats>;
using SplitUnitSlices = SliceCosts<SplitRing, TwoFloats>;
using UnitSlicesInWords = SliceCosts<WordRing, TwoFloats>;
using UnitsInWords = TensorCosts<int, 64, WordRing, 64, 1, TwoFloats>;

// Costs of many features for LongCell, of short pairs side by side with fewer columns, and beside Slices of more
// digits. Where a GPU has no room for these LongCell has no pairs (Args::has_long).
using Large = TensorCosts<float, 64, LongRing>;
using LargeOfPairs = TensorCosts<float, 64, LongRing, 48>;
using LongSlices = SliceCosts<SplitRing, float, SixDigits>;

// The GPUs on which select_kernel.cu may choose a source. What the smallest sources are for has no room there
// otherwise; costs in integers are all that is chosen in 99 KB, and elsewhere where float64 is slow.
template <class Source>
constexpr Room rooms_of = Source::cooperative ? room_of_163 | room_of_227 : any_room;
template <>
inline constexpr Room rooms_of<Smallest> = room_of_64;
template <>
inline constexpr Room rooms_of<SmallestWords> = room_of_64;
template <>
inline constexpr Room rooms_of<Slices> = rooms_of_slices;
template <>
inline constexpr Room rooms_of<LongSlices> = rooms_of<Slices>;
template <>
inline constexpr Room rooms_of<SplitSlices> = rooms_of<Slices>;
template <>
inline constexpr Room rooms_of<Units> = rooms_of_units;
template <>
inline constexpr Room rooms_of<UnitsOfMany> = rooms_of<Units>;
template <>
inline constexpr Room rooms_of<UnitsInWords> = rooms_of<Units>;
template <>
inline constexpr Room rooms_of<SlicesInWords> = rooms_of<Slices>;
template <>
inline constexpr Room rooms_of<UnitSlices> = rooms_of<Slices>;
template <>
inline constexpr Room rooms_of<SplitUnitSlices> = rooms_of<Slices>;
template <>
inline constexpr Room rooms_of<UnitSlicesInWords> = rooms_of<Slices>;
template <>
inline constexpr Room rooms_of<DifferenceCosts> = rooms_of<Slices>;

// Sources of which there are kernels of pairs with a corridor.
template <class Source>
constexpr bool has_corridor =
    std::is_same_v<Source, Split> || std::is_same_v<Source, SplitOfPairs> || std::is_same_v<Source, Words> ||
    std::is_same_v<Source, Packed> || std::is_same_v<Source, Large> || std::is_same_v<Source, LargeOfPairs> ||
    std::is_same_v<Source, DifferenceCosts>;
template <int D>
constexpr bool has_corridor<InlineCosts<D>> = D <= max_inline_features;
template <int D>
constexpr bool has_corridor<LargeInlineCosts<D>> = D <= max_inline_features;

}  // namespace sdtw::cuda
