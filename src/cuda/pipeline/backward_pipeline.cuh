// The shared-memory protocol between the warps of a backward block. The first warp takes strips and sweeps the adjoint
// E through their tiles from right to left. Two recomputing warps take turns at recomputing tiles from checkpoints. If
// costs are computed by producers (warps of their own), these work ahead of the recomputing warps. Epilogue warps turn
// E into gradients. All warps learn from a Band which tiles of a strip there are.
//
// Invariant: tiles are numbered through over all strips of the block, and the slot and the barrier use of everything
// that is handed over follow from that number (of costs: from the part's number among those of its recomputing warp).
// No warp drifts so far from another that the parity of a barrier becomes ambiguous (barrier.cuh).
// Trade-off: warps work ahead of the adjoint sweep so that it does not wait for them; where it is not known beforehand
// in which tile E leaves the strip, up to lead - 1 = 2 tiles are recomputed in vain.
// Not used by forward, whose smaller protocol is ForwardPipeline (costs/tile_costs.cuh).
#pragma once

#include "cuda/pair.cuh"
#include "cuda/pipeline/barrier.cuh"

namespace sdtw::cuda {

constexpr int recomputers = 2;  // warps, of which each has every other tile
constexpr int band_slots = 4;   // bands that may be announced before the slowest warp has begun with the first of them
constexpr int half_slots = 4;   // two tiles, in halves of a tile each
constexpr int parts_kept = 4;   // slots for costs of each recomputing warp: more than parts have costs in the ring (3)

// The tiles of one strip into which E flows, from `last` down to `first`. Tiles are numbered from left to right, in the
// order in which the strip's sweep met them.
struct Band {
  int64_t task;     // the strip; none: there is nothing more to do for the block
  int first, last;  // tiles; `last` is none until it is known in which column E enters, and `first` counts only then
  int number;       // of tile `last` among all tiles of the block: numbers go up while tiles go down (number_of)
  bool open_ended;  // the sweep finds out on the way in which tile E leaves; `first` is 0 until then
};

// Warps begin with a tile only when the tile `lead` before it has been swept and the band is known to go on: they are
// at most `lead` tiles ahead of the adjoint sweep. When E has left the strip, the lead - 1 tiles that may have been
// begun are still swept.
constexpr int lead = 3;
// Slots of published ends: more than lead tiles and those by which the adjoint sweep can be ahead of another warp.
constexpr int end_slots = 8;

// The barriers and what they protect, in shared memory. "Epilogue" stands for all warps of the Epilogue, of which each
// arrives.
struct BackwardPipeline {
  // Bands, by the number of the strip among those of the block. The first warp announces a strip before it is known
  // where its band begins, so that the other warps can load what they need; `begun` tells the band's tiles.
  BarrierRing<band_slots> bands;                  // first warp -> all others, which leave the slot in wait_begun
  Band band[band_slots];                          // as announced
  Barrier begun[band_slots];                      // the first warp arrives when first_of and last_of are written
  int first_of[band_slots], last_of[band_slots];  // tiles
  // Half tiles, by slot_of. The recomputing warp fills a tile from its left half to its right one, with transition
  // probabilities (half_full); the first warp sweeps it from right to left and leaves E in their place (half_swept);
  // the Epilogue reads E in the same order and leaves the slot (half_empty).
  Barrier half_full[half_slots], half_swept[half_slots], half_empty[half_slots];
  unsigned live[half_slots][warp];  // bit u: the lane's rows have E in step u of the half; if Epilogue::wants_live
  // Ends, by the tile's number. The first warp arrives when it has swept the tile; all others wait in goes_on.
  Barrier end_known[end_slots];
  int first[end_slots];  // the band's last tile to be swept, as known after that sweep
  // By the tile's number: its recomputing warp has recomputed all parts that come before it, and stored their
  // snapshots. The other recomputing warp waits.
  Barrier reached[recomputers];
  // Costs of the last parts of each recomputing warp: the producers arrive when they are in the ring (costs_full), the
  // recomputing warp when it has read them (costs_empty).
  Barrier costs_full[recomputers][parts_kept], costs_empty[recomputers][parts_kept];

  // Called by one thread. warps: all of the block. readers: warps of the Epilogue.
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

  // Called by one thread when all warps are done.
  __device__ __forceinline__ void retire() {
    bands.retire();
    for (Barrier &barrier : begun) barrier.retire();
    for (int i = 0; i < half_slots; i++) half_full[i].retire(), half_swept[i].retire(), half_empty[i].retire();
    for (Barrier &barrier : reached) barrier.retire();
    for (Barrier &barrier : end_known) barrier.retire();
    for (int i = 0; i < recomputers * parts_kept; i++) {
      costs_full[i / parts_kept][i % parts_kept].retire();
      costs_empty[i / parts_kept][i % parts_kept].retire();
    }
  }

  // count: number of the band among those of the block. Called by the first warp: `announce` and `begin`; by all
  // others: `receive` and then `wait_begun`, which fills in the band's tiles.
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

  // Called by the first warp when it has swept tile `number`, if there may be several strips.
  __device__ __forceinline__ void publish_end(int number, int first_tile) {
    if (lane_id() == 0) first[number % end_slots] = first_tile;
    end_known[number % end_slots].arrive();
  }
  // Called by all other warps before they begin with a tile: whether it belongs to the band. They wait until the tile
  // `lead` before it has been swept. If that tile is of the strip before, its end says nothing about this band.
  // several: see make_strip_view; a pair of one strip has all its tiles in the band, and no end is published.
  template <bool several>
  __device__ __forceinline__ bool goes_on(Band &of, int tile) const {
    const int before = of.last - tile - lead, number = of.number + before;
    if (several && tile >= of.first && number >= 0) {
      end_known[number % end_slots].wait(number / end_slots);
      if (of.open_ended && before >= 0) of.first = first[number % end_slots];
    }
    return tile >= of.first;
  }

  // Tiles of even and of odd numbers have two slots each, one for a half tile. The right half of a tile is emptied
  // first and the left half of the next tile in these slots is filled first, so the two halves swap slots from tile to
  // tile: the recomputing warp need not wait until the whole tile is empty.
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

  // Costs of part `sequence` of recomputing warp `reader`. The recomputing warp waits for them and leaves them; the
  // producers fill them, and wait until they have been left before they overwrite them.
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

// A tile's number among all tiles of the block. Recomputing warp number % recomputers recomputes the tile.
__device__ __forceinline__ int number_of(const Band &band, int tile) { return band.number + band.last - tile; }

// A tile is recomputed in parts of tile_steps steps each, from the checkpoint to its left, or the strip's first step,
// up to the tile itself, which is the last part. If snapshots are taken and the tile to its right lies in the same
// checkpoint interval and in the band, that tile's recomputation has stored a snapshot at the beginning of this tile,
// and the tile is the only part.
__device__ __forceinline__ int parts_per_checkpoint(const Args &a) { return 1 << a.part_bits; }
template <bool banded>
__device__ __forceinline__ int part_of_begin(const Args &a, const StripView &s) {
  return begin_of<banded>(s) >> a.tile_bits;
}
template <bool banded>
__device__ __forceinline__ int first_part(const Args &a, const StripView &s, const Band &band, int tile) {
  const int interval = tile >> a.part_bits;
  const bool known = a.snapshots_each > 0 && tile < band.last && (tile + 1) >> a.part_bits == interval;
  return known ? tile : max(interval << a.part_bits, part_of_begin<banded>(a, s));
}

}  // namespace sdtw::cuda
