// Where everything lies in the CPU backend's state and workspace. Sizes (plan_cpu.cpp) and offsets (StripPair,
// LaneGroup) both come from these functions, and none depends on the instruction set.
#pragma once

#include <algorithm>

#include "core/metric.h"
#include "cpu/boundaries.h"

namespace sdtw::cpu {

constexpr size_t state_header_bytes = 192;

// Features of packed series: cosine's are marked where points have norm 0.
inline int64_t packed_features(const Problem &problem) {
  return problem.features + (problem.metric == SDTW_COSINE ? core::Cosine::more_features : 0);
}

// Whether a pair's costs in double may come from products of points, for which there is room then: where features are
// so few that this would not be faster, equal points keep a cost of 0.
inline bool has_products(const Problem &problem) {
  return problem.fused() && problem.metric != SDTW_EUCLIDEAN && problem.dtype != SDTW_F64 && problem.features >= 8;
}

// Whether gradients of a pair in strips are summed up a time step after the other, all features of it side by side, and
// how many numbers each then takes. Of fewer features vectors would not be full; cosine's gradients are projected, and
// tangents' summed up, as series are packed.
inline bool has_rows(const Problem &problem, const Plan &plan, bool tangents) {
  return plan.mapping == Mapping::strips && problem.features >= 16 && problem.metric != SDTW_COSINE && !tangents;
}
inline int64_t row_features(const Problem &problem) { return round_up<int64_t>(problem.features, max_width); }

// state: a header, of each pair that is computed its lengths and a byte that says what became of it, a byte per unit
// (its engine), a block per unit.
struct StateLayout {
  size_t lengths, kinds, engines, blocks, block;  // offsets; bytes of a block
  size_t bytes;

  StateLayout(const Problem &problem, const Plan &plan) {
    Arena arena;
    arena.add(1, state_header_bytes);
    lengths = arena.add(size_t(plan.works), 2 * sizeof(int32_t));
    kinds = arena.add(size_t(plan.works), 1);
    engines = arena.add(size_t(plan.units), 1);
    block = Boundaries::in_state(problem, plan).bytes;
    blocks = arena.add(size_t(plan.units), block);
    bytes = arena.bytes();
  }
};

// What a call does, as far as its workspace depends on it.
struct Need {
  bool adjoint = false, gradient = false;
  bool recompute = false;  // forward as well: there is no state
  bool tangents = false;
  static Need forward() { return {}; }
  static Need backward(bool gradient, bool recompute) { return {true, gradient, recompute, false}; }
  static Need jvp(bool gradient) { return {true, gradient, true, true}; }
};

// Most bytes of what a pair, or a group of lane_group pairs, keeps of how its cells are entered: what a core's share of
// the caches has room for. From memory that would not come faster than it is computed again.
constexpr size_t max_kept_bytes = size_t{3} << 20;

// How cells are entered (Sweep::entries), of tiles in rows of tiles: a call that computes forward itself keeps it of
// the same number of columns (strips: steps) of each row of tiles, for backward, which computes the others again.
struct KeptLayout {
  int64_t columns = 0;  // all, or a multiple of a tile's
  int64_t rows = 0;

  KeptLayout(const Problem &problem, const Plan &plan) {
    if (problem.gamma == 0) return;  // of a path few tiles are recomputed
    const bool lanes = plan.mapping == Mapping::lanes;
    rows = lanes ? round_up<int64_t>(problem.n, lane_rows) : plan.tiles_down * strip_rows;
    // A strip also has steps in which its last lanes are still to reach the last column.
    columns = lanes ? problem.m : problem.m + max_width;
    const double column = 3. * double(rows) * double(each(plan)) * double(problem.value_size());
    const auto most = int64_t(std::min(double(columns), double(max_kept_bytes) / column));
    if (most < columns) columns = most / plan.tile_cols * plan.tile_cols;
  }
  static int64_t each(const Plan &plan) { return plan.mapping == Mapping::lanes ? lane_group : 1; }
  size_t numbers(const Plan &plan) const { return size_t(3 * rows * columns * each(plan)); }

