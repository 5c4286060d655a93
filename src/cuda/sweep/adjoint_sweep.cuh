// The first warp of a backward block: E through the tiles of a strip, from right to left (Cuturi and Blondel 2017,
// Algorithm 2).
#pragma once

#include "cuda/pipeline/backward_pipeline.cuh"
#include "cuda/sweep/adjoint_handoff.cuh"
#include "cuda/sweep/midline.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

// How much E flows somewhere, to be added up over many steps and lanes: in float64, or for float in units of 2^-30,
// since there is never more than 1 of it.
template <class Real>
struct Measure {
  using Amount = double;
  static constexpr Real unit = 1, least = 0x1p-20;  // of less it cannot be said what is lacking
  static __device__ __forceinline__ Amount of(double flow) { return flow; }
};
template <>
struct Measure<float> {
  using Amount = int;
  static constexpr float unit = 0x1p-30f, least = 0x1p-8f;
  static __device__ __forceinline__ Amount of(float flow) { return __float2int_rn(flow * 0x1p30f); }
};

// The first warp's sweep of a strip. marks: it tells where there is any E.
template <class Cell, bool marks>
struct SweepBack {
  using Real = typename Cell::Real;
  using Measure = cuda::Measure<Real>;
  using Amount = typename Measure::Amount;

  const Args &a;
  const StripView &s;
  BackwardPipeline &pipeline;
  Rows<Real> *transitions_of;
  Real *entering, *leaving;    // in shared memory: what flows into the strip's last row in the steps of a tile; and out
  Midline from_other;          // half, if that is where it comes from
  Step<Cell> asked;            // of the lane's column of the next tile;
  AdjointInflow<Real> inflow;  // if it is another strip
  int last_left;               // column in which any has flowed out; or none
  Adjoint<Real> flow;
  int row;  // of the lane's, that ends the pair; or none
  bool lowest, sends;
  unsigned live;  // steps of half a tile in which the lane's rows have any E
  Amount due;     // of the pair: what has entered the strip and not left it

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
        due(0) {
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

  // Where E enters from the other sweep's side. What would lie beyond what enters the half at all is left out: see
  // Overlap.
  __device__ __forceinline__ Midline entrance() const {
    Midline own = *midline_into(a, s.pair, s.strip);
    const int middle = upper_half(strips_of(s.pair)) - !s.reversed;
    own.last = min(own.last, midline_into(a, s.pair, middle)->last);
    return own;
  }
  // Whether E flows in from another strip, and on into one that waits for it.
  __device__ __forceinline__ bool takes() const { return s.active && !s.whole; }
  __device__ __forceinline__ bool leaves() const { return leaves_for_next(a, s); }

  __device__ __forceinline__ int first_step(int tile) const { return tile << a.tile_bits; }
  __device__ __forceinline__ int steps_of(int tile) const { return min(a.tile_steps, s.steps - first_step(tile)); }
  // Whether the lane's pair ends in steps [begin, end).
  __device__ __forceinline__ bool ends_in(int begin, int end) const {
    return row != none && s.end > begin && s.end <= end;
  }

  // The column whose flow from below the lane looks after.
  __device__ __forceinline__ int column_in(int tile) const { return first_step(tile) + lane_id() - s.end_lane; }
  __device__ __forceinline__ bool has_column(int tile) const {
    return takes() && lane_id() < steps_of(tile) && column_in(tile) >= 0;
  }
  __device__ __forceinline__ void ask(int tile) {
    if (tile < 0 || !has_column(tile)) return;
    const int column = column_in(tile);
    if (s.inner)
      asked.load(MidlineRows(a, s.pair, s.strip, s.reversed, Cell::words(a.format)), s.pair, column, a.format);
    else
      inflow.ask(column);
  }
  __device__ __forceinline__ Real entering_at(int tile) {
    if (!has_column(tile)) return 0;
    const int column = column_in(tile);
    if (!s.inner) return inflow.take(column);
    return column > from_other.last ? Real(0) : static_cast<Real>(asked.probability(from_other));
  }

  // Steps [begin, end) of a tile, whose ways the lane finds from p on, from the last to the first. sent: what leaves.
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
#pragma unroll 2
      for (int u = end - 1; u >= begin; u--) step(u, begin, p, now, below, sent);
    }
  }
  // now: the ways of this step, which become those of the next. below: what comes from the strip below, too. E is left
  // where the ways were.
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
    sent += Measure::of(flow.up);  // of the first lane's alone it is what leaves
    if (sends) leaving[u] = flow.up;
    p[(u - begin) * transitions * warp] = e;
    if constexpr (marks) {
      bool any = false;
#pragma unroll
      for (int k = 0; k < K; k++) any |= is_live(e.v[k]);
      live |= static_cast<unsigned>(any) << (u - begin);
    }
  }
  // Of 32 steps those in which the lane is at a column of its pair. E elsewhere is a rounding error, and of a pair that
  // is not to be computed anything: its cells begin with what happens to lie in state.
  __device__ __forceinline__ unsigned in_pair(int first) const {
    if (!s.active) return 0;
    const int before = min(max(s.lane - first, 0), warp), after = min(max(s.lane + s.pair.m - first, 0), warp);
    return static_cast<unsigned>((uint64_t{1} << after) - (uint64_t{1} << before));
  }
  // What is inside the strip: the lane's part.
  __device__ __forceinline__ Amount inside() const {
    return Measure::of(flow.sum() + (s.lane == 0 ? Real(0) : flow.up));
  }
  // Of all lanes of the pair.
  __device__ __forceinline__ Amount of_pair(Amount of_lane) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (std::is_same_v<Amount, int>)
      if (a.lanes == warp) return __reduce_add_sync(all_lanes, of_lane);
#endif
    for (int step = s.lanes / 2; step > 0; step /= 2) of_lane += __shfl_xor_sync(all_lanes, of_lane, step);
    return of_lane;
  }

  // Whether E has left the strip, after a tile.
  __device__ __forceinline__ bool is_over(int tile) {
    if (__any_sync(all_lanes, flow.any(s.lane == 0))) return false;
    const int column = first_step(tile) - s.end_lane;  // the last that has entered
    return __all_sync(all_lanes, s.inner ? column <= from_other.first : inflow.is_over(column));
  }
  // What has left in a tile, by a factor of 1 + excess.
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
  // Tells the next strip a bound of the columns in which E will leave this one, before it does: so that the block there
  // has its first tiles ready by then.
  static constexpr int near = 24;  // lanes
  __device__ __forceinline__ void announce_exit(int tile) {
    if (last_left != none || tile == 0) return;
    if ((__ballot_sync(all_lanes, flow.any(false)) & ((1u << near) - 1)) == 0) return;
    last_left = first_step(tile) - 1;
    tell(none);
  }
  // The next strip, in which columns E leaves this one. If it is in none, column 0 is the last and has nothing, either.
  __device__ __forceinline__ void tell(int end) const {
    const ExitColumns now = last_left == none ? ExitColumns{0, 1} : ExitColumns{last_left, end};
    if (lane_id() == 0) store_relaxed(AdjointInflow<Real>::leaving(a, s, s.strip), now.word());
  }

  // E from right to left. What flows out of a tile is brought up to what has flowed in: the sum of a cell's
  // probabilities may be off by a rounding error. What that is rounded by is made good in the next tile. over: it has
  // all left before, and the next strip knows.
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
