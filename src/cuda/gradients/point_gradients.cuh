// Gradients of x and y, of any number of features, from half a tile of E: grad_x_i = 2 g sum_j E_ij (x_i - y_j), and
// likewise grad_y. E is sparse as a rule, so warps first list the lanes (for grad_x) or columns (for grad_y) that have
// any E at all, and then work through the list.
// Invariant: within a strip each row and each column of a pair has one warp that adds to it; by products, each column
// has one in a half tile. So the order of additions is the same in every run and the hardware's atomics can do them: no
// warp waits for their results.
// Trade-off: matrix instructions take longer where E is sparse, since additions to memory take the time there; pairs in
// which it is not have them (dense_gradients.cuh). Series of few features use ShuffleGradients instead
// (shuffle_gradients.cuh).
#pragma once

#include "cuda/gradients/point_features.cuh"
#include "cuda/pipeline/barrier.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

// E of half a tile, in shared memory, where the adjoint sweep has written it over transition probabilities: [steps]
// [transitions][32 lanes][K], of which E takes the place of the first transition.
template <class Real>
struct SweptHalf {
  static constexpr int next_step = transitions * warp;

  const Rows<Real> *e;
  int step, steps;  // the first step, and how many

  __device__ __forceinline__ const Rows<Real> *of_lane(int u, int lane) const { return e + (u * next_step + lane); }
};

// grad_value of a pair.
template <class Real>
__device__ __forceinline__ Real upstream(const Args &a, int64_t pair) {
  if (!a.grad_value) return 1;
  return a.f64 ? static_cast<Real>(static_cast<const double *>(a.grad_value)[pair])
               : static_cast<Real>(static_cast<const float *>(a.grad_value)[pair]);
}
// The factor 2 g of a pair's gradients, g = grad_value; of unit points, whose costs are half the squared distances, g.
// If it is not finite the factor is NaN, which makes the gradients NaN wherever anything is added.
template <class Real>
__device__ __forceinline__ Real gradient_factor(const Args &a, int64_t pair) {
  const Real g = (a.units ? 1 : 2) * upstream<Real>(a, pair);
  return isfinite(g) ? g : g - g;
}

// Whether gradients are summed up in double: those of float64 series, and of float32 series that are so long that the
// rounding of that many float32 additions would show.
__host__ __device__ __forceinline__ bool has_wide_sums(const Args &a) { return a.f64 || a.wide_sums; }
// Bytes of an element of a series; and of a sum.
__device__ __forceinline__ int64_t series_size(const Args &a) { return a.f64 ? sizeof(double) : sizeof(float); }
__device__ __forceinline__ int64_t sum_size(const Args &a) { return has_wide_sums(a) ? sizeof(double) : sizeof(float); }

// Sums of gradients, of which those of the task's pairs follow each other, as their series need not (Facts).
struct SumsOfPairs : Points {
  char *first;   // the point of the task's first pair at which the task begins
  int64_t pair;  // from a pair to the next

  __device__ __forceinline__ SumsOfPairs(const Args &a, const StripView &s, const sdtw_out &of, int begin, int64_t size)
      : Points(s, of, size), pair(of.stride[0] * size) {
    const int64_t index = a.lanes == warp ? s.pair.index : s.task * (warp >> a.lane_bits);
    first = static_cast<char *>(of.data) + (index * of.stride[0] + begin * of.stride[1]) * size;
  }
  __device__ __forceinline__ char *at(int of_pair, int i) const { return first + of_pair * pair + i * next; }
};

// An entry of a warp's list. For grad_x it stands for the four rows of a lane, and for grad_y for a column of a pair.
struct alignas(8) Item {
  int of;           // the lane; or the column, counted from the one that the pair's lowest lane meets in the first step
  unsigned others;  // bits of the steps in which the lane has any E; or of the lanes that have any E in the column
};

// Transposes a 32 x 32 matrix of bits: bit i of the lane's word becomes bit `lane` of the word of lane i.
__device__ __forceinline__ unsigned transpose(unsigned word) {
  unsigned mask = 0x0000ffffu;
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2, mask ^= mask << step) {
    const unsigned other = __shfl_xor_sync(all_lanes, word, step);
    word = (lane_id() & step) == 0 ? (word & mask) | (other & mask) << step : (word & ~mask) | (other & ~mask) >> step;
  }
  return word;
}

// Adds half a tile of E to the gradients. The steps in which a lane's rows have any E follow each other as a rule, and
// so do the lanes that have any in a column, so an item is worked through from its first bit to its last.
template <class Real>
struct Gradients {
  // What a warp needs to know of a pair.
  struct alignas(8) Facts {
    const char *x, *y;  // the points at which the task begins
    int rows;
    Real factor;  // see gradient_factor; 0 if this kernel does not compute the pair
  };
  // The warp's own part of shared memory: facts of the pairs of a task, and items. There are items for at most 16
  // lanes, one of two warps' share, or for a third of the columns of half a tile: each pair has 16 columns and as many
  // more as its lanes are apart.
  __host__ __device__ static size_t facts_bytes(const Args &a) { return sizeof(Facts) * (warp >> a.lane_bits); }
  __host__ __device__ static size_t notes_bytes(const Args &a) {
    return facts_bytes(a) + sizeof(Item) * (8 + 8 * (warp >> a.lane_bits));
  }

  const Args &a;
  const StripView &s;
  LaneShare<Real> share;
  Points x, y;
  SumsOfPairs out;  // the gradient that the warp adds to
  Facts *facts_of;  // of each pair of the task
  Item *items;      // the warp's list
  int worker;       // the warp's number among those that share the rows, or the columns

