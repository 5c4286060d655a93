// The sweep of the adjoint E through the tiles of a strip, from right to left, by the first warp of a backward block
// (Cuturi and Blondel 2017, Algorithm 2): E of a cell is the sum, over the three cells that can follow it, of their E
// times the transition probability from the cell into them.
//
// Two warps leave the transition probabilities of a tile in shared memory, the sweep leaves E in their place, and other
// warps make gradients of it (pipeline/backward_pipeline.cuh). E enters a strip where paths end, from a midline
// (midline.cuh), or from the strip before (adjoint_handoff.cuh).
//
// Invariant: no E is gained or lost on its way through a strip. The transition probabilities of a cell add up to 1 but
// for rounding, so after every tile E inside the strip and E that has left it are scaled to what has entered, unless so
// little is there that the difference is noise (Measure::least).
#pragma once

#include "cuda/pipeline/backward_pipeline.cuh"
#include "cuda/sweep/adjoint_handoff.cuh"
#include "cuda/sweep/midline.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

// The first warp's sweep of a strip. marks: it records in BackwardPipeline::live in which steps lanes have any E.
template <class Cell, bool marks, bool banded>
struct SweepBack {
  using Real = typename Cell::Real;
  using Measure = cuda::Measure<Real>;
  using Amount = typename Measure::Amount;
  static constexpr std::bool_constant<banded> corridor{};

  const Args &a;
  const StripView &s;
  BackwardPipeline &pipeline;
  Rows<Real> *transitions_of;  // in shared memory: transition probabilities, and then E, of two tiles
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
  unsigned live;               // bit u: the lane's rows have any E in step u of the half tile
  Amount due;                  // E of the pair that has entered the strip and not left it
  Amount sending;              // what has gone up from the lane in the step before
  Format format;               // of what forward has left

  __device__ __forceinline__ SweepBack(const Args &args, const StripView &view, BackwardPipeline &of, Rows<Real> *from,
                                       Real *memory)
      : a(args),
        s(view),
        pipeline(of),
        transitions_of(from),
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
  __device__ __forceinline__ bool takes() const { return s.active && !s.whole; }
  __device__ __forceinline__ bool leaves() const { return leaves_for_next(a, s); }

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

  // Steps [begin, end) of a tile, from the last to the first. first: the tile's first step. p: the lane's transition
  // probabilities, from step `begin` on. sent: what goes up from the lane is added to it.
  __device__ __forceinline__ void sweep(int first, int begin, int end, Rows<Real> *p, Amount &sent) {
    typename Adjoint<Real>::Transitions now;
    now.load(p + (end - 1 - begin) * transitions * warp);
    Real below = load_now(entering + end - 1);
    const bool ends = ends_in(first + begin, first + end);
    if (__any_sync(all_lanes, ends)) {
#pragma unroll 1
      for (int u = end - 1; u >= begin; u--) {
        flow.begin(ends && first + u + 1 == s.end ? row : none);
        step(u, begin, p, now, below, sent);
      }
    } else {
#pragma unroll 4
      for (int u = end - 1; u >= begin; u--) step(u, begin, p, now, below, sent);
    }
  }
  // One step. now, below: the transition probabilities of this step and E that enters the strip in it; both become
  // those of the next one. E of the lane's cells is left in the place of their first transition.
  __device__ __forceinline__ void step(int u, int begin, Rows<Real> *p, typename Adjoint<Real>::Transitions &now,
                                       Real &below, Amount &sent) {
    typename Adjoint<Real>::Transitions ahead;
    Real below_ahead;
    const Rows<Real> e = flow.step(now, below, lowest, [&] {
      const int next = max(u - 1, begin);
      ahead.load(p + (next - begin) * transitions * warp);
      below_ahead = load_now(entering + next);
    });
    now = ahead, below = below_ahead;
    sent += sending;  // a step late, so that none waits for the conversion
    sending = Measure::of(flow.up);
    if (sends) leaving[u] = flow.up;
    p[(u - begin) * transitions * warp] = e;
    if constexpr (marks) {
      bool any = false;
#pragma unroll
      for (int k = 0; k < K; k++) any |= is_live(e.v[k]);
      live |= static_cast<unsigned>(any) << (u - begin);
    }
  }
  // Bit u: the lane is at a column of its pair in step first + u, of 32 steps. E elsewhere is a rounding error. In a
  // pair that is not to be computed E may be anything: its cells are restored from whatever lies in state.
  __device__ __forceinline__ unsigned in_pair(int first) const {
    if (!s.active) return 0;
    const int before = min(max(s.lane - first, 0), warp), after = min(max(s.lane + s.pair.m - first, 0), warp);
    return static_cast<unsigned>((uint64_t{1} << after) - (uint64_t{1} << before));
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

  // Sweeps a tile, the right half first. Then E inside the strip and E that has left in this tile are scaled so that
  // they add up to `due`: a cell's transition probabilities may add up to 1 less a rounding error. The rounding error
  // of the scaling itself is made good in the next tile, since `due` goes on. over: E has left the strip before and the
  // next strip knows; the tile is swept only because other warps have begun with it.
  __device__ __forceinline__ void run(int tile, int number, bool over) {
    const int first = first_step(tile), steps = steps_of(tile), half_steps = a.tile_steps / 2;
    const Real below = entering_at(tile);
    __syncwarp();
    entering[lane_id()] = below;
    __syncwarp();
    ask(tile - 1);
    const Amount joining = Measure::of(below + Real(ends_in(first, first + steps)));
    Amount sent = 0;
#pragma unroll 1
    for (int half = 1; half >= 0; half--) {
      pipeline.wait_full(number, half);
      live = 0;
      const int begin = half * half_steps, end = min(begin + half_steps, steps);
      if (begin < end)
        sweep(first, begin, end,
              transitions_of + BackwardPipeline::slot_of(number, half) * half_steps * transitions * warp + lane_id(),
              sent);
      if constexpr (marks)
        pipeline.live[BackwardPipeline::slot_of(number, half)][lane_id()] = live & in_pair(first + begin);
      pipeline.sweep(number, half);
    }
    sent += sending;  // of which the first lane's is read below: what leaves the strip
    sending = 0;
    if (over || (first == 0 && !leaves())) return;
    const Amount left = of_pair(s.lane == 0 ? sent : Amount(0)), there = of_pair(inside()) + left;
    due += of_pair(joining);
    const Real all = static_cast<Real>(there) * Measure::unit;
    const Real excess = all >= Measure::least ? static_cast<Real>(due - there) * Measure::unit / all : Real(0);
    due -= left + Measure::of(static_cast<Real>(left) * Measure::unit * excess);
    flow.scale(excess);
    if (leaves()) leave(first, steps, excess);
  }
};

}  // namespace sdtw::cuda
