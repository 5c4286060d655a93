// What becomes of E: the gradients of x and y, or a matrix of one element a cell.
#pragma once

#include "gates.cuh"
#include "strip.cuh"

namespace sdtw::cuda {

// E of half a tile where the sweep has left it: [steps][ways][32 lanes][K], of the ways the first.
template <class Real>
struct SweptHalf {
  const Rows<Real> *e;
  int step, steps;  // its first, and how many

  __device__ __forceinline__ Rows<Real> of_lane(int u, int lane) const { return e[u * ways * warp + lane]; }
  __device__ __forceinline__ Real at(int u, int row) const {
    return reinterpret_cast<const Real *>(e)[u * ways * warp * K + row];
  }
};

// The pair that a lane's rows are of, and the first of them. Rows [begin, end) from there on exist.
struct Side {
  Pair pair;
  int row, begin, end;

  __device__ __forceinline__ bool has(int k) const { return k >= begin && k < end; }
};
// Member by member: a choice between two structs would put both into local memory, and what refers to them.
__device__ __forceinline__ Side side_of(const Args &a, const View &s, int lane) {
  Side own{{s.pair.index, s.pair.n, s.pair.m, s.pair.kind}, s.row + s.sign() * lane * K, 0, 1 << 30};
  if (a.lanes < warp) {
    const Pair other = pair_of(a, s.task, lane);
    own.pair.index = other.index, own.pair.n = other.n, own.pair.m = other.m;
    own.row = (lane & (a.lanes - 1)) * K;
  }
  if (s.reversed)
    own.begin = own.row + 1 - own.pair.n;
  else
    own.end = own.pair.n - own.row;
  return own;
}

template <class Real>
__device__ __forceinline__ Real upstream(const Args &a, int64_t pair) {
  if (!a.grad_value) return 1;
  return a.f64 ? static_cast<Real>(static_cast<const double *>(a.grad_value)[pair])
               : static_cast<Real>(static_cast<const float *>(a.grad_value)[pair]);
}
// What sums of E times a difference are to be multiplied by: NaN unless grad_value is finite, so that all of the pair's
// gradient is.
template <class Real>
__device__ __forceinline__ Real gradient_factor(const Args &a, int64_t pair) {
  const Real g = 2 * upstream<Real>(a, pair);
  return isfinite(g) ? g : g - g;
}

// A point as a lane sees it: `size` features. A point is a few lanes', as many points at once as the warp has lanes
// for: what there is to do for one takes little time, what it needs much longer to come.
template <class Real>
struct Share {
  static constexpr int size = 16 / sizeof(Real);
  int bits = 0;  // log2 of a point's lanes
  int lane, point;

  __device__ __forceinline__ explicit Share(int of_all) {
    while (features() < of_all && lanes() < warp) bits++;
    lane = lane_id() & (lanes() - 1), point = lane_id() >> bits;
  }
  __device__ __forceinline__ int lanes() const { return 1 << bits; }
  __device__ __forceinline__ int points() const { return warp >> bits; }
  // Features of all lanes of a point.
  __device__ __forceinline__ int features() const { return size << bits; }
};
template <class Real>
struct Point {
  Real v[Share<Real>::size];
};

// How features of points lie in memory: float32 ones that can be moved four at a time, ones that lie together, or as
// strides will have it.
enum Layout { strided, together, by_four };
template <class Real, class Series>
__device__ __forceinline__ Layout layout_of(const Series &series, int features) {
  if (sizeof(Real) == 8 || series.stride[2] != 1) return strided;
  return in_quads(series, features) ? by_four : together;
}
__device__ __forceinline__ Layout common(Layout a, Layout b) { return a < b ? a : b; }

// A lane's features of the points of a series, from feature `from` of a point on.
template <class Real, class Series, Layout layout>
struct Features {
  static constexpr int size = Share<Real>::size;

  const Series &series;
  int64_t first, step;  // in a point: the lane's first feature, and from one to the next
  int count;
  bool f64;

