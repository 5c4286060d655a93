// Before forward, for Costs::tensor: norms of the points of each pair and bounds of its costs. Each norm is written by
// one thread and bounds are maxima, so results do not depend on the order of blocks.
#include <algorithm>

#include "cuda/costs/digits.cuh"
#include "cuda/launch.h"
#include "cuda/pair.cuh"

namespace sdtw::cuda {
namespace {

constexpr int most_threads = 256, blocks_of_multiprocessor = 4, features_of_lane = 8, points_of_lane = 2;

// Of a point p, with o = x_0 of its pair: distance = |p - o|^2 and product = <o, p - o>.
struct Measures {
  double distance = 0, product = 0;

  __device__ __forceinline__ void add(double from, float of_point) {
    const double difference = of_point - from;
    distance = fma(difference, difference, distance);
    product = fma(from, difference, product);
  }
};

// |p - o|^2 of its coordinates cut into digits, for SliceCosts of FloatCell.
struct MeasuresOfDigits {
  double distance = 0;
  float up = 0;  // see FiveDigits

  __device__ __forceinline__ void add(float from, float of_point) {
    const FiveDigits::Cut cut(difference(of_point, from), up);
    const double coordinate = cut.high * 0x1p-8 + cut.low * 0x1p-32;
    distance = fma(coordinate, coordinate, distance);
  }
};

// What a lane has of a pair's points: up to `most` features of each, or these of one group of features after the other.
// 2^lane_bits lanes measure a point together. vec4: features can be loaded four at a time.
template <bool vec4>
struct Share {
  static constexpr int most = features_of_lane, together = vec4 ? 4 : 1;

  const Args &a;
  int lanes, lane, groups;
  float origin[most];  // the lane's features of x_0, in the group that was loaded last

  __device__ __forceinline__ Share(const Args &args, int lane_bits)
      : a(args),
        lanes(1 << lane_bits),
        lane(threadIdx.x & (lanes - 1)),
        groups((args.features + (most << lane_bits) - 1) / (most << lane_bits)) {}

