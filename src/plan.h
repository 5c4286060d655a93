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
  int64_t units;                 // independent pieces of work: pairs, or groups of lane_group pairs
  int64_t tile_rows, tile_cols;  // of a tile; with strips tile_cols counts steps of the skewed sweep
  int64_t tiles_down, tiles_across;
  size_t state_bytes;
  size_t forward_bytes, backward_bytes, alignment_bytes;
};

}  // namespace cpu

namespace cuda {

// Rows of a strip in each of a warp's 32 lanes: the same for every problem, so that a pair's value is the same bit for
// bit whatever it is padded to.
constexpr int rows_per_lane = 4;

// Up to so many features the sweeping warp computes costs, and gradients, itself.
constexpr int max_inline_features = 2;

// Warps of a block that compute costs of more features.
constexpr int producers_of_tiles = 4;

// Where the costs of a float32 problem's pairs come from, if the fast engine computes them: the caller's matrix; the
// sweeping warp, from points of few features; other warps, by matrix instructions.
enum class Costs : int { given, inlined, tensor };

constexpr int bounds_per_pair = 3;

// Steps of a tile that backward recomputes and sweeps, where shared memory has room for it.
constexpr int max_tile_steps = 32;

// The class that a kernel has its costs from: those of cuda/costs/, and names for them in cuda/select_kernel.cuh.
enum class Source : int {
  none,
  given,
  inline_one,
  inline_two,
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
  differences,
  direct,
};

// A kernel that sweeps. none: it is not launched.
struct Kernel {
  Source source;
  int tile_steps, cost_columns;  // of backward: steps of a tile; columns of costs in shared memory, of producers
  size_t shared_bytes;           // of a block
};
// Those of one call, in the order in which it launches them: FloatCell's, that for costs too large for words
// (backward), and DoubleCell's.
struct Kernels {
  Kernel single, large, wide;
};

// Decisions of the CUDA backend.
struct Plan {
  Costs costs;
  int64_t lanes;        // of a warp for a pair: 32, or 16 or 8 if that is enough for all its rows
  int64_t strips;       // of a pair
  int64_t tasks;        // of one warp: strips of all pairs, or 32 / lanes pairs each
  bool full_sweeps;     // forward: both sweeps of a pair go through all of its strips
  int64_t interval;     // steps of the skewed sweep between two checkpoints
  int64_t checkpoints;  // of a task
  int64_t words;        // 8-byte words of a stored cell: 1, or 2 for float64

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
  size_t forward_bytes, backward_bytes, alignment_bytes;

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
std::string describe(const sdtw::Plan &plan);
}  // namespace cpu
namespace cuda {
sdtw::Plan make_plan(const Problem &problem, const Exec &exec);
std::string describe(const sdtw::Plan &plan);
}  // namespace cuda

}  // namespace sdtw
