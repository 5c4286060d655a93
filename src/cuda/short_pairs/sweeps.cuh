// The sweeps of a short pair, by one warp, whose lanes have R rows each: in step t lane l is at column t - l. As in
// sweep/strip.cuh, but in a single strip, from costs and transition probabilities of all cells, which are in shared
// memory.
#pragma once

#include "cuda/short_pairs/block.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda::short_pairs {

// Makes transition probabilities of terms. E goes through up to 127 cells without being made good on its way, as it is
// from tile to tile in longer pairs: so all three are corrected by their remainder.
template <class Real>
__device__ __forceinline__ void normalise_all(Real (&p)[transitions]) {
  const Real s = (p[diagonal] + p[horizontal]) + p[vertical], factor = reciprocal(s);
#pragma unroll
  for (int way = 0; way < transitions; way++) p[way] = corrected(product(p[way], factor), p[way], s, factor);
}

// Z of the whole pair. keeps: leaves the transition probabilities in the cells' places.
template <class Cell, bool keeps, int R>
__device__ __forceinline__ ExtendedDouble sweep(const Pair &pair, const Planes<R> &planes) {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;
  const int lane = lane_id(), end_lane = (pair.n - 1) / R, steps = pair.m + end_lane;
  Z z[R], above = Cell::select(lane == 0, Cell::one(), Cell::forbidden());
#pragma unroll
  for (int k = 0; k < R; k++) z[k] = Cell::forbidden();
  Few<float, R> first, second;
  const auto ask = [&](int t) {
    const int column = clamp(t - lane, pair.m);
    first = planes.of_lane(0, column), second = planes.of_lane(1, column);
  };
  ask(0);
#pragma unroll 4
  for (int t = 0; t < steps; t++) {
    Z up = Cell::shuffle(z[R - 1], (lane + warp - 1) % warp);
    up = Cell::select(lane == 0, Cell::forbidden(), up);
    typename Cell::Cost cost[R];
#pragma unroll
    for (int k = 0; k < R; k++) cost[k] = StoredCost<Cell>::get(first.v[k], second.v[k]);
    ask(t + 1);
    Z corner = above;
    above = up;
    Few<float, R> p[transitions];
#pragma unroll
    for (int k = 0; k < R; k++) {
      const Z left = z[k];
      Real term[transitions];
      z[k] = Cell::template next<keeps>(cost[k], corner, up, left, term);
      if constexpr (keeps) {
        normalise_all(term);
#pragma unroll
        for (int way = 0; way < transitions; way++) p[way].v[k] = static_cast<float>(term[way]);
      }
      corner = left;
      up = z[k];
    }
    if constexpr (keeps) {
      const int column = t - lane;
      if (column >= 0 && column < pair.m) {
#pragma unroll
        for (int way = 0; way < transitions; way++) planes.of_lane(way, column) = p[way];
      }
    }
    if (t % renormalise_every == renormalise_every - 1) {
#pragma unroll
      for (int k = 0; k < R; k++) Cell::renormalise(z[k]);
      Cell::renormalise(above);
    }
  }
  Z end = z[0];
#pragma unroll
  for (int k = 1; k < R; k++) end = Cell::select(k == (pair.n - 1) % R, z[k], end);
  end = Cell::shuffle(end, end_lane);
  return {static_cast<double>(end.m), Cell::exponent(end)};
}

// E of all cells, in place of the first of their transition probabilities.
template <int R>
__device__ __forceinline__ void sweep_back(const Pair &pair, const Planes<R> &planes) {
  const int lane = lane_id(), end_lane = (pair.n - 1) / R, steps = pair.m + end_lane;
  float left[R], aslant[R] = {}, up = 0;  // as Adjoint's
#pragma unroll
  for (int k = 0; k < R; k++) left[k] = lane == end_lane && k == (pair.n - 1) % R ? 1 : 0;
  Few<float, R> p[transitions];
  const auto ask = [&](int t) {
    const int column = clamp(t - lane, pair.m);
#pragma unroll
    for (int way = 0; way < transitions; way++) p[way] = planes.of_lane(way, column);
  };
  ask(steps - 1);
#pragma unroll 4
  for (int t = steps - 1; t >= 0; t--) {
    float below = __shfl_down_sync(all_lanes, up, 1);
    below = lane == warp - 1 ? 0 : below;
    const Few<float, R> of_diagonal = p[diagonal], of_vertical = p[vertical], of_horizontal = p[horizontal];
    Few<float, R> e;
    ask(t - 1);
#pragma unroll
    for (int k = R - 1; k >= 0; k--) {
      e.v[k] = left[k] + below;
      below = fmaf(of_vertical.v[k], e.v[k], aslant[k]);
      left[k] = of_horizontal.v[k] * e.v[k];
      aslant[k] = of_diagonal.v[k] * e.v[k];
    }
    up = below;
    const int column = t - lane;
    if (column >= 0 && column < pair.m) planes.of_lane(0, column) = e;
  }
}

}  // namespace sdtw::cuda::short_pairs
