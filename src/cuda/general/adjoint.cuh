// E in a strip of the general engine: where it enters from the strip below, its sweep through half a tile, where it
// leaves for the strip above, and what blocks tell each other of that.
#pragma once

#include "cuda/general/sweep.cuh"

namespace sdtw::cuda::general {

// E as it enters a strip from the one below and leaves for the one above. In float no E is gained or lost on its way
// through a strip: as in sweep/adjoint_sweep.cuh, what is inside and what has left are scaled to what has entered,
// after every tile. Else rounding errors of the transition probabilities, which are the same where costs are, would add
// up to 1e-5 along a thousand steps.
template <class Cell, bool tangents, int T>
struct AdjointSweep {
  using Real = typename Cell::Real;
  static constexpr int count = tangents ? 2 : 1;

  const Args &a;
  const Task &s;
  Adjoint<Cell, tangents, T> flow;
  Returned below;      // of the strip below, as last looked up
  int high;            // the last column in which E has left; -1: none yet
  int reached;         // from here on to `high` columns are stored
  bool expected;       // the strip above knows about where E will leave
  Real inflow[count];  // in the tile's step of the lane's number
  Word next[count];    // the same of the half tile that begins with step `there`, if that is not negative
  int there;
  Word news;  // what the strip above is to know
  Real weight[transitions];
  int due;  // float: E that has entered the strip and not left it, as Measure has it

  __device__ __forceinline__ AdjointSweep(const Args &args, const Task &task)
      : a(args), s(task), below{-1, 0, true}, high(-1), reached(task.m), expected(false), there(-1), news(0), due(0) {
    flow.clear();
    for (int way = 0; way < transitions; way++) weight[way] = static_cast<Real>(a.out_weight[way]);
  }
  __device__ __forceinline__ Word *told(int strip) const { return a.returned + s.local * a.strips + strip; }
  __device__ __forceinline__ Word *flow_at(int column) const { return a.flows + (s.local * a.m + column) * count; }
  template <class Enough>
  __device__ __forceinline__ void look(Enough enough) {
    Word word = 0;
    if (lane_id() == 0) word = wait_until(told(s.strip + 1), [&](Word v) { return enough(Returned::of(v, s.m)); });
    below = Returned::of(__shfl_sync(all_lanes, word, 0), s.m);
  }
  // All has left.
  __device__ __forceinline__ void tell_done() const {
    if (s.strip > 0 && lane_id() == 0) publish(told(s.strip), Returned{high, reached, true}.word(s.m));
  }
  __device__ __forceinline__ Word told_in_round() {
    const Word word = news;
    news = 0;
    return word;
  }

  // The step of the first cell that E enters, or is expected to enter before it is known; -1: it enters nowhere.
  __device__ __forceinline__ int entry() {
    if (s.last()) return s.end_step();
    look([&](const Returned &r) { return r.is_certain() || r.reached < s.m; });
    if (!below.is_certain()) return below.reached + warp - 1;
    return below.high < 0 ? -1 : below.high + warp - 1;
  }
  // The same, when it is known.
  __device__ __forceinline__ int certain_entry() {
    if (s.last() || below.is_certain()) return entry();
    look([](const Returned &r) { return r.is_certain(); });
    return entry();
  }

  // Whether all that enters half a tile is known to be there.
  __device__ __forceinline__ bool knows(int first) const {
    return below.done || (below.is_certain() && below.reached <= max(first - (warp - 1), 0));
  }
  // Loads what enters half a tile.
  __device__ __forceinline__ void load(int first) {
    const int column = first + lane_id() - (warp - 1);
    const bool some = lane_id() < T && column >= 0 && column <= below.high && column >= below.reached;
#pragma unroll
    for (int i = 0; i < count; i++) next[i] = some ? load_relaxed(flow_at(column) + i) : 0;
    there = first;
  }
  // Before the end of a round: begins to load what enters the half of the next one, if it is there already. heard: of
  // the strip below, a round ago.
  __device__ __forceinline__ void look_ahead(int first, Word heard) {
    if (s.last() || there == first) return;
    if (!knows(first)) {
      const Returned r = Returned::of(heard, s.m);
      if (r.done || (r.is_certain() && r.reached < below.reached)) below = r;
    }
    if (knows(first)) load(first);
  }

