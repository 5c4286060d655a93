// What the ISA-specific translation units offer to StripPair and LaneGroup: tables of functions that each
// work on one tile in cache. A tile is [steps][K][W] numbers: W SIMD lanes, K rows a lane.
//
// Two mappings of a pair's cells share these kernels:
//   strips (skewed): lane l holds rows l K .. l K + K - 1 of a strip of W K rows and is at column s - l in step s;
//   lanes:           lane l holds K rows of a pair of its own; all lanes are at column s in step s.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>

#include "core/half.h"
#include "core/numbers.h"
#include "core/steps.h"
#include "names.h"
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

// How costs come to a sweep: as they are, or, of series, in double and split, which the float64 engine knows nothing
// of. point_cost: as plain ones, but computed by the sweep itself: those of a single feature take less time than the
// tile.
enum CostForm { plain_cost, double_cost, cost_forms, point_cost = cost_forms, sweep_forms };

template <class T>
struct Sweep {
  using E = typename core::Exponent<T>::type;
  int64_t steps;
  const T *cost;       // [steps][K][W], or split
  T scale, scale_low;  // log2(e) / gamma, and what its rounding to T has lost
  LaneState<T> state;
  // The row above the tile, overwritten in place by the tile's last row. Points at the first step.
  // strips: element s is read and element s - W written; lanes: vector s is both.
  T *row_m;
  E *row_e;
  // How cells are entered, [steps][K][3][W]: what comes from up, left, diagonal, as terms of a sum (core::Terms) or, of
  // rules other than the core's, as probabilities, which are terms of a sum of 1; 0 where nothing does. sweep_save
  // only.
  T *entries;
  // point_cost: in place of costs, the K rows [K][W], and the columns: of the first step, of one lane after the other
  // where lanes are pairs, else that of lane 0, with those before it behind.
  const T *x = nullptr, *y = nullptr;
};

// E[i,j] = p_up(i+1,j) E[i+1,j] + p_left(i,j+1) E[i,j+1] + p_diagonal(i+1,j+1) E[i+1,j+1], steps descending.
template <class T>
struct AdjointSweep {
  int64_t steps;
  const T *entries;
  T *alignment;  // [steps][K][W]: written
  T *left;       // [K][W]: what the cells to the right pass on, in and out
  T *diagonal;   // [K][W]: likewise; [0] goes to the row above
  T *above;      // [W]: what row 0 has passed up, on its way to the lane before (strips)
  // What the tile below passes up, overwritten by what this tile passes up. Points at the first (lowest) step.
  // strips: element s - W + 1 is read and s + 1 written; lanes: vector s is both.
  T *row;
};

// At gamma = 0 a cell is R itself, as a double. In the 8 bytes of a float cell's m and e it is a float, in m, and the
// rest as another, in e: 48 bits.
template <class T>
inline void put_hard(double r, T *m, typename core::Exponent<T>::type *e) {
  *m = static_cast<T>(r);
  if constexpr (sizeof(T) == 4) {
    const float rest = r <= 3e38 ? static_cast<float>(r - double(*m)) : 0;
    std::memcpy(e, &rest, sizeof rest);
  } else {
    *e = 0;
  }
}
template <class T>
inline double get_hard(const T *m, const typename core::Exponent<T>::type *e) {
  if constexpr (sizeof(T) == 8) return *m;
  float rest;
  std::memcpy(&rest, e, sizeof rest);
  return double(*m) + double(rest);
}

// What the diagonal step has more than the vertical one, beside core::Step's.
constexpr int diagonal_rest = core::step_count;

// What the three steps into a cell do to it; indexed by core::Step.
template <class T>
struct StepRule {
  // Soft minimum. A step costs weight t + penalty, in bits: t = D log2(e) / gamma. Of weights, diagonal_rest's too:
  T scale[core::step_count + 1], scale_low[core::step_count + 1];  // weight log2(e) / gamma, and what rounding has lost
  // Of costs that come split, which have been scaled by one of the weights: how often this one has it.
  T ratio[core::step_count + 1], ratio_low[core::step_count + 1];
  typename core::Exponent<T>::type penalty[core::step_count];  // its nearest integer, and with what is left, f,
  T excess[core::step_count];                                  // 2^-f - 1
  T weight[core::step_count];
  T inverse_gamma;  // tangents
  // Minimum.
  double hard_weight[core::step_count], hard_penalty[core::step_count];
};

using core::StepShape, core::one_weight, core::doubled_diagonal, core::heavier_diagonal, core::any_weights,
    core::step_shapes;

