// What becomes of a tile of E: the gradients of x and y, or a matrix of one element a cell.
#pragma once

#include "source.cuh"

namespace sdtw::cuda {

// E of a tile in shared memory, [steps][K][32 lanes] with one element of padding a step.
template <class Real, int K>
struct TileOfE {
  static constexpr int pitch = K * warp + 1;

  const Real *e;
  int step, steps;  // its first, and how many
  const StripView &s;

  __device__ Real at(int u, int k, int lane) const { return e[u * pitch + k * warp + lane]; }
  __device__ int column(int u, int lane) const { return step + u - lane; }
  __device__ bool inside(int u, int lane) const { return column(u, lane) >= 0 && column(u, lane) < s.pair.m; }
};

// Threads that work together, and meet at a barrier of their own.
struct Crew {
  int thread, count;
  __device__ void meet() const { barrier(2, count); }
};

template <class Real>
__device__ inline Real upstream(const Args &a, int64_t pair) {
  if (!a.grad_value) return 1;
  return a.f64 ? static_cast<Real>(static_cast<const double *>(a.grad_value)[pair])
               : static_cast<Real>(static_cast<const float *>(a.grad_value)[pair]);
}

template <class Real, int K>
__device__ void write_dense(const Args &a, const TileOfE<Real, K> &tile, const Crew &crew) {
  const StripView &s = tile.s;
  const Real scale = a.scale_dense ? upstream<Real>(a, s.pair.index) : Real(1);
  const int64_t base = s.pair.index * a.dense.stride[0];
  for (int r = crew.thread / warp; r < K * warp; r += crew.count / warp) {
    const int k = r / warp, lane = r % warp, row = s.row + lane * K + k;
    if (row >= s.pair.n) continue;
    for (int u = crew.thread % warp; u < tile.steps; u += warp)
      if (tile.inside(u, lane))
        store(a.dense.data, base + row * a.dense.stride[1] + tile.column(u, lane) * a.dense.stride[2], a.f64,
              scale * tile.at(u, k, lane));
  }
}

// Gradients of the squared Euclidean distance: grad_x_i += 2 g sum_j E_ij (x_i - y_j), and the same with x and y
// exchanged. Differences are taken as they are: the usual split into sums of E y and of E cancels where x is near y.
template <class Real, int K>
struct Gradients {
  const Args &a;
  const TileOfE<Real, K> &tile;
  const Crew &crew;
  const StripView &s;

  __device__ Real x(int row, int f) const { return element(a.x, row, f); }
  __device__ Real y(int column, int f) const { return element(a.y, column, f); }
  __device__ Real element(const sdtw_in &series, int i, int f) const {
    return load<Real>(series.data, s.pair.index * series.stride[0] + i * series.stride[1] + f * series.stride[2],
                      a.f64);
  }
  __device__ void add(const sdtw_out &out, int i, int f, Real value) const {
    accumulate(out.data, s.pair.index * out.stride[0] + i * out.stride[1] + f * out.stride[2], a.f64, value);
  }
};

// Up to D features: every cell of the tile, a row or a column a thread. Both series lie in scratch, feature by feature.
template <class Real, int K, int D>
struct DenseGradients : Gradients<Real, K> {
  using Base = Gradients<Real, K>;
  static __host__ __device__ size_t scratch_bytes(int steps) { return sizeof(Real) * D * (K * warp + steps + warp); }

  Real *xs, *ys;

  __device__ DenseGradients(const Base &base, unsigned char *scratch) : Base(base) {
    xs = reinterpret_cast<Real *>(scratch);
    ys = xs + D * K * warp;
  }

  __device__ int y_pitch() const { return this->a.tile_steps + warp; }

  __device__ void stage() const {
    const StripView &s = this->s;
    for (int i = this->crew.thread; i < K * warp; i += this->crew.count)
#pragma unroll
      for (int f = 0; f < D; f++)
        xs[f * K * warp + i] = f < this->a.features ? this->x(clamp(s.row + i, s.pair.n), f) : 0;
    for (int i = this->crew.thread; i < this->tile.steps + warp - 1; i += this->crew.count)
#pragma unroll
      for (int f = 0; f < D; f++)
        ys[f * y_pitch() + i] =
            f < this->a.features ? this->y(clamp(this->tile.step + i - (warp - 1), s.pair.m), f) : 0;
  }

