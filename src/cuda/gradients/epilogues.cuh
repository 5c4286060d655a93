// Epilogues: what a backward block's last warps do with E of each half tile once the adjoint sweep has written it.
// AlignmentOutput writes E itself, as the alignment or as the gradient of given costs. ShuffleGradients
// (shuffle_gradients.cuh) makes gradients of up to four float32 features, SparseGradients those of any series; for
// alignments of series they do what AlignmentOutput does, since kernels of its own would take compile time and room in
// the library.
//
// Invariant: results are the same bit for bit in every run, because the order of additions is fixed. Rows belong to one
// strip, but columns are shared: the strips of a half add to a column of grad_y in the order in which they are taken up
// (Progress). Strips hardly ever wait for each other: a strip meets the columns that it shares with the strip before
// later than that one did. In columns to which both halves add, the lower half adds to `side`, which the last kernel
// adds to grad_y. If these are more columns than `side` has room for, all strips of the pair take turns.
#pragma once

#include <climits>

#include "cuda/gradients/dense_gradients.cuh"
#include "cuda/pipeline/backward_pipeline.cuh"
#include "cuda/sweep/midline.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

// How far the strips of a pair have come with grad_y. Strips meet columns from the last to the first, and columns are
// counted as the strip's half counts them.
struct Progress {
  static constexpr int all = 1 << 30;

  // Entry i is of the pair's strip of order i: `all` less the column from which on the strip has added all its part.
  int *of_first;
  int order, columns;  // the order of this strip; the columns of the pair
  bool reports;        // whether this warp reports for the strip
  // The column from which on all strips of lower order have added their parts, as far as this warp knows: those of the
  // same half; and those of the other half, as that half counts columns. INT_MIN: there is no need to wait for them.
  int own, others;
  // Columns of the pair, in the caller's order, whose sums go to `side`: [separate, separate_end), none in the upper
  // half.
  int separate, separate_end;
  int middle_columns;  // that have any E in the pair's middle; none of a pair of one strip

  __device__ __forceinline__ Progress(const Args &a, const StripView &s)
      : of_first(a.progress + s.pair.index * a.strips),
        order(s.order),
        columns(s.pair.m),
        reports(s.active && !s.whole),
        own(INT_MAX),
        others(INT_MAX),
        separate(0),
        separate_end(0),
        middle_columns(0) {
    MidlineOverlap overlap(0, -1);
    if (reports) overlap = MidlineOverlap(a, s.pair);
    middle_columns = overlap.size();
    if (!a.grad_y.data || !reports) order = 0, reports = false;
    if (!reports || middle_columns > a.lower_grad_y_columns) return;
    others = INT_MIN;
    if (s.reversed) separate = overlap.first, separate_end = overlap.last + 1;
  }
  __device__ __forceinline__ bool is_separate(int column) const { return column >= separate && column < separate_end; }
  // Waits until the warp may add to columns [first, end): strips of lower order have added to all of them.
  __device__ __forceinline__ void wait(int first, int end) {
    while (order > 0 && (own > max(first, 0) || others > max(columns - end, 0))) {
      int least[halves] = {all, all};
      for (int i = lane_id(); i < order; i += warp) {
        const int complete = load_acquire(of_first + i);
        if ((i ^ order) % halves == 0)
          least[0] = min(least[0], complete);
        else
          least[1] = min(least[1], complete);
      }
      own = all + warp_max(-least[0]);
      if (others != INT_MIN) others = all + warp_max(-least[1]);
      if (own > max(first, 0)) back_off();
    }
    __syncwarp();
  }
  // By one thread: the strip has added all its part from this column on.
  __device__ __forceinline__ void report(int column) const {
    if (reports) store_release(of_first + order, all - max(column, 0));
  }
};

