// What becomes of the E that is swept: the warps that make gradients of it.
//
// Columns are shared by strips, rows are not. To grad_y the strips add in their order, the first one first: so sums are
// the same in every run. From right to left a strip meets the columns that it shares with the one above last, which
// that one meets first: they hardly ever wait for each other.
#pragma once

#include <climits>

#include "board.cuh"
#include "gradient.cuh"
#include "strip.cuh"

namespace sdtw::cuda {

// How far the strips of a pair have come with grad_y.
struct Progress {
  static constexpr int all = 1 << 30;

  int *of_first;  // strip of the pair: all less the column from which on its part is complete
  int strip;
  bool last;
  int complete;  // the column from which on all strips above are known to have added their parts

  __device__ __forceinline__ Progress(const Args &a, const View &s)
      : of_first(a.progress + s.pair.index * a.strips), strip(s.strip), last(s.last || !s.active), complete(INT_MAX) {
    if (!a.grad_y.data || a.lanes < warp) strip = 0, last = true;
  }
  // By a warp.
  __device__ __forceinline__ void wait(int column) {
    while (strip > 0 && complete > max(column, 0)) {
      int least = all;
      for (int i = lane_id(); i < strip; i += warp) least = min(least, load_acquire(of_first + i));
      complete = all + warp_max(-least);
    }
    __syncwarp();
  }
  // By one thread.
  __device__ __forceinline__ void report(int column) const {
    if (!last) store_release(of_first + strip, all - max(column, 0));
  }
};

// Gradients of series of few features, each by a warp whose lanes have x of the same rows as the sweep's: grad_x adds
// up in the lane; grad_y of a column goes from lane to lane, as the column was swept.
template <int features>
struct Systolic {
  static constexpr int readers = features;
  static constexpr bool wants_live = false;  // to know where there is any E
  static constexpr int resident = 2;
  static constexpr int slots = 2 * warp;  // columns of half a tile, and steps

  // Of a reader: y, and what leaves the first lane, each by pair.
  __host__ __device__ static size_t bytes(const Args &a) {
    return readers * 2 * sizeof(float) * slots * (warp >> a.lane_bits);
  }

  const Args &a;
  const View &s;
  Progress progress;
  float *y, *leaving;
  const float *ys;  // of the pair, in the caller's array
  float *of_y;      // where its gradient goes
  float x[K], grad_x[K];
  float column;  // of grad_y, at the lane's last column
  float factor;
  int feature;

  __device__ __forceinline__ Systolic(const Args &args, const View &view, unsigned char *memory, int reader)
      : a(args), s(view), progress(args, view), column(0), feature(reader) {
    if (reader > 0) progress.last = true;  // one of them reports
    const int pairs = warp >> a.lane_bits, pair = lane_id() >> a.lane_bits;
    y = reinterpret_cast<float *>(memory) + (reader * pairs + pair) * (2 * slots);
    leaving = y + slots;
    factor = s.active ? gradient_factor<float>(a, s.pair.index) : 0;
    ys = static_cast<const float *>(a.y.data) + s.pair.index * a.y.stride[0] + feature * a.y.stride[2];
    of_y = static_cast<float *>(a.grad_y.data) + s.pair.index * a.grad_y.stride[0] + feature * a.grad_y.stride[2];
    const float *from = static_cast<const float *>(a.x.data) + s.pair.index * a.x.stride[0] + feature * a.x.stride[2];
#pragma unroll
    for (int k = 0; k < K; k++) {
      grad_x[k] = 0;
      x[k] = __ldg(from + static_cast<int64_t>(clamp(s.row_of(k), s.pair.n)) * a.x.stride[1]);
    }
  }
  __device__ __forceinline__ void begin(int last) const {
    if (lane_id() == 0) progress.report((last + 1) << a.tile_bits);
  }

  // y of the columns of a few steps.
  __device__ __forceinline__ void load_y(int first, int steps) const {
    for (int c = s.lane; c < steps + s.lanes - 1; c += s.lanes)
      y[c] = __ldg(ys + clamp(first + c - (s.lanes - 1), s.pair.m) * a.y.stride[1]);
  }
  // To what the strips above have left.
  __device__ __forceinline__ void add(int at, float sum) const {
    atomicAdd(of_y + at * a.grad_y.stride[1], factor * sum);
  }

  __device__ __forceinline__ void spend(int tile, int half, int number, const Rows<float> *e, Board &board) {
    const int half_steps = a.tile_steps / 2, first = (tile << a.tile_bits) + half * half_steps;
    const int steps = min(half_steps, s.steps - first);
    if (steps > 0) {
      load_y(first, steps);
      __syncwarp();
      sweep(steps, e + lane_id());
    }
    board.leave(number, half);
    if (!a.grad_y.data) return;
    if (steps > 0) {
      progress.wait(first);
      if (s.active)
        for (int u = s.lane; u < steps && first + u < s.pair.m; u += s.lanes) add(first + u, leaving[u]);
      __syncwarp();
    }
    if (half == 0) report(first);
  }
  // By all readers: when each of them has added its feature.
  __device__ __forceinline__ void report(int column) const {
    if (a.strips == 1) return;
    if constexpr (readers > 1) barrier(3, readers * warp);
    if (lane_id() == 0) progress.report(column);
  }
  __device__ __forceinline__ void sweep(int steps, const Rows<float> *e) {
    const bool lowest = s.lane == s.lanes - 1, first = s.lane == 0;
    const float *own_y = y + s.lanes - 1 - s.lane;
#pragma unroll 4
    for (int u = steps - 1; u >= 0; u--) {
      const Rows<float> here = e[u * ways * warp];
      const float from_lane = __shfl_down_sync(all_lanes, column, 1), yu = own_y[u];
      float own = 0;  // does not wait for the other lanes
#pragma unroll
      for (int k = 0; k < K; k++) {
        const float difference = x[k] - yu;
        grad_x[k] = fmaf(here.v[k], difference, grad_x[k]);
        own = fmaf(-here.v[k], difference, own);
      }
      column = (lowest ? 0.0f : from_lane) + own;
      if (first) leaving[u] = column;
    }
  }

