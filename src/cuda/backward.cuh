// Backward: a block takes a task, the last strips of all pairs first, and walks its tiles from right to left. Tiles
// into which nothing flows are passed over. For the others, its warps are a pipeline: the second recomputes a tile from
// its checkpoint and keeps the terms of the cells' sums in shared memory; the first makes transition probabilities of
// them and sweeps E back (Cuturi and Blondel 2017, Algorithm 2) while the second is at the tile to the left already.
// Where there are more, four compute costs for the second, and these and the rest turn E of the tile to the right into
// gradients.
#pragma once

#include "forward.cuh"
#include "outputs.cuh"
#include "stock.cuh"

namespace sdtw::cuda {

template <class Cell, class Source, class Output>
struct Backward {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;
  static constexpr int producers = Source::cooperative ? producers_of_tiles : 0, spenders = Output::spenders;
  static constexpr int threads = (2 + producers + spenders) * warp;
  static constexpr int none = -1;
  static constexpr int balance_every = 16;  // steps

  // Shared memory: the row above the tile, terms [step][way][32] of two tiles, the output's, the source's.
  __host__ __device__ static size_t ways_bytes(int steps) { return sizeof(Rows<Real>) * ways * warp * steps; }
  __host__ __device__ static size_t source_bytes(const Args &a) {
    if constexpr (Source::cooperative)
      return Source::ring_bytes(a.cost_columns) + Source::scratch_bytes(a);
    else
      return Source::bytes(a);
  }
  __host__ __device__ static size_t shared_bytes(const Args &a) {
    return sizeof(Z) * warp + 2 * ways_bytes(a.tile_steps) + Output::bytes(a) + source_bytes(a);
  }

  const Args &a;
  const View &s;
  unsigned char *memory;

  __device__ __forceinline__ Z *tops() const { return reinterpret_cast<Z *>(memory); }
  __device__ __forceinline__ Rows<Real> *ways_of(int tile) const {
    return reinterpret_cast<Rows<Real> *>(memory + sizeof(Z) * warp + tile % 2 * ways_bytes(a.tile_steps));
  }
  __device__ __forceinline__ unsigned char *output() const {
    return memory + sizeof(Z) * warp + 2 * ways_bytes(a.tile_steps);
  }
  __device__ __forceinline__ unsigned char *source() const { return output() + Output::bytes(a); }

  __device__ __forceinline__ int first_step(int tile) const { return tile * a.tile_steps; }
  __device__ __forceinline__ int steps_of(int tile, int all) const { return min(a.tile_steps, all - first_step(tile)); }
  // A tile is recomputed from the checkpoint before it: the tiles that this takes, up to itself.
  __device__ __forceinline__ int first_part(int tile) const {
    const int per_checkpoint = a.interval / a.tile_steps;
    return tile / per_checkpoint * per_checkpoint;
  }

  // What all warps follow: which part of which tile is recomputed in this round, and whether a tile is swept in it.
  struct Round {
    int tile, prepared, pending, target, part;
    int known;  // the first part after a checkpoint, if snapshots of those that follow have been taken
    bool sweep;
  };

  // The second warp.
  struct Recompute {
    const Backward &b;
    Strip<Cell> strip;
    Source source;
    // What a part begins with.
    enum From { itself, checkpointed, snapshotted };  // the part before, a checkpoint, the warp when it was here before
    Z top;                                            // of the row above, in a step of the part
    Z saved[K + 1];
    int looked_up;
    From from;

    __device__ __forceinline__ explicit Recompute(const Backward &back) : b(back), looked_up(none), from(itself) {}

