// gamma = 0, dynamic time warping (Sakoe and Chiba 1978) of a short pair: R in double, and its best path. One warp goes
// through all columns from the beginning: a sweep from the end would find another one of paths that are equally good.
// Costs are summed up from differences, feature by feature: those which are equal are so in all bits, and so are those
// of the general engine, which finds the same path. It has other ones of cosine, and those pairs.
#pragma once

#include "cuda/short_pairs/costs.cuh"
#include "cuda/sweep/cell.cuh"

namespace sdtw::cuda::short_pairs {

// A cell's cost in its first two planes, and for gradients in the third one the step that the best path to it ends
// with.
template <int R>
struct HardCells {
  static constexpr int on_path = transitions;  // added to a step: the best path of the pair has the cell
  Planes<R> planes;

  static __device__ __forceinline__ double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
  __device__ __forceinline__ void put_cost(int i, double d) const {
    StoredCost<DoubleCell>::put(planes.data + i, planes.data + planes.size + i, d);
  }
  __device__ __forceinline__ double cost(int i) const {
    return __hiloint2double(__float_as_int(planes.data[i]), __float_as_int(planes.data[planes.size + i]));
  }
  __device__ __forceinline__ float &step(int i) const { return planes.data[2 * planes.size + i]; }

  // R of the pair, by a warp. keeps: leaves the steps. has_steps: with weights and penalties; penalties are added
  // first, and that of the pair's first cell has been taken back. Of neighbours that are alike the diagonal one comes
  // first, then the vertical one.
  template <bool keeps, bool has_steps>
  __device__ __forceinline__ double sweep(const Args &a, const Pair &pair) const {
    const int lane = lane_id(), last_lane = (pair.n - 1) / R, steps = pair.m + last_lane;
    double r[R], above = lane > 0 ? infinity() : has_steps ? -a.penalty[diagonal] : 0;
#pragma unroll
    for (int k = 0; k < R; k++) r[k] = infinity();
    Few<float, R> high, low;
    const auto ask = [&](int t) {
      const int column = clamp(t - lane, pair.m);
      high = planes.of_lane(0, column), low = planes.of_lane(1, column);
    };
    ask(0);
#pragma unroll 2
    for (int t = 0; t < steps; t++) {
      double up = __shfl_up_sync(all_lanes, r[R - 1], 1);
      if (lane == 0) up = infinity();
      double cost[R];
#pragma unroll
      for (int k = 0; k < R; k++) cost[k] = __hiloint2double(__float_as_int(high.v[k]), __float_as_int(low.v[k]));
      ask(t + 1);
      double corner = above;
      above = up;
      Few<float, R> chosen;
#pragma unroll
      for (int k = 0; k < R; k++) {
        const double left = r[k];
        const bool is_out = has_steps && cost[k] == infinity();
        const auto with_step = [&](double from, int way) {
          return has_steps ? fma(a.weight[way], is_out ? 0 : cost[k], from + a.penalty[way]) : from;
        };
        const double aslant = with_step(corner, diagonal), across = with_step(left, horizontal);
        const double down = with_step(up, vertical);  // the last to be known
        const bool is_across = across < aslant;
        const double side = is_across ? across : aslant;
        const bool is_down = (down < side) | (is_across & (down <= side));
        chosen.v[k] = __int_as_float(is_down ? vertical : is_across ? horizontal : diagonal);
        const double least = is_down ? down : side;
        r[k] = is_out ? infinity() : has_steps ? least : least + cost[k];
        corner = left;
        up = r[k];
      }
      if constexpr (keeps)
        if (const int column = t - lane; column >= 0 && column < pair.m) planes.of_lane(2, column) = chosen;
    }
    double last = infinity();
#pragma unroll
    for (int k = 0; k < R; k++) {
      const double of_row = __shfl_sync(all_lanes, r[k], last_lane);
      last = (pair.n - 1) % R == k ? of_row : last;
    }
    return last;
  }

  // Marks the best path, from its end, by one thread.
  __device__ __forceinline__ void mark(const Pair &pair) const {
    int row = pair.n - 1, column = pair.m - 1;
    while (row >= 0 && column >= 0) {
      float &here = step(Planes<R>::place(row, column));
      const int way = __float_as_int(here);
      here = __int_as_float(on_path + way);
      row -= way != horizontal, column -= way != vertical;
    }
  }
};

// E of a pair's best path, in the first plane, by all threads: 1, or of gradients the weight of the step to a cell, by
// Euclidean distances divided by D unit.
template <class Shape>
__device__ __forceinline__ void mark_path(const Args &a, const Pair &pair, const HardCells<Shape::R> &cells,
                                          float unit) {
  if (threadIdx.x == 0) cells.mark(pair);
  __syncthreads();
  const bool divides = is_euclidean<Shape>(a) && !a.dense.data, is_weighted = Shape::has_steps && !a.dense.data;
  for (int i = threadIdx.x; i < pair.m * Planes<Shape::R>::pitch; i += Shape::threads) {
    const int row = i % Planes<Shape::R>::pitch;
    const int way = __float_as_int(cells.step(i)) - HardCells<Shape::R>::on_path;
    const bool is_on = row < pair.n && way >= 0;
    double e = !is_on ? 0 : is_weighted ? a.weight[way] : 1;
    if (is_on && divides) {
      const double d = cells.cost(i);
      e = d > 0 ? fmin(e / (d * static_cast<double>(unit)), static_cast<double>(FLT_MAX)) : 0;
    }
    cells.planes.data[i] = static_cast<float>(e);
  }
  __syncthreads();
}

}  // namespace sdtw::cuda::short_pairs
