// What becomes of half a tile of E, by warps of their own: dense outputs, or sums of gradients. E is in few cells as a
// rule, around the likely paths, and the sweep tells in which steps a lane has any. What a lane's rows get from their
// steps, and what a column gets from its rows, is summed up by one thread for each feature; strips add to the columns
// of a pair one after the other. So results are the same in every run.
#pragma once

#include "cuda/general/gradient_points.cuh"
#include "cuda/gradients/point_gradients.cuh"

namespace sdtw::cuda::general {

// Weights that are nothing: FloatCell leaves 2^-100 where a neighbour is forbidden.
template <class Cell>
__device__ __forceinline__ bool is_nothing(typename Cell::Real w) {
  if constexpr (Cell::soft && !Cell::wide)
    return fabsf(w) < 1e-25f;
  else
    return w == 0;
}

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

template <class Cell, bool tangents, int T>
struct Gradients {
  using Real = typename Cell::Real;
  static constexpr int threads = gradient_warps<Cell, tangents> * warp;
  static constexpr int warps = gradient_warps<Cell, tangents> / 2;  // that add to rows, and as many that add to columns

  const Args &a;
  const Task &s;
  const Block &block;
  Planes<Cell, tangents, T> tile;
  const unsigned *live;  // of each lane, bits of the steps in which it has any E
  GradientPoints<T, threads, tangents> points;

