// What the warps of a backward block tell each other. The first orders tiles and sweeps E through them; two others, in
// turn, recompute the tiles from checkpoints; if costs are computed by warps of their own, these follow the same
// orders. All of it lies in shared memory, and each side waits at gates for what it needs: the block has no other
// barriers.
#pragma once

#include "gates.cuh"
#include "pair.cuh"

namespace sdtw::cuda {

constexpr int recomputers = 2;  // warps
constexpr int window = 4;       // tiles that are ordered and not yet swept, at most

// A tile to be recomputed: parts, of the size of tiles, from first_part on, of which the last is the tile itself.
struct Order {
  int64_t task;  // none: there is nothing more to do
  int tile, first_part;
  int number;    // among all orders
  int reader;    // of the recomputing warps
  int sequence;  // of the first part among all that this warp recomputes
};

// What has been swept, for the warps that make gradients of it.
struct Notice {
  int64_t task;  // none: that was all
  int step;      // all steps from this one on are swept
  int order;     // of whose tile there is E; or none
};

constexpr int notice_slots = 4;
constexpr int half_slots = 4;  // of two tiles
constexpr int parts_kept = 4;  // of a recomputing warp: more than have costs in the ring at a time

struct Board {
  // Orders to each of the recomputing warps, and to those that compute costs.
  Gate ordered[recomputers + 1][window];
  Order orders[recomputers + 1][window];
  // The ways into a tile's cells lie in two halves, which are filled from the left and emptied from the right.
  Gate half_full[half_slots], half_empty[half_slots];
  // Costs of a recomputing warp's last parts.
  Gate costs_full[recomputers][parts_kept], costs_empty[recomputers][parts_kept];
  Ring<notice_slots> swept;
  Notice notices[notice_slots];

  __device__ __forceinline__ void open(int producers, int spenders) {
    for (int i = 0; i < (recomputers + 1) * window; i++) ordered[i / window][i % window].open(1);
    for (int i = 0; i < half_slots; i++) half_full[i].open(1), half_empty[i].open(spenders);
    for (int i = 0; i < recomputers * parts_kept; i++) {
      costs_full[i / parts_kept][i % parts_kept].open(max(producers, 1));
      costs_empty[i / parts_kept][i % parts_kept].open(1);
    }
    swept.open(1, spenders);
  }

  __device__ __forceinline__ Order receive(int reader, int count) const {
    ordered[reader][count % window].wait(count / window);
    return orders[reader][count % window];
  }

  // Tiles of even and of odd orders have two slots of half a tile each. What is emptied first of a tile is what the
  // next there fills first, so that it need not wait for the whole of it.
  static __device__ __forceinline__ int slot_of(int order, int half) {
    return (order & 1) * 2 + (half ^ (order >> 1 & 1));
  }
  __device__ __forceinline__ void wait_empty(int order, int half) const {
    half_empty[slot_of(order, half)].wait((order >> 1) - 1);
  }
  __device__ __forceinline__ void fill(int order, int half) { half_full[slot_of(order, half)].arrive(); }
  __device__ __forceinline__ void wait_full(int order, int half) const {
    half_full[slot_of(order, half)].wait(order >> 1);
  }
  __device__ __forceinline__ void leave(int order, int half, int warps = 1) {
    half_empty[slot_of(order, half)].arrive(warps);
  }
  // Whether the spenders have left a tile.
  __device__ __forceinline__ bool left(int order) const {
    const bool both =
        half_empty[slot_of(order, 0)].complete(order >> 1) && half_empty[slot_of(order, 1)].complete(order >> 1);
    return __all_sync(all_lanes, both);
  }

