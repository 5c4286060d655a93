// Squared distances of up to eight features for FloatCell, which the sweeping warp computes itself, with x in registers
// and y in shared memory: in forward InlineCosts, with a ring of columns, and in backward InlineWindow.
// They are computed relative to the first point of x, in float64 or in integers (coordinates.cuh). Costs of more
// features are computed by producer warps (tile_costs.cuh). Invariant: where a lane is left of the first column or
// beyond the last, its costs are finite, of whichever column.
//
// The interface of a source of costs. begin: a task. Forward, for each block of 16 steps: enter (the block's costs are
// ready from then on; begins: it is the task's first) and, in its middle, stage (work for the next block). Backward:
// look_ahead (asks for the columns of some steps) and window (makes them ready), which sources with producer warps do
// without. seek: the step from which on costs(u, ...) counts its steps. bound, of FloatCell's: a bound of the costs
// that it has met.
#pragma once

#include "cuda/costs/coordinates.cuh"

namespace sdtw::cuda {

constexpr int block_steps = 16;  // steps for which forward stages columns at a time
constexpr int ring_columns = 64;

// LargeOf<Source>::type: the same source for LongCell. It lies as Source does in shared memory.
template <class Source>
struct LargeOf;
// InBackward<Source>::type: what backward has instead of a source.
template <class Source>
struct InBackward {
  using type = Source;
};

// Tells InlineCosts from other sources.
struct InlineBase {};

// How far some points of a pair lie from its origin: the largest squared distance of scaled coordinates, as bits of a
// float, of which a NaN is the largest. Of one feature it is how far points go to either side: a bound of costs is half
// as large or less then, as origins are seldom in the middle.
template <int D>
struct Reach {
  int most = 0;

  __device__ __forceinline__ void widen(const float (&)[D], const float (&coordinates)[D]) {
    float distance = 0;
#pragma unroll
    for (int f = 0; f < D; f++) distance = fmaf(coordinates[f], coordinates[f], distance);
    most = max(most, __float_as_int(distance) & 0x7fffffff);
  }
  // Of all lanes of the pair.
  __device__ __forceinline__ Reach of_pair(int lanes) const { return {pair_max(most, lanes)}; }
  // A bound of t between points that reach so far.
  static __device__ __forceinline__ float bound(const Reach &x, const Reach &y, double) {
    return bound_of(__int_as_float(x.most), __int_as_float(y.most), 1);
  }
};
template <>
struct Reach<1> {
  float up, down;  // the largest feature and the largest -feature, of the origin as well; NaN if there is one

  __device__ __forceinline__ void widen(const float (&point)[1], const float (&)[1]) {
    up = larger(up, point[0]), down = larger(down, -point[0]);
  }
  __device__ __forceinline__ Reach of_pair(int lanes) const {
    Reach all = *this;
    for (int step = lanes / 2; step > 0; step /= 2) {
      all.up = larger(all.up, __shfl_xor_sync(all_lanes, all.up, step));
      all.down = larger(all.down, __shfl_xor_sync(all_lanes, all.down, step));
    }
    return all;
  }
  static __device__ __forceinline__ float bound(const Reach &x, const Reach &y, double scale) {
    const float most = larger(x.up + y.down, x.down + y.up);
    return most * most * static_cast<float>(scale);
  }
};

// What InlineCosts and InlineWindow have in common.
template <int D>
struct InlinePoints : InlineBase {
  using Number = Coordinates::Number;
  using Origin = Coordinates::Origin;
  static constexpr bool cooperative = false;  // each warp sweeps by itself, without producer warps
  static constexpr int features = D;
  static constexpr bool exact = D <= max_inline_features;  // else points may have fewer, and the others count as 0
  static constexpr bool has_bound = true;                  // it knows early what costs there are

