// Backward of a group of pairs, one in each SIMD lane: E (Cuturi and Blondel 2017, Algorithm 2), tile by tile from the
// last to the first, through entries of cells that are computed again from the tile's boundaries, if forward has not
// kept them.
#pragma once

#include "cpu/flow.h"
#include "cpu/lanes.h"

namespace sdtw::cpu {

template <class T, class In>
void LaneGroup<T, In>::backward(Wanted wanted, const T *factor) {
  const sdtw_out *const target = target_of(wanted, b);
  std::fill(adjoint_row, adjoint_row + longest_m * W, T(0));
  if (wanted == Wanted::gradients) {
    const int64_t size_x = tiles_down() * plan.tile_rows * features * W, size_y = longest_m * features * W;
    if (p.metric == SDTW_COSINE) {
      std::fill(wide_grad_x, wide_grad_x + size_x, 0.);
      if (both_gradients) std::fill(wide_grad_y, wide_grad_y + size_y, 0.);
    } else {
      std::fill(grad_x, grad_x + size_x, T(0));
      if (both_gradients) std::fill(grad_y, grad_y + size_y, T(0));
      if (sizeof(T) == 4) std::fill(rest_x, rest_x + size_x, T(0));
    }
  }
  Columns columns;
  for (int64_t r = (tiles_down() - 1) * plan.tile_rows; r >= 0; r -= plan.tile_rows) {
    std::fill(left, left + plan.tile_rows * W, T(0));
    std::fill(diagonal, diagonal + plan.tile_rows * W, T(0));
    double lost[max_width] = {};
    for (int64_t c = (tiles_across() - 1) * plan.tile_cols; c >= 0; c -= plan.tile_cols) {
      const int64_t count = std::min(plan.tile_cols, longest_m - c), rows = std::min(plan.tile_rows, longest_n - r);
      if (!live(r, c, count)) continue;
      double inflow[max_width], outflow[max_width] = {};
      for (int l = 0; l < W; ++l) inflow[l] = corner_in(l, r, plan.tile_rows, c, c + count) ? 1 : 0;
      for (const Carried &in : carried(c, count)) kernels.of_lanes.total(in.data, in.count, inflow);
      if (!kept_at(r, c)) recompute(r, c, count);
      for (int64_t q = (rows - 1) / K * K; q >= 0; q -= K) {
        find_columns(r + q, columns);
        const int64_t from = std::max(c, columns.begin), to = std::min(c + count, columns.end);
        if (from < to) adjoint(r + q, from, to, wanted);
        if (rule.banded) leave(r + q, c, count, from, to, columns.begin >= c);
        if (from >= to) continue;
        if (target) {
          const Offsets at = offsets(*target, &Place::result, places);
          int64_t first[max_width] = {}, last[K * max_width];
          mapping.store[core::dtype_of<In>](
              matrix(r + q, from, to - from, nullptr, target->data, target->stride, at, first, last), alignment,
              factor);
        } else {
          gradient(r + q, from, to - from);
        }
      }
      for (const Carried &out : carried(c, count)) kernels.of_lanes.total(out.data, out.count, outflow);
      T excess[max_width];
      if (settle(inflow, outflow, W, lost, excess))
        for (const Carried &out : carried(c, count)) kernels.of_lanes.grow(out.data, out.count, excess);
    }
  }
}

// Whether a tile is worth sweeping. Decided, and what is negligible dropped, for each lane by itself: what becomes of a
// pair does not depend on its neighbours.
template <class T, class In>
bool LaneGroup<T, In>::live(int64_t r, int64_t c, int64_t count) const {
  T largest[max_width] = {}, keep[max_width];
  for (const Carried &in : carried(c, count)) kernels.of_lanes.largest(in.data, in.count, largest);
  bool any = false, all = true;
  for (int l = 0; l < W; ++l) {
    keep[l] = largest[l] >= least_inflow<T> ? 1 : 0;
    any |= keep[l] > 0 || corner_in(l, r, plan.tile_rows, c, c + count);
    all &= keep[l] > 0 || largest[l] == 0;
  }
  if (!all)
    for (const Carried &in : carried(c, count))
      for (int64_t i = 0; i < in.count; ++i)
        for (int l = 0; l < W; ++l) in.data[i * W + l] *= keep[l];
  return any;
}

// Recomputes the entries of the tile with its first cell at (r, c), from its boundaries.
template <class T, class In>
void LaneGroup<T, In>::recompute(int64_t r, int64_t c, int64_t count) const {
  const int64_t i = r / plan.tile_rows, rows = std::min(plan.tile_rows, longest_n - r);
  // The row above the tile, from one column before it on.
  const int64_t before = c > 0 ? 1 : 0;
  T *const m_ = above_m + W;
  E *const e_ = above_e + W;
  rule.forbid(above_m, above_e, (count + 1) * W);
  if (i > 0)
    store.load(boundary_row(i), p.m * W, (c - before) * W, m_ - before * W, e_ - before * W, (count + before) * W);
  bool ok = true;
  Columns columns;
  for (int64_t q = 0; q < rows; q += K) {
    const LaneState<T> lanes = lane_state(q);
    find_columns(r + q, columns);
    const int64_t from = std::max(c, columns.begin), to = std::min(c + count, columns.end);
    if (from > c || from == columns.begin || c > columns.end) {
      start_rows(r + q, lanes);
      rule.forbid(above_m, above_e, W);
    } else {
      store.load(boundary_column(r + q, c / plan.tile_cols), K * W, 0, lanes.m, lanes.e, K * W);
      // One back in the row above: its own column boundary, saved last time round in above_m[0].
      std::copy(above_m, above_m + W, lanes.above_m);
      std::copy(above_e, above_e + W, lanes.above_e);
      std::copy(lanes.m + (K - 1) * W, lanes.m + K * W, above_m);
      std::copy(lanes.e + (K - 1) * W, lanes.e + K * W, above_e);
    }
    if (from >= to) continue;
    cost(r + q, from, to - from, ok);
    sweep(columns, r + q, from, to,
          {to - from, tile, scale, scale_low, lanes, m_ + (from - c) * W, e_ + (from - c) * W,
           entries + q * plan.tile_cols * 3 * W},
          true);
  }
}

// Columns [begin, end) of one group of K rows of a tile; E stays in `alignment`.
template <class T, class In>
void LaneGroup<T, In>::adjoint(int64_t r, int64_t begin, int64_t end, Wanted wanted) const {
  const FlushDenormals flush;
  const int64_t q = r % plan.tile_rows;
  const T *const of_tile = kept_at(r, begin), *const p_ = of_tile ? of_tile : entries + q * plan.tile_cols * 3 * W;
  for (int64_t to = end; to > begin;) {
    // Down to the rightmost corner before `to`, which is then started.
    int64_t s = begin;
    for (int l = 0; has_corners(r) && l < W; ++l)
      if (corner_in(l, r, K, begin, to)) s = std::max(s, m[l] == to ? begin : m[l]);
    for (int l = 0; has_corners(r) && l < W; ++l)
      if (corner_in(l, r, K, begin, to) && m[l] == to) left[(q + n[l] - 1 - r) * W + l] = 1;
    const AdjointSweep<T> part{
        to - s,  p_ + (s - begin) * K * 3 * W, alignment + (s - begin) * K * W, left + q * W, diagonal + q * W,
        above_m, adjoint_row + s * W};
    if (wanted != Wanted::alignment && rule.weighted)
      kernels.of_lanes.adjoint({part, &rule.steps, nullptr, nullptr, nullptr, nullptr, nullptr});
    else
      mapping.adjoint(part);
    to = s;
  }
}

// Of K rows of a tile from column c on only [begin, end) is swept: nothing comes from its other columns, but for what
// rounding has made of probabilities of 0. first: nor from those before the tile.
template <class T, class In>
void LaneGroup<T, In>::leave(int64_t r, int64_t c, int64_t count, int64_t begin, int64_t end, bool first) const {
  std::fill(adjoint_row + c * W, adjoint_row + std::min(std::max(begin, c), c + count) * W, T(0));
  std::fill(adjoint_row + std::max(end, c) * W, adjoint_row + (c + count) * W, T(0));
  if (!first) return;
  const int64_t q = r % plan.tile_rows;
  std::fill(left + q * W, left + (q + K) * W, T(0));
  std::fill(diagonal + q * W, diagonal + (q + K) * W, T(0));
}

}  // namespace sdtw::cpu
