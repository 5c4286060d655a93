// Pairs that the streams have left, in double, a warp each: NaN and infinities, costs that are too large for the float
// engine. Their values are `mark` until then. A warp goes through the strips of a pair one after the other and keeps
// the row between two strips in global memory.
#pragma once

#include "cuda/streams/stream.cuh"

namespace sdtw::cuda::streams {

constexpr int exact_warps = 4;  // of a block

// R itself; a cost of infinity forbids its cell.
struct ExactHard {
  using Z = DoubleCell::Z;  // m = R, e unused
  Strip<DoubleCell> strip;  // of which z.m, above.m, upper and lowest are used

  static __device__ __forceinline__ Z forbidden() { return {infinity, 0}; }
  static __device__ __forceinline__ Z origin() { return {0, 0}; }
  __device__ __forceinline__ void step(const Args &, const double (&cost)[K], const Z &top, const LaneGate<K> &gate) {
    double up = __shfl_sync(all_lanes, strip.lowest ? top.m : strip.z[K - 1].m, strip.upper);
    double corner = strip.above.m;
    strip.above.m = up;
#pragma unroll
    for (int k = 0; k < K; k++) {
      const double left = strip.z[k].m, best = fmin(fmin(corner, left), up);
      strip.z[k].m = up = gate.admits(k) ? best + cost[k] : infinity;
      corner = left;
    }
  }
  __device__ __forceinline__ void renormalise() {}
  __device__ __forceinline__ double value(const Args &, const Z &z) const { return z.m; }
};

struct ExactSoft {
  using Z = DoubleCell::Z;
  Strip<DoubleCell> strip;