  Number x[K][D];             // (x - origin) sqrt(log2(e) / gamma)
  Origin origin[D];           // the first point of x
  Coordinates::Unit root;     // sqrt(log2(e) / gamma)
  Reach<D> reach_x, reach_y;  // of the lane's rows, and of the columns that it has put into shared memory
  const float *data;          // the task's first column of y, in the caller's array
  int64_t stride[2];          // from a column of the task to the next, and from a feature to the next
  int count;                  // of features
  int columns, lane, lanes;   // of the pair; the lane's number among the pair's lanes; how many these are

  __device__ __forceinline__ void begin(const Args &a, const StripView &s) {
    lane = s.lane, lanes = s.lanes, columns = s.pair.m, count = a.features;
    root = Coordinates::own_unit(a.scale, a.root);
    const float *xs = static_cast<const float *>(a.x.data) + x_of(a, s.pair.index) * a.x.stride[0];
    data =
        static_cast<const float *>(a.y.data) + y_of(a, s.pair.index) * a.y.stride[0] + s.first_column() * a.y.stride[1];
    stride[0] = s.sign() * a.y.stride[1], stride[1] = a.y.stride[2];
#pragma unroll
    for (int f = 0; f < D; f++) origin[f] = feature(xs, a.x.stride[2], f);
    if constexpr (D == 1)
      reach_x = reach_y = {static_cast<float>(origin[0]), -static_cast<float>(origin[0])};
    else
      reach_x = reach_y = {};
#pragma unroll
    for (int k = 0; k < K; k++) {
      const int64_t row = static_cast<int64_t>(clamp(s.row_of(k), s.pair.n)) * a.x.stride[1];
      float point[D], coordinates[D];
#pragma unroll
      for (int f = 0; f < D; f++) {
        point[f] = feature(xs + row, a.x.stride[2], f);
        x[k][f] = scaled(point[f], f, coordinates[f]);
      }
      reach_x.widen(point, coordinates);
    }
  }

  __device__ __forceinline__ float feature(const float *point, int64_t step, int f) const {
    return exact || f < count ? __ldg(point + f * step) : 0;
  }

  __device__ __forceinline__ void fetch(int column, float (&to)[D]) const {
    const float *from = data + clamp(column, columns) * stride[0];
#pragma unroll
    for (int f = 0; f < D; f++) to[f] = feature(from, stride[1], f);
  }
  // A coordinate, and the same in a float's precision.
  __device__ __forceinline__ Number scaled(float value, int f, float &rounded) const {
    Coordinates::Size size;
    const Number result = Coordinates::of(value, origin[f], root, size);
    rounded = static_cast<float>(size);
    return result;
  }
  // The coordinates of a column, of which reach_y takes note.
  __device__ __forceinline__ void convert(const float (&from)[D], Number (&to)[D]) {
    float coordinates[D];
#pragma unroll
    for (int f = 0; f < D; f++) to[f] = scaled(from[f], f, coordinates[f]);
    reach_y.widen(from, coordinates);
  }

  // Notes the columns from `first` on without a look at their costs, so that `bound` is that of them all.
  __device__ __forceinline__ void measure_from(int first) {
    for (int column = first + lane; column < columns; column += lanes) {
      float point[D], coordinates[D];
      fetch(column, point);
#pragma unroll
      for (int f = 0; f < D; f++) scaled(point[f], f, coordinates[f]);
      reach_y.widen(point, coordinates);
    }
  }
  // A bound of the pair's costs t as far as the strip has met them, as bits of a float; a NaN is larger than any. The
  // same in all lanes of the pair.
  __device__ __forceinline__ int bound(const Args &a, const StripView &) const {
    return bound_between(reach_x, reach_y, lanes, a.scale);
  }
  // Not inlined, as it is seldom asked for in the middle of a long loop, whose code is shorter and faster then: values
  // of one and two features take 2 to 5% less.
  static __device__ __noinline__ int bound_between(Reach<D> x, Reach<D> y, int lanes, double scale) {
    return __float_as_int(Reach<D>::bound(x.of_pair(lanes), y.of_pair(lanes), scale)) & 0x7fffffff;
  }
};

// Forward: a ring of columns, of those of a block of steps, the 31 before them that lower lanes still need, and those
// of the next block. Every column is there twice, ring_columns apart, so that the columns of up to 32 steps are
// contiguous wherever they begin.
template <int D>
struct InlineCosts : InlinePoints<D> {
  using Points = InlinePoints<D>;
  using Points::columns, Points::data, Points::feature, Points::lane, Points::lanes, Points::stride;
  using typename Points::Number;
  static constexpr int warps = 4;                 // of a block
  static constexpr int resident = D > 6 ? 2 : 3;  // blocks that registers must leave room for
  static constexpr int unrolled = block_steps;    // steps that are unrolled
  static constexpr int row = 2 * ring_columns;

