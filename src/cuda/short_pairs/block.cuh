// Short pairs of many features: a block has one at a time, and all its warps go through the phases of it together.
//
//   costs       all warps: of all cells, by float64 matrix instructions (costs.cuh)
//   Z           one warp: forward through the pair; for gradients it leaves transition probabilities (sweeps.cuh)
//   E           the same warp: backward through the pair
//   gradients   all warps: of a point each, from what E and the other series' points there are (gradients.cuh)
//
// Nothing is handed from block to block, and nothing is kept from forward for backward, which goes through all phases.
// While the sweep of a block waits for results of its own, other blocks of the multiprocessor have the time: a pair
// takes little shared memory, since its cells have three numbers at most, one after the other.
#pragma once

#include <cuda_pipeline.h>

#include "cuda/costs/rings.cuh"
#include "cuda/pair.cuh"

namespace sdtw::cuda::short_pairs {

constexpr int warps = 4, threads = warps * warp;
constexpr int most_columns = most_short_steps;

// The warp of a block that sweeps: of blocks side by side on a multiprocessor on different schedulers.
__device__ __forceinline__ int sweeper() {
  return static_cast<int>(static_cast<int64_t>(blockIdx.x) * warps / gridDim.x);
}

// Three planes in shared memory with a number for each cell of a pair, whose 32 lanes have `rows_of_lane` rows each. A
// cell has its cost, of two numbers, then its three transition probabilities, and in the end E in the first plane.
// The pitch keeps lanes that sweep, of which each is a column behind the one above, from bank conflicts, and those that
// store costs.
template <int rows_of_lane>
struct Planes {
  static constexpr int R = rows_of_lane, rows = R * warp, pitch = rows + 4;
  float *data;
  int size;  // of a plane

  static __host__ __device__ int size_for(int columns) { return columns * pitch; }
  __device__ __forceinline__ Planes(float *to, int columns) : data(to), size(size_for(columns)) {}

  static __device__ __forceinline__ int place(int row, int column) { return column * pitch + row; }
  // A number of each of the lane's rows, in a column.
  __device__ __forceinline__ Few<float, R> &of_lane(int plane, int column) const {
    return *reinterpret_cast<Few<float, R> *>(data + plane * size + place(lane_id() * R, column));
  }
};

// Asks for `width` features, from `first` on, of `points` points of a series, by all threads of the block: copies to
// shared memory, [points][pitch], that each thread waits for. Of features that there are not it has zeros, and of
// points from `size` on others. together: features that are copied at once; points are a multiple of what that makes
// threads copy at once.
template <int together, int width, int pitch>
__device__ __forceinline__ void copy_points(const Args &a, const sdtw_in &series, int64_t index, int size, int points,
                                            int first, float *to) {
  constexpr int of_point = width / together, at_once = threads / of_point;
  const int f = threadIdx.x % of_point * together;
  int point = threadIdx.x / of_point;
  const bool exists = first + f < a.features;
  const float *from = static_cast<const float *>(series.data) + index * series.stride[0] +
                      min(point, size - 1) * series.stride[1] + (first + f) * series.stride[2];
  const int64_t step = at_once * series.stride[1];
  to += point * pitch + f;
  const int count = points / at_once;  // the same for all threads
#pragma unroll 8
  for (int i = 0; i < count; i++, to += at_once * pitch) {
    if (exists)
      __pipeline_memcpy_async(to, from, together * sizeof(float));
    else
      *reinterpret_cast<Few<float, together> *>(to) = {};
    point += at_once;
    if (point < size) from += step;
  }
}

// How a cell's cost lies in two planes: FloatCell and LongCell have 2^-f - 1 and n, DoubleCell t, in two words.
template <class Cell>
struct StoredCost {
  static __device__ __forceinline__ void put(float *first, float *second, const FloatCost &cost) {
    *first = cost.q, *second = __int_as_float(cost.n);
  }
  static __device__ __forceinline__ typename Cell::Cost get(float first, float second) {
    return {first, __float_as_int(second)};
  }
};
template <>
struct StoredCost<DoubleCell> {
  static __device__ __forceinline__ void put(float *first, float *second, double t) {
    *first = __int_as_float(__double2hiint(t)), *second = __int_as_float(__double2loint(t));
  }
  static __device__ __forceinline__ DoubleCell::Cost get(float first, float second) {
    return DoubleCell::split(__hiloint2double(__float_as_int(first), __float_as_int(second)));
  }
};

}  // namespace sdtw::cuda::short_pairs
