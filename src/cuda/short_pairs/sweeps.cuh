// The sweeps of a short pair: by one warp from its beginning, by another from its end, through half of the columns
// each. Lanes have R rows each; in step t of its sweep a lane is at column t - order, counted from where the sweep
// begins. As in sweep/strip.cuh, but in one strip, from costs and transition probabilities that are in shared memory.
#pragma once

#include "cuda/short_pairs/block.cuh"
#include "cuda/sweep/midline.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda::short_pairs {

// What a lane has to do in one of the two sweeps, of Z or of E. A reversed sweep goes through rows and columns in the
// opposite order.
template <int R, bool reversed>
struct Half {
  int columns, last_column;  // of the sweep; of the pair
  int last_lane;             // that has rows of the pair
  int order;                 // the lane's, in the sweep of Z; below 0: it has no rows
  int steps;

  __device__ __forceinline__ explicit Half(const Pair &pair)
      : columns((pair.m + !reversed) / 2),
        last_column(pair.m - 1),
        last_lane((pair.n - 1) / R),
        order(reversed ? last_lane - lane_id() : lane_id()),
        steps(columns > 0 ? columns + last_lane : 0) {}

  // The k-th row of a lane that the sweep of Z comes to, and the lane whose rows are before the lane's own.
  static __device__ __forceinline__ constexpr int row(int k) { return reversed ? R - 1 - k : k; }
  static __device__ __forceinline__ int before() { return (lane_id() + (reversed ? 1 : warp - 1)) % warp; }
  static __device__ __forceinline__ int after() { return (lane_id() + (reversed ? warp - 1 : 1)) % warp; }
  __device__ __forceinline__ bool has(int at) const {
    return static_cast<unsigned>(at) < static_cast<unsigned>(columns);
  }
  // One of the sweep, whatever `at` is. If it has none, it is the one behind the pair's only one: planes have it, and
  // the other sweep does not.
  __device__ __forceinline__ int column(int at) const {
    const int inside = clamp(at, columns);
    return reversed ? last_column - inside : inside;
  }
};

// In shared memory, Z of the last columns that the two sweeps have come to, which is `side` 0 and 1; where steps have
// weights the latter are two (steps.cuh). Rows -1 and n are there, too.
template <class Cell, int R, int sides = 2>
struct Meeting {
  using Z = typename Cell::Z;
  static constexpr int rows = R * warp + 2;
  Z *data;

  __device__ __forceinline__ explicit Meeting(float *to) : data(reinterpret_cast<Z *>(to)) {}
  __device__ __forceinline__ Z &cell(int side, int row) const { return data[side * rows + 1 + row]; }
};
// What the two have for E: how much of it comes to each row.
template <int R, int sides = 2>
struct Shares {
  static constexpr int of_meeting = sides * (R * warp + 2) * sizeof(DoubleCell::Z) / sizeof(float);
  static constexpr size_t bytes = (of_meeting + sides * R * warp) * sizeof(float);  // behind Meeting
  float *data;

  __device__ __forceinline__ explicit Shares(float *meeting) : data(meeting + of_meeting) {}
  __device__ __forceinline__ Few<float, R> &of_lane(int side) const {
    return reinterpret_cast<Few<float, R> *>(data)[side * warp + lane_id()];
  }
};

// Outside of the pair costs are anything: in rows that it does not have, and, once terms are kept in their place,
// behind its columns. No cell of the pair comes from there, but a checked build asks all cells for their range.
template <int R, bool reversed>
__device__ __forceinline__ void clear_outside([[maybe_unused]] const Pair &pair,
                                              [[maybe_unused]] const Half<R, reversed> &half, [[maybe_unused]] int at,
                                              [[maybe_unused]] Few<float, R> &first,
                                              [[maybe_unused]] Few<float, R> &second) {
#ifdef SDTW_CHECKED
  for (int k = 0; k < R; k++)
    if (lane_id() * R + k >= pair.n || !half.has(at)) first.v[k] = second.v[k] = 0;
#endif
}

