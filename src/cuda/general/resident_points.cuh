// The points of a strip in shared memory, for forward of float problems with more than `at_once` features: x of all rows
// as long as the strip lasts, y of the columns of a tile and of the next one, in a ring. So a tile needs copies of its
// new columns alone, where Feed (points.cuh) copies x and all columns anew for each tile, since it has room for a few
// features only.
#pragma once

#include "cuda/general/points.cuh"

namespace sdtw::cuda::general {

// The least number that is not less than n and puts four features of eight columns, or rows, into different banks.
constexpr int pitch_of(int n) { return (n + 23) / 32 * 32 + 8; }

// Walk: tiles of T steps one behind the other, as in Feed.
template <class Walk, int T, int threads>
struct ResidentPoints {
  static constexpr int ring = warp + 2 * T, x_pitch = pitch_of(K * rows_apart), y_pitch = pitch_of(ring);
  // Columns of a tile: those that the last lane has in the first step to those that the first one has in the last.
  static constexpr int columns = T + warp - 1;

  static __host__ __device__ __forceinline__ size_t bytes(int features) {
    return features * (x_pitch + y_pitch) * sizeof(float);
  }

  const Args &a;
  const Task &s;
  const int thread;
  float *x, *y;    // [features][x_pitch], by place_of_row; [features][y_pitch], by place_of_column
  Walk ahead;      // the tile of which columns are asked for next
  int slot, next;  // in the ring: of the first column of the tile; of the column to be asked for next
  bool begun;

  __device__ __forceinline__ ResidentPoints(const Args &args, const Task &task, unsigned char *memory, int, int number,
                                            const Walk &begin)
      : a(args),
        s(task),
        thread(number),
        x(reinterpret_cast<float *>(memory)),
        y(x + args.cost_features * x_pitch),
        ahead(begin),
        slot(0),
        next(0),
        begun(false) {
    __pipeline_wait_prior(0);  // what the task before has asked for and not used
    if (ahead.over()) return;
    copy_rows();
    copy_columns(ahead.first_step() - (warp - 1), columns);
    ahead.advance();
  }

  static __device__ __forceinline__ int wrap(int place) { return place < ring ? place : place - ring; }
  // As Feed's.
  __device__ __forceinline__ int together() const { return a.cost_features; }
  __device__ __forceinline__ int place_of_column(int i) const { return wrap(slot + i); }
  template <class In>
  __device__ __forceinline__ Points<In> points(int) const {
    return {x, y};
  }

  __device__ __forceinline__ void copy(float *to, const Series &from, int64_t series, int row, int f) const {
    const int64_t size = from.dtype == SDTW_F32 ? 4 : 2;
    const int64_t at = series * from.stride[0] + row * from.stride[1] + f * from.stride[2];
    copy_elements<1>(to, 0, static_cast<const char *>(from.data) + at * size, 0, from.dtype, [](int) { return true; });
  }
  __device__ __forceinline__ void copy_rows() const {
    for (int f = thread % at_once; f < a.cost_features; f += at_once)
#pragma unroll 8
      for (int i = thread / at_once; i < strip_rows; i += threads / at_once)
        if (s.has_row(s.row_of(i))) copy(x + f * x_pitch + place_of_row(i), a.x, s.index.x, s.row_of(i), f);
  }
  __device__ __forceinline__ void copy_columns(int first, int count) {
    constexpr int together = T < threads ? T : threads, apart = threads / together;
    for (int i = thread % together; i < count; i += together) {
      const int column = first + i;
      if (column < 0 || column >= s.m) continue;
      float *to = y + wrap(next + i);
      for (int f = thread / together; f < a.cost_features; f += apart)
        copy(to + f * y_pitch, a.y, s.index.y, s.column_of(column), f);
    }
    next = wrap(next + count);
    __pipeline_commit();
  }

  // Waits for the columns of the next tile. meet: a barrier of the threads.
  template <class Meet>
  __device__ __forceinline__ void take(const Meet &meet) {
    __pipeline_wait_prior(0);
    meet();
    if (begun) slot = wrap(slot + T);
    begun = true;
    if (ahead.over()) return;
    copy_columns(ahead.first_step(), T);  // in place of columns before those of this tile
    ahead.advance();
  }
};

}  // namespace sdtw::cuda::general
