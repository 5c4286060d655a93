// How warps of a block with different roles hand each other what lies in shared memory: barriers, and rings of slots.
#pragma once

#include "cuda/memory.cuh"

namespace sdtw::cuda {

constexpr int none = -1;

// A barrier in shared memory that only those wait at who need what it stands for. A use of it is complete when as many
// warps have arrived as it was made for, and then the next use begins. Uses are counted from 0. All that a barrier
// tells is the parity of its uses: whoever waits for use i must be certain that i - 1 is complete and that i + 1 is
// not. tests/check_handover.py has a model of the barriers of a backward block.
struct Barrier {
  Word state;

  __device__ __forceinline__ unsigned address() const {
    return static_cast<unsigned>(__cvta_generic_to_shared(&state));
  }

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  // By one thread, before a barrier of the block.
  __device__ __forceinline__ void init(int warps) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address()), "r"(warps * warp) : "memory");
  }
  // By a warp: whoever waits sees what it has written, and it no longer reads what it has read. Every lane arrives: it
  // costs nothing that could be measured, and compute-sanitizer follows what each of them has done.
  // warps: for how many.
  __device__ __forceinline__ void arrive(int warps = 1) {
    __syncwarp();
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .b64 old; mbarrier.arrive.shared.b64 old, [%0], %1; }" ::"r"(address()), "r"(warps)
                 : "memory");
#else
    for (int i = 0; i < warps; i++)
      asm volatile("{ .reg .b64 old; mbarrier.arrive.shared.b64 old, [%0]; }" ::"r"(address()) : "memory");
#endif
  }
  // Whether a use is complete, for the lane that asks. Waiting for it is left to the hardware where that can.
  template <bool waiting = false>
  __device__ __forceinline__ bool complete(int use) const {
    unsigned done;
#if __CUDA_ARCH__ >= 900
    if (waiting) {
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                   : "=r"(done)
                   : "r"(address()), "r"(use & 1)
                   : "memory");
      return done != 0;
    }
#endif
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(address()), "r"(use & 1)
                 : "memory");
    return done != 0;
  }
#else
  // Before there was hardware for it: arrivals so far, and how many make a use.
  __device__ __forceinline__ void init(int warps) { state = static_cast<Word>(warps) << 32; }
  __device__ __forceinline__ void arrive(int warps = 1) {
    __syncwarp();
    __threadfence_block();
    if (lane_id() == 0) atomicAdd(reinterpret_cast<unsigned *>(&state), static_cast<unsigned>(warps));
  }
  template <bool waiting = false>
  __device__ __forceinline__ bool complete(int use) const {
    const Word now = *static_cast<const volatile Word *>(&state);
    const unsigned uses = static_cast<unsigned>(now) / static_cast<unsigned>(now >> 32);
    __threadfence_block();
    return (uses & 1) != (use & 1);
  }
#endif
  // By a warp. Use -1 was complete before there were any.
  __device__ __forceinline__ void wait(int use) const {
    while (!complete<true>(use)) continue;
    __syncwarp();
  }
};

// Slots that one side fills and the other empties, always in the same order: item i lies in slot i % slots.
template <int slots>
struct BarrierRing {
  Barrier full[slots], empty[slots];

  __device__ __forceinline__ void init(int fillers, int emptiers) {
    for (int i = 0; i < slots; i++) full[i].init(fillers), empty[i].init(emptiers);
  }
  __device__ __forceinline__ void wait_full(int item) const { full[item % slots].wait(item / slots); }
  __device__ __forceinline__ void wait_empty(int item) const { empty[item % slots].wait(item / slots - 1); }
  __device__ __forceinline__ void fill(int item) { full[item % slots].arrive(); }
  __device__ __forceinline__ void leave(int item) { empty[item % slots].arrive(); }
};

}  // namespace sdtw::cuda