  __device__ __forceinline__ Features(const Args &a, const Series &of, const Share<Real> &share, int from)
      : series(of), step(layout == strided ? of.stride[2] : 1), f64(a.f64) {
    const int feature = from + size * share.lane;
    first = feature * step;
    count = a.features - feature;
  }
  // Where point i of a pair lies.
  __device__ __forceinline__ int64_t point(const Pair &pair, int i) const {
    return pair.index * series.stride[0] + i * series.stride[1];
  }
  // Zeros if it is not there.
  __device__ __forceinline__ Point<Real> load(int64_t point, bool exists) const {
    Point<Real> p{};
    const int there = exists ? count : 0;
    if constexpr (layout == strided) {
#pragma unroll
      for (int i = 0; i < size; i++)
        if (i < there) p.v[i] = cuda::load<Real>(series.data, point + first + i * step, f64);
    } else {
      const float *from = static_cast<const float *>(series.data) + (point + first);
      if constexpr (layout == by_four) {
        if (there > 0) p = __builtin_bit_cast(Point<Real>, __ldg(reinterpret_cast<const float4 *>(from)));
      } else {
#pragma unroll
        for (int i = 0; i < size; i++)
          if (i < there) p.v[i] = __ldg(from + i);
      }
    }
    return p;
  }
  // Adds g times p to what is there, which nobody waits for.
  __device__ __forceinline__ void add(int64_t point, Real g, const Point<Real> &p) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr bool at_once = layout == by_four;
    if constexpr (at_once)
      if (count > 0)
        atomicAdd(reinterpret_cast<float4 *>(static_cast<float *>(series.data) + (point + first)),
                  make_float4(g * p.v[0], g * p.v[1], g * p.v[2], g * p.v[3]));
#else
    constexpr bool at_once = false;
#endif
#pragma unroll
    for (int i = at_once ? size : 0; i < size; i++) {
      if (i >= count) continue;
      const int64_t at = point + first + i * step;
      if constexpr (sizeof(Real) == 8)
        if (f64) {
          atomicAdd(static_cast<double *>(series.data) + at, g * p.v[i]);
          continue;
        }
      atomicAdd(static_cast<float *>(series.data) + at, static_cast<float>(g * p.v[i]));
    }
  }
};

// Part of the gradients of half a tile. Of four rows, a lane's: the lane, and the steps in which it has any E. Of a
// column: its number from the one that a pair's lowest lane meets in the first step, and the lanes that have any of it.
struct Item {
  int of;
  unsigned others;
};

// Bit i of the lane's word becomes bit `lane` of lane i's.
__device__ __forceinline__ unsigned transpose(unsigned word) {
  unsigned mask = 0x0000ffffu;
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2, mask ^= mask << step) {
    const unsigned other = __shfl_xor_sync(all_lanes, word, step);
    word = (lane_id() & step) == 0 ? (word & mask) | (other & mask) << step : (word & ~mask) | (other & ~mask) >> step;
  }
  return word;
}

// Adds half a tile of E to the gradients, of which it is little as a rule: the steps in which a lane's rows have any
// follow each other, and so do the lanes that have some of a column.
//
// Differences are taken as they are: the usual split of grad_x_i = 2 g sum_j E_ij (x_i - y_j) into sums of E y and of E
// cancels where x is near y. Each row and each column has a warp of its own that adds to it, so the order of additions
// is always the same, and the hardware can be left to do them.
template <class Real, Layout layout>
struct Gradients {
  template <class Series>
  using Features = cuda::Features<Real, Series, layout>;
  static constexpr int size = Share<Real>::size;

  const Args &a;
  const View &s;
  SweptHalf<Real> half;
  int worker;            // of those that share the rows, or the columns
  Item *items;           // in shared memory, the warp's own
  unsigned any;          // the steps in which the lane's rows have any E
  int aside, aside_end;  // columns whose gradient goes to a.side

  __device__ __forceinline__ int top() const { return a.lanes - 1; }
  // Notes the items of the lanes that have one, behind `found` others.
  __device__ __forceinline__ int note(bool has, int of, unsigned others, int found) const {
    const unsigned all = __ballot_sync(all_lanes, has);
    if (has) items[found + __popc(all & ((1u << lane_id()) - 1))] = {of, others};
    return found + __popc(all);
  }

