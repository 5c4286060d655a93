// What becomes of the E that is swept: the sweeping warp's side of it, and the warps that make gradients of it.
#pragma once

#include <type_traits>

#include "gradient.cuh"
#include "orders.cuh"
#include "strip.cuh"

namespace sdtw::cuda {

enum Look { dead, live, unknown };

__device__ __forceinline__ int64_t row_between(const Args &a, const View &s, int strip) {
  return (s.pair.index * (a.strips - 1) + strip) * a.m;
}

// Which half of a tile begins with a step.
__device__ __forceinline__ int half_of(const Args &a, int step) { return step >> (a.tile_bits - 1) & 1; }

// The sweeping warp's side: what flows from strip to strip, and E, which it leaves for the spenders in place of the
// ways it was made of.
template <class Real, class Spender>
struct Outlet {
  using Bits = std::conditional_t<sizeof(Real) == 8, Word, unsigned>;

  const Args &a;
  const View &s;
  Board &board;
  int &given;                // notices so far
  Real in;                   // from below, in step lane_id() of the tile
  Bits incoming;             // what has been asked for of that,
  int asked;                 // for the tile that begins with this step
  Real *entering, *leaving;  // from below by step; and what leaves, by pair and step
  bool passed;               // tiles that the spenders have not been told of

  // Shared memory: what enters and what leaves.
  __host__ __device__ static size_t bytes(const Args &a) { return sizeof(Real) * warp * (1 + (warp >> a.lane_bits)); }

  __device__ __forceinline__ Outlet(const Args &args, const View &view, unsigned char *memory, Board &of, int &count)
      : a(args),
        s(view),
        board(of),
        given(count),
        in(0),
        asked(none),
        entering(reinterpret_cast<Real *>(memory)),
        leaving(entering + (1 + (lane_id() >> a.lane_bits)) * warp),
        passed(false) {}

  __device__ __forceinline__ Real below(int u) const { return load_now(entering + u); }
  __device__ __forceinline__ Real received() const { return in; }

  // What comes from below in a tile: it is asked for while the tile to the right is swept.
  __device__ __forceinline__ void ask(int first, int steps) {
    asked = first;
    const int at = first + lane_id() - (warp - 1);
    const bool asks = s.active && !s.last && lane_id() < steps && at >= 0;
    incoming = asks ? load_message<Real>(a.messages, row_between(a, s, s.index) + at, a.f64) : Bits(0);
  }
  __device__ __forceinline__ bool receive(int first, int steps, bool wait) {
    __syncwarp();
    if (asked != first) ask(first, steps);
    bool here = __all_sync(all_lanes, incoming != static_cast<Bits>(~Bits(0)));
    for (int patience = 0; !here && (wait || patience < 2); patience++) {
      ask(first, steps);
      here = __all_sync(all_lanes, incoming != static_cast<Bits>(~Bits(0)));
    }
    if (!here) return false;
    in = message_value<Real>(incoming, a.f64);
    entering[lane_id()] = in;
    __syncwarp();
    return true;
  }
  __device__ __forceinline__ void send(int first, int steps) const {
    __syncwarp();
    if (!s.active || s.index == 0) return;
    const int64_t to = row_between(a, s, s.index - 1);
    for (int u = s.lane; u < steps && first + u < s.pair.m; u += s.lanes)
      send_message<Real>(a.messages, to + first + u, a.f64, leaving[u]);
  }

  __device__ __forceinline__ void begin_tile(int first) {
    if (first > 0) ask(first - a.tile_steps, a.tile_steps);
  }
  // E of step u. p: where the ways of the lane lie in that step.
  __device__ __forceinline__ void take(int u, const Rows<Real> &of, Real up, Rows<Real> *p) {
    *p = of;
    if (s.lane == 0) leaving[u] = up;
  }
  __device__ __forceinline__ void end_half(int order, int step) {
    board.swept.wait_empty(given);
    give({s.task, step, order});
  }
  __device__ __forceinline__ void give(const Notice &notice) {
    if (lane_id() == 0) board.notices[given % notice_slots] = notice;
    board.swept.fill(given++);
    passed = false;
  }

  __device__ __forceinline__ void pass(int first, int steps) {
    for (int u = s.lane; u < steps; u += s.lanes) leaving[u] = 0;
    send(first, steps);
    __syncwarp();
    passed = true;
  }
  // The strip above may be waiting to hear that grad_y is complete from a step on: of tiles without E the spenders are
  // told before the sweep has to wait itself, and at the end.
  __device__ __forceinline__ void report(int first) {
    if (!passed || !Spender::hears(a, s)) return;
    board.swept.wait_empty(given);
    give({s.task, first, none});
  }
  __device__ __forceinline__ void finish() { report(0); }
  static __device__ __forceinline__ void stop(Board &board, int given) {
    board.swept.wait_empty(given);
    if (lane_id() == 0) board.notices[given % notice_slots] = {none, 0, none};
    board.swept.fill(given);
  }
};

// Gradients of series of few features, by a warp whose lanes have x of the same rows as the sweep's: grad_x adds up in
// the lane; grad_y of a column goes from lane to lane, as the column was swept, and from strip to strip: the first
// strip has the whole of it.
template <int D>
struct Systolic {
  static constexpr int spenders = 1;
  static constexpr int resident = 2;
  static constexpr int slots = 2 * warp;  // columns of half a tile, and steps