  __device__ void to_x(Real g) const {
    const int lane = this->crew.thread % warp;
    for (int k = this->crew.thread / warp; k < K; k += this->crew.count / warp) {
      const int i = lane * K + k;
      Real x[D], sum[D] = {};
#pragma unroll
      for (int f = 0; f < D; f++) x[f] = xs[f * K * warp + i];
#pragma unroll 8
      for (int u = 0; u < this->tile.steps; u++) {
        const Real e = this->tile.at(u, k, lane);
#pragma unroll
        for (int f = 0; f < D; f++) sum[f] = fma(e, x[f] - ys[f * y_pitch() + u - lane + warp - 1], sum[f]);
      }
      if (this->s.row + i >= this->s.pair.n) continue;
#pragma unroll
      for (int f = 0; f < D; f++)
        if (f < this->a.features) this->add(this->a.grad_x, this->s.row + i, f, g * sum[f]);
    }
  }

  __device__ void to_y(Real g) const {
    for (int i = this->crew.thread; i < this->tile.steps + warp - 1; i += this->crew.count) {
      // Lane l meets this column in step i - 31 + l.
      const int first = max(0, warp - 1 - i), end = min(warp, this->tile.steps + warp - 1 - i);
      Real y[D], sum[D] = {};
#pragma unroll
      for (int f = 0; f < D; f++) y[f] = ys[f * y_pitch() + i];
#pragma unroll 4
      for (int lane = first; lane < end; lane++)
#pragma unroll
        for (int k = 0; k < K; k++) {
          const Real e = this->tile.at(i - (warp - 1) + lane, k, lane);
#pragma unroll
          for (int f = 0; f < D; f++) sum[f] = fma(e, y[f] - xs[f * K * warp + lane * K + k], sum[f]);
        }
      const int column = this->tile.step + i - (warp - 1);
      if (column < 0 || column >= this->s.pair.m) continue;
#pragma unroll
      for (int f = 0; f < D; f++)
        if (f < this->a.features) this->add(this->a.grad_y, column, f, g * sum[f]);
    }
  }
};

// Any number of features: a row or a column a warp, a feature a lane, and only the cells that E reaches.
template <class Real, int K>
struct SparseGradients : Gradients<Real, K> {
  using Base = Gradients<Real, K>;
  static __host__ __device__ size_t scratch_bytes(int) { return 0; }
  static constexpr int per_lane = 2;  // features at a time

  __device__ SparseGradients(const Base &base, unsigned char *) : Base(base) {}
  __device__ void stage() const {}

  // Adds E_k (own - other_k) over the set cells: bit i of cells has its E in lane i of e, and is other's element at(i).
  template <class At>
  __device__ __forceinline__ void gather(unsigned cells, Real e, const sdtw_in &other, int f,
                                         const Real (&own)[per_lane], Real (&sum)[per_lane], At at) const {
    const int64_t base = this->s.pair.index * other.stride[0] + f * other.stride[2];
    while (cells) {
      const int i = __ffs(cells) - 1;
      cells &= cells - 1;
      const Real ei = __shfl_sync(all_lanes, e, i);
      const int64_t from = base + at(i) * other.stride[1];
#pragma unroll
      for (int j = 0; j < per_lane; j++)
        if (f + j * warp < this->a.features)
          sum[j] = fma(ei, own[j] - load<Real>(other.data, from + j * warp * other.stride[2], this->a.f64), sum[j]);
    }
  }