  template <int workers>
  __device__ __forceinline__ void to_x(const Share<Real> &share, int f) const {
    const Features<sdtw_in> x(a, a.x, share, f), y(a, a.y, share, f);
    const Features<sdtw_out> out(a, a.grad_x, share, f);
    __syncwarp();
    const int found = note(any != 0 && lane_id() % workers == worker, lane_id(), any, 0);
    __syncwarp();
    for (int i = share.point; i < found; i += share.points()) {
      const int lane = items[i].of;
      const unsigned steps = items[i].others;
      const Side own = side_of(a, s, lane);
      const int end = warp - __clz(steps);
      Point<Real> here[K], sum[K]{};
      int64_t point = x.point(own.pair, own.row);
#pragma unroll
      for (int k = 0; k < K; k++, point += s.sign() * a.x.stride[1]) here[k] = x.load(point, own.has(k));
      const Real g = gradient_factor<Real>(a, own.pair.index);
      int u = __ffs(steps) - 1;
      point = y.point(own.pair, s.column_of(own.pair, half.step + u - (lane & top())));
#pragma unroll 1
      for (; u < end; u++, point += s.sign() * a.y.stride[1]) {
        const Point<Real> other = y.load(point, true);
        const Rows<Real> e = half.of_lane(u, lane);
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
          for (int j = 0; j < size; j++) sum[k].v[j] = fma(e.v[k], here[k].v[j] - other.v[j], sum[k].v[j]);
      }
      point = out.point(own.pair, own.row);
#pragma unroll
      for (int k = 0; k < K; k++, point += s.sign() * a.grad_x.stride[1])
        if (own.has(k)) out.add(point, g, sum[k]);
    }
  }

  template <int workers>
  __device__ __forceinline__ void to_y(const Share<Real> &share, int f) const {
    const Features<sdtw_in> x(a, a.x, share, f), y(a, a.y, share, f);
    const Features<sdtw_out> out(a, a.grad_y, share, f), side(a, a.side, share, f);
    __syncwarp();
    int found = 0;
    const uint64_t met = static_cast<uint64_t>(any) << (top() - (lane_id() & top()));
#pragma unroll 1
    for (int part = 0; part < 2; part++) {
      const int c = part * warp + lane_id();
      const unsigned lanes = transpose(static_cast<unsigned>(met >> (part * warp)));
      const bool own = (half.step + c) % workers == worker;
      for (int first = 0; first < warp; first += a.lanes) {  // pair by pair
        const unsigned of_pair = lanes & (all_lanes >> (warp - a.lanes)) << first;
        found = note(own && of_pair != 0, c, of_pair, found);
      }
    }
    __syncwarp();
    for (int i = share.point; i < found; i += share.points()) {
      const int c = items[i].of;
      const unsigned lanes = items[i].others;
      const int begin = __ffs(lanes) - 1, end = warp - __clz(lanes);
      Side other = side_of(a, s, begin);
      const int j = s.column_of(other.pair, half.step + c - top());
      const Point<Real> here = y.load(y.point(other.pair, j), true);
      const Real g = gradient_factor<Real>(a, other.pair.index);
      Point<Real> sum{};
      int64_t point = x.point(other.pair, other.row);
#pragma unroll 1
      for (int lane = begin; lane < end; lane++, other.begin -= K, other.end -= K) {
        Point<Real> points[K];
#pragma unroll
        for (int k = 0; k < K; k++, point += s.sign() * a.x.stride[1]) points[k] = x.load(point, other.has(k));
        const Rows<Real> e = half.of_lane(c - top() + (lane & top()), lane);
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
          for (int j = 0; j < size; j++) sum.v[j] = fma(e.v[k], here.v[j] - points[k].v[j], sum.v[j]);
      }
      if (j >= aside && j < aside_end)
        side.add(side.point(other.pair, j - aside), g, sum);
      else
        out.add(out.point(other.pair, j), g, sum);
    }
  }
};

// Half a tile, one element a cell. thread: of `threads` that share the work.
template <class Real>
__device__ __forceinline__ void write_dense(const Args &a, const View &s, const SweptHalf<Real> &half, int half_steps,
                                            int thread, int threads) {
  const int u = thread % half_steps, groups = threads / half_steps;
  if (u >= half.steps) return;
  for (int row = thread / half_steps; row < K * warp; row += groups) {
    const Real e = half.at(u, row);
    if (!(e >= Real(negligible))) continue;  // nor what lanes without a pair have made up
    const Side own = side_of(a, s, row / K);
    const int i = own.row + s.sign() * (row % K), c = half.step + u - (row / K & (a.lanes - 1));
    if (!own.has(row % K) || c < 0 || c >= own.pair.m) continue;
    const int j = s.column_of(own.pair, c);
    const Real scale = a.scale_dense ? upstream<Real>(a, own.pair.index) : Real(1);
    store(a.dense.data, own.pair.index * a.dense.stride[0] + i * a.dense.stride[1] + j * a.dense.stride[2], a.f64,
          scale * e);
  }
}

}  // namespace sdtw::cuda