// A sweep by a rule other than the core's: steps that differ, a band, a minimum, tangents.
template <class T>
struct RuleSweep {
  using E = typename core::Exponent<T>::type;
  Sweep<T> of;  // minimum: m and e hold R, as the kernels' head says; entries: [steps][K][W], which step was taken
  const StepRule<T> *rule;
  // masked: cell (s, k, l) is admissible for first[k W + l] <= s < end[k W + l], s counted from the tile's first step.
  const E *first, *end;
  const double *wide_first, *wide_end;  // likewise, for the minimum
  // Tangents: dR beside Z, in and out as in LaneState and Sweep::row_m. Probabilities are followed by their
  // derivatives: [steps][K][6][W].
  const T *tangent;  // [steps][K][W]: the costs'
  T *dot;            // [K][W]
  T *above_dot;      // [W]
  T *row_dot;
};

// A sweep where lanes hold pairs of which each has a band of its own: cell (s, k, l) is admissible for
// first[k W + l] <= column + s < end[k W + l].
template <class T>
struct LaneSweep {
  using E = typename core::Exponent<T>::type;
  Sweep<T> of;
  int64_t column;                       // of the tile's first step
  const E *first, *end;                 // soft minimum
  const double *wide_first, *wide_end;  // minimum
  const StepRule<T> *rule;              // of steps that differ
};

template <class T>
struct RuleAdjoint {
  AdjointSweep<T> of;  // alignment is weighted: E times the expected weight of the step into the cell
  const StepRule<T> *rule;
  // Tangents, each beside its namesake in AdjointSweep.
  T *alignment_dot, *left_dot, *diagonal_dot, *above_dot, *row_dot;
};

// Costs of a tile from series, or the gradient through them. Strides in elements.
template <class T>
struct FusedTile {
  int64_t steps, features;
  const T *x, *y;
  int64_t x_feature, x_row, y_feature, y_step;
  const double *wide_x, *wide_y;  // double_cost: the series widened, laid out as x and y
  double scale;                   // split: log2(e) / gamma
  const double *norm_x, *norm_y;  // products: in place of x and y wide_x and wide_y have what `centred` makes of them,
  int64_t norm_step;              // and these the norms: of row k at norm_x + k W, of step s at norm_y + s norm_step
  T *cost;                        // cost: written; slopes: read
  T *alignment;                   // slopes: multiplied; gradient: read. May be where the cost is, but for slopes
  T *grad_x, *grad_y;             // gradient: laid out as x and y; sum E (y - x), or its sign, added to both, or, if
  T *rest_x, *rest_y;             // grad_y is null, to x's, with what these sums have lost to rounding; rest_y: strips
  double *wide_grad_x, *wide_grad_y;  // cosine, for T = float: these sums in place of grad_x and grad_y
};

// A strip's tile of many features on the way from E to gradients: series and gradients lie here as [time
// step][features], features being a multiple of all widths. Of x, the strip's own rows.
template <class T>
struct RowTile {
  int64_t steps, features;
  int64_t first_step, columns;  // lane l is at column first_step + s - l in step s; E is 0 past the last column
  const T *alignment;
  const T *x, *y;
  T *grad_x, *grad_y, *rest_x, *rest_y;  // as in FusedTile
};

// What tangents add to a tile of series.
template <class T>
struct TangentTile {
  FusedTile<T> of;   // cost: read where the slope takes it
  const T *x, *y;    // tangents, laid out as the series
  T *tangent;        // the costs' derivative along them
  T *alignment_dot;  // that of what is in of.alignment
};

// Moves a tile between the caller's matrix and [steps][K][W]. Cell (s, k, l) is at
// data + l lane_stride + k row_stride + s step_stride, or at lane_offset[l] + ... if there are any, and exists for
// first[l] <= s < last[k W + l].
struct MatrixTile {
  int64_t steps;
  const void *source;
  void *target;
  int64_t lane_stride, row_stride, step_stride;
  const int64_t *lane_offset;  // [W], or null
  int64_t first_step;          // of the tile: s runs from here
  const int64_t *first;        // [W]
  const int64_t *last;         // [K][W]
  double limit;                // load: largest |cost| that T's engine takes; for double |cost| is below it
};

// Packed points: feature f of point i of a block at data + block `block` + f stride + i, i < count, which is a multiple
// of all widths. Centre: one number a feature, or, of lanes, as a block has them.
template <class T>
struct PointBlocks {
  const T *data;
  int64_t blocks, block, features, stride, count;
  const T *centre;
  bool lanes;
};

// Points whose cosine distance is wanted (cpu/cosine.h).
template <class T>
struct CosineBlock {
  T *points;        // [features][stride], replaced
  double *wide;     // for T = float: in place of them; else null
  double *inverse;  // 1 / (norm sqrt(2)) of each point, or 0
  int64_t stride, count;
};
constexpr double half_root = 0.70710678118654752440;  // of 2

