// What the warps of a backward block tell each other. The first takes strips and sweeps E through their tiles, from
// right to left; two others, in turn, recompute the tiles from checkpoints; if costs are computed by warps of their
// own, these are ahead of them; the rest make gradients of E. All know from a band of them which tiles there are, and
// wait at barriers for what they need of each other.
#pragma once

#include "cuda/pair.cuh"
#include "cuda/pipeline/barrier.cuh"

namespace sdtw::cuda {

constexpr int recomputers = 2;  // warps
constexpr int band_slots = 4;
constexpr int half_slots = 4;  // of two tiles
constexpr int parts_kept = 4;  // of a recomputing warp: more than have costs in the ring at a time

// Tiles of a strip into which E flows: from `last` down to `first`.
struct Band {
  int64_t task;     // none: there is nothing more to do
  int first, last;  // none until it is known where the band begins
  int number;       // of tile `last` among all that the block does: numbers go up while tiles go down
  bool open_ended;  // `first` is found out on the way
};

// What lies so many tiles ahead of the one that is swept is begun with only if E flows on: where it has left the strip,
// those before that have been begun with are swept all the same.
constexpr int lead = 3;
constexpr int end_slots = 8;

// Of the warps of a block, as each of them has met them.
struct BackwardPipeline {
  BarrierRing<band_slots> bands;
  Band band[band_slots];
  Barrier begun[band_slots];
  int first_of[band_slots], last_of[band_slots];
  // A tile lies in two halves, which are filled with the ways into its cells from the left, and swept and left by those
  // who make gradients from the right.
  Barrier half_full[half_slots], half_swept[half_slots], half_empty[half_slots];
  unsigned live[half_slots][warp];  // the steps in which a lane's rows have any E
  Barrier end_known[end_slots];     // tiles: they have been swept,
  int first[end_slots];             // and this is the last one to be
  // By the two recomputing warps in turn: all that comes before a tile has been recomputed.
  Barrier reached[recomputers];
  // Costs of a recomputing warp's last parts.
  Barrier costs_full[recomputers][parts_kept], costs_empty[recomputers][parts_kept];

  // warps: of the block. readers: of E.
  __device__ __forceinline__ void init(int warps, int producers, int readers) {
    bands.init(1, warps - 1);
    for (int i = 0; i < band_slots; i++) begun[i].init(1);
    for (int i = 0; i < half_slots; i++) half_full[i].init(1), half_swept[i].init(1), half_empty[i].init(readers);
    for (int i = 0; i < recomputers; i++) reached[i].init(1);
    for (int i = 0; i < end_slots; i++) end_known[i].init(1);
    for (int i = 0; i < recomputers * parts_kept; i++) {
      costs_full[i / parts_kept][i % parts_kept].init(max(producers, 1));
      costs_empty[i / parts_kept][i % parts_kept].init(1);
    }
  }

  __device__ __forceinline__ void announce(int count, const Band &next) {
    bands.wait_empty(count);
    if (lane_id() == 0) band[count % band_slots] = next;
    bands.fill(count);
  }
  __device__ __forceinline__ Band receive(int count) const {
    bands.wait_full(count);
    return band[count % band_slots];
  }
  __device__ __forceinline__ void begin(int count, const Band &of) {
    if (lane_id() == 0) first_of[count % band_slots] = of.first, last_of[count % band_slots] = of.last;
    begun[count % band_slots].arrive();
  }
  __device__ __forceinline__ void wait_begun(int count, Band &of) {
    begun[count % band_slots].wait(count / band_slots);
    of.first = first_of[count % band_slots], of.last = last_of[count % band_slots];
    bands.leave(count);
  }

  // By the first warp, after a tile.
  __device__ __forceinline__ void publish_end(int number, int first_tile) {
    if (lane_id() == 0) first[number % end_slots] = first_tile;
    end_known[number % end_slots].arrive();
  }
  // By the others, before they begin with a tile: whether it belongs to the band. several: see make_strip_view.
  template <bool several>
  __device__ __forceinline__ bool goes_on(Band &of, int tile) const {
    const int before = of.last - tile - lead, number = of.number + before;
    if (several && tile >= of.first && number >= 0) {
      end_known[number % end_slots].wait(number / end_slots);
      if (of.open_ended && before >= 0) of.first = first[number % end_slots];
    }
    return tile >= of.first;
  }

  // Tiles of even and of odd numbers have two slots of half a tile each. What is emptied first of a tile is what the
  // next there fills first, so that it need not wait for the whole of it.
  static __device__ __forceinline__ int slot_of(int number, int half) {
    return (number & 1) * 2 + (half ^ (number >> 1 & 1));
  }
  __device__ __forceinline__ void wait_empty(int number, int half) const {
    half_empty[slot_of(number, half)].wait((number >> 1) - 1);
  }
  __device__ __forceinline__ void fill(int number, int half) { half_full[slot_of(number, half)].arrive(); }
  __device__ __forceinline__ void wait_full(int number, int half) const {
    half_full[slot_of(number, half)].wait(number >> 1);
  }
  __device__ __forceinline__ void sweep(int number, int half) { half_swept[slot_of(number, half)].arrive(); }
  __device__ __forceinline__ void wait_swept(int number, int half) const {
    half_swept[slot_of(number, half)].wait(number >> 1);
  }
  __device__ __forceinline__ void leave(int number, int half) { half_empty[slot_of(number, half)].arrive(); }

  __device__ __forceinline__ void reach(int number) { reached[number % recomputers].arrive(); }
  __device__ __forceinline__ void wait_reached(int number) const {
    if (number >= 0) reached[number % recomputers].wait(number / recomputers);
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

// A tile's number among all that the block does. The recomputing warps take turns.
__device__ __forceinline__ int number_of(const Band &band, int tile) { return band.number + band.last - tile; }

// A tile is recomputed from the checkpoint before it, or from a snapshot taken when a tile to its right was: in parts
// of the size of tiles, of which the last is the tile itself.
__device__ __forceinline__ int parts_per_checkpoint(const Args &a) { return 1 << a.part_bits; }
__device__ __forceinline__ int first_part(const Args &a, const Band &band, int tile) {
  const int interval = tile >> a.part_bits;
  const bool known = a.snapshots_each > 0 && tile < band.last && (tile + 1) >> a.part_bits == interval;
  return known ? tile : interval << a.part_bits;
}

}  // namespace sdtw::cuda
