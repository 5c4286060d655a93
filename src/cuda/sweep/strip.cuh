// One anti-diagonal step of a warp through a strip, in both directions: Strip computes Z from left to right (Cuturi and
// Blondel 2017, Algorithm 1), Adjoint computes E from right to left (Algorithm 2). A strip is 32 K rows of one pair, K
// in each lane; of short pairs several lie side by side in a warp, each in its own lanes.
//
// Invariant: in step t lane l is at column t - l, so what it needs from the lane above was computed one step before and
// is one shuffle away. Tiles and checkpoints are cut at steps, not at columns: they are parallelograms, no lane idles
// at their edges, and a checkpoint is the registers of the warp. The price is that lanes are outside of the pair in the
// first and the last steps of a strip. Cells left of column 0, right of the last column and below the last row are
// computed like any other, from any costs but NaN: those on the left stay forbidden, and no E comes from the others.
#pragma once

#include "cuda/pair.cuh"

namespace sdtw::cuda {

constexpr int renormalise_every = 8;  // steps; the range of m depends on it: see cell.cuh

// Which of a lane's rows the corridor admits in one step: row k if opened - k is in [0, width). All of them by default.
struct Gate {
  int opened = 0;
  unsigned width = 0;

  Gate() = default;
  __device__ __forceinline__ Gate(const StripView &s, int step)
      : opened(step - s.opens), width(static_cast<unsigned>(s.closes) - static_cast<unsigned>(s.opens)) {}
  __device__ __forceinline__ bool admits(int k) const { return static_cast<unsigned>(opened - k) < width; }
};

// The costs that a source has of a lane's rows in step u.
template <class Cell, class Source>
__device__ __forceinline__ void costs_of(Source &source, [[maybe_unused]] const StripView &s, int u,
                                         typename Cell::Cost (&cost)[K]) {
  source.costs(u, cost);
#ifdef SDTW_CHECKED
  if (!s.active)  // of a pair that is not to be computed they may be anything
    for (auto &of_row : cost) of_row = {};
#endif
}

// A lane's registers in the sweep of Z.
template <class Cell>
struct Strip {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;

  Z z[K];       // cells of the lane's rows in the column that it has swept last
  Z above;      // the cell above them in that column: the diagonal neighbour of the next step's first row
  int upper;    // the lane of the warp that holds the rows above; for a pair's first lane it is the pair's last one
  bool lowest;  // the pair's last lane, which passes the row above the strip on to the first one

  // All cells are forbidden, but for Z = 1 diagonally above cell (0, 0), where the paths of a sweep from the top begin.
  // Those of a reversed sweep begin in begin_below.
  __device__ __forceinline__ void start(const StripView &s) {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = Cell::forbidden();
    above = Cell::select(s.first && !s.reversed && s.lane == 0, Cell::one(), Cell::forbidden());
    const int own = lane_id();
    upper = own - s.lane + (s.lane + s.lanes - 1) % s.lanes;
    lowest = s.lane == s.lanes - 1;
  }

  // Column 0 of the first lane's rows in the first strip of a reversed sweep, computed after the first step in place of
  // what that step has made of them. The first `spare` rows of the lane are beyond the pair's and forbidden; paths
  // begin in the row after them, which no transition enters, and go down the column. gated, gate, to: as for `step`.
  template <bool gated>
  __device__ __forceinline__ void begin_below(int spare, const typename Cell::Cost (&cost)[K], const Gate &gate,
                                              Rows<Real> *to = nullptr) {
    Z before = Cell::one();
    Rows<Real> into{};
#pragma unroll
    for (int k = 0; k < K; k++) {
      Real unused[transitions];
      const Z here = Cell::template next<false>(cost[k], Cell::forbidden(), before, Cell::forbidden(), unused);
      z[k] = Cell::select(k < spare || (gated && !gate.admits(k)), Cell::forbidden(), here);
      before = Cell::select(k < spare, before, here);
      into.v[k] = k > spare ? Real(1) : Real(0);
    }
    if (!to) return;
    to[diagonal * warp] = to[horizontal * warp] = Rows<Real>{};
    to[vertical * warp] = into;
  }

