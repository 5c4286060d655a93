// Problem + Exec -> Plan: every decision (algorithm, tile shape, threads, thresholds, sizes) is taken here, from sizes
// alone, before any data is seen. Backends carry it out.
#pragma once

#include <string>

#include "layout.h"
#include "problem.h"

namespace sdtw {

namespace cpu {

enum class Mapping {
  strips,  // SIMD lanes along an anti-diagonal of a strip of rows of one pair
  lanes,   // one pair per SIMD lane: small pairs, and enough of them
};

// Pairs of one unit of work when lanes hold pairs, in every instruction set.
constexpr int64_t lane_group = 16;

// Decisions of the CPU backend.
struct Plan {
  Mapping mapping;
  bool transposed;               // x and y have changed places, and so have rows and columns
  sdtw_cpu_isa isa;              // resolved: never AUTO
  int threads;                   // resolved: at least 1
  bool wavefront;                // strips: all threads share each pair, tile by tile, instead of taking a pair each
  int64_t works;                 // pairs that are computed: with SDTW_SYMMETRIC half of all
  int64_t units;                 // independent pieces of work: pairs, or groups of lane_group pairs
  int64_t tile_rows, tile_cols;  // of a tile; with strips tile_cols counts steps of the skewed sweep
  int64_t tiles_down, tiles_across;
  size_t state_bytes;
  size_t forward_bytes, backward_bytes, alignment_bytes, jvp_bytes;
};

}  // namespace cpu

namespace cuda {

constexpr int warp = 32;  // lanes

// Rows of a strip in each of a warp's lanes: the same for every problem, so that a pair's value is the same bit for
// bit whatever it is padded to.
constexpr int rows_per_lane = 4;

// Those of a stream's lanes at gamma = 0, whose cells take less time, beside which what is done once a step counts.
constexpr int hard_rows_per_lane = 8;

// Series of more features are not for streams.
constexpr int max_stream_features = 8;
// Warps that have the rows of one x in a stream.
constexpr int max_stream_warps = 8;

// Up to so many steps pairs may be short (cuda/short_pairs/); of more than the first, by squared distances, if they are
// few or have many features.
constexpr int most_short_steps = 64, most_steps_of_few = 128;

// Up to so many features the sweeping warp computes costs itself, and a warp gradients; and where there are enough
// strips to keep the GPU busy.
constexpr int max_inline_features = 4, max_inline_features_of_many = 8;

// Warps of a block that compute costs of more features.
constexpr int producers_of_tiles = 4;

// Where the costs of a float32 problem's pairs come from, if the fast engine computes them: the caller's matrix; the
// sweeping warp, from points of few features; other warps, by matrix instructions.
enum class Costs : int { given, inlined, tensor };

constexpr int bounds_per_pair = 3;

// Gradients of float32 problems of more steps are summed up in double.
constexpr int64_t longest_of_float_sums = 8192;

// Steps of a tile that backward recomputes and sweeps, where shared memory has room for it; wide: of the double engine,
// whose transition probabilities take twice as much of it.
constexpr int max_tile_steps = 32, wide_tile_steps = 16;

// The general engine: what is not the core case (src/cuda/general/).
namespace general {

// Where things lie in what forward leaves for backward, of a number of pairs.
struct Run {
  size_t control, flags, status, rows, rows_below, crossings, saved, bytes;
};

// The workspace of one call. Offsets of what is not there are those of what comes next.
struct Layout {
  int64_t wave;             // pairs of a launch: all, or as many as the budget of workspace has room for
  Run run;                  // of a wave, from `run_at` on, unless the caller's state has it
  int64_t interval, slots;  // steps between checkpoints; checkpoints of a strip
  size_t tickets, done, graded, reset_end;  // zeroed for each wave, from tickets on
  size_t run_at;                            // right behind that
  size_t entrances, snapshots;
  size_t points[2], directions[2], norms[2];  // of x and y: normalised, for SDTW_COSINE
  size_t pair_sums[2], pair_turns[2];         // gradients of each pair of the wave, and their derivatives
  size_t sums[2], turns[2];                   // of each series: all pairs
  size_t bytes;
};

// Where a block has little shared memory its tiles are smaller: there are so many of them for each of the others.
constexpr int small_tiles = 4;
// What steps of a problem have: nothing; penalties, and one weight; a diagonal one twice the weight of the two others,
// which is the symmetric form of Sakoe and Chiba 1978, and no penalties; weights of their own, and penalties. In
// double, of gamma = 0, and along tangents, the first and the last do for all.
enum class Rule { unit, penalised, doubled, weighted };
Rule rule_of(const Problem &p, bool wide);

// Whether the float engine takes tangents of the problem. Cosine's are of normalised points, which are doubles.
bool has_float_tangents(const Problem &p);

// Steps of a tile of backward: what fits shared memory. wide: of the double engine. several: a cell has a cost for each
// step into it, as at gamma = 0 none has.
constexpr int tile_steps(bool soft, bool wide, bool several, bool tangents) {
  return (wide && tangents) || (soft && wide && several) ? 8 : wide || several || tangents ? 16 : 32;
}

struct Plan {
  int64_t pairs;            // that are computed: of symmetric ones, a little more than half
  int64_t strips;           // of a pair
  int64_t interval, slots;  // of what forward leaves for backward, as in Layout
  int64_t row_columns;      // of a row that a strip hands on
  int64_t words;            // of a stored cell, as state has it
  int64_t point_features;   // as points are read by the sweeps: of normalised ones two more
  bool wide_sums;           // gradients are summed up in double
  bool direct;              // gradients are summed up in the caller's arrays
  double least_weight;      // of steps, that is not 0; -1: floats have no room for what is made of E by their weights
  Run state;                // of all pairs
  Layout forward, backward, alignment, jvp;
};

}  // namespace general

// Which kernels compute forward and backward: those of the core case, of a batch of pairs; these with a list of all
// pairs, a wave at a time, without state; or the general engine.
enum class Route : int { core, pairs, general };

// In the workspace of what is converted: series in float32, of as many features as are computed, and their gradients.
struct Scratch {
  size_t x, y, grad_x, grad_y;
};

// The core kernels without state: pairs at a time, and where their state, values and workspace lie in the workspace.
struct Waves {
  int64_t pairs;
  size_t state, value, workspace, bytes;
};

// Cosine by the core kernels: where points divided by their norms lie in the workspace of a call, and for backward
// these norms (cuda/units.h). Of x and of y.
struct UnitPoints {
  size_t points[2], norms[2];
};
// A unit point has zeros for features that its series lacks, so that so many can be loaded at once.
constexpr int64_t unit_features_at_once = 4;
// The features of points as the core kernels have them.
inline int64_t features_of_core(const Problem &p) {
  return p.metric == SDTW_COSINE ? round_up(p.features, unit_features_at_once) : p.features;
}

// Waves of Route::pairs in a call's workspace: which series each pair is of, the pairs' own values, state and
// gradients, and, of all waves, sums of the gradients of each series, in double.
struct PairWaves {
  int64_t pairs;
  size_t series, value, state, workspace, grad_x, grad_y, sums_x, sums_y, bytes;
};

// Values of pairs of short series of few features, without state (src/cuda/streams/).
struct Streams {
  bool fit;              // whether there is room for them in the workspace of forward
  bool always;           // whether they suit any arrays; if not, a batch that has the same x, or y, in all pairs
  bool everywhere;       // whether all GPUs have them; if not, those whose float64 is slow do not
  bool swapped;          // x and y have changed places
  int64_t lanes, warps;  // that have the rows of one x
  int64_t exact_warps;   // each with a row of m cells, of the kernel for pairs that need double; 0: as many as may be
  size_t control, rows, bytes;
};

// The class that a kernel has its costs from: those of cuda/costs/, and names for them in cuda/costs/sources.cuh.
enum class Source : int {
  none,
  given,
  inline_one,
  inline_two,
  inline_three,
  inline_four,
  inline_six,
  inline_eight,
  split_alone,
  split_of_many,
  split,
  split_of_pairs,
  packed_of_two,
  packed_of_four,
  words,
  smallest_words,
  packed,
  smallest,
  split_pieces,
  word_pieces,
  packed_pieces,
  slices,
  split_slices,
  slices_in_words,
  units,
  units_of_many,
  units_in_words,
  unit_slices,
  split_unit_slices,
  unit_slices_in_words,
  large,
  large_of_pairs,
  long_slices,
  differences,
  direct,
};

// A kernel that sweeps. none: it is not launched.
struct Kernel {
  Source source;
  int tile_steps, cost_columns;  // of backward: steps of a tile; columns of costs in shared memory, of producers
  size_t shared_bytes;           // of a block
  bool x_whole;                  // of SliceCosts: x of all features is in shared memory
  int warps;                     // of backward: of a block, of which each goes through strips by itself
                                 // (pipeline/warp_backward.cuh); 0: a pipeline of warps does
};
// Those of one call, in the order in which it launches them: FloatCell's, in backward that for costs too large for
// words, LongCell's and DoubleCell's, which are one launch if there are both.
struct Kernels {
  Kernel of_floats, of_large_costs, of_longs, of_doubles;
};

// What steps of a short pair's paths cost: the cells that they come to; or also penalties, and diagonal steps may weigh
// as much as the others or twice as much; or anything. A band asks for more than the first.
enum class Steps { unit, simple, weighted };

// Pairs of which a block has one each (cuda/short_pairs/), where float64 is not slow; else the core kernels have them.
struct ShortPairs {
  bool fit;
  bool squares;  // by squared distances, at gamma > 0 and without what follows: others have kernels for any metric
  Steps steps;
  bool swapped;         // x and y change places, so that the rows are those of the shorter series
  bool before_streams;  // so few that values alone at gamma = 0 take less time so than by streams, if these fit
  int rows_of_lane;     // 1, 2 or 4
  int warps;            // of a block, of squares; others have those of `rows_of_lane` (with_general_shape)
};

// Decisions of the CUDA backend.
struct Plan {
  Route route;
  bool transposed;  // x and y have changed places in the plan's problem, and so have rows and columns
  bool converted;   // series are copied as they are computed: as_computed
  Scratch scratch;
  Waves waves;
  bool units;     // costs are of points divided by their norms, where the GPU has the kernels; else `general` has all
  bool corridor;  // of a band, which the core kernels keep to, likewise
  bool aligns;    // the core kernels compute alignments; else `general` does, without state
  ShortPairs short_pairs;
  bool short_alone;  // of Route::pairs: if the GPU does not have the kernels for short pairs, `general` has all
  UnitPoints forward_units, backward_units;
  PairWaves forward_pairs, backward_pairs;
  Streams streams;
  general::Plan general;  // of Route::general, of jvp, of the alignment of what is converted and of all pairs, of units
  Costs costs;            // in forward, which tells engines
  Costs backward_costs;   // those of backward, which computes them again
  int64_t lanes;          // of a warp for a pair: 32, or 16 or 8 if that is enough for all its rows
  int64_t strips;         // of a pair
  int64_t tasks;          // of one warp: strips of all pairs, or 32 / lanes pairs each
  bool full_sweeps;       // forward: both sweeps of a pair go through all of its strips
  int64_t interval;       // steps of the skewed sweep between two checkpoints
  int64_t checkpoints;    // of a task
  int64_t words;          // 8-byte words of a stored cell: 1, or 2 for float64

