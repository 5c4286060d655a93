// ShuffleGradients: gradients of up to four float32 features for FloatCell, by one warp. With it a block has four, so
// that of two blocks each scheduler of a multiprocessor has two warps with 255 registers; a fifth one would leave 168,
// with which a step of recomputation takes half as long again. Its lanes have the same rows as those of the adjoint
// sweep: grad_x is summed up in the lane's registers, and the sum of a column of grad_y goes from lane to lane by
// shuffles, in the steps in which E went. DoubleCell and more features take SparseGradients.
#pragma once

#include <climits>

#include "cuda/gradients/epilogues.cuh"
#include "cuda/pipeline/backward_pipeline.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

template <int features>
struct ShuffleGradients {
  static constexpr int readers = 1;
  static constexpr bool wants_live = false;  // whether the sweep marks the steps in which lanes have any E
  static constexpr int resident = 2;
  struct alignas(features == 3 ? 4 : 4 * features) Point {
    float v[features];
  };

  // Shared memory of each pair: a ring of columns of y, with room for those that all lanes meet in half a tile, and the
  // sums that leave the first lane in half a tile. Every column is in the ring twice, as in InlineCosts. With 16 lanes
  // for a pair two blocks of three features have room for a ring of 32 columns, and not for one of 64.
  static constexpr int most_steps = max_tile_steps / 2;  // of half a tile
  __host__ __device__ static int ring_of(const Args &a) { return (1 << a.lane_bits) > most_steps ? 2 * warp : warp; }
  __host__ __device__ static int points_of(const Args &a) { return 2 * ring_of(a) + most_steps; }
  __host__ __device__ static size_t bytes(const Args &a) {
    return sizeof(Point) * points_of(a) * (warp >> a.lane_bits);
  }

  const Args &a;
  const StripView &s;
  Progress progress;
  // Of the pair, and of its first feature, as pointers are below; leaving: by step of half a tile.
  Point *y, *leaving;  // in shared memory
  int ring;            // its columns
  int first_of_y;      // the first column that is there
  const float *ys;     // y in the caller's array
  char *of_y;          // grad_y, or the sums for it (has_wide_sums)
  char *separate;      // `side`
  float x[features][K], grad_x[features][K];
  float rest[features][K];  // what grad_x has lost to rounding, since many tiles add to it (Kahan 1965)
  Point column;             // the sum for grad_y at the lane's last column, over this lane and those below
  float factor;             // see gradient_factor; 0 if this kernel does not compute the pair

  __device__ __forceinline__ ShuffleGradients(const Args &args, const StripView &view, unsigned char *memory, int)
      : a(args), s(view), progress(args, view), ring(ring_of(args)), first_of_y(INT_MAX), column{} {
    y = reinterpret_cast<Point *>(memory) + (lane_id() >> a.lane_bits) * points_of(a);
    leaving = y + 2 * ring;
    factor = s.active ? gradient_factor<float>(a, s.pair.index) : 0;
    ys = static_cast<const float *>(a.y.data) + y_of(a, s.pair.index) * a.y.stride[0];
    of_y = sums_of(a.grad_y);
    separate = sums_of(a.side);
    const float *from = static_cast<const float *>(a.x.data) + x_of(a, s.pair.index) * a.x.stride[0];
#pragma unroll
    for (int k = 0; k < K; k++) {
      const float *const row = from + static_cast<int64_t>(clamp(s.row_of(k), s.pair.n)) * a.x.stride[1];
#pragma unroll
      for (int f = 0; f < features; f++) {
        grad_x[f][k] = rest[f][k] = 0;
        x[f][k] = __ldg(row + f * a.x.stride[2]);
      }
    }
  }
  // Where the pair's sums begin.
  __device__ __forceinline__ char *sums_of(const sdtw_out &out) const {
    return static_cast<char *>(out.data) + s.pair.index * out.stride[0] * sum_size(a);
  }
  // last: the strip's last tile, with which the warp begins. The strip adds nothing beyond it.
  __device__ __forceinline__ void begin(int last) const {
    if (lane_id() == 0) progress.report((last + 1) << a.tile_bits);
  }

