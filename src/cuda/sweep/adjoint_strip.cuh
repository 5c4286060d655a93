// What a warp keeps of the adjoint E (Cuturi and Blondel 2017, Algorithm 2) of a strip while it sweeps E through the
// strip's tiles from right to left: where E enters and leaves the strip, and how much of it is inside. The sweep itself
// is that of a block's first warp (adjoint_sweep.cuh), or of a warp that goes through the strip by itself
// (pipeline/warp_backward.cuh). E enters a strip where paths end, from a midline (midline.cuh), or from the strip
// before (adjoint_handoff.cuh).
//
// Invariant: no E is gained or lost on its way through a strip. The transition probabilities of a cell add up to 1 but
// for rounding, so after every tile E inside the strip and E that has left it are scaled to what has entered, unless so
// little is there that the difference is noise (Measure::least).
#pragma once

#include "cuda/sweep/adjoint_handoff.cuh"
#include "cuda/sweep/midline.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

// The steps of a strip's sweep between which there may be any E.
struct LiveSteps {
  int first, last;  // last: none if it is not known yet
};
// E enters where paths end, or in the last column in which it does, either from the other half or from the strip
// before, whose ticket is an earlier one. may_wait: wait for the strip before. The same in all lanes.
template <class Real, bool banded>
__device__ __forceinline__ LiveSteps live_steps(const Args &a, const StripView &s, bool may_wait) {
  const int begin = begin_of<banded>(s);
  int last = s.steps - 1, first = begin;
  if (s.active && !s.whole) {
    int column;
    if (s.inner) {
      column = midline_into(a, s.pair, s.strip)->last;
      if (a.full_sweeps && !s.first) first = max(first, midline_into(a, s.pair, s.strip - s.sign())->first);
    } else {
      const Word *from = AdjointInflow<Real>::leaving_before(a, s);
      const Word word = may_wait ? wait_for(from) : load_relaxed(from);
      column = ExitColumns::of(word).last;
    }
    last = column == none ? none : max(min(column + s.end_lane, last), begin);
  }
  return {first, __shfl_sync(all_lanes, last, 0)};
}

// several: whether there may be other strips, which E comes from or goes to.
template <class Cell, bool banded, bool several = true>
struct AdjointOfStrip {
  using Real = typename Cell::Real;
  using Measure = cuda::Measure<Real>;
  using Amount = typename Measure::Amount;
  using Transitions = typename Adjoint<Real>::Transitions;
  static constexpr std::bool_constant<banded> corridor{};

  const Args &a;
  const StripView &s;
  Real *entering,              // in shared memory: E that enters the strip's last row in each step of a tile
      *leaving;                // in shared memory: E that leaves the strip's first row in each step of a tile
  Midline from_other;          // if s.inner: where E enters from the other sweep's side
  Step<Cell> asked;            // if s.inner: the midline's cells at the lane's column of the next tile
  AdjointInflow<Real> inflow;  // if E comes from the strip before
  int last_left;               // no E leaves the strip in columns beyond this one; none until that is known
  Adjoint<Real> flow;          // E on its way from the cells swept last
  int row;                     // the lane's row in which the pair ends, or none
  bool lowest,                 // E from below enters the strip in this lane
      sends;                   // E leaves the strip from this lane, for a strip that waits for it
  Amount due;                  // E of the pair that has entered the strip and not left it
  Amount sending;              // what has gone up from the lane in the step before
  Format format;               // of what forward has left

  // memory: of the warp, for `entering` and `leaving`.
  __device__ __forceinline__ AdjointOfStrip(const Args &args, const StripView &view, Real *memory)
      : a(args),
        s(view),
        entering(memory),
        leaving(memory + warp),
        inflow(args, view),
        last_left(none),
        due(0),
        sending(0),
        format(format_for<Cell>(args, view)) {
    flow.clear();
    row = s.active && s.is_end() ? s.end_row() : none;
    lowest = s.lane == (takes() ? s.end_lane : s.lanes - 1);
    sends = leaves() && s.lane == 0;
    if (!takes()) return;
    if (s.inner)
      from_other = entrance();
    else
      inflow.look();
  }

  // Where E enters from the other sweep's side. Columns beyond the last in which E enters the half at all are left out,
  // so that the half adds to no column beyond those that MidlineOverlap counts with.
  __device__ __forceinline__ Midline entrance() const {
    Midline own = *midline_into(a, s.pair, s.strip);
    const int middle = upper_half(strips_of(s.pair)) - !s.reversed;
    own.last = min(own.last, midline_into(a, s.pair, middle)->last);
    return own;
  }
  // takes: E enters from another strip or from the midline. leaves: E goes on into a strip that waits for it.
  __device__ __forceinline__ bool takes() const { return several && s.active && !s.whole; }
  __device__ __forceinline__ bool leaves() const { return several && leaves_for_next(a, s); }

  __device__ __forceinline__ int first_step(int tile) const { return tile << a.tile_bits; }
  __device__ __forceinline__ int steps_of(int tile) const { return min(a.tile_steps, s.steps - first_step(tile)); }
  // Whether the lane meets the last cell of its pair in steps [begin, end).
  __device__ __forceinline__ bool ends_in(int begin, int end) const {
    return row != none && s.end > begin && s.end <= end;
  }

