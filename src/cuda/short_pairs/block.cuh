// Short pairs: a block has one at a time, and goes through the phases of it.
//
//   costs          all warps: of all cells, by float64 matrix instructions (costs.cuh)
//   Z              one warp from the beginning of the pair and one from its end, through half of the columns each; for
//                  gradients they leave the terms of each cell (sweeps.cuh)
//   probabilities  all warps: transition probabilities, of the terms
//   E              the two warps: back from where they have met
//   gradients      all warps: by matrix instructions, of E and the points (gradients.cuh)
//
// At gamma = 0 one warp finds the best path instead (hard.cuh), and with step weights, penalties or a band the sweeps
// are those of steps.cuh.
//
// Nothing is handed from block to block, and nothing is kept from forward for backward, which goes through all phases.
// While the sweeps of a block wait for results of their own, other blocks of the multiprocessor have the time: a pair
// of up to 64 steps takes little shared memory, since its cells have three numbers at most, one after the other.
#pragma once

#include "cuda/costs/rings.cuh"
#include "cuda/pair.cuh"

namespace sdtw::cuda::short_pairs {

// A block and its pairs: a lane that sweeps has R rows. squares: distances are squared, and no other metric; else which
// metric it is is known when a kernel is launched (Args::metric). steps: steps of paths have weights or penalties, or a
// band leaves out cells.
template <int rows_of_lane, int warps_of_block, int most_columns, bool of_squares = true, Steps of_steps = Steps::unit>
struct Shape {
  static constexpr bool squares = of_squares, has_steps = of_steps != Steps::unit;
  static constexpr Steps steps = of_steps;
  static constexpr int R = rows_of_lane, rows = R * warp, columns = most_columns;
  // What gradients need of the costs of other metrics (Kept in metrics.cuh) has a plane of its own, if there is room
  // for a fourth one; else it is computed once more behind E, when two of the three planes are free.
  static constexpr bool keeps = !of_squares && R <= 2, recomputes = !of_squares && R > 2;
  static constexpr int warps = warps_of_block, threads = warps * warp;
  static constexpr int blocks = R == 1 ? 5 : 16 / warps;  // that a multiprocessor is to have registers for
};

constexpr int of_tile = 8;  // points of a series that a matrix instruction takes at once: the columns of its result

// The warps of a block that sweep, 0 from the beginning of a pair and 1 from its end; others are more. Of blocks side
// by side on a multiprocessor they are on different schedulers.
__device__ __forceinline__ int sweep_of_warp() {
  const int warps = static_cast<int>(blockDim.x) / warp;
  const int first = static_cast<int>(static_cast<int64_t>(blockIdx.x) * warps / gridDim.x);
  return (static_cast<int>(threadIdx.x) / warp * (warps / 2 + 1) + first) % warps;
}

// Three planes in shared memory with a number for each cell of a pair, whose 32 lanes have `rows_of_lane` rows each. A
// cell has its cost, of two numbers, then three terms, which become transition probabilities, and in the end E in the
// first plane.
// The pitch keeps lanes that sweep, of which each is a column behind the one above, from bank conflicts, and those that
// store costs.
template <int rows_of_lane>
struct Planes {
  static constexpr int R = rows_of_lane, rows = R * warp, pitch = rows + (R > 2 ? 8 : 4);
  float *data;
  int size;  // of a plane

  // Of whole tiles of columns.
  static __host__ __device__ int size_for(int columns) { return (columns + of_tile - 1) / of_tile * of_tile * pitch; }
  __device__ __forceinline__ Planes(float *to, int columns) : data(to), size(size_for(columns)) {}

  static __device__ __forceinline__ int place(int row, int column) { return column * pitch + row; }
  // A number of each of the lane's rows, in a column.
  __device__ __forceinline__ Few<float, R> &of_lane(int plane, int column) const {
    return *reinterpret_cast<Few<float, R> *>(data + plane * size + place(lane_id() * R, column));
  }
};

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
