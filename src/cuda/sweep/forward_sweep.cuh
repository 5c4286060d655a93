// Forward's sweep of a task by one warp: Cuturi and Blondel 2017, Algorithm 1, of a strip or of several short pairs
// side by side. The warp reads the last row of the strip above, which another warp may still be writing, and leaves its
// own last row, checkpoints every `interval` steps, and the cell where the pair ends.
//
// Invariant: the words of a row are their own flags. A word that is all ones has not been written in this call, so a
// strip waits for single words of the strip above, not for the whole of it. Steps are taken in blocks of block_steps:
// what a block needs is asked for while the block before is swept, which hides the latency of memory. A block in which
// no pair ends and no reversed path begins is unrolled (whole_block); the others are not, and check for both in every
// step (outer_block). Backward recomputes cells by a loop of its own (pipeline/recompute.cuh).
#pragma once

#include "cuda/costs/inline_costs.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

constexpr size_t tops_bytes = 2 * block_steps * 16;  // of RowAbove's ring, in shared memory, for the largest Z

// The row above a strip. Lanes below block_steps load one column of a block each: `ask` loads a block's words when the
// block before begins, `stage` puts them into the ring in the middle of that block, and `enter`, when the block itself
// begins, waits for those words that had not been written by then. Above the first strip of a sweep all is forbidden.
template <class Cell, bool banded>
struct RowAbove {
  using Z = typename Cell::Z;
  static constexpr int slots = 2 * block_steps;

  Z *ring;           // in shared memory, [slots]: column c lies in slot c % slots; two blocks
  const Word *next;  // the word of the lane's column in step 0
  Format format;
  int columns;    // from the lane's column in step 0 on that have a cell; 0 for lanes that load nothing
  bool there;     // there is a strip above
  Word ahead[2];  // of the lane's column in the block that was asked for last; the second of two_words only

  __device__ __forceinline__ void begin(const Args &a, const StripView &s, Z *to) {
    ring = to;
    there = !s.first && s.active;
    columns = there && lane_id() < block_steps ? end_of_row_above<banded>(a, s) - lane_id() : 0, format = a.format;
    __syncwarp();
    ring[lane_id() % slots] = Cell::forbidden();
    __syncwarp();
    if (!there) return;
    next = row_above(a, s, words()) + lane_id() * words();
    ask(begin_of<banded>(s));
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
  // Puts the words that were asked for into the ring. A word not yet written is rubbish there, which `enter` replaces.
  __device__ __forceinline__ void stage(int first) {
    if (!has(first)) {
      if (banded && there && lane_id() < block_steps) ring[(first + lane_id()) % slots] = Cell::forbidden();
      return;
    }
    Z z = Cell::unpack(ahead[0], ahead[1], format);
    Cell::renormalise(z);  // otherwise m would have the range of the steps of two strips: see cell.cuh
    ring[(first + lane_id()) % slots] = z;
  }
  // Before the block of steps from `first` on. begins: the strip's first one.
  __device__ __forceinline__ void enter(int first, bool begins) {
    if (!there) return;
    if (has(first) && (begins || missing())) {
      ahead[0] = wait_for(place(first));
      if (words() == 2) ahead[1] = wait_for(place(first) + 1);
      stage(first);
    }
    __syncwarp();
    ask(first + block_steps);
  }
  // The cells of the block that begins with column `first`.
  __device__ __forceinline__ const Z *block(int first) const { return ring + first % slots; }
};

// The sweep. Source: where costs come from, one of src/cuda/costs.
template <class Cell, class Source, bool banded>
struct Sweep {
  using Z = typename Cell::Z;

  const Args &a;
  const StripView &s;
  Source &source;
  RowAbove<Cell, banded> above;
  Strip<Cell> strip;
  Format format;
  Z corner;     // the cell in which a pair of one strip ends, in the lane where StripView::is_end
  Word *below;  // in the lane that has the strip's last row: where it goes, for the next strip of the sweep or for the
                // midline; null in other lanes, and if nobody reads the row

  __device__ __forceinline__ Sweep(const Args &args, const StripView &view, Source &costs)
      : a(args), s(view), source(costs), format(args.format) {}

  // Where the steps of a block read and write.
  struct Block {
    const Z *tops;  // the row above, one cell a step
    Word *below;    // where the cell goes that the last row has in the block's first step
    int from;       // step of the block from which on that cell has a column; block_steps if nobody reads the row
  };
  __device__ __forceinline__ Block begin_block(int first) {
    source.seek(first);
    const int column = first - s.end_lane;  // of the last row, in the block's first step
    return {above.block(first), below + static_cast<int64_t>(column) * words(), below ? max(-column, 0) : block_steps};
  }
  __device__ __forceinline__ int words() const { return Cell::words(format); }
  __device__ __forceinline__ void hand_on(Word *to, int i) const { Cell::store(to, i, format, strip.z[K - 1]); }

