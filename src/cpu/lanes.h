// Small pairs, one in each SIMD lane: a group of W pairs is swept row by row, 4 rows at a time, all lanes in step.
//
// Pairs of a group may differ in length: the group is swept to its longest, and a pair's value is read, or its gradient
// started, in passing. Boundaries are kept for tiles of 32 x 32 cells. Of bands they sweep, for each K rows, the
// columns that any lane's admits, and mask those that a lane's own does not; at gamma = 0 they have cells as put_hard
// has them, and E is 1 along the best path and 0 elsewhere.
//
// This file has what a group is; forward is in lanes_forward.h, the rest in lanes_backward.h.
#pragma once

#include <algorithm>
#include <array>

#include "core/band.h"
#include "cpu/flush.h"
#include "cpu/lane_series.h"
#include "cpu/rules.h"

namespace sdtw::cpu {

template <class T, class In>
class LaneGroup {
 public:
  using E = typename core::Exponent<T>::type;
  using Store = Boundary<T, In>;

  // W pairs, of which those whose kind is not solved are lanes without cells. first: which lane of its unit the first
  // one is. block_of_state: the group's part of state, or null; entries_of_tiles: where those of some are kept, in
  // place of boundaries in state, or null.
  LaneGroup(const sdtw::Plan &whole, const Isa &isa, const Buffers &buffers, const Place *pairs, int64_t first,
            const Lengths *lengths, const ScratchLayout &layout, std::byte *shared, std::byte *local,
            std::byte *block_of_state, T *entries_of_tiles)
      : p(whole.problem),
        plan(whole.cpu),
        kernels(isa.kernels<T>()),
        mapping(kernels.lanes),
        W(kernels.width),
        b(buffers),
        places(pairs),
        series{kernels, p.features, W},
        state(block_of_state),
        kept(entries_of_tiles),
        of_kept(p, plan),
        rule(p, plan.transposed, p.n, p.m),
        scale(T(bits_of_cost(p))),
        scale_low(T(bits_of_cost(p) - double(scale))) {
    // Several groups of narrow vectors have room where one of wide ones has: series stay packed side by side.
    const int64_t before = stays ? first : 0, rows_before = before * plan.tiles_down * plan.tile_rows;
    x = at<T>(shared, layout.x) + rows_before * packed_features(p);
    y = at<T>(shared, layout.y) + before * p.m * packed_features(p);
    row_m = at<T>(shared, layout.row_m);
    row_e = at<E>(shared, layout.row_e);
    grad_x = at<T>(shared, layout.grad_x);
    grad_y = at<T>(shared, layout.grad_y);
    rest_x = at<T>(shared, layout.rest_x);
    rest_y = at<T>(shared, layout.rest_y);
    wide_grad_x = at<double>(shared, layout.grad_x);
    wide_grad_y = at<double>(shared, layout.grad_y);
    wide_x = at<double>(shared, layout.wide_x) + rows_before * packed_features(p);
    wide_y = at<double>(shared, layout.wide_y) + before * p.m * packed_features(p);
    norms_x = at<double>(shared, layout.norms_x) + rows_before;
    norms_y = at<double>(shared, layout.norms_y) + before * p.m;
    adjoint_row = at<T>(shared, layout.adjoint_row);
    tile = at<T>(local, layout.tile);
    alignment = at<T>(local, layout.alignment);
    entries = at<T>(local, layout.entries);
    state_m = at<T>(local, layout.state_m);
    state_e = at<E>(local, layout.state_e);
    left = at<T>(local, layout.carry_left);
    diagonal = at<T>(local, layout.carry_diagonal);
    above_m = at<T>(local, layout.segment_m);
    above_e = at<E>(local, layout.segment_e);
    for (int l = 0; l < W; ++l) {
      n[l] = lengths[l].kind == Kind::solved ? lengths[l].n : 0;
      m[l] = lengths[l].kind == Kind::solved ? lengths[l].m : 0;
      longest_n = std::max(longest_n, n[l]);
      if (n[l] > 0) shortest_n = std::min(shortest_n, n[l]);
      longest_m = std::max(longest_m, m[l]);
      noted_n = std::max(noted_n, lengths[l].n);
      noted_m = std::max(noted_m, lengths[l].m);
    }
    matrix_limit = largest_given_cost<T>(p);
  }

  bool empty() const { return longest_n == 0; }

