// Squared distances of one or two features, taken by the sweeping warp itself: x in registers, y in shared memory. They
// are computed in float64, which costs no more here than splitting a float32 distance would: the sum that takes t apart
// is part of the squares' sum.
#pragma once

#include "cuda/pair.cuh"

namespace sdtw::cuda {

constexpr int block_steps = 16;  // forward stages what it needs for so many steps at a time
constexpr int ring_columns =
    64;  // a block's, those of the 31 columns before that lanes still need, and the next block's

// Backward: sources of costs that serve all pairs of their engine.
struct TakesAll {
  static constexpr bool second = false;
  static __device__ __forceinline__ bool takes(const Args &, const Pair &) { return true; }
};

struct InlineBase : TakesAll {};

template <int D>
struct InlineCosts : InlineBase {
  static constexpr bool cooperative = false;    // warps do not need each other
  static constexpr int warps = 4;               // of a block of forward
  static constexpr int resident = 3;            // blocks of forward that registers must leave room for
  static constexpr int unrolled = block_steps;  // steps of forward
  static constexpr int features = D;
  static constexpr int row = 2 * ring_columns;
  static constexpr int no_columns = -1;

  // y of a warp: [pairs][D][2 ring_columns], every column twice, so that a few that follow each other always lie so.
  __host__ __device__ static size_t bytes(const Args &a) { return sizeof(double) * D * row * (warp >> a.lane_bits); }

  double x[K][D];    // (x - origin) sqrt(log2(e) / gamma)
  double *y;         // the same, of the lane's pair
  const double *at;  // that of the lane's column in the step that was sought
  double origin[D], root;
  int reach_x, reach_y;      // largest squared distances from the origin, as bits: a NaN is the largest of all
  const float *data;         // of the task's first column
  int64_t stride[2];         // to the next, and of its features
  int columns, lane, lanes;  // m; the lane's among those of the pair
  const float *next;         // forward: of the lane's first column of the next block
  float ahead[2][D];         // y of the next block
  int sought;                // backward: the steps whose y that is

  __device__ __forceinline__ void begin(const Args &a, const StripView &s, unsigned char *memory) {
    lane = s.lane, lanes = s.lanes, columns = s.pair.m;
    y = reinterpret_cast<double *>(memory) + (lane_id() >> a.lane_bits) * (D * row);
    sought = no_columns;
    root = sqrt(a.scale);
    reach_x = reach_y = 0;
    const float *xs = static_cast<const float *>(a.x.data) + s.pair.index * a.x.stride[0];
    data = static_cast<const float *>(a.y.data) + s.pair.index * a.y.stride[0] + s.first_column() * a.y.stride[1];
    stride[0] = s.sign() * a.y.stride[1], stride[1] = a.y.stride[2];
#pragma unroll
    for (int f = 0; f < D; f++) origin[f] = __ldg(xs + f * a.x.stride[2]);
#pragma unroll
    for (int k = 0; k < K; k++) {
      const int64_t row = static_cast<int64_t>(clamp(s.row_of(k), s.pair.n)) * a.x.stride[1];
      float distance = 0;
#pragma unroll
      for (int f = 0; f < D; f++) {
        x[k][f] = (__ldg(xs + row + f * a.x.stride[2]) - origin[f]) * root;
        distance += static_cast<float>(x[k][f] * x[k][f]);
      }
      widen(reach_x, distance);
    }
  }

  static __device__ __forceinline__ void widen(int &reach, float distance) {
    reach = max(reach, __float_as_int(distance) & 0x7fffffff);
  }

