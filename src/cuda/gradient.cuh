// What becomes of a tile of E: the gradients of x and y, or a matrix of one element a cell.
#pragma once

#include "strip.cuh"

namespace sdtw::cuda {

// Threads that work together, and meet at a barrier of their own.
struct Crew {
  int thread, count;
  __device__ __forceinline__ void meet() const { barrier(3, count); }
  __device__ __forceinline__ int worker() const { return thread / warp; }
  __device__ __forceinline__ int workers() const { return count / warp; }
};

// E of half a tile where the sweep has left it: [steps][ways][32 lanes][K], of the ways the first.
template <class Real>
struct SweptHalf {
  const Real *e;
  int step, steps;  // its first, and how many
  __device__ __forceinline__ Real at(int u, int row) const { return e[u * (ways * warp * K) + row]; }
};

// What there is of E in a tile, which is little as a rule: in which steps a row has any (bit u of its mask), its
// values, and lists of the rows and columns that have some. Values of one half of the tile lie together, those of a row
// next to each other; if they are too many they stay where they are. A column is numbered by the lane and step in which
// a pair's lowest lane would meet it: pair << 8 | step.
template <class Real>
struct Extract {
  static constexpr int max_columns = 256, room = 512;
  unsigned masks[K * warp];
  unsigned short first[2][K * warp];
  Real values[2][room];
  int count[2];        // of values
  const Real *all[2];  // where they all are
  int rows, columns;   // how many are listed
  unsigned char row[K * warp];
  unsigned short column[max_columns];

  __device__ __forceinline__ bool fits(int half) const { return count[half] <= room; }

  // By a crew, before the first.
  __device__ __forceinline__ void clear(const Crew &crew) {
    if (crew.thread < 2) count[crew.thread] = 0;
    crew.meet();
  }
  // By a crew: half a tile, the right one first. The order in which rows find room is not always the same; what is
  // found is.
  __device__ __forceinline__ void take(const SweptHalf<Real> &from, int half, int half_steps, const Crew &crew) {
    for (int r = crew.thread; r < K * warp; r += crew.count) {
      unsigned mask = 0;
#pragma unroll 4
      for (int u = 0; u < from.steps; u++) mask |= static_cast<unsigned>(from.at(u, r) >= Real(negligible)) << u;
      masks[r] = half == 1 ? mask << half_steps : masks[r] | mask;
      if (mask == 0) continue;
      const int n = __popc(mask), to = atomicAdd(&count[half], n);
      first[half][r] = static_cast<unsigned short>(to);
      if (to + n > room) continue;
      int at = to;
      for (unsigned rest = mask; rest != 0; rest &= rest - 1) values[half][at++] = from.at(__ffs(rest) - 1, r);
    }
    if (crew.thread == 0) all[half] = from.e;
  }
  // Of a row and a step in its mask.
  __device__ __forceinline__ Real at(int u, int r, int half_steps) const {
    const int half = u >= half_steps;
    if (!fits(half)) return SweptHalf<Real>{all[half], 0, 0}.at(u - half * half_steps, r);
    const unsigned before = masks[r] & ((1u << u) - 1);
    return values[half][first[half][r] + __popc(half ? before >> half_steps : before)];
  }

  // By one warp, when both halves are there. lanes: of a pair.
  __device__ __forceinline__ void list(int lanes) {
    const int lane = lane_id() & (lanes - 1);
    int found = 0;
    unsigned any = 0, mask[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
      mask[k] = masks[lane_id() * K + k];
      found += mask[k] != 0;
      any |= mask[k];
    }
    int at = found;  // of those of the lanes before, and the lane's
#pragma unroll
    for (int step = 1; step < warp; step *= 2) {
      const int before = __shfl_up_sync(all_lanes, at, step);
      if (lane_id() >= step) at += before;
    }
    if (lane_id() == warp - 1) rows = at;
    at -= found;
#pragma unroll
    for (int k = 0; k < K; k++)
      if (mask[k] != 0) row[at++] = static_cast<unsigned char>(lane_id() * K + k);
    // Lane l meets in step u the column that the lowest lane would meet in step u - l + lanes - 1.
    unsigned long long met = static_cast<unsigned long long>(any) << (lanes - 1 - lane);
    for (int step = lanes / 2; step > 0; step /= 2) met |= __shfl_xor_sync(all_lanes, met, step);
    found = 0;
    for (int leader = 0; leader < warp; leader += lanes) {
      const unsigned long long of_pair = __shfl_sync(all_lanes, met, leader);
#pragma unroll
      for (int part = 0; part < 2; part++) {
        const unsigned bits = static_cast<unsigned>(of_pair >> (part * warp));
        if (bits >> lane_id() & 1)
          column[found + __popc(bits & ((1u << lane_id()) - 1))] =
              static_cast<unsigned short>((leader / lanes) << 8 | (part * warp + lane_id()));
        found += __popc(bits);
      }
    }
    if (lane_id() == 0) columns = found;
  }
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

// A point as a lane sees it: a few quads, of four features each. A point is a few lanes', as many points at once as the
// warp has lanes for: what there is to do for one takes little time, what it needs much longer to come.
template <class Real>
struct Share {
  static constexpr int quads = 16 / sizeof(Real);  // of a lane
  int lanes, points, lane, point;

