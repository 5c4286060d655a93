// Where the backward sweep puts E: into the gradients of few features while it sweeps, or into tiles in shared memory
// that other warps turn into gradients; and what strips tell each other.
#pragma once

#include <type_traits>

#include "gradient.cuh"
#include "inline_costs.cuh"

namespace sdtw::cuda {

enum Look { dead, live, unknown };

__device__ __forceinline__ unsigned char *messages_of(const Args &a, const View &s, int strip) {
  return a.messages + (s.pair.index * (a.strips - 1) + strip) * a.m * a.message_bytes;
}

// For a sweep whose lane has x of its rows: grad_x adds up in the lane; grad_y of a column goes from lane to lane with
// the sweep, and from strip to strip with what flows: the first strip has the whole of it.
template <int D>
struct InSweep {
  static constexpr int spenders = 0;
  static constexpr int resident = 2;
  static constexpr int slots = warp;

  // y as it is, [tile parity][pairs][D][ring]; E and grad_y from below, by step; and those that leave, by pair and
  // step.
  static constexpr int row = InlineCosts<D>::row;
  static constexpr int exchange = (1 + D) * slots;
  __host__ __device__ static size_t raw_bytes(const Args &a) { return sizeof(float) * D * row * (warp >> a.lane_bits); }
  __host__ __device__ static size_t bytes(const Args &a) {
    return 2 * raw_bytes(a) + sizeof(float) * exchange * (1 + (warp >> a.lane_bits));
  }

  const Args &a;
  const View &s;
  unsigned char *memory;
  float x[K][D], grad_x[K][D];
  float column[D];     // of grad_y, at the lane's last column
  float in;            // from below, in step lane_id() of the tile
  const float *y;      // of the lane's column in the tile's first step
  float *entering;     // [1 + D][slots]
  float *leaving;      // [1 + D][slots]
  bool lowest, first;  // of the pair's lanes

  __device__ __forceinline__ InSweep(const Args &args, const View &view, unsigned char *to)
      : a(args), s(view), memory(to), in(0) {
    const int64_t base = s.pair.index * a.x.stride[0];
    entering = reinterpret_cast<float *>(memory + 2 * raw_bytes(a));
    leaving = entering + exchange * (1 + (lane_id() >> a.lane_bits));
    lowest = s.lane == s.lanes - 1, first = s.lane == 0;
#pragma unroll
    for (int f = 0; f < D; f++) {
      column[f] = 0;
#pragma unroll
      for (int k = 0; k < K; k++) {
        grad_x[k][f] = 0;
        x[k][f] = __ldg(static_cast<const float *>(a.x.data) + base +
                        static_cast<int64_t>(clamp(s.row_of(k), s.pair.n)) * a.x.stride[1] + f * a.x.stride[2]);
      }
    }
  }

  static __device__ __forceinline__ float *raw(const Args &a, unsigned char *memory, int tile) {
    return reinterpret_cast<float *>(memory + tile % 2 * raw_bytes(a)) + (lane_id() >> a.lane_bits) * (D * row);
  }
  template <class Source>
  static __device__ __forceinline__ void offer(const Args &a, Source &source, unsigned char *memory, int tile) {
    source.raw = raw(a, memory, tile);
  }

  __device__ __forceinline__ float below(int u) const { return entering[u]; }
  __device__ __forceinline__ float received() const { return in; }

  __device__ __forceinline__ bool receive(int first, int steps, bool wait) {
    __syncwarp();
    const int at = first + lane_id() - (warp - 1);
    const bool asks = s.active && !s.last && lane_id() < steps && at >= 0;
    const Word *from = reinterpret_cast<const Word *>(messages_of(a, s, s.index)) + static_cast<int64_t>(at) * D;
    Word word[D];
    bool here = false;
    for (int patience = 0; !here && (wait || patience < 4); patience++) {
      bool all = true;
#pragma unroll
      for (int f = 0; f < D; f++) {
        word[f] = asks ? load_relaxed(from + f) : 0;
        all &= word[f] != ~Word(0);
      }
      here = __all_sync(all_lanes, all);
    }
    if (!here) return false;
    in = __uint_as_float(static_cast<unsigned>(word[0]));
    float *to = entering + lane_id();
    to[0] = in;
    to[slots] = __uint_as_float(static_cast<unsigned>(word[0] >> 32));
    if (D == 2) to[2 * slots] = __uint_as_float(static_cast<unsigned>(word[D - 1]));
    __syncwarp();
    return true;
  }