  // Packs the series.
  void prepare() {
    if (p.fused()) {
      series.template pack<In>(b.x, offsets(b.x, &Place::x, places).at, n, longest_n, padded_n(), x);
      series.template pack<In>(b.y, offsets(b.y, &Place::y, places).at, m, longest_m, longest_m, y);
    }
  }
  // Which engine the group's costs need.
  Engine needed() const {
    if (sizeof(T) == 8) return Engine::float64;
    return engine_for(p.fused() ? series.cost_bound(p.metric, x, longest_n, y, longest_m) : CostBound{}, p.n, p.m, p);
  }
  // Returns how many features the series have that costs are computed from.
  int64_t use(Engine engine) {
    choose(engine);
    if (p.metric == SDTW_COSINE) {
      normalise();
    } else if (products) {
      series.centre_points(p.metric, split_scale, x, padded_n(), wide_x, norms_x, y, longest_m, wide_y, norms_y);
    } else if (form == double_cost) {
      std::copy(x, x + padded_n() * p.features * W, wide_x);
      std::copy(y, y + longest_m * p.features * W, wide_y);
    }
    return features;
  }
  // Whether what prepare and use make of the series stays while other groups of the unit are worked on: all lanes of
  // doubles are more than there is room for.
  static constexpr bool stays = sizeof(T) == 4;
  // In place of prepare and use, if that stays, after a forward by another solver.
  void resume(Engine engine, int64_t of_costs) {
    choose(engine);
    features = of_costs;
  }

  // value: [W], in units of gamma; at gamma = 0 as it is. False if a given cost is not for this engine.
  bool forward(double *value);

  // Sweeps E back. Gradients of series stay packed until write_gradients; else E is written, times factor[lane].
  void backward(Wanted wanted, const T *factor);

  // factor: [W], g of each pair. Where to, if anywhere: at the places' series, or of other places.
  template <class Out>
  void write_gradients(const T *factor, const sdtw_out &to_x, const sdtw_out &to_y, const Place *others) const {
    const T slope = T(metric().slope);
    const bool project = p.metric == SDTW_COSINE;
    const Place *const where = others ? others : places;
    // Sums in double cannot become floats in their own place.
    const bool apart = project && sizeof(T) == 4;
    T *const from_x = apart ? rest_x : grad_x, *const from_y = apart ? rest_y : grad_y;
    if (to_x.data) {
      if (project) series.project(x, wide_or_null(wide_x), norms_x, longest_n, features, wide_grad_x, from_x);
      series.template unpack<Out>(to_x, offsets(to_x, &Place::x, where).at, n, longest_n, from_x, factor, -slope);
    }
    if (to_y.data) {
      if (project) series.project(y, wide_or_null(wide_y), norms_y, longest_m, features, wide_grad_y, from_y);
      series.template unpack<Out>(to_y, offsets(to_y, &Place::y, where).at, m, longest_m, from_y, factor, slope);
    }
  }

 private:
  void choose(Engine engine) {
    form = cost_form(engine);
    products = engine == Engine::products;
    point_costs = form == plain_cost && has_point_costs(p);
  }
  static constexpr int K = lane_rows;

  template <class U>
  static U *at(std::byte *base, size_t offset) {
    return reinterpret_cast<U *>(base + offset);
  }

  // Where each lane's part of an array begins, in elements.
  struct Offsets {
    int64_t at[max_width];
  };
  template <class Array>
  Offsets offsets(const Array &array, int64_t Place::*index, const Place *where) const {
    Offsets o{};
    for (int l = 0; l < W; ++l) o.at[l] = where[l].*index * array.stride[0];
    return o;
  }
  // The columns that are swept of rows r .. r + K - 1: up to behind the last that any lane's band admits, from one
  // before the first, so that E that goes diagonally into it is passed on. Rows further down begin no further left.
  struct Columns {
    int64_t begin, end;
    int64_t open_begin, open_end;  // those that are all lanes'
    E first[K * max_width], last[K * max_width];
    double wide_first[K * max_width], wide_last[K * max_width];
  };
  void find_columns(int64_t r, Columns &c) const;
  int64_t padded_n() const { return round_up<int64_t>(longest_n, K); }
  double *wide_or_null(double *wide) const { return sizeof(T) == 4 ? wide : nullptr; }
  void normalise() {
    double *const wide[2] = {wide_or_null(wide_x), wide_or_null(wide_y)};
    const bool zeros_x = series.normalise(x, wide[0], norms_x, padded_n(), n);
    const bool zeros_y = series.normalise(y, wide[1], norms_y, longest_m, m);
    if (!zeros_x && !zeros_y) return;
    series.mark_zeros(x, wide[0], norms_x, padded_n(), 0);
    series.mark_zeros(y, wide[1], norms_y, longest_m, 1);
    features = packed_features(p);
  }
  const MetricKernels<T> &metric() const { return mapping.metric[p.metric]; }
  // Adds what E of K rows of a tile contributes to the gradients.
  void gradient(int64_t r, int64_t c, int64_t count) const {
    const FusedTile<T> of = fused(r, c, count);
    if (metric().slopes[form]) {
      metric().cost[form](of);  // those of other rows have been there since
      metric().slopes[form](of);
    }
    metric().gradient(of);
  }