  // Loads y of the columns that the lanes meet in steps [first, end), but for those that the steps after them have met.
  __device__ __forceinline__ void load_y(int first, int end) {
    const int begin = first - (s.lanes - 1);
    for (int c = begin + s.lane; c < min(end, first_of_y); c += s.lanes) {
      const float *const from = ys + s.column_of(s.pair, clamp(c, s.pair.m)) * a.y.stride[1];
      Point point;
#pragma unroll
      for (int f = 0; f < features; f++) point.v[f] = __ldg(from + f * a.y.stride[2]);
      y[c & (ring - 1)] = y[(c & (ring - 1)) + ring] = point;
    }
    first_of_y = begin;
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

  template <class Visit>
  __device__ __forceinline__ void with_way(const Visit &visit) const {
    visit(OnlyWay{});
  }
  __device__ __forceinline__ void consume(int tile, int half, int number, const Rows<float> *e,
                                          BackwardPipeline &pipeline, OnlyWay) {
    if (a.dense.data)
      return AlignmentOutput<float, readers, true>(a, s, nullptr, 0).consume(tile, half, number, e, pipeline);
    const int half_steps = a.tile_steps / 2, first = (tile << a.tile_bits) + half * half_steps;
    const int steps = min(half_steps, s.steps - first);
    if (steps > 0) {
      load_y(first, first + steps);
      __syncwarp();
      sweep(first, steps, e + lane_id());
    }
    pipeline.leave(number, half);
    if (!a.grad_y.data) return;
    if (steps > 0) {
      progress.wait(first, first + steps);
      if (s.active)
        for (int u = s.lane; u < steps && first + u < s.pair.m; u += s.lanes) {
#pragma unroll
          for (int f = 0; f < features; f++) add(f, first + u, leaving[u].v[f]);
        }
      __syncwarp();
    }
    if (half == 0) report(first);
  }
  __device__ __forceinline__ void report(int column) const {
    if (a.strips > 1 && lane_id() == 0) progress.report(column);
  }
  // E of the lane's cells in a step, and y of their column.
  struct Column {
    Rows<float> e;
    Point y;
  };
  // The steps of half a tile, whose first is `begin`, from right to left. Each loads what the next one needs before it
  // stores what leaves: loads behind that store, which for all that the compiler knows may change what they load, would
  // keep the warp waiting in every step.
  __device__ __forceinline__ void sweep(int begin, int steps, const Rows<float> *e) {
    const bool lowest = s.lane == s.lanes - 1, first = s.lane == 0;
    const Point *own_y = y + ((begin - s.lane) & (ring - 1));
    const auto load = [&](int u) { return Column{e[u * transitions * warp], own_y[u]}; };
    float part[features][K]{};  // what this half tile adds to grad_x
    Column now = load(steps - 1);
    const auto step = [&](int u, int next) {
      const Column ahead = load(next);
#pragma unroll
      for (int f = 0; f < features; f++) {
        const float from_lane = __shfl_down_sync(all_lanes, column.v[f], 1);
        float own = 0;  // the lane's own part, which does not wait for the shuffle
#pragma unroll
        for (int k = 0; k < K; k++) {
          const float difference = x[f][k] - now.y.v[f];
          part[f][k] = fmaf(now.e.v[k], difference, part[f][k]);
          own = fmaf(-now.e.v[k], difference, own);
        }
        column.v[f] = (lowest ? 0.0f : from_lane) + own;
      }
      if (first) leaving[u] = column;
      now = ahead;
    };
    constexpr int unrolled = 4;
    int u = steps - 1;
#pragma unroll 1
    for (; u >= unrolled - 1; u -= unrolled) {
#pragma unroll
      for (int i = 0; i < unrolled; i++) step(u - i, i + 1 < unrolled ? u - i - 1 : max(u - unrolled, 0));
    }
#pragma unroll 1
    for (; u >= 0; u--) step(u, max(u - 1, 0));
#pragma unroll
    for (int f = 0; f < features; f++)
#pragma unroll
      for (int k = 0; k < K; k++) {
        const float with_rest = part[f][k] + rest[f][k], sum = grad_x[f][k] + with_rest;
        rest[f][k] = with_rest - (sum - grad_x[f][k]);
        grad_x[f][k] = sum;
      }
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
          for (int f = 0; f < features; f++) add(f, at, column.v[f]);
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
        if (a.wide_sums)
          *reinterpret_cast<double *>(to) = static_cast<double>(factor) * static_cast<double>(grad_x[f][k]);
        else
          *reinterpret_cast<float *>(to) = factor * grad_x[f][k];
    }
  }
};

}  // namespace sdtw::cuda
