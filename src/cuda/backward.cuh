// Backward: a block takes a strip, the last strips of all pairs first, and walks its tiles from right to left. Tiles
// into which nothing flows are passed over. For the others, its warps are a pipeline: the second one recomputes a tile
// from its checkpoint and keeps the transition probabilities in shared memory; the first one sweeps E back through them
// (Cuturi and Blondel 2017, Algorithm 2) while the second is at the tile to the left already; the others turn E of the
// tile to the right into gradients.
#pragma once

#include "gradient.cuh"
#include "source.cuh"
#include "strip.cuh"

namespace sdtw::cuda {

template <class Cell, int K, class Source>
struct Backward {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;
  using E = TileOfE<Real, K>;
  static constexpr int threads = Source::max_threads;
  static constexpr int features = Source::inline_features;
  static constexpr int none = -1;

  static constexpr int max_tile_steps = 32;

  // Shared memory: the row above the tile, twice probabilities [step][way][K][32] and E of a tile, the source's buffer
  // and scratch, what flows in from below, the gradients' scratch.
  __host__ __device__ static size_t aligned(size_t bytes) { return (bytes + 15) / 16 * 16; }
  __host__ __device__ static size_t ways_bytes(int steps) { return sizeof(Real) * 3 * K * warp * steps; }
  __host__ __device__ static size_t e_bytes(int steps) { return aligned(sizeof(Real) * E::pitch * steps); }
  static size_t shared_bytes(const Args &a, int steps) {
    return sizeof(Z) * steps + 2 * ways_bytes(steps) + 2 * e_bytes(steps) + aligned(Source::bytes(steps)) +
           aligned(Source::scratch_bytes(a, steps, false)) + sizeof(Real) * steps +
           GradientsFor<Real, K, features>::type::scratch_bytes(steps);
  }

  const Args &a;
  const StripView &s;
  unsigned char *memory;

  __device__ Z *tops() const { return reinterpret_cast<Z *>(memory); }
  __device__ unsigned char *after_tops() const { return memory + sizeof(Z) * a.tile_steps; }
  __device__ Real *ways(int tile) const {
    return reinterpret_cast<Real *>(after_tops() + tile % 2 * ways_bytes(a.tile_steps));
  }
  __device__ unsigned char *after_ways() const { return after_tops() + 2 * ways_bytes(a.tile_steps); }
  __device__ Real *e(int tile) const {
    return reinterpret_cast<Real *>(after_ways() + tile % 2 * e_bytes(a.tile_steps));
  }
  __device__ unsigned char *costs() const { return after_ways() + 2 * e_bytes(a.tile_steps); }
  __device__ unsigned char *source_scratch() const { return costs() + aligned(Source::bytes(a.tile_steps)); }
  __device__ Real *below() const {
    return reinterpret_cast<Real *>(source_scratch() + aligned(Source::scratch_bytes(a, a.tile_steps, false)));
  }
  __device__ unsigned char *scratch() const { return reinterpret_cast<unsigned char *>(below() + a.tile_steps); }

  __device__ int first_step(int tile) const { return tile * a.tile_steps; }
  __device__ int steps_of(int tile) const { return min(a.tile_steps, s.steps - first_step(tile)); }
  __device__ int64_t messages_of(int strip) const { return (s.pair.index * (a.strips - 1) + strip) * a.m; }

  enum Look { dead, live, unknown };

  // The sweeping warp's: whether anything flows into the tile, from the right or from below; that from below is left in
  // below(). Unknown, if it need not wait, where some of it has not come yet.
  __device__ __forceinline__ Look look(int tile, const Flow<Cell, K> &flow, bool wait, int lane) const {
    __syncwarp();  // below() has been read
    const Real threshold = static_cast<Real>(negligible);
    const int column = first_step(tile) + lane - (warp - 1);
    const bool asks = !s.last && lane < steps_of(tile) && column >= 0;
    const int64_t message = messages_of(s.index) + column;
    if (!s.last && !wait) {
      bool here = false;
      for (int patience = 0; patience < 4 && !here; patience++)
        here = __all_sync(all_lanes, !asks || has_message<Real>(a.messages, message, a.f64));
      if (!here) return unknown;
    }
    const Real in = asks ? wait_for_message<Real>(a.messages, message, a.f64) : Real(0);
    if (lane < steps_of(tile)) below()[lane] = in;
    __syncwarp();
    return __any_sync(all_lanes, in >= threshold || flow.any(threshold)) ? live : dead;
  }