  // Shared memory of a warp: y as [pairs][D][row].
  __host__ __device__ static size_t bytes(const Args &a) { return sizeof(Number) * D * row * (warp >> a.lane_bits); }

  Number *y;          // y of the lane's pair in shared memory, relative to the origin and scaled as x is
  const Number *at;   // y of the lane's column in the step that was sought
  const float *next;  // the lane's first column of the next block, in the caller's array
  float ahead[D];     // y of the column that the lane has asked for

  __device__ __forceinline__ void begin(const Args &a, const StripView &s, unsigned char *memory) {
    Points::begin(a, s);
    y = reinterpret_cast<Number *>(memory) + (lane_id() >> a.lane_bits) * (D * row);
  }
  // The lanes ask for the columns of the next block at the beginning of a block of steps (enter), and put them into
  // shared memory in its middle (stage). Where a pair has fewer lanes than a block steps, they ask for the others then,
  // and put them there at the end.
  __device__ __forceinline__ void enter(int first, bool begins) {
    if (begins) {
      float left[D];  // columns left of the first: costs no larger than others will do
#pragma unroll
      for (int f = 0; f < D; f++) left[f] = static_cast<float>(this->origin[f]);
      put(first + ring_columns - 1 - lane, left);
      next = data + clamp(first + lane, columns) * stride[0];
      ask(next);
      stage(first);
    }
    if (lanes < block_steps) put(first + lanes + lane, ahead);
    __syncwarp();
    if (lane + first + block_steps < columns) next += block_steps * stride[0];
    ask(next);
  }
  // Beyond the last column an earlier one is loaded again.
  __device__ __forceinline__ void ask(const float *column) {
    if (lane >= block_steps) return;
#pragma unroll
    for (int f = 0; f < D; f++) ahead[f] = feature(column, stride[1], f);
  }
  __device__ __forceinline__ void stage(int first) {
    if (lane < block_steps) put(first + lane, ahead);
    if (lanes < block_steps) ask(first + lane + lanes < columns ? next + lanes * stride[0] : next);
  }
  // Puts a column into the ring, in both places.
  __device__ __forceinline__ void put(int column, const float (&from)[D]) {
    Number coordinates[D];
    this->convert(from, coordinates);
#pragma unroll
    for (int f = 0; f < D; f++) {
      Number *const to = y + f * row + static_cast<unsigned>(column) % ring_columns;
      to[0] = to[ring_columns] = coordinates[f];
    }
  }

  // Steps u of costs are counted from `first` on, up to 32 of them.
  __device__ __forceinline__ void seek(int first) { at = y + static_cast<unsigned>(first - lane) % ring_columns; }
  __device__ __forceinline__ void costs(int u, FloatCost (&cost)[K]) const {
    Coordinates::costs<K, D>(this->x, at + u, row, cost);
  }
};
// The same for LongCell.
template <int D>
struct LargeInlineCosts : InlineCosts<D> {
  __device__ __forceinline__ void costs(int u, FloatCost (&cost)[K]) const {
    Coordinates::large_costs<K, D>(this->x, this->at + u, this->row, cost);
  }
};
template <int D>
struct LargeOf<InlineCosts<D>> {
  using type = LargeInlineCosts<D>;
};

// Backward: the columns that the lanes of a pair meet in a part of a tile, in their order, features of a column side by
// side. All of them are put there at once, so that they need less room than a ring.
template <int D>
struct InlineWindow : InlinePoints<D> {
  using Points = InlinePoints<D>;
  using Points::lane, Points::lanes;
  static constexpr int most = 1 + warp / 8;  // columns of a lane, of which a pair has at least 8
  static constexpr int early = 2;            // of these, which the lane asks for ahead
  static constexpr int no_columns = -1;
  using typename Points::Number;
  struct alignas(D % 2 == 0 ? 16 : 8) Column {
    Number v[D];
  };

