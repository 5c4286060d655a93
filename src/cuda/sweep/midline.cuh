// Where paths cross from one strip of a pair into the next, of two that the sweeps from both ends have met between.
// Forward has left Z of all paths from the beginning to the last row of the upper strip, and of all from the end to the
// first row of the lower one. The product of two cells' of which one can follow the other, over Z of the pair, is the
// probability that a path takes this step. Z of the pair is the sum of the products over the columns, which every path
// crosses once: the rounding errors that either side has gathered on its way here are in both.
#pragma once

#include "cuda/pair.cuh"

namespace sdtw::cuda {

// m 2^e, e a whole number.
struct ExtendedDouble {
  double m, e;
};
// 2^e, e a whole number of at most 0; less than 2^-1000 is as good as nothing.
__device__ __forceinline__ double power_of_two(double e) {
  return __hiloint2double((1023 + static_cast<int>(fmax(e, -1000.0))) << 20, 0);
}
__device__ __forceinline__ ExtendedDouble sum_of(const ExtendedDouble &a, const ExtendedDouble &b) {
  const double e = fmax(a.e, b.e);
  return {a.m * power_of_two(a.e - e) + b.m * power_of_two(b.e - e), e};
}

__device__ __forceinline__ ExtendedDouble nothing() { return {0, -1e300}; }
__device__ __forceinline__ ExtendedDouble sum_of_warp(ExtendedDouble sum) {
  for (int lanes = warp / 2; lanes > 0; lanes /= 2)
    sum = sum_of(sum, {__shfl_xor_sync(all_lanes, sum.m, lanes), __shfl_xor_sync(all_lanes, sum.e, lanes)});
  return sum;
}

// The row that a strip hands on, and the one that the other sweep hands on to meet it.
struct MidlineRows {
  const Word *own, *other;

  __device__ __forceinline__ MidlineRows(const Args &a, const Pair &pair, int strip, bool reversed, int words)
      : own(row_of_strip(a, pair, strip, reversed, words)),
        other(row_of_strip(a, pair, reversed ? strip - 1 : strip + 1, !reversed, words)) {}
};

// Columns of a pair that both halves add to: E comes from the other half in its crossing's columns, and only goes back.
struct MidlineOverlap {
  int first, last;

  __device__ __forceinline__ MidlineOverlap(int from, int to) : first(from), last(to) {}
  __device__ __forceinline__ MidlineOverlap(const Args &a, const Pair &pair) {
    const int lower = upper_half(strips_of(pair));
    first = pair.m - 1 - midline_into(a, pair, lower)->last, last = midline_into(a, pair, lower - 1)->last;
  }
  __device__ __forceinline__ int size() const { return max(last - first + 1, 0); }
};

// Of one column, as the half that is `own` counts them: Z of its cell, and of the two of the other that are one step
// away from it, which the other has met in the opposite order.
template <class Cell>
struct Step {
  typename Cell::Z above, below, next;

  __device__ __forceinline__ void load(const MidlineRows &rows, const Pair &pair, int column, Format format) {
    above = Cell::load(rows.own, column, format);
    below = Cell::load(rows.other, pair.m - 1 - column, format);
    next = column + 1 < pair.m ? Cell::load(rows.other, pair.m - 2 - column, format) : Cell::forbidden();
  }
  __device__ __forceinline__ ExtendedDouble product() const {
    const auto large = [](const typename Cell::Z &z) {
      return ExtendedDouble{static_cast<double>(z.m), static_cast<double>(z.e)};
    };
    const ExtendedDouble on = sum_of(large(below), large(next));
    return {above.m * on.m, static_cast<double>(above.e) + on.e};
  }
  __device__ __forceinline__ double probability(const Midline &all) const {
    const ExtendedDouble z = product();
    return z.m * power_of_two(z.e - all.e) / all.m;
  }
};

}  // namespace sdtw::cuda
