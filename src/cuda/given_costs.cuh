// Given costs: the sweeping warp copies what it needs next into shared memory while it sweeps.
#pragma once

#include <cuda_pipeline.h>

#include "inline_costs.cuh"

namespace sdtw::cuda {

template <class Cell>
struct GivenCosts {
  static constexpr bool cooperative = false;
  static constexpr int warps = 1;
  static constexpr int resident = 1;
  static constexpr int rows = K * warp;
  // Of a row, in elements: vectors of 16 bytes stay aligned, and lanes, which are 4 rows and -1 columns apart, meet no
  // bank twice.
  static constexpr int pitch = ring_columns + 4;

  struct Row {
    int64_t at;   // of its first element
    int columns;  // of its pair
  };
  __host__ __device__ static size_t element(const Args &a) { return a.f64 ? sizeof(double) : sizeof(float); }
  __host__ __device__ static size_t bytes(const Args &a) { return rows * (pitch * element(a) + sizeof(Row)); }

  const Args *a;
  unsigned char *ring;
  Row *row;
  typename Cell::Scale scale;
  float limit;
  int lane, start;
  int columns;       // of the pair
  int origin, sign;  // column c of the task is the matrix' column origin + sign c
  unsigned flip;     // four columns lie in the ring as the matrix has them: of a reversed task the other way round
  bool vectors;      // elements can be copied four at a time
  bool whole_rows;   // that, and all rows of the strip are one pair's
  bool too_large;

  __device__ __forceinline__ GivenCosts() : scale(0) {}

  __device__ __forceinline__ void begin(const Args &args, const View &s, unsigned char *memory) {
    a = &args;
    ring = memory;
    row = reinterpret_cast<Row *>(memory + rows * pitch * element(args));
    scale = typename Cell::Scale(args.scale);
    limit = fast_limit(args, s.pair) / static_cast<float>(args.scale);
    lane = s.lane;
    too_large = false;
    const int64_t *stride = args.x.stride;
    const auto address = reinterpret_cast<uintptr_t>(args.x.data);
    vectors = !args.f64 && stride[2] == 1 && stride[1] % 4 == 0 && stride[0] % 4 == 0 && address % 16 == 0 &&
              args.tile_steps % 4 == 0;
    columns = s.pair.m, origin = s.first_column(), sign = s.sign(), flip = s.reversed ? 3 : 0;
    if (s.reversed && columns % 4 != 0) vectors = false;
    const int end_row = s.row + sign * (rows - 1);
    whole_rows =
        vectors && s.active && args.lanes == warp && max(s.row, end_row) < s.pair.n && min(s.row, end_row) >= 0;
    __pipeline_wait_prior(0);  // what the task before has fetched in vain
    __syncwarp();
#pragma unroll
    for (int k = 0; k < K; k++)
      row[lane_id() * K + k] = {s.pair.index * stride[0] + clamp(s.row_of(k), s.pair.n) * stride[1], s.pair.m};
    for (size_t i = lane_id(); i < rows * pitch; i += warp)  // columns left of the first: any number will do
      if (a->f64)
        reinterpret_cast<double *>(ring)[i] = 0;
      else
        reinterpret_cast<float *>(ring)[i] = 0;
    __syncwarp();
  }

  // Where a column lies in a row of the ring.
  __device__ __forceinline__ unsigned place(int column) const {
    return (static_cast<unsigned>(column) ^ flip) % ring_columns;
  }
  // The first of four columns from `column` on, as the matrix has them.
  __device__ __forceinline__ int first_of_four(int column) const { return sign > 0 ? column : origin - column - 3; }

  // Element `column` of row r.
  template <class Element>
  __device__ __forceinline__ void fetch_one(int r, int column) {
    const Element *from = static_cast<const Element *>(a->x.data) + row[r].at;
    Element *to = reinterpret_cast<Element *>(ring) + r * pitch + place(column);
    __pipeline_memcpy_async(to, from + (origin + sign * clamp(column, row[r].columns)) * a->x.stride[2],
                            sizeof(Element));
  }
  // Columns [first, first + count) of all rows; multiples of 4 the both.
  __device__ __forceinline__ void fetch(int first, int count) {
    if (whole_rows && count == block_steps && first >= 0 && first + block_steps <= columns) {
      constexpr int per_row = block_steps / 4, at_once = warp / per_row;
      const int r = lane_id() / per_row, column = first + lane_id() % per_row * 4;
      float *to = reinterpret_cast<float *>(ring) + r * pitch + column % ring_columns;
      const float *from = static_cast<const float *>(a->x.data) + row[r].at + first_of_four(column);
#pragma unroll
      for (int i = 0; i < rows / at_once; i++, to += at_once * pitch, from += at_once * sign * a->x.stride[1])
        __pipeline_memcpy_async(to, from, 16);
    } else if (vectors) {
      const int per_row = count / 4;
      for (int i = lane_id(); i < rows * per_row; i += warp) {
        const int r = i / per_row, column = first + i % per_row * 4;
        if (column >= 0 && column + 4 <= row[r].columns) {
          float *to = reinterpret_cast<float *>(ring) + r * pitch + column % ring_columns;
          __pipeline_memcpy_async(to, static_cast<const float *>(a->x.data) + row[r].at + first_of_four(column), 16);
        } else {
          for (int j = 0; j < 4; j++) fetch_one<float>(r, column + j);
        }
      }
    } else {
#pragma unroll 4
      for (int i = lane_id(); i < rows * count; i += warp) {
        if (a->f64)
          fetch_one<double>(i / count, first + i % count);
        else
          fetch_one<float>(i / count, first + i % count);
      }
    }
    __pipeline_commit();
  }

  __device__ __forceinline__ void enter(int first) {
    if (first == 0) fetch(0, block_steps);
    __pipeline_wait_prior(0);
    __syncwarp();
    fetch(first + block_steps, block_steps);
  }
  __device__ __forceinline__ void stage(int) {}
  __device__ __forceinline__ void look_ahead(int, int) const {}
  __device__ __forceinline__ void window(int first, int steps) {
    __syncwarp();
    fetch(first - warp, warp + (steps + 3) / 4 * 4);
    __pipeline_wait_prior(0);
    __syncwarp();
  }

  __device__ __forceinline__ void seek(int first) { start = first - lane; }
  __device__ __forceinline__ void costs(int u, typename Cell::Cost (&cost)[K]) {
    const int at = lane_id() * K * pitch + place(start + u);
#pragma unroll
    for (int k = 0; k < K; k++) {
      if constexpr (Cell::wide) {
        const double c = a->f64 ? reinterpret_cast<const double *>(ring)[at + k * pitch]
                                : static_cast<double>(reinterpret_cast<const float *>(ring)[at + k * pitch]);
        cost[k] = Cell::split(c, scale);
      } else {
        const float c = reinterpret_cast<const float *>(ring)[at + k * pitch];
        too_large |= !(fabsf(c) <= limit);
        cost[k] = Cell::split(c, scale);
      }
    }
  }

  __device__ __forceinline__ bool exceeded(const Args &, const View &s) const {
    return !Cell::wide && pair_max(too_large, s.lanes) != 0;
  }
};

}  // namespace sdtw::cuda