  // Offsets. What forward runs on lies in state, or in workspace if there is no state: status, norms of points, and
  // what is reset by each call, unless pairs are alone (cuda/pair.cuh): control, bounds and rows; in state, behind
  // them, checkpoints, which are not reset.
  size_t status, norms, control, bounds, rows, saved;
  // In the workspace of backward and alignment: all before midlines is reset by each call, and what is between sums_x
  // and snapshots is zeroed.
  size_t back_control, progress, left, flows, midlines, sums_x, sums_y, side, snapshots;
  int64_t snapshots_each;        // of a checkpoint
  int64_t lower_grad_y_columns;  // of a pair
  bool wide_sums;                // gradients are summed up in double, in the workspace

  size_t state_bytes;
  size_t forward_bytes, backward_bytes, alignment_bytes, jvp_bytes;

  Kernels kernels;  // of the call at hand, as cuda::choose_kernels picks them for the current device; not for sizes
};

}  // namespace cuda

struct Plan {
  Problem problem;
  Exec exec;
  cpu::Plan cpu;    // valid if exec.device is SDTW_CPU
  cuda::Plan cuda;  // valid if exec.device is SDTW_CUDA

  sdtw_sizes sizes() const;
  std::string describe() const;
};

Plan make_plan(const Problem &problem, const Exec &exec);

namespace cpu {
sdtw::Plan make_plan(const Problem &problem, const Exec &exec);
sdtw::Plan tangent_plan(const sdtw::Plan &plan);  // of sdtw_jvp
std::string describe(const sdtw::Plan &plan);
}  // namespace cpu
namespace cuda {
sdtw::Plan make_plan(const Problem &problem, const Exec &exec);
sdtw::Plan make_plan_as_given(const Problem &problem, const Exec &exec);  // not transposed
std::string describe(const sdtw::Plan &plan);
// Whether the band of a problem leaves cells out, whatever the lengths of a pair.
bool is_banded(const Problem &problem);
// What decides between ways to compute the same. Tests change it, of their thread, to have problems of their size take
// a way that only others would.
struct Limits {
  size_t bytes_of_wave = size_t{192} << 20;  // that a call without state takes at most for a wave of pairs
  int64_t cells_copied = int64_t{1} << 20;   // from which on features are added to (as_computed)
  int64_t few_short_pairs = 132;             // that have a multiprocessor each, here of an H200, and more warps
  bool has_short_pairs = true;               // if not, the core kernels compute what is short, too
  bool prefers_warps = false;                // go through strips by themselves, however few strips there are
  bool prefers_inline_costs = false;         // of few features, likewise
};
extern thread_local Limits limits;
// So many pairs of a core problem, or of one that is but for SDTW_ALL_PAIRS, as a batch; and the exec with state.
Problem part_of(const Problem &problem, int64_t pairs);
Exec with_state(const Exec &exec);
// The core case, and values and gradients of it with a band that is the same from both ends of any pair; and a plan of
// it, of a batch.
bool takes_core(const Problem &problem);
Plan make_core_plan(const Problem &problem, const Exec &exec);
// Calls without state and all pairs, a wave of pairs at a time (plan_cuda_waves.cpp). Whether all pairs are to be
// computed as short ones, by no core kernels; and the plan of a wave of all pairs.
Waves make_waves(const Problem &problem, const Exec &exec);
PairWaves make_pair_waves(const Problem &problem, const Exec &exec, Call call);
bool are_short_alone(const Problem &problem);
Plan make_wave_plan(const Problem &problem, const Exec &exec, int64_t pairs);
// The part of a plan that is the general engine's (plan_cuda_general.cpp).
general::Plan make_general_plan(const Problem &problem, const Exec &exec);
std::string describe_general(const sdtw::Plan &plan);
// That of the short pairs (plan_cuda_short_pairs.cpp): `costs` are those that the core kernels would have.
ShortPairs make_short_pairs(const Problem &problem, Costs costs);
// That of the streams (plan_cuda_streams.cpp).
Streams make_streams(const Problem &problem, const Exec &exec);
std::string describe_streams(const sdtw::Plan &plan);
}  // namespace cuda

}  // namespace sdtw
