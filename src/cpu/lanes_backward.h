// Backward of a group of pairs, one in each SIMD lane: E (Cuturi and Blondel 2017, Algorithm 2), tile by tile from the
// last to the first, through transition probabilities that are computed again from the tile's boundaries.
#pragma once

#include "cpu/lanes.h"

namespace sdtw::cpu {

// Recomputes the transition probabilities of the tile with its first cell at (r, c).
template <class T, class In>
void LaneGroup<T, In>::recompute(int64_t r, int64_t c, int64_t count) const {
  const int64_t i = r / plan.tile_rows, rows = std::min(plan.tile_rows, longest_n - r);
  // The row above the tile, from one column before it on.
  const int64_t before = c > 0 ? 1 : 0;
  T *const m_ = above_m + W;
  E *const e_ = above_e + W;
  fill_forbidden(above_m, above_e, (count + 1) * W, hard);
  if (i > 0)
    store.load(boundary_row(i), p.m * W, (c - before) * W, m_ - before * W, e_ - before * W, (count + before) * W);
  bool ok = true;
  for (int64_t q = 0; q < rows; q += K) {
    const LaneState<T> lanes = lane_state(q);
    if (c == 0) {
      start_rows(r + q, lanes);
    } else {
      store.load(boundary_column(r + q, c / plan.tile_cols), K * W, 0, lanes.m, lanes.e, K * W);
      // One back in the row above: its own column boundary, saved last time round in above_m[0].
      std::copy(above_m, above_m + W, lanes.above_m);
      std::copy(above_e, above_e + W, lanes.above_e);
      std::copy(lanes.m + (K - 1) * W, lanes.m + K * W, above_m);
      std::copy(lanes.e + (K - 1) * W, lanes.e + K * W, above_e);
    }
    cost(r + q, c, count, ok);
    sweep({count, tile, scale, scale_low, lanes, m_, e_, probability + q * plan.tile_cols * 3 * W}, true);
  }
}

// One group of K rows of a tile; E stays in `alignment`.
template <class T, class In>
void LaneGroup<T, In>::adjoint(int64_t r, int64_t c, int64_t count) const {
  const FlushDenormals flush;
  const int64_t q = r % plan.tile_rows;
  const T *const p_ = probability + q * plan.tile_cols * 3 * W;
  for (int64_t end = c + count; end > c;) {
    // Down to the rightmost corner before `end`, which is then started.
    int64_t s = c;
    for (int l = 0; l < W; ++l)
      if (corner_in(l, r, K, c, end)) s = std::max(s, m[l] == end ? c : m[l]);
    for (int l = 0; l < W; ++l)
      if (corner_in(l, r, K, c, end) && m[l] == end) left[(q + n[l] - 1 - r) * W + l] = 1;
    mapping.adjoint({end - s, p_ + (s - c) * K * 3 * W, alignment + (s - c) * K * W, left + q * W, diagonal + q * W,
                     above_m, adjoint_row + s * W});
    end = s;
  }
}

// Whether a tile is worth sweeping. Decided, and what is negligible dropped, for each lane by itself: what becomes of a
// pair does not depend on its neighbours.
template <class T, class In>
bool LaneGroup<T, In>::live(int64_t r, int64_t c, int64_t count) const {
  struct {
    T *data;
    int64_t rows;
  } const incoming[] = {{left, plan.tile_rows}, {diagonal, plan.tile_rows}, {adjoint_row + c * W, count}};
  T largest[max_width] = {}, keep[max_width];
  for (const auto &in : incoming)
    for (int64_t i = 0; i < in.rows; ++i)
      for (int l = 0; l < W; ++l) largest[l] = std::max(largest[l], in.data[i * W + l]);
  bool any = false, all = true;
  for (int l = 0; l < W; ++l) {
    keep[l] = largest[l] >= T(core::negligible_alignment) ? 1 : 0;
    any |= keep[l] > 0 || corner_in(l, r, plan.tile_rows, c, c + count);
    all &= keep[l] > 0 || largest[l] == 0;
  }
  if (!all)
    for (const auto &in : incoming)
      for (int64_t i = 0; i < in.rows; ++i)
        for (int l = 0; l < W; ++l) in.data[i * W + l] *= keep[l];
  return any;
}

template <class T, class In>
void LaneGroup<T, In>::backward(const sdtw_out *target, const T *factor) {
  std::fill(adjoint_row, adjoint_row + longest_m * W, T(0));
  if (p.fused() && !target) {
    const int64_t size_x = tiles_down() * plan.tile_rows * features * W, size_y = longest_m * features * W;
    std::fill(grad_x, grad_x + size_x, T(0));
    std::fill(grad_y, grad_y + size_y, T(0));
    if (sizeof(T) == 4) std::fill(rest_x, rest_x + size_x, T(0));
  }
  for (int64_t r = (tiles_down() - 1) * plan.tile_rows; r >= 0; r -= plan.tile_rows) {
    std::fill(left, left + plan.tile_rows * W, T(0));
    std::fill(diagonal, diagonal + plan.tile_rows * W, T(0));
    double lost[max_width] = {};
    for (int64_t c = (tiles_across() - 1) * plan.tile_cols; c >= 0; c -= plan.tile_cols) {
      const int64_t count = std::min(plan.tile_cols, longest_m - c), rows = std::min(plan.tile_rows, longest_n - r);
      if (!live(r, c, count)) continue;
      Flow<T> inflow(W), outflow(W);
      T started[max_width];
      for (int l = 0; l < W; ++l) started[l] = corner_in(l, r, plan.tile_rows, c, c + count) ? 1 : 0;
      inflow.add(started, W);
      inflow.add(left, plan.tile_rows * W);
      inflow.add(diagonal, plan.tile_rows * W);
      inflow.add(adjoint_row + c * W, count * W);
      recompute(r, c, count);
      for (int64_t q = (rows - 1) / K * K; q >= 0; q -= K) {
        adjoint(r + q, c, count);
        if (target) {
          const Offsets at = offsets(*target, &Place::result, places);
          int64_t first[max_width] = {}, last[K * max_width];
          mapping.store[core::dtype_of<In>](
              matrix(r + q, c, count, nullptr, target->data, target->stride, at, first, last), alignment, factor);
        } else {
          gradient(r + q, c, count);
        }
      }
      outflow.add(left, plan.tile_rows * W);
      outflow.add(diagonal, plan.tile_rows * W);
      outflow.add(adjoint_row + c * W, count * W);
      const auto correction = outflow.settle(inflow, lost);
      correction.apply(left, plan.tile_rows * W);
      correction.apply(diagonal, plan.tile_rows * W);
      correction.apply(adjoint_row + c * W, count * W);
    }
  }
}

}  // namespace sdtw::cpu
