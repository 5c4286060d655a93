// The phases of a short pair at gamma > 0 (block.cuh), and the kernel of them.
#pragma once

#include "cuda/short_pairs/costs.cuh"
#include "cuda/short_pairs/kernel.cuh"
#include "cuda/short_pairs/steps.cuh"

namespace sdtw::cuda::short_pairs {

// Where the sweeps of a pair meet, in shared memory.
template <bool gradients, int R>
__host__ __device__ __forceinline__ int meeting_of(int columns) {
  return (gradients ? 3 : 2) * Planes<R>::size_for(columns);
}

// What is there of these, for unit steps or others.
template <class Cell, class Shape>
using MeetingOf = std::conditional_t<Shape::has_steps, StepMeeting<Cell, Shape::R>, Meeting<Cell, Shape::R>>;
template <class Shape>
using SharesOf = std::conditional_t<Shape::has_steps, StepShares<Shape::R>, Shares<Shape::R>>;

// Shared memory of the phases, which take turns.
template <bool gradients, class Shape>
__host__ __device__ size_t bytes_of_phases(int columns) {
  const size_t sweeps = meeting_of<gradients, Shape::R>(columns) * sizeof(float) + SharesOf<Shape>::bytes;
  const size_t costs = ProductCosts<Shape>::bytes(columns, 2), last = gradients ? Gradients<Shape>::bytes(columns) : 0;
  const size_t again = gradients && Shape::recomputes ? Planes<Shape::R>::size_for(columns) * sizeof(float) +
                                                            ProductCosts<Shape>::bytes(columns, 1)
                                                      : 0;
  size_t most = sweeps;
  for (const size_t bytes : {costs, again, last}) most = bytes > most ? bytes : most;
  return (most + 15) / 16 * 16;
}
template <class Shape>
__device__ __forceinline__ Kept<Shape> kept_of(const Args &a, float unit) {
  return {planes_of<Shape::R>(a), reinterpret_cast<float *>(ptx::shared_memory() + bytes_of_phases<true, Shape>(a.m)),
          unit};
}
// What is kept of each cell's cost as it is stored. bound: of the pair's costs.
template <bool gradients, class Shape>
__device__ __forceinline__ auto keeper(const Args &a, float bound) {
  return [&a, kept = kept_of<Shape>(a, Kept<Shape>::unit_of(bound))](int row, int column, double distance) {
    if constexpr (gradients && Shape::keeps)
      if (needs_costs(a.metric)) kept.put(a, row, column, distance);
  };
}
// What steps with penalties may cost along a path, up or down, in FloatCell and LongCell.
template <class Cell>
constexpr float range_with_steps = std::is_same_v<Cell, FloatCell> ? 1 << 29 : 0x1p36f;

// A pair's value and status from its costs, which are in shared memory; for gradients the transition probabilities of
// its cells are there afterwards.
template <class Cell, bool gradients, class Shape>
__device__ __forceinline__ void sweep_pair(const Args &a, const Pair &pair, const Planes<Shape::R> &planes) {
  float *const memory = planes.data + meeting_of<gradients, Shape::R>(a.m);
  const MeetingOf<Cell, Shape> meeting(memory);
  const SharesOf<Shape> shares(memory);
  const auto sweep_half = [&](auto is_reversed) {
    constexpr bool reversed = decltype(is_reversed)::value;
    if constexpr (Shape::has_steps)
      sweep_steps<Cell, Shape::steps, gradients, reversed>(a, pair, planes, meeting);
    else
      sweep<Cell, gradients, reversed>(pair, planes, meeting);
  };
  const auto join_halves = [&](auto is_reversed) {
    constexpr bool reversed = decltype(is_reversed)::value;
    if constexpr (Shape::has_steps)
      return join_steps<Cell, gradients, reversed>(pair, meeting, shares);
    else
      return join<Cell, gradients, reversed>(pair, meeting, shares);
  };
  constexpr std::false_type from_beginning{};
  constexpr std::true_type from_end{};
  const int own = sweep_of_warp();
  if (own == 0) sweep_half(from_beginning);
  if (own == 1) sweep_half(from_end);
  __syncthreads();
  if (own == 0) {
    Status status;
    const ExtendedDouble z = join_halves(from_beginning);
    double value = value_of<Cell>(a, z, status);
    if (Shape::has_steps && !Cell::wide && z.e < -1.5 * range_with_steps<Cell>) {  // a band leaves no path
      value = __longlong_as_double(0x7ff0000000000000ll);
      status = status_unreachable;
    }
    if (lane_id() == 0) {
      shared_status() = status;
      if (a.value) store(a.value, pair.index, false, value);
    }
  }
  if constexpr (gradients) {
    if (own == 1) join_halves(from_end);
    normalise_all(pair, planes);
  }
}

// A bound of what steps cost, from that of t; and up to which one they are Cell's. With penalties they may be less than
// 0, as given costs may (cuda/pair.cuh).
template <class Shape>
__device__ __forceinline__ float of_steps(const Args &a, float bound) {
  return Shape::has_steps ? a.largest_weight * bound + a.largest_penalty : bound;
}
template <class Cell, class Shape>
__device__ __forceinline__ float limit_of(const Args &a, const Pair &pair) {
  if constexpr (!Shape::has_steps && std::is_same_v<Cell, FloatCell>)
    return limit_of_path(ShortExponent::range, steps_of_path(pair.n, pair.m));
  if constexpr (!Shape::has_steps) return long_limit(a, pair);
  return fminf(0.98f * range_with_steps<Cell> / (static_cast<float>(pair.n) + pair.m), long_cost_limit(a.costs));
}

// The same of pairs that FloatCell does not take. It is not inlined, so it gets no reference to what the caller keeps:
// an object whose address is taken is in memory, and of a pointer that has been there the compiler does not know any
// more that it is one of shared memory.
template <bool gradients, class Shape>
__device__ __noinline__ void sweep_large_pair(const Args &a, const Pair pair, float bound) {
  const Planes<Shape::R> planes = planes_of<Shape::R>(a);
  const bool is_long = of_steps<Shape>(a, bound) <= limit_of<LongCell, Shape>(a, pair);
  const auto keep = keeper<gradients, Shape>(a, bound);
  each_difference<Shape>(a, pair, planes.data, [&](int row, int column, double distance) {
    keep(row, column, distance);
    is_long ? put_cost<LongCell, Shape>(a, planes, row, column, distance)
            : put_cost<DoubleCell, Shape>(a, planes, row, column, distance);
  });
  __syncthreads();
  is_long ? sweep_pair<LongCell, gradients, Shape>(a, pair, planes)
          : sweep_pair<DoubleCell, gradients, Shape>(a, pair, planes);
}

// What gradients need of the costs, by these once more, where it has not been kept. For not inlined see above.
template <class Shape>
__device__ __noinline__ void keep_again(const Args &a, const Pair pair, float bound) {
  const Planes<Shape::R> planes = planes_of<Shape::R>(a);
  const Kept<Shape> kept = kept_of<Shape>(a, Kept<Shape>::unit_of(bound));
  const auto keep = [&](int row, int column, double distance) { kept.put(a, row, column, distance); };
  float *const memory = planes.data + planes.size;
  if (of_steps<Shape>(a, bound) <= limit_of<FloatCell, Shape>(a, pair)) {
    const ProductCosts<Shape> costs(a, pair, memory, 1);
    if (is_cosine<Shape>(a)) costs.keep_norms(kept);
    costs.each(keep);
  } else {
    each_difference<Shape>(a, pair, memory, keep, kept.inverse_norms);
  }
  __syncthreads();
}

template <bool gradients, class Shape>
__device__ __forceinline__ void sweep_regular_pair(const Args &a, const Pair &pair, const Planes<Shape::R> &planes) {
  const float limit = limit_of<FloatCell, Shape>(a, pair);
  find_admitted<Shape>(a, pair);
  float bound;
  if (is_cityblock<Shape>(a)) {
    bound = max_of_block(measure_differences<Shape>(a, pair, planes.data, [&](int row, int column, double distance) {
      put_cost<FloatCell, Shape>(a, planes, row, column, distance);  // nothing is kept: gradients do not ask for it
    }));
  } else {
    const ProductCosts<Shape> costs(a, pair, planes.data, 2);
    bound = costs.bound();
    if (of_steps<Shape>(a, bound) <= limit) costs.store(planes, keeper<gradients, Shape>(a, bound));
    if constexpr (gradients && Shape::keeps)
      if (is_cosine<Shape>(a)) costs.keep_norms(kept_of<Shape>(a, 1));
    if constexpr (gradients && !Shape::squares)
      if (threadIdx.x == 0) shared_bound() = bound;
    __syncthreads();
  }
  const bool is_small = of_steps<Shape>(a, bound) <= limit;  // false for NaN
  is_small ? sweep_pair<FloatCell, gradients, Shape>(a, pair, planes)
           : sweep_large_pair<gradients, Shape>(a, pair, bound);
}

// What is wanted of a pair whose transition probabilities are there.
template <class Shape>
__device__ __forceinline__ void finish_pair(const Args &a, const Pair &pair, const Planes<Shape::R> &planes,
                                            float factor) {
  const SharesOf<Shape> shares(planes.data + meeting_of<true, Shape::R>(a.m));
  const auto sweep_half = [&](auto is_reversed) {
    constexpr bool reversed = decltype(is_reversed)::value;
    if constexpr (Shape::has_steps)
      sweep_back_steps<reversed>(a, pair, planes, shares);
    else
      sweep_back<reversed>(pair, planes, shares);
  };
  const int own = sweep_of_warp();
  if (own == 0) sweep_half(std::false_type{});
  if (own == 1) sweep_half(std::true_type{});
  __syncthreads();
  clear_outside<Shape>(a, pair, planes);
  if (a.dense.data) return store_alignment(a, pair, planes);
  if constexpr (Shape::recomputes)
    if (needs_costs(a.metric)) keep_again<Shape>(a, pair, shared_bound());
  const float unit = is_euclidean<Shape>(a) ? Kept<Shape>::unit_of(shared_bound()) : 1;
  Gradients<Shape>::store(a, pair, planes, kept_of<Shape>(a, unit), factor_of_metric<Shape>(a, unit) * factor);
}

template <bool gradients, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks) short_pairs_kernel(const __grid_constant__ Args a) {
  if constexpr (avoids_float64) return __trap();  // choose_kernels asks for none there
  const Planes<Shape::R> planes = planes_of<Shape::R>(a);
  each_pair<gradients>(
      a, [&](const Pair &pair) { sweep_regular_pair<gradients, Shape>(a, pair, planes); },
      [&](const Pair &pair, float factor) {
        if constexpr (gradients) finish_pair<Shape>(a, pair, planes, factor);
      });
}

template <bool gradients, class Shape>
size_t shared_bytes(int columns, sdtw_metric metric) {
  return bytes_of_phases<gradients, Shape>(columns) +
         (gradients && needs_costs(metric) ? Kept<Shape>::bytes(columns) : 0);
}

template <class Shape>
void launch_phases(const Args &a, bool gradients, cudaStream_t stream) {
  const auto launch = [&](auto back) {
    constexpr bool is_back = decltype(back)::value;
    launch_pairs<Shape, short_pairs_kernel<is_back, Shape>>(a, shared_bytes<is_back, Shape>(a.m, a.metric), stream);
  };
  gradients ? launch(std::true_type{}) : launch(std::false_type{});
}

}  // namespace sdtw::cuda::short_pairs
