// E in a strip of the general engine: where it enters from the strip below, and its sweep through half a tile, from the
// last step to the first (Cuturi and Blondel 2017, Algorithm 2).
#pragma once

#include "cuda/general/crossing.cuh"
#include "cuda/general/sweep.cuh"

namespace sdtw::cuda::general {

// A lane's registers in the sweep of E, as in sweep/strip.cuh; [1]: those of
// the derivative along the tangents.
template <class Cell, bool tangents, int T>
struct Adjoint {
  using Real = typename Cell::Real;
  static constexpr int count = tangents ? 2 : 1;

  Real left[count][K], diag[count][K], up[count];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < count; i++) {
#pragma unroll
      for (int k = 0; k < K; k++) left[i][k] = diag[i][k] = 0;
      up[i] = 0;
    }
  }
  // E = 1 where the pair ends, in the lane that has this row.
  __device__ __forceinline__ void begin(int row) {
#pragma unroll
    for (int k = 0; k < K; k++) left[0][k] = k == row ? Real(1) : left[0][k];
  }

  // One step. below: E that arrives from below the strip. weight: of the transitions into a cell. What the transitions
  // of E's cells weigh, times the metric's slope if with_slope, is left in the place of their first transition's
  // probabilities, and its derivative in that of the first derivative's. Returns whether the lane's cells have any.
  __device__ __forceinline__ bool step(const Planes<Cell, tangents, T> &tile, int u, const Real (&below)[count],
                                       const Real (&weight)[transitions], bool with_slope) {
    bool live = false;
    Rows<Real> p[transitions], bent[transitions], out[count];
#pragma unroll
    for (int way = 0; way < transitions; way++) {
      p[way] = *rows_at<Real>(tile.plane(way), u);
      if constexpr (tangents) bent[way] = *rows_at<Real>(tile.plane(transitions + way), u);
    }
    Real in[count];
#pragma unroll
    for (int i = 0; i < count; i++) {
      in[i] = __shfl_down_sync(all_lanes, up[i], 1);
      in[i] = lane_id() == warp - 1 ? below[i] : in[i];
    }
#pragma unroll
    for (int k = K - 1; k >= 0; k--) {
      const Real here = left[0][k] + in[0];
      live |= has_weight<tangents>(here);
      Real flow[transitions];
#pragma unroll
      for (int way = 0; way < transitions; way++) flow[way] = product(p[way].v[k], here);
      if constexpr (Cell::weighted)
        out[0].v[k] = weight[diagonal] * flow[diagonal] + weight[vertical] * flow[vertical] +
                      weight[horizontal] * flow[horizontal];
      else if constexpr (Cell::penalised)
        out[0].v[k] = weight[0] * here;
      else
        out[0].v[k] = here;
      in[0] = flow[vertical] + diag[0][k], left[0][k] = flow[horizontal], diag[0][k] = flow[diagonal];
      if constexpr (tangents) {
        const Real turn = left[1][k] + in[1];
        Real change[transitions];
        out[1].v[k] = 0;
#pragma unroll
        for (int way = 0; way < transitions; way++) {
          change[way] = fma(p[way].v[k], turn, bent[way].v[k] * here);
          out[1].v[k] += weight[way] * change[way];
        }
        in[1] = change[vertical] + diag[1][k], left[1][k] = change[horizontal], diag[1][k] = change[diagonal];
      }
    }
    if (with_slope) {
      // With tangents the slope itself changes: by slope^3 times the change of half the square of the cost.
      const Rows<Real> slope = *rows_at<Real>(tile.slope, u);
      Rows<Real> along{};
      if constexpr (tangents) along = *rows_at<Real>(tile.along, u);
#pragma unroll
      for (int k = 0; k < K; k++) {
        if constexpr (tangents)
          out[1].v[k] = out[1].v[k] * slope.v[k] - out[0].v[k] * slope.v[k] * slope.v[k] * along.v[k];
        out[0].v[k] *= slope.v[k];
      }
    }
#pragma unroll
    for (int i = 0; i < count; i++) {
      up[i] = in[i];
      *rows_at<Real>(tile.plane(i * transitions), u) = out[i];
    }
    return live;
  }

  // E on its way from the lane. What the first lane has sent up has left the strip.
  __device__ __forceinline__ Real inside() const {
    Real sum = lane_id() > 0 ? up[0] : Real(0);
#pragma unroll
    for (int k = 0; k < K; k++) sum += left[0][k] + diag[0][k];
    return sum;
  }
  // Multiplies all by 1 + excess.
  __device__ __forceinline__ void scale(Real excess) {
#pragma unroll
    for (int k = 0; k < K; k++)
      left[0][k] = fma(left[0][k], excess, left[0][k]), diag[0][k] = fma(diag[0][k], excess, diag[0][k]);
    up[0] = fma(up[0], excess, up[0]);
  }
  // Whether any E is on its way from the lane. What the first lane has sent up
  // has left the strip.
  __device__ __forceinline__ bool any() const {
    bool found = lane_id() > 0 && is_live(up[0]);
#pragma unroll
    for (int k = 0; k < K; k++) found |= is_live(left[0][k]) || is_live(diag[0][k]);
    return found;
  }
};

