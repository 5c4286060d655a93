// What becomes of E of a short pair, by a block: gradients of its points, or E itself.
#pragma once

#include "cuda/costs/matrix_product.cuh"
#include "cuda/short_pairs/points.cuh"
#include "cuda/short_pairs/signed_sums.cuh"

namespace sdtw::cuda::short_pairs {

// Gradients of some points of one series, by a warp: `factor` times
//   sum_j E[i,j] (x[i] - y[j]) = (x[i] - o) sum_j E[i,j] - sum_j E[i,j] (y[j] - o),
// where o is the first point of x, and the last sum a product of matrices: the other series' points, of which a feature
// is a row, times E, of which a point of this series is a column. In double, so that what does not cancel is far less
// than an E of 1e-12 has, which is nothing; and of series that are equal constants it is 0. Of Euclidean distances E is
// divided by D; of cosine o is 0, points are divided by their norms, and the first sum is of E c (metrics.cuh).
template <class Shape, bool of_x>
class PointGradients {
  using Staged = StagedPoints<Shape>;
  using Planes = short_pairs::Planes<Shape::R>;
  static constexpr int tiles = 2 * Shape::columns / of_tile / Shape::warps;
  static constexpr int to_next = of_x ? 1 : Planes::pitch, to_other = of_x ? Planes::pitch : 1;

  // As matrix instructions want it, a lane has E of one point of each tile and of two of the others; and of the product
  // it has two points, and two features.
  int row, column;
  int from, left;  // the warp's first point; points that there are from there on
  const float *e;  // of the lane's point of the first tile and its first other
  double *sums;    // of E of the warp's points
  // Of metrics that are not squares, likewise: what is kept of the lane's first cell, and of cosine the inverse norms
  // of the warp's points, and of the others.
  const float *cell;
  const double *norms, *norms_of_others;
  int own, other;  // where the lane's first points of the product are among those that are staged

  // 0 of tiles without points, for which planes have no room.
  __device__ __forceinline__ Few<float, 2> weights(int step, int tile) const {
    if (of_tile * tile >= left) return {};
    const float *at = e + of_tile * (step * to_other + tile * to_next);
    return {{at[0], at[to_other]}};
  }

 public:
  // number: of the warp, among those of the series. sums_of_all: memory for a double of each point of both series.
  __device__ __forceinline__ PointGradients(const Pair &pair, const Planes &planes, const Kept<Shape> &kept,
                                            double *sums_of_all, int number)
      : row(lane_id() / 4),
        column(lane_id() % 4 * 2),
        from(number * tiles * of_tile),
        left((of_x ? pair.n : pair.m) - from),
        e(planes.data + (from + row) * to_next + column * to_other),
        sums(sums_of_all + (of_x ? 0 : Points<Shape>::of_x) + from),
        cell(kept.cells + (e - planes.data)),
        norms(kept.inverse_norms + (of_x ? 0 : Points<Shape>::of_x) + from),
        norms_of_others(kept.inverse_norms + (of_x ? Points<Shape>::of_x : 0)),
        own(((of_x ? 0 : Points<Shape>::of_x) + from + column) * Staged::pitch + row),
        other(((of_x ? Points<Shape>::of_x : 0) + column) * Staged::pitch + row) {}