  // The tile's E, or its derivative, into the dense output.
  __device__ __forceinline__ void put_dense(int first_step, int thread) const {
    const Real *from = tile.plane(tangents ? transitions : 0);
    double factor = 1;
    if (a.scale_dense && a.grad_value)
      factor = a.f64_values ? static_cast<const double *>(a.grad_value)[s.index.pair]
                            : static_cast<const float *>(a.grad_value)[s.index.pair];
    const double nothing = factor - factor;  // 0, or NaN
    for (int i = thread; i < strip_rows * T; i += threads) {
      const int row = i / T, u = i % T, column = first_step + u - row / K;
      if (column < block.first[row] || column >= block.end[row]) continue;
      const Real w = from[u * pitch + row];
      const double v = is_nothing<Cell>(w) ? nothing : factor * static_cast<double>(w);
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

  // A thread's features of a point: `own` of them, `apart` apart, of those in shared memory, where points are In.
  template <class In, bool with_directions, int own, Differences differences>
  struct Worker {
    static constexpr bool projected = differences == Differences::none;
    using Number = std::conditional_t<projected, double, Real>;  // of coordinates and sums
    const Gradients &g;
    const Sum &sum;
    StagedPoints<In> from, along;  // the points; their tangents
    int features, apart, place;    // place: the thread's among those that share a point
    int point, points;             // which of the warp's points at a time is the thread's, and of how many
    int first, feature[own];
    bool signs;

    __device__ __forceinline__ Worker(const Gradients &of, const Sum &what)
        : g(of),
          sum(what),
          from(of.points, false),
          along(of.points, with_directions),
          features(of.points.count),
          signs(differences == Differences::signs ||
                (differences == Differences::either && of.a.metric == SDTW_CITYBLOCK)) {
      apart = features > warp / 2 ? warp : features > 1 ? 2 << (31 - __clz(features - 1)) : 1;
      place = lane_id() & (apart - 1), point = lane_id() / apart, points = warp / apart;
    }
    // In place of features that there are not others are read.
    __device__ __forceinline__ void choose(int begin) {
      first = begin + place;
#pragma unroll
      for (int i = 0; i < own; i++) feature[i] = min(first + i * apart, features - 1);
    }

    // Adds what the weights of the cell in row k of a lane make of points here and there, of which `at` and `other` are
    // the places in what was loaded.
    template <int points_here, int points_there>
    __device__ __forceinline__ void add(const Rows<Real> &w, const Rows<Real> &d, int k,
                                        const Number (&here)[own][points_here],
                                        const Number (&here_along)[own][points_here], int at,
                                        const Number (&there)[own][points_there],
                                        const Number (&there_along)[own][points_there], int other,
                                        Number (&to)[own]) const {
      const bool any = !is_nothing<Cell>(w.v[k]), more = with_directions && !is_nothing<Cell>(d.v[k]);
#pragma unroll
      for (int i = 0; i < own; i++) {
        if constexpr (projected) {
          to[i] = any ? fma(static_cast<double>(w.v[k]), -there[i][other], to[i]) : to[i];
        } else {
          const Real one = here[i][at], two = there[i][other];
          if (signs) {
            if (any && one > two) to[i] += w.v[k];
            if (any && one < two) to[i] -= w.v[k];
          } else {
            to[i] = any ? fma(w.v[k], one - two, to[i]) : to[i];
          }
          if constexpr (with_directions)
            to[i] = more ? fma(d.v[k], here_along[i][at] - there_along[i][other], to[i]) : to[i];
        }
      }
    }
    __device__ __forceinline__ void put(const Target &to, int at, const Number (&v)[own]) const {
      const int64_t row = g.s.local * to.stride[0] + at * to.stride[1];
#pragma unroll
      for (int i = 0; i < own; i++) {
        const int f = first + i * apart;
        if (f < features) add_to(to, row + (g.points.from + f) * to.stride[2], static_cast<Number>(sum.factor) * v[i]);
      }
    }
    static __device__ __forceinline__ Rows<Real> weights(const Real *plane, int u, int lane) {
      return *reinterpret_cast<const Rows<Real> *>(plane + u * pitch + lane * K);
    }

    // The rows of a lane.
    __device__ __forceinline__ void to_x(int lane, unsigned steps, int first_step) const {
      const int before = first_step - lane;  // the column of step 0
      const int begin = max(__ffs(steps) - 1, -before), end = min(warp - __clz(steps), g.s.m - before);
      Number here[own][K] = {}, here_along[own][K] = {}, v[K][own] = {};
      if constexpr (!projected) from.load_rows(here, lane, feature);
      if constexpr (with_directions) along.load_rows(here_along, lane, feature);
#pragma unroll 1
      for (int u = begin; u < end; u++) {
        Number there[own][1], there_along[own][1] = {};
        from.load_column(there, u - lane + warp - 1, feature);
        if constexpr (with_directions) along.load_column(there_along, u - lane + warp - 1, feature);
        const Rows<Real> w = weights(sum.w, u, lane);
        Rows<Real> d{};
        if (with_directions && sum.d) d = weights(sum.d, u, lane);
#pragma unroll
        for (int k = 0; k < K; k++) add(w, d, k, here, here_along, k, there, there_along, 0, v[k]);
      }
      const int row = g.s.row + lane * K;
#pragma unroll
      for (int k = 0; k < K; k++)
        if (row + k < g.s.n) put(sum.to_x, row + k, v[k]);
    }
    // A column, counted from the one that the last lane meets in the first step. lanes: bits of those that have any E
    // in it.
    __device__ __forceinline__ void to_y(int column, unsigned lanes, int first_step) const {
      const int begin = __ffs(lanes) - 1, end = warp - __clz(lanes), before = column - (warp - 1);
      Number here[own][1] = {}, here_along[own][1] = {}, v[own] = {};
      if constexpr (!projected) from.load_column(here, column, feature);
      if constexpr (with_directions) along.load_column(here_along, column, feature);
#pragma unroll 1
      for (int lane = begin; lane < end; lane++) {
        Number there[own][K], there_along[own][K] = {};
        from.load_rows(there, lane, feature);
        if constexpr (with_directions) along.load_rows(there_along, lane, feature);
        const Rows<Real> w = weights(sum.w, before + lane, lane);
        Rows<Real> d{};
        if (with_directions && sum.d) d = weights(sum.d, before + lane, lane);
#pragma unroll
        for (int k = 0; k < K; k++) add(w, d, k, here, here_along, 0, there, there_along, k, v);
      }
      put(sum.to_y, first_step + before, v);
    }

    // All lanes, or all columns. number: of the warp.
    __device__ __forceinline__ void rows(int number, int first_step) {
      for (int lane = number * points + point; lane < warp; lane += warps * points) {
        const unsigned steps = g.live[lane];
        if (steps == 0) continue;
        for (int f = 0; f < features; f += own * apart) choose(f), to_x(lane, steps, first_step);
      }
    }
    __device__ __forceinline__ void columns(int number, int first_step) {
      constexpr int count = T + warp - 1;
      // Of a lane: bits of the lanes that have any E in the column of its number, and in that 32 columns on.
      const uint64_t steps = static_cast<uint64_t>(g.live[lane_id()]) << (warp - 1 - lane_id());
      const unsigned early = transpose(static_cast<unsigned>(steps)),
                     late = transpose(static_cast<unsigned>(steps >> warp));
      for (int base = number * points; base < count; base += warps * points) {
        const int column = base + point, at = first_step - (warp - 1) + column;
        const unsigned first = __shfl_sync(all_lanes, early, column % warp),
                       second = __shfl_sync(all_lanes, late, column % warp);
        const unsigned lanes = column < warp ? first : column < 2 * warp ? second : 0;
        // Outside of the pair there is E only where the lengths are not those of forward.
        if (lanes == 0 || at < 0 || at >= g.s.m) continue;
        for (int f = 0; f < features; f += own * apart) choose(f), to_y(column, lanes, first_step);
      }
    }
  };

  // Calls visit with the workers of one sum.
  template <class In, bool with_directions, Differences differences, class Visit>
  __device__ __forceinline__ void with_features(const Sum &sum, const Visit &visit) const {
    const auto work = [&](auto worker) { visit(worker); };
    constexpr bool one = Cell::wide || tangents || differences == Differences::none;  // as there are registers for
    if (one || points.count <= warp)
      work(Worker<In, with_directions, 1, differences>(*this, sum));
    else if (points.count <= 2 * warp)
      work(Worker < In, with_directions, one ? 1 : 2, differences > (*this, sum));
    else
      work(Worker < In, with_directions, one ? 1 : 3, differences > (*this, sum));
  }
  template <bool with_directions, class Visit>
  __device__ __forceinline__ void with_worker(const Sum &sum, const Visit &visit) const {
    if constexpr (Cell::wide)
      if (a.of_x.dtype == SDTW_F64) return with_features<double, with_directions, Differences::either>(sum, visit);
    if (a.metric == SDTW_CITYBLOCK)
      with_features<float, with_directions, Differences::signs>(sum, visit);
    else if (a.metric == SDTW_COSINE)
      with_features<double, with_directions, Differences::none>(sum, visit);
    else
      with_features<float, with_directions, Differences::themselves>(sum, visit);
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
