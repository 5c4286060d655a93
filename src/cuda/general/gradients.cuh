// What becomes of half a tile of E, by warps of their own: dense outputs, or sums of gradients. E is in few cells as a
// rule, around the likely paths, and the sweep tells in which steps a lane has any. What a lane's rows get from their
// steps, and what a column gets from its rows, is summed up by one thread for each feature, straight from the points in
// global memory; strips add to the columns of a pair one after the other. So results are the same in every run.
#pragma once

#include "cuda/general/costs.cuh"

namespace sdtw::cuda::general {

// Weights that are nothing: FloatCell leaves 2^-100 where a neighbour is forbidden.
__device__ __forceinline__ bool is_nothing(float w) { return fabsf(w) < 1e-25f; }
__device__ __forceinline__ bool is_nothing(double w) { return w == 0; }

// Adds to an element that others add to before and after, though never at the same time. By an atomic whose result is
// not used, so the thread does not wait for it.
template <class Real>
__device__ __forceinline__ void add_to(const Target &t, int64_t at, Real v) {
  if (v == 0) return;
  if (t.dtype == SDTW_F64)
    atomicAdd(static_cast<double *>(t.data) + at, static_cast<double>(v));
  else
    atomicAdd(static_cast<float *>(t.data) + at, static_cast<float>(v));
}

// A series as gradients read it: `own` features of a point. Addresses and distances are in bytes. In: its type, or Any.
struct Any {};
template <class In, int own>
struct PointsOf {
  const char *data;
  int64_t of_point, of_feature;
  int64_t offset[own];  // of the thread's features
  sdtw_dtype dtype;

  __device__ __forceinline__ PointsOf(const Series &series, int64_t number) : dtype(series.dtype) {
    const int64_t size = dtype == SDTW_F64 ? 8 : dtype == SDTW_F32 ? 4 : 2;
    data = static_cast<const char *>(series.data) + (series.data ? number * series.stride[0] * size : 0);
    of_point = series.stride[1] * size, of_feature = series.stride[2] * size;
  }
  __device__ __forceinline__ void choose(int first, int apart) {
#pragma unroll
    for (int i = 0; i < own; i++) offset[i] = (first + i * apart) * of_feature;
  }
  __device__ __forceinline__ const char *at(int point) const { return data + point * of_point; }
  template <class Real>
  __device__ __forceinline__ Real load(const char *point, int i, bool there) const {
    if (!there) return 0;
    if constexpr (std::is_same_v<In, Any>)
      return element<Real>(point + offset[i], 0, dtype);
    else
      return static_cast<Real>(*reinterpret_cast<const In *>(point + offset[i]));
  }
};

template <class Cell, bool tangents, int T>
struct Gradients {
  using Real = typename Cell::Real;
  static constexpr int threads = gradient_warps<tangents> * warp;
  static constexpr int warps = gradient_warps<tangents> / 2;  // that add to rows, and as many that add to columns

  const Args &a;
  const Task &s;
  const Block &block;
  Planes<Cell, tangents, T> tile;
  const unsigned *live;  // of each lane, bits of the steps in which it has any E

  // The tile's E, or its derivative, into the dense output.
  __device__ __forceinline__ void put_dense(int first_step, int thread) const {
    const Real *from = tile.plane(tangents ? transitions : 0);
    double factor = 1;
    if (a.scale_dense && a.grad_value)
      factor = a.f64_values ? static_cast<const double *>(a.grad_value)[s.index.pair]
                            : static_cast<const float *>(a.grad_value)[s.index.pair];
    for (int i = thread; i < strip_rows * T; i += threads) {
      const int row = i / T, u = i % T, column = first_step + u - row / K;
      if (column < block.first[row] || column >= block.end[row]) continue;
      const Real w = from[u * pitch + row];
      const double v = is_nothing(w) ? 0.0 : factor * static_cast<double>(w);
      const auto put = [&](int64_t pair, int64_t i, int64_t j) {
        put_element(a.dense.data, pair * a.dense.stride[0] + i * a.dense.stride[1] + j * a.dense.stride[2],
                    a.dense.dtype, v);
      };
      put(s.index.pair, s.row + row, column);
      if (a.symmetric && s.index.x != s.index.y) put(s.index.y * a.batch_y + s.index.x, column, s.row + row);
    }
  }

  // What is summed up: w direction(x - y), and d times the difference of the tangents if given, times a factor.
  struct Sum {
    const Real *w, *d;
    Real factor;
    Target to_x, to_y;
  };

