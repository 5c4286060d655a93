// What becomes of a tile of E, by the producer warps: dense outputs, or sums of
// gradients. Each row, and each column, of a tile is summed up by one thread,
// or by four whose sums are added in a fixed order; strips add to the columns
// of a pair one after the other. So results are the same in every run.
#pragma once

#include "cuda/general/costs.cuh"

namespace sdtw::cuda::general {

// Weights that are nothing: FloatCell leaves 2^-100 where a neighbour is
// forbidden.
__device__ __forceinline__ bool is_nothing(float w) { return fabsf(w) < 1e-25f; }
__device__ __forceinline__ bool is_nothing(double w) { return w == 0; }

// Adds to elements that others add to before and after, though never at the same time: those f for which wanted(f). By
// atomics whose results are not used, so the thread does not wait for them.
template <int count, class Real, class Wanted>
__device__ __forceinline__ void add_to(const Target &t, int64_t at, int64_t stride, const Real (&v)[count],
                                       Wanted wanted) {
  const auto add = [&](auto *data) {
    using Element = std::remove_reference_t<decltype(*data)>;
#pragma unroll
    for (int f = 0; f < count; f++)
      if (wanted(f)) atomicAdd(data + at + f * stride, static_cast<Element>(v[f]));
  };
  if (t.dtype == SDTW_F64)
    add(static_cast<double *>(t.data));
  else
    add(static_cast<float *>(t.data));
}

template <class Cell, bool tangents, int T>
struct Gradients {
  using Real = typename Cell::Real;

  const Args &a;
  const Task &s;
  const Block &block;
  Planes<Cell, tangents, T> tile;
  Points<Real> points, directions;
  int thread;  // of the producers

  // The tile's E, or its derivative, into the dense output.
  __device__ __forceinline__ void put_dense(int first_step) const {
    const Real *from = tile.plane(tangents ? transitions : 0);
    double factor = 1;
    if (a.scale_dense && a.grad_value)
      factor = a.f64_values ? static_cast<const double *>(a.grad_value)[s.index.pair]
                            : static_cast<const float *>(a.grad_value)[s.index.pair];
    for (int i = thread; i < strip_rows * T; i += producers<tangents>) {
      const int row = i / T, u = i % T, column = first_step + u - row / K;
      if (column < block.first[row] || column >= block.end[row]) continue;
      const Real w = from[u * pitch + row];
      const double v = is_nothing(w) ? 0.0 : factor * static_cast<double>(w);
      const auto put = [&](int64_t pair, int64_t i, int64_t j) {
        put_element(a.dense.data, pair * a.dense.stride[0] + i * a.dense.stride[1] + j * a.dense.stride[2],
                    a.dense.dtype, v);
      };
      put(s.index.pair, s.row + row, column);
      if (a.symmetric && s.index.x != s.index.y) put(s.index.y * a.batch_y + s.index.x, column, s.row + row);
    }
  }

  // Turns E, or G = E times the expected weight of its step, into what
  // multiplies the points' differences: in plane 0 G slope. With tangents G'
  // slope less what the slope itself changes by goes into plane 3, and G slope,
  // which multiplies the tangents' differences, into plane 0.
  __device__ __forceinline__ void make_weights() const {
    const bool euclidean = a.metric == SDTW_EUCLIDEAN;
    const Real constant = a.metric == SDTW_SQEUCLIDEAN ? 2 : 1;
    if (!tangents && !euclidean && constant == 1) return;
    for (int i = thread; i < T * strip_rows; i += producers<tangents>) {
      const int at = i / strip_rows * pitch + i % strip_rows;
      const Real slope = euclidean ? tile.slope[at] : constant, g = tile.plane(0)[at];
      if constexpr (tangents) {
        Real &turn = tile.plane(transitions)[at];
        turn = turn * slope - (euclidean ? g * slope * slope * tile.along[at] : Real(0));
      }
      tile.plane(0)[at] = g * slope;
    }
  }

  template <bool absolute>
  static __device__ __forceinline__ Real direction(Real difference) {
    return absolute ? core::CityBlock::direction(difference) : difference;
  }

  // Adds the sums over rows and over columns of w direction(x - y), and of d
  // times the tangents' differences if given.
  template <bool absolute, bool with_directions, int F>
  __device__ __forceinline__ void add_some(const Real *w, const Real *d, int from, int first_step, const Target &to_x,
                                           const Target &to_y) const {
    if (to_x.data) add_rows<absolute, with_directions, F>(w, d, from, to_x);
    if (to_y.data) add_columns<absolute, with_directions, F>(w, d, from, first_step, to_y);
  }

