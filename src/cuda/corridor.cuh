// Corridors: bands of the kind of SDTW_BAND_SAKOE_CHIBA, whose cells the core kernels keep to. A corridor lies between
// two diagonals and is the same from both ends of a pair, so sweeps from either end need not know which they are. What
// a strip's sweep makes of it (StripView, pair.cuh): it begins at the tile of its first admitted cell, ends behind the
// last one, and forbids cells in between where an edge crosses a block or a tile (Gate, sweep/strip.cuh).
//
// Trade-off: kernels of corridors are compiled apart, as others would have their registers and instructions as well.
#pragma once

#include "core/band.h"
#include "cuda/args.h"
#include "cuda/memory.cuh"
#include "cuda/room.h"

namespace sdtw::cuda {

// What a kernel is compiled for: pairs of one strip; of any number of strips; or of any number, with a corridor. Code
// for less is shorter, and so faster.
enum class Extent { one_strip, strips, corridor };
template <Extent extent>
constexpr bool is_several = extent != Extent::one_strip;
template <Extent extent, Room rooms>
constexpr bool is_compiled_for = is_compiled<rooms> && (extent != Extent::corridor || compiles_corridors);

// Of a pair of n rows and m columns, both counted from where a sweep begins.
struct Corridor : core::Diagonals<int> {
  __device__ __forceinline__ Corridor(const Args &a, int n, int m) : Diagonals(n, m, a.radius) {}
};

// Columns of a row, as the sweep counts them.
struct Columns {
  int first, end;

  __device__ __forceinline__ bool has(int column) const { return column >= first && column < end; }
};
// Those that a corridor admits of the last row of a strip, whose number is counted from the top in either sweep.
template <bool banded>
__device__ __forceinline__ Columns columns_of_strip(const Args &a, int n, int m, int strip, bool reversed) {
  if constexpr (!banded) return {0, m};
  constexpr int rows = rows_per_lane * warp;
  const Corridor corridor(a, n, m);
  const int row = reversed ? n - 1 - strip * rows : (strip + 1) * rows - 1;
  return {max(row + corridor.least, 0), min(row + corridor.most + 1, m)};
}

}  // namespace sdtw::cuda