    __device__ __forceinline__ void begin() {
      if constexpr (Source::cooperative) {
        source.ring = reinterpret_cast<typename Source::Element *>(b.source());
        source.columns = b.a.cost_columns;
        source.begin(b.a, b.s);
      } else {
        source.begin(b.a, b.s, b.source());
      }
    }
    __device__ __forceinline__ Word *snapshot(int part) const {
      const int64_t strip = b.a.lanes == warp ? b.s.pair.index * b.a.strips + b.s.index : b.s.task;
      const int number = part - b.first_part(part) - 1;
      return b.a.snapshots + (strip * b.a.snapshots_each + number) * ((K + 1) * warp) * b.a.words;
    }
    // Loads what a part begins with, long before it is needed if it can be foreseen.
    __device__ __forceinline__ void look_up(int part, From begins_from) {
      if (looked_up == part && from == begins_from) return;
      looked_up = part, from = begins_from;
      const int first = b.first_step(part), column = first + lane_id();
      const bool there = b.s.active && b.s.index > 0 && lane_id() < b.a.tile_steps && column < b.s.pair.m;
      top = there ? Cell::load(row_above(b.a, b.s), column, b.a.words) : Cell::forbidden();
      if (from == checkpointed && part > 0) {
        const Word *words = checkpoint(b.a, b.s, first / b.a.interval - 1);
#pragma unroll
        for (int k = 0; k <= K; k++) saved[k] = Cell::load(words, k * warp + lane_id(), b.a.words);
      } else if (from == snapshotted) {
        const Word *words = snapshot(part);
#pragma unroll
        for (int k = 0; k <= K; k++) saved[k] = Cell::load_own(words, k * warp + lane_id(), b.a.words);
      }
      if constexpr (!Source::cooperative) source.look_ahead(first, b.a.tile_steps);
    }
    // The part's costs and the row above it, and the cells it begins with.
    __device__ __forceinline__ void stage(const Round &r) {
      const bool first = r.part == b.first_part(r.part), known = b.first_part(r.part) == r.known;
      look_up(r.part, first ? checkpointed : known ? snapshotted : itself);
      if (from == itself) {
        if (b.s.active && b.a.snapshots_each > 0) strip.save(snapshot(r.part), b.a.words);
      } else {
        strip.start(b.s);
        if (r.part > 0) strip.restore(saved);
      }
      __syncwarp();
      if (lane_id() < b.a.tile_steps) b.tops()[lane_id()] = top;
      if constexpr (!Source::cooperative) {
        Output::offer(b.a, source, b.output(), r.target);
        source.window(b.first_step(r.part), b.a.tile_steps);
      }
      __syncwarp();
      const int next = b.next_part(r);
      if (next != none)
        look_up(next, next == b.first_part(next) ? checkpointed : r.part < r.target ? itself : snapshotted);
    }
    template <bool with_ways>
    __device__ __forceinline__ void sweep(int part, int tile) {
      const int first = b.first_step(part), steps = b.steps_of(part, b.s.steps);
      Rows<Real> *to = b.ways_of(tile) + lane_id();
      source.seek(first);
      typename Cell::Cost cost[K];
      source.costs(0, cost);
#pragma unroll 2
      for (int u = 0; u < steps; u++) {
        typename Cell::Cost ahead[K];
        strip.template step<with_ways>(
            cost, b.tops()[u], [&] { source.costs(u + 1, ahead); }, to + u * ways * warp);
#pragma unroll
        for (int k = 0; k < K; k++) cost[k] = ahead[k];
        if (u % renormalise_every == renormalise_every - 1) strip.renormalise();
      }
    }
  };

  // The first warp.
  struct Sweep {
    const Backward &b;
    Flow<Real> flow;
    Output output;
    int row;  // of the lane's, that ends the pair; or none
    bool lowest;

    __device__ __forceinline__ explicit Sweep(const Backward &back) : b(back), output(back.a, back.s, back.output()) {}

    __device__ __forceinline__ void begin() {
      flow.clear();
      row = b.s.active && b.s.is_end() ? b.s.end_row() : none;
      lowest = b.s.lane == b.s.lanes - 1;
    }
    __device__ __forceinline__ bool ends_in(int tile) const {
      const int last = b.s.end - 1 - b.first_step(tile);
      return row != none && last >= 0 && last < b.a.tile_steps;
    }

    // Whether anything flows into the tile, from the right or from below; what comes from below is left to the output.
    // Unknown, if it need not wait, where some of it has not come yet.
    __device__ __forceinline__ Look look(int tile, bool wait) {
      const Real threshold = static_cast<Real>(negligible);
      const int first = b.first_step(tile), steps = b.steps_of(tile, b.s.steps);
      if (!output.receive(first, steps, wait)) return unknown;
      const bool any = flow.any(threshold) || ends_in(tile) || output.received() >= threshold;
      return __any_sync(all_lanes, any) ? live : dead;
    }