// What a metric does with a tile. core/metric.h says what a new one takes.
template <class T>
struct MetricKernels {
  void (*cost[cost_forms])(const FusedTile<T> &);
  void (*products)(const FusedTile<T> &);            // double_cost by products of points, where has_products
  void (*slopes[cost_forms])(const FusedTile<T> &);  // null where the slope is the same for all costs
  void (*gradient)(const FusedTile<T> &);
  void (*row_gradient)(const RowTile<T> &);  // strips only
  void (*tangent[cost_forms])(const TangentTile<T> &);
  // From E and its derivative to what differences of points, and those of tangents, are multiplied by in the derivative
  // of the gradient, in of.alignment_dot and of.alignment; null where these are they.
  void (*tangent_slopes[cost_forms])(const TangentTile<T> &);
  bool bends;    // whether the gradient depends on tangents of the points as such
  double slope;  // what all slopes have in common, and sums of gradients are to be multiplied by
};
constexpr int metrics = std::size(names::metrics);

template <class T>
struct MappingKernels {
  int rows;  // K
  // Forward, and forward keeping entries. Double costs come split, [steps][K][2][W].
  void (*sweep[sweep_forms])(const Sweep<T> &);
  void (*sweep_save[sweep_forms])(const Sweep<T> &);
  void (*adjoint)(const AdjointSweep<T> &);
  MetricKernels<T> metric[metrics];  // by sdtw_metric
  // Cells that do not exist become 0. Returns nonzero if a cost is not the engine's: for float larger than the limit or
  // not finite, for double anything but +infinity that is not below the limit; with lanes holding pairs it says nothing
  // about which. By the matrix' sdtw_dtype; the float engine never meets a double one.
  int (*load[core::dtypes])(const MatrixTile &, T *tile);
  void (*store[core::dtypes])(const MatrixTile &, const T *tile, const T *factor /* [W] */);
};

// Strips only. [false][...] does less than [true][...].
template <class T>
struct RuleKernels {
  using Function = void (*)(const RuleSweep<T> &);
  // The core's steps and soft minimum within a band: [form][keeping entries].
  Function core[cost_forms][2];
  // Soft minimum: [form][shape][keeping entries][masked], and with tangents.
  Function soft[cost_forms][step_shapes][2][2];
  Function tangent[cost_forms][step_shapes][2];
  // Minimum: [steps that differ][masked][keeping steps: not, ties to vertical ones, to horizontal ones].
  Function hard[2][2][3];
  void (*adjoint)(const RuleAdjoint<T> &);          // of steps of other weights than 1
  void (*adjoint_tangent)(const RuleAdjoint<T> &);  // any
};

// Lanes only. `core`: of the core's steps; others take a mask always.
template <class T>
struct LaneKernels {
  using Function = void (*)(const LaneSweep<T> &);
  // Soft minimum, the core's within a band: [form][shape][keeping entries].
  Function core[cost_forms][2];
  Function soft[cost_forms][step_shapes][2];
  // Minimum: [masked][not keeping entries; keeping them, of which one is 1, with ties as RuleKernels::hard].
  Function hard_core[2][3];
  Function hard[3];
  void (*adjoint)(const RuleAdjoint<T> &);  // of steps of other weights than 1
  // Of `count` vectors, lane by lane: raises largest [W] to the largest; adds them to sum [W]; each times 1 + excess
  // [W].
  void (*largest)(const T *values, int64_t count, T *largest);
  void (*total)(const T *values, int64_t count, double *sum);
  void (*grow)(T *values, int64_t count, const T *excess);
};

template <class T>
struct Kernels {
  int width;  // W
  MappingKernels<T> strips, lanes;
  // MappingKernels::load and store with K = 1: interleaves W pairs' series.
  decltype(MappingKernels<T>::load) pack;
  decltype(MappingKernels<T>::store) unpack;
  // `count` numbers from and to the caller's arrays, the latter times a factor; by dtype, as in MappingKernels::load.
  void (*load_row[core::dtypes])(const void *from, T *to, int64_t count);
  void (*store_row[core::dtypes])(const T *from, T factor, void *to, int64_t count);
  RuleKernels<T> rules;
  LaneKernels<T> of_lanes;
  double (*total)(const T *values, int64_t count);
  void (*grow)(T *values, int64_t count, T excess);                 // times 1 + excess
  void (*reach[2])(const PointBlocks<T> &, T *largest, T *poison);  // [absolute]; results: [W]
  // [by coordinates, not squares]; wide: laid out as the data; norm: [blocks][count].
  void (*centred[2])(const PointBlocks<T> &, double factor, double of_norm, double *wide, double *norm);
  bool (*normalise)(const CosineBlock<T> &, int64_t features);
  void (*project)(const CosineBlock<T> &, int64_t features, const double *sums, T *gradient);
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
const Isa &isa_neon();
const Isa &isa_kernels(sdtw_cpu_isa isa);  // of one that has_isa

}  // namespace sdtw::cpu