  // The costs of a part: waited for by the warp that recomputes it, and left.
  __device__ __forceinline__ void wait_costs(int reader, int sequence) const {
    costs_full[reader][sequence % parts_kept].wait(sequence / parts_kept);
  }
  __device__ __forceinline__ void fill_costs(int reader, int sequence) {
    costs_full[reader][sequence % parts_kept].arrive();
  }
  __device__ __forceinline__ void leave_costs(int reader, int sequence) {
    costs_empty[reader][sequence % parts_kept].arrive();
  }
  __device__ __forceinline__ void wait_costs_left(int reader, int sequence) const {
    costs_empty[reader][sequence % parts_kept].wait(sequence / parts_kept);
  }
};

// A tile is recomputed from the checkpoint before it, or from a snapshot taken when a tile to its right was.
__device__ __forceinline__ int parts_per_checkpoint(const Args &a) { return 1 << a.part_bits; }

// The first warp's side: which tiles have been ordered and not been swept.
template <bool to_producers, int spenders>
struct Ledger {
  static constexpr int ahead = 2;  // tiles that are ordered in the hope that E goes on to flow

  const Args &a;
  Board &board;
  int64_t task;
  int issued, taken;   // orders so far
  Word counts, parts;  // of orders to each of the recomputing warps, and of parts of them: half a word each
  int lowest;          // of the tiles ordered for the task

  __device__ __forceinline__ Ledger(const Args &args, Board &of)
      : a(args), board(of), task(none), issued(0), taken(0), parts(0), counts(0), lowest(0) {}

  __device__ __forceinline__ void begin(int64_t of) { task = of, lowest = 1 << 30; }

  // Readers find orders in their own slots; the last slots are also where those not yet taken can be looked up.
  __device__ __forceinline__ void put(int reader, int count, const Order &order) {
    if (lane_id() == 0) board.orders[reader][count % window] = order;
    if (reader < recomputers || to_producers)
      board.ordered[reader][count % window].arrive();
    else
      __syncwarp();
  }
  __device__ __forceinline__ void issue(int tile) {
    const int interval = tile >> a.part_bits, reader = interval % recomputers;
    // Its warp has been in this interval before and has left itself snapshots.
    const bool known = a.snapshots_each > 0 && lowest >> a.part_bits == interval;
    const int first = known ? tile : interval << a.part_bits;
    const Order order{task, tile, first, issued, reader, static_cast<int>(parts >> 32 * reader)};
    put(reader, static_cast<int>(counts >> 32 * reader), order);
    parts += static_cast<Word>(tile - first + 1) << 32 * reader;
    counts += Word(1) << 32 * reader;
    put(recomputers, issued++, order);
    lowest = tile;
  }

  // Whether the oldest order is for a tile that has been passed over.
  __device__ __forceinline__ bool obsolete(int tile) const {
    const Order &oldest = board.orders[recomputers][taken % window];
    return oldest.task != task || oldest.tile > tile;
  }
  __device__ __forceinline__ void drop() {
    for (int half = 0; half < 2; half++) {
      board.wait_full(taken, half);
      board.leave(taken, half, spenders);
    }
    taken++;
  }

  // Whether it is certain that the order before the last that had the same slots has been left: a warp that waits for
  // the last to be left must not fall behind.
  __device__ __forceinline__ bool may_issue() const {
    return issued < window || taken > issued - 2 || board.left(issued - window);
  }
  // Sees to it that the tile and some to the left of it are ordered.
  __device__ __forceinline__ void foresee(int tile) {
    for (int next = min(lowest - 1, tile); next >= max(tile - ahead, 0); next--) {
      if (issued - taken == window) {
        if (!obsolete(tile)) return;
        drop();
      }
      while (!may_issue())
        if (next < tile) return;
      issue(next);
    }
  }
  // The order of a tile that has been foreseen. Until the next is taken the caller may read what came of it.
  __device__ __forceinline__ int take(int tile) {
    while (obsolete(tile)) drop();
    return taken++;
  }
  __device__ __forceinline__ void stop() {
    while (taken < issued) drop();
    for (int reader = 0; reader < recomputers; reader++)
      put(reader, static_cast<int>(counts >> 32 * reader), {none, 0, 0, 0, 0, 0});
    if (to_producers) put(recomputers, issued, {none, 0, 0, 0, 0, 0});
  }
};

}  // namespace sdtw::cuda
