// Fills a tile with costs, by the producer warps of a block: the sums over
// features in double, by differences, which cancel nowhere. A thread has four
// rows and a share of the columns of the tile; points come through shared memory,
// `at_once` features at a time, as doubles.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "core/metric.h"
#include "cuda/general/task.cuh"

namespace sdtw::cuda::general {

constexpr int at_once = 8;  // features

// Where x and y of a feature lie in shared memory, in elements. A lane's rows are `rows_apart` apart, so that the lanes
// of a warp read side by side; this and the pitches put what a warp stores into different banks, floats or doubles.
constexpr int rows_apart = warp + 8, staged_rows = K * rows_apart + 1;
template <int T>
constexpr int staged_columns = T + warp + 2;
__device__ __forceinline__ constexpr int place_of_row(int row) { return row % K * rows_apart + row / K; }

template <class T>
__device__ __forceinline__ T element(const void *data, int64_t i, sdtw_dtype dtype) {
  switch (dtype) {
    case SDTW_F64: return static_cast<T>(__ldg(static_cast<const double *>(data) + i));
    case SDTW_F16: return static_cast<T>(__half2float(__ldg(static_cast<const __half *>(data) + i)));
    case SDTW_BF16: return static_cast<T>(__bfloat162float(__ldg(static_cast<const __nv_bfloat16 *>(data) + i)));
    default: return static_cast<T>(__ldg(static_cast<const float *>(data) + i));
  }
}
template <class T>
__device__ __forceinline__ void put_element(void *data, int64_t i, sdtw_dtype dtype, T v) {
  switch (dtype) {
    case SDTW_F64: static_cast<double *>(data)[i] = static_cast<double>(v); break;
    case SDTW_F16: static_cast<__half *>(data)[i] = __float2half_rn(static_cast<float>(v)); break;
    case SDTW_BF16: static_cast<__nv_bfloat16 *>(data)[i] = __float2bfloat16_rn(static_cast<float>(v)); break;
    default: static_cast<float *>(data)[i] = static_cast<float>(v);
  }
}

template <bool tangents>
__device__ __forceinline__ void producers_barrier() {
  barrier(1, producers<tangents>);
}
// All threads of the block, which may come from two places: the sweeping warp from one and the producers from another.
// Of __syncthreads CUDA asks that all come from one.
template <bool tangents>
__device__ __forceinline__ void roles_barrier() {
  barrier(2, block_threads<tangents>);
}

// Points of a tile in shared memory: x [at_once][staged_rows], y
// [at_once][staged_columns]; column 0 of y is the one in which the last lane is
// in the tile's first step.
template <class T>
struct Points {
  T *x, *y;
};

// A thread's share of the features [from, from + at_once) of a tile's points, on its way from global to shared memory.
// Points outside of the pair are 0. thread: of the producers. All of a thread's loads are on their way before the first
// of them is waited for.
template <int T, bool tangents, class In>
struct Fetched {
  static constexpr int rows_at_once = producers<tangents> / at_once, of_x = strip_rows / rows_at_once;
  static constexpr int of_y = (T + warp + rows_at_once - 1) / rows_at_once;
  In x[of_x], y[of_y];

  static __device__ __forceinline__ In load(const In *p) {
    if constexpr (sizeof(In) == 2)
      return *p;
    else
      return __ldg(p);
  }
  template <class Real>
  static __device__ __forceinline__ Real number(In v) {
    if constexpr (std::is_same_v<In, __half>)
      return static_cast<Real>(__half2float(v));
    else if constexpr (std::is_same_v<In, __nv_bfloat16>)
      return static_cast<Real>(__bfloat162float(v));
    else
      return static_cast<Real>(v);
  }

