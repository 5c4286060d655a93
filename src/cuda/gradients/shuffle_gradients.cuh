// ShuffleGradients: LaneGradients by one warp of a block. With it a block has four, so that of two blocks each
// scheduler of a multiprocessor has two warps with 255 registers; a fifth one would leave 168, with which a step of
// recomputation takes half as long again. DoubleCell and more features take SparseGradients.
#pragma once

#include <climits>

#include "cuda/gradients/lane_gradients.cuh"
#include "cuda/pipeline/backward_pipeline.cuh"

namespace sdtw::cuda {

template <int features>
struct ShuffleGradients : LaneGradients<features> {
  using Lanes = LaneGradients<features>;
  using Lanes::a, Lanes::leaving, Lanes::s;
  using typename Lanes::Point;
  static constexpr int readers = 1;
  static constexpr bool wants_live = false;  // whether the sweep marks the steps in which lanes have any E
  static constexpr int resident = 2;

  // Shared memory of each pair: a ring of columns of y, with room for those that all lanes meet in half a tile, and the
  // sums that leave the first lane in half a tile. Every column is in the ring twice, as in InlineCosts. With 16 lanes
  // for a pair two blocks of three features have room for a ring of 32 columns, and not for one of 64.
  static constexpr int most_steps = max_tile_steps / 2;  // of half a tile
  __host__ __device__ static int ring_of(const Args &a) { return (1 << a.lane_bits) > most_steps ? 2 * warp : warp; }
  __host__ __device__ static int points_of(const Args &a) { return 2 * ring_of(a) + most_steps; }
  __host__ __device__ static size_t bytes(const Args &a) {
    return sizeof(Point) * points_of(a) * (warp >> a.lane_bits);
  }

  Point *y;         // of the pair, in shared memory
  int ring;         // its columns
  int first_of_y;   // the first column that is there
  const float *ys;  // y in the caller's array

  __device__ __forceinline__ ShuffleGradients(const Args &args, const StripView &view, unsigned char *memory, int)
      : Lanes(args, view), ring(ring_of(args)), first_of_y(INT_MAX) {
    y = reinterpret_cast<Point *>(memory) + (lane_id() >> a.lane_bits) * points_of(a);
    leaving = y + 2 * ring;
    ys = static_cast<const float *>(a.y.data) + y_of(a, s.pair.index) * a.y.stride[0];
  }

  // Loads y of the columns that the lanes meet in steps [first, end), but for those that the steps after them have met.
  __device__ __forceinline__ void load_y(int first, int end) {
    const int begin = first - (s.lanes - 1);
    for (int c = begin + s.lane; c < min(end, first_of_y); c += s.lanes) {
      const float *const from = ys + s.column_of(s.pair, clamp(c, s.pair.m)) * a.y.stride[1];
      Point point;
#pragma unroll
      for (int f = 0; f < features; f++) point.v[f] = this->has(f) ? __ldg(from + f * a.y.stride[2]) : 0;
      y[c & (ring - 1)] = y[(c & (ring - 1)) + ring] = point;
    }
    first_of_y = begin;
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
    if (steps > 0) this->hand_in(first, steps);
    if (half == 0) this->report(first);
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
    Column now = load(steps - 1);
    const auto step = [&](int u, int next) {
      const Column ahead = load(next);
      this->meet(now.e, now.y, lowest);
      if (first) leaving[u] = this->column;
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
    this->keep();
  }
};

}  // namespace sdtw::cuda
