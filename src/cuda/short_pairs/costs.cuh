// The costs of all cells of a short pair, by a block. As a rule D = |x - o|^2 + |y - o|^2 - 2 <x - o, y - o>, where o
// is the first point of x, so that an offset that all points share does not cancel, or what other metrics make of that
// (metrics.cuh). Costs that are too large for FloatCell, and all of city block distances, are summed up from
// differences, in which nothing cancels.
#pragma once

#include "cuda/costs/matrix_product.cuh"
#include "cuda/short_pairs/band.cuh"
#include "cuda/short_pairs/points.cuh"

namespace sdtw::cuda::short_pairs {

// Stores a distance as the cost that a sweep of Cell takes, or t, of which it makes those of each step. A band may
// leave out the cell then.
template <class Cell, class Shape>
__device__ __forceinline__ void put_cost(const Args &a, const Planes<Shape::R> &planes, int row, int column, double d) {
  float *const first = planes.data + Planes<Shape::R>::place(row, column), *const second = first + planes.size;
  const bool is_in = admits<Shape>(a, row, column);
  const double scale = Shape::steps == Steps::simple ? a.scale * a.weight[vertical] : a.scale;
  if constexpr (Shape::steps == Steps::weighted)
    StoredCost<DoubleCell>::put(first, second, is_in ? scale * d : LeftOut::t<Cell>());
  else if constexpr (Cell::wide)
    StoredCost<Cell>::put(first, second,
                          DoubleCell::prepare(is_in ? d : LeftOut::infinity(), DoubleCell::Scale(scale)));
  else
    StoredCost<Cell>::put(first, second, is_in ? split_large(scale * d) : LeftOut::cost());
}

// Costs by matrix products.
template <class Shape>
struct ProductCosts {
  using P = Points<Shape>;
  using Centred = CentredPoints<Shape>;
  using Planes = short_pairs::Planes<Shape::R>;
  static constexpr int rows = P::of_x;
  // In shared memory points are staged in as many planes as what comes of the cells will be stored in, if these have
  // the room. Behind them are the points as matrices take them.
  static __host__ __device__ int first_of_matrices(int columns, int planes) {
    const int of_points = Centred::Staged::bytes;
    const int of_cells = planes * Planes::size_for(columns) * static_cast<int>(sizeof(float));
    return of_points > of_cells ? of_points : of_cells;
  }
  static __host__ __device__ size_t bytes(int columns, int planes) {
    return first_of_matrices(columns, planes) + Centred::bytes;
  }

  // A warp has 16 rows and all columns, or half of them.
  static constexpr int tiles = P::of_y / of_tile * rows / 16 / Shape::warps;
  static __device__ __forceinline__ int number() { return threadIdx.x / warp; }
  static __device__ __forceinline__ int first_row() { return number() % (rows / 16) * 16; }
  static __device__ __forceinline__ int first_column() { return number() / (rows / 16) * tiles * of_tile; }

  const Args &a;
  const Pair &pair;
  double *shared;  // the points; in the end their norms
  double sum[tiles][4] = {};

  // memory: of so many planes, and what there is behind them.
  __device__ __forceinline__ ProductCosts(const Args &args, const Pair &of, float *memory, int planes)
      : a(args),
        pair(of),
        shared(reinterpret_cast<double *>(memory) + first_of_matrices(args.m, planes) / sizeof(double)) {
    Centred::each(a, pair, memory, shared, [&] { multiply(); });
  }

  // Adds up the products of 16 features, eight at a time, for which there are registers.
  __device__ __forceinline__ void multiply() {
    if (first_row() >= pair.n || first_column() >= pair.m) return;
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
      const auto load = [&](int point) {
        return *reinterpret_cast<const Few<double, 2> *>(shared + (point + lane_id() / 4) * Centred::pitch +
                                                         lane_id() % 4 * 4 + 2 * half);
      };
      const Few<double, 2> upper = load(first_row()), lower = load(first_row() + 8);
      const double of_row[4] = {upper.v[0], lower.v[0], upper.v[1], lower.v[1]};
#pragma unroll
      for (int tile = 0; tile < tiles; tile++) {
        const Few<double, 2> of_column = load(rows + first_column() + of_tile * tile);
        multiply_add<2>(sum[tile], of_row, of_column.v);
      }
    }
  }

