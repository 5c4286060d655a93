// The arguments of every kernel: the problem, the caller's arrays, and where each array of the state and the workspace
// begins. The host fills Args once per call (backend.cu, select_kernel.cu); kernels get it by value and never change
// it.
// Invariant: Control, bounds, rows, left, flows and progress are set to all ones at the beginning of a call, and no
// kernel writes all ones to rows, left, flows or progress, so the data are their own flags: a reader knows whether a
// word has been written. That costs one write of these arrays per call, and no other flags are needed. Forward with
// has_warp_fallback (pair.cuh) has no such readers and resets nothing.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/band.h"
#include "plan.h"
#include "sdtw.h"

namespace sdtw::cuda {

// The unit of state and workspace. All ones marks a word that has not been written in this call.
using Word = unsigned long long;

// How a Z is stored. one_word: FloatCell stores its float and its int, LongCell 23 bits of m and
// 41 of its exponent, and DoubleCell (for pairs of a float32 problem) what
// core/packed.h makes of its two doubles. two_words: the doubles m and e of DoubleCell, for float64 problems.
// float_word: where LongCell reads one_word that FloatCell has stored; not the problem's format.
enum Format : int { one_word, two_words, float_word };

// What is known of the boundary between two strips at which the top-down and the bottom-up sweep of a pair meet, for
// one of these two strips.
struct Midline {
  double m, e;      // Z of the pair, m 2^e, summed up over the columns of this boundary
  int first, last;  // the columns, as the strip's half counts them, outside of which the probability of crossing the
                    // boundary is negligible
};

// Likewise of the general engine: how E enters a strip from the one below.
struct Entrance {
  double m, e;      // Z of the pair, m 2^e, summed up over the columns of the strip's last row
  double dot;       // of tangents: the derivative of the pair's R along them, times 1 / gamma
  int first, last;  // the columns outside of which the probability that a path leaves the strip is negligible; last <
                    // 0: there are none
};

// A pair of several strips is swept from both ends: its upper half from the top, its lower half from the bottom.
constexpr int halves = 2;

// Words in `flows` for E of one column. FloatCell needs one and DoubleCell two. Both get two, so that the words of a
// pair never lie where the other engine has written those of another pair.
constexpr int flow_words = 2;

// Counters of one call. All of them begin at -1 (all ones), so a counter's value is one less than what it has counted.
struct Control {
  Word ticket[4];  // the last task that was handed out: to FloatCell, to DoubleCell, to LongCell, unless it shares
                   // DoubleCell's, and to FloatCell's second backward kernel. Where forward's second kernel has rows to
                   // reset, its tickets count these first, one per pair, and then the tasks.
  int any_double;  // 1 if there are pairs for DoubleCell, which otherwise does nothing in a float32 problem; or, in
                   // forward of costs that have no bounds, for any but FloatCell
  int any_long;    // 1 if there are pairs for LongCell, which otherwise does nothing either
  int any_large;   // 1 if there are pairs of FloatCell's whose costs are too large for a WordRing (costs/rings.cuh)
  int rows_reset;  // how many pairs' rows forward's second kernel has reset, less one
  int unused[4];
};
static_assert(sizeof(Control) == 64, "the arrays behind it stay aligned");

// How forward of a pair ended.
enum Status : int { status_finite = 0, status_unreachable = 1, status_not_a_number = 2 };

// Which series a pair is made of.
struct SeriesOfPair {
  int64_t x, y;
};

// The square root of log2(e) / gamma, also as the sum of two floats.
struct Root {
  double whole;
  float high, low;
  Root() = default;
  explicit Root(double scale)
      : whole(std::sqrt(scale)), high(static_cast<float>(whole)), low(static_cast<float>(whole - high)) {}
};

// A number of some 46 bits as the sum of two floats (costs/two_floats.cuh).
struct TwoFloats;

struct Args {
  sdtw_in x, y;                // the series; with given costs x is the cost matrix, and y is unused
  const void *x_len, *y_len;   // lengths of the series; null: all are n, or m
  const SeriesOfPair *series;  // [batch]; null: pair b is x_b and y_b
  bool units;                  // cosine: costs are of points divided by their norms
  // These, [batch][n] and [batch][m][features]. x and y are float32 of them, as gradients are to be made of; features
  // are a multiple of unit_features_at_once, of which those that the series lack are 0.
  const TwoFloats *unit_x, *unit_y;
  void *value;              // forward: [batch], of the problem's dtype
  const void *grad_value;   // backward: [batch], the gradient that flows into each value; null: 1
  sdtw_out grad_x, grad_y;  // backward: the gradients; with wide_sums, sums in the workspace; no data: not wanted
  sdtw_out dense;           // the alignment, or the gradient of a given cost: one element a cell
  bool scale_dense;         // whether dense is E times grad_value, not E
  bool f64, long_lengths;   // whether the problem's dtype is float64; whether lengths have 64 bits, not 32
  bool has_long;            // whether LongCell's kernels fit the GPU; if not, DoubleCell has their pairs
  Costs costs;              // where costs of FloatCell and LongCell come from in forward
  Costs backward_costs;     // the same in backward
  int64_t batch;            // pairs
  int n, m, features;       // rows and columns that arrays are padded to; features of a point
  bool banded;              // only cells of a corridor have a path; see Corridor
  int radius;               // of the corridor, less than n or m
  double scale;             // log2(e) / gamma
  Root root;

