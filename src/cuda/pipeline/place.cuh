// Which of a block's warps take which roles. A multiprocessor has four schedulers, each of which issues for every
// fourth slot of a warp, and roles take a scheduler for unequally long. So where that matters roles are given out by
// slots: warps that have a scheduler to themselves, as far as their block is concerned, come first. The order of
// schedulers is turned by one for every other block of a multiprocessor, so that their first roles are on different
// ones. Invariant: places are a permutation of the block's warps, whatever the slots are.
#pragma once

#include "cuda/pair.cuh"

namespace sdtw::cuda {

constexpr int schedulers = 4;

// The calling warp's place among the `warps` of its block, which all call this. slots: shared memory for as many
// numbers, which is free again afterwards.
template <int warps>
__device__ __forceinline__ int place_of_warp(int *slots) {
  const int own = threadIdx.x / warp;
  if (lane_id() == 0) slots[own] = ptx::warp_slot();
  __syncthreads();
  const bool exists = lane_id() < warps;
  const int slot = slots[exists ? lane_id() : 0], scheduler = slot % schedulers;
  __syncthreads();
  const int turn = -warp_max(-slot) / schedulers % 2;  // by the block's least slot
  bool shares = false;
#pragma unroll
  for (int i = 0; i < schedulers; i++)
    shares |= __popc(__ballot_sync(all_lanes, exists && scheduler == i)) > 1 && scheduler == i;
  const int order = (shares * schedulers + (scheduler - turn + schedulers) % schedulers) * warp + lane_id();
  const int own_order = __shfl_sync(all_lanes, order, own);
  return __popc(__ballot_sync(all_lanes, exists && order < own_order));
}

}  // namespace sdtw::cuda