  // Adds up E of the warp's points, and returns of which tiles of the others these have any, a bit each.
  __device__ __forceinline__ unsigned add_up(const Args &a, const Pair &pair) const {
    unsigned live = 0;
    const bool cosine = is_cosine<Shape>(a);
    const auto any_of = [&](float weight) { return Shape::squares || cosine ? is_live(weight) : weight != 0; };
    double sum[tiles] = {};
    const int steps = left > 0 ? ((of_x ? pair.m : pair.n) + of_tile - 1) / of_tile : 0;
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
      Few<float, 2> of_step[tiles];
      bool any = false;
#pragma unroll
      for (int tile = 0; tile < tiles; tile++) {
        of_step[tile] = weights(step, tile);
        any |= any_of(of_step[tile].v[0]) || any_of(of_step[tile].v[1]);
      }
      if (!__any_sync(all_lanes, any)) continue;
      live |= 1u << step;
#pragma unroll
      for (int tile = 0; tile < tiles; tile++) {
        double of_cell[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
          of_cell[i] = static_cast<double>(of_step[tile].v[i]);
          if (cosine && of_cell[i] != 0)
            of_cell[i] *= Kept<Shape>::cosine(cell[of_tile * (step * to_other + tile * to_next) + i * to_other]);
        }
        sum[tile] += of_cell[0] + of_cell[1];
      }
    }
#pragma unroll
    for (int tile = 0; tile < tiles; tile++) {
#pragma unroll
      for (int lanes = 1; lanes < 4; lanes *= 2) sum[tile] += __shfl_xor_sync(all_lanes, sum[tile], lanes);
      if (column == 0 && of_tile * tile + row < left) sums[of_tile * tile + row] = sum[tile];
    }
    return live;
  }

  // Of 16 features from `feature` on, of which `points` are staged.
  __device__ __forceinline__ void store(const Args &a, const Pair &pair, unsigned live, int feature,
                                        const float *points, double factor) const {
    const sdtw_out &out = of_x ? a.grad_x : a.grad_y;
    if (!out.data) return;
    const bool cosine = is_cosine<Shape>(a);
    const double origin[2] = {cosine ? 0.0 : points[row], cosine ? 0.0 : points[row + 8]};
    double sum[tiles][4] = {};
#pragma unroll 1
    for (unsigned rest = live; rest != 0; rest &= rest - 1) {
      const int step = __ffs(static_cast<int>(rest)) - 1;
      const float *there = points + other + of_tile * Staged::pitch * step;
      double of_others[4];
#pragma unroll
      for (int i = 0; i < 4; i++) {
        of_others[i] = static_cast<double>(there[i / 2 * Staged::pitch + i % 2 * 8]) - origin[i % 2];
        if (cosine) of_others[i] *= norms_of_others[of_tile * step + column + i / 2];
      }
#pragma unroll
      for (int tile = 0; tile < tiles; tile++) {
        const Few<float, 2> weight = weights(step, tile);
        multiply_add<2>(sum[tile], of_others, {weight.v[0], weight.v[1]});
      }
    }
    a.dtype == SDTW_F32 ? round_to<float>(a, pair, feature, points, factor, sum)
                        : round_to<unsigned short>(a, pair, feature, points, factor, sum);
  }

 private:
  // As elements of this size.
  template <class Element>
  __device__ __forceinline__ void round_to(const Args &a, const Pair &pair, int feature, const float *points,
                                           double factor, const double (&sum)[tiles][4]) const {
    const sdtw_out &out = of_x ? a.grad_x : a.grad_y;
    const bool cosine = is_cosine<Shape>(a);
    const double origin[2] = {cosine ? 0.0 : points[row], cosine ? 0.0 : points[row + 8]};
    const int first = feature + row;
    const bool has_first = first < a.features, has_second = first + 8 < a.features;
    const int padded = (of_x ? a.n : a.m) - from;
    Element *to = static_cast<Element *>(out.data) + pair.index * out.stride[0] + (from + column) * out.stride[1] +
                  first * out.stride[2];
    const int64_t to_second = 8 * out.stride[2];
#pragma unroll
    for (int tile = 0; tile < tiles; tile++) {
      if (of_tile * tile >= padded) break;
#pragma unroll
      for (int i = 0; i < 2; i++) {
        const int point = of_tile * tile + i;
        const float *here = points + own + point * Staged::pitch;
        const bool exists = point + column < left;
        const double weight = sums[point + column], norm = cosine ? norms[point + column] : 1;
        Element gradient[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
          const double of_point = (static_cast<double>(here[8 * k]) - origin[k]) * norm;
          const double sum_of_all = factor * norm * fma(of_point, weight, -sum[tile][i + 2 * k]);
          gradient[k] = rounded<Element>(exists ? static_cast<float>(sum_of_all) : 0, a.dtype);
        }
        Element *const at = to + i * out.stride[1];
        if (point + column < padded && has_first) *at = gradient[0];
        if (point + column < padded && has_second) at[to_second] = gradient[1];
      }
      to += of_tile * out.stride[1];
    }
  }
};

