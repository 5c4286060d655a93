// The kernels for short pairs, and their launches.
#include "cuda/short_pairs/backend.h"
#include "cuda/short_pairs/costs.cuh"
#include "cuda/short_pairs/kernel.cuh"
#include "cuda/short_pairs/sweeps.cuh"

namespace sdtw::cuda::short_pairs {
namespace {

// Where the sweeps of a pair meet, in shared memory.
template <bool gradients, int R>
__host__ __device__ __forceinline__ int meeting_of(int columns) {
  return (gradients ? 3 : 2) * Planes<R>::size_for(columns);
}

// Shared memory of the phases, which take turns.
template <bool gradients, class Shape>
__host__ __device__ size_t bytes_of_phases(int columns) {
  const size_t sweeps = meeting_of<gradients, Shape::R>(columns) * sizeof(float) + Shares<Shape::R>::bytes;
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
    if constexpr (gradients && Shape::keeps) kept.put(a, row, column, distance);
  };
}
// A pair's value and status from its costs, which are in shared memory; for gradients the transition probabilities of
// its cells are there afterwards.
template <class Cell, bool gradients, int R>
__device__ __forceinline__ void sweep_pair(const Args &a, const Pair &pair, const Planes<R> &planes) {
  float *const memory = planes.data + meeting_of<gradients, R>(a.m);
  const Meeting<Cell, R> meeting(memory);
  const Shares<R> shares(memory);
  const int own = sweep_of_warp();
  if (own == 0) sweep<Cell, gradients, false>(pair, planes, meeting);
  if (own == 1) sweep<Cell, gradients, true>(pair, planes, meeting);
  __syncthreads();
  if (own == 0) {
    Status status;
    const double value = value_of<Cell>(a, join<Cell, gradients, false>(pair, meeting, shares), status);
    if (lane_id() == 0) {
      shared_status() = status;
      if (a.value) store(a.value, pair.index, false, value);
    }
  }
  if constexpr (gradients) {
    if (own == 1) join<Cell, true, true>(pair, meeting, shares);
    normalise_all(pair, planes);
  }
}

// The same of pairs that FloatCell does not take. It is not inlined, so it gets no reference to what the caller keeps:
// an object whose address is taken is in memory, and of a pointer that has been there the compiler does not know any
// more that it is one of shared memory.
template <bool gradients, class Shape>
__device__ __noinline__ void sweep_large_pair(const Args &a, const Pair pair, float bound) {
  const Planes<Shape::R> planes = planes_of<Shape::R>(a);
  if (bound <= long_limit(a, pair)) {
    store_differences<LongCell, Shape>(a, pair, planes, keeper<gradients, Shape>(a, bound));
    __syncthreads();
    return sweep_pair<LongCell, gradients>(a, pair, planes);
  }
  store_differences<DoubleCell, Shape>(a, pair, planes, keeper<gradients, Shape>(a, bound));
  __syncthreads();
  sweep_pair<DoubleCell, gradients>(a, pair, planes);
}

// Up to which bound costs are FloatCell's.
__device__ __forceinline__ float limit_of(const Pair &pair) {
  return limit_of_path(ShortExponent::range, steps_of_path(pair.n, pair.m));
}

// What gradients need of the costs, by these once more, where it has not been kept. For not inlined see above.
template <class Shape>
__device__ __noinline__ void keep_again(const Args &a, const Pair pair, float bound) {
  const Planes<Shape::R> planes = planes_of<Shape::R>(a);
  const Kept<Shape> kept = kept_of<Shape>(a, Kept<Shape>::unit_of(bound));
  const auto keep = [&](int row, int column, double distance) { kept.put(a, row, column, distance); };
  float *const memory = planes.data + planes.size;
  if (bound <= limit_of(pair)) {
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
  const float limit = limit_of(pair);
  float bound;
  if (is_cityblock<Shape>(a)) {
    const auto nothing = [](int, int, double) {};  // is asked for by gradients
    bound = max_of_block(store_differences<FloatCell, Shape>(a, pair, planes, nothing));
  } else {
    const ProductCosts<Shape> costs(a, pair, planes.data, 2);
    bound = costs.bound();
    if (bound <= limit) costs.store(planes, keeper<gradients, Shape>(a, bound));
    if constexpr (gradients && Shape::keeps)
      if (is_cosine<Shape>(a)) costs.keep_norms(kept_of<Shape>(a, 1));
    if constexpr (gradients && !Shape::squares)
      if (threadIdx.x == 0) shared_bound() = bound;
    __syncthreads();
  }
  const bool is_small = bound <= limit;  // false for NaN
  is_small ? sweep_pair<FloatCell, gradients>(a, pair, planes) : sweep_large_pair<gradients, Shape>(a, pair, bound);
}

// What is wanted of a pair whose transition probabilities are there.
template <class Shape>
__device__ __forceinline__ void finish_pair(const Args &a, const Pair &pair, const Planes<Shape::R> &planes,
                                            float factor) {
  const Shares<Shape::R> shares(planes.data + meeting_of<true, Shape::R>(a.m));
  const int own = sweep_of_warp();
  if (own == 0) sweep_back<false>(pair, planes, shares);
  if (own == 1) sweep_back<true>(pair, planes, shares);
  __syncthreads();
  if (a.dense.data) return store_alignment(a, pair, planes);
  if constexpr (Shape::recomputes)
    if (!is_cityblock<Shape>(a)) keep_again<Shape>(a, pair, shared_bound());
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
size_t shared_bytes(int columns) {
  return bytes_of_phases<gradients, Shape>(columns) + (gradients && !Shape::squares ? Kept<Shape>::bytes(columns) : 0);
}

// Calls visit with the Shape that the plan says.
template <class Visit>
void with_shape(const ShortPairs &its, const Visit &visit) {
  if (!its.squares) return with_general_shape(its, visit);
  if (its.rows_of_lane == 4) return visit(Shape<4, 16, most_steps_of_few>{});
  if (its.rows_of_lane == 1) return visit(Shape<1, 4, most_short_steps>{});
  its.warps == 8 ? visit(Shape<2, 8, most_short_steps>{}) : visit(Shape<2, 4, most_short_steps>{});
}

Args make_args(const sdtw::Plan &plan, const Buffers &given, const SeriesOfPair *series) {
  const bool swapped = plan.cuda.short_pairs.swapped;
  const Problem p = swapped ? transpose(plan.problem) : plan.problem;
  const Buffers b = swapped ? transpose(plan.problem, given) : given;
  Args a{};
  a.x = b.x, a.y = b.y;
  a.x_len = b.x_len, a.y_len = b.y_len;
  a.series = series;
  a.dtype = p.dtype, a.metric = p.metric;
  a.long_lengths = p.length_bits == 64;
  a.costs = Costs::tensor;
  a.batch = p.batch;
  a.n = static_cast<int>(p.n), a.m = static_cast<int>(p.m), a.features = static_cast<int>(p.features);
  a.hard = p.gamma == 0;
  a.scale = a.hard ? 1 : core::log2_e / p.gamma;
  a.value = b.value;
  a.grad_value = b.grad_value;
  a.grad_x = b.grad_x, a.grad_y = b.grad_y;
  a.dense = b.alignment;
  if (series && b.state) a.status = at<int>(b.state, plan.cuda.status);
  return a;
}

template <bool gradients>
void call(const sdtw::Plan &plan, const Buffers &buffers, const SeriesOfPair *series) {
  const Args a = make_args(plan, buffers, series);
  if (a.hard) return launch_hard(a, plan.cuda.short_pairs, gradients, plan.exec.stream);
  with_shape(plan.cuda.short_pairs, [&](auto shape) {
    using Shape = decltype(shape);
    launch_pairs<short_pairs_kernel<gradients, Shape>>(a, Shape::threads, shared_bytes<gradients, Shape>(a.m),
                                                       plan.exec.stream);
  });
}

}  // namespace

bool are_fit(const sdtw::Plan &plan) {
  const ShortPairs &its = plan.cuda.short_pairs;
  if (!its.fit || prefers_slices()) return false;
  size_t shared = 0;
  const auto columns = static_cast<int>(its.swapped ? plan.problem.n : plan.problem.m);
  with_shape(its, [&](auto shape) { shared = shared_bytes<true, decltype(shape)>(columns); });
  return shared <= current_device().shared_memory;
}
void forward(const sdtw::Plan &plan, const Buffers &buffers, const SeriesOfPair *series) {
  call<false>(plan, buffers, series);
}
void backward(const sdtw::Plan &plan, const Buffers &buffers, const SeriesOfPair *series) {
  call<true>(plan, buffers, series);
}

}  // namespace sdtw::cuda::short_pairs
