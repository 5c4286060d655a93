// What becomes of a tile of E: the gradients of x and y, or a matrix of one element a cell.
#pragma once

#include "pair.cuh"

namespace sdtw::cuda {

// E of a tile in shared memory, [steps][K][32 lanes] with one element of padding a step; in which steps a row has any
// (bit u of its mask); and lists of the rows and columns that have some. A column is numbered by the lane and step in
// which a pair's lowest lane would meet it: pair << 8 | step.
struct TileIndex {
  static constexpr int max_columns = 256;
  unsigned masks[K * warp];
  int rows, columns;  // how many are listed
  unsigned char row[K * warp];
  unsigned short column[max_columns];
};

template <class Real>
struct TileOfE {
  static constexpr int pitch = K * warp + 1;

  const Real *e;
  const TileIndex *index;
  int step, steps;  // its first, and how many

  __device__ __forceinline__ Real at(int u, int row) const { return e[u * pitch + row % K * warp + row / K]; }
};

// By one warp, whose lanes have the masks of their rows: the lists.
__device__ __forceinline__ void make_index(TileIndex &to, const unsigned (&mask)[K], int lane, int lanes) {
  int rows = 0;
  unsigned any = 0;
#pragma unroll
  for (int k = 0; k < K; k++) {
    to.masks[lane_id() * K + k] = mask[k];
    rows += mask[k] != 0;
    any |= mask[k];
  }
  int at = rows;  // of those of the lanes before, and the lane's
#pragma unroll
  for (int step = 1; step < warp; step *= 2) {
    const int before = __shfl_up_sync(all_lanes, at, step);
    if (lane_id() >= step) at += before;
  }
  if (lane_id() == warp - 1) to.rows = at;
  at -= rows;
#pragma unroll
  for (int k = 0; k < K; k++)
    if (mask[k] != 0) to.row[at++] = static_cast<unsigned char>(lane_id() * K + k);
  // Lane l meets in step u the column that the lowest lane would meet in step u - l + lanes - 1.
  unsigned long long columns = static_cast<unsigned long long>(any) << (lanes - 1 - lane);
  for (int step = lanes / 2; step > 0; step /= 2) columns |= __shfl_xor_sync(all_lanes, columns, step);
  int found = 0;
  for (int first = 0; first < warp; first += lanes) {
    const unsigned long long of_pair = __shfl_sync(all_lanes, columns, first);
#pragma unroll
    for (int half = 0; half < 2; half++) {
      const unsigned bits = static_cast<unsigned>(of_pair >> (half * warp));
      if (bits >> lane_id() & 1)
        to.column[found + __popc(bits & ((1u << lane_id()) - 1))] =
            static_cast<unsigned short>((first / lanes) << 8 | (half * warp + lane_id()));
      found += __popc(bits);
    }
  }
  if (lane_id() == 0) to.columns = found;
}

// Threads that work together, and meet at a barrier of their own.
struct Crew {
  int thread, count;
  __device__ __forceinline__ void meet() const { barrier(3, count); }
  __device__ __forceinline__ int worker() const { return thread / warp; }
  __device__ __forceinline__ int workers() const { return count / warp; }
};

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

// A series and its gradient as a lane sees them: two features of every point. A point is a few lanes', as many points
// at once as the warp has lanes for.
template <class Real>
struct Share {
  static constexpr int per_lane = 2;
  int lanes, points, feature, point;

  __device__ __forceinline__ explicit Share(int features) {
    lanes = 2;
    while (per_lane * lanes < features && lanes < warp) lanes *= 2;
    points = warp / lanes;
    feature = lane_id() % lanes, point = lane_id() / lanes;
  }
};

template <class Real>
struct Gradients {
  static constexpr int per_lane = Share<Real>::per_lane;

  const Args &a;
  const TileOfE<Real> &tile;
  const Crew &crew;
  const View &s;

