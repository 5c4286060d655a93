// The sweeps of a short pair where a step into a cell of cost D costs w D + p, by the way that it comes (Args::weight,
// Args::penalty), and where a band may leave out cells (band.cuh). Otherwise as in sweeps.cuh.
//
// In a sweep from the beginning Z of neighbours gets the costs of their ways before it is summed up. In a sweep from
// the end these are the costs of the cell that the step comes to, so a cell hands on Z by each way with its own cost.
// For gradients E is weighted by the ways in which it has come to a cell, as gradients are; the probabilities of these
// are the cell's own in the first half of a pair, and in the other one, where probabilities are those of the ways that
// lead on, E comes along them.
#pragma once

#include "cuda/short_pairs/band.cuh"
#include "cuda/short_pairs/sweeps.cuh"
#include "cuda/sweep/double_cell.cuh"

namespace sdtw::cuda::short_pairs {

// Z of a neighbour, or of a cell, and the cost of a step.
template <class Cell>
__device__ __forceinline__ typename Cell::Z with_cost(const typename Cell::Z &z, const typename Cell::Cost &cost) {
  if constexpr (Cell::wide)
    return {fma(z.m, cost.q, z.m), z.e - cost.n};
  else
    return {fmaf(z.m, cost.q, z.m), Cell::Exponent::sum(z.e, -cost.n)};
}

// What steps to a cell cost, for a sweep of Cell. Of the three Z of which a cell is the sum, in a sweep from the
// beginning, each is what a neighbour has, `entering` the cell; in a sweep from the end it is what a neighbour has
// handed `onward` by this way, `leaving` the cell. What is common to all three, the sum has (`own`).
//
// Steps::simple: penalties are costs of their own, which are the same everywhere. So they are applied by who receives
// Z, and the pair's first cell, or its last one, begins with as much less.
template <class Cell, Steps steps>
struct StepCosts {
  using Z = typename Cell::Z;
  using Cost = typename Cell::Cost;
  Cost penalty[transitions], first;
  bool doubles;  // the cost of the cell, by a diagonal step

  struct OfCell {
    Cost own, once_more;
    bool is_out;
  };

  static __device__ __forceinline__ Cost split(double t) {
    if constexpr (Cell::wide)
      return DoubleCell::split(t, DoubleCell::Scale(1));
    else
      return split_large(t);
  }
  __device__ __forceinline__ explicit StepCosts(const Args &a)
      : first(split(-a.penalty[diagonal])), doubles(a.weight[diagonal] != a.weight[vertical]) {
#pragma unroll
    for (int way = 0; way < transitions; way++) penalty[way] = split(a.penalty[way]);
  }
  __device__ __forceinline__ Z one() const { return with_cost<Cell>(Cell::one(), first); }
  __device__ __forceinline__ OfCell of_cell(float in_first, float in_second, bool) const {
    const Cost own = StoredCost<Cell>::get(in_first, in_second);
    return {own, doubles ? own : Cost{}, LeftOut::is(own)};
  }
  __device__ __forceinline__ Z entering(const Z &z, int way, const OfCell &cell) const {
    return with_cost<Cell>(onward(z, way, cell), penalty[way]);
  }
  __device__ __forceinline__ Z leaving(const Z &z, int way) const { return with_cost<Cell>(z, penalty[way]); }
  __device__ __forceinline__ Z onward(const Z &z, int way, const OfCell &cell) const {
    return way == diagonal ? with_cost<Cell>(z, cell.once_more) : z;
  }
};

// Each way has a cost of its own, made of the cell's t.
template <class Cell>
struct StepCosts<Cell, Steps::weighted> {
  using Z = typename Cell::Z;
  using Cost = typename Cell::Cost;
  const Args &a;

  struct OfCell {
    Cost own, of[transitions];
    bool is_out;
  };