// E of half a tile, of every warps-th step from `worker` on. Lanes also have rows and columns beyond the pair, and
// lanes without a pair have made-up ones: none of these are written.
template <class Real, int warps>
__device__ __forceinline__ void write_cells(const Args &a, const StripView s, const SweptHalf<Real> swept, int worker,
                                            Real scale) {
  const auto exists = [](int i, int end) { return static_cast<unsigned>(i) < static_cast<unsigned>(end); };
  const int columns = s.active ? s.pair.m : 0, first = swept.step + worker - s.lane;
  const bool f64 = a.f64;
  void *const data = a.dense.data;
  int64_t row[K], at = s.pair.index * a.dense.stride[0] + s.column_of(s.pair, first) * a.dense.stride[2];
  bool has_row[K];
#pragma unroll
  for (int k = 0; k < K; k++) row[k] = s.row_of(k) * a.dense.stride[1], has_row[k] = exists(s.row_of(k), s.pair.n);
  const int64_t next = s.sign() * warps * a.dense.stride[2];
#pragma unroll 1
  for (int u = worker; u < swept.steps; u += warps, at += next) {
    const Rows<Real> of_cells = *swept.of_lane(u, lane_id());
    const bool has_column = exists(swept.step + u - s.lane, columns);
#pragma unroll
    for (int k = 0; k < K; k++)
      if (has_column && has_row[k] && is_live(of_cells.v[k])) store(data, at + row[k], f64, scale * of_cells.v[k]);
  }
}

// The same, called, so that what it needs takes no registers of gradients'.
template <class Real, int warps>
__device__ __noinline__ void call_write_cells(const Args &a, const StripView s, const SweptHalf<Real> swept, int worker,
                                              Real scale) {
  write_cells<Real, warps>(a, s, swept, worker, scale);
}

// Of epilogues that make the same of every strip.
struct OnlyWay {};

// AlignmentOutput: E itself, or E times grad_value, one element a cell. Its warps take the steps in turn. Only cells
// whose E is not negligible are written: the others have their initial values from prepare_kernel.
template <class Real, int warps, bool called = false>
struct AlignmentOutput {
  static constexpr int readers = warps;
  static constexpr bool wants_live = false;
  static constexpr int resident = 1;

  __host__ __device__ static size_t bytes(const Args &) { return 0; }
  const Args &a;
  const StripView &s;
  int worker;
  Real scale;

  __device__ __forceinline__ AlignmentOutput(const Args &args, const StripView &view, unsigned char *, int number)
      : a(args), s(view), worker(number), scale(1) {
    if (s.active && a.scale_dense) scale = upstream<Real>(a, s.pair.index);
  }
  __device__ __forceinline__ void begin(int) const {}
  template <class Visit>
  __device__ __forceinline__ void with_way(const Visit &visit) const {
    visit(OnlyWay{});
  }
  __device__ __forceinline__ void consume(int tile, int half, int number, const Rows<Real> *e,
                                          BackwardPipeline &pipeline, OnlyWay = {}) const {
    const int half_steps = a.tile_steps / 2, step = (tile << a.tile_bits) + half * half_steps;
    const SweptHalf<Real> swept{e, step, min(half_steps, s.steps - step)};
    if constexpr (called)
      call_write_cells<Real, readers>(a, s, swept, worker, scale);
    else
      write_cells<Real, readers>(a, s, swept, worker, scale);
    pipeline.leave(number, half);
  }
  __device__ __forceinline__ void finish(int) const {}
};

// SparseGradients: gradients of any series, by two warps that add to grad_x and three that add to grad_y. Each warp
// looks up which lanes have any E, as the adjoint sweep has marked them, and skips all else (point_gradients.cuh); or
// multiplies matrices, in pairs that have E in many cells (dense_gradients.cuh).
template <class Real>
struct SparseGradients {
  static constexpr int of_rows = 2, of_columns = 3, readers = of_rows + of_columns;
  static constexpr bool wants_live = true;
  static constexpr int resident = 1;
  __host__ __device__ static size_t bytes(const Args &a) {
    return (readers * Gradients<Real>::notes_bytes(a) + 15) / 16 * 16;
  }

  // What a warp does with the half tiles of a strip. It is chosen before them, not at each, so that nothing is in
  // registers all along that only another way would need. Element: of the series.
  template <bool to_x, Layout of_points, bool wide, class ElementOf, bool products = false>
  struct Way {
    static constexpr bool of_x = to_x, wide_sums = wide, dense = products;
    static constexpr Layout layout = of_points;
    using Element = ElementOf;
  };

  const Args &a;
  const StripView &s;
  Progress progress;
  int worker;
  bool of_x;
  Gradients<Real> gradients;

