// The plan of the CUDA backend: which kernels, checkpoints, and where everything lies in state and workspace.
#include <algorithm>
#include <climits>

#include "backend.h"
#include "cuda/args.h"

namespace sdtw::cuda {

thread_local Limits limits;

namespace {

static_assert(largest_size <= INT_MAX / 2);  // kernels add two of n, m and features in int

// Steps between checkpoints, which are most of the state. Backward recomputes tiles of max_tile_steps: a longer
// interval makes it go through the tiles between two checkpoints once more, leaving itself snapshots.
int64_t choose_interval(const Problem &p) {
  const int64_t cells = checked_mul(p.n, p.m);
  return cells < int64_t{1} << 22 ? 32 : cells < int64_t{1} << 24 ? 64 : cells < int64_t{1} << 28 ? 128 : 256;
}

// Strips of a pair up to which gradients of more than four features may be summed up by one warp of a block, which
// takes longer for a step than others do, and strips of longer pairs wait for it.
constexpr int64_t most_of_gradients = 4;

// Costs of few features take fewer instructions in the warp that sweeps than producers need to pass them on, but its
// steps take longer. So pairs of up to eight features have them there if there is more than one round of strips for the
// warps that sweep beside producers, two a multiprocessor: with gradients (1000, 128, 128, {6, 8}) takes 256 and 316 us
// so and 392 and 358 with producers, (128, 1024, 1024, {6, 8}) 1.00 and 1.21 ms against 1.27 and 1.16. Four pairs a
// warp would leave too little shared memory to several blocks.
bool has_inline_costs_of_many(const Problem &p, const Exec &exec, const Plan &plan) {
  constexpr int64_t many = 512;  // strips of all pairs
  const bool suits_gradients = p.features <= 6 || plan.strips <= most_of_gradients;
  return (exec.no_state || suits_gradients) && p.dtype == SDTW_F32 && p.features <= max_inline_features_of_many &&
         (plan.tasks > many || limits.prefers_inline_costs) && plan.lanes > warp / 4 && !is_banded(p);
}

// Costs of up to four features take the sweeping warp as many instructions as the sweep itself, or more. That pays
// where there are strips enough to hide it, or where it saves the kernels before a short sweep: values of (32, 1024,
// 1024, 1) take 0.154 ms so and 0.163 with costs by other warps, (32, 2048, 2048, {2, 4}) 0.36 and 0.52 against 0.44
// and more, (16, 256, 256, 1) 0.045 and 0.050; but (1, 4096, 4096, {1, 2, 4}) 0.55, 0.64 and 0.87 against 0.45, (32,
// 512, 512, 2) 0.095 against 0.078. With gradients forward's sweeps take twice the room where they go through all
// strips.
bool sweeps_with_costs(const Problem &p, const Exec &exec, const Plan &plan) {
  const bool is_short = plan.strips <= (p.features == 1 ? halves : 1);
  const int64_t strips = exec.no_state ? 264 : 132;  // two for each multiprocessor of an H200, or one
  const bool are_many = plan.tasks > (p.features == 1 ? strips / 2 : strips);
  return p.features <= max_inline_features && (is_short || are_many || limits.prefers_inline_costs);
}

// plan: of which lanes, strips and tasks are known.
Costs choose_costs(const Problem &p, const Exec &exec, const Plan &plan) {
  if (!p.fused()) return Costs::given;
  if (p.metric == SDTW_COSINE) return Costs::tensor;
  return sweeps_with_costs(p, exec, plan) || has_inline_costs_of_many(p, exec, plan) ? Costs::inlined : Costs::tensor;
}

// Backward, whose blocks have a warp for each part of its work, has costs of few features from those that recompute
// wherever they fit: of such blocks two are on a multiprocessor, and of those with producers one. With gradients (32,
// 512, 512, 3) takes 0.169 ms so and 0.224 with producers, (1, 4096, 4096, 4) 0.66 and 0.70; of six features (64, 512,
// 512) takes 0.241 and 0.279, but (32, 1024, 1024) 0.418 and 0.404.
Costs choose_backward_costs(const Problem &p, const Plan &plan) {
  // Of pairs that share a warp, forward with producers leaves checkpoints as far as those of each engine go, and
  // backward without reads those of all of them.
  if (p.dtype != SDTW_F32 || plan.costs != Costs::tensor || plan.units || plan.lanes < warp) return plan.costs;
  constexpr int64_t some = 132;  // strips of all pairs
  const bool may_have_six = p.features <= 6 && plan.strips <= most_of_gradients && plan.tasks > some && !is_banded(p);
  return p.features <= max_inline_features || may_have_six ? Costs::inlined : Costs::tensor;
}

// A pair of few rows takes only as many lanes of a warp as it has use for: two or four pairs share it.
int64_t choose_lanes(const Problem &p) {
  int64_t lanes = warp;
  while (lanes > 8 && p.n <= rows_per_lane * lanes / 2) lanes /= 2;
  return lanes;
}

// Columns that both halves of a pair may add to grad_y without waiting for each other: more than E crosses from one
// into the other as a rule, and few enough to take little memory where a point has many features.
int64_t choose_lower_grad_y_columns(const Problem &p, const Plan &plan) {
  const bool are_few = p.features <= max_inline_features || plan.backward_costs == Costs::inlined;
  return are_few ? p.m : std::min<int64_t>(p.m, 384);
}

// Gradients are added to half a tile at a time, which float32 is precise enough for as long as that is not done
// thousands of times to the same point.
// Those of cosine are projected in the end, and what is left may be a small part of them.
bool needs_wide_sums(const Problem &p) {
  return p.dtype == SDTW_F32 && p.fused() && (std::max(p.n, p.m) > longest_of_float_sums || p.metric == SDTW_COSINE);
}

// Cosine of many features is the core kernels' where costs, at most 2, are FloatCell's in all pairs and have room in
// words, and no pair is thin. Few features take the general engine less time than the core kernels beside what comes
// before and after them.
bool takes_units(const Problem &p) {
  constexpr int64_t least_features = 5, longest = 4096;
  constexpr double least_gamma = 2 * core::log2_e / 16000;
  static_assert(longest * 16384.0 < 1 << 28, "FloatCell's exponents have room for paths of such costs");
  Problem other = p;
  other.metric = SDTW_SQEUCLIDEAN;
  return p.metric == SDTW_COSINE && p.dtype == SDTW_F32 && other.is_core() && p.features >= least_features &&
         std::max(p.n, p.m) <= longest && p.gamma >= least_gamma;
}

// A pair's halves meet in the middle, and in backward E goes on from strip to strip. Where there is little to do it
// takes less time if both sweeps go on to the end: then it is known of all strips how E enters them, and none waits.
// That is where all strips fit an H200 both ways at once; and where pairs are so few that waiting takes longer than
// forward's second round: (4, 16384, 16384, 1) 6.6 ms against 4.4, (28, 2048, 2048, 1) 0.71 against 0.70, but (64,
// 2048, 2048, 1) 0.99 against 1.39; (8, 4096, 4096, 64) 2.2 against 1.9, (16, 2048, 2048, 64) the same, (20, 1024,
// 1024, 64) 0.47 against 0.54; in float64 (8, 2048, 2048, 1) 9.6 against 6.7. Rows take twice the memory then.
bool sweeps_fully(const Problem &p, const Plan &plan) {
  struct Limits {
    int64_t strips, pairs;
  };
  const Limits most = p.dtype == SDTW_F64           ? Limits{66, 16}
                      : plan.costs == Costs::tensor ? Limits{132, 12}
                                                    : Limits{300, 28};
  constexpr int64_t most_cells = int64_t{1} << 31;  // of a pair: for the memory
  const bool few = p.batch <= most.pairs && static_cast<int64_t>(checked_mul(p.n, p.m)) < most_cells;
  return plan.strips > halves && (few || plan.tasks <= most.strips);
}

}  // namespace

bool is_banded(const Problem &p) {
  return p.band == SDTW_BAND_ITAKURA ||
         (p.band != SDTW_BAND_NONE && p.band_radius < static_cast<double>(std::max(p.n, p.m) - 1));
}

bool takes_core(const Problem &p) {
  constexpr int64_t most_features = 128;
  constexpr int64_t longest = int64_t{1} << 28;  // so that sums of rows, columns and a radius have room in an int
  Problem other = p;
  other.band = SDTW_BAND_NONE;
  if (!is_banded(p)) return other.is_core();
  return other.is_core() && p.metric == SDTW_SQEUCLIDEAN && p.dtype == SDTW_F32 && p.band == SDTW_BAND_SAKOE_CHIBA &&
         p.features <= most_features && std::max(p.n, p.m) <= longest;
}

Problem part_of(const Problem &problem, int64_t pairs) {
  Problem part = problem;
  part.batch = part.batch_x = part.batch_y = pairs;
  part.all_pairs = part.symmetric = false;
  return part;
}

Problem as_computed(const Problem &p) {
  // Costs of so many features come through shared memory in pieces, by copies of 4 bytes where they are not a multiple
  // of 4: (32, 512, 512, 129) took 1.8 times as long as 128. Of few cells that is not worth two more launches.
  constexpr int64_t whole = 128, at_once = 4;
  Problem result = p;
  if (!p.fused() || p.dtype == SDTW_F64) return result;
  result.dtype = SDTW_F32;
  const double cells = static_cast<double>(p.n) * static_cast<double>(p.m) * static_cast<double>(p.batch);
  const bool many = p.features > whole && cells >= static_cast<double>(limits.cells_copied);
  if (p.metric == SDTW_SQEUCLIDEAN && many) result.features = round_up(p.features, at_once);
  return result;
}

Exec with_state(const Exec &exec) {
  Exec result = exec;
  result.no_state = false;
  return result;
}

namespace {

Route choose_route(const Problem &p, const Exec &exec) {
  if (takes_core(p) || takes_units(p)) return Route::core;
  const bool has_waves = takes_core(part_of(p, 1)) || make_short_pairs(part_of(p, p.batch), Costs::tensor).fit;
  return exec.no_state && p.all_pairs && p.fused() && has_waves ? Route::pairs : Route::general;
}

// The steps of a sweep along the columns come one after another, but a strip begins some fifty steps after that above
// it. So where strips are too few to keep the GPU busy, a longer y has the rows: (32, 10, 5000, 8) is 40 strips of 10
// columns then. With gradients (8, 100, 5000, 1) takes 0.39 ms so and 1.08 with rows of x, (32, 300, 700, 8) 0.20 and
// 0.24; but (128, 100, 600, 8) 0.27 and 0.21. Short pairs stay as they are, so that their results do not depend on what
// they are padded to; and so do given costs, which are read along their rows much faster.
bool choose_transposed(const Problem &p, const Exec &exec) {
  constexpr int64_t longest = 512, few = 100;  // steps; warps that sweep
  if (!p.fused() || p.m <= longest || p.m / 2 < p.n) return false;
  return choose_route(as_computed(p), exec) == Route::core && make_core_plan(as_computed(p), exec).tasks <= few;
}

// All pairs that the core kernels compute a wave at a time have no state to keep; the general engine, which has one for
// them, takes longer than computing forward again: (256 x 256, 128, 128, 3) 5.6 and 25.6 ms, without state 2 and 10.
Exec choose_state(const Problem &p, const Exec &asked) {
  Exec without = asked;
  without.no_state = true;
  return choose_route(as_computed(p), without) == Route::pairs ? without : asked;
}

}  // namespace

sdtw::Plan make_plan(const Problem &given, const Exec &asked) {
  const Exec exec = choose_state(given, asked);
  if (!choose_transposed(given, exec)) return make_plan_as_given(given, exec);
  sdtw::Plan result = make_plan_as_given(transpose(given), exec);
  Plan &plan = result.cuda;
  plan.transposed = true;
  plan.streams = make_streams(given, exec);  // which exchange series by rules of their own
  plan.forward_bytes = std::max(plan.forward_bytes, plan.streams.bytes);
  return result;
}

sdtw::Plan make_plan_as_given(const Problem &problem, const Exec &exec) {
  sdtw::Plan result{problem, exec, {}, {}};
  Plan &plan = result.cuda;
  const Problem p = as_computed(problem);
  const Route route = choose_route(p, exec);
  if (route == Route::core) {
    plan = make_core_plan(p, exec);
    if (exec.no_state) plan.waves = make_waves(p, exec);
  } else if (route == Route::pairs) {
    const PairWaves forward = make_pair_waves(p, exec, Call::forward);
    plan = make_wave_plan(p, exec, forward.pairs);
    plan.forward_pairs = forward, plan.backward_pairs = make_pair_waves(p, exec, Call::backward);
  }
  plan.route = route;
  // Gradients of more than four features take longer by inlined costs than in blocks of short pairs.
  const Costs beside = exec.no_state || p.features <= max_inline_features ? plan.costs : Costs::tensor;
  plan.short_pairs = make_short_pairs(route == Route::pairs ? part_of(p, plan.forward_pairs.pairs) : p, beside);
  plan.short_alone = route == Route::pairs && are_short_alone(p);
  plan.corridor = route != Route::general && is_banded(p);
  const bool is_optional = plan.units || plan.corridor || plan.short_alone;
  const bool differs = p.dtype != problem.dtype || p.features != problem.features;
  plan.converted = route != Route::general && !plan.units && differs;
  Exec alone = exec;
  // The engine knows no state of the core kernels, but may take their place where there are none.
  alone.no_state = exec.no_state || (plan.route != Route::general && !is_optional);
  plan.general = make_general_plan(problem, alone);
  // The core kernels write no alignment in half precision.
  plan.aligns = plan.route == Route::core && p.dtype == problem.dtype;
  if (is_optional && !plan.aligns) {
    alone.no_state = true;
    plan.general.alignment = make_general_plan(problem, alone).alignment;
  }
  plan.jvp_bytes = plan.general.jvp.bytes;
  plan.streams = make_streams(problem, exec);
  const auto room = [](size_t &bytes, size_t for_general) { bytes = std::max(bytes, for_general); };
  if (plan.route == Route::general) {
    plan.state_bytes = plan.general.state.bytes;
    plan.forward_bytes = plan.streams.bytes;
    if (!(plan.streams.fit && plan.streams.always && plan.streams.everywhere))
      room(plan.forward_bytes, plan.general.forward.bytes);
    plan.backward_bytes = plan.general.backward.bytes, plan.alignment_bytes = plan.general.alignment.bytes;
    return result;
  }
  if (plan.route == Route::pairs)
    plan.forward_bytes = plan.forward_pairs.bytes, plan.backward_bytes = plan.backward_pairs.bytes;
  else if (exec.no_state)
    plan.backward_bytes = plan.alignment_bytes = plan.waves.bytes;
  if (!plan.aligns) plan.alignment_bytes = plan.general.alignment.bytes;
  if (is_optional) {
    room(plan.state_bytes, plan.general.state.bytes);
    room(plan.forward_bytes, plan.general.forward.bytes), room(plan.backward_bytes, plan.general.backward.bytes);
    room(plan.alignment_bytes, plan.general.alignment.bytes);
  }
  if (plan.converted) {
    const size_t x = checked_mul(checked_mul(p.batch_x, p.n), p.features);
    const size_t y = p.symmetric ? 0 : checked_mul(checked_mul(p.batch_y, p.m), p.features);
    // Behind the largest of the workspaces, of which a call has one.
    Arena arena;
    arena.add(std::max({plan.forward_bytes, plan.backward_bytes, plan.aligns ? plan.alignment_bytes : 0}), 1);
    plan.scratch.x = arena.add(x, sizeof(float)), plan.scratch.y = arena.add(y, sizeof(float));
    plan.forward_bytes = arena.bytes();
    if (plan.aligns) plan.alignment_bytes = arena.bytes();
    plan.scratch.grad_x = arena.add(x, sizeof(float)), plan.scratch.grad_y = arena.add(y, sizeof(float));
    plan.backward_bytes = arena.bytes();
  }
  plan.forward_bytes = std::max(plan.forward_bytes, plan.streams.bytes);  // which of the two strides tell
  return result;
}

namespace {

UnitPoints place_units(const Problem &p, Arena &arena, bool back) {
  UnitPoints units{};
  for (int side = 0; side < 2; side++) {
    const size_t points = checked_mul(p.batch, side ? p.m : p.n), coordinates = checked_mul(points, p.features);
    units.points[side] = arena.add(coordinates, 2 * sizeof(float));
    units.norms[side] = arena.add(back ? points : 0, sizeof(double));
  }
  return units;
}

}  // namespace

Plan make_core_plan(const Problem &given, const Exec &exec) {
  Problem problem = given;
  problem.features = features_of_core(given);
  Plan plan{};
  plan.units = problem.metric == SDTW_COSINE;
  plan.lanes = choose_lanes(problem);
  plan.strips = ceil_div(problem.n, int64_t{rows_per_lane * warp});
  plan.tasks = plan.lanes == warp ? static_cast<int64_t>(checked_mul(problem.batch, plan.strips))
                                  : ceil_div(problem.batch, warp / plan.lanes);
  plan.costs = choose_costs(problem, exec, plan);
  plan.backward_costs = choose_backward_costs(problem, plan);
  plan.interval = choose_interval(problem);
  plan.checkpoints = ceil_div(problem.m + plan.lanes - 1, plan.interval) - 1;
  plan.words = problem.dtype == SDTW_F64 ? 2 : 1;

  const size_t batch = problem.batch, strips = plan.strips, word = sizeof(Word);
  plan.full_sweeps = !exec.no_state && sweeps_fully(problem, plan);
  const size_t sweeps = strips == 1 ? 0 : plan.full_sweeps ? halves : 1;
  const size_t row_cells = checked_mul(checked_mul(batch, checked_mul(sweeps, strips)), problem.m);
  Arena run;
  plan.status = run.add(batch, sizeof(int));
  const bool has_norms = problem.dtype == SDTW_F32 && plan.costs == Costs::tensor && !plan.units;
  plan.norms = run.add(has_norms ? checked_mul(batch, checked_add(problem.n, problem.m)) : 0, sizeof(double));
  plan.control = run.add(1, sizeof(Control));
  plan.bounds = run.add(batch, bounds_per_pair * sizeof(int));
  plan.rows = run.add(row_cells, plan.words * word);
  Arena forward = exec.no_state ? run : Arena{};
  if (plan.units) plan.forward_units = place_units(problem, forward, false);
  plan.forward_bytes = forward.bytes();

  Arena state = run;
  const size_t saved_cells = (rows_per_lane + 1) * warp;
  plan.saved = state.add(checked_mul(plan.tasks, checked_mul(plan.checkpoints, saved_cells)), plan.words * word);
  plan.state_bytes = state.bytes();

  Arena back;
  plan.back_control = back.add(1, sizeof(Control));
  plan.progress = back.add(checked_mul(batch, strips), sizeof(int));
  const bool chained = strips > halves && !plan.full_sweeps;
  plan.left = back.add(chained ? checked_mul(batch, strips) : 0, word);
  plan.flows = back.add(chained ? checked_mul(checked_mul(batch, halves), problem.m) : 0, flow_words * word);
  plan.midlines = back.add(strips > 1 ? checked_mul(batch, plan.full_sweeps ? strips : halves) : 0, sizeof(Midline));
  plan.wide_sums = needs_wide_sums(problem);
  const auto points = [&](size_t of_pair) { return checked_mul(checked_mul(batch, of_pair), problem.features); };
  plan.sums_x = back.add(plan.wide_sums ? points(problem.n) : 0, sizeof(double));
  plan.sums_y = back.add(plan.wide_sums ? points(problem.m) : 0, sizeof(double));
  plan.lower_grad_y_columns = strips > 1 && problem.fused() ? choose_lower_grad_y_columns(problem, plan) : 0;
  plan.side = back.add(points(plan.lower_grad_y_columns),
                       problem.dtype == SDTW_F64 || plan.wide_sums ? sizeof(double) : sizeof(float));
  plan.snapshots_each = plan.interval / (problem.dtype == SDTW_F64 ? wide_tile_steps : max_tile_steps) - 1;
  plan.snapshots = back.add(checked_mul(plan.tasks, checked_mul(plan.snapshots_each, saved_cells)), plan.words * word);
  if (plan.units) plan.backward_units = place_units(problem, back, true);
  plan.backward_bytes = plan.alignment_bytes = back.bytes();
  return plan;
}

}  // namespace sdtw::cuda