  __device__ void to_x(Real g) const {
    const int own = this->crew.thread % warp;
    for (int r = this->crew.thread / warp; r < K * warp; r += this->crew.count / warp) {
      const int k = r / warp, lane = r % warp, row = this->s.row + lane * K + k;
      if (row >= this->s.pair.n) continue;
      constexpr int parts = 2;  // of up to 64 steps
      Real e[parts];
      unsigned cells[parts];
#pragma unroll
      for (int part = 0; part < parts; part++) {
        const int u = part * warp + own;
        e[part] = u < this->tile.steps && this->tile.inside(u, lane) ? this->tile.at(u, k, lane) : 0;
        cells[part] = __ballot_sync(all_lanes, e[part] > 0);
      }
      if (!(cells[0] | cells[1])) continue;
      for (int f0 = 0; f0 < this->a.features; f0 += per_lane * warp) {
        const int f = f0 + own;
        Real x[per_lane], sum[per_lane] = {};
#pragma unroll
        for (int j = 0; j < per_lane; j++) x[j] = f + j * warp < this->a.features ? this->x(row, f + j * warp) : 0;
#pragma unroll
        for (int part = 0; part < parts; part++)
          gather(cells[part], e[part], this->a.y, f, x, sum,
                 [&](int i) { return this->tile.column(part * warp + i, lane); });
#pragma unroll
        for (int j = 0; j < per_lane; j++)
          if (f + j * warp < this->a.features) this->add(this->a.grad_x, row, f + j * warp, g * sum[j]);
      }
    }
  }

  __device__ void to_y(Real g) const {
    const int own = this->crew.thread % warp;
    for (int i = this->crew.thread / warp; i < this->tile.steps + warp - 1; i += this->crew.count / warp) {
      const int column = this->tile.step + i - (warp - 1);
      if (column < 0 || column >= this->s.pair.m) continue;
      const int u = i - (warp - 1) + own;  // of lane `own`
      Real e[K];
      unsigned cells[K], any = 0;
#pragma unroll
      for (int k = 0; k < K; k++) {
        const bool there = u >= 0 && u < this->tile.steps && this->s.row + own * K + k < this->s.pair.n;
        e[k] = there ? this->tile.at(u, k, own) : 0;
        any |= cells[k] = __ballot_sync(all_lanes, e[k] > 0);
      }
      if (!any) continue;
      for (int f0 = 0; f0 < this->a.features; f0 += per_lane * warp) {
        const int f = f0 + own;
        Real y[per_lane], sum[per_lane] = {};
#pragma unroll
        for (int j = 0; j < per_lane; j++) y[j] = f + j * warp < this->a.features ? this->y(column, f + j * warp) : 0;
#pragma unroll
        for (int k = 0; k < K; k++)
          gather(cells[k], e[k], this->a.x, f, y, sum, [&](int lane) { return this->s.row + lane * K + k; });
#pragma unroll
        for (int j = 0; j < per_lane; j++)
          if (f + j * warp < this->a.features) this->add(this->a.grad_y, column, f + j * warp, g * sum[j]);
      }
    }
  }
};

template <class Real, int K, int D>
struct GradientsFor {
  using type = DenseGradients<Real, K, D>;
};
template <class Real, int K>
struct GradientsFor<Real, K, 0> {
  using type = SparseGradients<Real, K>;
};

// Adds the tile to what the caller wants. grad_y's columns are shared with the strip below, which goes first: `ready`
// waits for it. Within a strip, and from strip to strip, the order of additions is always the same.
template <class Real, int K, int D, class Ready>
__device__ __forceinline__ void spend(const Args &a, const TileOfE<Real, K> &tile, const Crew &crew,
                                      unsigned char *scratch, Ready ready) {
  if (a.dense.data) {
    write_dense(a, tile, crew);
    return;
  }
  const typename GradientsFor<Real, K, D>::type gradients({a, tile, crew, tile.s}, scratch);
  const Real g = 2 * upstream<Real>(a, tile.s.pair.index);
  gradients.stage();
  crew.meet();
  if (a.grad_x.data) gradients.to_x(g);
  if (a.grad_y.data) {
    if (crew.thread == 0) ready();
    crew.meet();
    gradients.to_y(g);
  }
}

}  // namespace sdtw::cuda