  __device__ __forceinline__ explicit Share(int features) {
    lanes = 1;
    while (4 * quads * lanes < features && lanes < warp) lanes *= 2;
    points = warp / lanes;
    lane = lane_id() % lanes, point = lane_id() / lanes;
  }
  // Features of all lanes of a point.
  __device__ __forceinline__ int features() const { return 4 * quads * lanes; }
};

template <class Real>
struct Quad {
  Real v[4];
};

template <class Real>
struct Gradients {
  static constexpr int quads = Share<Real>::quads;

  const Args &a;
  const Extract<Real> &tile;
  int first_step;  // of the tile
  const Crew &crew;
  const View &s;

  __device__ __forceinline__ Real at(int u, int row) const { return tile.at(u, row, a.tile_steps / 2); }

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

  // Half a tile, one element a cell.
  __device__ __forceinline__ void write_dense(const SweptHalf<Real> &half) const {
    const int half_steps = a.tile_steps / 2, u = crew.thread % half_steps, groups = crew.count / half_steps;
    if (u >= half.steps) return;
    for (int row = crew.thread / half_steps; row < K * warp; row += groups) {
      const Real e = half.at(u, row);
      if (!(e >= Real(negligible))) continue;  // nor what lanes without a pair have made up
      const Side own = side(row / K);
      const int i = own.row + row % K, j = half.step + u - (row / K & (a.lanes - 1));
      if (i >= own.pair.n || j < 0 || j >= own.pair.m) continue;
      const Real scale = a.scale_dense ? upstream<Real>(a, own.pair.index) : Real(1);
      store(a.dense.data, own.pair.index * a.dense.stride[0] + i * a.dense.stride[1] + j * a.dense.stride[2], a.f64,
            scale * e);
    }
  }

  struct Point {
    Quad<Real> q[quads];
  };
  // Of a series: the lane's quads of its points, beginning with feature `first` of the point.
  template <class Series>
  struct Features {
    const Series &series;
    int first, lanes, features;
    bool f64, aligned;

    __device__ __forceinline__ Features(const Args &a, const Series &of, const Share<Real> &share, int from)
        : series(of), first(from + 4 * share.lane), lanes(share.lanes), features(a.features), f64(a.f64) {
      aligned = sizeof(Real) == 4 && of.stride[2] == 1 && (a.features | of.stride[1] | of.stride[0]) % 4 == 0 &&
                reinterpret_cast<uintptr_t>(of.data) % 16 == 0;
    }
    // Where point i of a pair lies.
    __device__ __forceinline__ int64_t point(const Pair &pair, int i) const {
      return pair.index * series.stride[0] + i * series.stride[1];
    }
    __device__ __forceinline__ bool has(int quad) const { return first + 4 * lanes * quad < features; }
    // Other blocks may have written it: past the L1 cache, unless it is constant.
    template <bool constant>
    __device__ __forceinline__ Point load(int64_t point) const {
      Point p{};
#pragma unroll
      for (int i = 0; i < quads; i++) {
        if (!has(i)) continue;
        const int f = first + 4 * lanes * i;
        if (aligned) {
          const float4 *from = reinterpret_cast<const float4 *>(static_cast<const float *>(series.data) + point + f);
          const float4 v = constant ? __ldg(from) : __ldcg(from);
          p.q[i].v[0] = v.x, p.q[i].v[1] = v.y, p.q[i].v[2] = v.z, p.q[i].v[3] = v.w;
        } else {
#pragma unroll
          for (int j = 0; j < 4; j++)
            if (f + j < features) {
              const int64_t at = point + (f + j) * series.stride[2];
              p.q[i].v[j] =
                  constant ? cuda::load<Real>(series.data, at, f64) : load_uncached<Real>(series.data, at, f64);
            }
        }
      }
      return p;
    }
    __device__ __forceinline__ void store_sum(int64_t point, Real g, const Point &sum, const Point &before) const {
#pragma unroll
      for (int i = 0; i < quads; i++) {
        if (!has(i)) continue;
        const int f = first + 4 * lanes * i;
        Real v[4];
#pragma unroll
        for (int j = 0; j < 4; j++) v[j] = fma(g, sum.q[i].v[j], before.q[i].v[j]);
        if (aligned) {
          __stcg(reinterpret_cast<float4 *>(static_cast<float *>(series.data) + point + f),
                 make_float4(v[0], v[1], v[2], v[3]));
        } else {
#pragma unroll
          for (int j = 0; j < 4; j++)
            if (f + j < features) store_uncached<Real>(series.data, point + (f + j) * series.stride[2], f64, v[j]);
        }
      }
    }
  };
  static __device__ __forceinline__ void add(Real e, const Point &own, const Point &other, Point &sum) {
#pragma unroll
    for (int i = 0; i < quads; i++)
#pragma unroll
      for (int j = 0; j < 4; j++) sum.q[i].v[j] = fma(e, own.q[i].v[j] - other.q[i].v[j], sum.q[i].v[j]);
  }