  int64_t tiles_down() const { return ceil_div(longest_n, plan.tile_rows); }
  int64_t tiles_across() const { return ceil_div(longest_m, plan.tile_cols); }
  // Where entries of rows r .. r + K - 1 from column c on are kept; null if those of its tile are not.
  T *kept_at(int64_t r, int64_t c) const {
    if (!kept) return nullptr;
    const int64_t down = ceil_div(noted_n, plan.tile_rows);
    const int64_t column = c - of_kept.begin(r / plan.tile_rows, down, noted_m, plan);
    return column >= 0 && column < of_kept.columns ? kept + (r / K * of_kept.columns + column) * K * 3 * W : nullptr;
  }
  std::byte *boundary_row(int64_t i) const { return state + size_t(i - 1) * row_bytes(); }
  // 4 rows' worth of the column to the left of tile c, from row r on.
  std::byte *boundary_column(int64_t r, int64_t c) const {
    return state + size_t(plan.tiles_down - 1) * row_bytes() +
           size_t((c - 1) * plan.tiles_down * plan.tile_rows + r) * size_t(W) * Store::size;
  }
  size_t row_bytes() const { return size_t(p.m) * size_t(W) * Store::size; }

  void cost(int64_t r, int64_t c, int64_t count, bool &ok) const {
    if (point_costs) return;
    if (p.fused()) {
      (products ? metric().products : metric().cost[form])(fused(r, c, count));
      return;
    }
    const Offsets at = offsets(b.x, &Place::x, places);
    int64_t first[max_width] = {}, last[K * max_width];
    ok &= mapping.load[core::dtype_of<In>](matrix(r, c, count, b.x.data, nullptr, b.x.stride, at, first, last), tile) ==
          0;
  }
  FusedTile<T> fused(int64_t r, int64_t c, int64_t count) const {
    const int64_t d = features;
    return {count,
            d,
            x + r * d * W,
            y + c * d * W,
            W,
            d * W,
            W,
            d * W,
            wide_x + r * d * W,
            wide_y + c * d * W,
            split_scale,
            norms_x + r * W,
            norms_y + c * W,
            W,
            tile,
            alignment,
            grad_x + r * d * W,
            both_gradients ? grad_y + c * d * W : nullptr,
            rest_x + r * d * W,
            nullptr,
            wide_grad_x + r * d * W,
            both_gradients ? wide_grad_y + c * d * W : nullptr};
  }
  MatrixTile matrix(int64_t r, int64_t c, int64_t count, const void *data, void *target, const int64_t (&stride)[3],
                    const Offsets &lanes, const int64_t *first, int64_t *last) const {
    const int64_t offset = r * stride[1];
    for (int l = 0; l < W; ++l)
      for (int k = 0; k < K; ++k) last[k * W + l] = r + k < n[l] ? m[l] : 0;
    MatrixTile t{};
    t.steps = count;
    t.source = data ? static_cast<const In *>(data) + offset : nullptr;
    t.target = target ? static_cast<In *>(target) + offset : nullptr;
    t.lane_offset = lanes.at;
    t.row_stride = stride[1];
    t.step_stride = stride[2];
    t.first_step = c;
    t.first = first;
    t.last = last;
    t.limit = matrix_limit;
    return t;
  }

