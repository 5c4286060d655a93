// One pair at a time, SIMD lanes along the anti-diagonals of strips of 64 rows, by one thread or by all of them.
//
// A strip is swept in skewed tiles: lane l, which has K rows, is at column s - l in step s. Of four lanes, by the step
// in which a cell is computed:
//
//     column      0  1  2  3  4  5
//     row_m       0  1  2  3  4  5      the row above, which strip i - 1 has left: element s is read in step s
//     lane 0      0  1  2  3  4  5
//     lane 1      1  2  3  4  5  6
//     lane 2      2  3  4  5  6  7
//     lane 3      3  4  5  6  7  8
//     row_m       4  5  6  7  8  9      its last row, for strip i + 1: element s - 4 is written over in step s
//
// Threads that share a pair take strips by ticket from the top (backward: from the bottom); a strip waits for the one
// before it, tile by tile. Adjoint sweeps go through the same tiles from the last step to the first.
#pragma once

#include "cpu/flush.h"
#include "cpu/parallel.h"
#include "cpu/rules.h"
#include "cpu/skewed_series.h"
#include "cpu/tangents.h"

namespace sdtw::cpu {

template <class T, class In>
class StripPair {
 public:
  using E = typename core::Exponent<T>::type;
  using Store = Boundary<T, In>;

  // scratch: the shared part of a ScratchLayout; block: room for boundaries of tiles, or null; in_state: how many bytes
  // of it are state, of which each is to be written; entries: where those of some tiles are kept, in place of their
  // boundaries, or null.
  StripPair(const sdtw::Plan &whole, const Isa &isa, const Buffers &buffers, const Place &place, Lengths lengths,
            const ScratchLayout &offsets, std::byte *scratch, std::byte *block_, size_t in_state, T *entries)
      : p(whole.problem),
        plan(whole.cpu),
        kernels(isa.kernels<T>()),
        mapping(kernels.strips),
        W(kernels.width),
        K(mapping.rows),
        b(buffers),
        at_place(place),
        n(lengths.n),
        m(lengths.m),
        layout(offsets),
        rule(p, plan.transposed, n, m),
        tangents(p, plan, kernels, b, at_place, n, m, layout, scratch),
        boundaries(Boundaries::of_pair(p, plan, n, m)),
        block(block_),
        bytes_of_state(in_state),
        kept(entries),
        of_kept(p, plan),
        scale(T(bits_of_cost(p))),
        scale_low(T(bits_of_cost(p) - double(scale))) {
    series = {&kernels, at<T>(scratch, layout.x), at<T>(scratch, layout.y),     p.features, n,
              m,        packed_features(p),       at<T>(scratch, layout.centre)};
    row_m = at<T>(scratch, layout.row_m) + pad;
    row_e = at<E>(scratch, layout.row_e) + pad;
    rows_x = at<T>(scratch, layout.rows_x);
    rows_y = at<T>(scratch, layout.rows_y);
    grad_x = at<T>(scratch, layout.grad_x);
    grad_y = at<T>(scratch, layout.grad_y);
    rest_x = at<T>(scratch, layout.rest_x), rest_y = at<T>(scratch, layout.rest_y);
    wide_grad_x = at<double>(scratch, layout.grad_x), wide_grad_y = at<double>(scratch, layout.grad_y);
    wide_x = at<double>(scratch, layout.wide_x);
    wide_y = at<double>(scratch, layout.wide_y);
    norms_x = at<double>(scratch, layout.norms_x);
    norms_y = at<double>(scratch, layout.norms_y);
    adjoint_row = at<T>(scratch, layout.adjoint_row) + pad;
    progress = at<std::atomic<int64_t>>(scratch, layout.progress);
    matrix_limit = largest_given_cost<T>(p);
  }

  // Packs the series.
  void prepare(std::byte *local) {
    if (p.fused())
      series.pack(Strided<In>{element<In>(b.x, at_place.x), b.x.stride[1], b.x.stride[2]},
                  Strided<In>{element<In>(b.y, at_place.y), b.y.stride[1], b.y.stride[2]}, at<T>(local, layout.tile));
    if (p.fused() && tangents.wanted()) tangents.pack(local);
  }
  // Which engine the pair's costs need.
  Engine needed() const {
    if (sizeof(T) == 8 || (tangents.wanted() && p.metric == SDTW_COSINE)) return Engine::float64;
    return engine_for(p.fused() ? series.cost_bound(p.metric) : CostBound{}, n, m, p);
  }
  // Returns how many features the series have that costs are computed from.
  int64_t use(Engine engine) {
    choose(engine);
    if (p.metric == SDTW_COSINE) {
      features = series.normalise(wide_or_null(wide_x), wide_or_null(wide_y), norms_x, norms_y);
      if constexpr (sizeof(T) == 8)
        if (tangents.wanted()) tangents.normalise(series, norms_x, norms_y);
    } else if (products) {
      series.centre_points(p.metric, split_scale, wide_x, wide_y, norms_x, norms_y);
    } else if (form == double_cost) {
      std::copy(series.x, series.x + series.size_x(), wide_x);
      std::copy(series.y, series.y + series.size_y(), wide_y);
    }
    return features;
  }
  // In place of prepare and use, after a forward by another solver, whose scratch this one goes on with.
  void resume(Engine engine, int64_t of_costs) {
    choose(engine);
    features = of_costs;
  }

