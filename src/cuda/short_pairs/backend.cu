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
// Of the pair, for all warps.
__device__ __forceinline__ int &shared_status() { return ptx::shared_object<int>(); }

// Where the sweeps of a pair meet, in shared memory.
template <bool gradients, int R>
__host__ __device__ __forceinline__ int meeting_of(int columns) {
  return (gradients ? 3 : 2) * Planes<R>::size_for(columns);
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
template <bool gradients, int R>
__device__ __noinline__ void sweep_large_pair(const Args &a, const Pair pair, float bound) {
  const Planes<R> planes = planes_of<R>(a);
  if (bound <= long_limit(a, pair)) {
    store_differences<LongCell>(a, pair, planes);
    __syncthreads();
    return sweep_pair<LongCell, gradients>(a, pair, planes);
  }
  store_differences<DoubleCell>(a, pair, planes);
  __syncthreads();
  sweep_pair<DoubleCell, gradients>(a, pair, planes);
}

template <bool gradients, int R>
__device__ __forceinline__ void sweep_regular_pair(const Args &a, const Pair &pair, const Planes<R> &planes) {
  const ProductCosts<R> costs(a, pair, planes);
  const float bound = costs.bound();
  const bool is_small = bound <= limit_of_path(ShortExponent::range, steps_of_path(pair.n, pair.m));  // false for NaN
  if (is_small) costs.store(planes);
  __syncthreads();
  is_small ? sweep_pair<FloatCell, gradients>(a, pair, planes) : sweep_large_pair<gradients, R>(a, pair, bound);
}

// Forward; or, with `gradients`, backward, or alignment if a.dense is there, with values if a.value is.
template <bool gradients, int R>
__global__ void __launch_bounds__(threads, R == 1 ? 5 : 4) short_pairs_kernel(const __grid_constant__ Args a) {
  if constexpr (avoids_float64) return __trap();  // choose_kernels asks for none there
  const Planes<R> planes = planes_of<R>(a);
  for (int64_t b = blockIdx.x; b < a.batch; b += gridDim.x) {
    const Pair pair = read_pair(a, b);
    if (pair.lengths == LengthCase::regular) {
      sweep_regular_pair<gradients>(a, pair, planes);
    } else if (threadIdx.x == 0) {
      Status status;
      const double value = value_without_cells(pair.lengths, status);
      shared_status() = status;
      if (a.value) store(a.value, b, false, value);
    }
    __syncthreads();
    if constexpr (gradients) {
      const int status = shared_status();
      const float factor = a.grad_value ? static_cast<const float *>(a.grad_value)[b] : 1;
      if (status == status_finite && (a.dense.data || isfinite(factor))) {
        const Shares<R> shares(planes.data + meeting_of<true, R>(a.m));
        const int own = sweep_of_warp();
        if (own == 0) sweep_back<false>(pair, planes, shares);
        if (own == 1) sweep_back<true>(pair, planes, shares);
        __syncthreads();
        a.dense.data ? store_alignment(a, pair, planes) : Gradients<R>::store(a, pair, planes, 2.0 * factor);
      } else {
        const float nan = __int_as_float(0x7fc00000), value = status == status_unreachable ? 0 : nan,
                    beyond = status == status_not_a_number ? nan : 0;
        fill(a.dense, b, a.n, pair.n, a.m, value, beyond);
        fill(a.grad_x, b, a.n, pair.n, a.features, value, beyond);
        fill(a.grad_y, b, a.m, pair.m, a.features, value, beyond);
      }
      __syncthreads();
    }
  }
}

template <bool gradients, int R>
void launch(const Args &a, cudaStream_t stream) {
  using Function = void (*)(const Args);
  constexpr Function kernel = short_pairs_kernel<gradients, R>;
  const size_t sweeps = meeting_of<gradients, R>(a.m) * sizeof(float) + Shares<R>::bytes;
  const size_t shared =
      std::max({sweeps, ProductCosts<R>::bytes(a.m), gradients ? Gradients<R>::bytes(a.m) : size_t{0}});
  const int64_t resident = residency_of<Function, kernel>(threads, shared).blocks;
  const auto blocks = static_cast<unsigned>(std::min(a.batch, std::max<int64_t>(resident, 1)));
  launch_kernel(false, kernel, dim3(blocks), threads, shared, stream, a);
}

template <bool gradients>
void launch(const Args &a, cudaStream_t stream) {
  a.n <= warp ? launch<gradients, 1>(a, stream) : launch<gradients, 2>(a, stream);
}

Args make_args(const sdtw::Plan &plan, const Buffers &given) {
  const bool swapped = plan.cuda.short_pairs.swapped;
  const Problem p = swapped ? transpose(plan.problem) : plan.problem;
  const Buffers b = swapped ? transpose(plan.problem, given) : given;
  Args a{};
  a.x = b.x, a.y = b.y;
  a.x_len = b.x_len, a.y_len = b.y_len;
  a.long_lengths = p.length_bits == 64;
  a.costs = Costs::tensor;
  a.batch = p.batch;
  a.n = static_cast<int>(p.n), a.m = static_cast<int>(p.m), a.features = static_cast<int>(p.features);
  a.scale = core::log2_e / p.gamma;
  a.value = b.value;
  a.grad_value = b.grad_value;
  a.grad_x = b.grad_x, a.grad_y = b.grad_y;
  a.dense = b.alignment;
  return a;
}

}  // namespace

void forward(const sdtw::Plan &plan, const Buffers &buffers) {
  launch<false>(make_args(plan, buffers), plan.exec.stream);
}
void backward(const sdtw::Plan &plan, const Buffers &buffers) {
  launch<true>(make_args(plan, buffers), plan.exec.stream);
}

}  // namespace sdtw::cuda::short_pairs
