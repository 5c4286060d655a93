// What the kernels for short pairs have in common: memory, the pairs of a block, and launches.
#pragma once

#include "cuda/launch.h"
#include "cuda/pipeline/finish.cuh"
#include "cuda/short_pairs/gradients.cuh"

namespace sdtw::cuda::short_pairs {

template <int R>
__device__ __forceinline__ Planes<R> planes_of(const Args &a) {
  return {reinterpret_cast<float *>(ptx::shared_memory()), a.m};
}

// Of the pair, for all warps.
struct Shared {
  int status, most;
  float bound;  // of costs, which metrics other than squares need for gradients; not city block distances
};
__device__ __forceinline__ int &shared_status() { return ptx::shared_object<Shared>().status; }
__device__ __forceinline__ int &shared_most() { return ptx::shared_object<Shared>().most; }
__device__ __forceinline__ float &shared_bound() { return ptx::shared_object<Shared>().bound; }

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

// What gradients of E, which may have been divided by distances times `unit`, are multiplied by.
template <class Shape>
__device__ __forceinline__ double factor_of_metric(const Args &a, float unit) {
  return is_square<Shape>(a) ? 2 : static_cast<double>(unit);
}

// The pairs of a block: forward; or, with `gradients`, backward, or alignment if a.dense is there, with values if
// a.value is. sweep(pair): value and status of a pair that has cells. finish(pair, grad_value): what is wanted of it.
template <bool gradients, class Sweep, class Finish>
__device__ __forceinline__ void each_pair(const Args &a, const Sweep &sweep, const Finish &finish) {
  for (int64_t b = blockIdx.x; b < a.batch; b += gridDim.x) {
    const Pair pair = read_pair(a, b);
    if (pair.lengths == LengthCase::regular) {
      sweep(pair);
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
        finish(pair, factor);
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

// Static shared memory of a block, beyond kept_for_static.
template <class Shape>
constexpr size_t static_bytes = Shape::has_steps ? sizeof(AdmittedColumns) : 0;
static_assert(sizeof(Shared) <= kept_for_static, "the rest");

// As many blocks as are resident at once, or fewer. shared: dynamic shared memory.
template <class Shape, void (*kernel)(Args)>
void launch_pairs(const Args &a, size_t shared, cudaStream_t stream) {
  constexpr int threads = Shape::threads;
  const int64_t resident = resident_blocks<void (*)(Args), kernel>(threads, shared, static_bytes<Shape>);
  const auto blocks = static_cast<unsigned>(std::min(a.batch, std::max<int64_t>(resident, 1)));
  launch_kernel(false, kernel, dim3(blocks), threads, shared, stream, a);
}

// Calls visit with the Shape, of any metric, that the plan says.
template <Steps steps, class Visit>
void with_general_shape(const ShortPairs &its, const Visit &visit) {
  if (its.rows_of_lane == 4) return visit(Shape<4, 16, most_steps_of_few, false, steps>{});
  its.rows_of_lane == 2 ? visit(Shape<2, 8, most_short_steps, false, steps>{})
                        : visit(Shape<1, 4, most_short_steps, false, steps>{});
}

// hard.cu. The kernels for gamma = 0.
void launch_hard(const Args &a, const ShortPairs &its, bool gradients, cudaStream_t stream);
// steps.cu and weights.cu. Those for Steps::simple and Steps::weighted; bytes that a block takes with gradients.
void launch_steps(const Args &a, const ShortPairs &its, bool gradients, cudaStream_t stream);
size_t shared_bytes_of_steps(const ShortPairs &its, int columns, sdtw_metric metric);
void launch_weights(const Args &a, const ShortPairs &its, bool gradients, cudaStream_t stream);

}  // namespace sdtw::cuda::short_pairs