  // y, what comes from below, and what leaves, each by pair: [D][slots].
  __host__ __device__ static size_t bytes(const Args &a) {
    return 3 * sizeof(float) * D * slots * (warp >> a.lane_bits);
  }
  // Sums on their way to the left are waited for.
  static __device__ __forceinline__ bool hears(const Args &, const View &) { return true; }

  const Args &a;
  const View &s;
  float *y, *entering, *leaving;
  float x[K][D], grad_x[K][D];
  float column[D];  // of grad_y, at the lane's last column
  int done;         // all steps from this one on

  __device__ __forceinline__ Systolic(const Args &args, const View &view, unsigned char *memory, int)
      : a(args), s(view) {
    y = reinterpret_cast<float *>(memory) + (lane_id() >> a.lane_bits) * (3 * D * slots);
    entering = y + D * slots, leaving = entering + D * slots;
    const int half_steps = a.tile_steps / 2;
    done = (s.steps + half_steps - 1) & -half_steps;
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

  __device__ __forceinline__ const float *sums(int strip) const { return a.sums + row_between(a, s, strip) * D; }

  // y of the columns of a few steps, and what comes from below in these.
  __device__ __forceinline__ void load_y(int first, int steps) const {
    const float *from = static_cast<const float *>(a.y.data) + s.pair.index * a.y.stride[0];
    for (int c = s.lane; c < steps + s.lanes - 1; c += s.lanes) {
      const float *point = from + clamp(first + c - (s.lanes - 1), s.pair.m) * a.y.stride[1];
#pragma unroll
      for (int f = 0; f < D; f++) y[f * slots + c] = __ldg(point + f * a.y.stride[2]);
    }
  }
  __device__ __forceinline__ void receive(int first, int steps) const {
    const bool asks = s.active && !s.last && a.grad_y.data;
    for (int u = s.lane; u < steps; u += s.lanes) {
      const int at = first + u - (warp - 1);
      const auto *from = reinterpret_cast<const unsigned *>(sums(s.index) + static_cast<int64_t>(at) * D);
#pragma unroll
      for (int f = 0; f < D; f++) entering[f * slots + u] = asks && at >= 0 ? __uint_as_float(wait_for(from + f)) : 0;
    }
  }
  // What leaves the strip in the columns of a few steps: to the strip above, or to where it belongs.
  __device__ __forceinline__ void send(int first, int steps) const {
    __syncwarp();
    if (s.active && a.grad_y.data) {
      const float g = gradient_factor<float>(a, s.pair.index);
      for (int u = s.lane; u < steps && first + u < s.pair.m; u += s.lanes) {
        const int at = first + u;
        if (s.index > 0) {
          float *to = const_cast<float *>(sums(s.index - 1)) + static_cast<int64_t>(at) * D;
#pragma unroll
          for (int f = 0; f < D; f++)
            store_relaxed(reinterpret_cast<unsigned *>(to + f), __float_as_uint(leaving[f * slots + u]));
        } else {
          float *to = static_cast<float *>(a.grad_y.data) + s.pair.index * a.grad_y.stride[0] + at * a.grad_y.stride[1];
#pragma unroll
          for (int f = 0; f < D; f++) to[f * a.grad_y.stride[2]] = g * leaving[f * slots + u];
        }
      }
    }
    __syncwarp();
  }

  __device__ __forceinline__ void spend(const Notice &notice, const Rows<float> *e, Board &board) {
    while (done > notice.step + (notice.order == none ? 0 : a.tile_steps / 2)) pass();
    if (notice.order == none) return;
    const int steps = min(a.tile_steps / 2, s.steps - notice.step);
    if (steps > 0) {
      load_y(notice.step, steps);
      receive(notice.step, steps);
      __syncwarp();
      sweep(steps, e + lane_id());
      send(notice.step, steps);
    }
    board.leave(notice.order, half_of(a, notice.step));
    done = notice.step;
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
        const float yf = own_y[f * slots + u], from_strip = load_now(entering + f * slots + u);
        float own = 0;  // does not wait for the other lanes
#pragma unroll
        for (int k = 0; k < K; k++) {
          const float difference = x[k][f] - yf;
          grad_x[k][f] = fmaf(here.v[k], difference, grad_x[k][f]);
          own = fmaf(-here.v[k], difference, own);
        }
        column[f] = (lowest ? from_strip : from_lane) + own;
        if (first) leaving[f * slots + u] = column[f];
      }
    }
  }
  // Half a tile without E: sums of grad_y go through it as they are. Lane l's is that of column first + steps - l;
  // those of columns that are met in these steps come out, and those from below come in.
  __device__ __forceinline__ void pass() {
    const int half_steps = a.tile_steps / 2;
    done -= half_steps;
    const int steps = min(half_steps, s.steps - done);
    receive(done, steps);
    __syncwarp();
    const int base = lane_id() - s.lane, top = s.lanes - 1;
    const bool counts = s.lanes == warp;
#pragma unroll
    for (int f = 0; f < D; f++) {
      const float *from_strip = entering + f * slots;
      const float moved = __shfl_sync(all_lanes, column[f], base + ((s.lane + steps) & top));
      const float next = s.lane + steps <= top ? moved : counts ? from_strip[top - s.lane] : 0;
      for (int u0 = 0; u0 < steps; u0 += s.lanes) {
        const int u = u0 + s.lane, from = steps - u;
        const float sum = __shfl_sync(all_lanes, column[f], base + (from & top));
        if (u < steps) leaving[f * slots + u] = from <= top ? sum : counts ? from_strip[u + top] : 0;
      }
      column[f] = next;
    }
    send(done, steps);
  }