  // grad_x_i += 2 g sum_j E_ij (x_i - y_j). Differences are taken as they are: the usual split into sums of E y and of
  // E cancels where x is near y.
  __device__ __forceinline__ void to_x(const Share<Real> &share, int f) const {
    const Features<sdtw_in> x(a, a.x, share, f), y(a, a.y, share, f);
    const Features<sdtw_out> out(a, a.grad_x, share, f);
    for (int i = crew.worker() * share.points + share.point; i < tile.rows; i += crew.workers() * share.points) {
      const int r = tile.row[i];
      const unsigned mask = tile.masks[r];
      const Side own = side(r / K);
      const int row = own.row + r % K, column = first_step - (r / K & (a.lanes - 1));  // in the tile's first step
      const int64_t at = out.point(own.pair, row);
      const Point before = out.template load<false>(at), here = x.template load<true>(x.point(own.pair, row));
      const Real g = gradient_factor<Real>(a, own.pair.index);
      Point sum{};
      const int64_t others = y.point(own.pair, column);
      for (unsigned rest = mask; rest != 0;) {  // two at a time
        const int u = __ffs(rest) - 1;
        rest &= rest - 1;
        const int v = rest != 0 ? __ffs(rest) - 1 : u;
        const Real e[2] = {this->at(u, r), rest != 0 ? this->at(v, r) : Real(0)};
        rest &= rest - 1;
        const Point one = y.template load<true>(others + u * a.y.stride[1]);
        const Point two = y.template load<true>(others + v * a.y.stride[1]);
        add(e[0], here, one, sum);
        add(e[1], here, two, sum);
      }
      out.store_sum(at, g, sum, before);
    }
  }

  // The same with x and y exchanged. A column is met by the lanes of a pair one step after the other. steps: in which
  // any row of the lane has E.
  __device__ __forceinline__ void to_y(const Share<Real> &share, int f, unsigned steps) const {
    const Features<sdtw_in> x(a, a.x, share, f), y(a, a.y, share, f);
    const Features<sdtw_out> out(a, a.grad_y, share, f);
    const int top = a.lanes - 1, listed = tile.columns;
    for (int first = crew.worker() * share.points; first < listed; first += crew.workers() * share.points) {
      unsigned reached = 0;  // of the own column, the lanes that have some
      for (int point = 0; point < min(share.points, listed - first); point++) {
        const int entry = tile.column[first + point];
        const int u = (entry & 255) - top + (lane_id() & top);
        const bool met = lane_id() >> a.lane_bits == entry >> 8 && u >= 0 && (steps >> u & 1);
        const unsigned found = __ballot_sync(all_lanes, met);
        if (point == share.point) reached = found;
      }
      if (reached == 0) continue;
      const int step = tile.column[first + share.point] & 255, j = first_step + step - top;
      const int begin = __ffs(reached) - 1, end = warp - __clz(reached);
      const Side other = side(begin);
      const int64_t at = out.point(other.pair, j);
      const Point before = out.template load<false>(at), here = y.template load<true>(y.point(other.pair, j));
      const Real g = gradient_factor<Real>(a, other.pair.index);
      Point sum{};
      const int rows = min((end - begin) * K, other.pair.n - other.row);
      int64_t point = x.point(other.pair, other.row);
#pragma unroll 2
      for (int i = 0; i < rows; i++, point += a.x.stride[1]) {
        const int lane = begin + i / K, u = step - top + (lane & top), row = begin * K + i;
        if (u < 0 || u >= a.tile_steps || (tile.masks[row] >> u & 1) == 0) continue;
        add(this->at(u, row), here, x.template load<true>(point), sum);
      }
      out.store_sum(at, g, sum, before);
    }
  }

  // Adds the tile to what the caller wants. Columns are shared with the strips above, which go first: `ready` waits for
  // them. Within a strip, and from strip to strip, the order of additions is always the same.
  template <class Ready>
  __device__ __forceinline__ void spend(Ready ready) const {
    const Share<Real> share(a.features);
    if (a.grad_x.data)
      for (int f = 0; f < a.features; f += share.features()) to_x(share, f);
    if (a.grad_y.data) {
      if (crew.worker() == 0) ready();
      crew.meet();
      unsigned steps = 0;
#pragma unroll
      for (int k = 0; k < K; k++) steps |= tile.masks[lane_id() * K + k];
      for (int f = 0; f < a.features; f += share.features()) to_y(share, f, steps);
    }
  }
};

}  // namespace sdtw::cuda