  // A thread's features of a point: `own` of them, `apart` apart, of [0, features).
  template <class In, bool with_directions, int own>
  struct Worker {
    const Gradients &g;
    const Sum &sum;
    PointsOf<In, own> x, y, dx, dy;
    int apart, place, first;  // place: the thread's among those that share a point
    int point, points;        // which of the warp's points at a time is the thread's, and of how many
    bool has[own];            // there are so many features
    bool absolute;            // the metric is cityblock

    __device__ __forceinline__ Worker(const Gradients &of, const Sum &what)
        : g(of),
          sum(what),
          x(of.a.x, of.s.index.x),
          y(of.a.y, of.s.index.y),
          dx(of.a.tangent_x, of.s.index.x),
          dy(of.a.tangent_y, of.s.index.y),
          absolute(of.a.metric == SDTW_CITYBLOCK) {
      apart = g.a.features > warp / 2 ? warp : g.a.features > 1 ? 2 << (31 - __clz(g.a.features - 1)) : 1;
      place = lane_id() & (apart - 1), point = lane_id() / apart, points = warp / apart;
    }
    __device__ __forceinline__ void choose(int from) {
      first = from + place;
      x.choose(first, apart), y.choose(first, apart);
      if constexpr (with_directions) dx.choose(first, apart), dy.choose(first, apart);
#pragma unroll
      for (int i = 0; i < own; i++) has[i] = first + i * apart < g.a.features;
    }

    struct Features {
      Real v[own], along[own];
    };
    // What there is of a point at two addresses; zeros if it is not there.
    __device__ __forceinline__ Features load(const PointsOf<In, own> &of, const char *at,
                                             [[maybe_unused]] const PointsOf<In, own> &along,
                                             [[maybe_unused]] const char *tangent, bool there) const {
      Features p{};
#pragma unroll
      for (int i = 0; i < own; i++) {
        p.v[i] = of.template load<Real>(at, i, there && has[i]);
        if constexpr (with_directions)
          p.along[i] = along.template load<Real>(tangent, i, there && has[i] && along.data);
      }
      return p;
    }
    // Adds what a cell's weights make of the points here and there.
    __device__ __forceinline__ void add(Real w, Real d, const Features &here, const Features &there,
                                        Real (&to)[own]) const {
      const bool any = !is_nothing(w), more = with_directions && !is_nothing(d);
#pragma unroll
      for (int i = 0; i < own; i++) {
        const Real difference = here.v[i] - there.v[i];
        const Real direction = absolute ? core::CityBlock::direction(difference) : difference;
        to[i] = any ? fma(w, direction, to[i]) : to[i];
        if constexpr (with_directions) to[i] = more ? fma(d, here.along[i] - there.along[i], to[i]) : to[i];
      }
    }
    __device__ __forceinline__ void put(const Target &to, int at, const Real (&v)[own]) const {
      const int64_t row = g.s.local * to.stride[0] + at * to.stride[1];
#pragma unroll
      for (int i = 0; i < own; i++) {
        if (has[i]) add_to(to, row + (first + i * apart) * to.stride[2], sum.factor * v[i]);
      }
    }
    static __device__ __forceinline__ Rows<Real> weights(const Real *plane, int u, int lane) {
      return *reinterpret_cast<const Rows<Real> *>(plane + u * pitch + lane * K);
    }

    // The rows of a lane.
    __device__ __forceinline__ void to_x(int lane, unsigned steps, int first_step) const {
      const int row = g.s.row + lane * K, before = first_step - lane;  // the column of step 0
      const int begin = max(__ffs(steps) - 1, -before), end = min(warp - __clz(steps), g.s.m - before);
      Features here[K];
      Real v[K][own];
#pragma unroll
      for (int k = 0; k < K; k++) {
        here[k] = load(x, x.at(row + k), dx, dx.at(row + k), row + k < g.s.n);
#pragma unroll
        for (int i = 0; i < own; i++) v[k][i] = 0;
      }
      const char *at = y.at(first_step + begin - lane), *tangent = dy.at(first_step + begin - lane);
#pragma unroll 2
      for (int u = begin; u < end; u++, at += y.of_point, tangent += dy.of_point) {
        const Features there = load(y, at, dy, tangent, true);
        const Rows<Real> w = weights(sum.w, u, lane);
        Rows<Real> d{};
        if (with_directions && sum.d) d = weights(sum.d, u, lane);
#pragma unroll
        for (int k = 0; k < K; k++) add(w.v[k], d.v[k], here[k], there, v[k]);
      }
#pragma unroll
      for (int k = 0; k < K; k++)
        if (row + k < g.s.n) put(sum.to_x, row + k, v[k]);
    }
    // A column. lanes: bits of those that have any E in it.
    __device__ __forceinline__ void to_y(int column, unsigned lanes, int first_step) const {
      const Features here = load(y, y.at(column), dy, dy.at(column), true);
      const int begin = __ffs(lanes) - 1, end = warp - __clz(lanes);
      Real v[own] = {};
      int row = g.s.row + begin * K;
      const char *at = x.at(row), *tangent = dx.at(row);
#pragma unroll 2
      for (int lane = begin; lane < end; lane++) {
        const int u = column - first_step + lane;
        Features there[K];
#pragma unroll
        for (int k = 0; k < K; k++, row++, at += x.of_point, tangent += dx.of_point)
          there[k] = load(x, at, dx, tangent, row < g.s.n);
        const Rows<Real> w = weights(sum.w, u, lane);
        Rows<Real> d{};
        if (with_directions && sum.d) d = weights(sum.d, u, lane);
#pragma unroll
        for (int k = 0; k < K; k++) add(w.v[k], d.v[k], here, there[k], v);
      }
      put(sum.to_y, column, v);
    }