// Makes E 0 where whole tiles of rows and columns go on beyond the pair's, by all threads.
template <int R>
__device__ __forceinline__ void clear_beyond(const Pair &pair, const Planes<R> &planes) {
  using Planes = short_pairs::Planes<R>;
  const int threads = static_cast<int>(blockDim.x);
  if (pair.n % of_tile != 0)
    for (int i = threadIdx.x; i < pair.m * of_tile; i += threads)
      if (const int row = pair.n / of_tile * of_tile + i % of_tile; row >= pair.n)
        planes.data[Planes::place(row, i / of_tile)] = 0;
  for (int i = pair.m * Planes::pitch + threadIdx.x; i < Planes::size_for(pair.m); i += threads) planes.data[i] = 0;
  __syncthreads();
}

// All gradients of a pair. In shared memory E is in the first plane, and behind it, and what has been computed once
// more, points as they are staged, and the sums of E of each.
template <class Shape>
struct Gradients {
  using Planes = short_pairs::Planes<Shape::R>;
  using Staged = StagedPoints<Shape>;
  static constexpr int planes_before = Shape::recomputes ? 2 : 1;
  static __host__ __device__ size_t bytes(int columns) {
    return planes_before * Planes::size_for(columns) * sizeof(float) + Staged::bytes +
           Points<Shape>::count * sizeof(double);
  }

  static __device__ __forceinline__ void store(const Args &a, const Pair &pair, const Planes &planes,
                                               const Kept<Shape> &kept, double factor) {
    if (is_euclidean<Shape>(a) && !a.hard) kept.divide(planes);
    float *const staged = planes.data + planes_before * planes.size;
    double *const sums = reinterpret_cast<double *>(staged + Staged::bytes / sizeof(float));
    clear_beyond(pair, planes);
    if (is_cityblock<Shape>(a)) return store_signed_sums<Shape>(a, pair, planes, staged, factor);
    const int number = static_cast<int>(threadIdx.x) / warp;
    const bool of_x = number < Shape::warps / 2;
    const auto with_points = [&](const auto &work) {
      of_x ? work(PointGradients<Shape, true>(pair, planes, kept, sums, number))
           : work(PointGradients<Shape, false>(pair, planes, kept, sums, number - Shape::warps / 2));
    };
    unsigned live = 0;
    with_points([&](const auto &own) { live = own.add_up(a, pair); });
    Staged::each(a, pair, staged, [&](int feature, const float *points) {
      with_points([&](const auto &own) { own.store(a, pair, live, feature, points, factor); });
    });
  }
};

// E of all cells that there are, and 0 in the others.
template <int R>
__device__ __forceinline__ void store_alignment(const Args &a, const Pair &pair, const Planes<R> &planes) {
  const int64_t first = pair.index * a.dense.stride[0];
  for (int row = threadIdx.x / warp; row < a.n; row += static_cast<int>(blockDim.x) / warp)
    for (int column = lane_id(); column < a.m; column += warp)
      put_element(a.dense.data, first + row * a.dense.stride[1] + column * a.dense.stride[2], a.dtype,
                  row < pair.n && column < pair.m ? planes.data[Planes<R>::place(row, column)] : 0.0f);
}

// All of an output of one pair, where there is nothing to sum up: `value` in its first rows, `beyond` in the others.
__device__ __forceinline__ void fill(const sdtw_out &out, sdtw_dtype dtype, int64_t pair, int rows, int own,
                                     int columns, float value, float beyond) {
  if (!out.data) return;
  for (int i = threadIdx.x; i < rows * columns; i += static_cast<int>(blockDim.x))
    put_element(out.data, pair * out.stride[0] + i / columns * out.stride[1] + i % columns * out.stride[2], dtype,
                i / columns < own ? value : beyond);
}

}  // namespace sdtw::cuda::short_pairs
