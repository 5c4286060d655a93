// Tasks of the general engine: a task is a strip of a pair. Which pair, which
// series, which of its tiles have admitted cells, and what blocks that have
// neighbouring strips tell each other.
#pragma once

#include <climits>

#include "core/pairs.h"
#include "cuda/general/cell.cuh"
#include "cuda/pipeline/barrier.cuh"

namespace sdtw::cuda::general {

// The warps of a block. In forward the first one sweeps and the others fill tiles with costs. In backward the first one
// sweeps E, the second one recomputes, then come those that fill and those that make gradients. With tangents a thread
// needs more registers than so many warps have.
template <bool tangents>
constexpr int fill_warps = tangents ? 4 : 8;
template <bool tangents>
constexpr int gradient_warps = tangents ? 2 : 6;
template <bool tangents>
constexpr int forward_threads = warp *(1 + fill_warps<tangents>);
template <bool tangents>
constexpr int backward_threads = warp *(2 + fill_warps<tangents> + gradient_warps<tangents>);

// Barriers among some warps of a block: of those that fill; of those that make gradients.
enum Meeting : int { filling = 1, grading };
__device__ __forceinline__ void meet_at(Meeting meeting, int threads) {
  __syncwarp();
  barrier(meeting, threads);
}

// Blocks of forward that a multiprocessor is to hold: so many that their
// registers suffice.
template <class Cell, bool tangents>
constexpr int blocks_of = tangents || !Cell::wide || !Cell::soft ? 2 : 1;

// The k-th of the pairs that are computed. SDTW_SYMMETRIC: of those with x <=
// y, row by row.
__device__ __forceinline__ core::PairIndex pair_at(const Args &a, int64_t k) {
  return a.symmetric ? core::pair_of_triangle(k, a.batch_x) : core::pair_index(k, a.all_pairs, a.batch_y);
}

struct Lengths {
  int n, m;
  LengthCase kind;
};
__device__ __forceinline__ Lengths lengths_of(const Args &a, const core::PairIndex &index) {
  const int64_t n = read_length(a.x_len, a.fused ? index.x : index.pair, a.n, a.long_lengths);
  const int64_t m = read_length(a.symmetric ? a.x_len : a.y_len, a.fused ? index.y : index.pair, a.m, a.long_lengths);
  if (n < 0 || n > a.n || m < 0 || m > a.m) return {0, 0, LengthCase::invalid};
  return {static_cast<int>(n), static_cast<int>(m),
          n && m   ? LengthCase::regular
          : n || m ? LengthCase::unreachable
                   : LengthCase::empty};
}

struct Task {
  int64_t local;  // of the pair in the wave
  core::PairIndex index;
  int n, m;
  LengthCase kind;
  int strip, strips;  // of the pair's own
  int row;            // the strip's first
  core::Band band;

  __device__ __forceinline__ bool last() const { return strip == strips - 1; }
  __device__ __forceinline__ int end_lane() const { return (n - 1 - row) / K; }
  __device__ __forceinline__ int end_row() const { return (n - 1 - row) % K; }
  __device__ __forceinline__ int end_step() const { return m - 1 + end_lane(); }
};

// Tasks go through the first strips of all pairs, then the second ones, ...;
// upwards: from the last strip of each.
__device__ __forceinline__ Task make_task(const Args &a, int64_t ticket, bool upwards) {
  Task s;
  s.local = ticket % a.pairs;
  s.index = pair_at(a, a.first + s.local);
  const Lengths lengths = lengths_of(a, s.index);
  s.n = lengths.n, s.m = lengths.m, s.kind = lengths.kind;
  s.strips = (s.n + strip_rows - 1) / strip_rows;
  const int turn = static_cast<int>(ticket / a.pairs);
  s.strip = upwards ? s.strips - 1 - turn : turn;
  s.row = s.strip * strip_rows;
  s.band = a.band;
  s.band.n = s.n, s.band.m = s.m;
  return s;
}

// Where all warps of a block meet though they come from several places of the source: __syncthreads asks that all
// threads come from one, and tools take any hardware barrier of all threads for that. met: how often the thread has
// been here, since the kernel began.
struct Rounds {
  Barrier barrier;