  // Each lane looks after one step of a tile. This is the column in which E enters the strip's last row in that step.
  __device__ __forceinline__ int column_in(int tile) const { return first_step(tile) + lane_id() - s.end_lane; }
  __device__ __forceinline__ bool has_column(int tile) const {
    return takes() && lane_id() < steps_of(tile) && column_in(tile) >= 0;
  }
  // Loads what entering_at will need for a tile, long before.
  __device__ __forceinline__ void ask(int tile) {
    if (tile < 0 || !has_column(tile)) return;
    const int column = column_in(tile);
    if (s.inner)
      asked.load(corridor, MidlineRows(corridor, a, s.pair, s.strip, s.reversed, Cell::words(a.format)), s.pair, column,
                 format);
    else
      inflow.ask(column);
  }
  // E that enters in the lane's column of a tile. Waits for the strip before.
  __device__ __forceinline__ Real entering_at(int tile) {
    if (!has_column(tile)) return 0;
    const int column = column_in(tile);
    if (!s.inner) return inflow.take(column);
    return column > from_other.last ? Real(0) : static_cast<Real>(asked.probability(from_other));
  }

  // Before a tile is swept: what enters in it, for the lanes that it enters in. Waits as entering_at. Returns how much.
  __device__ __forceinline__ Amount enter(int tile) {
    const int first = first_step(tile), steps = steps_of(tile);
    Real below = 0;
    if constexpr (several) {
      below = entering_at(tile);
      __syncwarp();
      entering[lane_id()] = below;
      __syncwarp();
      ask(tile - 1);
    }
    return Measure::of(below + Real(ends_in(first, first + steps)));
  }
  // One step of the sweep, step u of a tile: E of the lane's cells. now: their transition probabilities. below: E that
  // enters the strip. sent: what has gone up from the lane is added to it. meanwhile: as for Strip::step.
  template <class Meanwhile>
  __device__ __forceinline__ Rows<Real> step(int u, const Transitions &now, Real below, Amount &sent,
                                             Meanwhile meanwhile) {
    const Rows<Real> e = flow.step(now, below, lowest, meanwhile);
    if constexpr (several) {
      sent += sending;  // a step late, so that none waits for the conversion
      sending = Measure::of(flow.up);
      if (sends) leaving[u] = flow.up;
    }
    return e;
  }
  // The lane's part of the E that is inside the strip. What the first lane has sent up has left it.
  __device__ __forceinline__ Amount inside() const {
    return Measure::of(flow.sum() + (s.lane == 0 ? Real(0) : flow.up));
  }
  // The sum over the lanes of the pair.
  __device__ __forceinline__ Amount of_pair(Amount of_lane) const {
    if constexpr (std::is_same_v<Amount, int>)
      if (a.lanes == warp) return warp_sum(of_lane);
    return lanes_sum(of_lane, s.lanes);
  }

  // After a tile: whether all E has left the strip, and none will enter any more.
  __device__ __forceinline__ bool is_over(int tile) {
    if (__any_sync(all_lanes, flow.any(s.lane == 0))) return false;
    const int column = first_step(tile) - s.end_lane;  // no column before it has entered yet
    return __all_sync(all_lanes, s.inner ? column <= from_other.first : inflow.is_over(column));
  }
  // Hands what has left the strip in a tile, times 1 + excess, on to the next strip; and if it is the first E to leave,
  // tells in which column it does.
  __device__ __forceinline__ void leave(int first, int steps, Real excess) {
    __syncwarp();
    const int column = first + lane_id();
    const bool there = lane_id() < steps && column < s.pair.m;
    const Real out = there ? fma(leaving[lane_id()], excess, leaving[lane_id()]) : Real(0);
    if (there) AdjointWord<Real>::store(AdjointWord<Real>::place(a, s, column), s.order, out);
    const unsigned any = __ballot_sync(all_lanes, is_live(out));
    if (any == 0 || last_left != none) return;
    last_left = first + warp - 1 - __clz(any);
    tell(none);
  }
  // Once E has come within `near` lanes of the strip's first row, tells the next strip a bound of the columns in which
  // E will leave: so the next strip's block can recompute its first tiles before E leaves. The bound is early, not
  // tight: that block may recompute tiles into which no E comes.
  static constexpr int near = 24;  // lanes
  __device__ __forceinline__ void announce_exit(int tile) {
    if (last_left != none || tile == 0) return;
    if ((__ballot_sync(all_lanes, flow.any(false)) & ((1u << near) - 1)) == 0) return;
    last_left = first_step(tile) - 1;
    tell(none);
  }
  // Tells the next strip in which columns E leaves this one; end: see ExitColumns. If E leaves in none, `last` is
  // column 0 and `end` beyond it, so that nothing enters there, either.
  __device__ __forceinline__ void tell(int end) const {
    const ExitColumns now = last_left == none ? ExitColumns{0, 1} : ExitColumns{last_left, end};
    __syncwarp();  // what the lanes have written of E comes before
    if (lane_id() == 0) store_release(AdjointInflow<Real>::leaving(a, s, s.strip), now.word());
  }

  // After a tile: scales E inside the strip and E that has left in this tile so that they add up to `due`: a cell's
  // transition probabilities may add up to 1 less a rounding error. The rounding error of the scaling itself is made
  // good in the next tile, since `due` goes on. joining: as `enter` has returned it. over: E has left the strip before
  // and the next strip knows.
  __device__ __forceinline__ void balance(int tile, Amount joining, Amount sent, bool over) {
    const int first = first_step(tile);
    sent += sending;  // of which the first lane's is read below: what leaves the strip
    sending = 0;
    if (over || (first == 0 && !leaves())) return;
    const Amount left = several ? of_pair(s.lane == 0 ? sent : Amount(0)) : Amount(0), there = of_pair(inside()) + left;
    due += of_pair(joining);
    const Real all = static_cast<Real>(there) * Measure::unit;
    const Real excess = all >= Measure::least ? static_cast<Real>(due - there) * Measure::unit / all : Real(0);
    due -= left + Measure::of(static_cast<Real>(left) * Measure::unit * excess);
    flow.scale(excess);
    if (leaves()) leave(first, steps_of(tile), excess);
  }
};

}  // namespace sdtw::cuda
