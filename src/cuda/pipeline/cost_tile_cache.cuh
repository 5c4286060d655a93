// The ring of costs that the producers of a backward block keep filled.
#pragma once

#include "cuda/costs/tile_costs.cuh"
#include "cuda/pipeline/backward_pipeline.cuh"

namespace sdtw::cuda {

// What the producers have in the ring: columns [begin, end) of a task, those of the last few parts.
struct CostTileCache {
  // Whose costs they were: part `sequence` of a recomputing warp.
  struct Part {
    int64_t task;
    int part, reader, sequence;
  };

  const Args &a;
  BackwardPipeline &pipeline;
  int begin, end;
  Part last[3];  // the latest first

  __device__ __forceinline__ CostTileCache(const Args &args, BackwardPipeline &of)
      : a(args), pipeline(of), begin(0), end(0), last{{none, 0, 0, 0}, {none, 0, 0, 0}, {none, 0, 0, 0}} {}

  // The columns of a part, in whole chunks.
  __device__ __forceinline__ int first_of(int of) const { return (of * a.tile_steps - a.lanes) & -chunk_columns; }
  __device__ __forceinline__ int end_of(int of) const {
    return ((of + 1) * a.tile_steps + chunk_columns - 1) & -chunk_columns;
  }
  // Whether the columns of parts `from` to `to` have room at once.
  __device__ __forceinline__ bool fit(int from, int to) const { return end_of(to) - first_of(from) <= a.cost_columns; }

  // The costs of a part, once nobody reads any more what they overwrite.
  template <class Producer>
  __device__ __forceinline__ void ensure(Producer &producer, const Part &next) {
    int low = next.part, high = next.part;
    bool keep = true;  // those that lie in the ring with this one
    bool first = true;
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

  // The ring has the columns of a part or more, and is moved by those of a part at most: what is missing lies on one
  // side.
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
      else  // after the last, probably those of the part to the left come
        producer.produce(
            column, column + chunk_columns < stop ? column + chunk_columns : (from - a.tile_steps) & -chunk_columns);
  }
};

}  // namespace sdtw::cuda
