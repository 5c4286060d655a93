// Synchronisation between the warps of one block that have different roles: barriers in shared memory (mbarrier), and
// rings of slots that one side fills and the other empties.
//
// Invariant: a barrier tells nothing but the parity of its completed uses, so a warp that waits for use i must be
// certain that use i - 1 is complete and that use i + 1 is not. Each protocol that is built on barriers has to
// guarantee this. tests/check_handover.py models the barriers of a backward block and runs them in random order.
// Trade-off: only the warps that need a slot wait for it, where __syncthreads would stop the whole block; in exchange
// the protocol has to bound how far warps drift apart.
// Not used between blocks, which hand over words of global memory (memory.cuh), nor among warps of one role that have
// to meet at one point, which use a named barrier of the block (`barrier` in memory.cuh) or, in TensorCosts, two
// Barriers.
#pragma once

#include "cuda/memory.cuh"

namespace sdtw::cuda {

constexpr int none = -1;

// One barrier in shared memory. A use is complete when as many warps have arrived as `init` was told, and then the next
// use begins. Uses are counted from 0. Warps that arrive do not wait.
struct Barrier {
  Word state;  // the mbarrier object; before compute capability 8.0: arrivals so far (low half), warps of a use (high)

  __device__ __forceinline__ unsigned address() const {
    return static_cast<unsigned>(__cvta_generic_to_shared(&state));
  }

#if (!defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800) && !defined(SDTW_CUDA_COUNTED_BARRIERS)
  // Called by one thread, before a __syncthreads that all users of the barrier pass. warps: arrivals that make a use.
  __device__ __forceinline__ void init(int warps) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address()), "r"(warps * warp) : "memory");
  }
  // Called by one thread when all are done with the barrier: its place may be used for something else then.
  __device__ __forceinline__ void retire() {
    asm volatile("mbarrier.inval.shared.b64 [%0];" ::"r"(address()) : "memory");
  }
  // Called by a whole warp. A warp that waits for this use sees what the arriving warp has written, and may overwrite
  // what the arriving warp has read. Every lane arrives: that costs nothing measurable, and compute-sanitizer can
  // follow what each lane has done. warps: the number of warps that this warp arrives for.
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
  // Whether a use is complete, as seen by the calling lane. With `waiting`, hardware that can (9.0 on) suspends the
  // lane for a while before it answers no.
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
  // GPUs before 8.0 have no mbarrier: one lane of each warp counts arrivals atomically, and the number of completed
  // uses is the quotient of arrivals and warps of a use.
  __device__ __forceinline__ void init(int warps) { state = static_cast<Word>(warps) << 32; }
  __device__ __forceinline__ void retire() {}
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
  // Called by a whole warp. Use -1 counts as complete from the start, so the first wait for an empty slot returns at
  // once.
  __device__ __forceinline__ void wait(int use) const {
    while (!complete<true>(use)) {
#if defined(SDTW_CUDA_COUNTED_BARRIERS) || (defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900)  // others wait in hardware
      back_off();
#endif
    }
    __syncwarp();
  }
};

// A ring of slots that one side fills and the other empties, both in the order of the items: item i lies in slot
// i % slots, and is use i / slots of that slot's two barriers. Who fills may be `slots` items ahead of who empties.
template <int slots>
struct BarrierRing {
  // full: the filling warps arrive when an item has been written; the emptying warps wait.
  // empty: the emptying warps arrive when they have read an item; the filling warps wait.
  Barrier full[slots], empty[slots];

  // fillers, emptiers: warps that arrive for each item.
  __device__ __forceinline__ void init(int fillers, int emptiers) {
    for (int i = 0; i < slots; i++) full[i].init(fillers), empty[i].init(emptiers);
  }
  __device__ __forceinline__ void retire() {
    for (int i = 0; i < slots; i++) full[i].retire(), empty[i].retire();
  }
  __device__ __forceinline__ void wait_full(int item) const { full[item % slots].wait(item / slots); }
  __device__ __forceinline__ void wait_empty(int item) const { empty[item % slots].wait(item / slots - 1); }
  __device__ __forceinline__ void fill(int item) { full[item % slots].arrive(); }
  __device__ __forceinline__ void leave(int item) { empty[item % slots].arrive(); }
};

}  // namespace sdtw::cuda