  // The pair that a lane's rows are of, and the first of them.
  struct Side {
    Pair pair;
    int row;
  };
  // Member by member: a choice between two structs would put both into local memory, and what refers to them.
  __device__ __forceinline__ Side side(int lane) const {
    Side own{{s.pair.index, s.pair.n, s.pair.m, s.pair.kind}, s.row + lane * K};
    if (a.lanes < warp) {
      const Pair other = pair_of(a, s.task, lane);
      own.pair.index = other.index, own.pair.n = other.n, own.pair.m = other.m;
      own.row = (lane & (a.lanes - 1)) * K;
    }
    return own;
  }

  __device__ __forceinline__ void write_dense() const {
    for (int lane = crew.worker(); lane < warp; lane += crew.workers()) {
      const Side own = side(lane);
      const Real scale = a.scale_dense ? upstream<Real>(a, own.pair.index) : Real(1);
#pragma unroll
      for (int k = 0; k < K; k++) {
        if (own.row + k >= own.pair.n || tile.index->masks[lane * K + k] == 0) continue;
        const int64_t row = own.pair.index * a.dense.stride[0] + (own.row + k) * a.dense.stride[1];
        for (int u = lane_id(); u < tile.steps; u += warp) {
          const int j = tile.step + u - (lane & (a.lanes - 1));
          if (j < 0 || j >= own.pair.m) continue;
          store(a.dense.data, row + j * a.dense.stride[2], a.f64, scale * tile.at(u, lane * K + k));
        }
      }
    }
  }

  // Two features of a point.
  struct Point {
    Real v[per_lane];
  };
  // Of a series: where two features of its points lie, beyond the point.
  template <class Series>
  struct Features {
    const Series &series;
    int64_t at[per_lane];
    bool has[per_lane], f64;

    __device__ __forceinline__ Features(const Args &a, const Series &of, int feature, int lanes)
        : series(of), f64(a.f64) {
#pragma unroll
      for (int j = 0; j < per_lane; j++) {
        at[j] = (feature + j * lanes) * of.stride[2];
        has[j] = feature + j * lanes < a.features;
      }
    }
    // Where point i of a pair lies.
    __device__ __forceinline__ int64_t point(const Pair &pair, int i) const {
      return pair.index * series.stride[0] + i * series.stride[1];
    }
    __device__ __forceinline__ Point load(int64_t point) const {
      Point p;
#pragma unroll
      for (int j = 0; j < per_lane; j++) p.v[j] = has[j] ? cuda::load<Real>(series.data, at[j] + point, f64) : Real(0);
      return p;
    }
    // What is there already is loaded before the sum is known. Other blocks may have written it: past the L1 cache.
    __device__ __forceinline__ Point load_sum(int64_t point) const {
      Point p{};
#pragma unroll
      for (int j = 0; j < per_lane; j++)
        if (has[j]) p.v[j] = load_uncached<Real>(series.data, at[j] + point, f64);
      return p;
    }
    __device__ __forceinline__ void store_sum(int64_t point, Real g, const Point &sum, const Point &before) const {
#pragma unroll
      for (int j = 0; j < per_lane; j++)
        if (has[j]) store_uncached<Real>(series.data, at[j] + point, f64, fma(g, sum.v[j], before.v[j]));
    }
  };
  static __device__ __forceinline__ void add(Real e, const Point &own, const Point &other, Point &sum) {
#pragma unroll
    for (int j = 0; j < per_lane; j++) sum.v[j] = fma(e, own.v[j] - other.v[j], sum.v[j]);
  }