  // What leaves the strip in the columns of a tile: to the strip above, or to where it belongs.
  __device__ __forceinline__ void send(int first_column, int steps) const {
    __syncwarp();
    if (!s.active) return;
    const float g = gradient_factor<float>(a, s.pair.index);
    for (int u = s.lane; u < steps && first_column + u < s.pair.m; u += s.lanes) {
      const int at = first_column + u;
      if (s.index > 0) {
        Word *to = reinterpret_cast<Word *>(messages_of(a, s, s.index - 1)) + static_cast<int64_t>(at) * D;
        store_relaxed(to, static_cast<Word>(__float_as_uint(leaving[slots + u])) << 32 | __float_as_uint(leaving[u]));
        if (D == 2) store_relaxed(to + 1, static_cast<Word>(__float_as_uint(leaving[D * slots + u])));
      } else if (a.grad_y.data) {
        float *to = static_cast<float *>(a.grad_y.data) + s.pair.index * a.grad_y.stride[0] + at * a.grad_y.stride[1];
#pragma unroll
        for (int f = 0; f < D; f++) to[f * a.grad_y.stride[2]] = g * leaving[(1 + f) * slots + u];
      }
    }
  }

  __device__ __forceinline__ void begin_tile(int tile, int first_step) {
    y = raw(a, memory, tile) + static_cast<unsigned>(first_step - s.lane) % ring_columns;
  }
  __device__ __forceinline__ void end_tile(int first_step, int steps) const { send(first_step, steps); }
  __device__ __forceinline__ void take(int u, const float (&e)[K], float up) {
    if (first) leaving[u] = up;
#pragma unroll
    for (int f = 0; f < D; f++) {
      const float from_lane = __shfl_down_sync(all_lanes, column[f], 1), from_strip = entering[(1 + f) * slots + u];
      float sum = lowest ? from_strip : from_lane;
      const float yf = y[f * row + u];
#pragma unroll
      for (int k = 0; k < K; k++) {
        const float difference = x[k][f] - yf;
        grad_x[k][f] = fmaf(e[k], difference, grad_x[k][f]);
        sum = fmaf(-e[k], difference, sum);
      }
      column[f] = sum;
      if (first) leaving[(1 + f) * slots + u] = sum;
    }
  }

