// The plan of the CUDA backend's general engine: checkpoints, waves of pairs, and where everything lies.
#include <algorithm>
#include <cstdio>
#include <limits>

#include "core/metric.h"
#include "core/pairs.h"
#include "cuda/args.h"
#include "plan.h"

namespace sdtw::cuda {
namespace {

using general::Layout;
using general::Rule;
using general::rule_of;
using general::Run;
using general::tile_steps;

constexpr int64_t saved_cells = (rows_per_lane + 1) * warp;

// Calls that need not keep all pairs at once take as many as this much workspace has room for, one at least.
constexpr int64_t budget = int64_t{96} << 20;

// The steps of a tile of backward: of the engine that takes most pairs, or of the one that takes what that leaves.
int64_t tile_of(const Problem &p, bool tangents, bool rest) {
  const bool soft = p.gamma > 0, narrow = tangents ? general::has_float_tangents(p) : p.dtype != SDTW_F64;
  const bool wide = rest || !narrow;
  return tile_steps(soft, wide, soft && rule_of(p, wide) == Rule::weighted, tangents);
}
// Steps between two checkpoints. As of the core kernels: most of the state are checkpoints, and backward recomputes few
// tiles of long pairs. Shorter pairs have one for each tile.
int64_t choose_interval(const Problem &p, bool tangents) {
  const int64_t cells = checked_mul(p.n, p.m);
  if (cells <= int64_t{1} << 20) return tile_of(p, tangents, false);
  return cells <= int64_t{1} << 22 ? 32 : cells < int64_t{1} << 24 ? 64 : cells < int64_t{1} << 28 ? 128 : 256;
}

// The most columns that a row's band admits, whatever the lengths of its pair: only the absolute band is the same for
// all of them.
int64_t widest_row(const Problem &p) {
  if (p.band != SDTW_BAND_ABSOLUTE) return p.m;
  const int64_t more = p.has_unit_steps() ? 0 : 1;  // that the sweep from the end hands on: Task::handed_end
  return std::min<int64_t>(p.m, 2 * static_cast<int64_t>(std::min(p.band_radius, 1e9)) + 1 + more);
}

// Checkpoints of a strip.
int64_t count_slots(const Problem &p, const general::Plan &plan, int64_t interval) {
  const int64_t steps = std::min(p.m, plan.row_columns + rows_per_lane * warp - 1) + warp - 1;
  return std::min(ceil_div(p.m + warp - 1, interval) - 1, ceil_div(steps, interval));
}

// back: backward is to follow.
Run make_run(const Problem &p, const general::Plan &plan, int64_t pairs, int64_t words, int64_t slots, bool back) {
  Run run{};
  Arena arena;
  const size_t strips = checked_mul(pairs, plan.strips), of_rows = plan.strips > 1 ? strips : 0;
  run.control = arena.add(1, sizeof(Control));
  run.flags = arena.add(pairs, sizeof(int));
  run.status = arena.add(pairs, sizeof(int));
  const size_t columns = checked_mul(of_rows, plan.row_columns);
  run.rows = arena.add(columns, words * sizeof(Word));
  run.rows_below = arena.add(back && p.gamma > 0 ? columns : 0, words * sizeof(Word));
  run.crossings = arena.add(back && p.gamma == 0 ? columns : 0, sizeof(int));
  run.saved = arena.add(checked_mul(strips, checked_mul(slots, saved_cells)), words * sizeof(Word));
  run.bytes = arena.bytes();
  return run;
}

// What a call is made of.
struct Parts {
  bool forward, stateless, dense, tangents, gradients;
};

Layout make_layout(const Problem &p, const general::Plan &plan, const Parts &parts, int64_t wave) {
  Layout layout{};
  layout.wave = wave;
  Arena arena;
  const size_t pairs = wave, strips = checked_mul(pairs, plan.strips), word = sizeof(Word);
  const bool back = parts.dense || parts.gradients;
  const bool one_word = p.gamma == 0 || general::has_float_tangents(p);
  const size_t words = parts.tangents ? (one_word ? 2 : 3) : plan.words;
  layout.interval = parts.tangents ? choose_interval(p, true) : plan.interval;
  layout.slots = parts.tangents ? count_slots(p, plan, layout.interval) : plan.slots;
  if (parts.stateless) layout.run = make_run(p, plan, wave, words, back ? layout.slots : 0, back);
  layout.tickets = arena.add(8, word);
  layout.done = arena.add(parts.forward || parts.stateless ? checked_mul(2, strips) : 0, sizeof(int));
  layout.graded = arena.add(back ? strips : 0, sizeof(int));
  layout.reset_end = arena.bytes();
  layout.run_at = arena.add(layout.run.bytes, 1);  // of which the first part is zeroed as well
  layout.entrances = arena.add(back ? strips : 0, sizeof(Entrance));
  // Between two checkpoints, where they are small.
  const int64_t tiles = layout.interval / tile_of(p, parts.tangents, true) * general::small_tiles;
  layout.snapshots = arena.add(back ? checked_mul(strips, checked_mul(tiles - 1, saved_cells)) : 0, words * word);
  // Symmetric pairs have normalised points of x twice, since a point of norm 0 has cost 1 to itself, too.
  const size_t batch[2] = {static_cast<size_t>(p.batch_x), static_cast<size_t>(p.fused() ? p.batch_y : 0)};
  const size_t rows[2] = {static_cast<size_t>(p.n), static_cast<size_t>(p.m)};
  const size_t sum_size = p.dtype == SDTW_F64 || plan.wide_sums ? sizeof(double) : sizeof(float);
  const bool cosine = p.metric == SDTW_COSINE, sums = parts.gradients && p.fused() && !plan.direct;
  const bool plain = !parts.tangents || cosine;  // gradients are summed up, not only their derivatives
  for (int side = 0; side < 2; side++) {
    const size_t points = checked_mul(batch[side], rows[side]), of_pair = checked_mul(rows[side], plan.point_features);
    layout.points[side] = arena.add(cosine ? checked_mul(points, plan.point_features) : 0, sizeof(double));
    layout.directions[side] =
        arena.add(cosine && parts.tangents ? checked_mul(points, plan.point_features) : 0, sizeof(double));
    layout.norms[side] = arena.add(cosine ? points : 0, sizeof(double));
    layout.pair_sums[side] = arena.add(sums && plain ? checked_mul(pairs, of_pair) : 0, sum_size);
    layout.pair_turns[side] = arena.add(sums && parts.tangents ? checked_mul(pairs, of_pair) : 0, sum_size);
    const bool of_series = sums && p.all_pairs && !(p.symmetric && side == 1);
    layout.sums[side] = arena.add(of_series && plain ? checked_mul(batch[side], of_pair) : 0, sizeof(double));
    layout.turns[side] = arena.add(of_series && parts.tangents ? checked_mul(batch[side], of_pair) : 0, sizeof(double));
  }
  layout.bytes = arena.bytes();
  return layout;
}

// As many pairs at a time as the budget has room for, or all if each has a part of the state anyway.
Layout fit_layout(const Problem &p, const general::Plan &plan, const Parts &parts) {
  if (!parts.stateless && !parts.gradients && !parts.dense) return make_layout(p, plan, parts, plan.pairs);
  const size_t one = make_layout(p, plan, parts, 1).bytes, most = 64;
  const int64_t few = std::min<int64_t>(plan.pairs, most);
  const size_t some = make_layout(p, plan, parts, few).bytes;
  const size_t each = few > 1 ? std::max<size_t>((some - one) / (few - 1), 1) : one;
  const int64_t room = std::max<int64_t>(budget / static_cast<int64_t>(std::min<size_t>(each, PTRDIFF_MAX)), 1);
  return make_layout(p, plan, parts, std::min(plan.pairs, room));
}

}  // namespace

Rule general::rule_of(const Problem &p, bool wide) {
  const double *weight = p.step_weight, *penalty = p.step_penalty;
  if (p.has_unit_steps()) return Rule::unit;
  if (wide || weight[1] != weight[2]) return Rule::weighted;
  if (weight[0] == weight[1]) return Rule::penalised;
  const bool free = penalty[0] == 0 && penalty[1] == 0 && penalty[2] == 0;
  return weight[0] == 2 * weight[1] && free ? Rule::doubled : Rule::weighted;
}

namespace {

// As general::Plan has it. E from 1e-12 on times a weight is more than nothing (cuda/general/gradients.cuh), and a
// weight times the slope of a distance, or along tangents its square, has room in a float (is_tiny, is_moderate in
// cuda/general/costs.cuh).
double least_weight(const Problem &p) {
  double least = std::numeric_limits<double>::max();
  for (const double weight : p.step_weight) {
    if (weight == 0) continue;
    if (weight < 1e-9 || weight > 1e6) return -1;
    least = std::min(least, weight);
  }
  return least;
}

}  // namespace

bool general::has_float_tangents(const Problem &p) {
  constexpr double range = 1e12;  // of what derivatives are divided by
  const bool has_float_gamma = p.gamma == 0 || (p.gamma > 1 / range && p.gamma < range);
  return p.dtype != SDTW_F64 && p.metric != SDTW_COSINE && has_float_gamma;
}

general::Plan make_general_plan(const Problem &p, const Exec &exec) {
  general::Plan plan{};
  plan.pairs = p.symmetric ? core::pairs_of_triangle(p.batch_x) : p.batch;
  plan.strips = ceil_div(p.n, int64_t{rows_per_lane * warp});
  plan.interval = choose_interval(p, false);
  plan.row_columns = widest_row(p);
  plan.slots = count_slots(p, plan, plan.interval);
  plan.words = p.gamma > 0 && p.dtype == SDTW_F64 ? 2 : 1;
  plan.least_weight = least_weight(p);
  plan.point_features = p.features + (p.metric == SDTW_COSINE ? core::Cosine::more_features : 0);
  // Cosine: the part of the sums that is projected out in the end may be many times as large as what is left.
  plan.wide_sums = p.dtype != SDTW_F64 && (std::max(p.n, p.m) > longest_of_float_sums || p.metric == SDTW_COSINE);
  plan.direct =
      !p.all_pairs && p.metric != SDTW_COSINE && !plan.wide_sums && (p.dtype == SDTW_F32 || p.dtype == SDTW_F64);
  plan.state = make_run(p, plan, plan.pairs, plan.words, plan.slots, true);
  const bool alone = exec.no_state;
  plan.forward = fit_layout(p, plan, {true, alone, false, false, false});
  plan.backward = fit_layout(p, plan, {false, alone, !p.fused(), false, p.fused()});
  plan.alignment = fit_layout(p, plan, {false, alone, true, false, false});
  plan.jvp = fit_layout(p, plan, {true, true, !p.fused(), true, p.fused()});
  return plan;
}

std::string describe_general(const sdtw::Plan &plan) {
  char text[256];
  const general::Plan &p = plan.cuda.general;
  std::snprintf(text, sizeof text,
                "cuda: general engine, strips of %lld rows, %lld a pair, a block each; %lld pairs at a time; "
                "%lld checkpoints a strip, one every %lld steps",
                static_cast<long long>(rows_per_lane * warp), static_cast<long long>(p.strips),
                static_cast<long long>(p.forward.wave), static_cast<long long>(p.slots),
                static_cast<long long>(p.interval));
  return text;
}

}  // namespace sdtw::cuda
