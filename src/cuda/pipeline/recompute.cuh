// Backward's recomputing warps: the cells of a tile once more, from a checkpoint or snapshot, and with them the
// probabilities of the ways into them.
#pragma once

#include "cuda/pipeline/backward_pipeline.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

template <class Cell, class Source>
struct Recompute {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;

  // Steps. Where there are producers and others, the code of all of them does not fit the instruction cache as it is.
  static constexpr int unrolled = Source::cooperative ? 1 : 2;

  // What a part begins with: the cells of the part before, a checkpoint, or what the warp kept when it was here before.
  enum From { itself, checkpointed, snapshotted };

  const Args &a;
  BackwardPipeline &pipeline;
  const StripView &s;
  const Band &band;
  Z *tops;  // of the row above, in the steps of the part
  Rows<Real> *transitions_of;
  Source &source;
  int &sequence;  // of the next part among all that the warp recomputes
  Strip<Cell> strip;
  Z top, saved[K + 1];  // what was looked up, of
  int looked_up;        // this part,
  From from;            // this beginning

  __device__ __forceinline__ Recompute(const Args &args, BackwardPipeline &of, const StripView &view, const Band &tiles,
                                       Z *row_above, Rows<Real> *to, Source &costs, int &next)
      : a(args),
        pipeline(of),
        s(view),
        band(tiles),
        tops(row_above),
        transitions_of(to),
        source(costs),
        sequence(next),
        looked_up(none),
        from(itself) {}

  __device__ __forceinline__ int words() const { return Cell::words(a.format); }
  __device__ __forceinline__ int first_step(int part) const { return part * a.tile_steps; }
  // Whether a part begins where a checkpoint was left.
  __device__ __forceinline__ bool starts(int part) const { return (part & (parts_per_checkpoint(a) - 1)) == 0; }
  __device__ __forceinline__ Word *snapshot(int part) const {
    const int number = (part & (parts_per_checkpoint(a) - 1)) - 1;
    return registers_of(a, s, a.snapshots, a.snapshots_each, number, words());
  }

  // Loads what a part begins with, long before it is needed if it can be foreseen.
  __device__ __forceinline__ void look_up(int part, From begins_from) {
    if (looked_up == part && from == begins_from) return;
    looked_up = part, from = begins_from;
    const int first = first_step(part), column = first + lane_id();
    const bool there = s.active && !s.first && lane_id() < a.tile_steps && column < s.pair.m;
    top = there ? Cell::load(row_above(a, s, words()), column, a.format) : Cell::forbidden();
    if (from == checkpointed && part > 0) {
      const Word *from_here = checkpoint(a, s, (part >> a.part_bits) - 1, words());
#pragma unroll
      for (int k = 0; k <= K; k++) saved[k] = Cell::load(from_here, k * warp + lane_id(), a.format);
    } else if (from == snapshotted) {
      const Word *from_here = snapshot(part);
#pragma unroll
      for (int k = 0; k <= K; k++) saved[k] = Cell::load_own(from_here, k * warp + lane_id(), a.format);
    }
    if constexpr (!Source::cooperative) source.look_ahead(first, a.tile_steps);
  }
  // What this warp begins with after a tile, unless the other is to leave the snapshot first.
  __device__ __forceinline__ void look_further(int tile) {
    const int next = tile - recomputers;
    if (next < band.first) return;
    const int part = first_part(a, band, next);
    if (starts(part))
      look_up(part, checkpointed);
    else if (next >> a.part_bits == tile >> a.part_bits)
      look_up(part, snapshotted);
  }

  // The part's costs and the row above it, and the cells it begins with.
  __device__ __forceinline__ void stage(int tile, int part, int reader, bool continues) {
    look_up(part, continues ? itself : starts(part) ? checkpointed : snapshotted);
    if (continues) {
      if (s.active && a.snapshots_each > 0) strip.save(snapshot(part), a.format);
    } else {
      strip.start(s);
      if (part > 0) strip.restore(saved);
    }
    __syncwarp();
    Cell::renormalise(top);  // not before: it has only just come
    if (lane_id() < a.tile_steps) tops[lane_id()] = top;
    if constexpr (Source::cooperative) {
      pipeline.wait_costs(reader, sequence);
    } else {
      source.window(first_step(part), a.tile_steps);
    }
    __syncwarp();
    if (part < tile)
      look_up(part + 1, itself);
    else
      look_further(part);
  }
  __device__ __forceinline__ void finish(int reader) {
    if constexpr (Source::cooperative) pipeline.leave_costs(reader, sequence++);
  }

  // Steps [begin, end) of a part, which has so many.
  template <bool with_transitions>
  __device__ __forceinline__ void sweep(int part, int begin, int end, int steps, Rows<Real> *to,
                                        typename Cell::Cost (&cost)[K]) {
    const int first = first_step(part) % renormalise_every;  // 0 unless parts are very short
    Z top_now = load_now(tops + min(begin, steps - 1));
    const bool begins = s.reversed && s.first && part == 0 && begin == 0;
    int stop = begins ? 1 : end;
#pragma unroll 1
    for (int u = begin; u < end; stop = end) {
#pragma unroll unrolled
      for (; u < stop; u++) {
        typename Cell::Cost ahead[K];
        Z top_ahead;
        strip.template step<with_transitions>(
            cost, top_now,
            [&] {
              const int next = min(u + 1, steps - 1);
              top_ahead = load_now(tops + next);
              source.costs(next, ahead);
            },
            to + (u - begin) * transitions * warp);
        top_now = top_ahead;
#pragma unroll
        for (int k = 0; k < K; k++) cost[k] = ahead[k];
        if ((first + u) % renormalise_every == renormalise_every - 1) strip.renormalise();
      }
      if (begins && stop == 1 && s.lane == 0) {
        typename Cell::Cost of_first[K];
        source.costs(0, of_first);
        strip.begin_below(s.spare(), of_first, with_transitions ? to : nullptr);
      }
    }
  }

  __device__ __forceinline__ void run(int tile) {
    typename Cell::Cost cost[K];
    const int begin = first_part(a, band, tile), number = number_of(band, tile), reader = number % recomputers;
    const bool follows = !starts(begin);  // a snapshot of the other warp's, maybe
    if (follows) pipeline.wait_reached(number - 1);
    for (int part = begin; part < tile; part++) {
      stage(tile, part, reader, part > begin);
      source.seek(first_step(part));
      source.costs(0, cost);
      sweep<false>(part, 0, a.tile_steps, a.tile_steps, nullptr, cost);
      finish(reader);
    }
    stage(tile, tile, reader, tile > begin);
    if (!follows) pipeline.wait_reached(number - 1);
    pipeline.reach(number);
    source.seek(first_step(tile));
    source.costs(0, cost);
    const int steps = min(a.tile_steps, s.steps - first_step(tile)), half_steps = a.tile_steps / 2;
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
      pipeline.wait_empty(number, half);
      Rows<Real> *to =
          transitions_of + BackwardPipeline::slot_of(number, half) * half_steps * transitions * warp + lane_id();
      sweep<true>(tile, half * half_steps, min((half + 1) * half_steps, steps), steps, to, cost);
      pipeline.fill(number, half);
    }
    finish(reader);
  }
};

}  // namespace sdtw::cuda