  // What a tile is to be: swept; skipped, since no E enters; or the end, since
  // none enters any more.
  enum Action { skip, sweep, end };
  __device__ __forceinline__ Action enter(int first) {
    inflow[0] = inflow[count - 1] = 0;
    bool live = flow.any();
    bool more = false;  // whether E may still enter in later tiles
    if (s.last()) {
      live |= s.end_step() >= first && s.end_step() < first + T;
      more = s.end_step() < first;
    } else {
      if (!knows(first)) look([&](const Returned &r) { return r.done || r.reached <= max(first - (warp - 1), 0); });
      if (there != first) load(first);
#pragma unroll
      for (int i = 0; i < count; i++) inflow[i] = static_cast<Real>(__longlong_as_double(next[i]));
      live |= is_live(inflow[0]);
      more = !below.done || below.reached < first - (warp - 1);
    }
    if (__any_sync(all_lanes, live)) return sweep;
    return more ? skip : end;
  }

  // Sends E on to the strip above: out, of the lane's column of a tile.
  __device__ __forceinline__ void leave(int first, const Real (&out)[count]) {
    if (s.strip == 0) return;
    const int column = first + lane_id();
    const bool there = lane_id() < T && column < s.m;
    const unsigned any = __ballot_sync(all_lanes, there && is_live(out[0]));
    if (high < 0 && any) high = first + warp - 1 - __clz(any);
    if (high < 0) return expect(first);
    if (there && column <= high) {
#pragma unroll
      for (int i = 0; i < count; i++)
        store_relaxed(flow_at(column) + i, __double_as_longlong(static_cast<double>(out[i])));
    }
    reached = min(first, s.m);
    news = Returned{high, reached, false}.word(s.m);
  }

  // Lets the strip above begin with its first tiles when E comes near: they take three rounds until E can be swept
  // through them. E is taken to go on along the pair's diagonal.
  __device__ __forceinline__ void expect(int first) {
    if (expected) return;
    const unsigned lanes = __ballot_sync(all_lanes, flow.any());
    const int lane = __ffs(lanes) - 1;
    if (lanes == 0 || lane > T + 2) return;
    expected = true;
    const float slope = static_cast<float>(s.m) / static_cast<float>(s.n);
    const int column = first - lane - static_cast<int>(static_cast<float>(lane * K) * slope) + T;
    news = Returned{-1, min(max(column, 0), s.m - 1), false}.word(s.m);
  }

  // Sweeps E through half a tile. Returns the steps in which the lane has any, one bit for each.
  __device__ __forceinline__ unsigned run(const Planes<Cell, tangents, T> &tile, int first) {
    const int end = s.last() ? s.end_step() - first : -1;
    const bool with_slope = a.metric == SDTW_EUCLIDEAN && !a.dense.data;
    unsigned steps = 0;
    Real out[count] = {};
#pragma unroll 2
    for (int u = T - 1; u >= 0; u--) {
      Real in[count];
#pragma unroll
      for (int i = 0; i < count; i++) in[i] = __shfl_sync(all_lanes, inflow[i], u);
      if (u == end) flow.begin(lane_id() == s.end_lane() ? s.end_row() : -1);
      steps |= static_cast<unsigned>(flow.step(tile, u, in, weight, with_slope)) << u;
#pragma unroll
      for (int i = 0; i < count; i++) {
        const Real left = __shfl_sync(all_lanes, flow.up[i], 0);
        out[i] = lane_id() == u ? left : out[i];
      }
    }
    if constexpr (!Cell::wide) conserve(end >= 0 && end < T && lane_id() == s.end_lane(), out[0]);
    leave(first, out);
    return steps;
  }
  // Scales E inside the strip, and `out`, which leaves it. begins: E has begun in the lane.
  __device__ __forceinline__ void conserve(bool begins, float &out) {
    using Measure = cuda::Measure<float>;
    const int left = warp_sum(Measure::of(out));
    const int there = warp_sum(Measure::of(flow.inside())) + left;
    due += warp_sum(Measure::of(inflow[0] + (begins ? 1.0f : 0.0f)));
    const float all = static_cast<float>(there) * Measure::unit;
    const float excess = all >= Measure::least ? static_cast<float>(due - there) * Measure::unit / all : 0.0f;
    due -= left + Measure::of(static_cast<float>(left) * Measure::unit * excess);
    flow.scale(excess), out = fmaf(out, excess, out);
  }
};

}  // namespace sdtw::cuda::general