  __device__ __forceinline__ void fetch(int column, float (&to)[D]) const {
    const float *from = data + clamp(column, columns) * stride[0];
#pragma unroll
    for (int f = 0; f < D; f++) to[f] = __ldg(from + f * stride[1]);
  }
  __device__ __forceinline__ double scaled(float value, int f) const { return (value - origin[f]) * root; }
  // Backward: asks for the columns of some steps, and makes them ready.
  __device__ __forceinline__ void look_ahead(int first, int steps) {
    sought = lanes == warp && steps <= warp ? first : no_columns;
    if (sought == no_columns) return;
#pragma unroll
    for (int i = 0; i < 2; i++) fetch(first + (i - 1) * warp + lane, ahead[i]);
  }
  __device__ __forceinline__ void window(int first, int steps) {
    if (sought != first) look_ahead(first, steps);
    __syncwarp();
    if (sought == first) {
#pragma unroll
      for (int i = 0; i < 2; i++) put(first + (i - 1) * warp + lane, ahead[i]);
    } else {
      for (int column = first - (warp - 1) + lane; column < first + steps; column += lanes) {
        float value[D];
        fetch(column, value);
        put(column, value);
      }
    }
    __syncwarp();
  }
  __device__ __forceinline__ void put(int column, const float (&from)[D]) {
    float distance = 0;
#pragma unroll
    for (int f = 0; f < D; f++) {
      const double v = scaled(from[f], f);
      double *to = y + f * row + static_cast<unsigned>(column) % ring_columns;
      to[0] = to[ring_columns] = v;
      distance += static_cast<float>(v * v);
    }
    widen(reach_y, distance);
  }

  // Forward: at the beginning of a block of steps its columns are ready, and those of the next are asked for; in the
  // middle of it they are put where the next will find them.
  __device__ __forceinline__ void enter(int first) {
    if (first == 0) {
      const float zero[D] = {};
      put(ring_columns - 1 - lane, zero);  // columns left of the first: any number will do
      reach_y = 0;
      next = data + clamp(lane, columns) * stride[0];
      ask(0);
      stage(0);
    }
    __syncwarp();
    if (lane + first + block_steps < columns) next += block_steps * stride[0];
    ask(first + block_steps);
  }
  // Beyond the last column any other does as well.
  __device__ __forceinline__ void ask(int first) {
    if (lane >= block_steps) return;
#pragma unroll
    for (int f = 0; f < D; f++) ahead[0][f] = __ldg(next + f * stride[1]);
    if (lanes >= block_steps) return;
    const int64_t further = first + lane + lanes < columns ? lanes * stride[0] : 0;
#pragma unroll
    for (int f = 0; f < D; f++) ahead[1][f] = __ldg(next + further + f * stride[1]);
  }
  __device__ __forceinline__ void stage(int first) {
#pragma unroll
    for (int i = 0; i < 2; i++)
      if (lane + i * lanes < block_steps) put(first + lane + i * lanes, ahead[i]);
  }

  // Steps are counted from `first` on, up to 32 of them.
  __device__ __forceinline__ void seek(int first) { at = y + static_cast<unsigned>(first - lane) % ring_columns; }

  __device__ __forceinline__ void costs(int u, FloatCell::Cost (&cost)[K]) const {
    double sum[K];
#pragma unroll
    for (int k = 0; k < K; k++) sum[k] = fixed_point;
#pragma unroll
    for (int f = 0; f < D; f++) {
      const double yf = at[f * row + u];
#pragma unroll
      for (int k = 0; k < K; k++) {
        const double difference = x[k][f] - yf;
        sum[k] = fma(difference, difference, sum[k]);
      }
    }
#pragma unroll
    for (int k = 0; k < K; k++) cost[k] = FloatCell::split_fixed(sum[k]);
  }

  // Whether costs may have been met that are too large for the float engine. For all lanes of a pair.
  __device__ __forceinline__ bool exceeded(const Args &a, const StripView &s) const {
    const float bound = bound_of(__int_as_float(pair_max(reach_x, lanes)), __int_as_float(pair_max(reach_y, lanes)), 1);
    return !(bound <= float_limit(a, s.pair));
  }
};

}  // namespace sdtw::cuda