  LaneState<T> lane_state(int64_t row_in_tile) const {
    T *const above = state_m + plan.tile_rows * W;
    E *const above_exponent = state_e + plan.tile_rows * W;
    return {state_m + row_in_tile * W, state_e + row_in_tile * W, above, above_exponent};
  }
  // Lanes left of column 0, for rows from r on.
  void start_rows(int64_t r, const LaneState<T> &s) const {
    rule.forbid(s.m, s.e, K * W);
    rule.forbid(s.above_m, s.above_e, W);
    for (int l = 0; r == 0 && l < W; ++l) rule.start(s.above_m + l, s.above_e + l);  // the corner of the border: R = 0
  }
  // Whether lane l's last cell is in rows r .. r + K - 1 and columns first <= j < last.
  bool corner_in(int l, int64_t r, int64_t rows, int64_t first, int64_t last) const {
    return n[l] > r && n[l] <= r + rows && m[l] > first && m[l] <= last;
  }
  // Whether any lane's last cell may be in these rows, or above.
  bool has_corners(int64_t r) const { return r + K >= shortest_n; }
  // The next step after s at which a sweep of rows r.. must stop for a corner: just past it, or just on it.
  int64_t next_corner(int64_t r, int64_t s, int64_t end) const {
    if (!has_corners(r)) return end;
    for (int l = 0; l < W; ++l)
      if (corner_in(l, r, K, s, end)) end = m[l];
    return end;
  }

  // Sweeps columns [begin, end) of K rows from r on. of: as of a tile that begins there. save: entries are kept.
  void sweep(const Columns &columns, int64_t r, int64_t begin, int64_t end, const Sweep<T> &of, bool save) const {
    const FlushDenormals flush(!rule.hard && (save || sizeof(T) == 8));
    const int64_t each = K * W * (form == plain_cost ? 1 : 2);
    for (int64_t from = begin, to; from < end; from = to) {
      const bool masked = from < columns.open_begin || from >= columns.open_end;
      to = std::min(end, from < columns.open_begin ? columns.open_begin : masked ? end : columns.open_end);
      const int64_t s = from - begin;
      const Sweep<T> part{to - from,
                          of.cost + s * each,
                          of.scale,
                          of.scale_low,
                          of.state,
                          of.row_m + s * W,
                          of.row_e + s * W,
                          save ? of.entries + s * K * 3 * W : nullptr,
                          x + r * features * W,
                          y + from * features * W};
      const LaneSweep<T> given{part,       from, columns.first, columns.last, columns.wide_first, columns.wide_last,
                               &rule.steps};
      if (rule.hard)
        (rule.unit ? kernels.of_lanes.hard_core[masked] : kernels.of_lanes.hard)[save ? rule.ties : 0](given);
      else if (!rule.unit)
        kernels.of_lanes.soft[form][rule.shape][save](given);
      else if (masked)
        kernels.of_lanes.core[form][save](given);
      else
        (save ? mapping.sweep_save : mapping.sweep)[point_costs ? point_cost : form](part);
    }
  }

  // What of E is on its way into a tile with columns c .. c + count - 1, or out of it.
  struct Carried {
    T *data;
    int64_t count;  // vectors
  };
  std::array<Carried, 3> carried(int64_t c, int64_t count) const {
    return {{{left, plan.tile_rows}, {diagonal, plan.tile_rows}, {adjoint_row + c * W, count}}};
  }
  void recompute(int64_t r, int64_t c, int64_t count) const;
  void adjoint(int64_t r, int64_t begin, int64_t end, Wanted wanted) const;
  void leave(int64_t r, int64_t c, int64_t count, int64_t begin, int64_t end, bool first) const;
  bool live(int64_t r, int64_t c, int64_t count) const;

  const Problem &p;
  const Plan &plan;
  const Kernels<T> &kernels;
  const MappingKernels<T> &mapping;
  const int W;
  const Buffers &b;
  const Place *const places;
  const LaneSeries<T> series;
  std::byte *const state;
  T *const kept;
  const KeptLayout of_kept;
  const PairRule<T> rule;
  const double split_scale = bits_of_cost(p) * rule.split_weight;
  const bool both_gradients = b.grad_y.data || p.symmetric;  // not that of x alone
  const Store store{rule.hard};
  const T scale, scale_low;  // log2(e) / gamma
  double matrix_limit;
  int64_t n[max_width], m[max_width], longest_n = 0, longest_m = 0, shortest_n = INT64_MAX;
  // The longest, those included that forward has found to have no path, or no value: where entries are kept is the same
  // before and after.
  int64_t noted_n = 0, noted_m = 0;
  CostForm form = plain_cost;
  bool products = false, point_costs = false;
  T *x, *y, *row_m, *grad_x, *grad_y, *rest_x, *rest_y, *adjoint_row, *tile, *alignment, *entries, *state_m, *left,
      *diagonal, *above_m;
  E *row_e, *state_e, *above_e;
  double *wide_x, *wide_y, *norms_x, *norms_y, *wide_grad_x, *wide_grad_y;
  int64_t features = p.features;  // of the series that costs are computed from
};

}  // namespace sdtw::cpu
