// The kernels for short pairs, and their launches.
#include "cuda/launch.h"
#include "cuda/pipeline/finish.cuh"
#include "cuda/short_pairs/backend.h"
#include "cuda/short_pairs/costs.cuh"
#include "cuda/short_pairs/gradients.cuh"
#include "cuda/short_pairs/sweeps.cuh"

namespace sdtw::cuda::short_pairs {
namespace {

template <int R>
__device__ __forceinline__ Planes<R> planes_of(const Args &a) {
  return {reinterpret_cast<float *>(ptx::shared_memory()), a.m};
}
// Where the sweeps of a pair meet, in shared memory.
template <bool gradients, int R>
__host__ __device__ __forceinline__ int meeting_of(int columns) {
  return (gradients ? 3 : 2) * Planes<R>::size_for(columns);
}

// Shared memory of the phases, which take turns.
template <bool gradients, class Shape>
__host__ __device__ size_t bytes_of_phases(int columns) {
  const size_t sweeps = meeting_of<gradients, Shape::R>(columns) * sizeof(float) + Shares<Shape::R>::bytes;
  const size_t costs = ProductCosts<Shape>::bytes(columns), last = gradients ? Gradients<Shape>::bytes(columns) : 0;
  const size_t most = sweeps > costs ? sweeps : costs;
  return ((most > last ? most : last) + 15) / 16 * 16;
}
template <bool gradients, class Shape>
constexpr bool keeps_costs = gradients && !Shape::squares;
template <class Shape>
__device__ __forceinline__ Kept<Shape> kept_of(const Args &a, float unit) {
  return {reinterpret_cast<float *>(ptx::shared_memory() + bytes_of_phases<true, Shape>(a.m)), a.m, unit};
}
// What is kept of each cell's cost as it is stored. bound: of the pair's costs.
template <bool gradients, class Shape>
__device__ __forceinline__ auto keeper(const Args &a, float bound) {
  return [&a, kept = kept_of<Shape>(a, Kept<Shape>::unit_of(bound))](int row, int column, double distance) {
    if constexpr (keeps_costs<gradients, Shape>) kept.put(a, row, column, distance);
  };
}
// Of the pair, for all warps.
struct Shared {
  int status, most;
  float unit;  // of Kept
};
__device__ __forceinline__ int &shared_status() { return ptx::shared_object<Shared>().status; }
__device__ __forceinline__ int &shared_most() { return ptx::shared_object<Shared>().most; }
__device__ __forceinline__ float &shared_unit() { return ptx::shared_object<Shared>().unit; }

// The largest of the numbers that all threads have, or NaN if there is any; none is below 0.
__device__ __forceinline__ float max_of_block(float own) {
  int &most = shared_most();
  if (threadIdx.x == 0) most = 0;
  __syncthreads();
  const int of_warp = warp_max(__float_as_int(own));
  if (lane_id() == 0) atomicMax(&most, of_warp);
  __syncthreads();
  return __int_as_float(most);
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

template <bool gradients, class Shape>
__device__ __forceinline__ void sweep_regular_pair(const Args &a, const Pair &pair, const Planes<Shape::R> &planes) {
  const float limit = limit_of_path(ShortExponent::range, steps_of_path(pair.n, pair.m));
  float bound;
  if (is_cityblock<Shape>(a)) {
    const auto nothing = [](int, int, double) {};  // is asked for by gradients
    bound = max_of_block(store_differences<FloatCell, Shape>(a, pair, planes, nothing));
  } else {
    const ProductCosts<Shape> costs(a, pair, planes);
    bound = costs.bound();
    if (bound <= limit) costs.store(planes, keeper<gradients, Shape>(a, bound));
    if constexpr (keeps_costs<gradients, Shape>) {
      if (is_cosine<Shape>(a)) costs.keep_norms(kept_of<Shape>(a, 1));
      if (threadIdx.x == 0) shared_unit() = Kept<Shape>::unit_of(bound);
    }
    __syncthreads();
  }
  const bool is_small = bound <= limit;  // false for NaN
  is_small ? sweep_pair<FloatCell, gradients>(a, pair, planes) : sweep_large_pair<gradients, Shape>(a, pair, bound);
}

// Forward; or, with `gradients`, backward, or alignment if a.dense is there, with values if a.value is.
template <bool gradients, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks) short_pairs_kernel(const __grid_constant__ Args a) {
  constexpr int R = Shape::R;
  if constexpr (avoids_float64) return __trap();  // choose_kernels asks for none there
  const Planes<Shape::R> planes = planes_of<Shape::R>(a);
  for (int64_t b = blockIdx.x; b < a.batch; b += gridDim.x) {
    const Pair pair = read_pair(a, b);
    if (pair.lengths == LengthCase::regular) {
      sweep_regular_pair<gradients, Shape>(a, pair, planes);
    } else if (threadIdx.x == 0) {
      Status status;
      const double value = value_without_cells(pair.lengths, status);
      shared_status() = status;
      if (a.value) store(a.value, b, false, value);
    }
    __syncthreads();
    if constexpr (gradients) {
      const int status = shared_status();
      if (a.status && threadIdx.x == 0) a.status[b] = status;
      const float factor = a.grad_value ? static_cast<const float *>(a.grad_value)[b] : 1;
      if (status == status_finite && (a.dense.data || isfinite(factor))) {
        const Shares<R> shares(planes.data + meeting_of<true, R>(a.m));
        const int own = sweep_of_warp();
        if (own == 0) sweep_back<false>(pair, planes, shares);
        if (own == 1) sweep_back<true>(pair, planes, shares);
        __syncthreads();
        const float unit = !Shape::squares && a.metric == SDTW_EUCLIDEAN ? shared_unit() : 1;
        const double of_metric = Shape::squares ? 2 : static_cast<double>(unit);
        if (a.dense.data)
          store_alignment(a, pair, planes);
        else
          Gradients<Shape>::store(a, pair, planes, kept_of<Shape>(a, unit), of_metric * factor);
      } else {
        const float nan = __int_as_float(0x7fc00000), value = status == status_unreachable ? 0 : nan,
                    beyond = status == status_not_a_number ? nan : 0;
        fill(a.dense, a.dtype, b, a.n, pair.n, a.m, value, beyond);
        fill(a.grad_x, a.dtype, b, a.n, pair.n, a.features, value, beyond);
        fill(a.grad_y, a.dtype, b, a.m, pair.m, a.features, value, beyond);
      }
      __syncthreads();
    }
  }
}

template <bool gradients, class Shape>
size_t shared_bytes(int columns) {
  return bytes_of_phases<gradients, Shape>(columns) + (keeps_costs<gradients, Shape> ? Kept<Shape>::bytes(columns) : 0);
}

template <bool gradients, class Shape>
void launch(const Args &a, cudaStream_t stream) {
  using Function = void (*)(const Args);
  constexpr Function kernel = short_pairs_kernel<gradients, Shape>;
  constexpr int threads = Shape::threads;
  const size_t shared = shared_bytes<gradients, Shape>(a.m);
  const int64_t resident = residency_of<Function, kernel>(threads, shared).blocks;
  const auto blocks = static_cast<unsigned>(std::min(a.batch, std::max<int64_t>(resident, 1)));
  launch_kernel(false, kernel, dim3(blocks), threads, shared, stream, a);
}

// Calls visit with the Shape that the plan says.
template <class Visit>
void with_shape(const ShortPairs &its, const Visit &visit) {
  if (!its.squares)
    return its.rows_of_lane == 1 ? visit(Shape<1, 4, most_short_steps, false>{})
                                 : visit(Shape<2, 8, most_short_steps, false>{});
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
  a.scale = core::log2_e / p.gamma;
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
  with_shape(plan.cuda.short_pairs, [&](auto shape) { launch<gradients, decltype(shape)>(a, plan.exec.stream); });
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