  __device__ __forceinline__ SparseGradients(const Args &args, const StripView &view, unsigned char *memory, int role)
      : a(args),
        s(view),
        progress(args, view),
        worker(role),
        of_x(role < of_rows),
        gradients(args, view, of_x, of_x ? role : role - of_rows, memory + role * Gradients<Real>::notes_bytes(args)) {
    if (role != of_rows) progress.reports = false;  // the first warp of grad_y reports
  }
  __device__ __forceinline__ void begin(int last) const {
    if (lane_id() == 0) progress.report((last + 1) << a.tile_bits);
  }
  // Calls visit with the warp's way.
  template <class Visit>
  __device__ __forceinline__ void with_way(const Visit &visit) const {
    if (a.dense.data) return visit(OnlyWay{});
    of_x ? with_way_of<true>(visit) : with_way_of<false>(visit);
  }
  template <bool of_x, class Visit>
  __device__ __forceinline__ void with_way_of(const Visit &visit) const {
    if constexpr (sizeof(Real) == 8) {
      if (!a.f64)
        return a.wide_sums ? visit(Way<of_x, strided, true, float>{}) : visit(Way<of_x, strided, false, float>{});
      return layout_of_all<double, of_x>() == at_once ? visit(Way<of_x, at_once, true, double>{})
                                                      : visit(Way<of_x, strided, true, double>{});
    } else {
      if (a.units)
        return is_dense(a, s.pair.index, progress.middle_columns) ? visit(Way<of_x, at_once, true, TwoFloats, true>{})
                                                                  : visit(Way<of_x, at_once, true, TwoFloats>{});
      const Layout layout = layout_of_all<float, of_x>();
      if (layout != strided && is_dense(a, s.pair.index, progress.middle_columns)) {
        if (layout == at_once)
          return a.wide_sums ? visit(Way<of_x, at_once, true, float, true>{})
                             : visit(Way<of_x, at_once, false, float, true>{});
        if (!a.wide_sums) return visit(Way<of_x, together, false, float, true>{});
      }
      if (a.wide_sums)  // of very long series, which are rare, so that not all layouts have code
        return layout == at_once ? visit(Way<of_x, at_once, true, float>{}) : visit(Way<of_x, strided, true, float>{});
      if (layout == at_once) return visit(Way<of_x, at_once, false, float>{});
      layout == together ? visit(Way<of_x, together, false, float>{}) : visit(Way<of_x, strided, false, float>{});
    }
  }
  template <class Element, bool of_x>
  __device__ __forceinline__ Layout layout_of_all() const {
    return common(common(layout_of<Real, Element>(a.x, a.features), layout_of<Real, Element>(a.y, a.features)),
                  layout_of<Real, Element>(of_x ? a.grad_x : a.grad_y, a.features));
  }

  __device__ __forceinline__ void consume(int tile, int half, int number, const Rows<Real> *e,
                                          BackwardPipeline &pipeline, OnlyWay) {
    AlignmentOutput<Real, readers, true>(a, s, nullptr, worker).consume(tile, half, number, e, pipeline);
  }
  template <class Way>
  __device__ __forceinline__ void consume(int tile, int half, int number, const Rows<Real> *e,
                                          BackwardPipeline &pipeline, Way) {
    const int half_steps = a.tile_steps / 2, step = (tile << a.tile_bits) + half * half_steps;
    const SweptHalf<Real> swept{e, step, min(half_steps, s.steps - step)};
    const bool asked = Way::of_x ? a.grad_x.data : a.grad_y.data;
    if (swept.steps > 0 && asked) {
      const unsigned live = pipeline.live[BackwardPipeline::slot_of(number, half)][lane_id()];
      if (!Way::of_x) progress.wait(swept.step - (s.lanes - 1), swept.step + swept.steps);
      if constexpr (Way::dense) {
        DenseGradients<Way::layout, Way::wide_sums, typename Way::Element> products(gradients, swept, live);
        if constexpr (Way::of_x)
          products.template to_x<of_rows>();
        else
          products.template to_y<of_columns>(progress.separate, progress.separate_end);
      } else {
        for (int f = 0; f < a.features; f += gradients.share.features())
          if constexpr (Way::of_x)
            gradients.template to_x<of_rows, typename Way::Element, Way::layout, Way::wide_sums>(swept, live, f);
          else
            gradients.template to_y<of_columns, typename Way::Element, Way::layout, Way::wide_sums>(
                swept, live, f, progress.separate, progress.separate_end);
      }
    }
    pipeline.leave(number, half);
    if (Way::of_x || !asked) return;
    barrier(3, of_columns * warp);
    if (lane_id() == 0) progress.report(step);
  }
  __device__ __forceinline__ void finish(int) const {
    if (lane_id() == 0) progress.report(0);
  }
};

}  // namespace sdtw::cuda