// Z of half of a pair. keeps: leaves the three terms of each cell in its place.
template <class Cell, bool keeps, bool reversed, int R>
__device__ __forceinline__ void sweep(const Pair &pair, const Planes<R> &planes, const Meeting<Cell, R> &meeting) {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;
  const Half<R, reversed> half(pair);
  const int first_row = lane_id() * R, before = half.before();
  // Rows of the lane may be beyond the pair's last one. A reversed sweep begins in the first of these then.
  const int own_rows = reversed && half.order == 0 ? (pair.n - 1) % R + 1 : R;
  Z z[R], above = Cell::select(half.order == 0 && own_rows == R, Cell::one(), Cell::forbidden());
#pragma unroll
  for (int k = 0; k < R; k++) z[k] = Cell::select(k == own_rows, Cell::one(), Cell::forbidden());
  Z last[R];  // cells of the last column; kept without a branch, at which the instructions of a step would have to end
#pragma unroll
  for (int k = 0; k < R; k++) last[k] = Cell::forbidden();
  Few<float, R> first, second;
  const auto ask = [&](int t) {
    const int column = half.column(t - half.order);
    first = planes.of_lane(0, column), second = planes.of_lane(1, column);
  };
  ask(0);
#pragma unroll 4
  for (int t = 0; t < half.steps; t++) {
    Z up = Cell::shuffle(z[half.row(R - 1)], before);
    up = Cell::select(half.order == 0, Cell::forbidden(), up);
    clear_outside(pair, half, t - half.order, first, second);
    typename Cell::Cost cost[R];
#pragma unroll
    for (int k = 0; k < R; k++) cost[k] = StoredCost<Cell>::get(first.v[k], second.v[k]);
    ask(t + 1);
    Z corner = above;
    above = up;
    Few<float, R> terms[transitions];
#pragma unroll
    for (int i = 0; i < R; i++) {
      const int k = half.row(i);
      const Z left = z[k];
      Real term[transitions];
      z[k] = Cell::template next<keeps>(cost[k], corner, up, left, term);
      if (reversed && k > 0) z[k] = Cell::unless(k >= own_rows, z[k]);
      if constexpr (keeps) {
#pragma unroll
        for (int way = 0; way < transitions; way++) terms[way].v[k] = static_cast<float>(term[way]);
      }
      corner = left;
      up = z[k];
    }
    const int at = t - half.order;
    if constexpr (keeps) {
      if (half.has(at)) {
#pragma unroll
        for (int way = 0; way < transitions; way++) planes.of_lane(way, half.column(at)) = terms[way];
      }
    }
#pragma unroll
    for (int k = 0; k < R; k++) last[k] = Cell::select(at == half.columns - 1, z[k], last[k]);
    if (t % renormalise_every == renormalise_every - 1) {
#pragma unroll
      for (int k = 0; k < R; k++) Cell::renormalise(z[k]);
      Cell::renormalise(above);
    }
  }
#pragma unroll
  for (int k = 0; k < R; k++)
    if (first_row + k < pair.n) meeting.cell(reversed, first_row + k) = last[k];
  // Of a pair of one column, paths leave the other half for the cell that is beyond the last one.
  if (half.order == 0)
    meeting.cell(reversed, reversed ? pair.n : -1) = Cell::select(half.columns == 0, Cell::one(), Cell::forbidden());
}

// In kernels' functions that are called a shuffle takes twenty instructions: so those of the cells of large pairs,
// which are there, share this one.
static __device__ __noinline__ ExtendedDouble called_sum_of_warp(const ExtendedDouble of_lane) {
  return sum_of_warp(of_lane);
}
template <class Cell>
__device__ __forceinline__ ExtendedDouble sum_of_lanes(const ExtendedDouble &of_lane) {
  return std::is_same_v<Cell, FloatCell> ? sum_of_warp(of_lane) : called_sum_of_warp(of_lane);
}

