// Boundaries of tiles, which forward leaves for backward: how many columns of them there are, and where they lie in the
// block of a unit, in state or in workspace.
//
// With a band, a pair in strips keeps the columns that its own sweeps go through, and no others: of each row of tiles
// as many as of the widest. How wide a corridor is depends on the pair's lengths: that of Sakoe and Chiba takes in as
// many columns more as they differ. State has room for whole series, and for lengths that differ by as many more as
// the band is wide. Pairs that would take more are not kept, and backward does their forward anew.
#pragma once

#include <algorithm>

#include "core/band.h"
#include "cpu/kernels.h"
#include "plan.h"

namespace sdtw::cpu {

// Bytes of one stored number of a tile boundary: (m, e) of the float engine, or those of the float64 engine packed into
// one word (core/packed.h), for float32 problems; (m, e) in doubles for float64 problems.
inline size_t boundary_size(const Problem &problem) { return problem.dtype == SDTW_F64 ? 16 : 8; }

// The columns that the first lane of a strip of rows from `top` on goes through. The first column is swept, masked, if
// it is not the pair's, so that the diagonal step into the second finds what it comes from.
inline int64_t first_swept(const core::Band &band, int64_t top) {
  return band.kind == SDTW_BAND_NONE ? 0 : std::max<int64_t>(0, band.columns(top).first - 1);
}
inline int64_t end_swept(const core::Band &band, int64_t top) {
  return band.kind == SDTW_BAND_NONE ? band.m : band.columns(std::min(top + strip_rows, band.n) - 1).end;
}

// Whether all that pairs keep depends on their bands.
inline bool has_corridors(const Problem &problem, const Plan &plan) {
  return plan.mapping == Mapping::strips && problem.band != SDTW_BAND_NONE;
}
// Whether state may have no room for pairs of some lengths.
inline bool may_exceed_state(const Problem &problem, const Plan &plan) {
  return has_corridors(problem, plan) && problem.band != SDTW_BAND_ABSOLUTE;
}

struct Boundaries {
  int64_t width, down, across;  // of a boundary row; rows of tiles; boundary columns of each of them
  size_t row, column;           // bytes of one boundary row, and of one boundary column
  size_t columns, bytes;        // where columns begin: rows come first

  // Of pairs of any lengths.
  static Boundaries most(const Problem &problem, const Plan &plan) {
    return {problem, plan, problem.m, plan.tiles_down, plan.tiles_across - 1};
  }
  // For which state has room.
  static Boundaries in_state(const Problem &problem, const Plan &plan) {
    if (!has_corridors(problem, plan)) return most(problem, plan);
    const core::Band band{problem.band, problem.band_radius, problem.n, problem.m};
    const int64_t wider = problem.band == SDTW_BAND_SAKOE_CHIBA ? 2 * band.whole_radius() : 0;
    const int64_t swept = band.widest(strip_rows) + wider + 1 + max_width;
    return {problem, plan, std::min(swept, problem.m), plan.tiles_down,
            std::min((swept + plan.tile_cols - 2) / plan.tile_cols, plan.tiles_across - 1)};
  }
  // Of a pair of these lengths, whatever the instruction set.
  static Boundaries of_pair(const Problem &problem, const Plan &plan, int64_t n, int64_t m) {
    if (!has_corridors(problem, plan)) return most(problem, plan);
    const core::Band band{problem.band, problem.band_radius, n, m};
    int64_t width = 0, across = 0;
    for (int64_t top = 0; top < n; top += strip_rows) {
      const int64_t first = first_swept(band, top), end = end_swept(band, top) + max_width;
      if (top > 0) width = std::max(width, std::min(end, m) - first);
      across = std::max(across, (end - 1) / plan.tile_cols - first / plan.tile_cols);
    }
    return {problem, plan, width, ceil_div<int64_t>(n, strip_rows), across};
  }

 private:
  Boundaries(const Problem &problem, const Plan &plan, int64_t width_, int64_t down_, int64_t across_)
      : width(width_), down(down_), across(across_) {
    const size_t size = boundary_size(problem);
    const size_t lanes = plan.mapping == Mapping::lanes ? size_t(lane_group) : 1;
    const bool skewed = plan.mapping == Mapping::strips;
    row = checked_mul(checked_mul(size_t(width), size), lanes);
    // A skewed column also has the row above's numbers, one a lane.
    column = (size_t(plan.tile_rows) + (skewed ? max_width : 0)) * size * lanes;
    Arena arena;
    arena.add(size_t(std::max<int64_t>(0, down - 1)), row);
    columns = arena.add(size_t(down * across), column);
    bytes = arena.bytes();
  }
};

}  // namespace sdtw::cpu
