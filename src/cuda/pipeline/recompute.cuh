// The recomputing warps of a backward block: they compute the cells of a tile once more, from a checkpoint or a
// snapshot, and leave the transition probabilities into each cell in shared memory for the adjoint sweep.
//
// Invariant: cells are computed and renormalised in the same steps as in forward. Each of the two warps has every other
// tile; a half tile is written only when the Epilogue has left its slot.
// Trade-off: forward keeps K + 1 cells a lane every `interval` steps instead of all cells. A tile is recomputed in
// parts of tile_steps (first_part): where an interval has several, the first pass stores a snapshot at the beginning of
// each, so that the tiles to the left need not start at the checkpoint. Where tiles are smaller than was planned for
// (little shared memory), no snapshots are taken, and each tile starts from its checkpoint. Not used in forward, whose
// sweep (sweep/forward_sweep.cuh) also waits for the strip above and stores rows.
#pragma once

#include "cuda/pipeline/backward_pipeline.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

template <class Cell, class Source, Extent extent>
struct Recompute {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;

  static constexpr bool banded = extent == Extent::corridor;
  // Steps that the loop of a sweep is unrolled by. With producers in the block, and with what several strips need, the
  // code of all roles does not fit the instruction cache even without unrolling.
  static constexpr int unrolled = Source::cooperative || is_several<extent> ? 1 : 2;

  // Where the cells that a part begins with come from: the registers, after the part before; a checkpoint of forward;
  // or a snapshot that one of the two recomputing warps has stored.
  enum From { itself, checkpointed, snapshotted };

  const Args &a;
  BackwardPipeline &pipeline;
  const StripView &s;
  const Band &band;
  Z *tops;                     // shared memory, of this warp: cells of the row above, one a step of the part
  Rows<Real> *transitions_of;  // shared memory: [slot of half a tile][step][transition][32]
  Source &source;
  int &sequence;  // of the next part among all that the warp recomputes, over all strips
  Strip<Cell> strip;
  // Loaded ahead by look_up: the cell of the row above for step lane_id() of the part, and the lane's registers from a
  // checkpoint or snapshot.
  Z top, saved[K + 1];
  int looked_up;  // the part that these are of; or none
  From from;      // where its cells come from
  Format format;  // of what forward has left

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
        from(itself),
        format(format_for<Cell>(args, view)) {}

  __device__ __forceinline__ int words() const { return Cell::words(a.format); }
  __device__ __forceinline__ int first_step(int part) const { return part * a.tile_steps; }
  // Whether a part begins where forward left a checkpoint, or where the sweep began.
  __device__ __forceinline__ bool begins(int part) const { return part == part_of_begin<banded>(a, s); }
  __device__ __forceinline__ bool starts(int part) const {
    return begins(part) || (part & (parts_per_checkpoint(a) - 1)) == 0;
  }
  // Where the snapshot at the beginning of a part lies; a strip has those of one checkpoint interval at a time.
  __device__ __forceinline__ Word *snapshot(int part) const {
    const int number = (part & (parts_per_checkpoint(a) - 1)) - 1;
    return registers_of(a, s, a.snapshots, a.snapshots_each, number, words());
  }

  // Loads what a part begins with, long before it is needed where the next part can be foreseen.
  __device__ __forceinline__ void look_up(int part, From begins_from) {
    if (looked_up == part && from == begins_from) return;
    looked_up = part, from = begins_from;
    const int first = first_step(part), column = first + lane_id();
    const bool there = s.active && !s.first && lane_id() < a.tile_steps && column < end_of_row_above<banded>(a, s);
    top = there ? Cell::load(row_above(a, s, words()), column, format) : Cell::forbidden();
    if (from == checkpointed && !begins(part)) {
      const Word *from_here = checkpoint(a, s, (part >> a.part_bits) - 1, words());
#pragma unroll
      for (int k = 0; k <= K; k++) saved[k] = Cell::load(from_here, k * warp + lane_id(), format);
    } else if (from == snapshotted) {
      const Word *from_here = snapshot(part);
#pragma unroll
      for (int k = 0; k <= K; k++) saved[k] = Cell::load_own(from_here, k * warp + lane_id(), a.format);
    }
    if constexpr (!Source::cooperative) source.look_ahead(first, a.tile_steps);
  }
  // Loads what the warp recomputes after `part` of `tile` begins with: the next part, or what its next tile begins
  // with. In another checkpoint interval a tile that does not start at a checkpoint needs a snapshot that the other
  // warp has yet to store, so nothing is loaded then.
  __device__ __forceinline__ void look_further(int tile, int part) {
    int next = part + 1;
    From begins_from = itself;
    if (part == tile) {
      const int next_tile = tile - recomputers;
      if (next_tile < band.first) return;
      next = first_part<banded>(a, s, band, next_tile), begins_from = starts(next) ? checkpointed : snapshotted;
      if (begins_from == snapshotted && next_tile >> a.part_bits != tile >> a.part_bits) return;
    }
    look_up(next, begins_from);
  }