// In float no E is gained or lost on its way through a strip: as in sweep/adjoint_sweep.cuh, what is inside and what
// has left are scaled to what has entered, after every tile. Else rounding errors of the transition probabilities,
// which are the same where costs are, would add up to 1e-5 along a thousand steps.
template <class Cell, bool tangents, int T>
struct AdjointSweep {
  using Real = typename Cell::Real;
  static constexpr int count = tangents ? 2 : 1;
  static constexpr bool conserves = Cell::soft && !Cell::wide;
  // At gamma = 0 all of E enters in one column.
  using Inflow = std::conditional_t<Cell::soft, Crossing<Cell, tangents>, int>;

  const Args &a;
  const Task &s;
  Adjoint<Cell, tangents, T> flow;
  Entrance entrance;   // from the strip below; of the pair's last strip not used
  Real inflow[count];  // in the half tile's step of the lane's number
  Inflow next;         // what it is made of, of the half tile that begins with step `there`
  int there;
  Real weight[transitions];
  int due;  // float: E that has entered the strip and not left it, as Measure has it

  __device__ __forceinline__ AdjointSweep(const Args &args, const Task &task) : a(args), s(task), there(-1), due(0) {
    flow.clear();
    for (int way = 0; way < transitions; way++) weight[way] = static_cast<Real>(a.out_weight[way]);
    if (!s.last()) entrance = a.entrances[s.local * a.strips + s.strip];
  }

  // The step of the first cell that E enters; -1: it enters nowhere.
  __device__ __forceinline__ int entry() const {
    if (s.last()) return s.end_step();
    return entrance.last < 0 ? -1 : entrance.last + warp - 1;
  }
  // Begins to load what enters a half tile.
  __device__ __forceinline__ void look(int first) {
    if (s.last() || there == first) return;
    there = first;
    const int column = first + lane_id() - (warp - 1);
    const bool some = lane_id() < T && column >= entrance.first && column <= entrance.last;
    if constexpr (!Cell::soft) {
      next = some;
    } else {
      next = {};
      if (some) next.load(a, s, column);
    }
  }

  // What a half tile is to be: swept; skipped, since no E enters; or the end, since none enters any more.
  enum Action { skip, sweep, end };
  __device__ __forceinline__ Action enter(int first) {
    inflow[0] = inflow[count - 1] = 0;
    bool live = flow.any();
    bool more;  // whether E may still enter in later ones
    if (s.last()) {
      live |= s.end_step() >= first && s.end_step() < first + T;
      more = s.end_step() < first;
    } else {
      look(first);
      if constexpr (Cell::soft)
        next.inflow(a, entrance, inflow);
      else
        inflow[0] = next;
      live |= has_weight<tangents>(inflow[0]);
      more = entrance.first < first - (warp - 1);
    }
    if (__any_sync(all_lanes, live)) return sweep;
    return more ? skip : end;
  }

  // Sweeps E through half a tile. Returns the steps in which the lane has any, one bit for each.
  __device__ __forceinline__ unsigned run(const Planes<Cell, tangents, T> &tile, int first) {
    const int end = s.last() ? s.end_step() - first : -1;
    const bool with_slope = a.metric == SDTW_EUCLIDEAN && !a.dense.data;
    unsigned steps = 0;
    Real out = 0;  // what leaves the strip upwards in the step of the lane's number
#pragma unroll 1
    for (int u = T - 1; u >= 0; u--) {
      Real in[count];
#pragma unroll
      for (int i = 0; i < count; i++) in[i] = __shfl_sync(all_lanes, inflow[i], u);
      if (u == end) flow.begin(lane_id() == s.end_lane() ? s.end_row() : -1);
      steps |= static_cast<unsigned>(flow.step(tile, u, in, weight, with_slope)) << u;
      if constexpr (conserves) {
        const Real left = __shfl_sync(all_lanes, flow.up[0], 0);
        out = lane_id() == u ? left : out;
      }
    }
    if constexpr (conserves) conserve(end >= 0 && end < T && lane_id() == s.end_lane(), out);
    return steps;
  }
  // Scales E inside the strip to what has entered less what has left it, of which the last part is `out`. begins: E has
  // begun in the lane.
  __device__ __forceinline__ void conserve(bool begins, float out) {
    using Measure = cuda::Measure<float>;
    const int left = warp_sum(Measure::of(out));
    const int there = warp_sum(Measure::of(flow.inside())) + left;
    due += warp_sum(Measure::of(inflow[0] + (begins ? 1.0f : 0.0f)));
    const float all = static_cast<float>(there) * Measure::unit;
    const float excess = all >= Measure::least ? static_cast<float>(due - there) * Measure::unit / all : 0.0f;
    due -= left + Measure::of(static_cast<float>(left) * Measure::unit * excess);
    flow.scale(excess);
  }
};

}  // namespace sdtw::cuda::general
