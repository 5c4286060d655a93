// Tasks of the general engine: a task is a strip of a pair. Which pair, which
// series, which of its tiles have admitted cells, and what blocks that have
// neighbouring strips tell each other.
#pragma once

#include <climits>

#include "core/pairs.h"
#include "cuda/general/hard_cell.cuh"
#include "cuda/pipeline/barrier.cuh"

namespace sdtw::cuda::general {

// The warps of a block. In forward the first one sweeps and the others fill tiles with costs. In backward the first one
// sweeps E, the second one recomputes, then come those that fill and those that make gradients. With tangents a thread
// needs more registers than so many warps have, in double more yet.
template <bool tangents>
constexpr int fill_warps = tangents ? 4 : 8;
template <class Cell, bool tangents>
constexpr int gradient_warps = tangents &&Cell::wide ? 2 : 6;
template <int fill_warps>
constexpr int forward_threads = warp *(1 + fill_warps);
template <class Cell, bool tangents>
constexpr int backward_threads = warp *(2 + fill_warps<tangents> + gradient_warps<Cell, tangents>);

// Barriers among some warps of a block: of those that fill; of those that make gradients.
enum Meeting : int { filling = 1, grading };
__device__ __forceinline__ void meet_at(Meeting meeting, int threads) {
  __syncwarp();
  barrier(meeting, threads);
}

// Blocks of forward that a multiprocessor is to hold: so many that their registers suffice. Each has one warp that
// sweeps, which waits for itself most of the time.
template <class Cell, bool tangents, int fill_warps>
constexpr int blocks_of = fill_warps > 8                           ? 1
                          : fill_warps > 4                         ? (Cell::wide &&Cell::soft ? 1 : 2)
                          : tangents || (Cell::wide && Cell::soft) ? 2
                                                                   : 3;

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

// Rows and columns are counted in the order of the sweep: from the pair's end in one that is reversed. The last strip
// of a pair may have fewer rows than its lanes; in a reversed sweep those that there are not come first, so that rows
// of the strips above begin with a lane.
struct Task {
  int64_t local;  // of the pair in the wave
  core::PairIndex index;
  int n, m;
  LengthCase kind;
  int strip, strips;  // of the pair's own
  int row;            // the strip's first, in the order of the pair
  bool reversed;
  core::Band band;

