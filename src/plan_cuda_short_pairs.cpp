// The plan of the CUDA backend's short pairs: of which a block is to have one, phase after phase, and what block.
#include <algorithm>
#include <cmath>

#include "backend.h"
#include "core/numbers.h"

namespace sdtw::cuda {

namespace {

Steps steps_of(const Problem &p) {
  const auto [diagonal, vertical, horizontal] = p.step_weight;
  if (p.has_unit_steps() && !is_banded(p)) return Steps::unit;
  const bool is_simple = vertical == horizontal && (diagonal == vertical || diagonal == 2 * vertical);
  return is_simple ? Steps::simple : Steps::weighted;
}

// Whether E is more than nothing (1e-12) after its step's weight, too, floats hold what is made of both, and exponents
// a step's penalty.
bool has_moderate_steps(const Problem &p) {
  const double scale = p.gamma > 0 ? core::log2_e / p.gamma : 1;
  for (int way = 0; way < 3; way++) {
    const double weight = p.step_weight[way];
    if (weight != 0 && (weight < 1e-4 || weight > 1e6)) return false;
    if (!(std::abs(p.step_penalty[way]) * scale < core::largest_wide_cost)) return false;
  }
  return true;
}

}  // namespace

// With gradients (64, 32, 32, 128) takes 0.042 ms so and 0.101 by the core kernels, (4096, 64, 64, 16) 0.33 and 0.51,
// (4096, 64, 64, 5) 0.33 and 0.49. Values alone of many pairs of up to eight features are the core kernels', whose
// costs are Costs::inlined then; and so are gradients of many pairs of up to four: (264, 64, 64, 1) takes 0.033 ms so,
// and (512, 64, 64, 2) 0.048 by either.
//
// Of more than 64 steps a pair takes a multiprocessor for itself: (16, 128, 128, 8) takes 0.050 ms so and 0.082 by the
// core kernels, (132, 128, 128, 64) 0.069 and 0.105, (528, 128, 128, 128) 0.36 and 0.57, (528, 128, 128, 64) 0.26 and
// 0.29, but (528, 65, 65, 64) 0.20 and 0.18. Two rounds pay if the second is not nearly empty: (264, 128, 128, 8) takes
// 0.097 ms so and 0.122 by the core kernels, (264, 128, 128, 64) 0.131 and 0.164.
//
// All others have the general engine, or by cosine or with Sakoe and Chiba's band the core kernels, instead: with
// gradients (4096, 64, 64, 63) takes 0.80 ms so by Euclidean distances and 3.8 there, at gamma = 0 0.87 and 4.0, with
// penalties 1.0 and 3.3, at gamma = 0 with weights 1.0 and 4.2, by Euclidean distances within Itakura's band 1.2
// and 3.7. Of more than 64 steps Euclidean (32, 128, 128, 64) takes 0.102 and 0.225, (264, 128, 128, 8) 0.156 and
// 0.202, (1000, 128, 128, 16) 0.61 and 0.87; but of four features 0.61 and 0.58; with penalties (528, 128, 128, 8) 0.32
// and 0.37, but values 0.101 and 0.089, and (528, 128, 128, 16) 0.33 and 0.44. Bands leave less to do to the general
// engine: within Itakura's (264, 128, 128, 8) takes 0.216 and 0.202. With any weights a block takes longer: weights 1,
// 2, 3 of (1000, 128, 128, 16) take 0.86 either way.
//
// Of squared distances with Sakoe and Chiba's band (264, 64, 64, 8) takes 0.058 ms so and 0.079 by the core kernels,
// (132, 128, 128, 8) 0.089 and 0.102, but (32, 128, 128, 1) 0.088 and 0.074, (4096, 64, 64, 63) 1.05 and 0.88,
// (264, 128, 128, 8) 0.173 and 0.141.
//
// Values at gamma = 0 of (100, 20, 20, 1) take 0.011 ms so and 0.038 by streams, (1000, 60, 60, 1) 0.043 and 0.061,
// (264, 128, 128, 8) 0.051 and 0.099; but (4000, 60, 60, 1) 0.157 and 0.065, (528, 128, 128, 1) 0.100 and 0.087.
ShortPairs make_short_pairs(const Problem &p, Costs costs) {
  constexpr int64_t many_features = 65;
  constexpr double least_gamma_of_cosine = 1e-8;  // else it would show that cosines are rounded, by 2^-52
  const Steps steps = steps_of(p);
  const bool is_hard = p.gamma == 0;  // then of paths that are equally good one is chosen by what is vertical
  const bool has_weights = steps == Steps::weighted && !is_hard, has_band = is_banded(p) && !is_hard;
  const bool is_long = std::max(p.n, p.m) > most_short_steps;

  const int64_t few = limits.few_short_pairs;
  const bool is_round = p.batch <= few, may_be_two = !has_weights && !has_band;
  const bool are_two = may_be_two && p.batch > few + few / 2 && p.batch <= 2 * few;
  const bool has_room = is_long ? is_round || are_two : p.batch <= 2 * few;

  ShortPairs result{};
  result.squares = p.metric == SDTW_SQEUCLIDEAN && !is_hard && steps == Steps::unit;
  result.steps = steps;
  result.rows_of_lane = is_long ? 4 : (is_hard ? p.n : std::min(p.n, p.m)) > warp ? 2 : 1;
  result.warps = is_long ? 16 : result.rows_of_lane == 2 && has_room ? 8 : 4;
  result.swapped = !is_hard && p.n > warp && p.m <= warp;
  result.before_streams = is_hard && p.batch <= few * (is_long ? 2 : 8);

  const double weight = std::max({1.0, p.step_weight[0], p.step_weight[1], p.step_weight[2]});
  const bool has_metric = p.fused() && (p.metric != SDTW_COSINE || p.gamma >= least_gamma_of_cosine * weight);
  const int64_t most_elements = int64_t{1} << 30;  // of a series, which kernels count in an int
  const bool suits = has_metric && has_moderate_steps(p) && p.dtype == SDTW_F32 && !p.all_pairs &&
                     std::max(p.n, p.m) <= most_steps_of_few && std::max(p.n, p.m) * p.features < most_elements;
  const bool of_core = has_band && takes_core(p), needs_producers = costs == Costs::tensor;
  const int64_t some_features = has_weights ? 32 : 16;
  const bool pays = of_core          ? has_room && (!is_long || needs_producers)
                    : result.squares ? has_room || (needs_producers && (!is_long || p.features >= many_features))
                                     : has_room || !is_long || p.features >= some_features;
  result.fit = limits.has_short_pairs && suits && pays;
  return result;
}

}  // namespace sdtw::cuda
