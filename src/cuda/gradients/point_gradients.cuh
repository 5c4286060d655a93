// Gradients of x and y of any number of features from E, of which a tile has little as a rule.
#pragma once

#include "cuda/pipeline/barrier.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

// E of half a tile where the sweep has left it: [steps][ways][32 lanes][K], of the ways the first.
template <class Real>
struct SweptHalf {
  static constexpr int next_step = transitions * warp;

  const Rows<Real> *e;
  int step, steps;  // its first, and how many

  __device__ __forceinline__ const Rows<Real> *of_lane(int u, int lane) const { return e + (u * next_step + lane); }
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

// A lane's features of a point.
template <class Real>
struct Point {
  static constexpr int size = 16 / sizeof(Real);
  Real v[size];
};
// A point is a few lanes', as many points at once as the warp has lanes for: what there is to do for one takes little
// time, what it needs much longer to come.
template <class Real>
struct LaneShare {
  int bits = 0;  // log2 of a point's lanes
  int lane, point;

  __device__ __forceinline__ explicit LaneShare(int of_all) {
    while (features() < of_all && lanes() < warp) bits++;
    lane = lane_id() & (lanes() - 1), point = lane_id() >> bits;
  }
  __device__ __forceinline__ int lanes() const { return 1 << bits; }
  __device__ __forceinline__ int points() const { return warp >> bits; }
  // Features of all lanes of a point.
  __device__ __forceinline__ int features() const { return Point<Real>::size << bits; }
};

// How features of points lie in memory: float32 ones that can be moved four at a time, four or more that lie together,
// or as strides will have it.
enum Layout { strided, together, by_four };
template <class Real, class Series>
__device__ __forceinline__ Layout layout_of(const Series &series, int features) {
  if (sizeof(Real) == 8 || series.stride[2] != 1 || features < Point<Real>::size) return strided;
  return is_vec4(series, features) ? by_four : together;
}
__device__ __forceinline__ Layout common(Layout a, Layout b) { return a < b ? a : b; }

// Whether gradients are added to in double: those of float64 series, and of float32 ones that are so long that
// roundings of as many sums would show.
__host__ __device__ __forceinline__ bool has_wide_sums(const Args &a) { return a.f64 || a.wide_sums; }
// Bytes of an element.
__device__ __forceinline__ int64_t series_size(const Args &a) { return a.f64 ? sizeof(double) : sizeof(float); }
__device__ __forceinline__ int64_t sum_size(const Args &a) { return has_wide_sums(a) ? sizeof(double) : sizeof(float); }

// A series or its gradient, in the order in which the task meets it; steps in bytes. Addresses are advanced, not looked
// up: what a load needs of the kernel's arguments would be waited for again by each.
template <class Real>
struct Points {
  char *first;                  // of the task's first pair, where the sweep begins
  int64_t pair, next, feature;  // from one to the next

  // size: of an element.
  template <class Series>
  __device__ __forceinline__ Points(const Args &a, const StripView &s, const Series &of, int begin, int64_t size) {
    const int64_t index = a.lanes == warp ? s.pair.index : s.task * (warp >> a.lane_bits);
    first =
        const_cast<char *>(static_cast<const char *>(of.data)) + (index * of.stride[0] + begin * of.stride[1]) * size;
    pair = of.stride[0] * size, next = s.sign() * of.stride[1] * size, feature = of.stride[2] * size;
  }
  __device__ __forceinline__ char *at(int of_pair, int i) const { return first + of_pair * pair + i * next; }
};

// The lane's features of points, from feature `from` on. Where features lie together the last lane that has any has the
// last four, of which some are another lane's as well: so four can be loaded always. wide_sums: see has_wide_sums.
template <class Real, Layout layout, bool wide_sums>
struct Features {
  static constexpr int size = Point<Real>::size;

  int first, skipped, count;  // the lane's own are [first + skipped, first + count)
  bool f64;

