// What the ISA-specific translation units offer to the drivers (strips.cpp, lanes.cpp): tables of functions that each
// work on one tile in cache. A tile is [steps][K][W] numbers: W SIMD lanes, K rows a lane.
//
// Two ways to walk a pair's cells share these kernels:
//   strips (skewed): lane l holds rows l K .. l K + K - 1 of a strip of W K rows and is at column s - l in step s;
//   lanes:           lane l holds K rows of a pair of its own; all lanes are at column s in step s.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/numbers.h"
#include "sdtw.h"

namespace sdtw::cpu {

// Rows of a strip, in any ISA and type: K = strip_rows / W.
constexpr int strip_rows = 64;
// Rows that a lane takes at a time when lanes hold pairs.
constexpr int lane_rows = 4;
// Widest vector of any ISA, in lanes.
constexpr int max_width = 16;
constexpr int max_vector_bytes = 64;
// Most steps of a tile.
constexpr int max_steps = 64;
// Skewed rows and series are padded by this much on both sides: lanes run ahead and behind by up to W steps.
constexpr int pad = 32;
// Room for m columns and pads: an odd number of cache lines, so that the features of a series, this far apart, do not
// share cache sets when m is a power of two.
constexpr int64_t padded_length(int64_t m) { return ((m + 2 * pad + 15) / 16 | 1) * 16; }

// What a sweep carries from one step to the next: the K rows' last cells, and the row above's, one step back.
template <class T>
struct LaneState {
  using E = typename core::Exponent<T>::type;
  T *m;  // [K][W]
  E *e;
  T *above_m;  // [W]
  E *above_e;
};

template <class T>
struct Sweep {
  int64_t steps;
  const T *cost;       // [steps][K][W], or split
  T scale, scale_low;  // log2(e) / gamma, and what its rounding to T has lost
  LaneState<T> state;
  // The row above the tile, overwritten in place by the tile's last row. Points at the first step.
  // strips: element s is read and element s - W written; lanes: vector s is both.
  T *row_m;
  typename core::Exponent<T>::type *row_e;
  T *probability;  // [steps][K][3][W]: up, left, diagonal; sweep_save only
};

// E[i,j] = p_up(i+1,j) E[i+1,j] + p_left(i,j+1) E[i,j+1] + p_diagonal(i+1,j+1) E[i+1,j+1], steps descending.
template <class T>
struct AdjointSweep {
  int64_t steps;
  const T *probability;
  T *alignment;  // [steps][K][W]: written
  T *left;       // [K][W]: what the cells to the right pass on, in and out
  T *diagonal;   // [K][W]: likewise; [0] goes to the row above
  T *above;      // [W]: what row 0 has passed up, on its way to the lane before (strips)
  // What the tile below passes up, overwritten by what this tile passes up. Points at the first (lowest) step.
  // strips: element s - W + 1 is read and s + 1 written; lanes: vector s is both.
  T *row;
};

// Costs of a tile from series, or the gradient through them. Strides in elements.
template <class T>
struct FusedTile {
  int64_t steps, features;
  const T *x, *y;
  int64_t x_feature, x_row, y_feature, y_step;
  const double *wide_x, *wide_y;  // double_cost: the series widened, laid out as x and y
  double scale;                   // split: log2(e) / gamma
  T *cost;                        // cost: written; slopes: read
  T *alignment;                   // slopes: multiplied; gradient: read. May be where the cost is, but for slopes
  T *grad_x, *grad_y;             // gradient: laid out as x and y; sum E (y - x), or its sign, added to both,
  T *rest_x, *rest_y;             // with what these sums have lost to rounding; rest_y: strips only
};

// Moves a tile between the caller's matrix and [steps][K][W]. Cell (s, k, l) is at
// data + l lane_stride + k row_stride + s step_stride, and exists for first[l] <= s < last[k W + l].
struct MatrixTile {
  int64_t steps;
  const void *source;
  void *target;
  int64_t lane_stride, row_stride, step_stride;
  int64_t first_step;    // of the tile: s runs from here
  const int64_t *first;  // [W]
  const int64_t *last;   // [K][W]
  double limit;          // load: largest |cost| that T's engine takes; for double |cost| is below it
};

// How costs of series come to the float engine; the float64 engine knows plain ones only.
enum CostForm { plain_cost, double_cost, cost_forms };

// What a metric does with a tile. A new one is a functor in core/metric.h and a row of the table in cpu/table.h.
template <class T>
struct MetricKernels {
  void (*cost[cost_forms])(const FusedTile<T> &);
  void (*slopes[cost_forms])(const FusedTile<T> &);  // null where the slope is the same for all costs
  void (*gradient)(const FusedTile<T> &);
  double slope;  // what all slopes have in common, and sums of gradients are to be multiplied by
};
constexpr int metrics = SDTW_COSINE + 1;

template <class T>
struct Walk {
  int rows;  // K
  // Forward, and forward keeping probabilities. Double costs come split, [steps][K][2][W].
  void (*sweep[cost_forms])(const Sweep<T> &);
  void (*sweep_save[cost_forms])(const Sweep<T> &);
  void (*adjoint)(const AdjointSweep<T> &);
  MetricKernels<T> metric[metrics];  // by sdtw_metric
  // Cells that do not exist become 0. Returns nonzero if a cost is not the engine's: for float larger than the limit or
  // not finite, for double anything but +infinity that is not below the limit; with lanes holding pairs it says nothing
  // about which. [0] float, [1] double
  int (*load[2])(const MatrixTile &, T *tile);
  void (*store[2])(const MatrixTile &, const T *tile, const T *factor /* [W] */);
};

template <class T>
struct Kernels {
  int width;  // W
  Walk<T> strips, lanes;
  // Walk::load and store with K = 1: interleaves W pairs' series.
  decltype(Walk<T>::load) pack;
  decltype(Walk<T>::store) unpack;
};

struct Isa {
  Kernels<float> f32;
  Kernels<double> f64;
  template <class T>
  const Kernels<T> &kernels() const;
};
template <>
inline const Kernels<float> &Isa::kernels<float>() const {
  return f32;
}
template <>
inline const Kernels<double> &Isa::kernels<double>() const {
  return f64;
}

const Isa &isa_baseline();
const Isa &isa_avx2();
const Isa &isa_avx512();
const Isa &isa_kernels(sdtw_cpu_isa isa);  // of one that has_isa

}  // namespace sdtw::cpu
