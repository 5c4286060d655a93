// What becomes of a pair when forward has swept it: its value and status, from the cell in which it ends or from the
// midline where its two sweeps meet; or another engine, if the float one cannot compute it.
#pragma once

#include "cuda/costs/sources.cuh"
#include "cuda/sweep/midline.cuh"

namespace sdtw::cuda {

// A pair's value, -log2(Z) / scale.
template <class Cell>
__device__ __forceinline__ double value_of(const Args &a, const ExtendedDouble &z, Status &status) {
  if (z.m != z.m) {
    status = status_not_a_number;
    return __longlong_as_double(0x7ff8000000000000ll);
  }
  if (Cell::wide && !(z.e > -core::Exponent<double>::limit)) {
    status = status_unreachable;
    return __longlong_as_double(0x7ff0000000000000ll);
  }
  status = status_finite;
  return -(z.e + log2(z.m)) / a.scale;
}

// Value and status of a pair that is not regular.
__device__ __forceinline__ double value_without_cells(LengthCase lengths, Status &status) {
  const bool invalid = lengths == LengthCase::invalid;
  status = invalid ? status_not_a_number : status_unreachable;
  return lengths == LengthCase::empty ? 0 : __longlong_as_double(invalid ? 0x7ff8000000000000ll : 0x7ff0000000000000ll);
}

// For the pairs whose first strip the task is: stores the values of pairs without cells, and tells whether another
// engine is needed for a pair whose bounds are known.
__device__ __forceinline__ void finish_trivial_pairs(const Args &a, int64_t task, int lane) {
  const Pair pair = pair_of(a, task, lane);
  const bool exists = a.lanes == warp || task * (warp >> a.lane_bits) + (lane >> a.lane_bits) < a.batch;
  if (!exists || (lane & (a.lanes - 1)) != 0) return;
  if (pair.lengths == LengthCase::regular) {
    if (!has_bounds(a)) return;
    const Engine engine = engine_of(a, pair);
    if (engine == Engine::of_double) a.control->any_double = 1;
    if (engine == Engine::of_long) a.control->any_long = 1;
    return;
  }
  Status status;
  store(a.value, pair.index, a.f64, value_without_cells(pair.lengths, status));
  a.status[pair.index] = status;
}

// Stores value and status of a pair. Called by one thread.
template <class Cell>
__device__ __forceinline__ void finish_pair(const Args &a, const Pair &pair, const ExtendedDouble &z) {
  Status status;
  const double value = value_of<Cell>(a, z, status);
  a.status[pair.index] = status;
  store(a.value, pair.index, a.f64, value);
}

// Z of a pair of several strips, summed along the midline between its two sweeps. Called by the warp that has just
// swept the pair's last strip in the order of tickets: the strip on the other side of the middle has an earlier ticket,
// so the warp may wait for its row. Lanes take columns in turn, and of each lane several columns are loaded before any
// is used. Not inlined: it is needed once for a pair.
template <class Cell, bool banded>
__device__ __noinline__ ExtendedDouble join(const Args &a, const Pair &pair, int strip, bool reversed) {
  constexpr int at_once = Cell::wide ? 2 : 8, of_column = 3;  // columns of a lane; cells of a column: see Step
  const int words = Cell::words(a.format);
  const MidlineRows rows(std::bool_constant<banded>{}, a, pair, strip, reversed, words);
  __syncwarp();
  ExtendedDouble sum = nothing();
  // The column of a cell of `other`, and whether it has it.
  const auto column_of = [&](int column, int of) { return pair.m - of - column; };
  const auto exists = [&](int column, int of) { return rows.of_other.has(column_of(column, of)); };
  for (int first = rows.of_own.first + lane_id(); first < rows.of_own.end; first += at_once * warp) {
    const Word *from[at_once][of_column];
    Word word[at_once][of_column][2];
#pragma unroll
    for (int i = 0; i < at_once; i++) {
      const int column = min(first + i * warp, rows.of_own.end - 1);
      from[i][0] = rows.own + static_cast<int64_t>(column) * words;
#pragma unroll
      for (int of = 1; of < of_column; of++) {
        const int at = min(max(column_of(column, of), rows.of_other.first), rows.of_other.end - 1);
        from[i][of] = rows.other + static_cast<int64_t>(at) * words;
      }
#pragma unroll
      for (int of = 0; of < of_column; of++)
#pragma unroll
        for (int w = 0; w < 2; w++) word[i][of][w] = w < words ? load_relaxed(from[i][of] + w) : 0;
    }
#pragma unroll
    for (int i = 0; i < at_once; i++) {
      typename Cell::Z z[of_column];
#pragma unroll
      for (int of = 0; of < of_column; of++) {
#pragma unroll
        for (int w = 0; w < 2; w++)
          if (w < words && word[i][of][w] == ~Word(0)) word[i][of][w] = wait_for(from[i][of] + w);
        z[of] = Cell::unpack(word[i][of][0], word[i][of][1], a.format);
      }
      const int column = first + i * warp;
#pragma unroll
      for (int of = 1; of < of_column; of++)
        if ((banded || of > 1) && !exists(column, of)) z[of] = Cell::forbidden();
      if (column < rows.of_own.end) sum = sum_of(sum, Step<Cell>{z[0], z[1], z[2]}.product());
    }
  }
  return sum_of_warp(sum);
}

// After the sweep of a task, in any engine: rejects pairs that the float engine cannot compute, and stores the values
// of pairs that are complete. Returns whether the calling warp itself has to run another engine for the task, which is
// so for warp_fallback only; else a second kernel looks after rejected pairs.
template <class Cell, bool warp_fallback, Extent extent, class Source>
__device__ __forceinline__ bool finish(const Args &a, const StripView &s, const Source &source,
                                       const typename Cell::Z &corner) {
  bool exceeded = false;
  if constexpr (std::is_same_v<Cell, FloatCell> && !Source::cooperative) {
    const int met = source.bound(a, s), bound = is_left_to_double(a, s.pair) ? rejected : met;
    exceeded = !(__int_as_float(bound) <= float_limit(a, s.pair));
    if (s.active && s.lane == 0) {
      if (warp_fallback)
        a.bounds[bounds_per_pair * s.pair.index] = exceeded ? bound : accepted;
      else if (exceeded)
        reject_pair(a, s.pair.index, bound);
    }
  }
  if constexpr (is_several<extent>)
    if (s.joins) {
      const ExtendedDouble z = join<Cell, extent == Extent::corridor>(a, s.pair, s.strip, s.reversed);
      if (lane_id() == 0) finish_pair<Cell>(a, s.pair, z);
      return false;
    }
  if (s.active && s.is_end()) finish_pair<Cell>(a, s.pair, {static_cast<double>(corner.m), Cell::exponent(corner)});
  return warp_fallback && __any_sync(all_lanes, s.active && exceeded);
}

}  // namespace sdtw::cuda