  // first: the strip's last tile. What is on its way to the first lane is complete.
  __device__ __forceinline__ void finish(int first) {
    const int at = (first << a.tile_bits) - s.lane;
    if (a.grad_y.data) {
      if (first > 0) {
        progress.wait((first << a.tile_bits) - (warp - 1));
        if (s.active && s.lane > 0 && at >= 0 && at < s.pair.m) add(at, column);
        __syncwarp();
      }
      report(0);
    }
    if (!a.grad_x.data || !s.active) return;
    for (int k = 0; k < K; k++) {
      if (s.row_of(k) >= s.pair.n) break;
      static_cast<float *>(a.grad_x.data)[s.pair.index * a.grad_x.stride[0] + s.row_of(k) * a.grad_x.stride[1] +
                                          feature * a.grad_x.stride[2]] = factor * grad_x[k];
    }
  }
};

// Gradients of any series, by two warps that add to grad_x and three that add to grad_y.
template <class Real>
struct Sparse {
  static constexpr int of_rows = 2, of_columns = 3, readers = of_rows + of_columns;
  static constexpr bool wants_live = true;
  static constexpr int resident = 1;
  static constexpr int max_items = 96;  // of half a tile: columns of all pairs of a warp
  __host__ __device__ static size_t bytes(const Args &) { return readers * max_items * sizeof(Item); }

  const Args &a;
  const View &s;
  Progress progress;
  bool of_x;
  int worker;
  Layout layout;
  Share<Real> share;
  Item *items;

  __device__ __forceinline__ Sparse(const Args &args, const View &view, unsigned char *memory, int role)
      : a(args),
        s(view),
        progress(args, view),
        of_x(role < of_rows),
        worker(of_x ? role : role - of_rows),
        share(args.features) {
    items = reinterpret_cast<Item *>(memory) + role * max_items;
    layout = common(common(layout_of<Real>(a.x, a.features), layout_of<Real>(a.y, a.features)),
                    layout_of<Real>(of_x ? a.grad_x : a.grad_y, a.features));
    if (role != of_rows) progress.last = true;  // one of them reports
  }
  __device__ __forceinline__ void begin(int last) const {
    if (lane_id() == 0) progress.report((last + 1) << a.tile_bits);
  }
  __device__ __forceinline__ void spend(int tile, int half, int number, const Rows<Real> *e, Board &board) {
    const int half_steps = a.tile_steps / 2, step = (tile << a.tile_bits) + half * half_steps;
    const SweptHalf<Real> swept{e, step, min(half_steps, s.steps - step)};
    if (swept.steps > 0 && (of_x ? a.grad_x.data : a.grad_y.data)) {
      const unsigned live = board.live[Board::slot_of(number, half)][lane_id()];
      if constexpr (sizeof(Real) == 8)
        add<strided>(swept, live);
      else if (layout == by_four)
        add<by_four>(swept, live);
      else if (layout == together)
        add<together>(swept, live);
      else
        add<strided>(swept, live);
    }
    board.leave(number, half);
    if (of_x || !a.grad_y.data) return;
    barrier(3, of_columns * warp);
    if (lane_id() == 0) progress.report(step);
  }
  template <Layout layout>
  __device__ __forceinline__ void add(const SweptHalf<Real> &swept, unsigned live) {
    const Gradients<Real, layout> gradients{a, s, swept, worker, items, live};
    if (!of_x) progress.wait(swept.step - (s.lanes - 1));
    for (int f = 0; f < a.features; f += share.features())
      if (of_x)
        gradients.template to_x<of_rows>(share, f);
      else
        gradients.template to_y<of_columns>(share, f);
  }
  __device__ __forceinline__ void finish(int) const {
    if (lane_id() == 0) progress.report(0);
  }
};

// E itself, one element a cell.
template <class Real>
struct Dense {
  static constexpr int readers = 4;
  static constexpr bool wants_live = false;
  static constexpr int resident = 1;

  __host__ __device__ static size_t bytes(const Args &) { return 0; }
  const Args &a;
  const View &s;
  int thread;

  __device__ __forceinline__ Dense(const Args &args, const View &view, unsigned char *, int worker)
      : a(args), s(view), thread(worker * warp + lane_id()) {}
  __device__ __forceinline__ void begin(int) const {}
  __device__ __forceinline__ void spend(int tile, int half, int number, const Rows<Real> *e, Board &board) const {
    const int half_steps = a.tile_steps / 2, step = (tile << a.tile_bits) + half * half_steps;
    write_dense<Real>(a, s, {e, step, min(half_steps, s.steps - step)}, half_steps, thread, readers * warp);
    board.leave(number, half);
  }
  __device__ __forceinline__ void finish(int) const {}
};

}  // namespace sdtw::cuda
