// Costs of many features: four producer warps of a block compute them for the warps that sweep, 16 columns of a strip
// at a time, into a ring in shared memory, [step][row], whose formats are in rings.cuh. This file has forward's
// hand-over between the warps and the sweeping warp's side. The producers of FloatCell and LongCell are those of
// tensor_costs.cuh and slice_costs.cuh, DoubleCell's those of difference_costs.cuh.
// Invariant: a cost lies in the ring slot of the step in which its row's lane meets it, so the sweeping warp reads K
// rows of one slot in each lane. Steps in which a lane is left of the first column or beyond the last have costs, too,
// which may be any number but no NaN.
// Trade-off: the sweeping warp only reads, but shared memory and four warps are taken. Series of few features
// and given costs do without (inline_costs.cuh, given_costs.cuh).
#pragma once

#include "cuda/costs/inline_costs.cuh"
#include "cuda/costs/rings.cuh"
#include "cuda/pipeline/barrier.cuh"

namespace sdtw::cuda {

constexpr int producers = producers_of_tiles;  // warps, each of which has 32 rows of the strip
constexpr int chunk_columns = 16;              // columns that are computed at a time: a chunk

// The slot of a step, -32 or more, in a ring of so many columns: a power of two, or one of the numbers below, by which
// the compiler divides without a division.
__device__ __forceinline__ int place_in_ring(int step, int columns) {
  switch (columns) {
    case 48: return static_cast<int>(static_cast<unsigned>(step + 48) % 48);
    case 80: return static_cast<int>(static_cast<unsigned>(step + 80) % 80);
    case 96: return static_cast<int>(static_cast<unsigned>(step + 96) % 96);
    case 160: return static_cast<int>(static_cast<unsigned>(step + 160) % 160);
    default: return step & (columns - 1);
  }
}

// Names a type to a generic lambda without a value of the type.
template <class T>
struct Type {
  using type = T;
};

// The rows of the strip whose costs a producer thread computes.
struct RowsOfProducer {
  const Args &a;
  int m;   // columns of the rows' pair
  int at;  // the first of the rows, among the 128 of the strip

  // The sweeping lane that has these rows, among the lanes of its pair.
  __device__ __forceinline__ int lane() const { return at / K & (a.lanes - 1); }
  // The end of the columns whose costs are computed: the same for all producers, also where their pairs differ.
  __device__ __forceinline__ int end() const { return a.lanes == warp ? m : a.m; }
};

// Forward: a task as the sweeping warp announces it to the producers of its block.
struct WorkItem {
  int64_t task;  // none: there are no more tasks
  // The number of the task's first chunk, counted over all tasks of the block; and its chunks, one for each 16 steps.
  int first_chunk, chunks;
};
// Forward: how the sweeping warp and the producers of its block hand over chunks, in shared memory. The sweeping warp
// announces a task before it sweeps the one before, so that the producers go on without a pause.
// Invariant: producers overwrite ring slots only when the blocks of steps that read these have been swept (wait_swept),
// and the sweeping warp begins a block only when all producers have written the block's chunk (wait_full).
struct ForwardPipeline {
  // Barriers that chunks use in turn, by their number. A ring has at most 4 chunks, so uses of a barrier never overlap.
  static constexpr int slots = 8;
  // full: the producers have written a chunk. empty: the block of steps that begins with a chunk has been swept.
  Barrier full[slots], empty[slots];
  Barrier announced[2];  // the item of this number, modulo 2, has been written
  WorkItem items[2];     // the last two tasks that were announced

  __device__ __forceinline__ void init() {
    for (int i = 0; i < slots; i++) full[i].init(producers), empty[i].init(1);
    announced[0].init(1), announced[1].init(1);
  }
  __device__ __forceinline__ void retire() {
    for (int i = 0; i < slots; i++) full[i].retire(), empty[i].retire();
    announced[0].retire(), announced[1].retire();
  }
  __device__ __forceinline__ void wait_full(int chunk) const { full[chunk % slots].wait(chunk / slots); }
  __device__ __forceinline__ void fill(int chunk) { full[chunk % slots].arrive(); }
  // Waits until the block of steps that begins with a chunk has been swept. There are none with negative numbers.
  __device__ __forceinline__ void wait_swept(int chunk) const {
    if (chunk >= 0) empty[chunk % slots].wait(chunk / slots);
  }
  __device__ __forceinline__ void leave(int chunk) { empty[chunk % slots].arrive(); }

  __device__ __forceinline__ void announce(int count, const WorkItem &item) {
    if (lane_id() == 0) items[count % 2] = item;
    announced[count % 2].arrive();
  }
  __device__ __forceinline__ WorkItem receive(int count) const {
    announced[count % 2].wait(count / 2);
    return items[count % 2];
  }
};

// The sweeping warp's side: it waits for chunks and reads the costs of a step from the ring.
template <class Ring_>
struct TileReader {
  using Ring = Ring_;
  using Left = typename Ring::Left;
  static constexpr bool cooperative = true;
  // Backward has two kernels for FloatCell. The second takes pairs whose costs are too large for a WordRing.
  static constexpr bool of_words = std::is_same_v<Ring, WordRing>;
  static constexpr int warps = 1 + producers;  // of a block of forward
  __host__ __device__ static size_t ring_bytes(int columns) { return Ring::bytes_of_cost * columns * column_pitch; }

  Ring ring;                  // its columns are a multiple of the steps that are read after one seek
  int shift;                  // how many slots after slot 0 step 0 lies, before it is wrapped
  int slot;                   // the slot of the step that was sought
  ForwardPipeline *pipeline;  // forward
  int next_chunk;             // forward: the next chunk to wait for

  // Forward: leaves the block of steps before to the producers, and waits for the chunk of the block that begins.
  __device__ __forceinline__ void enter(int, bool begins) {
    if (!begins) pipeline->leave(next_chunk - 1);
    pipeline->wait_full(next_chunk++);
  }
  __device__ __forceinline__ void stage(int) const {}

  // Steps u are counted from `first` on, which is a multiple of the number of steps that are read from there.
  __device__ __forceinline__ void seek(int first) { slot = place_in_ring(first + shift, ring.columns); }
  // The costs of a step, as the ring holds them.
  __device__ __forceinline__ Left left(int u) const { return ring.load(slot, u, K * lane_id()); }
};

}  // namespace sdtw::cuda