  static __device__ __forceinline__ Z forbidden() { return DoubleCell::forbidden(); }
  static __device__ __forceinline__ Z origin() { return DoubleCell::one(); }
  __device__ __forceinline__ void step(const Args &a, const double (&cost)[K], const Z &top, const LaneGate<K> &gate) {
    DoubleCell::Cost split[K];
    const DoubleCell::Scale scale(a.scale);
#pragma unroll
    for (int k = 0; k < K; k++) split[k] = DoubleCell::split(gate.admits(k) ? cost[k] : 0, scale);
    strip.step<false, true>(
        split, top, [] {}, nullptr, gate);
  }
  __device__ __forceinline__ void renormalise() { strip.renormalise(); }
  __device__ __forceinline__ double value(const Args &a, const Z &z) const {
    if (z.m != z.m) return z.m;
    if (!(z.e > -core::Exponent<double>::limit)) return infinity;
    return -(z.e + log2(z.m)) / a.scale;
  }
};

// The value of a pair, in all lanes.
template <class Exact>
__device__ __noinline__ double exact_value(const Args &a, int64_t x, int64_t y, Word *row) {
  using Z = typename Exact::Z;
  const int n = length_of_x(a, x), m = length_of_y(a, y), lane = lane_id();
  const auto point = [&](const general::Series &series, int64_t i, int row, double(&to)[max_stream_features]) {
#pragma unroll
    for (int f = 0; f < max_stream_features; f++)
      to[f] = f < a.features
                  ? element<double>(series.data, i * series.stride[0] + row * series.stride[1] + f * series.stride[2],
                                    series.dtype)
                  : 0;
  };
  double result = 0;
  bool bad = false;  // whether a cost that the band admits is NaN: then the value is, whether a path meets it or not
  Exact exact{};
  for (int first = 0; first < n; first += K * warp) {
    const int own = first + lane * K, last = min(n - first, K * warp) - 1;
    Strip<DoubleCell> &strip = exact.strip;
#pragma unroll
    for (int k = 0; k < K; k++) strip.z[k] = Exact::forbidden();
    strip.above = first == 0 && lane == 0 ? Exact::origin() : Exact::forbidden();
    strip.upper = (lane + warp - 1) % warp, strip.lowest = lane == warp - 1;
    const int end_lane = last / K;
    double of_x[K][max_stream_features];
#pragma unroll
    for (int k = 0; k < K; k++) point(a.x, x, clamp(own + k, n), of_x[k]);
    for (int step = 0; step < m + end_lane; step++) {
      const int column = step - lane;
      const bool inside = column >= 0 && column < m;
      const LaneGate<K> gate(inside ? admitted_rows(a, n, m, column) : 0, own);
      double cost[K], of_y[max_stream_features];
      point(a.y, y, clamp(column, m), of_y);
#pragma unroll
      for (int k = 0; k < K; k++) {
        cost[k] = 0;
#pragma unroll
        for (int f = 0; f < max_stream_features; f++) {
          const double difference = of_x[k][f] - of_y[f];
          cost[k] = a.metric == SDTW_CITYBLOCK ? cost[k] + fabs(difference) : fma(difference, difference, cost[k]);
        }
        if (a.metric == SDTW_EUCLIDEAN) cost[k] = sqrt(cost[k]);
        bad |= gate.admits(k) && cost[k] != cost[k];
      }
      Z top = Exact::forbidden();
      if (first > 0 && step < m) top = {__longlong_as_double(row[2 * step]), __longlong_as_double(row[2 * step + 1])};
      exact.step(a, cost, top, gate);
      if (step % renormalise_every == renormalise_every - 1) exact.renormalise();
      if (first + K * warp < n && lane == warp - 1 && inside) {
        row[2 * column] = __double_as_longlong(strip.z[K - 1].m);
        row[2 * column + 1] = __double_as_longlong(strip.z[K - 1].e);
      }
      __syncwarp();
    }
    if (first + K * warp < n) continue;
    Z corner = Exact::forbidden();
#pragma unroll
    for (int k = 0; k < K; k++)
      if (k == last % K) corner = strip.z[k];
    result = exact.value(a, DoubleCell::shuffle(corner, end_lane));
  }
  return __any_sync(all_lanes, bad) ? __longlong_as_double(0x7ff8000000000000ll) : result;
}

template <class Exact>
__global__ void __launch_bounds__(exact_warps *warp) exact_kernel(const __grid_constant__ Args a) {
  wait_for_kernel_before();
  if (a.control->left == 0) return;
  const int64_t own = static_cast<int64_t>(blockIdx.x) * exact_warps + threadIdx.x / warp;
  const int64_t warps = static_cast<int64_t>(gridDim.x) * exact_warps;
  const int64_t pairs = a.every_pair ? a.batch_x * a.batch_y : a.batch_y;
  const int64_t each = min(int64_t{warp}, (pairs + warps - 1) / warps), turns = (pairs + each - 1) / each;
  const bool by_x = a.value_stride[1] == 1;  // pairs, which are numbered as their values lie, come x by x
  Word *const row = a.rows ? a.rows + own * 2 * a.m : nullptr;
  // A warp looks at `each` pairs at a time. Those of a series that is no good lie side by side: different warps take
  // them.
  for (int64_t turn = own; turn < turns; turn += warps) {
    const int64_t pair = lane_id() * turns + turn;
    const auto series_x = [&](int64_t p) { return !a.every_pair ? p : by_x ? p / a.batch_y : p % a.batch_x; };
    const auto series_y = [&](int64_t p) { return !a.every_pair ? p : by_x ? p % a.batch_y : p / a.batch_x; };
    const bool wanted = lane_id() < each && pair < pairs && __float_as_uint(a.value[pair]) == mark &&
                        !(a.symmetric && series_x(pair) > series_y(pair));
    for (unsigned left = __ballot_sync(all_lanes, wanted); left; left &= left - 1) {
      const int64_t of = (__ffs(static_cast<int>(left)) - 1) * turns + turn;
      const double value = exact_value<Exact>(a, series_x(of), series_y(of), row);
      if (lane_id() == 0) put_value(a, series_x(of), series_y(of), value);
      __syncwarp();
    }
  }
}

}  // namespace sdtw::cuda::streams