  __device__ __forceinline__ void meet(int &met) {
    barrier.arrive();
    barrier.wait(met++);
  }
};

// What a block knows of its task, in shared memory.
struct Block {
  Rounds rounds;
  int64_t ticket;
  int first[strip_rows],
      end[strip_rows];         // columns that each row admits; none if end <= first
  int above_first, above_end;  // of the row above the strip
  int begin, steps;  // steps from the first admitted cell, or the column before if E can leave the strip in it,
                     // to behind the last one
  bool over[2];      // backward, of rounds of even and odd number: whether it was the last
  bool swept[2];     // whether E was swept through half a tile, and where it has any: bits of steps, for each lane
  unsigned live[2][warp];
  Word told[2], heard[2];  // where E has left the strip in the round, 0 if in no more columns than before; and the one
                           // below: words of Returned
  int entry;               // the tile that E enters first, or is expected to; -1: none
  bool again;              // it enters in a later one: all begins again
};

// Called by all threads; ends with a barrier.
__device__ __forceinline__ void find_columns(const Task &s, Block &block) {
  const int thread = threadIdx.x;
  if (thread == 0) block.begin = INT_MAX, block.steps = 0;
  __syncthreads();
  if (thread < strip_rows) {
    const int row = s.row + thread, lane = thread / K;
    int first = 0, end = 0;
    if (row < s.n) {
      const core::Interval admitted = s.band.columns(row);
      if (admitted.end > admitted.first) first = static_cast<int>(admitted.first), end = static_cast<int>(admitted.end);
    }
    block.first[thread] = first, block.end[thread] = end;
    const int from = -warp_max(end > first ? -(first + lane) : -INT_MAX);
    const int to = warp_max(end > first ? end + lane : 0);
    if (lane_id() == 0) {
      atomicMin(&block.begin, from);
      atomicMax(&block.steps, to);
    }
  } else if (thread == strip_rows) {
    int first = 0, end = 0;
    if (s.strip > 0) {
      const core::Interval admitted = s.band.columns(s.row - 1);
      if (admitted.end > admitted.first) first = static_cast<int>(admitted.first), end = static_cast<int>(admitted.end);
    }
    block.above_first = first, block.above_end = end;
    const core::Interval of_first = s.band.columns(s.row);
    if (end > first && of_first.end > of_first.first)  // a diagonal step leads into the column before the strip's first
      atomicMin(&block.begin, max(first, static_cast<int>(of_first.first) - 1));
  }
  __syncthreads();
  if (thread == 0 && block.steps == 0) block.begin = 0;
  __syncthreads();
}

__device__ __forceinline__ Word *row_of(const Args &a, const Task &s, int strip) {
  return a.rows + (s.local * a.strips + strip) * a.row_columns * a.words;
}
// The checkpoint of the strip before step `segment` * interval, of which the
// first that has one is behind `first`.
__device__ __forceinline__ Word *checkpoint_of(const Args &a, const Task &s, int segment, int first) {
  return a.saved + ((s.local * a.strips + s.strip) * a.slots + segment - first - 1) * ((K + 1) * warp) * a.words;
}

// Progress that blocks tell each other. Whoever waits does so for a block of an
// earlier ticket, which is running or done.
// By one lane of a warp, behind a barrier with the threads of which it tells.
template <class T>
__device__ __forceinline__ void publish(T *p, T v) {
  store_release(p, v);
}
template <class T, class Enough>
__device__ __forceinline__ T wait_until(const T *p, Enough enough) {
  T v = load_acquire(p);
  while (!enough(v)) {
    __nanosleep(32);
    v = load_acquire(p);
  }
  return v;
}

// In which columns E has left a strip. Of columns beyond `high`, and once `done` of those below `reached`, none has,
// and nothing is stored. As long as it has left in none, `reached` is about the column in which it will, or m: not
// known yet. All zeros: nothing is known.
struct Returned {
  int high;     // the last column; -1 if E has left in none yet
  int reached;  // all columns from here on are stored
  bool done;

  __device__ __forceinline__ bool is_certain() const { return high >= 0 || done; }
  static __device__ __forceinline__ Returned of(Word word, int m) {
    return {static_cast<int>(word >> 33) - 1, m - static_cast<int>(word >> 1 & 0xffffffffu), (word & 1) != 0};
  }
  __device__ __forceinline__ Word word(int m) const {
    return static_cast<Word>(high + 1) << 33 | static_cast<Word>(m - reached) << 1 | static_cast<Word>(done);
  }
};

// The engine takes the pair. Of one that is not its own it writes nothing.
template <class Cell>
__device__ __forceinline__ bool takes(const Args &a, const Task &s) {
  if (a.primary) return true;
  return (load_acquire(a.flags + s.local) & rejected) != 0;
}

// Pairs are rejected by the float engine alone.
__device__ __forceinline__ void raise(const Args &a, const Task &s, int flags) {
  atomicOr(a.flags + s.local, flags);
  if (flags & rejected) *a.any_double = 1;
}

}  // namespace sdtw::cuda::general
