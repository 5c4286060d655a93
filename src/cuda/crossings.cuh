// Where paths cross from one strip into the next. Forward has left Z of all paths from the beginning to the last row of
// the upper strip, and of all from the end to the first row of the lower one: their product, over Z of the pair, is the
// probability that a path takes a step between two cells. So the strips of a pair need not wait for each other in
// backward. Z of the pair is the sum of the products over the columns, which every path crosses once: the rounding
// errors that either side has gathered on its way here are in both.
#pragma once

#include "pair.cuh"

namespace sdtw::cuda {

// m 2^e, e a whole number.
struct Large {
  double m, e;
};
// 2^e, e a whole number of at most 0; less than 2^-1000 is as good as nothing.
__device__ __forceinline__ double power_of_two(double e) {
  return __hiloint2double((1023 + static_cast<int>(fmax(e, -1000.0))) << 20, 0);
}
__device__ __forceinline__ Large sum_of(const Large &a, const Large &b) {
  const double e = fmax(a.e, b.e);
  return {a.m * power_of_two(a.e - e) + b.m * power_of_two(b.e - e), e};
}

// Of one column: Z of the cell above, and of the two below that can follow it.
template <class Cell>
struct Step {
  typename Cell::Z above, below, next;

  __device__ __forceinline__ void load(const Args &a, const Pair &pair, int strip, int column) {
    const int64_t row = boundary(a, pair, strip) * a.m * Cell::words(a.format);
    const Word *back = a.back_rows + row;
    above = Cell::load(a.rows + row, column, a.format);
    below = Cell::load(back, pair.m - 1 - column, a.format);
    next = column + 1 < pair.m ? Cell::load(back, pair.m - 2 - column, a.format) : Cell::forbidden();
  }
  __device__ __forceinline__ Large product() const {
    const auto large = [](const typename Cell::Z &z) {
      return Large{static_cast<double>(z.m), static_cast<double>(z.e)};
    };
    const Large on = sum_of(large(below), large(next));
    return {above.m * on.m, static_cast<double>(above.e) + on.e};
  }
  __device__ __forceinline__ double probability(const Crossing &all) const {
    const Large z = product();
    return z.m * power_of_two(z.e - all.e) / all.m;
  }
};

}  // namespace sdtw::cuda