  __device__ void send_nothing(int tile, int lane) const {
    if (s.index == 0) return;
    const int end = min(first_step(tile) + a.tile_steps, s.pair.m);
    for (int column = first_step(tile) + lane; column < end; column += warp)
      send_message<Real>(a.messages, messages_of(s.index - 1) + column, a.f64, 0);
  }

  // By all warps but the first: costs and the row above of the tile.
  __device__ __forceinline__ void stage(int tile, bool fresh) const {
    const int step = first_step(tile), steps = steps_of(tile), thread = threadIdx.x - warp;
    if (thread < steps) {
      const bool there = s.index > 0 && step + thread < s.pair.m;
      tops()[thread] = there ? Cell::load(row_above(a, s), step + thread, a.words) : Cell::forbidden();
    }
    const auto meet = [] { barrier(1, threads - warp); };
    Source::stage(a, s, step, a.tile_steps, costs(), source_scratch(), thread, threads - warp, !fresh, false, none,
                  meet);
    meet();
  }

  // The second warp's: through a tile from left to right, the terms of every cell's sum going to `to`.
  __device__ __forceinline__ void recompute(int tile, Strip<Cell, K> &strip, const Source &source, int lane,
                                            Real *to) const {
    const int steps = steps_of(tile);
    const typename Cell::Scale scale(a.scale);
#pragma unroll 2
    for (int u = 0; u < steps; u++) {
      typename Cell::Cost cost[K];
      source.costs(costs(), u, a.tile_steps, lane, scale, cost);
      strip.template step<true>(cost, tops()[u], lane, to + u * 3 * K * warp + lane);
      if (u % renormalise_every == renormalise_every - 1) strip.renormalise();
    }
  }

  // The sweeping warp's: E from right to left.
  __device__ __forceinline__ void sweep_back(int tile, Flow<Cell, K> &flow, int lane) const {
    const int step = first_step(tile);
    const int64_t messages = messages_of(s.index - 1) + step;
    const Real *const p = ways(tile) + lane, *const in = below();
    Real *const out = e(tile) + lane;
#pragma unroll 4
    for (int u = steps_of(tile) - 1; u >= 0; u--) {
      flow.step(p + u * 3 * K * warp, in[u], lane, out + u * E::pitch);
      if (s.index > 0 && lane == 0 && step + u < s.pair.m) send_message<Real>(a.messages, messages + u, a.f64, flow.up);
    }
  }

  // progress is 2^30 - (first tile whose gradients are complete). By a crew: those of a tile.
  __device__ void spend_tile(int tile, const Crew &crew) const {
    const E of_tile{e(tile), first_step(tile), steps_of(tile), s};
    spend<Real, K, features>(a, of_tile, crew, scratch(), [&] {
      if (s.last) return;
      const int *progress = a.progress + s.pair.index * a.strips + s.index + 1;
      const int needed = max(first_step(tile) - (warp - 1), 0) / a.tile_steps;
      while (load_acquire(progress) < (1 << 30) - needed) continue;
    });
  }
  __device__ __forceinline__ void begin(Strip<Cell, K> &strip, int tile, int lane) const {
    const int checkpoint = first_step(tile) / a.interval;
    strip.start(s.index == 0 && lane == 0);
    if (checkpoint == 0) return;
    const int64_t at = ((s.pair.index * a.strips + s.index) * a.checkpoints + checkpoint - 1) * ((K + 1) * warp);
    strip.restore(a.saved + at * a.words, a.words, lane);
  }