  // A thread has a row; threads of the same row have features of their own.
  template <bool absolute, bool with_directions, int F>
  __device__ __forceinline__ void add_rows(const Real *w, const Real *d, int from, const Target &to) const {
    constexpr int groups = producers<tangents> / strip_rows, own = (F + groups - 1) / groups;
    const int row = thread % strip_rows, f0 = thread / strip_rows * own;
    if (f0 >= F) return;
    const int of_x = f0 * staged_rows + place_of_row(row), of_y = f0 * staged_columns<T> + warp - 1 - row / K;
    Real x[own], dx[own], sum[own];
#pragma unroll
    for (int f = 0; f < own; f++) {
      x[f] = points.x[of_x + f * staged_rows], sum[f] = 0;
      if constexpr (with_directions) dx[f] = directions.x[of_x + f * staged_rows];
    }
#pragma unroll 1
    for (int u = 0; u < T; u++) {
      const Real weight = w[u * pitch + row], other = with_directions ? d[u * pitch + row] : Real(0);
      if (is_nothing(weight) && is_nothing(other)) continue;
#pragma unroll
      for (int f = 0; f < own; f++) {
        const int at = of_y + u + f * staged_columns<T>;
        sum[f] = fma(weight, direction<absolute>(x[f] - points.y[at]), sum[f]);
        if constexpr (with_directions) sum[f] = fma(other, dx[f] - directions.y[at], sum[f]);
      }
    }
    const int64_t at = s.local * to.stride[0] + (s.row + row) * to.stride[1] + (from + f0) * to.stride[2];
    const bool there = s.row + row < s.n;
    add_to(to, at, to.stride[2], sum, [&](int f) { return there && from + f0 + f < a.features && sum[f] != 0; });
  }

  // Four threads have the same columns, each one row of every lane. Where the
  // tile has fewer steps than a warp lanes, groups of threads have features of
  // their own.
  template <bool absolute, bool with_directions, int F>
  __device__ __forceinline__ void add_columns(const Real *w, const Real *d, int from, int first_step,
                                              const Target &to) const {
    constexpr int groups = producers<tangents> / (K * T), own = (F + groups - 1) / groups;
    const int k = thread % K, j = thread / K % T, f0 = thread / (K * T) * own;
    if (f0 >= F) return;
    const unsigned four = 0xfu << (lane_id() & ~3);
#pragma unroll 1
    for (int lane = 0; lane < warp;) {
      const int u0 = (j + lane + 1) % T, end = min(lane + T - u0, warp), place = u0 - lane + warp - 1;
      Real y[own], dy[own], sum[own];
#pragma unroll
      for (int f = 0; f < own; f++) {
        y[f] = points.y[(f0 + f) * staged_columns<T> + place], sum[f] = 0;
        if constexpr (with_directions) dy[f] = directions.y[(f0 + f) * staged_columns<T> + place];
      }
#pragma unroll 1
      for (int u = u0; lane < end; lane++, u++) {
        const int row = lane * K + k;
        const Real weight = w[u * pitch + row], other = with_directions ? d[u * pitch + row] : Real(0);
        if (is_nothing(weight) && is_nothing(other)) continue;
#pragma unroll
        for (int f = 0; f < own; f++) {
          sum[f] =
              fma(weight, direction<absolute>(y[f] - points.x[(f0 + f) * staged_rows + place_of_row(row)]), sum[f]);
          if constexpr (with_directions)
            sum[f] = fma(other, dy[f] - directions.x[(f0 + f) * staged_rows + place_of_row(row)], sum[f]);
        }
      }
      const int column = first_step - (warp - 1) + place;
      const int64_t at = s.local * to.stride[0] + column * to.stride[1] + (from + f0) * to.stride[2];
#pragma unroll
      for (int f = 0; f < own; f++) {
        sum[f] += __shfl_xor_sync(four, sum[f], 1);
        sum[f] += __shfl_xor_sync(four, sum[f], 2);
      }
      const bool there = column >= 0 && column < s.m;
      add_to(to, at, to.stride[2], sum,
             [&](int f) { return f % K == k && there && f0 + f < F && from + f0 + f < a.features && sum[f] != 0; });
    }
  }

  template <bool absolute, bool with_directions>
  __device__ __forceinline__ void add(const Real *w, const Real *d, int from, int first_step, const Target &to_x,
                                      const Target &to_y) const {
    if (a.features == 1) return add_some<absolute, with_directions, 1>(w, d, from, first_step, to_x, to_y);
    add_some<absolute, with_directions, at_once>(w, d, from, first_step, to_x, to_y);
  }

  // All of a tile, but for dense outputs. In order: whoever calls has waited
  // for the strip below.
  __device__ __forceinline__ void run(int first_step) const {
    make_weights();
    const bool absolute = a.metric == SDTW_CITYBLOCK;
    for (int from = 0; from < a.features; from += at_once) {
      producers_barrier<tangents>();
      stage<T, tangents>(a, s, a.x, a.y, first_step, from, thread, points);
      if constexpr (tangents) stage<T, tangents>(a, s, a.tangent_x, a.tangent_y, first_step, from, thread, directions);
      producers_barrier<tangents>();
      if constexpr (tangents) {
        if (absolute)
          add<true, false>(tile.plane(transitions), nullptr, from, first_step, a.turn_x, a.turn_y);
        else
          add<false, true>(tile.plane(transitions), tile.plane(0), from, first_step, a.turn_x, a.turn_y);
        if (a.metric == SDTW_COSINE)  // which needs the gradient for its projection
          add<false, false>(tile.plane(0), nullptr, from, first_step, a.sum_x, a.sum_y);
      } else {
        absolute ? add<true, false>(tile.plane(0), nullptr, from, first_step, a.sum_x, a.sum_y)
                 : add<false, false>(tile.plane(0), nullptr, from, first_step, a.sum_x, a.sum_y);
      }
    }
  }
};

}  // namespace sdtw::cuda::general