  __device__ __forceinline__ void load(const Args &a, const Task &s, const Series &of_rows, const Series &of_columns,
                                       int first_step, int from, int thread) {
    const int f = thread % at_once, row = s.row + thread / at_once, column = first_step - (warp - 1) + thread / at_once;
    const bool wanted = from + f < a.features;
    const In *from_x = static_cast<const In *>(of_rows.data) + s.index.x * of_rows.stride[0] + row * of_rows.stride[1] +
                       (from + f) * of_rows.stride[2];
    const In *from_y = static_cast<const In *>(of_columns.data) + s.index.y * of_columns.stride[0] +
                       column * of_columns.stride[1] + (from + f) * of_columns.stride[2];
    const In zero(0.0f);
#pragma unroll
    for (int i = 0; i < of_x; i++) {
      const bool there = wanted && of_rows.data && row + i * rows_at_once < s.n;
      x[i] = there ? load(from_x + i * rows_at_once * of_rows.stride[1]) : zero;
    }
#pragma unroll
    for (int i = 0; i < of_y; i++) {
      const int at = column + i * rows_at_once;
      const bool there = wanted && of_columns.data && at >= 0 && at < s.m;
      y[i] = there ? load(from_y + i * rows_at_once * of_columns.stride[1]) : zero;
    }
  }
  template <class Real>
  __device__ __forceinline__ void store(Points<Real> to, int thread) const {
    const int f = thread % at_once, first = thread / at_once;
#pragma unroll
    for (int i = 0; i < of_x; i++) to.x[f * staged_rows + place_of_row(first + i * rows_at_once)] = number<Real>(x[i]);
#pragma unroll
    for (int i = 0; i < of_y; i++)
      if (first + i * rows_at_once < T + warp)
        to.y[f * staged_columns<T> + first + i * rows_at_once] = number<Real>(y[i]);
  }
};

// Calls visit with a number of the type that series have.
template <class Visit>
__device__ __forceinline__ void with_type(sdtw_dtype dtype, const Visit &visit) {
  switch (dtype) {
    case SDTW_F64: return visit(double(0));
    case SDTW_F16: return visit(__half(0.0f));
    case SDTW_BF16: return visit(__nv_bfloat16(0.0f));
    default: return visit(0.0f);
  }
}
template <int T, bool tangents, class Real>
__device__ __forceinline__ void stage(const Args &a, const Task &s, const Series &x, const Series &y, int first_step,
                                      int from, int thread, Points<Real> to) {
  with_type(a.x.dtype, [&](auto zero) {  // which is that of all series
    Fetched<T, tangents, decltype(zero)> fetched;
    fetched.load(a, s, x, y, first_step, from, thread);
    fetched.store(to, thread);
  });
}

// A thread's cells of a tile: rows K l, ... of its lane l, and S steps from u0 on.
template <int S_>
struct Sums {
  static constexpr int S = S_;
  double v[S][K];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int i = 0; i < S; i++)
#pragma unroll
      for (int k = 0; k < K; k++) v[i][k] = 0;
  }
};

// Adds the staged features' terms. absolute: of cityblock, not of squares.
template <bool absolute, int T, int S>
__device__ __forceinline__ void add_terms(Points<double> p, int features, int u0, Sums<S> &sums) {
#pragma unroll 1
  for (int f = 0; f < features; f++) {
    double x[K];
#pragma unroll
    for (int k = 0; k < K; k++) x[k] = p.x[f * staged_rows + k * rows_apart + lane_id()];
    const double *y = p.y + f * staged_columns<T> + u0 - lane_id() + warp - 1;
#pragma unroll
    for (int i = 0; i < S; i++) {
      const double here = y[i];
#pragma unroll
      for (int k = 0; k < K; k++) {
        const double difference = x[k] - here;
        if constexpr (absolute)
          sums.v[i][k] += fabs(difference);
        else
          sums.v[i][k] = fma(difference, difference, sums.v[i][k]);
      }
    }
  }
}
// Adds direction(x - y) times the difference of the tangents.
template <bool absolute, int T, int S>
__device__ __forceinline__ void add_along(Points<double> p, Points<double> d, int features, int u0, Sums<S> &sums) {
#pragma unroll 1
  for (int f = 0; f < features; f++) {
    const int at_x = f * staged_rows + lane_id(), at_y = f * staged_columns<T> + u0 - lane_id() + warp - 1;
#pragma unroll
    for (int i = 0; i < S; i++)
#pragma unroll
      for (int k = 0; k < K; k++) {
        const double difference = p.x[at_x + k * rows_apart] - p.y[at_y + i],
                     dt = d.x[at_x + k * rows_apart] - d.y[at_y + i];
        const double direction =
            absolute ? core::CityBlock::direction(difference) : core::SqEuclidean::direction(difference);
        sums.v[i][k] = fma(direction, dt, sums.v[i][k]);
      }
  }
}

// Where the planes of a tile lie in shared memory: those of costs, which
// transitions take the place of; the metric's slope (euclidean only, in
// backward); the costs' derivatives along the tangents.
template <class Cell, bool tangents, int T>
struct Planes {
  using Real = typename Cell::Real;
  static constexpr int size = T * pitch;
  Real *base, *slope, *along;

  __device__ __forceinline__ Real *plane(int i) const { return base + i * size; }
};

template <class Cell, bool tangents, int T, bool with_slope>
struct Fill {
  using Real = typename Cell::Real;
  static constexpr int S = T / producer_warps<tangents>;

  const Args &a;
  const Task &s;
  const Block &block;
  Points<double> points, directions;  // directions: of tangents only

