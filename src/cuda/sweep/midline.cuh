// The marginals between two strips of a pair, where the top-down sweep has reached the last row of the upper strip and
// the bottom-up sweep the first row of the lower one. Forward has left Z of all paths from the beginning to each cell
// of the one row, and of all paths from the end to each cell of the other. The product of the Z of two cells of which
// one can follow the other, over Z of the pair, is the probability that a path takes this step. So it is known how E
// (Cuturi and Blondel 2017, Algorithm 2) enters a strip here, before E has been swept anywhere.
//
// Invariant: every path takes exactly one such step, so Z of the pair is the sum of the products over the columns, and
// the probabilities add up to 1. The rounding errors that either sweep has gathered on its way are in the products and
// in their sum alike. A pair of several strips has one midline, in the middle, which is one Midline for either half; or
// with Args::full_sweeps one between any two strips, for twice the work of forward, so that no strip waits for E from
// another. A pair of one strip has none.
#pragma once

#include "cuda/pair.cuh"

namespace sdtw::cuda {

// m 2^e, e integer-valued: a product of two Z leaves the range of a double.
struct ExtendedDouble {
  double m, e;
};
// 2^e of an integer-valued e that is at most 0. Below 2^-1000 the result is 2^-1000, which is as good as nothing.
__device__ __forceinline__ double power_of_two(double e) {
  return __hiloint2double((1023 + static_cast<int>(fmax(e, -1000.0))) << 20, 0);
}
__device__ __forceinline__ ExtendedDouble sum_of(const ExtendedDouble &a, const ExtendedDouble &b) {
  const double e = fmax(a.e, b.e);
  return {a.m * power_of_two(a.e - e) + b.m * power_of_two(b.e - e), e};
}

__device__ __forceinline__ ExtendedDouble nothing() { return {0, -1e300}; }
__device__ __forceinline__ ExtendedDouble sum_of_warp(const ExtendedDouble &of_lane) {
  double e = of_lane.e;
  for (int lanes = warp / 2; lanes > 0; lanes /= 2) e = fmax(e, __shfl_xor_sync(all_lanes, e, lanes));
  return {warp_sum(of_lane.m * power_of_two(of_lane.e - e)), e};
}

// The two rows of Z on either side of a midline, each as the sweep that wrote it counts columns.
struct MidlineRows {
  const Word *own,           // the last row of the strip, in the order of its own sweep
      *other;                // the row next to it, which the sweep from the other end has left
  Columns of_own, of_other;  // that they have, each as its own sweep counts them

  template <bool banded>
  __device__ __forceinline__ MidlineRows(std::bool_constant<banded>, const Args &a, const Pair &pair, int strip,
                                         bool reversed, int words)
      : own(row_of_strip(a, pair, strip, reversed, words)),
        other(row_of_strip(a, pair, reversed ? strip - 1 : strip + 1, !reversed, words)),
        of_own(columns_of_strip<banded>(a, pair, strip, reversed)),
        of_other(columns_of_strip<banded>(a, pair, reversed ? strip - 1 : strip + 1, !reversed)) {}
};

// The columns of a pair to whose grad_y both halves may add. E enters a half in the columns of its midline and only
// goes back from there: to the left in the upper half, to the right in the lower one.
struct MidlineOverlap {
  int first, last;  // in the caller's order; last < first: none

  __device__ __forceinline__ MidlineOverlap(int from, int to) : first(from), last(to) {}
  __device__ __forceinline__ MidlineOverlap(const Args &a, const Pair &pair) {
    const int lower = upper_half(strips_of(pair));
    first = pair.m - 1 - midline_into(a, pair, lower)->last, last = midline_into(a, pair, lower - 1)->last;
  }
  __device__ __forceinline__ int size() const { return max(last - first + 1, 0); }
};

// The steps of paths from one cell of the row `own` into the row `other`. A column c is counted as the sweep of `own`
// meets it; the other sweep has met it as m - 1 - c.
template <class Cell>
struct Step {
  typename Cell::Z above,  // of `own`, in column c
      below,               // of `other`, in column c: a vertical step away
      next;                // of `other`, in column c + 1: a diagonal step away
                           // forbidden where a row has no such column

  // column: any of the pair.
  template <bool banded>
  __device__ __forceinline__ void load(std::bool_constant<banded>, const MidlineRows &rows, const Pair &pair,
                                       int column, Format format) {
    const auto cell = [&](const Word *row, const Columns &of_row, int at, bool exists) {
      return (banded ? of_row.has(at) : exists) ? Cell::load(row, at, format) : Cell::forbidden();
    };
    above = cell(rows.own, rows.of_own, column, true);
    below = cell(rows.other, rows.of_other, pair.m - 1 - column, true);
    next = cell(rows.other, rows.of_other, pair.m - 2 - column, column + 1 < pair.m);
  }
  // Z of all paths of the pair that take one of the two steps.
  __device__ __forceinline__ ExtendedDouble product() const {
    const auto large = [](const typename Cell::Z &z) {
      return ExtendedDouble{static_cast<double>(z.m), Cell::exponent(z)};
    };
    const ExtendedDouble on = sum_of(large(below), large(next));
    return {above.m * on.m, Cell::exponent(above) + on.e};
  }
  // The probability that a path takes one of them. all: has Z of the pair.
  __device__ __forceinline__ double probability(const Midline &all) const {
    const ExtendedDouble z = product();
    return z.m * power_of_two(z.e - all.e) / all.m;
  }
};

}  // namespace sdtw::cuda