  // The first that are kept in row i of `down`, of all that the pair or group has: beside its diagonal, where most of E
  // is, and where a tile begins.
  int64_t begin(int64_t i, int64_t down, int64_t all, const Plan &plan) const {
    const int64_t last = std::max<int64_t>(0, ceil_div(all - columns, plan.tile_cols));
    const int64_t centre = (2 * i + 1) * all / (2 * down), half = (columns - plan.tile_cols) / 2;
    return std::clamp<int64_t>((centre - half) / plan.tile_cols, 0, last) * plan.tile_cols;
  }
};

// Scratch of one pair or group of pairs that is being worked on, and of one thread within it. An element is a double,
// for the float64 engine that any float32 problem may need, or a whole vector when lanes hold pairs.
struct ScratchLayout {
  size_t x = 0, y = 0, wide_x = 0, wide_y = 0, row_m = 0, row_e = 0, grad_x = 0, grad_y = 0, adjoint_row = 0;
  size_t rest_x = 0, rest_y = 0, centre = 0;
  size_t rows_x = 0, rows_y = 0;    // the series, where has_rows
  size_t norms_x = 0, norms_y = 0;  // of points: inverses of them (cosine), or as products take them
  size_t progress = 0, tile = 0, alignment = 0, entries = 0, state_m = 0, state_e = 0, carry_left = 0,
         carry_diagonal = 0;
  size_t segment_m = 0, segment_e = 0;
  size_t block = 0;                  // of boundaries
  size_t kept = 0, kept_number = 0;  // entries of tiles, and how many numbers these are: 0 if none is kept
  bool tangents = false;             // and what they take (cpu/tangents.h)
  size_t tangent_x = 0, tangent_y = 0, row_dot = 0, adjoint_row_dot = 0, dot_rows = 0, dot_columns = 0;
  size_t plain_x = 0, plain_y = 0, along_x = 0, along_y = 0;
  size_t tangent = 0, alignment_dot = 0, dot = 0, left_dot = 0, diagonal_dot = 0, segment_dot = 0;
  size_t out_x = 0, out_y = 0;  // gradients on their way to sums over pairs
  size_t shared_bytes = 0, local_bytes = 0;
  size_t sums_x = 0, sums_y = 0, sums = 0;  // of a call, behind the scratch of its threads; bytes

