// The cells of a short pair that its paths may visit, where a band (core/band.h) leaves out others.
#pragma once

#include "cuda/short_pairs/block.cuh"

namespace sdtw::cuda::short_pairs {

template <class Shape>
__device__ __forceinline__ bool has_band(const Args &a) {
  return Shape::has_steps && a.band.kind != SDTW_BAND_NONE;
}

// The columns that the band admits of each row, in shared memory. A row that the pair does not have has none.
struct AdmittedColumns {
  unsigned char first[most_steps_of_few], end[most_steps_of_few];
};

// Finds them, by all threads.
template <class Shape>
__device__ __forceinline__ void find_admitted(const Args &a, const Pair &pair) {
  if (!has_band<Shape>(a)) return;
  AdmittedColumns &of_row = ptx::shared_object<AdmittedColumns>();
  core::Band band = a.band;  // of rows of x, whichever series has the rows here
  band.n = a.swapped ? pair.m : pair.n, band.m = a.swapped ? pair.n : pair.m;
  for (int row = threadIdx.x; row < Shape::rows; row += Shape::threads) {
    core::Interval columns{0, 0};
    if (row < pair.n) columns = a.swapped ? band.rows(row) : band.columns(row);
    of_row.first[row] = static_cast<unsigned char>(columns.first);
    of_row.end[row] = static_cast<unsigned char>(columns.end);
  }
  __syncthreads();
}

template <class Shape>
__device__ __forceinline__ bool admits(const Args &a, int row, int column) {
  if (!has_band<Shape>(a)) return true;
  const AdmittedColumns &of_row = ptx::shared_object<AdmittedColumns>();
  return column >= of_row.first[row] && column < of_row.end[row];
}

// Makes E of all other cells 0, by all threads: forbidden cells have left as good as none in them.
template <class Shape>
__device__ __forceinline__ void clear_outside(const Args &a, const Pair &pair, const Planes<Shape::R> &planes) {
  using Planes = short_pairs::Planes<Shape::R>;
  if (!has_band<Shape>(a)) return;
  for (int i = threadIdx.x; i < pair.m * Planes::pitch; i += Shape::threads)
    if (const int row = i % Planes::pitch; row < pair.n && !admits<Shape>(a, row, i / Planes::pitch))
      planes.data[i] = 0;
  __syncthreads();
}

// What stands for the cost of a cell that is left out, or for its t. DoubleCell's is infinite. FloatCell and LongCell
// have one that no cell else has, and forbid the cell when they come to it.
struct LeftOut {
  static __device__ __forceinline__ double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
  static __device__ __forceinline__ FloatCost cost() { return {0.5f, 0}; }  // q is 2^1/2 - 1 at most
  template <class Cell>
  static __device__ __forceinline__ double t() {
    return Cell::wide ? infinity() : -0.0;
  }

  static __device__ __forceinline__ bool is(const FloatCost &cost) { return cost.q == 0.5f; }
  static __device__ __forceinline__ bool is(const DoubleCell::Cost &) { return false; }
  template <class Cell>
  static __device__ __forceinline__ bool is(double t) {
    return !Cell::wide && __double2hiint(t) == static_cast<int>(0x80000000u);
  }
};

}  // namespace sdtw::cuda::short_pairs
