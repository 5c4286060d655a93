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
// Other metrics keep a number of each cell beside, for which there is room up to 64 steps.
ShortPairs make_short_pairs(const Problem &p, Costs costs) {
  constexpr int64_t warp = 32, some_features = 16, many_features = 65;
  const bool is_long = std::max(p.n, p.m) > most_short_steps;
  const int64_t few = few_short_pairs;
  const bool is_round = p.batch <= few, are_two = p.batch > few + few / 2 && p.batch <= 2 * few;
  const bool has_room = is_long ? is_round || are_two : p.batch <= 2 * few;
  ShortPairs result{};
  const bool is_hard = p.gamma == 0;  // then of paths that are equally good one is chosen by what is vertical
  result.squares = p.metric == SDTW_SQEUCLIDEAN && !is_hard && p.has_unit_steps();
  const bool has_metric = p.fused() && !(is_hard && p.metric == SDTW_COSINE);
  result.rows_of_lane = is_long ? 4 : (is_hard ? p.n : std::min(p.n, p.m)) > warp ? 2 : 1;
  result.warps = is_long ? 16 : result.rows_of_lane == 2 && has_room ? 8 : 4;
  result.swapped = !is_hard && p.n > warp && p.m <= warp;
  const bool suits = has_metric && p.dtype == SDTW_F32 && (p.has_unit_steps() || !is_hard) && !p.all_pairs &&
                     !is_banded(p) && std::max(p.n, p.m) <= most_steps_of_few;
  const bool pays = has_room || (result.squares ? costs == Costs::tensor && (!is_long || p.features >= many_features)
                                                : !is_long || p.features >= some_features);
  result.fit = allows_short_pairs && suits && pays;
  return result;
}

}  // namespace sdtw::cuda
