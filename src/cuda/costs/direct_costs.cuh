// DirectCosts: costs for DoubleCell, which the sweeping warp computes in float64 when a step needs them, straight from
// the caller's arrays: given costs, or squared distances of any number of features, summed up from differences so that
// nothing cancels.
// It is slow, but takes no shared memory and serves every problem. It is used for given costs, where the shared memory
// of DifferenceCosts does not fit the GPU, and by forward's warp fallback; never by FloatCell.
#pragma once

#include "cuda/costs/inline_costs.cuh"

namespace sdtw::cuda {

struct DirectCosts {
  static constexpr bool cooperative = false;
  static constexpr int warps = 1;
  static constexpr int resident = 1;
  static constexpr int unrolled = 4;
  __host__ __device__ static size_t bytes(const Args &) { return 0; }

  const Args *a;
  DoubleCell::Scale scale;
  int64_t row[K];       // offsets of the lane's rows in x, or in the cost matrix
  int64_t first, step;  // offset of the task's first column, in y or in a row of the matrix; from a column to the next
  // Of the pair; the lane's number among the pair's lanes; the lane's column in the step that was sought.
  int columns, lane, start;
  bool given;

  __device__ __forceinline__ DirectCosts() : scale(0) {}

  __device__ __forceinline__ void begin(const Args &args, const StripView &s, unsigned char *) {
    a = &args;
    scale = DoubleCell::Scale(args.scale);
    lane = s.lane, columns = s.pair.m;
    const int64_t x = x_of(args, s.pair.index) * args.x.stride[0];
#pragma unroll
    for (int k = 0; k < K; k++) row[k] = x + clamp(s.row_of(k), s.pair.n) * args.x.stride[1];
    given = args.costs == Costs::given;
    const int64_t along = given ? args.x.stride[2] : args.y.stride[1];
    first = s.first_column() * along + (given ? 0 : y_of(args, s.pair.index) * args.y.stride[0]);
    step = s.sign() * along;
  }

  __device__ __forceinline__ void enter(int, bool) const {}
  __device__ __forceinline__ void stage(int) const {}
  __device__ __forceinline__ void look_ahead(int, int) const {}
  __device__ __forceinline__ void window(int, int) const {}
  __device__ __forceinline__ void seek(int begin) { start = begin - lane; }

  __device__ __forceinline__ void costs(int u, DoubleCell::Cost (&cost)[K]) {
    const int64_t column = first + clamp(start + u, columns) * step;
    double sum[K] = {};
    if (given) {
#pragma unroll
      for (int k = 0; k < K; k++) sum[k] = load<double>(a->x.data, row[k] + column, a->f64);
    } else {
      for (int f = 0; f < a->features; f++) {
        const double from = load<double>(a->y.data, column + f * a->y.stride[2], a->f64);
#pragma unroll
        for (int k = 0; k < K; k++) {
          const double difference = load<double>(a->x.data, row[k] + f * a->x.stride[2], a->f64) - from;
          sum[k] = fma(difference, difference, sum[k]);
        }
      }
    }
#pragma unroll
    for (int k = 0; k < K; k++) cost[k] = DoubleCell::split(sum[k], scale);
  }
};

}  // namespace sdtw::cuda