  int lanes;         // lanes of a warp for a pair: 32, or 16 or 8 if these are enough for n rows
  int lane_bits;     // log2(lanes)
  int64_t tasks;     // a task is a strip of a pair, or 32 / lanes pairs side by side
  int strips;        // strips that n rows take
  Format format;     // of each stored Z
  int interval;      // steps between two checkpoints
  int checkpoints;   // checkpoints of a task: after steps interval, 2 interval, ...
  Control *control;  // the counters of this call
  int *bounds;       // [batch][bounds_per_pair]: bounds of a pair's costs, which tell its engine; see pair.cuh
  int *status;       // [batch]: a Status each
  double *norms;     // [batch][n + m]: what points add to costs, for Costs::tensor; see norms_of
  bool slices;       // whether Costs::tensor are SliceCosts, and norms theirs (digits.cuh), not TensorCosts
  bool x_whole;      // of SliceCosts: x of all features is in shared memory
  bool full_sweeps;  // whether both sweeps of a pair go through all of its strips but the last, not only to the middle
  Word *rows;        // [batch][strips][m], or with full_sweeps [batch][halves][strips][m], the top-down sweep first: Z
                     // of the row that each strip hands on, columns in the order in which its sweep met them
  Word *saved;       // [batch][strips], or [tasks] if pairs share a warp, each [checkpoints][K + 1][32]: the registers
                     // of a strip's warp at each checkpoint; null: forward keeps no state

  // What follows is for backward only.
  int tile_steps;            // steps of a tile, which is what backward recomputes and sweeps at a time
  int tile_bits;             // log2(tile_steps)
  int part_bits;             // log2(interval / tile_steps)
  Midline *midlines;         // [batch][midlines_of(a)]: how E enters strips from the other sweep; see midline_into
  Word *left;                // [batch][strips]: the columns in which E leaves a strip; see adjoint_handoff.cuh
  Word *flows;               // [batch][halves][m][flow_words]: E that goes from a strip into the next of its half
  bool wide_sums;            // whether grad_x, grad_y and side are sums in double, which the last kernel rounds
  sdtw_out side;             // what the lower half adds to grad_y in columns to which the upper half adds, too
  int lower_grad_y_columns;  // columns of a pair that `side` has room for
  int cost_columns;          // columns whose costs are in shared memory at a time, if there are producer warps; also of
                             // forward with SliceCosts
  Word *snapshots;           // like `saved`, but of tiles between two checkpoints
  int snapshots_each;        // snapshots for each checkpoint; 0 if none are taken
  int *progress;             // [batch][strips], strips in the order in which they add to grad_y: 2^30 less the column
                             // from which on the strip has added all its part

  // For the kernels for short pairs alone, which have any metric and read half types.
  sdtw_metric metric;
  sdtw_dtype dtype;  // of series and gradients
  bool hard;         // gamma = 0
  bool swapped;      // whether x and y have changed places
  core::Band band;   // n and m are each pair's own
  // What a step into a cell costs is weight t + penalty, by the way that it comes.
  double weight[3], penalty[3];
  float largest_weight, largest_penalty;  // of all three, without their signs
};

}  // namespace sdtw::cuda