  // grad_x_i += 2 g sum_j E_ij (x_i - y_j). Differences are taken as they are: the usual split into sums of E y and of
  // E cancels where x is near y.
  __device__ __forceinline__ void to_x(const Share<Real> &share, int f) const {
    const Features<sdtw_in> x(a, a.x, f, share.lanes), y(a, a.y, f, share.lanes);
    const Features<sdtw_out> out(a, a.grad_x, f, share.lanes);
    for (int i = crew.worker() * share.points + share.point; i < tile.index->rows; i += crew.workers() * share.points) {
      const int r = tile.index->row[i];
      const unsigned mask = tile.index->masks[r];
      const Side own = side(r / K);
      const int row = own.row + r % K, column = tile.step - (r / K & (a.lanes - 1));  // in the tile's first step
      const int64_t at = out.point(own.pair, row);
      const Point before = out.load_sum(at), here = x.load(x.point(own.pair, row));
      const Real g = gradient_factor<Real>(a, own.pair.index);
      Point sum{};
      const int first = __ffs(mask) - 1, end = warp - __clz(mask);
      int64_t other = y.point(own.pair, column + first);
#pragma unroll 4
      for (int u = first; u < end; u++, other += a.y.stride[1]) add(tile.at(u, r), here, y.load(other), sum);
      out.store_sum(at, g, sum, before);
    }
  }

  // The same with x and y exchanged. A column is met by the lanes of a pair one step after the other. steps: in which
  // any row of the lane has E.
  __device__ __forceinline__ void to_y(const Share<Real> &share, int f, unsigned steps) const {
    const Features<sdtw_in> x(a, a.x, f, share.lanes), y(a, a.y, f, share.lanes);
    const Features<sdtw_out> out(a, a.grad_y, f, share.lanes);
    const int top = a.lanes - 1, listed = tile.index->columns;
    for (int first = crew.worker() * share.points; first < listed; first += crew.workers() * share.points) {
      unsigned reached = 0;  // of the own column, the lanes that have some
      for (int point = 0; point < share.points; point++) {
        const int i = min(first + point, listed - 1), entry = tile.index->column[i];
        const int u = (entry & 255) - top + (lane_id() & top);
        const bool met = lane_id() >> a.lane_bits == entry >> 8 && u >= 0 && (steps >> u & 1);
        const unsigned found = __ballot_sync(all_lanes, met);
        if (point == share.point && first + point < listed) reached = found;
      }
      if (reached == 0) continue;
      const int step = tile.index->column[first + share.point] & 255, j = tile.step + step - top;
      const int begin = __ffs(reached) - 1, end = warp - __clz(reached);
      const Side other = side(begin);
      const int64_t at = out.point(other.pair, j);
      const Point before = out.load_sum(at), here = y.load(y.point(other.pair, j));
      const Real g = gradient_factor<Real>(a, other.pair.index);
      Point sum{};
      const int rows = min((end - begin) * K, other.pair.n - other.row);
      int64_t point = x.point(other.pair, other.row);
#pragma unroll 4
      for (int i = 0; i < rows; i++, point += a.x.stride[1]) {
        const int lane = begin + i / K;
        add(tile.at(step - top + (lane & top), begin * K + i), here, x.load(point), sum);
      }
      out.store_sum(at, g, sum, before);
    }
  }

  // Adds the tile to what the caller wants. grad_y's columns are shared with the strip below, which goes first: `ready`
  // waits for it. Within a strip, and from strip to strip, the order of additions is always the same.
  template <class Ready>
  __device__ __forceinline__ void spend(Ready ready) const {
    if (a.dense.data) {
      write_dense();
      return;
    }
    const Share<Real> share(a.features);
    const int stride = per_lane * share.lanes;
    if (a.grad_x.data)
      for (int f = 0; f < a.features; f += stride) to_x(share, f + share.feature);
    if (a.grad_y.data) {
      if (crew.thread == 0) ready();
      crew.meet();
      unsigned steps = 0;
#pragma unroll
      for (int k = 0; k < K; k++) steps |= tile.index->masks[lane_id() * K + k];
      for (int f = 0; f < a.features; f += stride) to_y(share, f + share.feature, steps);
    }
  }
};

}  // namespace sdtw::cuda