  // The forward recurrence, value in units of gamma; false if a given cost is not for this engine. locals(i): scratch
  // of thread i of `threads`.
  template <class Locals>
  bool forward(double &value, Locals &&locals, int threads);

  // Sweeps E back through the pair. Gradients of series stay packed until write_gradients; else E is written, times
  // factor.
  template <class Locals>
  void backward(Wanted wanted, T factor, Locals &&locals, int threads);

  // Of the value, along the tangents: after forward, or at gamma = 0 after backward.
  double value_tangent() const { return tangents.value; }

  // Where to, if anywhere, g times the gradients go.
  template <class Out>
  void write_gradients(double g, StridedOut<Out> to_x, StridedOut<Out> to_y, std::byte *local) const;

 private:
  void choose(Engine engine) {
    form = cost_form(engine);
    products = engine == Engine::products;
    point_costs = form == plain_cost && has_point_costs(p) && !tangents.wanted();
  }
  template <class U>
  static U *at(const std::byte *base, size_t offset) {
    return reinterpret_cast<U *>(const_cast<std::byte *>(base) + offset);
  }

  double *wide_or_null(double *wide) const { return sizeof(T) == 4 ? wide : nullptr; }
  int64_t strips() const { return series.strips(); }
  // Cell (n - 1, m - 1), in the last strip.
  int corner_row() const { return int((n - 1) % strip_rows) % K; }
  int corner_lane() const { return int((n - 1) % strip_rows) / K; }
  // Where strip i ends: at the corner in the last, else when the last lane's last column has been written to `row`.
  int64_t steps(int64_t i) const {
    return i == strips() - 1 ? m + corner_lane() : end_swept(rule.band, i * strip_rows) + W;
  }
  Corridor corridor(int64_t i) const { return rule.corridor(i * strip_rows, steps(i), W, K); }
  // Tiles lie between multiples of tile_cols steps; the first begins with the corridor.
  int64_t tile_end(const Corridor &c, int64_t s) const {
    return std::min((s / plan.tile_cols + 1) * plan.tile_cols, c.end);
  }

  LaneState<T> lane_state(std::byte *local) const {
    T *const m_ = at<T>(local, layout.state_m);
    E *const e_ = at<E>(local, layout.state_e);
    return {m_, e_, m_ + strip_rows, e_ + strip_rows};
  }
  void start_strip(int64_t i, const LaneState<T> &s) const {
    rule.forbid(s.m, s.e, strip_rows);
    rule.forbid(s.above_m, s.above_e, W);
    if (i == 0) rule.start(s.above_m, s.above_e);  // the corner of the border: R = 0
  }
  // Where entries of strip i from this step on are kept; null if those of its tile are not.
  T *kept_at(int64_t i, int64_t step) const {
    if (!kept) return nullptr;
    const int64_t s = step - of_kept.begin(i, strips(), m + max_width, plan);
    return s >= 0 && s < of_kept.columns ? kept + (i * of_kept.columns + s) * 3 * strip_rows : nullptr;
  }
  // The row above strip i, of columns from its first step on.
  std::byte *boundary_row(int64_t i) const { return block + size_t(i - 1) * boundaries.row; }
  // What is left of its tile c, 0 being that of its first step.
  std::byte *boundary_column(int64_t i, int64_t c) const {
    return block + boundaries.columns + size_t(i * boundaries.across + c - 1) * boundaries.column;
  }
  int64_t tile_at(const Corridor &within, int64_t step) const { return step / max_steps - within.begin / max_steps; }