    // All lanes, or all columns. number: of the warp.
    __device__ __forceinline__ void rows(int number, int first_step) {
      for (int lane = number * points + point; lane < warp; lane += warps * points) {
        const unsigned steps = g.live[lane];
        if (steps == 0) continue;
        for (int from = 0; from < g.a.features; from += own * apart) choose(from), to_x(lane, steps, first_step);
      }
    }
    __device__ __forceinline__ void columns(int number, int first_step) {
      constexpr int count = T + warp - 1;
      const unsigned steps = g.live[lane_id()];
      for (int base = number * points; base < count; base += warps * points) {
        unsigned lanes = 0;
        for (int i = 0; i < points; i++) {
          const int u = base + i - (warp - 1) + lane_id();
          const unsigned any = __ballot_sync(all_lanes, u >= 0 && u < T && (steps >> u & 1) != 0);
          lanes = i == point ? any : lanes;
        }
        // Outside of the pair there is E only where the lengths are not those of forward.
        const int column = first_step - (warp - 1) + base + point;
        if (lanes == 0 || column < 0 || column >= g.s.m) continue;
        for (int from = 0; from < g.a.features; from += own * apart) choose(from), to_y(column, lanes, first_step);
      }
    }
  };

  // Calls visit with the workers of one sum: for the types that most calls have (float64 are normalised points, too),
  // or for any.
  template <bool with_directions, class Visit>
  __device__ __forceinline__ void with_worker(const Sum &sum, const Visit &visit) const {
    constexpr int most = Cell::wide ? 1 : 3;
    const auto work = [&](auto worker) { visit(worker); };
    const auto typed = [&](auto in) {
      if (most == 1 || a.features <= warp)
        work(Worker<decltype(in), with_directions, 1>(*this, sum));
      else if (sizeof in == 4 && a.features <= 2 * warp)
        work(Worker < decltype(in), with_directions, most == 1 ? 1 : 2 > (*this, sum));
      else
        work(Worker<decltype(in), with_directions, most>(*this, sum));
    };
    if (a.x.dtype == SDTW_F32)
      typed(0.0f);
    else if (a.x.dtype == SDTW_F64)
      typed(0.0);
    else
      work(Worker<Any, with_directions, most>(*this, sum));
  }
  template <class Visit>
  __device__ __forceinline__ void visit_sums(const Visit &visit) const {
    const Real factor = a.metric == SDTW_SQEUCLIDEAN ? 2 : 1;
    if constexpr (tangents) {
      // The slopes of cityblock do not change.
      with_worker<true>(
          {tile.plane(transitions), a.metric == SDTW_CITYBLOCK ? nullptr : tile.plane(0), factor, a.turn_x, a.turn_y},
          visit);
      if (a.metric != SDTW_COSINE) return;  // which needs the gradient for its projection
    }
    with_worker<false>({tile.plane(0), nullptr, factor, a.sum_x, a.sum_y}, visit);
  }

  // The sums over half a tile, by a warp of those that do so. Rows are the strip's own. Columns are added to in order:
  // strips below have done so before.
  __device__ __forceinline__ void add_rows(int number, int first_step) const {
    visit_sums([&](auto &worker) {
      if (worker.sum.to_x.data) worker.rows(number, first_step);
    });
  }
  __device__ __forceinline__ void add_columns(int number, int first_step) const {
    visit_sums([&](auto &worker) {
      if (worker.sum.to_y.data) worker.columns(number, first_step);
    });
  }
};

}  // namespace sdtw::cuda::general
