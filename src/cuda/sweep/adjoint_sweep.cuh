// The sweep of the adjoint E through the tiles of a strip, from right to left, by the first warp of a backward block
// (Cuturi and Blondel 2017, Algorithm 2): E of a cell is the sum, over the three cells that can follow it, of their E
// times the transition probability from the cell into them.
//
// Two warps leave the transition probabilities of a tile in shared memory, the sweep leaves E in their place, and other
// warps make gradients of it (pipeline/backward_pipeline.cuh). Where E enters and leaves the strip: AdjointOfStrip.
#pragma once

#include "cuda/pipeline/backward_pipeline.cuh"
#include "cuda/sweep/adjoint_strip.cuh"

namespace sdtw::cuda {

// The first warp's sweep of a strip. marks: it records in BackwardPipeline::live in which steps lanes have any E.
template <class Cell, bool marks, bool banded>
struct SweepBack : AdjointOfStrip<Cell, banded> {
  using Of = AdjointOfStrip<Cell, banded>;
  using Of::a, Of::s, Of::entering, Of::flow, Of::row;
  using typename Of::Amount, typename Of::Real;

  BackwardPipeline &pipeline;
  Rows<Real> *transitions_of;  // in shared memory: transition probabilities, and then E, of two tiles
  unsigned live;               // bit u: the lane's rows have any E in step u of the half tile

  __device__ __forceinline__ SweepBack(const Args &args, const StripView &view, BackwardPipeline &of, Rows<Real> *from,
                                       Real *memory)
      : Of(args, view, memory), pipeline(of), transitions_of(from) {}

  // Steps [begin, end) of a tile, from the last to the first. first: the tile's first step. p: the lane's transition
  // probabilities, from step `begin` on. sent: what goes up from the lane is added to it.
  __device__ __forceinline__ void sweep(int first, int begin, int end, Rows<Real> *p, Amount &sent) {
    typename Of::Transitions now;
    now.load(p + (end - 1 - begin) * transitions * warp);
    Real below = load_now(entering + end - 1);
    const bool ends = this->ends_in(first + begin, first + end);
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
  __device__ __forceinline__ void step(int u, int begin, Rows<Real> *p, typename Of::Transitions &now, Real &below,
                                       Amount &sent) {
    typename Of::Transitions ahead;
    Real below_ahead;
    const Rows<Real> e = Of::step(u, now, below, sent, [&] {
      const int next = max(u - 1, begin);
      ahead.load(p + (next - begin) * transitions * warp);
      below_ahead = load_now(entering + next);
    });
    now = ahead, below = below_ahead;
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
  // Sweeps a tile, the right half first. over: E has left the strip before and the next strip knows; the tile is swept
  // only because other warps have begun with it.
  __device__ __forceinline__ void run(int tile, int number, bool over) {
    const int first = this->first_step(tile), steps = this->steps_of(tile), half_steps = a.tile_steps / 2;
    const Amount joining = this->enter(tile);
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
    this->balance(tile, joining, sent, over);
  }
};

}  // namespace sdtw::cuda