  MatrixTile matrix(int64_t i, int64_t first_step, int64_t count, const void *data, void *target,
                    const int64_t (&stride)[3]) const {
    MatrixTile t{};
    const int64_t offset = i * strip_rows * stride[1];
    t.steps = count;
    t.source = data ? static_cast<const In *>(data) + offset : nullptr;
    t.target = target ? static_cast<In *>(target) + offset : nullptr;
    t.lane_stride = K * stride[1] - stride[2];
    t.row_stride = stride[1];
    t.step_stride = stride[2];
    t.first_step = first_step;
    t.limit = matrix_limit;
    return t;
  }
  // Which steps of a strip are cells that exist.
  struct Extent {
    int64_t first[max_width], last[strip_rows];
  };
  Extent extent(int64_t i) const {
    Extent x;
    for (int l = 0; l < W; ++l) {
      x.first[l] = l;
      for (int k = 0; k < K; ++k) x.last[k * W + l] = i * strip_rows + l * K + k < n ? m + l : 0;
    }
    return x;
  }
  FusedTile<T> fused(int64_t i, int64_t first_step, int64_t count, const std::byte *local) const {
    const int64_t column = series.column(first_step), row = series.strip(i);
    return {count,
            features,
            series.x + row,
            series.y + column,
            strip_rows,
            W,
            series.y_length(),
            -1,
            wide_x + row,
            wide_y + column,
            split_scale,
            norms_x + i * strip_rows,
            norms_y + column,
            -1,
            at<T>(local, layout.tile),
            at<T>(local, layout.alignment),
            grad_x + row,
            both_gradients ? grad_y + column : nullptr,
            rest_x + row,
            rest_y + column,
            wide_grad_x + row,
            both_gradients ? wide_grad_y + column : nullptr};
  }
  // Fills the tile with costs, if sweeps want any; false if a given one is not for this engine.
  bool cost(int64_t i, const Extent &cells, int64_t first_step, int64_t count, std::byte *local) const {
    if (point_costs) return true;
    if (p.fused()) {
      (products ? metric().products : metric().cost[form])(fused(i, first_step, count, local));
      return true;
    }
    MatrixTile t = matrix(i, first_step, count, element<In>(b.x, at_place.x), nullptr, b.x.stride);
    t.first = cells.first;
    t.last = cells.last;
    return mapping.load[core::dtype_of<In>](t, at<T>(local, layout.tile)) == 0;
  }

  // Fills the tangents' tile, while the tile has its costs.
  void tangent_cost(int64_t i, const Extent &cells, int64_t first_step, int64_t count, std::byte *local) const {
    if (p.fused())
      return tangents.cost(
          tangents.beside(fused(i, first_step, count, local), series.strip(i), series.column(first_step), local), form);
    MatrixTile t = matrix(i, first_step, count, element<In>(b.tangent_x, at_place.x), nullptr, b.tangent_x.stride);
    t.first = cells.first;
    t.last = cells.last;
    T *const tangent = tangents.tile(local);
    mapping.load[core::dtype_of<In>](t, tangent);
    const T *const cost = at<T>(local, layout.tile);
    for (int64_t k = 0; k < count * strip_rows; ++k)  // of a forbidden cell it may be anything, as of log p at p = 0
      if (std::isinf(cost[k])) tangent[k] = 0;
  }

  const MetricKernels<T> &metric() const { return mapping.metric[p.metric]; }
  // Adds what a tile's E contributes to the gradients.
  void gradient(int64_t i, int64_t first_step, int64_t count, std::byte *local) const;

  // Boundaries of state that are not written, as those past the pair's lengths, are 0, so that equal calls leave equal
  // bytes.
  void clear_strip(int64_t i) const {
    if (bytes_of_state == 0) return;
    if (i > 0) std::memset(boundary_row(i), 0, boundaries.row);
    std::memset(boundary_column(i, 1), 0, size_t(boundaries.across) * boundaries.column);
  }
  void clear_rest() const {
    if (bytes_of_state == 0) return;
    for (int64_t i = strips(); i < boundaries.down; ++i) clear_strip(i);
    const size_t rows = size_t(boundaries.down - 1) * boundaries.row;
    const size_t end = boundaries.columns + size_t(boundaries.down * boundaries.across) * boundaries.column;
    std::memset(block + rows, 0, boundaries.columns - rows);
    std::memset(block + end, 0, bytes_of_state - end);
  }