  __device__ __forceinline__ void finish() const {
    if (!a.grad_x.data || !s.active) return;
    const float g = gradient_factor<float>(a, s.pair.index);
    for (int k = 0; k < K; k++) {
      if (s.row_of(k) >= s.pair.n) break;
      float *to =
          static_cast<float *>(a.grad_x.data) + s.pair.index * a.grad_x.stride[0] + s.row_of(k) * a.grad_x.stride[1];
#pragma unroll
      for (int f = 0; f < D; f++) to[f * a.grad_x.stride[2]] = g * grad_x[k][f];
    }
  }
};

// Gradients of any series, or a matrix, by warps that pick out of a tile of E what there is of it. Others' sums of
// grad_y are in the caller's array: progress is 2^30 less the first tile whose gradients are complete.
template <class Real, int spenders_>
struct Sparse {
  static constexpr int spenders = spenders_;
  static constexpr int resident = 1;

  __host__ __device__ static size_t bytes(const Args &) { return (sizeof(Extract<Real>) + 15) / 16 * 16; }
  // Whether a strip above adds to the same grad_y.
  static __device__ __forceinline__ bool hears(const Args &a, const View &s) {
    return !a.dense.data && a.grad_y.data && s.index > 0;
  }

  const Args &a;
  const View &s;
  Extract<Real> &extract;
  Crew crew;

  __device__ __forceinline__ Sparse(const Args &args, const View &view, unsigned char *memory, int thread)
      : a(args), s(view), extract(*reinterpret_cast<Extract<Real> *>(memory)), crew{thread, spenders * warp} {
    extract.clear(crew);
  }

  __device__ __forceinline__ int *progress(int strip) const { return a.progress + s.pair.index * a.strips + strip; }
  __device__ __forceinline__ void spend(const Notice &notice, const Rows<Real> *e, Board &board) const {
    const int half_steps = a.tile_steps / 2, half = half_of(a, notice.step), order = notice.order;
    const int first = notice.step - half * half_steps;
    if (order != none) {
      const SweptHalf<Real> swept{reinterpret_cast<const Real *>(e), notice.step,
                                  min(half_steps, s.steps - notice.step)};
      const Gradients<Real> gradients{a, extract, first, crew, s};
      if (a.dense.data)
        gradients.write_dense(swept);
      else
        extract.take(swept, half, half_steps, crew);
      crew.meet();
      if (a.dense.data || extract.fits(half)) board.leave(order, half);
      if (a.dense.data || half == 1) return;
      if (crew.worker() == 0) extract.list(s.lanes);
      crew.meet();
      gradients.spend([&] {
        if (s.last || a.lanes < warp) return;
        const int *below = progress(s.index + 1);
        const int needed = (1 << 30) - (max(first - (warp - 1), 0) >> a.tile_bits);
        while (load_relaxed(below) < needed) continue;
        load_acquire(below);
      });
      const bool held[2] = {!extract.fits(0), !extract.fits(1)};
      crew.meet();  // everything has been written, and the extract has been read
#pragma unroll
      for (int of = 0; of < 2; of++)
        if (held[of]) board.leave(order, of);
      extract.clear(crew);
    }
    if (hears(a, s) && crew.thread == 0) store_release(progress(s.index), (1 << 30) - (first >> a.tile_bits));
  }
  __device__ __forceinline__ void finish() const {}
};

}  // namespace sdtw::cuda