  // A tile without E: sums of grad_y go through it as they are. Lane l's is that of column first + steps - l; those
  // of columns that are met in the tile come out, and those from below come in.
  __device__ __forceinline__ void pass(int first_step, int steps) {
    const int base = lane_id() - s.lane, top = s.lanes - 1;
    const bool counts = s.lanes == warp;
#pragma unroll
    for (int f = 0; f < D; f++) {
      const float *from_strip = entering + (1 + f) * slots;
      const float moved = __shfl_sync(all_lanes, column[f], base + ((s.lane + steps) & top));
      const float next = s.lane + steps <= top ? moved : counts ? from_strip[(top - s.lane) % slots] : 0;
      for (int u0 = 0; u0 < steps; u0 += s.lanes) {
        const int u = u0 + s.lane, from = steps - u;
        const float sum = __shfl_sync(all_lanes, column[f], base + (from & top));
        if (u < steps) {
          leaving[u] = 0;
          leaving[(1 + f) * slots + u] = from <= top ? sum : counts ? from_strip[(u + top) % slots] : 0;
        }
      }
      column[f] = next;
    }
    send(first_step, steps);
    __syncwarp();
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

// For other warps to spend: E of two tiles in shared memory.
template <class Real, int spenders_>
struct Tiles {
  static constexpr int spenders = spenders_;
  static constexpr int resident = 1;
  using Tile = TileOfE<Real>;

  __host__ __device__ static size_t e_bytes(const Args &a) {
    return (sizeof(Real) * Tile::pitch * a.tile_steps + 15) / 16 * 16;
  }
  __host__ __device__ static size_t tile_bytes(const Args &a) {
    return e_bytes(a) + (sizeof(TileIndex) + 15) / 16 * 16;
  }
  __host__ __device__ static size_t bytes(const Args &a) {
    return 2 * tile_bytes(a) + sizeof(Real) * warp * (1 + (warp >> a.lane_bits));
  }

  const Args &a;
  const View &s;
  unsigned char *memory;
  Real in;
  Real *entering, *leaving;  // from below by step, and what leaves by pair and step
  Real *e;
  TileIndex *index;
  unsigned mask[K];

  __device__ __forceinline__ Tiles(const Args &args, const View &view, unsigned char *to)
      : a(args), s(view), memory(to), in(0) {
    entering = reinterpret_cast<Real *>(memory + 2 * tile_bytes(a));
    leaving = entering + (1 + (lane_id() >> a.lane_bits)) * warp;
  }

  template <class Source>
  static __device__ __forceinline__ void offer(const Args &, Source &, unsigned char *, int) {}

  __device__ __forceinline__ Real below(int u) const { return entering[u]; }
  __device__ __forceinline__ Real received() const { return in; }

  __device__ __forceinline__ bool receive(int first, int steps, bool wait) {
    __syncwarp();
    const int at = first + lane_id() - (warp - 1);
    const bool asks = s.active && !s.last && lane_id() < steps && at >= 0;
    const unsigned char *from = messages_of(a, s, s.index);
    bool here = false;
    for (int patience = 0; !here && (wait || patience < 4); patience++)
      here = __all_sync(all_lanes, !asks || has_message<Real>(from, at, a.f64));
    if (!here) return false;
    in = asks ? wait_for_message<Real>(from, at, a.f64) : Real(0);
    entering[lane_id()] = in;
    __syncwarp();
    return true;
  }

  __device__ __forceinline__ void send(int first, int steps) const {
    __syncwarp();
    if (!s.active || s.index == 0) return;
    unsigned char *to = messages_of(a, s, s.index - 1);
    for (int u = s.lane; u < steps && first + u < s.pair.m; u += s.lanes)
      send_message<Real>(to, first + u, a.f64, leaving[u]);
  }

  __device__ __forceinline__ void begin_tile(int tile, int) {
    unsigned char *to = memory + tile % 2 * tile_bytes(a);
    e = reinterpret_cast<Real *>(to) + lane_id();
    index = reinterpret_cast<TileIndex *>(to + e_bytes(a));
#pragma unroll
    for (int k = 0; k < K; k++) mask[k] = 0;
  }
  __device__ __forceinline__ void end_tile(int first, int steps) {
    send(first, steps);
    make_index(*index, mask, s.lane, s.lanes);
  }
  __device__ __forceinline__ void take(int u, const Real (&of)[K], Real up) {
#pragma unroll
    for (int k = 0; k < K; k++) {
      e[u * Tile::pitch + k * warp] = of[k];
      mask[k] |= static_cast<unsigned>(of[k] > 0) << u;
    }
    if (s.lane == 0) leaving[u] = up;
  }
  __device__ __forceinline__ void pass(int first, int steps) {
    for (int u = s.lane; u < steps; u += s.lanes) leaving[u] = 0;
    send(first, steps);
    __syncwarp();
  }
  __device__ __forceinline__ void finish() const {}

  // By the spenders: the gradients of a tile, if there is one. progress is 2^30 less the first tile whose gradients are
  // complete.
  struct Spender {
    const Args &a;
    const View &s;
    unsigned char *memory;
    Crew crew;

    __device__ __forceinline__ Spender(const Args &args, const View &view, unsigned char *from, int thread, int threads)
        : a(args), s(view), memory(from), crew{thread, threads} {}

    __device__ __forceinline__ int *progress(int strip) const { return a.progress + s.pair.index * a.strips + strip; }

    __device__ __forceinline__ void spend(int tile, int first) const {
      if (tile < 0) return;
      unsigned char *from = memory + tile % 2 * tile_bytes(a);
      const Tile e{reinterpret_cast<const Real *>(from), reinterpret_cast<const TileIndex *>(from + e_bytes(a)), first,
                   a.tile_steps};
      Gradients<Real>{a, e, crew, s}.spend([&] {
        if (s.last || a.lanes < warp) return;
        const int *below = progress(s.index + 1);
        const int needed = (1 << 30) - max(first - (warp - 1), 0) / a.tile_steps;
        while (load_relaxed(below) < needed) continue;
        load_acquire(below);
      });
    }
    // All tiles from `done` on are complete.
    __device__ __forceinline__ void publish(int done) const {
      if (a.dense.data || !a.grad_y.data || s.index == 0) return;
      crew.meet();
      if (crew.thread == 0) store_release(progress(s.index), (1 << 30) - done);
    }
  };
};

}  // namespace sdtw::cuda
