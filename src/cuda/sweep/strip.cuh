// A strip: 32 K rows of one pair, K in each lane of a warp, swept from left to right (and back, for E).
//
// Lane l is at column t - l in step t: what it needs from the lane above it was computed one step before. Tiles and
// checkpoints are cut at steps, not columns, so that they are parallelograms and no lane ever idles at their edges.
// Cells left of column 0, right of the last column and below the last row are computed like any other, from costs that
// are any but NaN: those on the left stay forbidden, and nothing flows back from the others.
#pragma once

#include "cuda/pair.cuh"

namespace sdtw::cuda {

constexpr int renormalise_every = 8;  // steps

// Member by member: a choice between two structs in registers would put both into local memory.
template <class Z>
__device__ __forceinline__ Z select(bool first, const Z &a, const Z &b) {
  return {first ? a.m : b.m, first ? a.e : b.e};
}

// A product that is rounded before anything is added to it: whether the compiler may fuse the two depends on how it
// unrolls a loop, and results must not.
__device__ __forceinline__ float product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double product(double a, double b) { return __dmul_rn(a, b); }

template <class Cell>
struct Strip {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;

  Z z[K];     // the lane's rows, at its last column
  Z above;    // the row above them, at that column
  int upper;  // the lane above, cyclically among those of the pair
  bool lowest;

  __device__ __forceinline__ void start(const StripView &s) {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = Cell::forbidden();
    above = select(s.first && !s.reversed && s.lane == 0, Cell::one(), Cell::forbidden());  // where paths begin
    const int own = lane_id();
    upper = own - s.lane + (s.lane + s.lanes - 1) % s.lanes;
    lowest = s.lane == s.lanes - 1;
  }

  // After the first step of the first strip of a reversed sweep: column 0 of the lane's rows, which begins where paths
  // do. Above that are `spare` rows that no path enters. to: as for `step`.
  __device__ __forceinline__ void begin_below(int spare, const typename Cell::Cost (&cost)[K],
                                              Rows<Real> *to = nullptr) {
    Z before = Cell::one();
    Rows<Real> into{};
#pragma unroll
    for (int k = 0; k < K; k++) {
      Real unused[transitions];
      const Z here = Cell::template next<false>(cost[k], Cell::forbidden(), before, Cell::forbidden(), unused);
      z[k] = select(k < spare, Cell::forbidden(), here);
      before = select(k < spare, before, here);
      into.v[k] = k > spare ? Real(1) : Real(0);
    }
    if (!to) return;
    to[diagonal * warp] = to[horizontal * warp] = Rows<Real>{};
    to[vertical * warp] = into;
  }

  // One step. top: the row above the strip, at the first lane's new column. meanwhile: what does not depend on the step
  // and can fill the time that the shuffle takes. to: where the probabilities of the ways into the lane's cells go,
  // those of the three ways 32 apart.
  template <bool with_transitions = false, class Meanwhile>
  __device__ __forceinline__ void step(const typename Cell::Cost (&cost)[K], const Z &top, Meanwhile meanwhile,
                                       Rows<Real> *to = nullptr) {
    Z up = Cell::shuffle(select(lowest, top, z[K - 1]), upper);
    meanwhile();
    Z corner = above;
    above = up;
    Rows<Real> p[transitions];
#pragma unroll
    for (int k = 0; k < K; k++) {
      const Z left = z[k];
      Real term[transitions];
      z[k] = Cell::template next<with_transitions>(cost[k], corner, up, left, term);
      if constexpr (with_transitions) {
        const Real factor = reciprocal((term[diagonal] + term[horizontal]) + term[vertical]);
#pragma unroll
        for (int way = 0; way < transitions; way++) p[way].v[k] = product(term[way], factor);
      }
      corner = left;
      up = z[k];
    }
    if constexpr (with_transitions) {
#pragma unroll
      for (int way = 0; way < transitions; way++) to[way * warp] = p[way];
    }
  }

  // All that is carried from one step to the next: see the range of m in cell.cuh.
  __device__ __forceinline__ void renormalise() {
#pragma unroll
    for (int k = 0; k < K; k++) Cell::renormalise(z[k]);
    Cell::renormalise(above);
  }

  __device__ __forceinline__ void save(Word *to, Format format) const {
#pragma unroll
    for (int k = 0; k < K; k++) Cell::store(to, k * warp + lane_id(), format, z[k]);
    Cell::store(to, K * warp + lane_id(), format, above);
  }
  // cells: as save has left them.
  __device__ __forceinline__ void restore(const Z (&cells)[K + 1]) {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = cells[k];
    above = cells[K];
  }
};

// What flows on from the cells that the backward sweep has reached, to the left and upwards.
template <class Real>
struct Adjoint {
  Real left[K];  // into the column before, along the row
  Real diag[K];  // into the column before, from row k to the one above it
  Real up;       // from the lane's first row to the lane above, into the lane's own column

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int k = 0; k < K; k++) left[k] = diag[k] = 0;
    up = 0;
  }

  // All paths end in the lane's row k, if it has one of that number.
  __device__ __forceinline__ void begin(int row) {
#pragma unroll
    for (int k = 0; k < K; k++) left[k] = k == row ? Real(1) : left[k];
  }

  // The probabilities of the ways into the lane's cells.
  struct Transitions {
    Rows<Real> way[transitions];
    __device__ __forceinline__ void load(const Rows<Real> *from) {
#pragma unroll
      for (int i = 0; i < transitions; i++) way[i] = from[i * warp];
    }
  };

  // One step back. below: what flows into the lane's last row, for the lowest lane of a pair. E of the lane's cells.
  template <class Meanwhile>
  __device__ __forceinline__ Rows<Real> step(const Transitions &p, Real below, bool lowest, Meanwhile meanwhile) {
    const Real from_below = __shfl_down_sync(all_lanes, up, 1);
    meanwhile();
    Real in = lowest ? below : from_below;
    Rows<Real> e;
#pragma unroll
    for (int k = K - 1; k >= 0; k--) {
      const Real here = left[k] + in;
      in = fma(p.way[vertical].v[k], here, diag[k]);
      left[k] = product(p.way[horizontal].v[k], here);
      diag[k] = product(p.way[diagonal].v[k], here);
      e.v[k] = here;
    }
    up = in;
    return e;
  }

  // All that is on its way to the left.
  __device__ __forceinline__ Real sum() const {
    Real sum = 0;
#pragma unroll
    for (int k = 0; k < K; k++) sum += left[k] + diag[k];
    return sum;
  }
  // By a factor of 1 + excess.
  __device__ __forceinline__ void scale(Real excess) {
#pragma unroll
    for (int k = 0; k < K; k++) left[k] = fma(left[k], excess, left[k]), diag[k] = fma(diag[k], excess, diag[k]);
    up = fma(up, excess, up);
  }
  // Whether there is any. first: but for what goes on from the lane upwards.
  __device__ __forceinline__ bool any(bool first) const {
    bool found = !first && is_live(up);
#pragma unroll
    for (int k = 0; k < K; k++) found |= is_live(left[k]) || is_live(diag[k]);
    return found;
  }
};

}  // namespace sdtw::cuda