  __device__ __forceinline__ explicit StepCosts(const Args &args) : a(args) {}
  __device__ __forceinline__ Z one() const { return Cell::one(); }
  // is_first: of the pair, which is entered without a penalty.
  __device__ __forceinline__ OfCell of_cell(float in_first, float in_second, bool is_first) const {
    const double t = __hiloint2double(__float_as_int(in_first), __float_as_int(in_second));
    OfCell cell{{}, {}, LeftOut::is<Cell>(t)};
#pragma unroll
    for (int way = 0; way < transitions; way++) {
      const double cost = fma(a.weight[way], t, way == diagonal && is_first ? 0 : a.penalty[way]);
      if constexpr (Cell::wide)
        cell.of[way] = DoubleCell::split(t == LeftOut::infinity() ? t : cost, DoubleCell::Scale(1));
      else
        cell.of[way] = split_large(cost);
    }
    return cell;
  }
  __device__ __forceinline__ Z entering(const Z &z, int way, const OfCell &cell) const {
    return with_cost<Cell>(z, cell.of[way]);
  }
  __device__ __forceinline__ Z leaving(const Z &z, int) const { return z; }
  __device__ __forceinline__ Z onward(const Z &z, int way, const OfCell &cell) const {
    return with_cost<Cell>(z, cell.of[way]);
  }
};

// What the two sweeps leave of the columns where they meet: Z of the one from the beginning, and of the other one Z by
// horizontal and by diagonal steps; and likewise the shares of E.
enum Side { from_beginning, by_horizontal, by_diagonal, sides };
template <class Cell, int R>
using StepMeeting = Meeting<Cell, R, sides>;
template <int R>
using StepShares = Shares<R, sides>;

// Z of half of a pair, from costs of its cells, or from t. keeps: leaves three terms of each cell in its place.
template <class Cell, Steps steps, bool keeps, bool reversed, int R>
__device__ __forceinline__ void sweep_steps(const Args &a, const Pair &pair, const Planes<R> &planes,
                                            const StepMeeting<Cell, R> &meeting) {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;
  using Costs = StepCosts<Cell, steps>;
  // A penalty may take half a bit of m in each cell, and a cost that counts twice another one (sweep/cell.cuh): of 16
  // cells m stays in [2^-24, 2^30].
  constexpr int renormalise_each = 16 / R < renormalise_every ? 16 / R : renormalise_every;
  const Half<R, reversed> half(pair);
  const Costs costs(a);
  const Z one = costs.one();
  const int first_row = lane_id() * R, before = half.before();
  const int own_rows = reversed && half.order == 0 ? (pair.n - 1) % R + 1 : R;
  // What is handed on by horizontal and by diagonal steps, which is the same Z in a sweep from the beginning.
  Z left[R], aslant[R], above = Cell::select(half.order == 0 && own_rows == R, one, Cell::forbidden());
  Z last_left[R], last_aslant[R];
#pragma unroll
  for (int k = 0; k < R; k++) {
    left[k] = last_left[k] = last_aslant[k] = Cell::forbidden();
    aslant[k] = Cell::select(k == own_rows, one, Cell::forbidden());
  }
  Z down = Cell::forbidden();  // what the lane's last row hands on by vertical steps
  Few<float, R> first, second;
  const auto ask = [&](int t) {
    const int column = half.column(t - half.order);
    first = planes.of_lane(0, column), second = planes.of_lane(1, column);
  };
  ask(0);
#pragma unroll 1
  for (int t = 0; t < half.steps; t++) {
    Z up = Cell::shuffle(down, before), beside = above;
    up = Cell::select(half.order == 0, Cell::forbidden(), up);
    above = up;
    if constexpr (reversed) {
      above = Cell::shuffle(aslant[half.row(R - 1)], before);
      above = Cell::select(half.order == 0, Cell::forbidden(), above);
    }
    clear_outside(pair, half, t - half.order, first, second);
    const Few<float, R> in_first = first, in_second = second;
    ask(t + 1);
    Few<float, R> terms[transitions];
#pragma unroll
    for (int i = 0; i < R; i++) {
      const int k = half.row(i);
      const bool is_first = !reversed && i == 0 && t == 0 && half.order == 0;
      const typename Costs::OfCell cell = costs.of_cell(in_first.v[k], in_second.v[k], is_first);
      Real term[transitions];
      if constexpr (reversed) {
        Z z = Cell::template next<keeps>(cell.own, costs.leaving(beside, diagonal), costs.leaving(up, vertical),
                                         costs.leaving(left[k], horizontal), term);
        z = Cell::unless(cell.is_out || (k > 0 && k >= own_rows), z);
        beside = aslant[k];
        aslant[k] = costs.onward(z, diagonal, cell), left[k] = costs.onward(z, horizontal, cell);
        up = costs.onward(z, vertical, cell);
      } else {
        Z z = Cell::template next<keeps>(cell.own, costs.entering(beside, diagonal, cell),
                                         costs.entering(up, vertical, cell), costs.entering(left[k], horizontal, cell),
                                         term);
        z = Cell::unless(cell.is_out, z);
        beside = left[k];
        left[k] = up = z;
      }
      if constexpr (keeps) {
#pragma unroll
        for (int way = 0; way < transitions; way++) terms[way].v[k] = static_cast<float>(term[way]);
      }
    }
    down = up;
    const int at = t - half.order;
    if constexpr (keeps) {
      if (half.has(at)) {
#pragma unroll
        for (int way = 0; way < transitions; way++) planes.of_lane(way, half.column(at)) = terms[way];
      }
    }
#pragma unroll
    for (int k = 0; k < R; k++) {
      last_left[k] = Cell::select(at == half.columns - 1, left[k], last_left[k]);
      if constexpr (reversed) last_aslant[k] = Cell::select(at == half.columns - 1, aslant[k], last_aslant[k]);
    }
    if (t % renormalise_each == renormalise_each - 1) {
#pragma unroll
      for (int k = 0; k < R; k++) {
        Cell::renormalise(left[k]);
        if constexpr (reversed) Cell::renormalise(aslant[k]);
      }
      Cell::renormalise(above), Cell::renormalise(down);
    }
  }
#pragma unroll
  for (int k = 0; k < R; k++) {
    if (first_row + k >= pair.n) continue;
    if constexpr (reversed) {
      meeting.cell(by_horizontal, first_row + k) = costs.leaving(last_left[k], horizontal);
      meeting.cell(by_diagonal, first_row + k) = costs.leaving(last_aslant[k], diagonal);
    } else {
      meeting.cell(from_beginning, first_row + k) = last_left[k];
    }
  }
  if (half.order == 0)
    meeting.cell(reversed ? by_diagonal : from_beginning, reversed ? pair.n : -1) =
        Cell::select(half.columns == 0, Cell::one(), Cell::forbidden());
}

// As `join` of sweeps.cuh.
template <class Cell, bool with_shares, bool reversed, int R>
__device__ __forceinline__ ExtendedDouble join_steps(const Pair &pair, const StepMeeting<Cell, R> &meeting,
                                                     const StepShares<R> &shares) {
  constexpr int ways = 2;  // horizontal, diagonal
  const auto product = [&](int from, Side side, int to) {
    const auto z = meeting.cell(from_beginning, from), on = meeting.cell(side, to);
    return ExtendedDouble{static_cast<double>(z.m) * on.m, Cell::exponent(z) + Cell::exponent(on)};
  };
  ExtendedDouble sum = nothing(), of_way[R][ways];
#pragma unroll
  for (int k = 0; k < R; k++) {
    const int row = lane_id() * R + k;
    of_way[k][0] = of_way[k][1] = nothing();
    if (row < pair.n) {
      of_way[k][0] = product(row, by_horizontal, row);
      of_way[k][1] = reversed ? product(row - 1, by_diagonal, row) : product(row, by_diagonal, row + 1);
    }
    sum = sum_of(sum, sum_of(of_way[k][0], of_way[k][1]));
  }
  sum = sum_of_lanes<Cell>(sum);
  if constexpr (with_shares) {
    Few<float, R> share[ways];
#pragma unroll
    for (int k = 0; k < R; k++) {
      double of_all[ways];
#pragma unroll
      for (int i = 0; i < ways; i++) of_all[i] = of_way[k][i].m * power_of_two(of_way[k][i].e - sum.e) / sum.m;
      share[0].v[k] = static_cast<float>(reversed ? of_all[0] : of_all[0] + of_all[1]);
      share[1].v[k] = static_cast<float>(of_all[1]);
    }
    shares.of_lane(reversed ? by_horizontal : from_beginning) = share[0];
    if constexpr (reversed) shares.of_lane(by_diagonal) = share[1];
  }
  return sum;
}

// As `sweep_back` of sweeps.cuh; for gradients leaves E weighted by the steps that come to each cell.
template <bool reversed, int R>
__device__ __forceinline__ void sweep_back_steps(const Args &a, const Pair &pair, const Planes<R> &planes,
                                                 const StepShares<R> &shares) {
  const Half<R, reversed> half(pair);
  const int after = half.after();
  const bool is_first = lane_id() == (reversed ? 0 : half.last_lane);
  float weight[transitions];
#pragma unroll
  for (int way = 0; way < transitions; way++) weight[way] = a.dense.data ? 1 : static_cast<float>(a.weight[way]);
  // As Adjoint's; and of what comes from the row before, in a sweep that began at the end, the same weighted.
  float left[R] = {}, aslant[R] = {}, up = 0, weighted_up = 0;
  const Few<float, R> share = shares.of_lane(reversed ? by_horizontal : from_beginning);
  Few<float, R> share_aslant{};
  if constexpr (reversed) share_aslant = shares.of_lane(by_diagonal);
  Few<float, R> p[transitions];
  const auto ask = [&](int t) {
    const int column = half.column(t - half.order);
#pragma unroll
    for (int way = 0; way < transitions; way++) p[way] = planes.of_lane(way, column);
  };
  ask(half.steps - 1);
#pragma unroll 2
  for (int t = half.steps - 1; t >= 0; t--) {
    float below = __shfl_sync(all_lanes, up, after), weighted = 0;
    below = is_first ? 0 : below;
    if constexpr (reversed) {
      weighted = __shfl_sync(all_lanes, weighted_up, after);
      weighted = is_first ? 0 : weighted;
    }
    const Few<float, R> of_diagonal = p[diagonal], of_vertical = p[vertical], of_horizontal = p[horizontal];
    const int at = t - half.order;
    const bool meets = at == half.columns - 1;
    Few<float, R> e;
    ask(t - 1);
#pragma unroll
    for (int i = R - 1; i >= 0; i--) {
      const int k = half.row(i);
      const float beside = meets ? share.v[k] : left[k], from_meeting = reversed && meets ? share_aslant.v[k] : 0;
      const float here = beside + (below + from_meeting);
      if constexpr (reversed)
        e.v[k] = fmaf(weight[horizontal], beside, fmaf(weight[diagonal], from_meeting, weighted));
      else
        e.v[k] = here * fmaf(weight[diagonal], of_diagonal.v[k],
                             fmaf(weight[horizontal], of_horizontal.v[k], weight[vertical] * of_vertical.v[k]));
      weighted = fmaf(weight[vertical] * of_vertical.v[k], here, weight[diagonal] * aslant[k]);
      below = fmaf(of_vertical.v[k], here, aslant[k]);
      left[k] = of_horizontal.v[k] * here;
      aslant[k] = of_diagonal.v[k] * here;
    }
    up = below, weighted_up = weighted;
    if (half.has(at)) planes.of_lane(0, half.column(at)) = e;
  }
}

}  // namespace sdtw::cuda::short_pairs