  ScratchLayout(const Problem &problem, const Plan &plan, Need need) {
    const bool backward = need.adjoint, gradient = need.gradient && problem.fused();
    const bool lanes = plan.mapping == Mapping::lanes;
    const size_t vector = lanes ? max_vector_bytes : 8;
    const size_t rows = size_t(plan.tiles_down * plan.tile_rows);
    const size_t cols = size_t(lanes ? round_up<int64_t>(problem.m, 16) : padded_length(problem.m));
    const size_t features = gradient || problem.fused() ? size_t(packed_features(problem)) : 0;
    Arena arena;
    x = arena.add(checked_mul(rows, features), vector);
    y = arena.add(checked_mul(cols, features), vector);
    const size_t widened = problem.dtype == SDTW_F64 ? 0 : features;  // for costs in double of series in float
    wide_x = arena.add(rows * widened, lanes ? 2 * vector : vector);
    wide_y = arena.add(cols * widened, lanes ? 2 * vector : vector);
    row_m = arena.add(cols, vector);
    row_e = arena.add(cols, vector);
    const bool by_rows = gradient && has_rows(problem, plan, need.tangents);
    const size_t summed = by_rows ? size_t(row_features(problem)) : gradient ? features : 0;
    rows_x = arena.add(by_rows ? rows * summed : 0, vector);
    rows_y = arena.add(by_rows ? cols * summed : 0, vector);
    const bool cosine = problem.metric == SDTW_COSINE;  // whose sums are in double, and gradients where rests would be
    const size_t sum = lanes && widened && cosine ? 2 * vector : vector;
    grad_x = arena.add(rows * summed, sum);
    grad_y = arena.add(cols * summed, sum);
    const size_t rested = widened ? summed : 0, narrow = lanes ? vector : sizeof(float);  // of sums in float alone
    rest_x = arena.add(rows * rested, narrow);
    rest_y = arena.add(lanes && !cosine ? 0 : cols * rested, narrow);
    const size_t normed = cosine || has_products(problem) ? 1 : 0;
    norms_x = arena.add(rows * normed, lanes ? 2 * vector : vector);
    norms_y = arena.add(cols * normed, lanes ? 2 * vector : vector);
    centre = arena.add(features, 8);
    adjoint_row = arena.add(backward ? cols : 0, vector);
    progress = arena.add(plan.wavefront ? size_t(plan.tiles_down) + 8 : 0, 8);
    // Boundaries, too, where all entries are kept: for the float64 engine that any float32 problem may need.
    const bool anew = need.recompute || (backward && may_exceed_state(problem, plan));
    if (anew) block = arena.add(Boundaries::most(problem, plan).bytes, 1);
    if (anew && !need.tangents) kept_number = KeptLayout(problem, plan).numbers(plan);
    kept = arena.add(kept_number, problem.value_size());
    tangents = need.tangents;
    if (tangents) add_tangents(arena, problem, plan, rows, cols, features);
    const bool summing = gradient && problem.all_pairs;
    const size_t pairs = summing ? (lanes ? size_t(lane_group) : 1) : 0;
    const size_t numbers_x = checked_mul(size_t(problem.n), size_t(problem.features));
    const size_t numbers_y = checked_mul(size_t(problem.m), size_t(problem.features));
    out_x = arena.add(numbers_x * pairs, 8);
    out_y = arena.add(numbers_y * pairs, 8);
    shared_bytes = arena.bytes();

    Arena all;
    sums_x = all.add(checked_mul(summing ? size_t(problem.batch_x) : 0, numbers_x), 8);
    sums_y = all.add(checked_mul(summing && !problem.symmetric ? size_t(problem.batch_y) : 0, numbers_y), 8);
    sums = all.bytes();

    const size_t tile_rows = size_t(plan.tile_rows), tile_cols = size_t(plan.tile_cols);
    const size_t height = lanes ? size_t(lane_rows) : tile_rows;
    Arena thread;
    tile = thread.add(2 * tile_cols * height, vector);  // split costs take two numbers
    // E replaces the costs, but for a slope that is to be had from them.
    const bool apart = gradient && problem.metric == SDTW_EUCLIDEAN;
    alignment = apart ? thread.add(tile_cols * height, vector) : tile;
    entries = thread.add(backward ? (tangents ? 6 : 3) * tile_cols * tile_rows : 0, vector);
    state_m = thread.add(tile_rows + max_width, vector);
    state_e = thread.add(tile_rows + max_width, vector);
    carry_left = thread.add(backward ? tile_rows + max_width : 0, vector);
    carry_diagonal = thread.add(backward ? tile_rows + max_width : 0, vector);
    segment_m = thread.add(tile_cols + 2 * pad, vector);
    segment_e = thread.add(tile_cols + 2 * pad, vector);
    if (tangents) {
      tangent = thread.add(tile_cols * tile_rows, 8);
      alignment_dot = thread.add(tile_cols * tile_rows, 8);
      dot = thread.add(tile_rows + max_width, 8);
      left_dot = thread.add(tile_rows + max_width, 8);
      diagonal_dot = thread.add(tile_rows + max_width, 8);
      segment_dot = thread.add(tile_cols + 2 * pad, 8);
    }
    local_bytes = thread.bytes();
  }

  // Strips only. The shared part.
  void add_tangents(Arena &arena, const Problem &problem, const Plan &plan, size_t rows, size_t cols, size_t features) {
    tangent_x = arena.add(rows * features, 8);
    tangent_y = arena.add(cols * features, 8);
    row_dot = arena.add(cols, 8);
    adjoint_row_dot = arena.add(cols, 8);
    dot_rows = arena.add(checked_mul(size_t(plan.tiles_down - 1), size_t(problem.m)), 8);
    dot_columns = arena.add(checked_mul(size_t(plan.tiles_down * (plan.tiles_across - 1)), strip_rows + max_width), 8);
    const size_t projected = problem.metric == SDTW_COSINE ? 1 : 0;
    plain_x = arena.add(rows * features * projected, 8);
    plain_y = arena.add(cols * features * projected, 8);
    along_x = arena.add(rows * projected, 8);
    along_y = arena.add(cols * projected, 8);
  }

  size_t of_threads(const Plan &plan) const {
    const size_t pairs = plan.wavefront ? 1 : size_t(plan.threads);
    return checked_add(checked_mul(pairs, shared_bytes), checked_mul(size_t(plan.threads), local_bytes));
  }
  // Workspace of a call.
  size_t bytes(const Plan &plan) const { return checked_add(checked_add(of_threads(plan), sums), 64); }
};

}  // namespace sdtw::cpu
