// The points of a strip in shared memory, for forward of float problems with more than `at_once` features: x of all rows
// as long as the strip lasts, y of the columns of a tile and of the next one, in a ring. So a tile needs copies of its
// new columns alone, where Feed (points.cuh) copies x and all columns anew for each tile, since it has room for a few
// features only.
//
// Costs that are made of squares come from products, by matrix instructions:
// |x - y|^2 = |x - o|^2 + |y - o|^2 - 2 <x - o, y - o> with a point o of the strip, so that an offset that all points
// share does not cancel. Sums of float64 leave few 2^-53 of the norms; where these are more than 2^-30 of a bit of
// t = D log2(e) / gamma, the sum is taken of differences instead. Cosine has no origin, and its norms are the points'.
#pragma once

#include "cuda/costs/matrix_product.cuh"
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

  static __host__ __device__ __forceinline__ int padded(int features) { return (features + 15) / 16 * 16; }
  static __host__ __device__ __forceinline__ size_t bytes(int features) {
    return strip_rows * sizeof(double) +
           padded(features) * (sizeof(double) + (x_pitch + y_pitch) * sizeof(float));
  }

  const Args &a;
  const Task &s;
  const int thread;
  double *norms;   // of rows: |x - o|^2, or for cosine 1 / |x|
  double *origin;  // o; for cosine zeros
  float *x, *y;    // [padded features][x_pitch], by place_of_row; [..][y_pitch], by column
  Walk ahead;      // the tile of which columns are asked for next
  int slot, next;  // in the ring: of the first column of the tile; of the column to be asked for next
  bool begun;

  __device__ __forceinline__ ResidentPoints(const Args &args, const Task &task, unsigned char *memory, int, int number,
                                            const Walk &begin)
      : a(args),
        s(task),
        thread(number),
        norms(reinterpret_cast<double *>(memory)),
        origin(norms + strip_rows),
        x(reinterpret_cast<float *>(origin + padded(args.given_features))),
        y(x + padded(args.given_features) * x_pitch),
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

  // One element, or none: 0 in place of features that there are not.
  __device__ __forceinline__ void copy(float *to, const Series &from, int64_t series, int row, int f,
                                       bool exists) const {
    if (f >= a.given_features) {
      *to = 0;
    } else if (exists) {
      const int64_t size = from.dtype == SDTW_F32 ? 4 : 2;
      copy_elements<1>(to, 0,
                       static_cast<const char *>(from.data) +
                           (series * from.stride[0] + row * from.stride[1] + f * from.stride[2]) * size,
                       0, from.dtype, [](int) { return true; });
    }
  }
  __device__ __forceinline__ void copy_rows() const {
    const int features = padded(a.given_features);
    for (int f = thread % at_once; f < features; f += at_once)
#pragma unroll 8
      for (int row = thread / at_once; row < strip_rows; row += threads / at_once)
        copy(x + f * x_pitch + place_of_row(row), a.given_x, s.index.x, s.row_of(row), f, s.has_row(s.row_of(row)));
  }
  __device__ __forceinline__ void copy_columns(int first, int count) {
    constexpr int together = T < threads ? T : threads, apart = threads / together;
    const int features = padded(a.given_features);
    for (int i = thread % together; i < count; i += together) {
      const int column = first + i;
      float *to = y + wrap(next + i);
      for (int f = thread / together; f < features; f += apart)
        copy(to + f * y_pitch, a.given_y, s.index.y, s.column_of(column), f, column >= 0 && column < s.m);
    }
    next = wrap(next + count);
    __pipeline_commit();
  }

  // Waits for the columns of the next tile. meet: a barrier of the threads.
  template <class Meet>
  __device__ __forceinline__ void take(const Meet &meet) {
    __pipeline_wait_prior(0);
    meet();
    if (begun)
      slot = wrap(slot + T);
    else
      measure(meet);
    begun = true;
    if (ahead.over()) return;
    copy_columns(ahead.first_step(), T);  // in place of columns before those of this tile
    ahead.advance();
  }
  // Where the column lies, counted from the first of the tile.
  __device__ __forceinline__ int place_of_column(int i) const { return wrap(slot + i); }

  // Origin and norms, when x is there.
  template <class Meet>
  __device__ __forceinline__ void measure(const Meet &meet) const {
    if (a.metric == SDTW_CITYBLOCK) return;
    const bool cosine = a.metric == SDTW_COSINE;
    const int features = padded(a.given_features), first = place_of_row(s.reversed ? s.spare() : 0);
    for (int f = thread; f < features; f += threads) origin[f] = cosine ? 0 : static_cast<double>(x[f * x_pitch + first]);
    meet();
    for (int row = thread; row < strip_rows; row += threads) {
      const float *of_row = x + place_of_row(row);
      double norm = 0;
#pragma unroll 4
      for (int f = 0; f < features; f++) {
        const double v = static_cast<double>(of_row[f * x_pitch]) - origin[f];
        norm = fma(v, v, norm);
      }
      norms[row] = cosine ? inverse_root(norm) : norm;
    }
    meet();
  }
  static __device__ __forceinline__ double inverse_root(double norm) { return norm == 0 ? 0 : 1 / sqrt(norm); }

  // The sum of squared differences of a row and a column of the tile.
  __device__ __forceinline__ double of_differences(int row, int i) const {
    const float *of_x = x + place_of_row(row), *of_y = y + place_of_column(i);
    double sum = 0;
#pragma unroll 4
    for (int f = 0; f < a.given_features; f++) {
      const double v = static_cast<double>(of_x[f * x_pitch]) - static_cast<double>(of_y[f * y_pitch]);
      sum = fma(v, v, sum);
    }
    return sum;
  }

  // Sums of a tile from products, by all warps: [K][T][32] at `to`, NaN where products do not do. A warp has eight
  // lanes' rows, or two of four, and the columns that these have in the tile, and seven more, as columns of matrices are
  // the same for all rows.
  static __device__ __forceinline__ double *sum_at(double *to, int k, int u, int lane) {
    return to + (k * T + u) * warp + (lane ^ (u / 2 % 4 * 4));  // without bank conflicts
  }
  static constexpr size_t sum_bytes = K * T * warp * sizeof(double);

  __device__ __forceinline__ void multiply(double *to) const {
    constexpr int warps = threads / warp, parts = warp / 8;
    static_assert(warps % parts == 0 && warps <= 2 * parts, "each warp has rows of eight lanes");
    const int number = thread / warp;
    if constexpr (warps == parts) {
#pragma unroll 1
      for (int half = 0; half < 2; half++) multiply(to, number, half);
    } else {
      multiply(to, number % parts, number / parts);
    }
  }
  __device__ __forceinline__ void multiply(double *to, int part, int half) const {
    constexpr int matrices = (T + 14) / 8;
    const int g = lane_id() / 4, own = lane_id() % 4, lane = 8 * part + g;
    const int before = warp - 8 - 8 * part;  // columns of the tile before the warp's first
    const float *of_x = x + own * x_pitch + 2 * half * rows_apart + lane, *of_y[matrices];
#pragma unroll
    for (int j = 0; j < matrices; j++)  // there is one column less than matrices have
      of_y[j] = y + own * y_pitch + place_of_column(before + min(8 * j + g, T + 6));
    double sum[matrices][4] = {}, norm[matrices] = {};
    const int features = padded(a.given_features);
#pragma unroll 1
    for (int f = 0; f < features; f += 16) {
      double o[4], rows[8];
#pragma unroll
      for (int e = 0; e < 4; e++) {
        o[e] = origin[f + own + 4 * e];
        const float *from = of_x + (f + 4 * e) * x_pitch;
        rows[2 * e] = static_cast<double>(from[0]) - o[e];
        rows[2 * e + 1] = static_cast<double>(from[rows_apart]) - o[e];
      }
#pragma unroll
      for (int j = 0; j < matrices; j++) {
        double there[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
          there[e] = static_cast<double>(of_y[j][(f + 4 * e) * y_pitch]) - o[e];
          norm[j] = fma(there[e], there[e], norm[j]);
        }
        multiply_add(sum[j], rows, there);
      }
    }
    const bool cosine = a.metric == SDTW_COSINE;
    const double of_row[2] = {norms[lane * K + 2 * half], norms[lane * K + 2 * half + 1]};
    const double step = a.scale * 0x1p-23 * fmax(fmax(fabs(a.weight[0]), fabs(a.weight[1])), fabs(a.weight[2]));
#pragma unroll
    for (int j = 0; j < matrices; j++) {
      norm[j] += __shfl_xor_sync(all_lanes, norm[j], 1);
      norm[j] += __shfl_xor_sync(all_lanes, norm[j], 2);
      if (cosine) norm[j] = inverse_root(norm[j]);
#pragma unroll
      for (int odd = 0; odd < 2; odd++) {
        const double of_column = __shfl_sync(all_lanes, norm[j], (2 * own + odd) * 4);
        const int u = 8 * j + 2 * own + odd - 7 + g;
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const double product = sum[j][2 * h + odd];
          double v;
          if (cosine) {
            v = 2 - 2 * (product * of_row[h] * of_column);
          } else {
            const double all = of_row[h] + of_column, error = step * all;
            v = fma(-2.0, product, all);
            const bool does = a.metric == SDTW_EUCLIDEAN ? v > error * error : error <= 1;
            if (!does && !(all == 0)) v = __longlong_as_double(0x7ff8000000000000ll);
          }
          if (u >= 0 && u < T) *sum_at(to, 2 * half + h, u, lane) = v;
        }
      }
    }
  }
};

}  // namespace sdtw::cuda::general