  __device__ __forceinline__ Features(const Args &a, const LaneShare<Real> &share, int from) : f64(a.f64) {
    const int feature = from + size * share.lane;
    first = layout == strided ? feature : min(feature, a.features - size);
    skipped = feature - first;
    count = layout == strided ? a.features - feature : size;
  }
  // From one feature of a series to the next; and of what is added to.
  __device__ __forceinline__ int64_t along(const Points<Real> &points) const {
    return layout == strided ? points.feature : sizeof(Real);
  }
  __device__ __forceinline__ int64_t along_sums(const Points<Real> &points) const {
    return wide_sums ? points.feature : along(points);
  }
  __device__ __forceinline__ int64_t offset(const Points<Real> &points) const { return first * along(points); }
  __device__ __forceinline__ int64_t offset_of_sums(const Points<Real> &points) const {
    return first * along_sums(points);
  }
  // Zeros if it is not there.
  __device__ __forceinline__ Point<Real> load(const char *at, int64_t along, bool exists) const {
    Point<Real> p{};
    if (!exists) return p;
    if constexpr (layout == by_four) {
      p = __builtin_bit_cast(Point<Real>, __ldg(reinterpret_cast<const float4 *>(at)));
    } else {
#pragma unroll
      for (int i = 0; i < size; i++)
        if (layout == together || i < count) p.v[i] = cuda::load<Real>(at + i * along, 0, f64);
    }
    return p;
  }
  // Adds g times p to what is there, which nobody waits for.
  __device__ __forceinline__ void add(char *at, int64_t along, Real g, const Point<Real> &p) const {
    if (skipped >= size) return;
    if constexpr (wide_sums) {
#pragma unroll
      for (int i = 0; i < size; i++, at += along)
        if (layout == by_four || (i >= skipped && i < count))
          atomicAdd(reinterpret_cast<double *>(at), static_cast<double>(g) * static_cast<double>(p.v[i]));
      return;
    }
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr bool at_once = layout == by_four;
    if constexpr (at_once)
      atomicAdd(reinterpret_cast<float4 *>(at), make_float4(g * p.v[0], g * p.v[1], g * p.v[2], g * p.v[3]));
#else
    constexpr bool at_once = false;
#endif
#pragma unroll
    for (int i = at_once ? size : 0; i < size; i++, at += along) {
      if (layout == strided && i >= count) continue;
      const Real sum = layout == together && i < skipped ? 0 : g * p.v[i];  // a branch would take longer
      atomicAdd(reinterpret_cast<float *>(at), static_cast<float>(sum));
    }
  }
};

// Part of the gradients of half a tile. Of four rows, a lane's: the lane, and the steps in which it has any E. Of a
// column: its number from the one that a pair's lowest lane meets in the first step, and the lanes that have any of it.
struct alignas(8) Item {
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
template <class Real>
struct Gradients {
  static constexpr int size = Point<Real>::size;

  // Of a pair.
  struct alignas(8) Facts {
    int rows;
    Real factor;  // of its gradient
  };
  // In shared memory, the warp's own: facts of the pairs of a task, and items. These are 16 lanes at most, or a third
  // of the columns of half a tile, of which each pair has 16 and as many more as its lanes are apart.
  __host__ __device__ static size_t facts_bytes(const Args &a) { return sizeof(Facts) * (warp >> a.lane_bits); }
  __host__ __device__ static size_t notes_bytes(const Args &a) {
    return facts_bytes(a) + sizeof(Item) * (8 + 8 * (warp >> a.lane_bits));
  }

  const Args &a;
  const StripView &s;
  LaneShare<Real> share;
  Points<Real> x, y, out;
  Facts *facts_of;
  Item *items;
  int worker;  // of those that share the rows, or the columns

  __device__ __forceinline__ Gradients(const Args &args, const StripView &view, bool of_x, int number,
                                       unsigned char *notes)
      : a(args),
        s(view),
        share(args.features),
        x(args, view, args.x, view.row, series_size(args)),
        y(args, view, args.y, view.first_column(), series_size(args)),
        out(args, view, of_x ? args.grad_x : args.grad_y, of_x ? view.row : view.first_column(), sum_size(args)),
        facts_of(reinterpret_cast<Facts *>(notes)),
        items(reinterpret_cast<Item *>(notes + facts_bytes(args))),
        worker(number) {
    __syncwarp();
    if (s.lane == 0)
      facts_of[lane_id() >> a.lane_bits] = {s.pair.n, s.active ? gradient_factor<Real>(a, s.pair.index) : 0};
  }

  __device__ __forceinline__ int top() const { return a.lanes - 1; }
  // A lane's place among the task's pairs, and its first row in the order in which the task meets them.
  __device__ __forceinline__ int pair_of(int lane) const { return lane >> a.lane_bits; }
  __device__ __forceinline__ int row_of(int lane) const { return (lane & top()) * K; }
  // Whether the pair has so many rows that this is one of them.
  __device__ __forceinline__ bool exists(int row, int rows) const {
    return static_cast<unsigned>(s.row + s.sign() * row) < static_cast<unsigned>(rows);
  }
  // Notes the items of the lanes that have one, behind `found` others.
  __device__ __forceinline__ int note(bool has, int of, unsigned others, int found) const {
    const unsigned all = __ballot_sync(all_lanes, has);
    if (has) items[found + __popc(all & ((1u << lane_id()) - 1))] = {of, others};
    return found + __popc(all);
  }

