// Where the costs of a strip come from. A source stages what `steps` steps need in shared memory, by all threads of a
// group, and gives the sweeping warp the costs of its lanes' rows step by step.
#pragma once

#include <cuda_pipeline.h>

#include <type_traits>

#include "pair.cuh"

namespace sdtw::cuda {

__device__ inline int clamp(int i, int size) { return min(max(i, 0), size - 1); }

// Squared differences of up to D features, taken by the sweeping warp itself: x in registers, y in shared memory.
// Real = double where float32 is not enough for the costs of a pair of float32 series.
template <int K_, int D, class Real>
struct InlineSource {
  static constexpr int K = K_;
  static constexpr int block_steps = 16;  // of forward
  static constexpr int helpers = 1;       // warps of forward that stage
  static constexpr int inline_features = D;
  static constexpr int max_threads = 6 * warp;                  // of backward
  static constexpr int resident = D <= 2 ? 8 : D <= 4 ? 7 : 5;  // blocks of forward that registers must leave room for
  static constexpr bool checks = false;

  static __host__ __device__ size_t bytes(int steps) { return sizeof(Real) * D * (steps + warp); }
  static __host__ __device__ size_t scratch_bytes(const Args &, int, bool) { return 0; }

  Real x[K][D];

  __device__ __forceinline__ void begin(const Args &a, const StripView &s, int lane) {
#pragma unroll
    for (int k = 0; k < K; k++) {
      const int64_t row = min(s.row + lane * K + k, s.pair.n - 1);
      const int64_t at = s.pair.index * a.x.stride[0] + row * a.x.stride[1];
#pragma unroll
      for (int f = 0; f < D; f++) x[k][f] = f < a.features ? load<float>(a.x.data, at + f * a.x.stride[2], false) : 0;
    }
  }

  template <class Meet>
  __device__ static void stage(const Args &a, const StripView &s, int step, int steps, unsigned char *to,
                               unsigned char *, int thread, int threads, bool, bool, int, Meet) {
    Real *y = reinterpret_cast<Real *>(to);
    const int64_t base = s.pair.index * a.y.stride[0];
    for (int i = thread; i < steps + warp - 1; i += threads) {
      const int64_t at = base + clamp(step + i - (warp - 1), s.pair.m) * a.y.stride[1];
#pragma unroll
      for (int f = 0; f < D; f++)
        y[f * (steps + warp) + i] = f < a.features ? load<float>(a.y.data, at + f * a.y.stride[2], false) : 0;
    }
  }

