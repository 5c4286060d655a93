// The producers' bookkeeping of the ring of costs in a backward block: which columns the ring has, whose parts they
// are, and for what the producers have to wait before they overwrite any.
//
// Invariant: the ring has columns [begin, end) of one task, at most cost_columns of them, in whole chunks of 16; a
// column is overwritten only when the recomputing warps have left all parts that it was made for.
// Trade-off: neighbouring parts share about `lanes` columns, because lanes are at different columns in the same step.
// So costs stay in the ring while the next part is near, instead of being computed for each part anew.
// Not used by sources whose costs the recomputing warp computes or copies itself (Source::cooperative is false), nor in
// forward, which meets all columns in order.
#pragma once

#include "cuda/costs/tile_costs.cuh"
#include "cuda/pipeline/backward_pipeline.cuh"

namespace sdtw::cuda {

// Every producer warp has a copy of this in registers. The copies agree, because all producers go through the same
// parts in the same order.
struct CostTileCache {
  // A part that costs were made for.
  struct Part {
    int64_t task;  // none: no part yet
    // The part's number in the strip, in units of tile_steps; its recomputing warp; its number among that warp's parts.
    int part, reader, sequence;
  };

  const Args &a;
  BackwardPipeline &pipeline;
  int begin, end;  // columns in the ring
  Part last[3];    // the last parts, the latest first: with the next one no more than three are in the ring at a time

  __device__ __forceinline__ CostTileCache(const Args &args, BackwardPipeline &of)
      : a(args), pipeline(of), begin(0), end(0), last{{none, 0, 0, 0}, {none, 0, 0, 0}, {none, 0, 0, 0}} {}

  // The columns that a part's steps meet in any lane, in whole chunks.
  __device__ __forceinline__ int first_of(int of) const { return (of * a.tile_steps - a.lanes) & -chunk_columns; }
  __device__ __forceinline__ int end_of(int of) const {
    return ((of + 1) * a.tile_steps + chunk_columns - 1) & -chunk_columns;
  }
  // Whether the ring has room for the columns of parts `from` to `to` at once.
  __device__ __forceinline__ bool fit(int from, int to) const { return end_of(to) - first_of(from) <= a.cost_columns; }

  // Makes the costs of a part and tells its recomputing warp. Earlier parts that do not fit the ring beside this one,
  // or are of another task, must have been left first, and so must the last but two in any case.
  template <class Producer>
  __device__ __forceinline__ void ensure(Producer &producer, const Part &next) {
    int low = next.part, high = next.part;
    bool keep = true;   // whether the earlier parts looked at so far fit the ring beside this one
    bool first = true;  // whether not even the last part does: the ring begins anew
#pragma unroll
    for (int back = 0; back < 3; back++) {
      const Part &before = last[back];
      low = min(low, before.part), high = max(high, before.part);
      keep = keep && back < 2 && before.task == next.task && fit(low, high);
      if (back == 0) first = !keep;
      if (!keep && before.task != none) pipeline.wait_costs_left(before.reader, before.sequence);
    }
    last[2] = last[1], last[1] = last[0], last[0] = next;
    if (first) begin = end = first_of(next.part);
    cover(producer, next.part);
    pipeline.fill_costs(next.reader, next.sequence);
  }

  // Makes those columns of a part that the ring lacks. The ring has at least all columns of another part (or begins
  // anew) and moves by at most the columns of one part, so the missing columns lie on one side.
  template <class Producer>
  __device__ __forceinline__ void cover(Producer &producer, int part) {
    const int from = first_of(part), to = end_of(part);
    const bool on_left = from < begin;
    const int stop = on_left ? begin : to;
    int column = on_left ? from : end;
    if (on_left)
      begin = from, end = min(end, begin + a.cost_columns);
    else
      end = max(end, to), begin = max(begin, end - a.cost_columns);
#pragma unroll 1
    for (; column < stop; column += chunk_columns)
      if (column < 0 || column >= producer.end())
        producer.put_outside(column, column + chunk_columns);
      else  // the second argument is the chunk to load ahead: after the last one probably that of the part to the left
        producer.produce(
            column, column + chunk_columns < stop ? column + chunk_columns : (from - a.tile_steps) & -chunk_columns);
  }
};

}  // namespace sdtw::cuda