  // The costs given, or the metric's, of the thread's cells.
  __device__ __forceinline__ void measure(int first_step, int thread, Sums<S> &sums, Sums<S> &along) const {
    const int u0 = thread / warp * S;
    sums.clear();
    if constexpr (tangents) along.clear();
    if (!a.fused) {
#pragma unroll
      for (int i = 0; i < S; i++)
#pragma unroll
        for (int k = 0; k < K; k++) {
          const int row = lane_id() * K + k, column = first_step + u0 + i - lane_id();
          if (column < block.first[row] || column >= block.end[row]) continue;
          const auto of = [&](const Series &series) {
            return element<double>(
                series.data,
                s.index.pair * series.stride[0] + (s.row + row) * series.stride[1] + column * series.stride[2],
                series.dtype);
          };
          sums.v[i][k] = of(a.x);
          if constexpr (tangents) along.v[i][k] = of(a.tangent_x);
        }
      return;
    }
    const bool absolute = a.metric == SDTW_CITYBLOCK;
    const auto add = [&](int from) {
      const int features = min(at_once, a.features - from);
      absolute ? add_terms<true, T>(points, features, u0, sums) : add_terms<false, T>(points, features, u0, sums);
      if constexpr (tangents)
        absolute ? add_along<true, T>(points, directions, features, u0, along)
                 : add_along<false, T>(points, directions, features, u0, along);
    };
    if constexpr (tangents) {
      for (int from = 0; from < a.features; from += at_once) {
        producers_barrier<tangents>();  // what was staged before has been read
        stage<T, tangents>(a, s, a.x, a.y, first_step, from, thread, points);
        stage<T, tangents>(a, s, a.tangent_x, a.tangent_y, first_step, from, thread, directions);
        producers_barrier<tangents>();
        add(from);
      }
    } else {
      with_type(a.x.dtype, [&](auto zero) {
        Fetched<T, tangents, decltype(zero)> next;  // is on its way while the features before are added
        next.load(a, s, a.x, a.y, first_step, 0, thread);
        for (int from = 0; from < a.features; from += at_once) {
          producers_barrier<tangents>();  // what was staged before has been read
          next.store(points, thread);
          if (from + at_once < a.features) next.load(a, s, a.x, a.y, first_step, from + at_once, thread);
          producers_barrier<tangents>();
          add(from);
        }
      });
    }
    finish(sums, along);
  }
  __device__ __forceinline__ void finish(Sums<S> &sums, Sums<S> &along) const {
#pragma unroll
    for (int i = 0; i < S; i++)
#pragma unroll
      for (int k = 0; k < K; k++) {
        double &sum = sums.v[i][k];
        if (a.metric == SDTW_EUCLIDEAN)
          sum = core::Euclidean::finish(sum);
        else if (a.metric == SDTW_COSINE)
          sum = core::Cosine::finish(sum);
        if constexpr (tangents) {
          if (a.metric == SDTW_EUCLIDEAN) along.v[i][k] *= core::Euclidean::slope(sum);
          if (a.metric == SDTW_SQEUCLIDEAN) along.v[i][k] *= 2;
        }
      }
  }

  // thread: of the producers. limit: of |D log2(e) / gamma|, beyond which the
  // pair is rejected.
  __device__ __forceinline__ void run(const Planes<Cell, tangents, T> &to, int first_step, int thread,
                                      double limit) const {
    Sums<S> sums, along;
    measure(first_step, thread, sums, along);
    const int u0 = thread / warp * S;
    int flags = 0;
#pragma unroll
    for (int i = 0; i < S; i++) {
      typename Cell::Costs costs;
      const int column = first_step + u0 + i - lane_id();
      Rows<Real> slope{}, derivative{};
#pragma unroll
      for (int k = 0; k < K; k++) {
        const int row = lane_id() * K + k;
        const bool admitted = column >= block.first[row] && column < block.end[row];
        const bool begins = admitted && column == 0 && s.row + row == 0;
        flags |= costs.set(k, sums.v[i][k], admitted, begins, a, limit);
        if constexpr (with_slope)
          if (a.metric == SDTW_EUCLIDEAN)
            slope.v[k] = admitted ? static_cast<Real>(fmin(core::Euclidean::slope(sums.v[i][k]), 3e38)) : Real(0);
        if constexpr (tangents) derivative.v[k] = admitted ? static_cast<Real>(along.v[i][k]) : Real(0);
      }
      costs.store(to.base, T, u0 + i);
      if constexpr (with_slope)
        if (a.metric == SDTW_EUCLIDEAN) *rows_at<Real>(to.slope, u0 + i) = slope;
      if constexpr (tangents) *rows_at<Real>(to.along, u0 + i) = derivative;
    }
    flags = (__any_sync(all_lanes, flags & rejected) ? rejected : 0) |
            (__any_sync(all_lanes, flags & not_a_number) ? not_a_number : 0);
    if (flags && lane_id() == 0) raise(a, s, flags);
  }
};

// The limit of |D log2(e) / gamma| in a pair.
template <class Cell>
__device__ __forceinline__ double limit_of(const Task &s) {
  if constexpr (Cell::wide) return core::largest_wide_cost;
  const double range = core::Exponent<float>::limit / (static_cast<double>(s.n) + s.m);
  return range < core::float_cost_limit ? range : core::float_cost_limit;
}

}  // namespace sdtw::cuda::general