  // any: the steps in which the lane's rows have any E.
  template <int workers, Layout layout, bool wide_sums>
  __device__ __forceinline__ void to_x(const SweptHalf<Real> &half, unsigned any, int f) const {
    const Features<Real, layout, wide_sums> own(a, share, f);
    const int64_t of_x = own.along(x), of_y = own.along(y), of_out = own.along_sums(out);
    __syncwarp();
    const int found = note(any != 0 && lane_id() % workers == worker, lane_id(), any, 0);
    __syncwarp();
    for (int i = share.point; i < found; i += share.points()) {
      const auto [lane, steps] = items[i];
      const int pair = pair_of(lane), row = row_of(lane), end = warp - __clz(steps);
      const Facts facts = facts_of[pair];
      Point<Real> here[K], sum[K]{};
      const char *point = x.at(pair, row) + own.offset(x);
#pragma unroll
      for (int k = 0; k < K; k++, point += x.next) here[k] = own.load(point, of_x, exists(row + k, facts.rows));
      int u = __ffs(steps) - 1;
      const Rows<Real> *e = half.of_lane(u, lane);
      point = y.at(pair, half.step + u - (lane & top())) + own.offset(y);
#pragma unroll 1
      for (; u < end; u++, point += y.next, e += half.next_step) {
        const Point<Real> other = own.load(point, of_y, true);
        const Rows<Real> here_e = *e;
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
          for (int j = 0; j < size; j++) sum[k].v[j] = fma(here_e.v[k], here[k].v[j] - other.v[j], sum[k].v[j]);
      }
      char *to = out.at(pair, row) + own.offset_of_sums(out);
#pragma unroll
      for (int k = 0; k < K; k++, to += out.next)
        if (exists(row + k, facts.rows)) own.add(to, of_out, facts.factor, sum[k]);
    }
  }

  // Columns [aside, separate_end) of the pair's: what is added to these lies aside.
  template <int workers, Layout layout, bool wide_sums>
  __device__ __forceinline__ void to_y(const SweptHalf<Real> &half, unsigned any, int f, int separate,
                                       int separate_end) const {
    const Features<Real, layout, wide_sums> own(a, share, f);
    const int64_t of_x = own.along(x), of_y = own.along(y), of_out = own.along_sums(out);
    __syncwarp();
    int found = 0;
    const uint64_t met = static_cast<uint64_t>(any) << (top() - (lane_id() & top()));
#pragma unroll 1
    for (int part = 0; part < 2; part++) {
      const int c = part * warp + lane_id();
      const unsigned lanes = transpose(static_cast<unsigned>(met >> (part * warp)));
      const bool mine = (half.step + c) % workers == worker;
      for (int first = 0; first < warp; first += a.lanes) {  // pair by pair
        const unsigned of_pair = lanes & (all_lanes >> (warp - a.lanes)) << first;
        found = note(mine && of_pair != 0, c, of_pair, found);
      }
    }
    __syncwarp();
    for (int i = share.point; i < found; i += share.points()) {
      const auto [c, lanes] = items[i];
      int lane = __ffs(lanes) - 1;
      const int pair = pair_of(lane), end = warp - __clz(lanes), column = half.step + c - top();
      const Facts facts = facts_of[pair];
      int row = row_of(lane);
      const Point<Real> here = own.load(y.at(pair, column) + own.offset(y), of_y, true);
      Point<Real> sum{};
      const char *point = x.at(pair, row) + own.offset(x);
      const Rows<Real> *e = half.of_lane(c - top() + (lane & top()), lane);
#pragma unroll 1
      for (; lane < end; lane++, row += K, e += half.next_step + 1) {
        Point<Real> points[K];
#pragma unroll
        for (int k = 0; k < K; k++, point += x.next) points[k] = own.load(point, of_x, exists(row + k, facts.rows));
        const Rows<Real> here_e = *e;
#pragma unroll
        for (int k = 0; k < K; k++)
#pragma unroll
          for (int j = 0; j < size; j++) sum.v[j] = fma(here_e.v[k], here.v[j] - points[k].v[j], sum.v[j]);
      }
      const int j = s.column_of(s.pair, column);
      if (j >= separate && j < separate_end) {
        const Points<Real> side(a, s, a.side, j - separate, sum_size(a));
        own.add(side.first + own.offset_of_sums(side), own.along_sums(side), facts.factor, sum);
      } else {
        own.add(out.at(pair, column) + own.offset_of_sums(out), of_out, facts.factor, sum);
      }
    }
  }
};

}  // namespace sdtw::cuda
