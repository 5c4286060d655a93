// The plan of the CUDA backend's streams: which problems they compute, and what these take.
#include <algorithm>
#include <cstdio>

#include "plan.h"

namespace sdtw::cuda {
namespace {

constexpr int64_t longest_y = int64_t{1} << 16;  // beyond it there is nothing to be gained over other kernels

// Rows of a lane: those of SoftRows (cuda/streams/rows.cuh) and of HardRows (hard_rows.cuh).
int64_t rows_of_lane(const Problem &p) { return p.gamma > 0 ? rows_per_lane : hard_rows_per_lane; }

// The longer series have the rows where sums are rounded (HardRows::is_rough).
bool are_swapped(const Problem &p) { return p.gamma == 0 && p.m > p.n; }

bool are_streams(const Problem &p, const Exec &exec) {
  const int64_t rows = are_swapped(p) ? p.m : p.n, columns = are_swapped(p) ? p.n : p.m;
  const bool has_metric = p.metric == SDTW_SQEUCLIDEAN || p.metric == SDTW_CITYBLOCK || p.metric == SDTW_EUCLIDEAN;
  return exec.no_state && has_metric && p.dtype != SDTW_F64 && p.features <= max_stream_features &&
         p.has_unit_steps() && rows <= max_stream_warps * warp * rows_of_lane(p) && columns <= longest_y;
}

}  // namespace

Streams make_streams(const Problem &p, const Exec &exec) {
  Streams s{};
  s.fit = are_streams(p, exec);
  if (!s.fit) return s;
  s.always = p.gamma == 0 || p.all_pairs;
  s.everywhere = p.gamma == 0 || p.metric == SDTW_SQEUCLIDEAN;  // else costs are made in float64
  s.swapped = are_swapped(p);
  const int64_t of_lane = rows_of_lane(p), n = s.swapped ? p.m : p.n, m = s.swapped ? p.n : p.m;
  s.warps = ceil_div(n, of_lane * warp);
  s.lanes = warp;
  while (s.lanes > 8 && n <= of_lane * s.lanes / 2) s.lanes /= 2;
  Arena arena;
  s.control = arena.add(1, 64);
  constexpr int64_t budget = int64_t{32} << 20, cell = 16, of_block = 4;
  if (n > rows_per_lane * warp)
    s.exact_warps = std::clamp<int64_t>(budget / (cell * m) / of_block * of_block, of_block, 1024);
  s.rows = arena.add(checked_mul(s.exact_warps, m), cell);
  s.bytes = arena.bytes();
  return s;
}

std::string describe_streams(const sdtw::Plan &plan) {
  const Streams &s = plan.cuda.streams;
  if (!s.fit) return "";
  const bool is_last = plan.cuda.short_pairs.fit && plan.cuda.short_pairs.before_streams;
  char text[200];
  std::snprintf(text, sizeof text, "; values of many y beside an x by streams of %lld lanes of %lld warps%s",
                static_cast<long long>(s.lanes), static_cast<long long>(s.warps),
                is_last        ? ", where float64 is slow"
                : s.everywhere ? ""
                               : ", where float64 is not slow");
  return text;
}

}  // namespace sdtw::cuda
