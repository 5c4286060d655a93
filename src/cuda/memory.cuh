// Device memory as one warp hands it to another: relaxed and acquire/release accesses, barriers, element loads.
#pragma once

#include <cstring>
#include <type_traits>

#include "cuda/args.h"

namespace sdtw::cuda {

constexpr int warp = 32;
constexpr unsigned all_lanes = 0xffffffffu;

__device__ __forceinline__ int lane_id() { return threadIdx.x % warp; }

__device__ __forceinline__ Word load_relaxed(const Word *p) {
  Word v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_relaxed(Word *p, Word v) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
__device__ __forceinline__ int load_acquire(const int *p) {
  int v;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_release(int *p, int v) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// From shared memory, by every lane and now. Left to itself the compiler loads what only some lanes choose in these
// alone, after all else that they choose from is known, and a step of a sweep waits for both.
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

// Waits until the word has been written. Its writer has an earlier ticket, so it is running or done.
__device__ __forceinline__ Word wait_for(const Word *p) {
  Word v = load_relaxed(p);
  while (v == ~Word(0)) v = load_relaxed(p);
  return v;
}

// First of all in a kernel: the one before it is done, and what it wrote is there, but for what __ldg reads, which the
// compiler may move up.
__device__ __forceinline__ void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
// From now on, once all blocks have come so far, those of the next kernel may take room that is left, and wait in it.
__device__ __forceinline__ void let_next_kernel_in() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// A barrier among `threads` threads of the block. Id 0 is __syncthreads'.
__device__ __forceinline__ void barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Element i of an array of the problem's dtype, which is float32 wherever Real is float.
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
