// What becomes of E of a short pair, by a block: gradients of its points, or E itself.
#pragma once

#include "cuda/short_pairs/block.cuh"

namespace sdtw::cuda::short_pairs {

// Points of both series in shared memory, behind the plane that has E: 64 features at a time, x and then y. As copies
// are of up to eight points at once, there is room for seven more.
constexpr int gradient_features = 2 * warp;
template <int R>
__host__ __device__ constexpr size_t bytes_of_gradients(int columns) {
  return (Planes<R>::size_for(columns) + (Planes<R>::rows + columns + 7) * gradient_features) * sizeof(float);
}

// The gradients of the points of one series, of these features: `factor` times the sum of E times their differences
// from the other's points. A warp has a point at a time, and a lane two of its features. E is sparse: a few cells of a
// row, or of a column, have any.
template <int R, bool of_x>
__device__ __forceinline__ void store_gradients(const Args &a, const Pair &pair, const Planes<R> &planes,
                                                const float *own, const float *other, int first, float factor) {
  constexpr int parts = of_x ? most_columns / warp : R;  // of the other series, 32 points each
  const sdtw_out &out = of_x ? a.grad_x : a.grad_y;
  if (!out.data) return;
  const int size = of_x ? pair.n : pair.m, others = of_x ? pair.m : pair.n, padded = of_x ? a.n : a.m;
  const int lane = lane_id(), feature = first + lane;
  const bool has_first = feature < a.features, has_second = feature + warp < a.features;
  float *to = static_cast<float *>(out.data) + pair.index * out.stride[0] + feature * out.stride[2];
  const int64_t to_second = warp * out.stride[2];
  for (int point = threadIdx.x / warp; point < padded; point += warps) {
    float sum = 0, second = 0;
    if (point < size) {
      float e[parts];
#pragma unroll
      for (int part = 0; part < parts; part++) {
        const int index = part * warp + lane;
        e[part] =
            index < others ? planes.data[of_x ? Planes<R>::place(point, index) : Planes<R>::place(index, point)] : 0;
      }
      const float *here = own + point * gradient_features + lane;
      const float of_own = here[0], second_of_own = here[warp];
#pragma unroll
      for (int part = 0; part < parts; part++)
        for (unsigned live = __ballot_sync(all_lanes, is_live(e[part])); live != 0; live &= live - 1) {
          const int index = __ffs(static_cast<int>(live)) - 1;
          const float weight = __shfl_sync(all_lanes, e[part], index);
          const float *there = other + (part * warp + index) * gradient_features + lane;
          sum = fmaf(weight, of_own - there[0], sum);
          second = fmaf(weight, second_of_own - there[warp], second);
        }
    }
    float *of_point = to + point * out.stride[1];
    if (has_first) *of_point = factor * sum;
    if (has_second) of_point[to_second] = factor * second;
  }
}

// All gradients of a pair.
template <int R>
__device__ __forceinline__ void store_gradients(const Args &a, const Pair &pair, const Planes<R> &planes,
                                                float factor) {
  float *const x = planes.data + planes.size, *const y = x + Planes<R>::rows * gradient_features;
  const bool by_16_bytes = is_vec4(a.x, a.features) && is_vec4(a.y, a.features);
  const auto copy = [&](auto together, int first) {
    constexpr int count = decltype(together)::value, width = gradient_features, at_once = threads * count / width;
    const auto whole = [](int size) { return (size + at_once - 1) / at_once * at_once; };
    copy_points<count, width, width>(a, a.x, x_of(a, pair.index), pair.n, whole(pair.n), first, x);
    copy_points<count, width, width>(a, a.y, y_of(a, pair.index), pair.m, whole(pair.m), first, y);
  };
#pragma unroll 1
  for (int first = 0; first < a.features; first += gradient_features) {
    if (first > 0) __syncthreads();
    by_16_bytes ? copy(std::integral_constant<int, 4>{}, first) : copy(std::integral_constant<int, 1>{}, first);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    store_gradients<R, true>(a, pair, planes, x, y, first, factor);
    store_gradients<R, false>(a, pair, planes, y, x, first, factor);
  }
}

// E of all cells that there are, and 0 in the others.
template <int R>
__device__ __forceinline__ void store_alignment(const Args &a, const Pair &pair, const Planes<R> &planes) {
  float *to = static_cast<float *>(a.dense.data) + pair.index * a.dense.stride[0];
  for (int row = threadIdx.x / warp; row < a.n; row += warps)
    for (int column = lane_id(); column < a.m; column += warp)
      to[row * a.dense.stride[1] + column * a.dense.stride[2]] =
          row < pair.n && column < pair.m ? planes.data[Planes<R>::place(row, column)] : 0;
}

// All of an output of one pair, where there is nothing to sum up: `value` in its first rows, `beyond` in the others.
__device__ __forceinline__ void fill(const sdtw_out &out, int64_t pair, int rows, int own, int columns, float value,
                                     float beyond) {
  if (!out.data) return;
  float *to = static_cast<float *>(out.data) + pair * out.stride[0];
  for (int i = threadIdx.x; i < rows * columns; i += threads)
    to[i / columns * out.stride[1] + i % columns * out.stride[2]] = i / columns < own ? value : beyond;
}

}  // namespace sdtw::cuda::short_pairs