  // A bound of t, of which NaN and infinities are the largest.
  __device__ __forceinline__ float bound() const {
    const auto of_points = [&](double unit, float(&of_series)[2]) {
      int most[2] = {0, 0};
      for (int point = lane_id(); point < P::count; point += warp) {
        int &of = most[point >= rows];
        of = max(of, __float_as_int(static_cast<float>(shared[point] * unit)) & 0x7fffffff);
      }
      for (int i = 0; i < 2; i++) of_series[i] = __int_as_float(warp_max(most[i]));
    };
    float of_series[2];
    double scale = a.scale;
    of_points(1, of_series);
    if (!is_cosine<Shape>(a) && fmaxf(of_series[0], of_series[1]) < 1e-30f) {  // of smaller squares there are no floats
      of_points(0x1p200, of_series);
      scale *= is_square<Shape>(a) ? 0x1p-200 : 0x1p-100;
    }
    if (is_square<Shape>(a)) return bound_of(of_series[0], of_series[1], scale);
    const auto rounded = static_cast<float>(scale);
    return is_cosine<Shape>(a) ? 2.001f * rounded + 0 * (of_series[0] + of_series[1])
                               : (sqrtf(of_series[0]) + sqrtf(of_series[1])) * rounded;
  }
  __device__ __forceinline__ double distance(int row, int column, double product) const {
    const double of_row = shared[row], of_column = shared[rows + column];
    if (is_cosine<Shape>(a)) return cosine_distance(product, of_row, of_column);
    const double all = of_row + of_column, square = all - 2 * product;
    return is_square<Shape>(a) ? square : root_of(a, pair, row, column, all, square);
  }
  // Of cosine, by all threads.
  __device__ __forceinline__ void keep_norms(const Kept<Shape> &kept) const {
    if (threadIdx.x < P::count) kept.inverse_norms[threadIdx.x] = shared[threadIdx.x];
  }
  // Calls work(row, column, D) with each cell.
  template <class Work>
  __device__ __forceinline__ void each(const Work &work) const {
#pragma unroll
    for (int tile = 0; tile < tiles; tile++) {
      if (first_column() + of_tile * tile >= pair.m) break;  // planes have whole tiles
      __syncwarp();  // so that the compiler does not load all norms beforehand, which have no registers
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int row = first_row() + lane_id() / 4 + i / 2 * 8;
        const int column = first_column() + of_tile * tile + lane_id() % 4 * 2 + i % 2;
        work(row, column, at_least_0(distance(row, column, sum[tile][i])));
      }
    }
  }
  // keep: as `each` has it.
  template <class Keep>
  __device__ __forceinline__ void store(const Planes &planes, const Keep &keep) const {
    each([&](int row, int column, double d) {
      keep(row, column, d);
      put_cost<FloatCell, Shape>(a, planes, row, column, d);
    });
  }
};

// Distances by differences; those of cosine by products, as ever. A thread has 2 R rows, side by side, and some
// columns. memory: for the points. work: as for ProductCosts::each. inverse_norms: where those of cosine go; null:
// nowhere.
// terms: what is summed up, if it is known where this is called. In the loop it takes three times as long to ask.
enum class Terms { any, squares, absolute };
template <class Shape, Terms terms = Terms::any, class Work>
__device__ __forceinline__ void each_difference(const Args &a, const Pair &pair, float *memory, const Work &work,
                                                double *inverse_norms = nullptr) {
  using Staged = StagedPoints<Shape>;
  constexpr int own_rows = 2 * Shape::R, own_columns = Shape::rows * Shape::columns / (Shape::threads * own_rows);
  constexpr int step = Shape::columns / own_columns;
  constexpr int together = Shape::R > 2 ? 2 : 4;  // features, as registers allow
  const int row = threadIdx.x / step * own_rows, column = threadIdx.x % step;
  double sum[own_rows][own_columns] = {};
  [[maybe_unused]] double norm_x[own_rows] = {}, norm_y[own_columns] = {};  // of cosine
  const bool cosine = terms == Terms::any && is_cosine<Shape>(a);
  const bool cityblock = terms == Terms::any ? is_cityblock<Shape>(a) : terms == Terms::absolute;
  Staged::each(a, pair, memory, [&](int, const float *points) {
    const auto four = [&](int point, int f) {
      return *reinterpret_cast<const Few<float, together> *>(points + point * Staged::pitch + f);
    };
#pragma unroll 1
    for (int f = 0; f < Points<Shape>::features; f += together) {
      Few<float, together> of_x[own_rows];
#pragma unroll
      for (int k = 0; k < own_rows; k++) of_x[k] = four(row + k, f);
#pragma unroll
      for (int j = 0; j < own_columns; j++) {
        const Few<float, together> of_y = four(Points<Shape>::of_x + column + step * j, f);
#pragma unroll
        for (int k = 0; k < own_rows; k++)
#pragma unroll
          for (int i = 0; i < together; i++) {
            const auto x = static_cast<double>(of_x[k].v[i]), y = static_cast<double>(of_y.v[i]);
            if (cosine) {
              sum[k][j] = fma(x, y, sum[k][j]);
              if (j == 0) norm_x[k] = fma(x, x, norm_x[k]);
              if (k == 0) norm_y[j] = fma(y, y, norm_y[j]);
            } else if (cityblock) {
              sum[k][j] += fabs(x - y);
            } else {
              sum[k][j] = fma(x - y, x - y, sum[k][j]);
            }
          }
      }
    }
  });
#pragma unroll
  for (int j = 0; j < own_columns; j++) {
    if (column + step * j >= pair.m) break;
#pragma unroll
    for (int k = 0; k < own_rows; k++) {
      double d = row + k < pair.n ? sum[k][j] : 0;
      if (cosine)
        d = cosine_distance(d, inverse_norm(norm_x[k]), inverse_norm(norm_y[j]));
      else if (terms != Terms::absolute && is_euclidean<Shape>(a))
        d = exact_root(d);
      work(row + k, column + step * j, d);
    }
  }
  if (!cosine || !inverse_norms) return;
  if (column == 0)
#pragma unroll
    for (int k = 0; k < own_rows; k++) inverse_norms[row + k] = inverse_norm(norm_x[k]);
  if (row == 0)
#pragma unroll
    for (int j = 0; j < own_columns; j++) inverse_norms[Shape::rows + column + step * j] = inverse_norm(norm_y[j]);
}

// City block distances. Returns the largest t of the thread's cells, or NaN if there is any.
template <class Shape, class Work>
__device__ __forceinline__ float measure_differences(const Args &a, const Pair &pair, float *memory, const Work &work) {
  int most = 0;  // as bits, of which NaN has the largest
  each_difference<Shape, Terms::absolute>(a, pair, memory, [&](int row, int column, double d) {
    most = max(most, __float_as_int(static_cast<float>(a.scale * d)) & 0x7fffffff);
    work(row, column, d);
  });
  return __int_as_float(most);
}

}  // namespace sdtw::cuda::short_pairs
