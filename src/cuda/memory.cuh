// Memory accesses that the kernels share: relaxed and acquire/release accesses to words that one warp hands to another,
// programmatic dependent launch, named barriers (all in ptx.cuh), loads and stores of the problem's dtype; and what all
// lanes of a warp have together.
// Words whose data are their own flags (args.h) take relaxed accesses: nothing else depends on their order. Acquire and
// release are for words that stand for other data.
#pragma once

#include <cstring>
#include <type_traits>

#include "cuda/args.h"
#include "cuda/ptx.cuh"

namespace sdtw::cuda {

constexpr unsigned all_lanes = 0xffffffffu;

__device__ __forceinline__ int lane_id() { return threadIdx.x % warp; }

__device__ __forceinline__ int warp_max(int v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  return __reduce_max_sync(all_lanes, v);
#else
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2) v = max(v, __shfl_xor_sync(all_lanes, v, step));
  return v;
#endif
}
// The sum over groups of so many neighbouring lanes, a power of two.
template <class T>
__device__ __forceinline__ T lanes_sum(T v, int lanes) {
#pragma unroll
  for (int step = lanes / 2; step > 0; step /= 2) v += __shfl_xor_sync(all_lanes, v, step);
  return v;
}
template <class T>
__device__ __forceinline__ T warp_sum(T v) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (std::is_same_v<T, int>) return __reduce_add_sync(all_lanes, v);
#endif
  return lanes_sum(v, warp);
}

using ptx::barrier;
using ptx::barrier_of_roles;
using ptx::load_acquire;
using ptx::load_relaxed;
using ptx::store_relaxed;
using ptx::store_release;

// Loads from shared memory at this point of the program, in every lane. Where only some lanes select the loaded value,
// the compiler would otherwise load it in these lanes alone, after the other values of the selection are known, and a
// step of a sweep would wait for one after the other.
template <class T>
__device__ __forceinline__ T load_now(const T *from) {
  using Unit = std::conditional_t<sizeof(T) % sizeof(Word) == 0, Word, unsigned>;
  constexpr int units = sizeof(T) / sizeof(Unit);
  Unit unit[units];
#pragma unroll
  for (int i = 0; i < units; i++) unit[i] = reinterpret_cast<const volatile Unit *>(from)[i];
  T value;
  memcpy(&value, unit, sizeof value);
  return value;
}

// Between two looks at a word that another warp is to write: lets the warps that work have the issue slots and the
// memory system to themselves for a while.
__device__ __forceinline__ void back_off() { __nanosleep(32); }

// Waits until the word has been written. Its writer must have an earlier ticket, so that it is running or done: only
// then does this loop end whatever the number of resident blocks.
__device__ __forceinline__ Word wait_for(const Word *p) {
  Word v = load_relaxed(p);
  while (v == ~Word(0)) {
    back_off();
    v = load_relaxed(p);
  }
  return v;
}

// Comes before all loads of a kernel. Afterwards the kernel before it is done, and its writes are visible, except to
// __ldg: the compiler may move such a load above this wait.
using ptx::wait_for_kernel_before;
// Once all blocks have called this, blocks of the next kernel may become resident where there is room, and wait there.
using ptx::let_next_kernel_in;

// Element i of an array of the problem's dtype. Where Real is float the dtype is float32.
template <class Real>
__device__ __forceinline__ Real load(const void *data, int64_t i, bool f64) {
  if constexpr (sizeof(Real) == 8)
    if (f64) return __ldg(static_cast<const double *>(data) + i);
  return static_cast<Real>(__ldg(static_cast<const float *>(data) + i));
}
template <class Real>
__device__ __forceinline__ void store(void *data, int64_t i, bool f64, Real value) {
  if constexpr (sizeof(Real) == 8)
    if (f64) {
      static_cast<double *>(data)[i] = value;
      return;
    }
  static_cast<float *>(data)[i] = static_cast<float>(value);
}

}  // namespace sdtw::cuda
