// The points of a strip in shared memory, for forward of float problems with more than `at_once` features: x of all
// rows as long as the strip lasts, y of the columns of a tile in a ring, as doubles. So a tile needs copies of its new
// columns alone, and each number of these becomes a double once, where Feed (points.cuh) copies x and all columns anew
// for each tile, since it has room for a few features only. For products (products.cuh) y is relative to a point of the
// strip, and norms are kept beside the points.
#pragma once

#include "cuda/general/products.cuh"

namespace sdtw::cuda::general {

// Walk: tiles of T steps one behind the other, as in Feed.
template <class Walk, int T, int threads>
struct ResidentPoints {
  // Columns of a tile: those that the last lane has in the first step to those that the first one has in the last. The
  // next T come while these are read.
  static constexpr int columns = T + warp - 1, ring = columns + 1 + T;
  // Pitches put four features of eight lanes, or columns, into different banks.
  static constexpr int x_pitch = K * rows_apart + 4, y_pitch = (ring + 11) / 16 * 16 + 4;
  static_assert(x_pitch % 32 == 8 && y_pitch % 16 == 4 && y_pitch >= ring, "banks");
  static constexpr int of_column = 16, apart = threads / of_column;  // threads that copy a column, side by side

  static __host__ __device__ __forceinline__ int padded(int features) { return (features + 15) / 16 * 16; }
  static __host__ __device__ __forceinline__ size_t bytes(int features) {
    return (strip_rows + ring) * sizeof(double) +
           padded(features) * ((1 + y_pitch) * sizeof(double) + x_pitch * sizeof(float));
  }

  const Args &a;
  const Task &s;
  const int thread, features;        // features: padded with zeros
  double *row_norms, *column_norms;  // as Products has them: of rows; of columns, by place_of_column
  double *origin, *y;                // o, or zeros; [features][y_pitch], by place_of_column
  float *x;                          // [features][x_pitch], by place_of_row
  Walk tile;                         // that was taken
  int slot;                          // of its first column in the ring
  bool begun;

  __device__ __forceinline__ ResidentPoints(const Args &args, const Task &task, unsigned char *memory, int, int number,
                                            const Walk &first, const unsigned char *)
      : a(args),
        s(task),
        thread(number),
        features(padded(args.cost_features)),
        row_norms(reinterpret_cast<double *>(memory)),
        column_norms(row_norms + strip_rows),
        origin(column_norms + ring),
        y(origin + features),
        x(reinterpret_cast<float *>(y + features * y_pitch)),
        tile(first),
        slot(0),
        begun(false) {
    if (tile.over()) return;
    copy_rows();
    ask(0, columns);
  }

  // As Feed's.
  struct PointsOfAll {
    const float *x;
    const double *y;
  };
  template <class In>
  __device__ __forceinline__ PointsOfAll points(int) const {
    return {x, y};
  }
  __device__ __forceinline__ int together() const { return a.cost_features; }
  __device__ __forceinline__ int place_of_column(int i) const {
    const int place = slot + i;
    return place < ring ? place : place - ring;
  }

  // An element, or 0 in place of features that there are not.
  __device__ __forceinline__ void copy(float *to, const Series &from, int64_t series, int row, int f) const {
    if (f >= a.cost_features) {
      *to = 0;
      return;
    }
    const int64_t size = from.dtype == SDTW_F32 ? 4 : 2;
    const int64_t at = series * from.stride[0] + row * from.stride[1] + f * from.stride[2];
    copy_elements<1>(to, 0, static_cast<const char *>(from.data) + at * size, 0, from.dtype, [](int) { return true; });
  }
  __device__ __forceinline__ void copy_rows() const {
    for (int f = thread % at_once; f < features; f += at_once)
#pragma unroll 8
      for (int i = thread / at_once; i < strip_rows; i += threads / at_once)
        if (s.has_row(s.row_of(i))) copy(x + f * x_pitch + place_of_row(i), a.x, s.index.x, s.row_of(i), f);
  }
  // Whether there is a column, counted from the first of the tile.
  __device__ __forceinline__ bool has_column(int i) const {
    return static_cast<unsigned>(tile.first_step() - (warp - 1) + i) < static_cast<unsigned>(s.m);
  }
  // Begins to copy some columns, into the first half of the doubles that they will be.
  __device__ __forceinline__ void ask(int first, int count) const {
    for (int i = first + thread / of_column; i < first + count; i += apart) {
      if (!has_column(i)) continue;
      const int column = s.column_of(tile.first_step() - (warp - 1) + i), place = place_of_column(i);
      for (int f = thread % of_column; f < features; f += of_column)
        copy(reinterpret_cast<float *>(y + f * y_pitch + place), a.y, s.index.y, column, f);
    }
    __pipeline_commit();
  }
  // Makes doubles of what the thread has asked for. A warp has two columns at a time.
  __device__ __forceinline__ void convert(int first, int count) const {
    __pipeline_wait_prior(0);
    for (int number = thread / of_column; number / 2 * 2 < count; number += apart) {
      const int place = place_of_column(first + number);
      double norm = 0;
      if (number < count && has_column(first + number))
        for (int f = thread % of_column; f < features; f += of_column) {
          double &to = y[f * y_pitch + place];
          const double v = static_cast<double>(*reinterpret_cast<const float *>(&to)) - origin[f];
          to = v, norm = fma(v, v, norm);
        }
      norm = lanes_sum(norm, of_column);
      if (number < count && thread % of_column == 0)
        column_norms[place] = Products<T>::norm_of(norm, a.metric == SDTW_COSINE);
    }
  }
  // Origin and norms of rows, when x is there.
  template <class Meet>
  __device__ __forceinline__ void measure_rows(const Meet &meet) const {
    const int first = place_of_row(s.reversed ? s.spare() : 0);
    const bool centred = a.products && a.metric != SDTW_COSINE;
    for (int f = thread; f < features; f += threads)
      origin[f] = centred ? static_cast<double>(x[f * x_pitch + first]) : 0;
    meet();
    if (!a.products) return;
    for (int row = thread; row < strip_rows; row += threads) {
      const float *of_row = x + place_of_row(row);
      double norm = 0;
#pragma unroll 4
      for (int f = 0; f < features; f++) {
        const double v = static_cast<double>(of_row[f * x_pitch]) - origin[f];
        norm = fma(v, v, norm);
      }
      row_norms[row] = Products<T>::norm_of(norm, a.metric == SDTW_COSINE);
    }
  }

  // Waits for the columns of the next tile. meet: a barrier of the threads.
  template <class Meet>
  __device__ __forceinline__ void take(const Meet &meet) {
    if (begun) {
      slot = place_of_column(T), tile.advance();
      convert(columns - T, T);
    } else {
      begun = true;
      __pipeline_wait_prior(0);
      meet();
      measure_rows(meet);
      convert(0, columns);
    }
    meet();
    ask(columns, T);  // those of a tile that there is not are not used
  }
};

}  // namespace sdtw::cuda::general