  __device__ __forceinline__ void costs(const unsigned char *from, int u, int steps, int lane, const Fast::Scale &scale,
                                        Fast::Cost (&cost)[K]) const {
    const Real *y = reinterpret_cast<const Real *>(from) + u - lane + warp - 1;
    Real sum[K] = {};
#pragma unroll
    for (int f = 0; f < D; f++) {
      const Real yf = y[f * (steps + warp)];
#pragma unroll
      for (int k = 0; k < K; k++) {
        const Real difference = x[k][f] - yf;
        sum[k] = fma(difference, difference, sum[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < K; k++) cost[k] = Fast::split(sum[k], scale);
  }
};

// A tile of costs in shared memory, [K][32 lanes][steps + 1], from which the sweeping warp reads by step. Element is a
// cost, or a cost that is split already.
template <class Cell, int K_, class Element_>
struct TileSource {
  using Element = Element_;
  static constexpr int K = K_;
  static constexpr int block_steps = 32;
  static constexpr int helpers = 4;
  static constexpr int inline_features = 0;
  static constexpr int max_threads = 8 * warp;  // of backward
  static constexpr bool checks = false;

  static __host__ __device__ size_t bytes(int steps) {
    return (sizeof(Element) * K * warp * (steps + 1) + 15) / 16 * 16;
  }

  __device__ void begin(const Args &, const StripView &, int) {}

  __device__ __forceinline__ void costs(const unsigned char *from, int u, int steps, int lane,
                                        const typename Cell::Scale &scale, typename Cell::Cost (&cost)[K]) const {
    const Element *tile = reinterpret_cast<const Element *>(from) + lane * (steps + 1) + u;
#pragma unroll
    for (int k = 0; k < K; k++) {
      const Element element = tile[k * warp * (steps + 1)];
      if constexpr (sizeof(Element) == sizeof(typename Cell::Real) && !std::is_class_v<Element>)
        cost[k] = Cell::split(element, scale);
      else
        cost[k] = element;
    }
  }
};

// Copies one element, or converts it where the problem is float32 and Real is double. Wait with __pipeline_wait_prior.
template <class Real>
__device__ __forceinline__ void fetch(Real *to, const void *from, int64_t i, bool f64) {
  if (sizeof(Real) == 4 || f64)
    __pipeline_memcpy_async(to, static_cast<const Real *>(from) + i, sizeof(Real));
  else
    *to = load<Real>(from, i, false);
}

// Given costs. The fast engine looks at each, since some may be more than it can take.
template <class Cell, int K>
struct CopySource : TileSource<Cell, K, typename Cell::Real> {
  using Real = typename Cell::Real;
  static constexpr int resident = Cell::wide ? 2 : 4;
  static constexpr bool checks = !Cell::wide;

  static __host__ __device__ size_t scratch_bytes(const Args &, int, bool) { return 0; }

  __device__ __forceinline__ bool exceeds(const unsigned char *from, int u, int steps, int lane, float limit) const {
    const Real *tile = reinterpret_cast<const Real *>(from) + lane * (steps + 1) + u;
    bool any = false;
#pragma unroll
    for (int k = 0; k < K; k++) any |= !(fabsf(tile[k * warp * (steps + 1)]) <= limit);
    return any;
  }

  template <class Meet>
  __device__ static void stage(const Args &a, const StripView &s, int step, int steps, unsigned char *to,
                               unsigned char *, int thread, int threads, bool, bool, int, Meet) {
    Real *tile = reinterpret_cast<Real *>(to);
    const int64_t base = s.pair.index * a.x.stride[0];
    for (int u = thread % warp; u < steps; u += warp) {
#pragma unroll 8
      for (int r = thread / warp; r < K * warp; r += threads / warp) {
        const int k = r / warp, lane = r % warp;
        const int64_t row = clamp(s.row + lane * K + k, s.pair.n), column = clamp(step + u - lane, s.pair.m);
        fetch(tile + r * (steps + 1) + u, a.x.data, base + row * a.x.stride[1] + column * a.x.stride[2], a.f64);
      }
    }
    __pipeline_commit();
    __pipeline_wait_prior(0);
  }
};

// Squared differences of any number of features, which come by in chunks of up to 256 bytes. Rows of scratch are
// features and 16 bytes more, an odd multiple of 16 bytes, so that 16-byte accesses of 8 lanes meet no bank twice.
template <class Cell, class Real>
using ComputedElement = std::conditional_t<sizeof(Real) == sizeof(typename Cell::Real), Real, typename Cell::Cost>;

template <class Cell, int K, class Real, class Stored>
struct ComputeSource : TileSource<Cell, K, ComputedElement<Cell, Real>> {
  using Element = ComputedElement<Cell, Real>;
  static constexpr int resident = 1;
  static constexpr int vector = 16 / sizeof(Stored);
  static constexpr int max_chunk = 256 / sizeof(Stored);
  static constexpr int columns = 8;  // of one thread
  static constexpr int group = 2 * vector;

  static __host__ __device__ int chunk(const Args &a) {
    const int whole = (a.features + 2 * vector - 1) / (2 * vector) * (2 * vector);
    return whole < max_chunk ? whole : max_chunk;
  }
  static __host__ __device__ int pitch(const Args &a) { return chunk(a) + vector; }
  // x of the strip, and y of `steps` steps; with ahead also y of the next block, on its way while one is used.
  static __host__ __device__ size_t scratch_bytes(const Args &a, int steps, bool ahead) {
    return sizeof(Stored) * pitch(a) * (K * warp + (ahead ? 2 : 1) * (steps + warp));
  }

  // x_there: a call before, for the same strip, has left x. y_there: the last call has fetched y, being told to by its
  // next >= 0.
  template <class Meet>
  __device__ static void stage(const Args &a, const StripView &s, int step, int steps, unsigned char *to,
                               unsigned char *scratch, int thread, int threads, bool x_there, bool y_there, int next,
                               Meet meet) {
    const int size = chunk(a), row = pitch(a), lane = thread % warp, first = thread / warp * columns;
    const bool whole = size >= a.features;
    Stored *xs = reinterpret_cast<Stored *>(scratch), *ys = xs + K * warp * row;
    Stored *ahead = ys + (steps + warp) * row;
    if ((next >= 0 || y_there) && step / steps % 2 == 1) {
      Stored *other = ys;
      ys = ahead;
      ahead = other;
    }
    Real sum[K][columns] = {};
    for (int f0 = 0; f0 < a.features; f0 += size) {
      if (!(y_there && whole)) {
        meet();
        if (!(x_there && whole))
          fetch_rows(a, a.x, s.pair.index, f0, xs, K * warp, thread, threads,
                     [&](int r) { return clamp(s.row + r % warp * K + r / warp, s.pair.n); });
        fetch_y(a, s, step, steps, f0, ys, thread, threads);
      }
      __pipeline_wait_prior(0);
      meet();
      if (whole && next >= 0) fetch_y(a, s, next, steps, 0, ahead, thread, threads);
      if (first < steps) add(xs, ys, row, min(size, a.features - f0), lane, first, sum);
    }
    if (first >= steps) return;
    Element *tile = reinterpret_cast<Element *>(to) + lane * (steps + 1) + first;
    const typename Cell::Scale scale(a.scale);
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
      for (int c = 0; c < columns; c++)
        if constexpr (std::is_class_v<Element>)
          tile[k * warp * (steps + 1) + c] = Cell::split(sum[k][c], scale);
        else
          tile[k * warp * (steps + 1) + c] = sum[k][c];
  }

 private:
  // 16 bytes of features.
  struct alignas(16) Features {
    Stored v[vector];
  };

  // Adds the features in scratch to the costs of a lane's K rows at 8 steps, a few at a time: the rounding of a long
  // sum is that of its groups.
  __device__ __forceinline__ static void add(const Stored *xs, const Stored *ys, int pitch, int features, int lane,
                                             int first, Real (&sum)[K][columns]) {
    for (int f = 0; f < features; f += group) {
      Real part[K][columns] = {};
#pragma unroll
      for (int v = 0; v < group; v += vector) {
        Features x[K];
#pragma unroll
        for (int k = 0; k < K; k++) x[k] = *reinterpret_cast<const Features *>(xs + (k * warp + lane) * pitch + f + v);
#pragma unroll
        for (int c = 0; c < columns; c++) {
          const Features y = *reinterpret_cast<const Features *>(ys + (first + c - lane + warp - 1) * pitch + f + v);
#pragma unroll
          for (int i = 0; i < vector; i++)
#pragma unroll
            for (int k = 0; k < K; k++) {
              const Real difference = static_cast<Real>(x[k].v[i]) - static_cast<Real>(y.v[i]);
              part[k][c] = fma(difference, difference, part[k][c]);
            }
        }
      }
#pragma unroll
      for (int k = 0; k < K; k++)
#pragma unroll
        for (int c = 0; c < columns; c++) sum[k][c] += part[k][c];
    }
  }

  __device__ static void fetch_y(const Args &a, const StripView &s, int step, int steps, int f0, Stored *to, int thread,
                                 int threads) {
    fetch_rows(a, a.y, s.pair.index, f0, to, steps + warp - 1, thread, threads,
               [&](int r) { return clamp(step + r - (warp - 1), s.pair.m); });
  }

  // Rows of a series, features [f0, f0 + chunk), zero beyond the last. A warp takes a row at a time.
  template <class Row>
  __device__ __forceinline__ static void fetch_rows(const Args &a, const sdtw_in &series, int64_t b, int f0, Stored *to,
                                                    int rows, int thread, int threads, Row row) {
    const int size = chunk(a), width = pitch(a);
    const int64_t base = b * series.stride[0] + f0 * series.stride[2];
    for (int f = thread % warp; f < size; f += warp) {
#pragma unroll 4
      for (int r = thread / warp; r < rows; r += threads / warp) {
        if (f0 + f < a.features)
          fetch(to + r * width + f, series.data, base + row(r) * series.stride[1] + f * series.stride[2], a.f64);
        else
          to[r * width + f] = 0;
      }
    }
    __pipeline_commit();
  }
};

}  // namespace sdtw::cuda
