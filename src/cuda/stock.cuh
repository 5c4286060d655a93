// The ring of costs that the producers of a backward block keep filled.
#pragma once

#include "tile_costs.cuh"

namespace sdtw::cuda {

// What the producers have in the ring of costs: columns [begin, end).
template <class Backward>
struct Stock {
  static constexpr int none = Backward::none, producers = Backward::producers;

  const Backward &b;
  int begin, end;

  __device__ __forceinline__ explicit Stock(const Backward &back) : b(back), begin(0), end(0) {}

  // The columns of a part, in whole chunks.
  __device__ __forceinline__ int first_of(int part) const { return (b.first_step(part) - warp) & -chunk_columns; }
  __device__ __forceinline__ int end_of(int part) const {
    return (b.first_step(part) + b.a.tile_steps + chunk_columns - 1) & -chunk_columns;
  }
  // Whether the costs of both parts have room at once.
  __device__ __forceinline__ bool fits(int one, int other) const {
    return max(end_of(one), end_of(other)) - min(first_of(one), first_of(other)) <= b.a.cost_columns;
  }

  template <class Producer>
  __device__ __forceinline__ void cover(Producer &producer, int part) {
    const int from = first_of(part), to = end_of(part);
    if (to < begin || from > end) begin = end = from;
    fill(producer, from, begin, to > end ? end : from - b.a.tile_steps);
    begin = min(begin, from);
    end = min(end, begin + b.a.cost_columns);
    fill(producer, end, to, begin - b.a.tile_steps);
    end = max(end, to);
    begin = max(begin, end - b.a.cost_columns);
  }
  // after: the columns that will be asked for next, probably.
  template <class Producer>
  __device__ __forceinline__ void fill(Producer &producer, int from, int to, int after) const {
    for (int column = from; column < to; column += chunk_columns)
      producer.produce(column, column + chunk_columns < to ? column + chunk_columns : after & -chunk_columns,
                       [] { barrier(2, producers * warp); });
  }
};

}  // namespace sdtw::cuda
