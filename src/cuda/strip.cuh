// A strip: 32 K rows of one pair, K in each lane of a warp, swept from left to right (and back, for E).
//
// Lane l is at column t - l in step t: what it needs from the lane above it was computed one step before. Tiles and
// checkpoints are cut at steps, not columns, so that they are parallelograms and no lane ever idles at their edges.
// Cells left of column 0, right of the last column and below the last row are computed like any other, from costs of
// the nearest true cell: those on the left stay forbidden, and nothing flows back from the others.
#pragma once

#include "cell.cuh"

namespace sdtw::cuda {

constexpr int renormalise_every = 8;  // steps

// Member by member: a choice between two structs in registers would put both into local memory.
template <class Z>
__device__ __forceinline__ Z select(bool first, const Z &a, const Z &b) {
  return {first ? a.m : b.m, first ? a.e : b.e};
}

template <class Cell, int K>
struct Strip {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;

  Z z[K];   // the lane's rows, at its last column
  Z above;  // the row above them, at that column

  // corner: this lane has the pair's first row, whose diagonal neighbour in column -1 is where paths begin.
  __device__ void start(bool corner) {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = Cell::forbidden();
    above = corner ? Cell::one() : Cell::forbidden();
  }

  // One step. top: the row above the strip, at the first lane's new column. With terms: those of the cells go to p[(way
  // K + k) 32].
  template <bool with_terms = false>
  __device__ __forceinline__ void step(const typename Cell::Cost (&cost)[K], const Z &top, int lane,
                                       Real *p = nullptr) {
    Z up = Cell::shuffle(select(lane == warp - 1, top, z[K - 1]), (lane + warp - 1) % warp);
    Z corner = above;
    above = up;
#pragma unroll
    for (int k = 0; k < K; k++) {
      const Z left = z[k];
      Real ways[3];
      z[k] = Cell::template next<with_terms>(cost[k], corner, up, left, ways);
      if constexpr (with_terms) {
#pragma unroll
        for (int way = 0; way < 3; way++) p[(way * K + k) * warp] = ways[way];
      }
      corner = left;
      up = z[k];
    }
  }

  __device__ void renormalise() {
#pragma unroll
    for (int k = 0; k < K; k++) Cell::renormalise(z[k]);
  }

  __device__ void save(Word *to, int words, int lane) const {
#pragma unroll
    for (int k = 0; k < K; k++) Cell::store(to, k * warp + lane, words, z[k]);
    Cell::store(to, K * warp + lane, words, above);
  }
  __device__ void restore(const Word *from, int words, int lane) {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = Cell::load(from, k * warp + lane, words);
    above = Cell::load(from, K * warp + lane, words);
  }
};

constexpr double negligible = core::negligible_alignment;

// What flows on from the cells that the backward sweep has reached, to the left and upwards.
template <class Cell, int K>
struct Flow {
  using Real = typename Cell::Real;

  Real left[K];  // into the column before, along the row
  Real diag[K];  // into the column before, from row k to the one above it
  Real up;       // from the lane's first row to the lane above, into the lane's own column

  __device__ void clear() {
#pragma unroll
    for (int k = 0; k < K; k++) left[k] = diag[k] = 0;
    up = 0;
  }

  // One step back: E of the lane's cells, 0 where it is negligible, goes to e[k 32]. below: what flows into the strip's
  // last row at its column.
  __device__ __forceinline__ void step(const Real *p, Real below, int lane, Real *e) {
    const Real from_below = __shfl_down_sync(all_lanes, up, 1);
    Real in = lane == warp - 1 ? below : from_below;
#pragma unroll
    for (int k = K - 1; k >= 0; k--) {
      const Real here = left[k] + in;
      in = fma(p[(vertical * K + k) * warp], here, diag[k]);
      left[k] = p[(horizontal * K + k) * warp] * here;
      diag[k] = p[(diagonal * K + k) * warp] * here;
      e[k * warp] = here >= Real(negligible) ? here : Real(0);
    }
    up = in;
  }

  __device__ bool any(Real threshold) const {
    bool found = up >= threshold;
#pragma unroll
    for (int k = 0; k < K; k++) found |= left[k] >= threshold || diag[k] >= threshold;
    return found;
  }
};

}  // namespace sdtw::cuda
