// The kernels for short pairs, and their launches.
#include "cuda/launch.h"
#include "cuda/pipeline/finish.cuh"
#include "cuda/short_pairs/backend.h"
#include "cuda/short_pairs/costs.cuh"
#include "cuda/short_pairs/gradients.cuh"
#include "cuda/short_pairs/sweeps.cuh"

namespace sdtw::cuda::short_pairs {
namespace {

constexpr float infinity = HUGE_VALF;

// A pair's value from its costs, which are in shared memory; and E, with gradients. Its status is for all warps.
template <class Cell, bool gradients, int R>
__device__ __forceinline__ void sweep_pair(const Args &a, const Pair &pair, const Planes<R> &planes,
                                           int &shared_status) {
  if (threadIdx.x / warp != sweeper()) return;
  const ExtendedDouble z = sweep<Cell, gradients>(pair, planes);
  Status status;
  const double value = value_of<Cell>(a, z, status);
  if (lane_id() == 0) {
    shared_status = status;
    if (a.value) store(a.value, pair.index, false, value);
  }
  if constexpr (gradients)
    if (status == status_finite) {
      __syncwarp();
      sweep_back(pair, planes);
    }
}

// The same of pairs that FloatCell does not take.
template <bool gradients, int R>
__device__ __noinline__ void sweep_large_pair(const Args &a, const Pair &pair, const Planes<R> &planes,
                                              int &shared_status, float bound) {
  if (bound <= long_limit(a, pair)) {
    store_differences<LongCell>(a, pair, planes);
    __syncthreads();
    return sweep_pair<LongCell, gradients>(a, pair, planes, shared_status);
  }
  store_differences<DoubleCell>(a, pair, planes);
  __syncthreads();
  sweep_pair<DoubleCell, gradients>(a, pair, planes, shared_status);
}

template <bool gradients, int R>
__device__ __forceinline__ void sweep_regular_pair(const Args &a, const Pair &pair, const Planes<R> &planes,
                                                   int &shared_status) {
  const ProductCosts<R> costs(a, pair, planes);
  const float bound = costs.bound();
  const bool is_small = bound <= limit_of_path(ShortExponent::range, steps_of_path(pair.n, pair.m));  // false for NaN
  if (is_small) costs.store(planes);
  __syncthreads();
  is_small ? sweep_pair<FloatCell, gradients>(a, pair, planes, shared_status)
           : sweep_large_pair<gradients>(a, pair, planes, shared_status, bound);
}

// Forward; or, with `gradients`, backward, or alignment if a.dense is there, with values if a.value is.
template <bool gradients, int R>
__global__ void __launch_bounds__(threads, R == 1 ? 5 : 4) short_pairs_kernel(const __grid_constant__ Args a) {
  if constexpr (avoids_float64) return __trap();  // choose_kernels asks for none there
  int &shared_status = ptx::shared_object<int>();
  const Planes<R> planes(reinterpret_cast<float *>(ptx::shared_memory()), a.m);
  for (int64_t b = blockIdx.x; b < a.batch; b += gridDim.x) {
    const Pair pair = read_pair(a, b);
    if (pair.lengths == LengthCase::regular) {
      sweep_regular_pair<gradients>(a, pair, planes, shared_status);
    } else if (threadIdx.x == 0) {
      const bool invalid = pair.lengths == LengthCase::invalid, empty = pair.lengths == LengthCase::empty;
      shared_status = invalid ? status_not_a_number : status_unreachable;
      if (a.value) store(a.value, b, false, empty ? 0 : invalid ? __int_as_float(0x7fc00000) : infinity);
    }
    __syncthreads();
    if constexpr (gradients) {
      const int status = shared_status;
      const float factor = a.grad_value ? static_cast<const float *>(a.grad_value)[b] : 1;
      if (status == status_finite && a.dense.data) {
        store_alignment(a, pair, planes);
      } else if (status == status_finite && isfinite(factor)) {
        store_gradients<R>(a, pair, planes, 2 * factor);
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
  const size_t planes = (gradients ? 3 : 2) * Planes<R>::size_for(a.m) * sizeof(float);
  const size_t shared =
      std::max({planes, ProductCosts<R>::bytes(a.m), gradients ? bytes_of_gradients<R>(a.m) : size_t{0}});
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
