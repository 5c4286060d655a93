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
    if (a.dense.data || !a.grad_y.data || a.lanes < warp) strip = 0, last = true;
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

// Gradients of series of few features, by a warp whose lanes have x of the same rows as the sweep's: grad_x adds up in
// the lane; grad_y of a column goes from lane to lane, as the column was swept.
template <int D>
struct Systolic {
  static constexpr int spenders = 1;
  static constexpr int resident = 2;
  static constexpr int slots = 2 * warp;  // columns of half a tile, and steps

  // y, and what leaves the first lane, each by pair: [D][slots].
  __host__ __device__ static size_t bytes(const Args &a) {
    return 2 * sizeof(float) * D * slots * (warp >> a.lane_bits);
  }

  const Args &a;
  const View &s;
  Progress progress;
  float *y, *leaving;
  float x[K][D], grad_x[K][D];
  float column[D];  // of grad_y, at the lane's last column
  float factor;

  __device__ __forceinline__ Systolic(const Args &args, const View &view, unsigned char *memory, int)
      : a(args), s(view), progress(args, view) {
    y = reinterpret_cast<float *>(memory) + (lane_id() >> a.lane_bits) * (2 * D * slots);
    leaving = y + D * slots;
    factor = s.active ? gradient_factor<float>(a, s.pair.index) : 0;
    const float *from = static_cast<const float *>(a.x.data) + s.pair.index * a.x.stride[0];
#pragma unroll
    for (int f = 0; f < D; f++) {
      column[f] = 0;
#pragma unroll
      for (int k = 0; k < K; k++) {
        grad_x[k][f] = 0;
        x[k][f] = __ldg(from + static_cast<int64_t>(clamp(s.row_of(k), s.pair.n)) * a.x.stride[1] + f * a.x.stride[2]);
      }
    }
  }
  __device__ __forceinline__ void begin(int last) const {
    if (lane_id() == 0) progress.report((last + 1) << a.tile_bits);
  }

  // y of the columns of a few steps.
  __device__ __forceinline__ void load_y(int first, int steps) const {
    const float *from = static_cast<const float *>(a.y.data) + s.pair.index * a.y.stride[0];
    for (int c = s.lane; c < steps + s.lanes - 1; c += s.lanes) {
      const float *point = from + clamp(first + c - (s.lanes - 1), s.pair.m) * a.y.stride[1];
#pragma unroll
      for (int f = 0; f < D; f++) y[f * slots + c] = __ldg(point + f * a.y.stride[2]);
    }
  }
  // Adds the sums of a column to what the strips above have left.
  __device__ __forceinline__ void add(int at, const float *sum, int pitch) const {
    float *to = static_cast<float *>(a.grad_y.data) + s.pair.index * a.grad_y.stride[0] + at * a.grad_y.stride[1];
#pragma unroll
    for (int f = 0; f < D; f++) {
      float *own = to + f * a.grad_y.stride[2];
      __stcg(own, fmaf(factor, sum[f * pitch], __ldcg(own)));
    }
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
    if (steps > 0 && a.grad_y.data) {
      progress.wait(first);
      if (s.active)
        for (int u = s.lane; u < steps && first + u < s.pair.m; u += s.lanes) add(first + u, leaving + u, slots);
      __syncwarp();
      if (lane_id() == 0) progress.report(first);
    }
  }
  __device__ __forceinline__ void sweep(int steps, const Rows<float> *e) {
    const bool lowest = s.lane == s.lanes - 1, first = s.lane == 0;
    const float *own_y = y + s.lanes - 1 - s.lane;
#pragma unroll 2
    for (int u = steps - 1; u >= 0; u--) {
      const Rows<float> here = e[u * ways * warp];
#pragma unroll
      for (int f = 0; f < D; f++) {
        const float from_lane = __shfl_down_sync(all_lanes, column[f], 1);
        const float yf = own_y[f * slots + u];
        float own = 0;  // does not wait for the other lanes
#pragma unroll
        for (int k = 0; k < K; k++) {
          const float difference = x[k][f] - yf;
          grad_x[k][f] = fmaf(here.v[k], difference, grad_x[k][f]);
          own = fmaf(-here.v[k], difference, own);
        }
        column[f] = (lowest ? 0.0f : from_lane) + own;
        if (first) leaving[f * slots + u] = column[f];
      }
    }
  }

  // first: the strip's last tile. What is on its way to the first lane is complete.
  __device__ __forceinline__ void finish(int first) {
    const int at = (first << a.tile_bits) - s.lane;
    if (a.grad_y.data) {
      if (first > 0) progress.wait((first << a.tile_bits) - (warp - 1));
      if (s.active && s.lane > 0 && at >= 0 && at < s.pair.m) add(at, column, 1);
      __syncwarp();
      if (lane_id() == 0) progress.report(0);
    }
    if (!a.grad_x.data || !s.active) return;
    for (int k = 0; k < K; k++) {
      if (s.row_of(k) >= s.pair.n) break;
      float *to =
          static_cast<float *>(a.grad_x.data) + s.pair.index * a.grad_x.stride[0] + s.row_of(k) * a.grad_x.stride[1];
#pragma unroll
      for (int f = 0; f < D; f++) to[f * a.grad_x.stride[2]] = factor * grad_x[k][f];
    }
  }
};

// Gradients of any series, or a matrix, by warps that pick out of a tile of E what there is of it.
template <class Real, int spenders_>
struct Sparse {
  static constexpr int spenders = spenders_;
  static constexpr int resident = 1;

  __host__ __device__ static size_t bytes(const Args &) { return (sizeof(Extract<Real>) + 15) / 16 * 16; }

  const Args &a;
  const View &s;
  Progress progress;
  Extract<Real> &extract;
  Crew crew;

  __device__ __forceinline__ Sparse(const Args &args, const View &view, unsigned char *memory, int thread)
      : a(args),
        s(view),
        progress(args, view),
        extract(*reinterpret_cast<Extract<Real> *>(memory)),
        crew{thread, spenders * warp} {
    extract.clear(crew);
  }
  __device__ __forceinline__ void begin(int last) const {
    if (crew.thread == 0) progress.report((last + 1) << a.tile_bits);
  }

  __device__ __forceinline__ void spend(int tile, int half, int number, const Rows<Real> *e, Board &board) {
    const int half_steps = a.tile_steps / 2, first = tile << a.tile_bits, step = first + half * half_steps;
    const SweptHalf<Real> swept{reinterpret_cast<const Real *>(e), step, min(half_steps, s.steps - step)};
    const Gradients<Real> gradients{a, extract, first, crew, s};
    if (a.dense.data)
      gradients.write_dense(swept);
    else
      extract.take(swept, half, half_steps, crew);
    crew.meet();
    if (a.dense.data || extract.fits(half)) board.leave(number, half);
    if (a.dense.data || half == 1) return;
    if (crew.worker() == 0) extract.list(s.lanes);
    crew.meet();
    gradients.spend([&] { progress.wait(first - (warp - 1)); });
    const bool held[2] = {!extract.fits(0), !extract.fits(1)};
    crew.meet();  // everything has been written, and the extract has been read
#pragma unroll
    for (int of = 0; of < 2; of++)
      if (held[of]) board.leave(number, of);
    extract.clear(crew);
    if (crew.thread == 0) progress.report(first);
  }
  __device__ __forceinline__ void finish(int) const {
    if (crew.thread == 0) progress.report(0);
  }
};

}  // namespace sdtw::cuda