    __device__ __forceinline__ void pass(int tile) {
      output.pass(b.first_step(tile), b.steps_of(tile, b.s.steps));
      flow.clear();
    }

    // E from right to left.
    __device__ __forceinline__ void sweep(int tile) {
      const int first = b.first_step(tile), steps = b.steps_of(tile, b.s.steps);
      const Rows<Real> *p = b.ways_of(tile) + lane_id();
      output.begin_tile(tile, first);
      typename Flow<Real>::Ways now;
      now.load(p + (steps - 1) * ways * warp);
      now.normalise();
      for (int begin = (steps - 1) / balance_every * balance_every; begin >= 0; begin -= balance_every)
        sweep_part(first, begin, min(begin + balance_every, steps), p, now);
      output.end_tile(first, steps);
    }
    // What flows out of a few steps is what flows in: the sum of a cell's probabilities may be off by a rounding error.
    __device__ __forceinline__ void sweep_part(int first, int begin, int end, const Rows<Real> *p,
                                               typename Flow<Real>::Ways &now) {
      const int last = b.s.end - 1 - first;  // the step in which the lane's pair ends, if it does here
      const bool ends = row != none && last >= begin && last < end;
      const bool counts = lane_id() >= begin && lane_id() < end;
      const Real in = pair_sum(flow_inside() + (counts ? output.received() : Real(0)) + Real(ends), b.s.lanes);
      Real sent = 0;
      if (__any_sync(all_lanes, ends)) {
#pragma unroll 1
        for (int u = end - 1; u >= begin; u--) {
          flow.begin(ends && u == last ? row : none);
          step(u, p, now, sent);
        }
      } else {
#pragma unroll 4
        for (int u = end - 1; u >= begin; u--) step(u, p, now, sent);
      }
      const Real out = pair_sum(flow_inside() + (b.s.lane == 0 ? sent : Real(0)), b.s.lanes);
      if (first + begin > 0 && out > 0) flow.scale(in / out);
    }
    // now: the ways of this step, which become those of the next.
    __device__ __forceinline__ void step(int u, const Rows<Real> *p, typename Flow<Real>::Ways &now, Real &sent) {
      Real e[K];
      typename Flow<Real>::Ways ahead;
      flow.step(now, output.below(u), lowest, e, [&] { ahead.load(p + max(u - 1, 0) * ways * warp); });
      ahead.normalise();
      now = ahead;
      sent += flow.up;  // of the first lane's alone it is what leaves
      output.take(u, e, flow.up);
    }
    __device__ __forceinline__ Real flow_inside() const { return flow.sum() + (b.s.lane == 0 ? Real(0) : flow.up); }
  };

  static __device__ __forceinline__ void meet_second() { barrier(1, (1 + producers) * warp); }

  // The first warp says which tile a round is for; what each warp does in it follows from that.
  __device__ __forceinline__ void run() const {
    __shared__ int shared_tile, shared_steps;
    const int role = threadIdx.x / warp;
    if (threadIdx.x == 0) shared_steps = s.steps;
    __syncthreads();
    const int tiles = (shared_steps + a.tile_steps - 1) / a.tile_steps;
    if (tiles == 0) return;
    Round r{tiles - 1, none, none, none, 0, none, false};
    if (role == 0)
      run_first(r, shared_tile);
    else if (role == 1)
      run_second(r, shared_tile);
    else if (role < 2 + producers)
      run_producer(r, shared_tile);
    else
      run_spender(r, shared_tile);
  }

  // Between rounds; false after the last.
  __device__ __forceinline__ bool start(Round &r, const int &shared_tile) const {
    __syncthreads();
    r.tile = shared_tile;
    if (r.tile < 0) return false;
    r.sweep = r.prepared == r.tile;
    const int want = r.sweep ? r.tile - 1 : r.tile;
    if (want >= 0 && r.target != want) r.target = want, r.part = begin_part(r, want);
    if (want < 0) r.target = none;
    return true;
  }
  // Where recomputing a tile begins.
  __device__ __forceinline__ int begin_part(const Round &r, int tile) const {
    return r.known == first_part(tile) ? tile : first_part(tile);
  }
  // The part after this one, if the tiles go on being live.
  __device__ __forceinline__ int next_part(const Round &r) const {
    if (r.part < r.target) return r.part + 1;
    if (r.target == 0) return none;
    const int tile = r.target - 1;
    const bool snapshots = a.snapshots_each > 0 && first_part(tile) == first_part(r.target);
    return snapshots ? tile : begin_part(r, tile);
  }
  __device__ __forceinline__ void finish(Round &r) const {
    __syncthreads();
    r.pending = r.sweep ? r.tile : none;
    if (r.target == none) return;
    if (r.part < r.target) {
      r.part++;
      return;
    }
    r.prepared = r.target;
    if (a.snapshots_each > 0) r.known = first_part(r.target);
  }

