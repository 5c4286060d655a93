// The plan of the CUDA backend's short pairs: of which a block is to have one, phase after phase, and what block.
#include <algorithm>

#include "backend.h"

namespace sdtw::cuda {

int64_t few_short_pairs = 132;  // the multiprocessors of an H200
thread_local bool allows_short_pairs = true;

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
// All others have the general engine, or by cosine the core kernels, instead: with gradients (4096, 64, 64, 63) takes
// 0.80 ms so by Euclidean distances and 3.8 there, at gamma = 0 0.87 and 4.0, with penalties 1.1 and 3.3. Of more than
// 64 steps Euclidean (32, 128, 128, 64) takes 0.102 and 0.225, (264, 128, 128, 8) 0.156 and 0.202, (1000, 128, 128, 16)
// 0.61 and 0.87; but of four features 0.61 and 0.58. With steps a block takes longer: with penalties (132, 128, 128, 1)
// takes 0.112 and 0.129, (264, 128, 128, 8) 0.216 and 0.203, (1000, 128, 128, 16) 0.86 either way, (528, 128, 128, 128)
// 0.77 and 1.87.
ShortPairs make_short_pairs(const Problem &p, Costs costs) {
  constexpr int64_t warp = 32, many_features = 65;
  const bool has_steps = !p.has_unit_steps() || is_banded(p);
  const int64_t some_features = has_steps ? 32 : 16;
  const bool is_long = std::max(p.n, p.m) > most_short_steps;
  const int64_t few = few_short_pairs;
  const bool is_round = p.batch <= few, are_two = !has_steps && p.batch > few + few / 2 && p.batch <= 2 * few;
  const bool has_room = is_long ? is_round || are_two : p.batch <= 2 * few;
  ShortPairs result{};
  const bool is_hard = p.gamma == 0;  // then of paths that are equally good one is chosen by what is vertical
  // Cosine's distances are rounded as cosines are, by 2^-52: beside a smaller gamma that would show.
  constexpr double least_gamma_of_cosine = 1e-8;
  result.squares = p.metric == SDTW_SQEUCLIDEAN && !is_hard && !has_steps;
  result.steps = has_steps;
  const bool has_metric = p.fused() && (p.metric != SDTW_COSINE || p.gamma >= least_gamma_of_cosine);
  result.rows_of_lane = is_long ? 4 : (is_hard ? p.n : std::min(p.n, p.m)) > warp ? 2 : 1;
  result.warps = is_long ? 16 : result.rows_of_lane == 2 && has_room ? 8 : 4;
  result.swapped = !is_hard && p.n > warp && p.m <= warp;
  const bool suits = has_metric && p.dtype == SDTW_F32 && !p.all_pairs && std::max(p.n, p.m) <= most_steps_of_few;
  const bool pays = has_room || (result.squares ? costs == Costs::tensor && (!is_long || p.features >= many_features)
                                                : !is_long || p.features >= some_features);
  result.fit = allows_short_pairs && suits && pays;
  return result;
}

}  // namespace sdtw::cuda