  __device__ __forceinline__ Gradients(const Args &args, const StripView &view, bool of_x, int number,
                                       unsigned char *notes)
      : a(args),
        s(view),
        share(args.features),
        x(view, args.x, series_size(args)),
        y(view, args.y, series_size(args)),
        out(args, view, of_x ? args.grad_x : args.grad_y, of_x ? view.row : view.first_column(), sum_size(args)),
        facts_of(reinterpret_cast<Facts *>(notes)),
        items(reinterpret_cast<Item *>(notes + facts_bytes(args))),
        worker(number) {
    __syncwarp();
    if (s.lane == 0)
      facts_of[lane_id() >> a.lane_bits] = {point_of(a.x, x_of(a, s.pair.index), s.row),
                                            point_of(a.y, y_of(a, s.pair.index), s.first_column()), s.pair.n,
                                            s.active ? gradient_factor<Real>(a, s.pair.index) : 0};
  }
  __device__ __forceinline__ const char *point_of(const sdtw_in &in, int64_t series, int i) const {
    return static_cast<const char *>(in.data) + (series * in.stride[0] + i * in.stride[1]) * series_size(a);
  }

  __device__ __forceinline__ int top() const { return a.lanes - 1; }
  // The pair of a lane among the task's, and the lane's first row, counted as the task meets the pair's rows.
  __device__ __forceinline__ int pair_of(int lane) const { return lane >> a.lane_bits; }
  __device__ __forceinline__ int row_of(int lane) const { return (lane & top()) * K; }
  // Whether a row, as the task counts it, is one of the pair's `rows`.
  __device__ __forceinline__ bool exists(int row, int rows) const {
    return static_cast<unsigned>(s.row + s.sign() * row) < static_cast<unsigned>(rows);
  }
  // Appends the items of the lanes that have one to the list, which has `found`. Gives the new number of items.
  __device__ __forceinline__ int note(bool has, int of, unsigned others, int found) const {
    const unsigned all = __ballot_sync(all_lanes, has);
    if (has) items[found + __popc(all & ((1u << lane_id()) - 1))] = {of, others};
    return found + __popc(all);
  }

  // Adds to grad_x, features from f on. any: bits of the steps in which the lane's rows have any E.
  template <int workers, class Element, Layout layout, bool wide_sums>
  __device__ __forceinline__ void to_x(const SweptHalf<Real> &half, unsigned any, int f) const {
    using Own = Features<Real, Element, layout, wide_sums>;
    const Own own(a, share.lane, f);
    const int64_t of_x = own.along(x), of_y = own.along(y), of_out = own.along_sums(out);
    __syncwarp();
    const int found = note(any != 0 && lane_id() % workers == worker, lane_id(), any, 0);
    __syncwarp();
    for (int i = share.point; i < found; i += share.points()) {
      const auto [lane, steps] = items[i];
      const int pair = pair_of(lane), row = row_of(lane), end = warp - __clz(steps);
      const Facts facts = facts_of[pair];
      typename Own::Loaded here[K]{};
      typename Own::Sum sum[K];
      const char *point = facts.x + row * x.next + own.offset(x);
#pragma unroll
      for (int k = 0; k < K && !Own::of_units; k++, point += x.next)
        here[k] = own.load(point, of_x, exists(row + k, facts.rows));
      int u = __ffs(steps) - 1;
      const Rows<Real> *e = half.of_lane(u, lane);
      point = facts.y + (half.step + u - (lane & top())) * y.next + own.offset(y);
#pragma unroll 1
      for (; u < end; u++, point += y.next, e += half.next_step) {
        const typename Own::Loaded other = own.load(point, of_y, true);
        const Rows<Real> here_e = *e;
#pragma unroll
        for (int k = 0; k < K; k++) sum[k].add(here_e.v[k], here[k], other);
      }
      char *to = out.at(pair, row) + own.offset_of_sums(out);
#pragma unroll
      for (int k = 0; k < K; k++, to += out.next)
        if (exists(row + k, facts.rows)) own.add(to, of_out, facts.factor, sum[k]);
    }
  }

  // Adds to grad_y likewise. What belongs to columns [separate, separate_end) of the pair is added to `side` instead.
  template <int workers, class Element, Layout layout, bool wide_sums>
  __device__ __forceinline__ void to_y(const SweptHalf<Real> &half, unsigned any, int f, int separate,
                                       int separate_end) const {
    using Own = Features<Real, Element, layout, wide_sums>;
    const Own own(a, share.lane, f);
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
      typename Own::Loaded here{};
      if (!Own::of_units) here = own.load(facts.y + column * y.next + own.offset(y), of_y, true);
      typename Own::Sum sum;
      const char *point = facts.x + row * x.next + own.offset(x);
      const Rows<Real> *e = half.of_lane(c - top() + (lane & top()), lane);
#pragma unroll 1
      for (; lane < end; lane++, row += K, e += half.next_step + 1) {
        typename Own::Loaded points[K];
#pragma unroll
        for (int k = 0; k < K; k++, point += x.next) points[k] = own.load(point, of_x, exists(row + k, facts.rows));
        const Rows<Real> here_e = *e;
#pragma unroll
        for (int k = 0; k < K; k++) sum.add(here_e.v[k], here, points[k]);
      }
      const int j = s.column_of(s.pair, column);
      if (j >= separate && j < separate_end) {
        const SumsOfPairs side(a, s, a.side, j - separate, sum_size(a));
        own.add(side.first + own.offset_of_sums(side), own.along_sums(side), facts.factor, sum);
      } else {
        own.add(out.at(pair, column) + own.offset_of_sums(out), of_out, facts.factor, sum);
      }
    }
  }
};

}  // namespace sdtw::cuda