  __device__ __forceinline__ void run_first(Round &r, int &shared_tile) const {
    Sweep sweep(*this);
    sweep.begin();
    int tile = r.tile;
    for (;;) {
      for (; tile >= 0; tile--) {
        if (sweep.look(tile, r.prepared == tile) != dead) break;
        sweep.pass(tile);
      }
      if (lane_id() == 0) shared_tile = tile;
      if (!start(r, shared_tile)) break;
      if (r.sweep) sweep.sweep(tile--);
      finish(r);
    }
    sweep.output.finish();
  }

  __device__ __forceinline__ void run_second(Round &r, const int &shared_tile) const {
    Recompute recompute(*this);
    recompute.begin();
    while (start(r, shared_tile)) {
      if (r.target != none) {
        recompute.stage(r);
        if constexpr (Source::cooperative) meet_second();
        if (r.part == r.target)
          recompute.template sweep<true>(r.part, r.target);
        else
          recompute.template sweep<false>(r.part, r.target);
      }
      finish(r);
    }
  }

  __device__ __forceinline__ void run_producer(Round &r, const int &shared_tile) const {
    if constexpr (Source::cooperative) {
      typename Source::Producer producer(a, s, (threadIdx.x / warp - 2) * 8 + lane_id() / 4,
                                         reinterpret_cast<typename Source::Element *>(source()), a.cost_columns);
      const typename Output::Spender spender(a, s, output(), static_cast<int>(threadIdx.x) - 2 * warp,
                                             (producers + spenders) * warp);
      Stock<Backward> stock(*this);
      for (bool more = true; more;) {
        more = start(r, shared_tile);
        if (more && r.target != none) {
          stock.cover(producer, r.part);
          meet_second();
          const int next = next_part(r);
          if (next != none && stock.fits(r.part, next)) stock.cover(producer, next);
        }
        spender.spend(r.pending, first_step(r.pending));
        spender.publish(more ? r.tile + 1 : 0);
        if (more) finish(r);
      }
    }
  }

  __device__ __forceinline__ void run_spender(Round &r, const int &shared_tile) const {
    if constexpr (spenders > 0) {
      const typename Output::Spender spender(a, s, output(), static_cast<int>(threadIdx.x) - 2 * warp,
                                             (producers + spenders) * warp);
      for (bool more = true; more;) {
        more = start(r, shared_tile);
        spender.spend(r.pending, first_step(r.pending));
        spender.publish(more ? r.tile + 1 : 0);
        if (more) finish(r);
      }
    }
  }
};

template <class Cell, class Source, class Output>
__global__ void __launch_bounds__(Backward<Cell, Source, Output>::threads, Output::resident)
    backward_kernel(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char shared[];
  const bool primary = Cell::wide == a.f64;
  if (!primary && a.control->any_wide != 1) return;
  // A producer's view is that of the lane whose rows it has.
  const int role = threadIdx.x / warp;
  const bool produces = role >= 2 && role < 2 + Backward<Cell, Source, Output>::producers;
  for (;;) {
    const int64_t task = take_block_ticket(&a.control->ticket[Cell::wide], a.tasks);
    if (task < 0) return;
    const int strip = a.strips - 1 - strip_of(a, task);
    const View s =
        make_view(a, task, strip, produces ? (role - 2) * 8 + lane_id() / 4 : lane_id(), [&](const Pair &pair) {
          if (!is_mine<Cell>(a, pair)) {
            if (!Cell::wide) a.control->any_wide = 1;
            return false;
          }
          const int status = a.status[pair.index];
          return status == status_finite || status == status_cancelled;  // the others' gradients are there already
        });
    Backward<Cell, Source, Output>{a, s, shared}.run();
  }
}

}  // namespace sdtw::cuda
