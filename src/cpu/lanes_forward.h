// Forward of a group of pairs, one in each SIMD lane: row by row, leaving what backward begins with.
#pragma once

#include "cpu/lanes.h"

namespace sdtw::cpu {

template <class T, class In>
bool LaneGroup<T, In>::forward(double *value) {
  bool ok = true;
  const bool recomputes = state && !(kept && of_kept.columns >= noted_m);
  rule.forbid(row_m, row_e, longest_m * W);
  for (int l = 0; l < W; ++l)  // where a band does not reach the corner
    if (n[l] > 0) value[l] = std::numeric_limits<double>::infinity();
  Columns columns;
  for (int64_t r = 0; r < longest_n; r += K) {
    const LaneState<T> lanes = lane_state(0);
    start_rows(r, lanes);
    find_columns(r, columns);
    if (recomputes && r > 0 && r % plan.tile_rows == 0)
      store.save(boundary_row(r / plan.tile_rows), p.m * W, 0, row_m, row_e, longest_m * W);
    for (int64_t c = columns.begin / plan.tile_cols * plan.tile_cols; c <= columns.end && c < longest_m;
         c += plan.tile_cols) {
      const int64_t from = std::max(c, columns.begin), to = std::min(c + plan.tile_cols, columns.end);
      // Also where nothing of these rows is in the tile, as their last cell is the diagonal neighbour of one that is.
      T *const entries_kept = kept_at(r, c);
      if (state && !entries_kept && c > columns.begin)
        store.save(boundary_column(r, c / plan.tile_cols), K * W, 0, lanes.m, lanes.e, K * W);
      if (from >= to) continue;
      cost(r, from, to - from, ok);
      if (!ok && sizeof(T) == 4) return false;
      for (int64_t s = from, end; s < to; s = end) {
        end = next_corner(r, s, to);
        sweep(columns, r, s, end,
              {end - s, tile + (s - from) * K * W * (form == plain_cost ? 1 : 2), scale, scale_low, lanes,
               row_m + s * W, row_e + s * W, kept_at(r, s)},
              entries_kept != nullptr);
        for (int l = 0; has_corners(r) && l < W; ++l)
          if (corner_in(l, r, K, s, end) && m[l] == end) {
            const int64_t at_corner = (n[l] - 1 - r) * W + l;
            value[l] = rule.value(lanes.m + at_corner, lanes.e + at_corner);
          }
      }
    }
  }
  return ok;
}

template <class T, class In>
void LaneGroup<T, In>::find_columns(int64_t r, Columns &c) const {
  c.begin = c.open_begin = 0, c.end = c.open_end = longest_m;
  if (!rule.banded) {
    if (rule.unit) return;
    std::fill(c.first, c.first + K * W, E(0)), std::fill(c.last, c.last + K * W, E(longest_m));
    std::fill(c.wide_first, c.wide_first + K * W, 0.), std::fill(c.wide_last, c.wide_last + K * W, double(longest_m));
    return;
  }
  c.begin = longest_m, c.end = 0;
  core::Interval of_row[K];
  for (int l = 0; l < W; ++l) {
    const core::Band band{p.band, p.band_radius, n[l], m[l]};
    const bool again = l > 0 && n[l] == n[l - 1] && m[l] == m[l - 1];
    for (int k = 0; k < K; ++k) {
      core::Interval &admits = of_row[k];
      if (r + k >= n[l])
        admits = {0, longest_m};
      else if (!again)
        admits = band.columns(r + k);
      c.first[k * W + l] = E(admits.first), c.last[k * W + l] = E(admits.end);
      c.wide_first[k * W + l] = double(admits.first), c.wide_last[k * W + l] = double(admits.end);
      if (r + k >= n[l]) continue;
      c.open_begin = std::max(c.open_begin, admits.first);
      if (admits.end < m[l] || admits.end <= admits.first) c.open_end = std::min(c.open_end, admits.end);
      if (admits.end <= admits.first) continue;
      c.begin = std::min(c.begin, std::max<int64_t>(0, admits.first - 1));
      c.end = std::max(c.end, admits.end);
    }
  }
}

}  // namespace sdtw::cpu
