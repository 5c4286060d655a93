// Forward of one pair in strips: strip by strip, leaving what backward begins with.
#pragma once

#include "cpu/strips.h"

namespace sdtw::cpu {

template <class T, class In>
template <class Locals>
bool StripPair<T, In>::forward(double &value, Locals &&locals, int threads) {
  several_threads = threads > 1;
  value = std::numeric_limits<double>::infinity();
  if (!rule.may_reach()) return p.fused();  // given costs, which may still be NaN, have not been looked at
  rule.forbid(row_m - pad, row_e - pad, m + 2 * pad);
  if (tangents.carried()) tangents.start();
  clear_rest();
  std::atomic<bool> ok{true};
  run(locals, threads, [&](int64_t i, std::byte *local) {
    // In double a cost that is NaN may be that of a cell outside of the band (TypedCall::solve_with_any_engine).
    if (sizeof(T) == 4 && !ok.load(std::memory_order_relaxed)) return advance(i, steps(i));
    if (!forward_strip(i, local, value)) ok.store(false, std::memory_order_relaxed);
  });
  if (broken.load()) value = std::numeric_limits<double>::infinity();
  return ok;
}

template <class T, class In>
bool StripPair<T, In>::forward_strip(int64_t i, std::byte *local, double &value) {
  const LaneState<T> lanes = lane_state(local);
  const Extent cells = extent(i);
  const Corridor within = corridor(i);
  T *const tile = at<T>(local, layout.tile);
  bool ok = true;
  clear_strip(i);
  if (within.broken) broken.store(true, std::memory_order_relaxed);
  start_strip(i, lanes);
  if (tangents.carried()) tangents.start_strip(local);
  for (int64_t s = within.begin, next; s < within.end; s = next) {
    next = tile_end(within, s);
    const int64_t count = next - s;
    if (i > 0) wait(i - 1, std::min(steps(i - 1), next + W));
    T *const entries = kept_at(i, s);
    const bool saves = block && !entries;
    if (saves && i > 0 && s < m)
      store.save(boundary_row(i), boundaries.width, s - within.begin, row_m + s, row_e + s, std::min(count, m - s));
    if (saves && s > within.begin)
      store.save(boundary_column(i, tile_at(within, s)), strip_rows + max_width, 0, lanes.m, lanes.e, strip_rows + W);
    ok &= cost(i, cells, s, count, local);
    if (!ok && sizeof(T) == 4) {
      advance(i, within.end);
      return false;
    }
    if (tangents.carried()) {
      tangents.save(i, s / plan.tile_cols, s, count, local, s > within.begin);
      tangent_cost(i, cells, s, count, local);
    }
    sweep(i, {count, tile, scale, scale_low, lanes, row_m + s, row_e + s, entries}, within, s, entries != nullptr,
          tangents.carried() ? tangents.row + s : nullptr, local);
    advance(i, next);
  }
  if (i == strips() - 1) {
    const int corner = corner_row() * W + corner_lane();
    value = rule.value(lanes.m + corner, lanes.e + corner);
    if (tangents.carried()) tangents.value = double(tangents.carried_in(local, nullptr).dot[corner]);
  }
  return ok;
}

}  // namespace sdtw::cpu
