// The costs of all cells of a short pair, by a block. As a rule D = |x - o|^2 + |y - o|^2 - 2 <x - o, y - o>, where o
// is the first point of x, so that an offset that all points share does not cancel. Costs that are too large for
// FloatCell are summed up from differences, in which nothing cancels.
#pragma once

#include "cuda/costs/matrix_product.cuh"
#include "cuda/short_pairs/block.cuh"

namespace sdtw::cuda::short_pairs {

// The points of a pair in shared memory, 16 features at a time: those of x, and behind them those of y. Asynchronous
// copies bring the next 32 while these are used. The pitch avoids bank conflicts among lanes that load four features of
// a point each.
template <int R>
struct StagedPoints {
  static constexpr int rows = R * warp, points = rows + most_columns, at_once = 16, pitch = at_once + 4;
  static constexpr int size = points * pitch, stages = 3;

  // Calls work(points), by all threads of the block, with the features in turn; those beyond the last are 0. All
  // threads are done with one call before the next begins.
  template <class Work>
  static __device__ __forceinline__ void each(const Args &a, const Pair &pair, float *memory, const Work &work) {
    const bool by_16_bytes = is_vec4(a.x, a.features) && is_vec4(a.y, a.features);
    const auto ask = [&](auto together, int first, float *to) {
      constexpr int count = decltype(together)::value;
      copy_points<count, at_once, pitch>(a, a.x, x_of(a, pair.index), pair.n, rows, first, to);
      copy_points<count, at_once, pitch>(a, a.y, y_of(a, pair.index), pair.m, most_columns, first, to + rows * pitch);
    };
    constexpr int ahead = (stages - 1) * at_once;
#pragma unroll 1
    for (int first = -ahead; first < a.features; first += at_once) {
      if (first >= 0) {
        __pipeline_wait_prior(stages - 2);
        __syncthreads();
      }
      if (const int next = first + ahead; next < a.features) {
        float *const to = memory + next / at_once % stages * size;
        by_16_bytes ? ask(std::integral_constant<int, 4>{}, next, to) : ask(std::integral_constant<int, 1>{}, next, to);
      }
      __pipeline_commit();
      if (first >= 0) work(memory + first / at_once % stages * size);
    }
    __syncthreads();
  }
};

// Costs by matrix products.
template <int R>
struct ProductCosts {
  using Staged = StagedPoints<R>;
  static constexpr int rows = Staged::rows, points = Staged::points, at_once = Staged::at_once;
  // Of 16 features a lane of the matrix instruction needs every fourth: these four lie together. The pitch avoids bank
  // conflicts among lanes that load together.
  static constexpr int pitch = at_once + 2;
  static __device__ __forceinline__ int place(int point, int f) { return point * pitch + f % 4 * 4 + f / 4; }
  // In shared memory points are staged in the first two planes, if these have the room. Behind them, as costs are to be
  // stored there, the points lie as matrices take them.
  static __host__ __device__ int first_of_matrices(int columns) {
    const int of_points = Staged::stages * Staged::size, of_costs = 2 * Planes<R>::size_for(columns);
    return of_points > of_costs ? of_points : of_costs;
  }
  static __host__ __device__ size_t bytes(int columns) {
    return first_of_matrices(columns) * sizeof(float) + points * pitch * sizeof(double);
  }

  // A warp has 16 rows and all columns, or half of them.
  static constexpr int tiles = most_columns / 8 * rows / 16 / warps;
  static __device__ __forceinline__ int number() { return threadIdx.x / warp; }
  static __device__ __forceinline__ int first_row() { return number() % (rows / 16) * 16; }
  static __device__ __forceinline__ int first_column() { return number() / (rows / 16) * tiles * 8; }

  const Args &a;
  const Pair &pair;
  double *shared;  // [points][pitch]; in the end the points' norms
  double sum[tiles][4];

  __device__ __forceinline__ ProductCosts(const Args &args, const Pair &of, const Planes<R> &planes)
      : a(args), pair(of), shared(reinterpret_cast<double *>(planes.data + first_of_matrices(args.m))) {
#pragma unroll
    for (auto &tile : sum)
#pragma unroll
      for (double &v : tile) v = 0;
    const int f = threadIdx.x % at_once;
    double norm = 0;  // of the point whose number is the thread's
    Staged::each(a, pair, planes.data, [&](const float *from) {
      const double origin = from[f];
      constexpr int together = threads / at_once;
#pragma unroll
      for (int i = 0; i < points / together; i++) {
        const int point = threadIdx.x / at_once + together * i;
        shared[place(point, f)] = static_cast<double>(from[point * Staged::pitch + f]) - origin;
      }
      __syncthreads();
      if (threadIdx.x < points) add_squares(shared + threadIdx.x * pitch, norm);
      multiply();
    });
    if (threadIdx.x < points) shared[threadIdx.x] = norm;
    __syncthreads();
  }