  __host__ __device__ static int columns_of(const Args &a) { return max_tile_steps - 1 + (1 << a.lane_bits); }
  // Shared memory of a warp: y as [pairs][columns].
  __host__ __device__ static size_t bytes(const Args &a) {
    return (sizeof(Column) * columns_of(a) * (warp >> a.lane_bits) + 15) / 16 * 16;
  }

  Column *y;              // y of the lane's pair in shared memory, relative to the origin and scaled as x is
  float ahead[early][D];  // y of the first columns of the lane in the part that begins with step `sought`
  int sought;

  __device__ __forceinline__ void begin(const Args &a, const StripView &s, unsigned char *memory) {
    Points::begin(a, s);
    y = reinterpret_cast<Column *>(memory) + (lane_id() >> a.lane_bits) * columns_of(a);
    sought = no_columns;
  }
  // Asks for the lane's column number i of the part that begins with step `first`. The part's first column is that
  // which the pair's last lane meets in that step.
  __device__ __forceinline__ void ask(int first, int i, float (&to)[D]) const {
    this->fetch(first + (i - 1) * lanes + 1 + lane, to);
  }
  // keep(i, point): gets what comes into the window, column i of it, as the caller has given it.
  template <class Keep>
  __device__ __forceinline__ void put(int i, const float (&from)[D], const Keep &keep) {
    if (i * lanes + lane >= max_tile_steps - 1 + lanes) return;
    Column column;
    this->convert(from, column.v);
    y[i * lanes + lane] = column;
    keep(i * lanes + lane, from);
  }
  __device__ __forceinline__ void look_ahead(int first, int) {
    sought = first;
#pragma unroll
    for (int i = 0; i < early; i++) ask(first, i, ahead[i]);
  }
  __device__ __forceinline__ void window(int first, int steps) {
    window(first, steps, [](int, const float(&)[D]) {});
  }
  template <class Keep>
  __device__ __forceinline__ void window(int first, int steps, const Keep &keep) {
    if (sought != first) look_ahead(first, steps);
    float late[most - early][D];
    if (lanes < warp) {
#pragma unroll
      for (int i = early; i < most; i++) ask(first, i, late[i - early]);
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < early; i++) put(i, ahead[i], keep);
    if (lanes < warp) {
#pragma unroll
      for (int i = early; i < most; i++) put(i, late[i - early], keep);
    }
    __syncwarp();
  }
  __device__ __forceinline__ void seek(int) const {}
  // The column of the window that the lane meets in step u.
  __device__ __forceinline__ int column_of(int u) const { return lanes - 1 - lane + u; }
  __device__ __forceinline__ void costs(int u, FloatCost (&cost)[K]) const {
    const Column column = y[column_of(u)];
    Coordinates::costs<K, D>(this->x, column.v, 1, cost);
  }
};
template <int D>
struct InBackward<InlineCosts<D>> {
  using type = InlineWindow<D>;
};
// The same for LongCell.
template <int D>
struct LargeInlineWindow : InlineWindow<D> {
  __device__ __forceinline__ void costs(int u, FloatCost (&cost)[K]) const {
    const auto column = this->y[this->column_of(u)];
    Coordinates::large_costs<K, D>(this->x, column.v, 1, cost);
  }
};
template <int D>
struct LargeOf<InlineWindow<D>> {
  using type = LargeInlineWindow<D>;
};
template <int D>
struct InBackward<LargeInlineCosts<D>> {
  using type = LargeInlineWindow<D>;
};

}  // namespace sdtw::cuda