  __device__ __forceinline__ void run(Z *tops) {
    above.begin(a, s, tops);
    strip.start(s);
    corner = Cell::forbidden();
    below = s.active && !s.whole && lane_id() == s.end_lane ? row_below(a, s, words()) : nullptr;
    const int begin = begin_of<banded>(s);
    const int saves = banded ? begin / a.interval : 0;  // checkpoints that lie before it
    Word *save_to = a.saved && s.active && s.kept ? checkpoint(a, s, saves, words()) : nullptr;
    int next_save = save_to ? (saves + 1) * a.interval : 0;
    int next_look = gives_up ? begin + look_after : s.steps;
    for (int first = begin; first < s.steps; first += block_steps) {
      if (gives_up && first == next_look) {
        next_look *= 4;
        if (is_in_vain()) return leave_to_others(first);
      }
      source.enter(first, first == begin);
      above.enter(first, first == begin);
      if (first > 0 && first == next_save) {
        strip.save(save_to, format);
        save_to += (K + 1) * warp * words();
        next_save += a.interval;
      }
      const bool begins = s.reversed && s.first && first == 0, ends = s.end > first && s.end <= first + block_steps;
      if (__any_sync(all_lanes, begins || ends))
        outer_block(first, begins);
      else if (banded && __any_sync(all_lanes, s.is_edge(first, first + block_steps)))
        whole_block<banded>(first);
      else
        whole_block<false>(first);
    }
  }

  // FloatCell tries pairs that it may have no room for. From time to time it looks whether that has shown, and then
  // goes no further: the strip that waits for the row gets cells that are of no use, and the source says what costs
  // there are.
  static constexpr bool gives_up = [] {
    if constexpr (std::is_same_v<Cell, FloatCell> && !Source::cooperative)
      return Source::has_bound;
    else
      return false;
  }();
  static constexpr int look_after = 64;  // steps, then four times as many
  __device__ __forceinline__ bool is_in_vain() const {
    if constexpr (gives_up) {
      const float bound = __int_as_float(source.bound(a, s));
      const bool fits = bound <= float_limit(a, s.pair) && !is_left_to_double(a, s.pair);
      return __all_sync(all_lanes, !s.active || !fits);
    } else {
      return false;
    }
  }
  __device__ __forceinline__ void leave_to_others(int first) {
    if constexpr (gives_up) {
      source.measure_from(first);
      if (a.lanes < warp || s.whole) return;
      Word *const row = row_below(a, s, words());
      for (int column = max(first - s.end_lane, 0) + lane_id(); column < s.pair.m; column += warp)
        Cell::store(row, column, format, Cell::one());
    }
  }

  // Costs are computed a step ahead: they do not depend on the cells, and fill the time in which cells wait for each
  // other. Where producers compute costs, what they have left in shared memory and the row above are read one more step
  // ahead (looks_further). The compiler would put these loads off until their result is needed, and wait for it then,
  // but it moves no load over a barrier, hence the __syncwarp. Elsewhere this does not pay.
  // gated: the corridor forbids some cells of the block.
  static constexpr bool looks_further = Source::cooperative && !Cell::wide;
  template <bool gated>
  __device__ __forceinline__ void whole_block(int first) {
    constexpr int unrolled = Source::unrolled < 8 || !gated ? Source::unrolled : 8;
    const Block b = begin_block(first);
    typename Cell::Cost cost[K];
    Z top = load_now(b.tops);
    costs_of<Cell>(source, s, 0, cost);
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
        const auto further = [&](int steps) {  // at most to the block's last step
          return i + steps < unrolled || begin + unrolled < block_steps ? steps : unrolled - 1 - i;
        };
        const auto meanwhile = [&] {
          if constexpr (looks_further) {
            top_ahead = top_next;
            top_next = load_now(tops + i + further(2));
            const auto after = source.left(u + further(2));
            __syncwarp();
            source.convert(left, ahead);
            left = after;
          } else {
            top_ahead = load_now(tops + i + further(1));
            costs_of<Cell>(source, s, u + further(1), ahead);
          }
        };
        strip.template step<false, gated>(cost, top, meanwhile, nullptr, gated ? Gate(s, first + u) : Gate());
        if (u >= b.from) hand_on(to, i);
        top = top_ahead;
#pragma unroll
        for (int k = 0; k < K; k++) cost[k] = ahead[k];
        if (u % renormalise_every == renormalise_every - 1) strip.renormalise();
        if (u + 1 == block_steps / 2) stage(first + block_steps);
      }
    }
  }
  // Makes what has come of the block from `first` on ready in shared memory.
  __device__ __forceinline__ void stage(int first) {
    source.stage(first);
    above.stage(first);
  }
  // A block in which a pair ends, or in which the paths of a reversed sweep begin (then `begins`).
  __device__ __forceinline__ void outer_block(int first, bool begins) {
    const Block b = begin_block(first);
    const int row = s.end_row();
#pragma unroll 1
    for (int u = 0; u < min(block_steps, s.steps - first); u++) {
      typename Cell::Cost cost[K];
      costs_of<Cell>(source, s, u, cost);
      const Gate gate = banded ? Gate(s, first + u) : Gate();
      strip.template step<false, banded>(
          cost, load_now(b.tops + u), [] {}, nullptr, gate);
      if (begins && u == 0 && s.lane == 0) strip.template begin_below<banded>(s.spare(), cost, gate);
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