  __device__ __forceinline__ bool last() const { return strip == strips - 1; }
  __device__ __forceinline__ int end_lane() const { return (min(n - row, strip_rows) - 1) / K; }
  __device__ __forceinline__ int end_row() const { return (n - 1 - row) % K; }
  __device__ __forceinline__ int end_step() const { return m - 1 + end_lane(); }
  // Rows of a reversed sweep that there are not.
  __device__ __forceinline__ int spare() const { return K * (end_lane() + 1) - min(n - row, strip_rows); }
  // The pair's row and column of those of the sweep; a row may be none of the strip's.
  __device__ __forceinline__ int row_of(int i) const { return reversed ? row + K * (end_lane() + 1) - 1 - i : row + i; }
  __device__ __forceinline__ bool has_row(int at) const { return at >= row && at < n; }
  __device__ __forceinline__ int column_of(int j) const { return reversed ? m - 1 - j : j; }
  // Whether another strip comes before this one in the sweep, or after it.
  __device__ __forceinline__ bool follows() const { return reversed ? !last() : strip > 0; }
  __device__ __forceinline__ bool leads() const { return reversed ? strip > 0 : !last(); }
  // The columns that a row admits, in the order of the sweep.
  __device__ __forceinline__ core::Interval columns(int at) const {
    const core::Interval admitted = band.columns(at);
    if (admitted.end <= admitted.first) return {0, 0};
    return reversed ? core::Interval{m - admitted.end, m - admitted.first} : admitted;
  }
  // Where the columns of a row end that is handed on, whose own end is given: if the sweep has the costs of steps into
  // cells in what it hands on, a diagonal step leads out of one more column.
  template <class Cell>
  __device__ __forceinline__ int handed_end(int end) const {
    return Cell::soft && Cell::weighted && reversed && end > 0 ? min(end + 1, m) : end;
  }
};

// Tasks go through the first strips of all pairs, then the second ones, ... both_ways: and in between through the last
// ones, reversed, then those before, ..., but for the first ones, of which nobody asks for what lies above.
__host__ __device__ __forceinline__ int64_t count_turns(const Args &a, bool both_ways) {
  return both_ways ? 2 * a.strips - 1 : a.strips;
}
__device__ __forceinline__ Task make_task(const Args &a, int64_t ticket, bool both_ways) {
  Task s;
  s.local = ticket % a.pairs;
  s.index = pair_at(a, a.first + s.local);
  const Lengths lengths = lengths_of(a, s.index);
  s.n = lengths.n, s.m = lengths.m, s.kind = lengths.kind;
  s.strips = (s.n + strip_rows - 1) / strip_rows;
  const int turn = static_cast<int>(ticket / a.pairs);
  s.reversed = both_ways && turn % 2 > 0;
  s.strip = !both_ways ? turn : s.reversed ? s.strips - 1 - turn / 2 : turn / 2;
  s.row = s.strip * strip_rows;
  s.band = a.band;
  s.band.n = s.n, s.band.m = s.m;
  return s;
}
// Whether there is such a strip, which may not be so in a pair that is shorter than others.
__device__ __forceinline__ bool exists(const Task &s) { return s.reversed ? s.strip > 0 : s.strip < s.strips; }

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
  // Columns that each row admits; none if end <= first.
  alignas(16) int first[strip_rows];
  alignas(16) int end[strip_rows];
  int above_first, above_end;  // of the row above the strip
  int begin, steps;  // steps from the first admitted cell, or the column before if E can leave the strip in it,
                     // to behind the last one
  bool over[2];      // backward, of rounds of even and odd number: whether it was the last
  bool swept[2];     // whether E was swept through half a tile, and where it has any: bits of steps, for each lane
  unsigned live[2][warp];
};

// Called by all threads; ends with a barrier.
template <class Cell>
__device__ __forceinline__ void find_columns(const Task &s, Block &block) {
  const int thread = threadIdx.x;
  if (thread == 0) block.begin = INT_MAX, block.steps = 0;
  __syncthreads();
  if (thread < strip_rows) {
    const int row = s.row_of(thread), lane = thread / K;
    int first = 0, end = 0;
    if (s.has_row(row)) {
      const core::Interval admitted = s.columns(row);
      first = static_cast<int>(admitted.first), end = static_cast<int>(admitted.end);
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
    if (s.follows()) {
      const core::Interval admitted = s.columns(s.reversed ? s.row + strip_rows : s.row - 1);
      first = static_cast<int>(admitted.first), end = static_cast<int>(admitted.end);
    }
    block.above_first = first, block.above_end = s.handed_end<Cell>(end);
    const core::Interval of_first = s.columns(s.row_of(0));
    if (end > first && of_first.end > of_first.first)  // a diagonal step leads into the column before the strip's first
      atomicMin(&block.begin, max(first, static_cast<int>(of_first.first) - 1));
    if (s.reversed && s.leads())
      atomicMax(&block.steps, s.handed_end<Cell>(static_cast<int>(s.columns(s.row).end)) + s.end_lane());
  }
  __syncthreads();
  if (thread == 0 && block.steps == 0) block.begin = 0;
  __syncthreads();
}

// The row that a strip hands to the next one of its sweep, and that which it gets: of the columns that the band admits
// there.
__device__ __forceinline__ int64_t row_at(const Args &a, const Task &s, int strip) {
  return (s.local * a.strips + strip) * a.row_columns;
}
__device__ __forceinline__ Word *row_handed_on(const Args &a, const Task &s) {
  return s.reversed ? a.rows_below + row_at(a, s, s.strip - 1) * a.words : a.rows + row_at(a, s, s.strip) * a.words;
}
__device__ __forceinline__ const Word *row_got(const Args &a, const Task &s) {
  return s.reversed ? a.rows_below + row_at(a, s, s.strip) * a.words : a.rows + row_at(a, s, s.strip - 1) * a.words;
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

// The engine takes the pair. Of one that is not its own it writes nothing.
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