  // Makes a part ready: the cells it begins with in `strip`, the row above it in `tops`, and its costs. continues: the
  // warp has just swept the part before; then it stores a snapshot here. Afterwards loads what comes next.
  __device__ __forceinline__ void stage(int tile, int part, int reader, bool continues) {
    look_up(part, continues ? itself : starts(part) ? checkpointed : snapshotted);
    if (continues) {
      if (s.active && a.snapshots_each > 0) strip.save(snapshot(part), a.format);
    } else {
      strip.start(s);
      if (!begins(part)) strip.restore(saved);
#ifdef SDTW_CHECKED
      if (!s.active) strip.start(s);  // of a pair that is not to be computed state has anything
#endif
    }
    __syncwarp();
    Cell::renormalise(top);  // not in look_up, which would have to wait for the load
    if (lane_id() < a.tile_steps) tops[lane_id()] = top;
    if constexpr (Source::cooperative) {
      pipeline.wait_costs(reader, sequence);
    } else {
      source.window(first_step(part), a.tile_steps);
    }
    __syncwarp();
    look_further(tile, part);
  }

  // Sweeps steps [begin, end) of a part that has `steps` of them. cost: of step `begin`, and then of the step that
  // follows the last one. to: where the lane's transition probabilities of step `begin` go.
  template <bool with_transitions>
  __device__ __forceinline__ void sweep(int part, int begin, int end, int steps, Rows<Real> *to,
                                        typename Cell::Cost (&cost)[K]) {
    const int first = first_step(part) % renormalise_every;  // 0 unless parts have fewer steps than that
    Z top_now = load_now(tops + min(begin, steps - 1));
    const bool below = s.reversed && s.first && part == 0 && begin == 0;  // begin_below follows the first step
    // The loop ends where the sweep renormalises, so that its steps need not ask.
    const auto next_stop = [&](int u) { return min(end, u + renormalise_every - (first + u) % renormalise_every); };
    int stop = below ? 1 : next_stop(begin), u = begin;
    const auto sweep_on = [&](auto is_edge) {
      constexpr bool gated = decltype(is_edge)::value;
#pragma unroll unrolled
      for (; u < stop; u++) {
        typename Cell::Cost ahead[K];
        Z top_ahead;
        strip.template step<with_transitions, gated>(
            cost, top_now,
            [&] {
              const int next = min(u + 1, steps - 1);
              top_ahead = load_now(tops + next);
              costs_of<Cell>(source, s, next, ahead);
            },
            to + (u - begin) * transitions * warp, gated ? Gate(s, first_step(part) + u) : Gate());
        top_now = top_ahead;
#pragma unroll
        for (int k = 0; k < K; k++) cost[k] = ahead[k];
      }
    };
    const bool edge = banded && __any_sync(all_lanes, s.is_edge(first_step(part) + begin, first_step(part) + end));
#pragma unroll 1
    for (; u < end; stop = next_stop(u)) {
      if (banded && edge)
        sweep_on(std::bool_constant<banded>{});
      else
        sweep_on(std::false_type{});
      if ((first + u) % renormalise_every == 0) strip.renormalise();
      if (below && u == 1 && s.lane == 0) {
        typename Cell::Cost of_first[K];
        costs_of<Cell>(source, s, 0, of_first);
        strip.template begin_below<banded>(s.spare(), of_first, banded ? Gate(s, 0) : Gate(),
                                           with_transitions ? to : nullptr);
      }
    }
  }

  // Recomputes a tile: first the parts before it, without probabilities, and then the tile's two halves.
  __device__ __forceinline__ void run(int tile) {
    typename Cell::Cost cost[K];
    const int begin = first_part<banded>(a, s, band, tile), number = number_of(band, tile),
              reader = number % recomputers;
    const bool follows = !starts(begin);  // from a snapshot, which the other warp may have stored
    if (follows) pipeline.wait_reached(number - 1);
#pragma unroll 1
    for (int part = begin; part <= tile; part++) {
      stage(tile, part, reader, part > begin);
      if (part == tile) {
        if (!follows) pipeline.wait_reached(number - 1);  // by every tile once, so that the warps' uses stay in step
        pipeline.reach(number);
      }
      source.seek(first_step(part));
      costs_of<Cell>(source, s, 0, cost);
      if (part < tile)
        sweep<false>(part, 0, a.tile_steps, a.tile_steps, nullptr, cost);
      else
        sweep_halves(tile, number, cost);
      if constexpr (Source::cooperative) pipeline.leave_costs(reader, sequence++);
    }
  }
  __device__ __forceinline__ void sweep_halves(int tile, int number, typename Cell::Cost (&cost)[K]) {
    const int steps = min(a.tile_steps, s.steps - first_step(tile)), half_steps = a.tile_steps / 2;
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
      pipeline.wait_empty(number, half);
      Rows<Real> *to =
          transitions_of + BackwardPipeline::slot_of(number, half) * half_steps * transitions * warp + lane_id();
      sweep<true>(tile, half * half_steps, min((half + 1) * half_steps, steps), steps, to, cost);
      pipeline.fill(number, half);
    }
  }
};

}  // namespace sdtw::cuda
