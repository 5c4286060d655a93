// LaneGradients: gradients of up to eight float32 features, by a warp whose lanes have the same rows as those of the
// adjoint sweep: grad_x is summed up in the lane's registers, and the sum of a column of grad_y goes from lane to lane
// by shuffles, in the steps in which E went. ShuffleGradients has them of E that another warp leaves in shared memory,
// WarpBackward of E that the same warp has in registers.
#pragma once

#include "cuda/gradients/epilogues.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

template <int features>
struct LaneGradients {
  // Else points may have fewer features, and the others count as 0.
  static constexpr bool exact = features <= max_inline_features;
  struct alignas(features % 4 == 0 ? 16 : features % 2 == 0 ? 8 : 4) Point {
    float v[features];
  };
  using Sums = float[features][K];

  const Args &a;
  const StripView &s;
  Progress progress;
  Point *leaving;  // in shared memory, of the pair, by step: sums that leave the first lane
  char *of_y;      // grad_y, or the sums for it (has_wide_sums)
  char *separate;  // `side`
  Sums x, grad_x;
  Sums rest;     // what grad_x has lost to rounding, since many tiles add to it (Kahan 1965)
  Sums part;     // what is yet to be added to grad_x
  Point column;  // the sum for grad_y at the lane's last column, over this lane and those below
  float factor;  // see gradient_factor; 0 if this kernel does not compute the pair

  __device__ __forceinline__ LaneGradients(const Args &args, const StripView &view)
      : a(args), s(view), progress(args, view), part{}, column{} {
    factor = s.active ? gradient_factor<float>(a, s.pair.index) : 0;
    of_y = sums_of(a.grad_y);
    separate = sums_of(a.side);
    const float *from = static_cast<const float *>(a.x.data) + x_of(a, s.pair.index) * a.x.stride[0];
#pragma unroll
    for (int k = 0; k < K; k++) {
      const float *const row = from + static_cast<int64_t>(clamp(s.row_of(k), s.pair.n)) * a.x.stride[1];
#pragma unroll
      for (int f = 0; f < features; f++) {
        grad_x[f][k] = rest[f][k] = 0;
        x[f][k] = has(f) ? __ldg(row + f * a.x.stride[2]) : 0;
      }
    }
  }
  __device__ __forceinline__ bool has(int feature) const { return exact || feature < a.features; }
  // Where the pair's sums begin.
  __device__ __forceinline__ char *sums_of(const sdtw_out &out) const {
    return static_cast<char *>(out.data) + s.pair.index * out.stride[0] * sum_size(a);
  }
  // last: the strip's last tile, with which the warp begins. The strip adds nothing beyond it.
  __device__ __forceinline__ void begin(int last) const {
    if (lane_id() == 0) progress.report((last + 1) << a.tile_bits);
  }

  // One step, from right to left: E of the lane's cells, and y of their column. lowest: the pair's last lane.
  __device__ __forceinline__ void meet(const Rows<float> &e, const Point &y, bool lowest) {
#pragma unroll
    for (int f = 0; f < features; f++) {
      const float from_lane = __shfl_down_sync(all_lanes, column.v[f], 1);
      float own = 0;  // the lane's own part, which does not wait for the shuffle
#pragma unroll
      for (int k = 0; k < K; k++) {
        const float difference = x[f][k] - y.v[f];
        part[f][k] = fmaf(e.v[k], difference, part[f][k]);
        own = fmaf(-e.v[k], difference, own);
      }
      column.v[f] = (lowest ? 0.0f : from_lane) + own;
    }
  }
  // Adds what half a tile has given to grad_x.
  __device__ __forceinline__ void keep() {
#pragma unroll
    for (int f = 0; f < features; f++)
#pragma unroll
      for (int k = 0; k < K; k++) {
        const float with_rest = part[f][k] + rest[f][k], sum = grad_x[f][k] + with_rest;
        rest[f][k] = with_rest - (sum - grad_x[f][k]);
        grad_x[f][k] = sum;
        part[f][k] = 0;
      }
  }

  // Adds a sum of a feature to grad_y, or `side`, on top of what the strips before have added.
  __device__ __forceinline__ void add(int f, int at, float sum) const {
    const int column = s.column_of(s.pair, at);
    const bool apart = progress.is_separate(column);
    char *const to =
        (apart ? separate + ((column - progress.separate) * a.side.stride[1] + f * a.side.stride[2]) * sum_size(a)
               : of_y + (column * a.grad_y.stride[1] + f * a.grad_y.stride[2]) * sum_size(a));
    if (a.wide_sums)
      atomicAdd(reinterpret_cast<double *>(to), static_cast<double>(factor) * static_cast<double>(sum));
    else
      atomicAdd(reinterpret_cast<float *>(to), factor * sum);
  }

  // Adds what has left the first lane in `steps` steps from `first` on.
  __device__ __forceinline__ void hand_in(int first, int steps) {
    progress.wait(first, first + steps);
    if (s.active)
      for (int u = s.lane; u < steps && first + u < s.pair.m; u += s.lanes) {
#pragma unroll
        for (int f = 0; f < features; f++)
          if (has(f)) add(f, first + u, leaving[u].v[f]);
      }
    __syncwarp();
  }
  __device__ __forceinline__ void report(int column) const {
    if (a.strips > 1 && lane_id() == 0) progress.report(column);
  }

  // After the leftmost tile, `first`, E has left the strip: sums that are on their way to the first lane are complete,
  // and are added by the lanes that have them. Then grad_x is written.
  __device__ __forceinline__ void finish(int first) {
    const int at = (first << a.tile_bits) - s.lane;
    if (a.grad_y.data) {
      if (first > 0) {
        progress.wait((first << a.tile_bits) - (warp - 1), first << a.tile_bits);
        if (s.active && s.lane > 0 && at >= 0 && at < s.pair.m) {
#pragma unroll
          for (int f = 0; f < features; f++)
            if (has(f)) add(f, at, column.v[f]);
        }
        __syncwarp();
      }
      report(0);
    }
    if (!a.grad_x.data || !s.active || s.lane > s.end_lane) return;
    for (int k = 0; k < K; k++) {
      if (s.row_of(k) >= s.pair.n) continue;
      char *to = sums_of(a.grad_x) + s.row_of(k) * a.grad_x.stride[1] * sum_size(a);
#pragma unroll
      for (int f = 0; f < features; f++, to += a.grad_x.stride[2] * sum_size(a))
        if (!has(f))
          continue;
        else if (a.wide_sums)
          *reinterpret_cast<double *>(to) = static_cast<double>(factor) * static_cast<double>(grad_x[f][k]);
        else
          *reinterpret_cast<float *>(to) = factor * grad_x[f][k];
    }
  }
};

}  // namespace sdtw::cuda