  // By all warps but the first: stages a tile, which the second warp then recomputes, from the checkpoint before it,
  // while the others spend `pending`; then all make probabilities of the terms. fresh: the strip's first.
  __device__ __forceinline__ void prepare(int tile, int pending, bool fresh, const Source &source, int lane) const {
    const int per_checkpoint = a.interval / a.tile_steps, first = tile / per_checkpoint * per_checkpoint;
    Strip<Cell, K> strip;
    for (int part = first; part <= tile; part++) {
      if (part > first) barrier(1, threads - warp);
      stage(part, fresh && part == first);
      if (threadIdx.x >= 2 * warp) continue;
      if (part == first) begin(strip, part, lane);
      recompute(part, strip, source, lane, ways(tile));
    }
    if (pending != none) spend_pending(pending, pending);
    barrier(1, threads - warp);
    constexpr int cells = K * warp;
#pragma unroll 2
    for (int i = threadIdx.x - warp; i < steps_of(tile) * cells; i += threads - warp) {
      Real *p = ways(tile) + i / cells * 3 * cells + i % cells;
      normalise(p[diagonal * cells], p[vertical * cells], p[horizontal * cells]);
    }
  }

  // By the warps from the third on: spends the tile whose E waits, if any, and says so to the strip above. done: the
  // first tile that is complete then.
  __device__ void spend_pending(int tile, int done) const {
    if (threadIdx.x < 2 * warp) return;
    const Crew crew{static_cast<int>(threadIdx.x) - 2 * warp, threads - 2 * warp};
    if (tile != none) spend_tile(tile, crew);
    if (a.dense.data || s.index == 0 || (tile == none && done % 4 != 0)) return;
    crew.meet();
    if (crew.thread != 0) return;
    __threadfence();
    store_release(a.progress + s.pair.index * a.strips + s.index, (1 << 30) - done);
  }

  __device__ __forceinline__ void run() const {
    __shared__ Look seen;
    const int lane = threadIdx.x % warp;
    const bool sweeping = threadIdx.x < warp;
    Source source;
    Flow<Cell, K> flow;
    flow.clear();
    if (threadIdx.x / warp == 1) source.begin(a, s, lane);
    if (s.last && lane == s.end_lane)  // E = 1 in the last cell, which is the first to be swept
#pragma unroll
      for (int k = 0; k < K; k++)
        if (s.row + lane * K + k == s.pair.n - 1) flow.left[k] = 1;
    // The tile to be swept, the one that has been recomputed, and the one whose E waits to be spent.
    int tile = (s.steps - 1) / a.tile_steps, ready = none, pending = none;
    bool fresh = true;
    while (tile >= 0) {
      if (sweeping) {
        const Look found = look(tile, flow, ready == tile, lane);
        if (lane == 0) seen = found;
      }
      __syncthreads();
      // Unknown: while what flows in is waited for, the tile is recomputed just in case.
      const bool is_dead = seen == dead, sweep = !is_dead && ready == tile;
      const int next = is_dead ? none : sweep ? tile - 1 : tile;
      if (!sweeping) {
        if (next != none)
          prepare(next, pending, fresh, source, lane);
        else
          spend_pending(pending, is_dead ? tile : pending);
      } else if (sweep) {
        sweep_back(tile, flow, lane);
      } else if (is_dead) {
        send_nothing(tile, lane);
        flow.clear();
      }
      __syncthreads();
      ready = next;
      fresh &= next == none;
      pending = sweep ? tile : none;
      if (sweep || is_dead) tile--;
    }
    spend_pending(pending, 0);
  }
};

template <class Cell, int K, class Source, class Precise>
__global__ void __launch_bounds__(Backward<Cell, K, Source>::threads, 1)
    backward_kernel(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char shared[];
  const bool primary = Cell::wide == a.f64;
  if (!primary && a.control->any_wide != 1) return;
  for (;;) {
    const int64_t ticket = take_ticket(&a.control->ticket[Cell::wide], a.batch * a.strips);
    if (ticket < 0) return;
    const Pair pair = read_pair(a, ticket % a.batch);
    const int strip = a.strips - 1 - static_cast<int>(ticket / a.batch);
    if (pair.kind != Kind::regular || strip * K * warp >= pair.n) continue;
    if (!is_mine<Cell>(a, pair)) {
      if (!Cell::wide && threadIdx.x == 0) a.control->any_wide = 1;
      continue;
    }
    const int status = a.status[pair.index];
    if (status != status_finite && status != status_cancelled) continue;  // its gradients are there already
    const StripView s = strip_view<K>(pair, strip);
    if (std::is_same_v<Source, Precise> || a.precomputed || is_plain(a, pair))
      Backward<Cell, K, Source>{a, s, shared}.run();
    else
      Backward<Cell, K, Precise>{a, s, shared}.run();
  }
}

}  // namespace sdtw::cuda
