// A warp's sweep of a task: the row above, which another warp is writing, the strip's own, and what it leaves.
#pragma once

#include "cuda/costs/inline_costs.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

constexpr size_t tops_bytes = 2 * block_steps * 16;  // of the row above, in shared memory: of the largest Z

// The row above a strip, which the strip above is still writing: a block of columns is asked for while the block before
// is swept, and waited for word by word.
template <class Cell>
struct RowAbove {
  using Z = typename Cell::Z;
  static constexpr int slots = 2 * block_steps;

  Z *ring;
  const Word *next;  // the lane's column of the first block
  Format format;
  int columns;  // from that one on
  bool there;
  Word ahead[2];

  __device__ __forceinline__ void begin(const Args &a, const StripView &s, Z *to) {
    ring = to;
    there = !s.first && s.active;
    columns = there && lane_id() < block_steps ? s.pair.m - lane_id() : 0, format = a.format;
    __syncwarp();
    ring[lane_id() % slots] = Cell::forbidden();
    __syncwarp();
    if (!there) return;
    next = row_above(a, s, words()) + lane_id() * words();
    ask(0);
  }
  __device__ __forceinline__ int words() const { return Cell::words(format); }
  __device__ __forceinline__ bool has(int first) const { return first < columns; }
  __device__ __forceinline__ const Word *place(int first) const { return next + static_cast<int64_t>(first) * words(); }
  __device__ __forceinline__ void ask(int first) {
    if (!has(first)) return;
    ahead[0] = load_relaxed(place(first));
    if (words() == 2) ahead[1] = load_relaxed(place(first) + 1);
  }
  __device__ __forceinline__ bool missing() const {
    return ahead[0] == ~Word(0) || (words() == 2 && ahead[1] == ~Word(0));
  }
  // In the middle of the block before: what has come already, or rubbish.
  __device__ __forceinline__ void stage(int first) {
    if (!has(first)) return;
    Z z = Cell::unpack(ahead[0], ahead[1], format);
    Cell::renormalise(z);  // or its m would have the range of two strips' steps: see Fast::term
    ring[(first + lane_id()) % slots] = z;
  }
  __device__ __forceinline__ void enter(int first) {
    if (!there) return;
    if (has(first) && (first == 0 || missing())) {
      ahead[0] = wait_for(place(first));
      if (words() == 2) ahead[1] = wait_for(place(first) + 1);
      stage(first);
    }
    __syncwarp();
    ask(first + block_steps);
  }
  // The cells of a block.
  __device__ __forceinline__ const Z *block(int first) const { return ring + first % slots; }
};

// One warp's sweep of a task.
template <class Cell, class Source>
struct Sweep {
  using Z = typename Cell::Z;

  const Args &a;
  const StripView &s;
  Source &source;
  RowAbove<Cell> above;
  Strip<Cell> strip;
  Format format;
  Z corner;     // the cell that has the pair's value, in the lane that met it
  Word *below;  // the strip's last row, for the next strip; null if nobody reads it

  __device__ __forceinline__ Sweep(const Args &args, const StripView &view, Source &costs)
      : a(args), s(view), source(costs), format(args.format) {}

  // Where the steps of a block read and write.
  struct Block {
    const Z *tops;
    Word *below;  // where the strip's last row goes
    int from;     // step of the block from which on that row has columns; beyond the block if nobody reads it
  };
  __device__ __forceinline__ Block begin_block(int first) {
    source.seek(first);
    const int column = first - s.end_lane;  // of the last row in the block's first step
    return {above.block(first), below + static_cast<int64_t>(column) * words(), below ? max(-column, 0) : block_steps};
  }
  __device__ __forceinline__ int words() const { return Cell::words(format); }
  __device__ __forceinline__ void hand_on(Word *to, int i) const { Cell::store(to, i, format, strip.z[K - 1]); }

