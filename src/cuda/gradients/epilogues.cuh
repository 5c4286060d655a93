// Epilogues: what a backward block's last warps do with E of each half tile once the adjoint sweep has written it.
// AlignmentOutput writes E itself, as the alignment or as the gradient of given costs. ShuffleGradients makes gradients
// of up to four float32 features, SparseGradients those of any series; for alignments of series they do what
// AlignmentOutput does, since kernels of its own would take compile time and room in the library.
//
// Invariant: results are the same bit for bit in every run, because the order of additions is fixed. Rows belong to one
// strip, but columns are shared: the strips of a half add to a column of grad_y in the order in which they are taken up
// (Progress). Strips hardly ever wait for each other: a strip meets the columns that it shares with the strip before
// later than that one did. In columns to which both halves add, the lower half adds to `side`, which the last kernel
// adds to grad_y. If these are more columns than `side` has room for, all strips of the pair take turns.
#pragma once

#include <climits>

#include "cuda/gradients/point_gradients.cuh"
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

  __device__ __forceinline__ Progress(const Args &a, const StripView &s)
      : of_first(a.progress + s.pair.index * a.strips),
        order(s.order),
        columns(s.pair.m),
        reports(s.active && !s.whole),
        own(INT_MAX),
        others(INT_MAX),
        separate(0),
        separate_end(0) {
    if (!a.grad_y.data || !reports) order = 0, reports = false;
    if (!reports) return;
    const MidlineOverlap overlap(a, s.pair);
    if (overlap.size() > a.lower_grad_y_columns) return;
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
  __device__ __forceinline__ void consume(int tile, int half, int number, const Rows<Real> *e,
                                          BackwardPipeline &pipeline) const {
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

// ShuffleGradients: gradients of up to four float32 features for FloatCell, by one warp. With it a block has four, so
// that of two blocks each scheduler of a multiprocessor has two warps with 255 registers; a fifth one would leave 168,
// with which a step of recomputation takes half as long again. Its lanes have the same rows as those of the adjoint
// sweep: grad_x is summed up in the lane's registers, and the sum of a column of grad_y goes from lane to lane by
// shuffles, in the steps in which E went. DoubleCell and more features take SparseGradients.
template <int features>
struct ShuffleGradients {
  static constexpr int readers = 1;
  static constexpr bool wants_live = false;  // whether the sweep marks the steps in which lanes have any E
  static constexpr int resident = 2;
  struct alignas(features == 3 ? 4 : 4 * features) Point {
    float v[features];
  };

  // Shared memory of each pair: a ring of columns of y, with room for those that all lanes meet in half a tile, and the
  // sums that leave the first lane in half a tile. Every column is in the ring twice, as in InlineCosts. With 16 lanes
  // for a pair two blocks of three features have room for a ring of 32 columns, and not for one of 64.
  static constexpr int most_steps = max_tile_steps / 2;  // of half a tile
  __host__ __device__ static int ring_of(const Args &a) { return (1 << a.lane_bits) > most_steps ? 2 * warp : warp; }
  __host__ __device__ static int points_of(const Args &a) { return 2 * ring_of(a) + most_steps; }
  __host__ __device__ static size_t bytes(const Args &a) {
    return sizeof(Point) * points_of(a) * (warp >> a.lane_bits);
  }

  const Args &a;
  const StripView &s;
  Progress progress;
  // Of the pair, and of its first feature, as pointers are below; leaving: by step of half a tile.
  Point *y, *leaving;  // in shared memory
  int ring;            // its columns
  int first_of_y;      // the first column that is there
  const float *ys;     // y in the caller's array
  char *of_y;          // grad_y, or the sums for it (has_wide_sums)
  char *separate;      // `side`
  float x[features][K], grad_x[features][K];
  float rest[features][K];  // what grad_x has lost to rounding, since many tiles add to it (Kahan 1965)
  Point column;             // the sum for grad_y at the lane's last column, over this lane and those below
  float factor;             // see gradient_factor; 0 if this kernel does not compute the pair

  __device__ __forceinline__ ShuffleGradients(const Args &args, const StripView &view, unsigned char *memory, int)
      : a(args), s(view), progress(args, view), ring(ring_of(args)), first_of_y(INT_MAX), column{} {
    y = reinterpret_cast<Point *>(memory) + (lane_id() >> a.lane_bits) * points_of(a);
    leaving = y + 2 * ring;
    factor = s.active ? gradient_factor<float>(a, s.pair.index) : 0;
    ys = static_cast<const float *>(a.y.data) + y_of(a, s.pair.index) * a.y.stride[0];
    of_y = sums_of(a.grad_y);
    separate = sums_of(a.side);
    const float *from = static_cast<const float *>(a.x.data) + x_of(a, s.pair.index) * a.x.stride[0];
#pragma unroll
    for (int k = 0; k < K; k++) {
      const float *const row = from + static_cast<int64_t>(clamp(s.row_of(k), s.pair.n)) * a.x.stride[1];
#pragma unroll
      for (int f = 0; f < features; f++) {
        grad_x[f][k] = rest[f][k] = 0;
        x[f][k] = __ldg(row + f * a.x.stride[2]);
      }
    }
  }
  // Where the pair's sums begin.
  __device__ __forceinline__ char *sums_of(const sdtw_out &out) const {
    return static_cast<char *>(out.data) + s.pair.index * out.stride[0] * sum_size(a);
  }
  // last: the strip's last tile, with which the warp begins. The strip adds nothing beyond it.
  __device__ __forceinline__ void begin(int last) const {
    if (lane_id() == 0) progress.report((last + 1) << a.tile_bits);
  }

  // Loads y of the columns that the lanes meet in steps [first, end), but for those that the steps after them have met.
  __device__ __forceinline__ void load_y(int first, int end) {
    const int begin = first - (s.lanes - 1);
    for (int c = begin + s.lane; c < min(end, first_of_y); c += s.lanes) {
      const float *const from = ys + s.column_of(s.pair, clamp(c, s.pair.m)) * a.y.stride[1];
      Point point;
#pragma unroll
      for (int f = 0; f < features; f++) point.v[f] = __ldg(from + f * a.y.stride[2]);
      y[c & (ring - 1)] = y[(c & (ring - 1)) + ring] = point;
    }
    first_of_y = begin;
  }
  // Adds a sum of a feature to grad_y, or `side`, on top of what the strips before have added.
  __device__ __forceinline__ void add(int f, int at, float sum) const {
    const int column = s.column_of(s.pair, at);
    const bool apart = progress.is_separate(column);
    char *const to =
        (apart ? separate + ((column - progress.separate) * a.side.stride[1] + f * a.side.stride[2]) * sum_size(a)
               : of_y + (column * a.grad_y.stride[1] + f * a.grad_y.stride[2]) * sum_size(a));
    if (a.wide_sums)
      atomicAdd(reinterpret_cast<double *>(to), static_cast<double>(factor) * static_cast<double>(sum));
    else
      atomicAdd(reinterpret_cast<float *>(to), factor * sum);
  }

  __device__ __forceinline__ void consume(int tile, int half, int number, const Rows<float> *e,
                                          BackwardPipeline &pipeline) {
    if (a.dense.data)
      return AlignmentOutput<float, readers, true>(a, s, nullptr, 0).consume(tile, half, number, e, pipeline);
    const int half_steps = a.tile_steps / 2, first = (tile << a.tile_bits) + half * half_steps;
    const int steps = min(half_steps, s.steps - first);
    if (steps > 0) {
      load_y(first, first + steps);
      __syncwarp();
      sweep(first, steps, e + lane_id());
    }
    pipeline.leave(number, half);
    if (!a.grad_y.data) return;
    if (steps > 0) {
      progress.wait(first, first + steps);
      if (s.active)
        for (int u = s.lane; u < steps && first + u < s.pair.m; u += s.lanes) {
#pragma unroll
          for (int f = 0; f < features; f++) add(f, first + u, leaving[u].v[f]);
        }
      __syncwarp();
    }
    if (half == 0) report(first);
  }
  __device__ __forceinline__ void report(int column) const {
    if (a.strips > 1 && lane_id() == 0) progress.report(column);
  }
  // E of the lane's cells in a step, and y of their column.
  struct Column {
    Rows<float> e;
    Point y;
  };
  // The steps of half a tile, whose first is `begin`, from right to left. Each loads what the next one needs before it
  // stores what leaves: loads behind that store, which for all that the compiler knows may change what they load, would
  // keep the warp waiting in every step.
  __device__ __forceinline__ void sweep(int begin, int steps, const Rows<float> *e) {
    const bool lowest = s.lane == s.lanes - 1, first = s.lane == 0;
    const Point *own_y = y + ((begin - s.lane) & (ring - 1));
    const auto load = [&](int u) { return Column{e[u * transitions * warp], own_y[u]}; };
    float part[features][K]{};  // what this half tile adds to grad_x
    Column now = load(steps - 1);
    const auto step = [&](int u, int next) {
      const Column ahead = load(next);
#pragma unroll
      for (int f = 0; f < features; f++) {
        const float from_lane = __shfl_down_sync(all_lanes, column.v[f], 1);
        float own = 0;  // the lane's own part, which does not wait for the shuffle
#pragma unroll
        for (int k = 0; k < K; k++) {
          const float difference = x[f][k] - now.y.v[f];
          part[f][k] = fmaf(now.e.v[k], difference, part[f][k]);
          own = fmaf(-now.e.v[k], difference, own);
        }
        column.v[f] = (lowest ? 0.0f : from_lane) + own;
      }
      if (first) leaving[u] = column;
      now = ahead;
    };
    constexpr int at_once = 4;
    int u = steps - 1;
#pragma unroll 1
    for (; u >= at_once - 1; u -= at_once) {
#pragma unroll
      for (int i = 0; i < at_once; i++) step(u - i, i + 1 < at_once ? u - i - 1 : max(u - at_once, 0));
    }
#pragma unroll 1
    for (; u >= 0; u--) step(u, max(u - 1, 0));
#pragma unroll
    for (int f = 0; f < features; f++)
#pragma unroll
      for (int k = 0; k < K; k++) {
        const float with_rest = part[f][k] + rest[f][k], sum = grad_x[f][k] + with_rest;
        rest[f][k] = with_rest - (sum - grad_x[f][k]);
        grad_x[f][k] = sum;
      }
  }

  // After the leftmost tile, `first`, E has left the strip: sums that are on their way to the first lane are complete,
  // and are added by the lanes that have them. Then grad_x is written.
  __device__ __forceinline__ void finish(int first) {
    const int at = (first << a.tile_bits) - s.lane;
    if (a.grad_y.data) {
      if (first > 0) {
        progress.wait((first << a.tile_bits) - (warp - 1), first << a.tile_bits);
        if (s.active && s.lane > 0 && at >= 0 && at < s.pair.m) {
#pragma unroll
          for (int f = 0; f < features; f++) add(f, at, column.v[f]);
        }
        __syncwarp();
      }
      report(0);
    }
    if (!a.grad_x.data || !s.active || s.lane > s.end_lane) return;
    for (int k = 0; k < K; k++) {
      if (s.row_of(k) >= s.pair.n) continue;
      char *to = sums_of(a.grad_x) + s.row_of(k) * a.grad_x.stride[1] * sum_size(a);
#pragma unroll
      for (int f = 0; f < features; f++, to += a.grad_x.stride[2] * sum_size(a))
        if (a.wide_sums)
          *reinterpret_cast<double *>(to) = static_cast<double>(factor) * static_cast<double>(grad_x[f][k]);
        else
          *reinterpret_cast<float *>(to) = factor * grad_x[f][k];
    }
  }
};

// SparseGradients: gradients of any series, by two warps that add to grad_x and three that add to grad_y. Each warp
// looks up which lanes have any E, as the adjoint sweep has marked them, and skips all else (point_gradients.cuh).
template <class Real>
struct SparseGradients {
  static constexpr int of_rows = 2, of_columns = 3, readers = of_rows + of_columns;
  static constexpr bool wants_live = true;
  static constexpr int resident = 1;
  __host__ __device__ static size_t bytes(const Args &a) {
    return (readers * Gradients<Real>::notes_bytes(a) + 15) / 16 * 16;
  }

  const Args &a;
  const StripView &s;
  Progress progress;
  int worker;
  bool of_x;
  Layout layout;
  Gradients<Real> gradients;

  __device__ __forceinline__ SparseGradients(const Args &args, const StripView &view, unsigned char *memory, int role)
      : a(args),
        s(view),
        progress(args, view),
        worker(role),
        of_x(role < of_rows),
        gradients(args, view, of_x, of_x ? role : role - of_rows, memory + role * Gradients<Real>::notes_bytes(args)) {
    const auto layouts = [&](auto element) {
      using Element = decltype(element);
      return common(common(layout_of<Real, Element>(a.x, a.features), layout_of<Real, Element>(a.y, a.features)),
                    layout_of<Real, Element>(of_x ? a.grad_x : a.grad_y, a.features));
    };
    layout = sizeof(Real) == 8 && a.f64 ? layouts(double{}) : layouts(float{});
    if (role != of_rows) progress.reports = false;  // the first warp of grad_y reports
  }
  __device__ __forceinline__ void begin(int last) const {
    if (lane_id() == 0) progress.report((last + 1) << a.tile_bits);
  }
  __device__ __forceinline__ void consume(int tile, int half, int number, const Rows<Real> *e,
                                          BackwardPipeline &pipeline) {
    if (a.dense.data)
      return AlignmentOutput<Real, readers, true>(a, s, nullptr, worker).consume(tile, half, number, e, pipeline);
    const int half_steps = a.tile_steps / 2, step = (tile << a.tile_bits) + half * half_steps;
    const SweptHalf<Real> swept{e, step, min(half_steps, s.steps - step)};
    if (swept.steps > 0 && (of_x ? a.grad_x.data : a.grad_y.data)) {
      const unsigned live = pipeline.live[BackwardPipeline::slot_of(number, half)][lane_id()];
      if constexpr (sizeof(Real) == 8) {
        if (!a.f64)
          a.wide_sums ? add<strided, true>(swept, live) : add<strided>(swept, live);
        else
          layout == at_once ? add<at_once, true, double>(swept, live) : add<strided, true, double>(swept, live);
      } else if (a.wide_sums) {  // of very long series, which are rare, so that fewer layouts have code of their own
        layout == at_once ? add<at_once, true>(swept, live) : add<strided, true>(swept, live);
      } else if (layout == at_once) {
        add<at_once>(swept, live);
      } else if (layout == together) {
        add<together>(swept, live);
      } else {
        add<strided>(swept, live);
      }
    }
    pipeline.leave(number, half);
    if (of_x || !a.grad_y.data) return;
    barrier(3, of_columns * warp);
    if (lane_id() == 0) progress.report(step);
  }
  // Element: of the series.
  template <Layout layout, bool wide_sums = false, class Element = float>
  __device__ __forceinline__ void add(const SweptHalf<Real> &swept, unsigned live) {
    if (!of_x) progress.wait(swept.step - (s.lanes - 1), swept.step + swept.steps);
    for (int f = 0; f < a.features; f += gradients.share.features())
      if (of_x)
        gradients.template to_x<of_rows, Element, layout, wide_sums>(swept, live, f);
      else
        gradients.template to_y<of_columns, Element, layout, wide_sums>(swept, live, f, progress.separate,
                                                                        progress.separate_end);
  }
  __device__ __forceinline__ void finish(int) const {
    if (lane_id() == 0) progress.report(0);
  }
};

}  // namespace sdtw::cuda
