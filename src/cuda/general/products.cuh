// Costs that are made of squares, from products of float points by matrix instructions:
// |x - y|^2 = |x - o|^2 + |y - o|^2 - 2 <x - o, y - o> with a point o of the strip, so that an offset that all points
// share does not cancel. Sums of float64 leave few 2^-53 of the norms; where these are more than 2^-30 of a bit of
// t = D log2(e) / gamma, or Euclidean distances are not precise enough (has_precise_root), NaN is left, for which the
// caller takes differences. Of cosine o is 0, and only the angle counts.
#pragma once

#include "cuda/costs/matrix_product.cuh"
#include "cuda/general/cost_sums.cuh"
#include "cuda/general/points.cuh"

namespace sdtw::cuda::general {

// The sums of a warp that takes part in a tile: of eight lanes' rows, or of two of the four rows of each, and of the
// columns that these lanes have in the tile; seven more, as columns of a matrix are the same for all of its rows.
template <int T>
struct Products {
  static constexpr int matrices = (T + 14) / 8;

  int lane, half;  // the lane whose rows 2 half, 2 half + 1 the thread's sums are of
  double sum[matrices][4], norm[matrices], of_row[2];

  __device__ __forceinline__ Products(int part, int which)
      : lane(8 * part + lane_id() / 4), half(which), sum{}, norm{}, of_row{} {}

  // The places of the thread's columns in the tile, counted from the one that the last lane has in the first step.
  __device__ __forceinline__ int column(int j) const {
    return warp - 8 - lane / 8 * 8 + min(8 * j + lane_id() / 4, T + 6);  // there is one column less than matrices have
  }

  // Adds features in shared memory, 4 `parts` at a time. x, y: their first feature of lane 0, whose rows are so far
  // apart, and of the thread's columns; origin: that of o, or null.
  template <int parts, int x_pitch, int apart, int y_pitch>
  __device__ __forceinline__ void add(const float *x, const float *const (&y)[matrices], const float *origin,
                                      int features) {
    const int own = lane_id() % 4;
    const auto load = [&](const float *from, int f) { return f < features ? static_cast<double>(*from) : 0.0; };
#pragma unroll 1
    for (int first = own; first < features + own; first += 4 * parts) {
      double o[parts], rows[2 * parts];
#pragma unroll
      for (int e = 0; e < parts; e++) {
        const int f = first + 4 * e;
        o[e] = origin ? load(origin + f * x_pitch, f) : 0;
#pragma unroll
        for (int h = 0; h < 2; h++) {
          double &row = rows[2 * e + h];
          row = load(x + f * x_pitch + (2 * half + h) * apart + lane * (apart == 1 ? K : 1), f) - o[e];
          of_row[h] = fma(row, row, of_row[h]);
        }
      }
#pragma unroll
      for (int j = 0; j < matrices; j++) {
        double there[parts];
#pragma unroll
        for (int e = 0; e < parts; e++) {
          const int f = first + 4 * e;
          there[e] = load(y[j] + f * y_pitch, f) - o[e];
          norm[j] = fma(there[e], there[e], norm[j]);
        }
        multiply_add<parts>(sum[j], rows, there);
      }
    }
  }
  // The same of points that are padded with zeros, y relative to o already; norms are known.
  template <int parts, int x_pitch, int y_pitch>
  __device__ __forceinline__ void add(const float *x, const double *const (&y)[matrices], const double *origin,
                                      int features) {
    const int own = lane_id() % 4;
#pragma unroll 1
    for (int first = own; first < features + own; first += 4 * parts) {
      double rows[2 * parts];
#pragma unroll
      for (int e = 0; e < parts; e++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int f = first + 4 * e;
          rows[2 * e + h] = static_cast<double>(x[f * x_pitch + (2 * half + h) * rows_apart + lane]) - origin[f];
        }
#pragma unroll
      for (int j = 0; j < matrices; j++) {
        double there[parts];
#pragma unroll
        for (int e = 0; e < parts; e++) there[e] = y[j][(first + 4 * e) * y_pitch];
        multiply_add<parts>(sum[j], rows, there);
      }
    }
  }
  // Norms, or of cosine their inverse roots: from what was added; or as they are known, of a lane's rows and of
  // columns.
  __device__ __forceinline__ void take_norms(bool cosine) {
#pragma unroll
    for (double &v : of_row) v = norm_of(of_four(v), cosine);
#pragma unroll
    for (double &v : norm) v = norm_of(of_four(v), cosine);
  }
  template <class OfColumn>
  __device__ __forceinline__ void take_norms(const double *of_rows, const OfColumn &of_column) {
    of_row[0] = of_rows[lane * K + 2 * half], of_row[1] = of_rows[lane * K + 2 * half + 1];
#pragma unroll
    for (int j = 0; j < matrices; j++) norm[j] = of_column(column(j));
  }
  static __device__ __forceinline__ double of_four(double v) {
    v += __shfl_xor_sync(all_lanes, v, 1);
    return v + __shfl_xor_sync(all_lanes, v, 2);
  }
  static __device__ __forceinline__ double norm_of(double squares, bool cosine) {
    return !cosine ? squares : squares == 0 ? 0 : 1 / sqrt(squares);
  }

  // Where the sum of a cell lies, row k of a lane in step u, without bank conflicts: [K][T][32].
  static constexpr size_t bytes = K * T * warp * sizeof(double);
  static __device__ __forceinline__ double *at(double *sums, int k, int u, int lane) {
    return sums + (k * T + u) * warp + (lane ^ (u / 2 % 4 * 4));
  }

  // Stores squares of distances; of cosine those of normalised points.
  __device__ __forceinline__ void put(const Args &a, double *to) {
    const bool cosine = a.metric == SDTW_COSINE;
    const double step = a.scale * 0x1p-23 * fmax(fmax(fabs(a.weight[0]), fabs(a.weight[1])), fabs(a.weight[2]));
#pragma unroll
    for (int j = 0; j < matrices; j++) {
#pragma unroll
      for (int odd = 0; odd < 2; odd++) {
        const double of_column = __shfl_sync(all_lanes, norm[j], (lane_id() % 4 * 2 + odd) * 4);
        const int u = 8 * j + lane_id() % 4 * 2 + odd - 7 + lane % 8;
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const double product = sum[j][2 * h + odd];
          double v;
          if (cosine) {
            v = 2 - 2 * (product * of_row[h] * of_column);
          } else {
            const double all = of_row[h] + of_column, bits = step * all;
            v = fma(-2.0, product, all);
            const bool does = a.metric == SDTW_EUCLIDEAN ? has_precise_root(v, all, bits) : bits <= 1;
            if (!does && !(all == 0)) v = __longlong_as_double(0x7ff8000000000000ll);
          }
          if (u >= 0 && u < T) *at(to, 2 * half + h, u, lane) = v;
        }
      }
    }
  }
};

}  // namespace sdtw::cuda::general
