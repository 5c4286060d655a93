// The ring of costs that the producers of a backward block keep filled.
#pragma once

#include "orders.cuh"
#include "tile_costs.cuh"

namespace sdtw::cuda {

// What the producers have in the ring: columns [begin, end) of a task, those of the last few parts.
struct Stock {
  static constexpr int remembered = 2;

  const Args &a;
  Board &board;
  int begin, end;
  int64_t task;
  int part, part_before;

  __device__ __forceinline__ Stock(const Args &args, Board &of)
      : a(args), board(of), begin(0), end(0), task(none), part(0), part_before(0) {}

  // The columns of a part, in whole chunks.
  __device__ __forceinline__ int first_of(int of) const { return (of * a.tile_steps - warp) & -chunk_columns; }
  __device__ __forceinline__ int end_of(int of) const {
    return ((of + 1) * a.tile_steps + chunk_columns - 1) & -chunk_columns;
  }
  // Whether the columns of parts `from` to `to` have room at once.
  __device__ __forceinline__ bool fit(int from, int to) const { return end_of(to) - first_of(from) <= a.cost_columns; }

  // The costs of a part, once nobody reads any more what they overwrite.
  template <class Producer>
  __device__ __forceinline__ void supply(Producer &producer, int64_t of_task, int next, int sequence) {
    int keep = 0;  // of the parts before, those that lie in the ring with this one
    if (of_task == task && fit(min(part, next), max(part, next)))
      keep = fit(min(part_before, min(part, next)), max(part_before, max(part, next))) ? 2 : 1;
    for (int back = 3; back > keep; back--)
      if (sequence >= back) board.costs_empty[(sequence - back) % 4].wait((sequence - back) / 4);
    part_before = of_task == task ? part : next;
    part = next, task = of_task;
    if (keep == 0) begin = end = first_of(part);
    cover(producer);
    board.costs_full[sequence % 4].arrive();
  }

  // The ring has the columns of a part or more, and is moved by those of a part at most: what is missing lies on one
  // side.
  template <class Producer>
  __device__ __forceinline__ void cover(Producer &producer) {
    const int from = first_of(part), to = end_of(part);
    const bool on_left = from < begin;
    const int stop = on_left ? begin : to;
    int column = on_left ? from : end;
    if (on_left)
      begin = from, end = min(end, begin + a.cost_columns);
    else
      end = max(end, to), begin = max(begin, end - a.cost_columns);
#pragma unroll 1
    for (; column < stop; column += chunk_columns)  // after the last, probably those of the part to the left come
      producer.produce(column, column + chunk_columns < stop ? column + chunk_columns : (from - a.tile_steps) & -chunk_columns);
  }
};

}  // namespace sdtw::cuda