// Z of the pair, of all the steps between the columns where its sweeps have met. with_shares: leaves the probabilities
// of those from, or into, each row.
template <class Cell, bool with_shares, bool reversed, int R>
__device__ __forceinline__ ExtendedDouble join(const Pair &pair, const Meeting<Cell, R> &meeting,
                                               const Shares<R> &shares) {
  ExtendedDouble sum = nothing(), product[R];
#pragma unroll
  for (int k = 0; k < R; k++) {
    const int row = lane_id() * R + k;
    product[k] = nothing();
    if (row < pair.n)
      product[k] = Step<Cell>{meeting.cell(reversed, row), meeting.cell(!reversed, row),
                              meeting.cell(!reversed, reversed ? row - 1 : row + 1)}
                       .product();
    sum = sum_of(sum, product[k]);
  }
  sum = sum_of_lanes<Cell>(sum);
  if constexpr (with_shares) {
    Few<float, R> share;
#pragma unroll
    for (int k = 0; k < R; k++)
      share.v[k] = static_cast<float>(product[k].m * power_of_two(product[k].e - sum.e) / sum.m);
    shares.of_lane(reversed) = share;
  }
  return sum;
}

// Makes transition probabilities of the terms of all cells, by all threads. E goes through up to 191 cells without
// being made good on its way, as it is from tile to tile in longer pairs: so all three are corrected by their
// remainder.
template <int R>
__device__ __forceinline__ void normalise_all(const Pair &pair, const Planes<R> &planes) {
  constexpr int together = 4;
  const int step = static_cast<int>(blockDim.x) * together;
  for (int i = threadIdx.x * together; i < pair.m * Planes<R>::pitch; i += step) {
    Few<float, together> *const of_way = reinterpret_cast<Few<float, together> *>(planes.data + i);
    const int to_next = planes.size / together;
    Few<float, together> p[transitions];
#pragma unroll
    for (int way = 0; way < transitions; way++) p[way] = of_way[way * to_next];
#pragma unroll
    for (int k = 0; k < together; k++) {
      const float s = (p[diagonal].v[k] + p[horizontal].v[k]) + p[vertical].v[k], factor = reciprocal(s);
#pragma unroll
      for (int way = 0; way < transitions; way++) {
        float &term = p[way].v[k];
        term = corrected(product(term, factor), term, s, factor);
      }
    }
#pragma unroll
    for (int way = 0; way < transitions; way++) of_way[way * to_next] = p[way];
  }
}

// E of all cells of half of a pair, in place of the first of their transition probabilities: from where the two sweeps
// of Z have met to where this one began.
template <bool reversed, int R>
__device__ __forceinline__ void sweep_back(const Pair &pair, const Planes<R> &planes, const Shares<R> &shares) {
  const Half<R, reversed> half(pair);
  const int after = half.after();
  const bool is_first = lane_id() == (reversed ? 0 : half.last_lane);
  float left[R] = {}, aslant[R] = {}, up = 0;  // as Adjoint's
  const Few<float, R> share = shares.of_lane(reversed);
  Few<float, R> p[transitions];
  const auto ask = [&](int t) {
    const int column = half.column(t - half.order);
#pragma unroll
    for (int way = 0; way < transitions; way++) p[way] = planes.of_lane(way, column);
  };
  ask(half.steps - 1);
#pragma unroll 4
  for (int t = half.steps - 1; t >= 0; t--) {
    float below = __shfl_sync(all_lanes, up, after);
    below = is_first ? 0 : below;
    const Few<float, R> of_diagonal = p[diagonal], of_vertical = p[vertical], of_horizontal = p[horizontal];
    const int at = t - half.order;
    Few<float, R> e;
    ask(t - 1);
#pragma unroll
    for (int i = R - 1; i >= 0; i--) {
      const int k = half.row(i);
      e.v[k] = (at == half.columns - 1 ? share.v[k] : left[k]) + below;
      below = fmaf(of_vertical.v[k], e.v[k], aslant[k]);
      left[k] = of_horizontal.v[k] * e.v[k];
      aslant[k] = of_diagonal.v[k] * e.v[k];
    }
    up = below;
    if (half.has(at)) planes.of_lane(0, half.column(at)) = e;
  }
}

}  // namespace sdtw::cuda::short_pairs