  __device__ __forceinline__ void run(Z *tops) {
    above.begin(a, s, tops);
    strip.start(s);
    corner = Cell::forbidden();
    below = s.active && !s.whole && lane_id() == s.end_lane ? row_below(a, s, words()) : nullptr;
    Word *save_to = a.saved && s.active && s.kept ? checkpoint(a, s, 0, words()) : nullptr;
    int next_save = save_to ? a.interval : 0;
    for (int first = 0; first < s.steps; first += block_steps) {
      source.enter(first);
      above.enter(first);
      if (first > 0 && first == next_save) {
        strip.save(save_to, format);
        save_to += (K + 1) * warp * words();
        next_save += a.interval;
      }
      const bool begins = s.reversed && s.first && first == 0, ends = s.end > first && s.end <= first + block_steps;
      if (__any_sync(all_lanes, begins || ends))
        outer_block(first, begins);
      else
        whole_block(first);
    }
  }

  // Costs are computed a step ahead: they do not depend on the cells, and fill the time that those wait for each other.
  // What producers have left of them, and the row above, is read one more step ahead: the compiler would put that off
  // until it is needed, and wait for it then, but it moves nothing over a barrier. Elsewhere it does not pay.
  static constexpr bool looks_further = Source::cooperative && !Cell::wide;
  __device__ __forceinline__ void whole_block(int first) {
    constexpr int unrolled = Source::unrolled;
    const Block b = begin_block(first);
    typename Cell::Cost cost[K];
    Z top = load_now(b.tops);
    source.costs(0, cost);
    [[maybe_unused]] Z top_next = load_now(b.tops + 1);
    [[maybe_unused]] auto left = [&] {
      if constexpr (looks_further)
        return source.left(1);
      else
        return 0;
    }();
#pragma unroll 1
    for (int begin = 0; begin < block_steps; begin += unrolled) {
      const Z *tops = b.tops + begin;
      Word *to = b.below + begin * words();
#pragma unroll
      for (int i = 0; i < unrolled; i++) {
        typename Cell::Cost ahead[K];
        Z top_ahead;
        const int u = begin + i;
        const auto further = [&](int steps) {  // but not out of the block
          return i + steps < unrolled || begin + unrolled < block_steps ? steps : unrolled - 1 - i;
        };
        strip.step(cost, top, [&] {
          if constexpr (looks_further) {
            top_ahead = top_next;
            top_next = load_now(tops + i + further(2));
            const auto after = source.left(u + further(2));
            __syncwarp();
            source.convert(left, ahead);
            left = after;
          } else {
            top_ahead = load_now(tops + i + further(1));
            source.costs(u + further(1), ahead);
          }
        });
        if (u >= b.from) hand_on(to, i);
        top = top_ahead;
#pragma unroll
        for (int k = 0; k < K; k++) cost[k] = ahead[k];
        if (u % renormalise_every == renormalise_every - 1) strip.renormalise();
        if (u + 1 == block_steps / 2) stage(first + block_steps);
      }
    }
  }
  __device__ __forceinline__ void stage(int first) {
    source.stage(first);
    above.stage(first);
  }
  // A block in which some pair ends, or paths of a reversed sweep begin.
  __device__ __forceinline__ void outer_block(int first, bool begins) {
    const Block b = begin_block(first);
    const int row = s.end_row();
#pragma unroll 1
    for (int u = 0; u < min(block_steps, s.steps - first); u++) {
      typename Cell::Cost cost[K];
      source.costs(u, cost);
      strip.step(cost, load_now(b.tops + u), [] {});
      if (begins && u == 0 && s.lane == 0) strip.begin_below(s.spare(), cost);
      if (u >= b.from) hand_on(b.below, u);
      if (u % renormalise_every == renormalise_every - 1) strip.renormalise();
#pragma unroll
      for (int k = 0; k < K; k++)
        if (first + u + 1 == s.end && k == row) corner = strip.z[k];
    }
    stage(first + block_steps);
  }
};

}  // namespace sdtw::cuda