  // One step, to the next column. top: the cell above the strip in the first lane's new column (all lanes get it; the
  // pair's last lane passes it on). meanwhile: work that does not depend on the step and fills the time of the shuffle.
  // gated: cells that the gate does not admit are forbidden. What E comes to them, 2^-100 of that of a cell, is
  // nothing. to: where the transition probabilities of the lane's cells go, each way `pitch` behind the one before: in
  // shared memory as [transition][32 lanes].
  template <bool with_transitions = false, bool gated = false, int pitch = warp, class Meanwhile, class GateOf = Gate>
  __device__ __forceinline__ void step(const typename Cell::Cost (&cost)[K], const Z &top, Meanwhile meanwhile,
                                       Rows<Real> *to = nullptr, const GateOf &gate = {}) {
    Z up = Cell::shuffle(Cell::select(lowest, top, z[K - 1]), upper);
    meanwhile();
    Z corner = above;
    above = up;
    Rows<Real> p[transitions];
#pragma unroll
    for (int k = 0; k < K; k++) {
      const Z left = z[k];
      Real term[transitions];
      z[k] = Cell::template next<with_transitions>(cost[k], corner, up, left, term);
      if constexpr (gated) z[k] = Cell::unless(!gate.admits(k), z[k]);
      if constexpr (with_transitions) {
        normalise(term);
#pragma unroll
        for (int way = 0; way < transitions; way++) p[way].v[k] = term[way];
      }
      corner = left;
      up = z[k];
    }
    if constexpr (with_transitions) {
#pragma unroll
      for (int way = 0; way < transitions; way++) to[way * pitch] = p[way];
    }
  }

  // Renormalises all that is carried from one step to the next: see the range of m in cell.cuh.
  __device__ __forceinline__ void renormalise() {
#pragma unroll
    for (int k = 0; k < K; k++) Cell::renormalise(z[k]);
    Cell::renormalise(above);
  }

  // A checkpoint or a snapshot: [K + 1][32 lanes], `above` last.
  __device__ __forceinline__ void save(Word *to, Format format) const {
#pragma unroll
    for (int k = 0; k < K; k++) Cell::store(to, k * warp + lane_id(), format, z[k]);
    Cell::store(to, K * warp + lane_id(), format, above);
  }
  // cells: the lane's part of what save has stored.
  __device__ __forceinline__ void restore(const Z (&cells)[K + 1]) {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = cells[k];
    above = cells[K];
  }
};

// A lane's registers in the sweep of E: the E of cells already swept, times their transition probabilities, on its way
// to the cells that they are entered from. E of a cell is the sum of what arrives at it.
template <class Real>
struct Adjoint {
  Real left[K];  // from row k into the same row of the column before
  Real diag[K];  // from row k into the row above it, of the column before
  Real up;       // into the last row of the lane above, of the column that this lane has swept last

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int k = 0; k < K; k++) left[k] = diag[k] = 0;
    up = 0;
  }

  // E = 1 arrives at the lane's row `row`, where all paths of the pair end. If that is none, nothing changes.
  __device__ __forceinline__ void begin(int row) {
#pragma unroll
    for (int k = 0; k < K; k++) left[k] = k == row ? Real(1) : left[k];
  }

  // The transition probabilities of the lane's cells in one step. from: as Strip::step has left them.
  struct Transitions {
    Rows<Real> way[transitions];
    template <int pitch = warp>
    __device__ __forceinline__ void load(const Rows<Real> *from) {
#pragma unroll
      for (int i = 0; i < transitions; i++) way[i] = from[i * pitch];
    }
  };

  // One step, to the column before; returns E of the lane's cells there. p: their transition probabilities. below: E
  // that arrives from below the strip, read where `lowest`. meanwhile: as for Strip::step.
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

  // E on its way into the column before. `up` is not in it.
  __device__ __forceinline__ Real sum() const {
    Real sum = 0;
#pragma unroll
    for (int k = 0; k < K; k++) sum += left[k] + diag[k];
    return sum;
  }
  // Multiplies all by 1 + excess.
  __device__ __forceinline__ void scale(Real excess) {
#pragma unroll
    for (int k = 0; k < K; k++) left[k] = fma(left[k], excess, left[k]), diag[k] = fma(diag[k], excess, diag[k]);
    up = fma(up, excess, up);
  }
  // Whether any E is on its way from the lane. first: leave `up` out, which in a pair's first lane has left the strip.
  __device__ __forceinline__ bool any(bool first) const {
    bool found = !first && is_live(up);
#pragma unroll
    for (int k = 0; k < K; k++) found |= is_live(left[k]) || is_live(diag[k]);
    return found;
  }
};

}  // namespace sdtw::cuda
