// Backward of one pair in strips: E sweeps back through tiles, recomputed from their boundaries if forward has not kept
// how their cells are entered, and becomes gradients.
#pragma once

#include "cpu/flow.h"
#include "cpu/strips.h"

namespace sdtw::cpu {

template <class T, class In>
template <class Locals>
void StripPair<T, In>::backward(Wanted wanted, T factor, Locals &&locals, int threads) {
  const Output out{wanted, target_of(wanted, b), factor};
  several_threads = threads > 1;
  std::fill(adjoint_row - pad, adjoint_row + m + pad, T(0));
  if (wanted == Wanted::gradients) {
    const int64_t size_x = by_rows ? strips() * strip_rows * row_features(p) : series.size_x();
    const int64_t size_y = by_rows ? m * row_features(p) : series.size_y();
    if (by_rows) load_rows();
    if (p.metric == SDTW_COSINE) {
      std::fill(wide_grad_x, wide_grad_x + size_x, 0.);
      std::fill(wide_grad_y, wide_grad_y + size_y, 0.);
    } else {
      std::fill(grad_x, grad_x + size_x, T(0));
      std::fill(grad_y, grad_y + size_y, T(0));
    }
    if (sizeof(T) == 4) {
      std::fill(rest_x, rest_x + size_x, T(0));
      std::fill(rest_y, rest_y + size_y, T(0));
    }
  }
  if (tangents.wanted()) {
    tangents.clear_gradients();
    tangents.start_adjoint();
  }
  if (rule.hard) return backward_path(locals(0), out);
  run(locals, threads, [&](int64_t ticket, std::byte *local) { backward_strip(strips() - 1 - ticket, local, out); });
}

template <class T, class In>
void StripPair<T, In>::backward_strip(int64_t i, std::byte *local, const Output &out) {
  const Extent cells = extent(i);
  const Corridor within = corridor(i);
  T *const left = at<T>(local, layout.carry_left), *const diagonal = at<T>(local, layout.carry_diagonal);
  T *const above = left + strip_rows;
  std::fill(left, left + strip_rows + W, T(0));
  std::fill(diagonal, diagonal + strip_rows, T(0));
  if (i == strips() - 1) left[corner_row() * W + corner_lane()] = 1;
  if (tangents.carried()) tangents.clear_carry(local);
  double lost = 0;
  for (int64_t end = within.end, s; end > within.begin; end = s) {
    s = std::max((end - 1) / plan.tile_cols * plan.tile_cols, within.begin);
    const int64_t count = end - s;
    // The strip below has passed up all of this tile's columns once it is through with the tile before this one.
    if (i + 1 < strips()) wait(i + 1, steps(i + 1) - std::max<int64_t>(0, std::min(s - plan.tile_cols, steps(i + 1))));
    // Where nothing comes from the right, steps past the last one that anything comes from below in are not swept.
    int64_t live = count;
    if (!any_live(left, strip_rows + W) && !any_live(diagonal, strip_rows)) {
      live = live_part(adjoint_row + s - W + 1, count);
      std::fill(left, left + strip_rows + W, T(0));
      std::fill(diagonal, diagonal + strip_rows, T(0));
      std::fill(adjoint_row + s + live + 1, adjoint_row + s + count + 1, T(0));
      if (tangents.carried()) tangents.skip(s + live, count - live, local);
    }
    if (live > 0) {
      const T *const entries = kept_at(i, s);
      if (!entries || (metric().slopes[form] && out.wanted == Wanted::gradients)) cost(i, cells, s, live, local);
      if (tangents.carried()) tangent_cost(i, cells, s, live, local);
      {
        const FlushDenormals flush;
        if (!entries) recompute(i, within, s, live, local);
        adjoint(entries ? entries : at<T>(local, layout.entries), s, live, local, out.wanted, lost);
      }
      use_alignment(i, cells, s, live, local, out);
    }
    if (s == within.begin) adjoint_row[s] = above[0];
    if (s == within.begin && tangents.carried()) tangents.adjoint_row[s] = tangents.left(local)[strip_rows];
    advance(i, steps(i) - s);
  }
  advance(i, steps(i));
}

template <class T, class In>
void StripPair<T, In>::recompute(int64_t i, const Corridor &within, int64_t first_step, int64_t count,
                                 std::byte *local) const {
  const LaneState<T> lanes = lane_state(local);
  T *const above_m = at<T>(local, layout.segment_m) + pad;
  E *const above_e = at<E>(local, layout.segment_e) + pad;
  rule.forbid(above_m, above_e, count);
  if (i > 0 && first_step < m)
    store.load(boundary_row(i), boundaries.width, first_step - within.begin, above_m, above_e,
               std::min(count, m - first_step));
  if (first_step > within.begin)
    store.load(boundary_column(i, tile_at(within, first_step)), strip_rows + max_width, 0, lanes.m, lanes.e,
               strip_rows + W);
  else
    start_strip(i, lanes);
  T *above_dot = nullptr;
  if (tangents.carried())
    above_dot = tangents.load(i, first_step / plan.tile_cols, first_step, count, local, first_step > within.begin);
  sweep(i, {count, at<T>(local, layout.tile), scale, scale_low, lanes, above_m, above_e, at<T>(local, layout.entries)},
        within, first_step, true, above_dot, local);
}

// Sweeps E back through a tile with these entries, a few steps at a time for the sake of the flow's rounding errors.
// lost: of the flow so far, relative to it, and not given back yet.
template <class T, class In>
void StripPair<T, In>::adjoint(const T *entries, int64_t first_step, int64_t count, std::byte *local, Wanted wanted,
                               double &lost) const {
  const int64_t portion = m < 16 ? 2 : 16;  // a path through few columns goes through many rows in a step
  T *const left = at<T>(local, layout.carry_left), *const diagonal = at<T>(local, layout.carry_diagonal);
  const auto inside = [&] { return kernels.total(left, strip_rows + W) + kernels.total(diagonal, strip_rows); };
  double carried = inside();
  for (int64_t end = count, s; end > 0; end = s) {
    s = std::max<int64_t>(0, end - portion);
    T *const row = adjoint_row + first_step + s;
    const double inflow = carried + kernels.total(row - W + 1, end - s);
    const AdjointSweep<T> part{end - s,
                               entries + s * (tangents.carried() ? 6 : 3) * strip_rows,
                               at<T>(local, layout.alignment) + s * strip_rows,
                               left,
                               diagonal,
                               left + strip_rows,
                               row};
    if (tangents.carried())
      kernels.rules.adjoint_tangent(tangents.adjoint(part, rule.steps, first_step, s, local));
    else if (wanted != Wanted::alignment && rule.weighted)
      kernels.rules.adjoint({part, &rule.steps, nullptr, nullptr, nullptr, nullptr, nullptr});
    else
      mapping.adjoint(part);
    carried = inside();
    const double outflow = carried + kernels.total(row + 1, end - s);
    lost += lack_of_flow(outflow, inflow);
    if (std::abs(lost) < least_correction<T>) continue;
    kernels.grow(left, strip_rows + W, T(lost));
    kernels.grow(diagonal, strip_rows, T(lost));
    kernels.grow(row + 1, end - s, T(lost));
    carried = inside();
    // What the correction itself has been rounded by, which is more only where next to nothing flows.
    const double rest = lost + lack_of_flow(carried + kernels.total(row + 1, end - s), outflow);
    lost = std::abs(rest) < 2 * least_correction<T> ? rest : 0;
  }
}

template <class T, class In>
void StripPair<T, In>::use_alignment(int64_t i, const Extent &cells, int64_t first_step, int64_t count,
                                     std::byte *local, const Output &out) const {
  if (out.wanted == Wanted::gradients) gradient(i, first_step, count, local);
  if (!out.target) return;
  T factors[max_width];
  std::fill(factors, factors + max_width, out.factor);
  MatrixTile t = matrix(i, first_step, count, nullptr, element<In>(*out.target, at_place.result), out.target->stride);
  t.first = cells.first;
  t.last = cells.last;
  mapping.store[core::dtype_of<In>](
      t, tangents.wanted() ? tangents.alignment_dot(local) : at<T>(local, layout.alignment), factors);
}

template <class T, class In>
void StripPair<T, In>::gradient(int64_t i, int64_t first_step, int64_t count, std::byte *local) const {
  const FusedTile<T> tile = fused(i, first_step, count, local);
  if (tangents.wanted()) {
    const int64_t strip = series.strip(i), column = series.column(first_step);
    return tangents.gradient(tangents.beside(tile, strip, column, local), strip, column, form);
  }
  if (metric().slopes[form]) metric().slopes[form](tile);
  if (!by_rows) return metric().gradient(tile);
  const int64_t row = i * strip_rows * row_features(p);
  metric().row_gradient({count, row_features(p), first_step, m, tile.alignment, rows_x + row, rows_y, grad_x + row,
                         grad_y, rest_x + row, rest_y});
}

// At gamma = 0 the best path is all there is: from the corner back, in each tile that it goes through.
template <class T, class In>
void StripPair<T, In>::backward_path(std::byte *local, const Output &out) {
  T *const tile = at<T>(local, layout.alignment);
  const T *const taken = at<T>(local, layout.entries);
  int64_t row = n - 1, column = m - 1;
  while (row >= 0) {
    const int64_t i = row / strip_rows, top = i * strip_rows;
    const Extent cells = extent(i);
    const Corridor within = corridor(i);
    while (row >= top) {
      const auto step_of_row = [&] { return column + (row - top) / K; };
      // A path leaves the corridor where state, or the inputs, are no longer what they were in forward.
      if (step_of_row() < within.begin || step_of_row() >= within.end) return;
      const int64_t s = std::max(step_of_row() / plan.tile_cols * plan.tile_cols, within.begin);
      const int64_t count = tile_end(within, s) - s;
      cost(i, cells, s, count, local);
      if (tangents.wanted()) {
        tangent_cost(i, cells, s, count, local);
        std::fill(tangents.alignment_dot(local), tangents.alignment_dot(local) + count * strip_rows, T(0));
      }
      recompute(i, within, s, count, local);
      std::fill(tile, tile + count * strip_rows, T(0));
      while (row >= top && step_of_row() >= s) {
        const int64_t at_row = (row - top) % K * W + (row - top) / K, cell = (step_of_row() - s) * strip_rows + at_row;
        const int step = row + column == 0 ? core::diagonal : int(taken[cell]);
        tile[cell] = out.wanted == Wanted::alignment ? T(1) : rule.steps.weight[step];
        if (tangents.wanted()) tangents.value += double(tile[cell]) * double(tangents.tile(local)[cell]);
        if (step != core::horizontal) --row;
        if (step != core::vertical) --column;
      }
      use_alignment(i, cells, s, count, local, out);
    }
  }
}

// The series, a time step after the other; rows past the end, of which none has E, only have to be numbers.
template <class T, class In>
void StripPair<T, In>::load_rows() const {
  const int64_t each = row_features(p);
  const auto load = [&](const sdtw_in &from, int64_t index, int64_t count, T *to) {
    const In *data = element<In>(from, index);
    for (int64_t i = 0; i < count; ++i, data += from.stride[1], to += each) {
      if (from.stride[2] == 1)
        kernels.load_row[core::dtype_of<In>](data, to, p.features);
      else
        for (int64_t f = 0; f < p.features; ++f) to[f] = static_cast<T>(data[f * from.stride[2]]);
      std::fill(to + p.features, to + each, T(0));
    }
    return to;
  };
  T *const end = load(b.x, at_place.x, n, rows_x);
  std::fill(end, rows_x + strips() * strip_rows * each, T(0));
  load(b.y, at_place.y, m, rows_y);
}

template <class T, class In>
template <class Out>
void StripPair<T, In>::write_gradients(double g, StridedOut<Out> to_x, StridedOut<Out> to_y, std::byte *local) const {
  const T factor = T(metric().slope * g);
  if (by_rows) {
    store_rows(grad_x, n, -factor, to_x);
    store_rows(grad_y, m, factor, to_y);
    return;
  }
  T *from_x = grad_x, *from_y = grad_y;
  if (p.metric == SDTW_COSINE) {
    if constexpr (sizeof(T) == 4) from_x = rest_x, from_y = rest_y;
    if (tangents.wanted()) {
      if constexpr (sizeof(T) == 8) tangents.project(series, norms_x, norms_y, grad_x, grad_y);
    } else {
      if (to_x.data) series.project_x(wide_or_null(wide_x), norms_x, wide_grad_x, from_x);
      if (to_y.data) series.project_y(wide_or_null(wide_y), norms_y, wide_grad_y, from_y);
    }
  }
  if (to_x.data) series.unpack_x(to_x, from_x, -factor);
  if (to_y.data) series.unpack_y(to_y, from_y, factor, at<T>(local, layout.tile));
}

template <class T, class In>
template <class Out>
void StripPair<T, In>::store_rows(const T *from, int64_t count, T factor, StridedOut<Out> to) const {
  if (!to.data) return;
  for (int64_t i = 0; i < count; ++i, from += row_features(p)) {
    Out *const out = to.data + i * to.step;
    if (to.feature == 1)
      kernels.store_row[core::dtype_of<Out>](from, factor, out, p.features);
    else
      for (int64_t f = 0; f < p.features; ++f) out[f * to.feature] = static_cast<Out>(from[f] * factor);
  }
}

}  // namespace sdtw::cpu