  bool forward_strip(int64_t i, std::byte *local, double &value);
  // What becomes of E.
  struct Output {
    Wanted wanted;
    const sdtw_out *target;  // target_of(wanted)
    T factor;                // of E there
  };
  void backward_strip(int64_t i, std::byte *local, const Output &out);
  void backward_path(std::byte *local, const Output &out);
  void load_rows() const;
  template <class Out>
  void store_rows(const T *from, int64_t count, T factor, StridedOut<Out> to) const;
  // The entries of a tile, from its boundaries.
  void recompute(int64_t i, const Corridor &within, int64_t first_step, int64_t count, std::byte *local) const;
  void adjoint(const T *entries, int64_t first_step, int64_t count, std::byte *local, Wanted wanted,
               double &lost) const;
  // Adds a tile's E to the gradients, or writes it.
  void use_alignment(int64_t i, const Extent &cells, int64_t first_step, int64_t count, std::byte *local,
                     const Output &out) const;
  // row_dot: of tangents, where they are carried along.
  void sweep(int64_t i, const Sweep<T> &of, const Corridor &within, int64_t first_step, bool save, T *row_dot,
             std::byte *local) const {
    const FlushDenormals flush(!rule.hard && (sizeof(T) == 8 || tangents.carried() || save));
    if (tangents.carried()) {
      const auto with = tangents.carried_in(local, row_dot);
      RuleSweep<T> a{};
      a.of = of;
      a.tangent = with.tangent, a.dot = with.dot, a.above_dot = with.above_dot, a.row_dot = with.row_dot;
      rule.sweep_tangent(kernels.rules, a, within, first_step, form, save);
      return;
    }
    // Steps in which nothing is masked apart from those before and behind them.
    const int64_t end = first_step + of.steps, each = strip_rows * (form == plain_cost ? 1 : 2);
    const int64_t saved = save ? strip_rows * (rule.hard ? 1 : 3) : 0;
    for (int64_t from = first_step, to; from < end; from = to) {
      to = from < within.open_first ? within.open_first : from < within.open_end ? within.open_end : end;
      to = within.open_first < within.open_end ? std::min(to, end) : end;
      const int64_t s = from - first_step;
      const Sweep<T> part{to - from,
                          of.cost + s * each,
                          of.scale,
                          of.scale_low,
                          of.state,
                          of.row_m + s,
                          of.row_e + s,
                          of.entries + s * saved,
                          series.x + series.strip(i),
                          series.y + series.column(from)};
      if (!rule.core_cells() || rule.masked(within, from, part.steps))
        rule.sweep(kernels.rules, part, within, from, form, save);
      else
        (save ? mapping.sweep_save : mapping.sweep)[point_costs ? point_cost : form](part);
    }
  }
  // Hands strips out by ticket; progress[i] is how many steps strip i has done.
  template <class Locals, class Strip>
  void run(Locals &&locals, int threads, Strip &&strip) {
    if (threads == 1) {
      for (int64_t i = 0; i < strips(); ++i) strip(i, locals(0));
      return;
    }
    std::atomic<int64_t> tickets{0};
    std::atomic<int> members{0};
    for (int64_t i = 0; i < strips(); ++i) new (progress + i) std::atomic<int64_t>(0);
    parallel(threads, [&] {
      std::byte *const local = locals(members.fetch_add(1));
      for (int64_t i; (i = tickets.fetch_add(1)) < strips();) strip(i, local);
    });
  }
  void advance(int64_t i, int64_t to) {
    if (several_threads) progress[i].store(to, std::memory_order_release);
  }
  void wait(int64_t i, int64_t target) const {
    if (several_threads) wait_until(progress[i], target);
  }

  const Problem &p;
  const Plan &plan;
  const Kernels<T> &kernels;
  const MappingKernels<T> &mapping;
  const int W, K;  // lanes, and rows of each
  const Buffers &b;
  const Place at_place;  // the pair's in the buffers
  const int64_t n, m;    // its lengths
  const ScratchLayout &layout;
  const PairRule<T> rule;
  Tangents<T, In> tangents;

  // What forward leaves for backward: boundaries of tiles, in state or in scratch, and how cells of some were entered.
  const Boundaries boundaries;
  const Store store{rule.hard};
  std::byte *const block;
  const size_t bytes_of_state;
  T *const kept;
  const KeptLayout of_kept;

  // Costs.
  CostForm form = plain_cost;
  bool products = false;     // from products of points
  bool point_costs = false;  // by the sweep itself
  const T scale, scale_low;  // log2(e) / gamma
  const double split_scale = bits_of_cost(p) * rule.split_weight;
  double matrix_limit;            // of given costs
  SkewedSeries<T> series;         // packed
  double *wide_x, *wide_y;        // in double, for costs in double
  double *norms_x, *norms_y;      // of points: inverses of them (cosine), or as products take them
  int64_t features = p.features;  // of the series that costs are computed from

  // Between strips: the last row of cells, and of E on its way back.
  T *row_m, *adjoint_row;
  E *row_e;
  std::atomic<int64_t> *progress;  // of each strip in steps, where several threads share the pair
  bool several_threads = false;
  std::atomic<bool> broken{false};  // a row has no cell that the band admits

  // Gradients: packed as the series are, or by rows, that is, a time step after the other.
  const bool by_rows = has_rows(p, plan, tangents.wanted());
  T *rows_x, *rows_y;  // the series, by rows
  // Not that of x alone, which takes less unless it is by rows.
  const bool both_gradients = b.grad_y.data || p.symmetric || tangents.wanted();
  T *grad_x, *grad_y;
  T *rest_x, *rest_y;  // what these sums have lost to rounding; of the cosine what becomes of sums in double
  double *wide_grad_x, *wide_grad_y;
};

}  // namespace sdtw::cpu