  static __device__ __forceinline__ void add_squares(const double *from, double &sum) {
#pragma unroll
    for (int f = 0; f < at_once; f += 2) {
      const auto two = *reinterpret_cast<const Few<double, 2> *>(from + f);
      sum = fma(two.v[1], two.v[1], fma(two.v[0], two.v[0], sum));
    }
  }
  // Adds up the products of 16 features, eight at a time, for which there are registers.
  __device__ __forceinline__ void multiply() {
#pragma unroll 1
    for (int half = 0; half < 2; half++) {
      const auto load = [&](int point) {
        return *reinterpret_cast<const Few<double, 2> *>(shared + (point + lane_id() / 4) * pitch + lane_id() % 4 * 4 +
                                                         2 * half);
      };
      const Few<double, 2> upper = load(first_row()), lower = load(first_row() + 8);
      const double of_row[4] = {upper.v[0], lower.v[0], upper.v[1], lower.v[1]};
#pragma unroll
      for (int tile = 0; tile < tiles; tile++) {
        const Few<double, 2> of_column = load(rows + first_column() + 8 * tile);
        multiply_add<2>(sum[tile], of_row, of_column.v);
      }
    }
  }

  // A bound of t, of which NaN and infinities are the largest.
  __device__ __forceinline__ float bound() const {
    int most[2] = {0, 0};
    for (int point = lane_id(); point < points; point += warp) {
      int &of_series = most[point >= rows];
      of_series = max(of_series, __float_as_int(static_cast<float>(shared[point])) & 0x7fffffff);
    }
    return bound_of(__int_as_float(warp_max(most[0])), __int_as_float(warp_max(most[1])), a.scale);
  }
  __device__ __forceinline__ void store(const Planes<R> &planes) const {
#pragma unroll
    for (int tile = 0; tile < tiles; tile++) {
      __syncwarp();  // so that the compiler does not load all norms beforehand, which have no registers
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int row = first_row() + lane_id() / 4 + i / 2 * 8;
        const int column = first_column() + 8 * tile + lane_id() % 4 * 2 + i % 2;
        const double d = shared[row] + shared[rows + column] - 2 * sum[tile][i];
        float *to = planes.data + Planes<R>::place(row, column);
        if (column < pair.m) StoredCost<FloatCell>::put(to, to + planes.size, split_large(a.scale * fmax(d, 0.0)));
      }
    }
  }
};

// Costs by differences, for LongCell and DoubleCell. A thread has 2 R rows, side by side, and every eighth column.
template <class Cell, int R>
__device__ __forceinline__ void store_differences(const Args &a, const Pair &pair, const Planes<R> &planes) {
  using Staged = StagedPoints<R>;
  constexpr int own_rows = 2 * R, own_columns = 8, step = most_columns / own_columns, together = 4;
  const int row = threadIdx.x / step * own_rows, column = threadIdx.x % step;
  double sum[own_rows][own_columns] = {};
  Staged::each(a, pair, planes.data, [&](const float *points) {
    const auto four = [&](int point, int f) {
      return *reinterpret_cast<const Few<float, together> *>(points + point * Staged::pitch + f);
    };
#pragma unroll 1
    for (int f = 0; f < Staged::at_once; f += together) {
      Few<float, together> of_x[own_rows];
#pragma unroll
      for (int k = 0; k < own_rows; k++) of_x[k] = four(row + k, f);
#pragma unroll
      for (int j = 0; j < own_columns; j++) {
        const Few<float, together> of_y = four(Staged::rows + column + step * j, f);
#pragma unroll
        for (int k = 0; k < own_rows; k++)
#pragma unroll
          for (int i = 0; i < together; i++) {
            const double difference = static_cast<double>(of_x[k].v[i]) - static_cast<double>(of_y.v[i]);
            sum[k][j] = fma(difference, difference, sum[k][j]);
          }
      }
    }
  });
  const DoubleCell::Scale scale(a.scale);
#pragma unroll
  for (int j = 0; j < own_columns; j++) {
    if (column + step * j >= pair.m) break;
#pragma unroll
    for (int k = 0; k < own_rows; k++) {
      float *first = planes.data + Planes<R>::place(row + k, column + step * j), *second = first + planes.size;
      if constexpr (Cell::wide)
        StoredCost<Cell>::put(first, second, DoubleCell::prepare(sum[k][j], scale));
      else
        StoredCost<Cell>::put(first, second, split_large(a.scale * sum[k][j]));
    }
  }
}

}  // namespace sdtw::cuda::short_pairs