  // The lane's features of a group, of the point at element `at`; zeros beyond the last.
  __device__ __forceinline__ void load(const sdtw_in &series, int64_t at, int group, float (&v)[most]) const {
    int f = group * most * lanes + together * lane;
    const int64_t step = together * lanes * series.stride[2];
    const float *from = static_cast<const float *>(series.data) + at + f * series.stride[2];
#pragma unroll
    for (int i = 0; i < most; i += together, f += together * lanes, from += step) {
      if constexpr (vec4) {
        const float4 four = f < a.features ? __ldg(reinterpret_cast<const float4 *>(from)) : float4{};
        v[i] = four.x, v[i + 1] = four.y, v[i + 2] = four.z, v[i + 3] = four.w;
      } else {
        v[i] = f < a.features ? __ldg(from) : 0;
      }
    }
  }
  __device__ __forceinline__ void load_origin(int64_t pair, int group) {
    load(a.x, x_of(a, pair) * a.x.stride[0], group, origin);
  }
};

// Writes the norms of a series' points, as TensorCosts or SliceCosts need them, and gives the largest squared distance
// from x_0 as bits of a float: compared as integers, a NaN is the largest of all. A lane measures its share of two
// points at a time, so that loads of both are under way.
template <bool of_x, bool slices, class Share>
__device__ __forceinline__ int measure(Share &share, const sdtw_in &series, int64_t pair, int size, double *norms) {
  constexpr int at_once = points_of_lane;
  const Args &a = share.a;
  const int points = static_cast<int>(blockDim.x) / share.lanes, own = threadIdx.x / share.lanes;
  const int64_t begin = (of_x ? x_of(a, pair) : y_of(a, pair)) * series.stride[0];
  int largest = 0;
  // All lanes of a warp take part in its shuffles, so lanes past the end measure the last point again.
  for (int first = blockIdx.x * at_once * points; first < size; first += gridDim.x * at_once * points) {
    int point[at_once];
    float here[at_once][Share::most];
    const auto load = [&](int group) {
      if (share.groups > 1) share.load_origin(pair, group);
#pragma unroll
      for (int k = 0; k < at_once; k++) {
        point[k] = min(first + k * points + own, size - 1);
        share.load(series, begin + point[k] * series.stride[1], group, here[k]);
      }
    };
    // Calls visit with a point's number and the lane's coordinates of the origin and of the point. there: they are
    // loaded already, unless there are several groups.
    const auto each = [&](bool there, auto visit) {
      for (int group = 0; group < share.groups; group++) {
        if (!there || share.groups > 1) load(group);
#pragma unroll
        for (int k = 0; k < at_once; k++)
#pragma unroll
          for (int i = 0; i < Share::most; i++) visit(k, share.origin[i], here[k][i]);
      }
    };
    const auto note = [&](double distance) {
      largest = max(largest, __float_as_int(static_cast<float>(distance)) & 0x7fffffff);
    };
    if constexpr (!slices) {
      Measures sum[at_once];
      each(false, [&](int k, double from, float of_point) { sum[k].add(from, of_point); });
      for (int step = share.lanes / 2; step > 0; step /= 2)
#pragma unroll
        for (int k = 0; k < at_once; k++) {
          sum[k].distance += __shfl_xor_sync(all_lanes, sum[k].distance, step);
          sum[k].product += __shfl_xor_sync(all_lanes, sum[k].product, step);
        }
#pragma unroll
      for (int k = 0; k < at_once; k++) {
        const double distance = sum[k].distance;
        if (share.lane == 0) norms[point[k]] = a.scale * (of_x ? distance : distance + 2 * sum[k].product);
        note(distance);
      }
    } else {
      int most[at_once]{};
      each(false, [&](int k, float from, float of_point) {
        most[k] = max(most[k], __float_as_int(of_point - from) & 0x7fffffff);
      });
      for (int step = share.lanes / 2; step > 0; step /= 2)
#pragma unroll
        for (int k = 0; k < at_once; k++) most[k] = max(most[k], __shfl_xor_sync(all_lanes, most[k], step));
      MeasuresOfDigits sum[at_once];
#pragma unroll
      for (int k = 0; k < at_once; k++) sum[k].up = power_of_2(choose_exponent(__int_as_float(most[k])) + 8);
      each(true, [&](int k, float from, float of_point) { sum[k].add(from, of_point); });
      for (int step = share.lanes / 2; step > 0; step /= 2)
#pragma unroll
        for (int k = 0; k < at_once; k++) sum[k].distance += __shfl_xor_sync(all_lanes, sum[k].distance, step);
#pragma unroll
      for (int k = 0; k < at_once; k++) {
        const int exponent = choose_exponent(__int_as_float(most[k]));
        const double unit = __hiloint2double((1023 - 2 * exponent) << 20, 0);
        // Infinities and NaN have no digits.
        const double distance = most[k] < 0x7f800000 ? sum[k].distance * unit : __int_as_float(0x7fc00000);
        if (share.lane == 0) reinterpret_cast<PointWord *>(norms)[point[k]] = point_word(a.scale * distance, exponent);
        note(distance);
      }
    }
  }
  // At such a gamma squares that are nothing as floats may be large costs.
  return core::is_float_scale(a.scale) ? warp_max(largest) : rejected;
}

// |x_0|^2 as bits of a float, computed by a warp.
__device__ int measure_origin(const Args &a, int64_t pair) {
  float sum = 0;
  const int64_t origin = x_of(a, pair) * a.x.stride[0];
  for (int f = lane_id(); f < a.features; f += warp) {
    const float v = load<float>(a.x.data, origin + f * a.x.stride[2], false);
    sum = fmaf(v, v, sum);
  }
  for (int step = warp / 2; step > 0; step /= 2) sum += __shfl_xor_sync(all_lanes, sum, step);
  return __float_as_int(sum) & 0x7fffffff;
}

// Norms and bounds of both series of each pair: with gridDim.z = 2 blocks with z = 0 measure x and the others y; with 1
// every block measures x and then y.
template <bool vec4, bool slices>
__global__ void __launch_bounds__(most_threads, blocks_of_multiprocessor)
    bounds_kernel(const __grid_constant__ Args a, int lane_bits) {
  let_next_kernel_in();
  wait_for_kernel_before();
  Share<vec4> share(a, lane_bits);
  for (int64_t b = blockIdx.y; b < a.batch; b += gridDim.y) {
    const Pair pair = read_pair(a, b);
    if (pair.lengths != LengthCase::regular) continue;
    int *bounds = a.bounds + bounds_per_pair * b;
    double *norms = norms_of(a, b);
    if (share.groups == 1) share.load_origin(b, 0);
    if (blockIdx.z == 0) {
      const int largest = measure<true, slices>(share, a.x, b, pair.n, norms);
      if (lane_id() == 0) atomicMax(bounds, largest);
    }
    if (blockIdx.z == gridDim.z - 1) {
      const int largest = measure<false, slices>(share, a.y, b, pair.m, norms + a.n);
      if (lane_id() == 0) atomicMax(bounds + 1, largest);
    }
    if (blockIdx.z > 0 || blockIdx.x > 0 || threadIdx.x >= warp) continue;
    const int origin = measure_origin(a, b);
    if (lane_id() == 0) bounds[2] = origin;
  }
}

}  // namespace

void launch_bounds(const Args &a, cudaStream_t stream) {
  const bool vec4 = are_vec4(a);
  const int64_t steps = std::max(a.n, a.m);
  // A lane has up to eight features, or more if a warp's 32 lanes do not suffice; and fewer where points are few.
  int lane_bits = 0, threads = most_threads;
  while (features_of_lane << lane_bits < a.features && 1 << lane_bits < warp) lane_bits++;
  const auto holds = [&](int some, int bits) { return points_of_lane * (some >> bits) >= steps; };
  while (threads > warp && holds(threads / 2, lane_bits)) threads /= 2;
  while (1 << lane_bits < warp && holds(threads, lane_bits + 1)) lane_bits++;
  const int64_t points = points_of_lane * (threads >> lane_bits), blocks = (steps + points - 1) / points;
  dim3 grid(static_cast<unsigned>(std::min<int64_t>(blocks, 256)),
            static_cast<unsigned>(std::min<int64_t>(a.batch, 65535)));
  constexpr unsigned many = 2048;  // blocks: an H200 holds about 500, and more than `many` are not faster
  if (grid.x * grid.y < many) grid.z = 2;
  const auto kernel = a.slices ? (vec4 ? bounds_kernel<true, true> : bounds_kernel<false, true>)
                               : (vec4 ? bounds_kernel<true, false> : bounds_kernel<false, false>);
  launch_kernel(false, kernel, grid, threads, 0, stream, a, lane_bits);
}

}  // namespace sdtw::cuda
