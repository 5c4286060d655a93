// Streams of narrow corridors, of series that all have the same lengths. Of a row the corridor admits few columns, so a
// stream has few lanes, which take the rows in turn: K of them, then as soon as their last admitted column has been
// swept the next K that no lane has had, of the same pair or of the next one. In a stream of 4 lanes:
//
//   rows of pair 0   0..7   8..15   16..23   24..31   32..39   40..47  |  0..7 of pair 1
//   lane              0       1        2        3        0        1          2
//
// K rows are a turn. Turns are numbered through over all pairs of a stream; turn g begins at step g (K + 1), at the
// first column that the corridor admits of its first row: K columns further than the turn before, and a step later than
// that has got there. So K + 1 steps are taken at a time, before which one lane of each stream begins a turn, and a
// stream of L lanes has room for corridors whose turns take less than L (K + 1) steps: W + K - 1, if a row has W
// columns.
//
// The columns of a stream are `position` = step - turn, the same in the cells that depend on each other. Pairs follow
// each other at a whole number of turns, which are no fewer columns than y has. The corridor's own first columns, left
// of column 0, are columns of the pair before, or of none, and its cells there are forbidden.
//
// What a lane gets from the lane above is right from the step before its turn on, as that lane began K + 1 steps
// earlier; beyond the last step in which the lane needs it, it may be of the next turn of that lane, beside cells that
// are forbidden. In the first turn of a pair it is what is above the first row: the lane above, which has the last turn
// of the pair before, hands that on.
//
// Trade-off: a stream's lanes know pairs by their numbers, without a look at lengths; pairs of series with lengths of
// their own, and wide corridors, have the kernel in which all rows have a lane (kernel.cuh).
#pragma once

#include <climits>

#include "cuda/streams/kernel.cuh"

namespace sdtw::cuda::streams {

constexpr int turns_ring = 64;   // columns of the ring, of which those of 16 positions are contiguous anywhere
constexpr int rounds_ahead = 3;  // in a round lanes are at positions of this one and two more, at most
constexpr int turns_items = 32;  // more pairs than are in a stream's ring and lanes at a time

template <class Rows>
struct Turns {
  using Z = typename Rows::Z;
  using Point = typename Rows::Point;
  static constexpr int K = Rows::K, D = Rows::features, steps_of_turn = K + 1;
  static constexpr int turns_of_round = block_steps / K;  // a round takes 16 positions
  static constexpr int most_streams = warp / least_lanes_of_turns(D),
                       columns_of_lane = most_streams * block_steps / warp;

  // Shared memory of a block: what its warps tell each other; x, [rows of all turns][D]; and of each stream y as in
  // Ring, and whether a series has points that Rows cannot take, by the pair's number in the stream.
  static constexpr int pitch = turns_ring + block_steps;
  static __host__ __device__ __forceinline__ size_t x_bytes(const Args &a) {
    return (sizeof(Point) * D * K * a.turns.of_pair + 15) / 16 * 16;
  }
  static __host__ __device__ __forceinline__ size_t stream_bytes() {
    return sizeof(Point) * D * pitch + sizeof(int) * turns_items;
  }
  static __host__ __device__ __forceinline__ size_t bytes(const Args &a) {
    return more_shared + x_bytes(a) + streams_of(a) * stream_bytes();
  }
  static __host__ __device__ __forceinline__ int streams_of(const Args &a) {  // of a block
    return warps_alone * (warp / a.turns.lanes);
  }

  const Args &a;
  unsigned char *memory;
  int streams, first_stream;  // of the warp; the number of its first one in the block
  int stream, lane;           // the lane's one; the lane's number in it
  bool is_idle;               // the lane belongs to no stream, and sweeps what the last one has with no cell admitted

  // The task: x and the y from `first` to `end`, which the streams take in turn.
  int64_t x, first, end;
  Origin<Rows> origin;
  float limit, middle;  // how far from the middle of x y may be; that middle
  float pulse;          // of x

  Rows rows;
  // The lane's turn: how many steps ago it began, but for those under way; its position then; the first step in which
  // its column is one of the pair's, or none.
  int phase, position, opens;
  int pair;  // its number in the stream
  Z last;    // the last cell of the pair that has ended: of a local variable nvcc would make local memory of all this

  // Columns that the lane has asked for.
  float ahead[columns_of_lane][D];
  bool is_column[columns_of_lane];
  int pair_of[columns_of_lane];

  __device__ __forceinline__ Turns(const Args &args, unsigned char *of_block) : a(args), memory(of_block) {
    streams = warp / a.turns.lanes, first_stream = static_cast<int>(threadIdx.x) / warp * streams;
    stream = lane_id() / a.turns.lanes, lane = lane_id() % a.turns.lanes;
    is_idle = stream >= streams;
    if (is_idle) stream = streams - 1;
  }
  __device__ __forceinline__ Shared &shared() const { return *reinterpret_cast<Shared *>(memory); }
  __device__ __forceinline__ Point *x_at(int row) const {
    return reinterpret_cast<Point *>(memory + more_shared) + row * D;
  }
  __device__ __forceinline__ Point *y_of(int of) const {
    return reinterpret_cast<Point *>(memory + more_shared + x_bytes(a) + (first_stream + of) * stream_bytes());
  }
  __device__ __forceinline__ int *bad_of(int of) const { return reinterpret_cast<int *>(y_of(of) + D * pitch); }
  // The series y of a stream's pair; `end` or more if there is none.
  __device__ __forceinline__ int64_t series_of(int of, int number) const {
    return first + first_stream + of + static_cast<int64_t>(number) * (streams * warps_alone);
  }

  // Brings x into shared memory, in all warps of the block.
  __device__ __forceinline__ Span<Rows> load_x() {
    origin = Origin<Rows>(a, x);
    Span<Rows> of_thread;
    for (int row = static_cast<int>(threadIdx.x); row < K * a.turns.of_pair; row += warps_alone * warp)
      load_row(a, origin, x, clamp(row, a.n), x_at(row), of_thread);
    return largest_of<true>(of_thread, warp, shared());
  }

  // Columns of a round of all streams, 16 of each: `ask` loads what `stage` stores a round later.
  __device__ __forceinline__ void ask(int round) {
    const int columns = a.turns.of_pair * K;
#pragma unroll
    for (int i = 0; i < columns_of_lane; i++) {
      const int item = lane_id() + i * warp, of = item / block_steps;
      const int at = round * block_steps + item % block_steps + a.turns.least;
      const int number = max(at, 0) / columns, column = at - number * columns;
      const int64_t series = series_of(of, number);
      is_column[i] = of < streams && at >= 0 && column < a.m && series < end, pair_of[i] = number;
      if (!is_column[i]) continue;
      load_features(a, a.y, series * a.y.stride[0] + column * a.y.stride[1], ahead[i]);
    }
  }
  __device__ __forceinline__ void stage(int round) const {
#pragma unroll
    for (int i = 0; i < columns_of_lane; i++) {
      const int item = lane_id() + i * warp, of = item / block_steps;
      if (of >= streams) break;
      const int slot = (round * block_steps + item % block_steps) % turns_ring;
#pragma unroll
      for (int f = 0; f < D; f++) {
        Point v{};
        if (is_column[i]) {
          typename Rows::Size size;
          v = Rows::point(ahead[i][f], origin.v[f], a, size);
          if (!(fabsf(static_cast<float>(size) - middle) <= limit)) v = {}, bad_of(of)[pair_of[i] % turns_items] = 1;
        }
        Point *const to = y_of(of) + f * pitch + slot;
        to[0] = v;
        if (slot < block_steps) to[turns_ring] = v;
      }
    }
  }

  // All lanes are in the last steps of turns that never were.
  __device__ __forceinline__ void start() {
    const int lanes = a.turns.lanes;
    rows.start(a, lane == 0 ? (lane_id() + lanes - 1) % warp : lane_id() - 1, lane == lanes - 1);
    rows.forbid();
    rows.set_above(lane == 0 && a.turns.least == 0 ? Rows::corner() : Rows::forbidden());
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
      for (int f = 0; f < D; f++) rows.x[k][f] = {};
    phase = (lanes - lane) * steps_of_turn, position = lanes - lane, opens = INT_MAX, pair = -1;
  }
  // The lane begins turn `number` of its stream, which is `turn` of pair `of_pair`.
  __device__ __forceinline__ void begin(int number, int turn, int of_pair) {
    phase = 0, position = number * K, pair = of_pair;
    opens = is_idle || series_of(stream, pair) >= end ? INT_MAX : -turn * K - a.turns.least;
    rows.forbid();
    rows.set_lowest(turn == a.turns.of_pair - 1);
#pragma unroll
    for (int k = 0; k < K; k++)
#pragma unroll
      for (int f = 0; f < D; f++) rows.x[k][f] = x_at(turn * K + k)[f];
  }

  // The steps until the next turn begins. ending: the one in which pairs of a lane of each stream end, if `ends`.
  template <bool ends>
  __device__ __forceinline__ void steps(int ending) {
    const Point *const at = y_of(stream) + position % turns_ring;
    const int width = a.turns.width, corner_at = K - a.turns.least;
    const auto look = [&](int u) {
      typename Rows::Ahead of_step = rows.look(at, pitch, u);
      // Row k is admitted from step k on and in `width` steps.
      const int to = phase + u >= opens ? __viaddmin_s32_relu(phase, u + 1, K) : 0;
      of_step.gate.rows = (all_lanes << __viaddmin_s32_relu(phase - width, u + 1, K)) & ~(all_lanes << to);
      return of_step;
    };
    typename Rows::Ahead ahead_of = look(0);
    constexpr int unrolled = ends ? 1 : steps_of_turn;
#pragma unroll unrolled
    for (int u = 0; u < steps_of_turn; u++) {
      typename Rows::Ahead after;
      // Of the lane that has a pair's last turn: what the first one of the next pair has above it.
      const Z top = phase + u == corner_at ? Rows::corner() : Rows::forbidden();
      rows.step(ahead_of, top, [&] { after = look(min(u + 1, steps_of_turn - 1)); });
      if (ends && u == ending) {
#pragma unroll
        for (int k = 0; k < K; k++)
          if (k == a.turns.end_row) last = rows.row(k);
      }
      ahead_of = after;
    }
    rows.renormalise();
    phase += steps_of_turn, position += steps_of_turn;
  }

  __device__ __forceinline__ void finish() {
    const int64_t series = series_of(stream, pair);
    if (is_idle || pair < 0 || series >= end) return;
    int &bad = bad_of(stream)[pair % turns_items];
    settle<Rows>(a, x, series, a.n, a.m, bad, pulse, Rows::value(last, a));
    bad = 0;
  }

  // All warps of the block; they meet where x is loaded.
  __device__ __forceinline__ void run(int64_t task) {
    x = task / a.ranges;
    first = task % a.ranges * a.range, end = min(first + a.range, a.batch_y);
    if (a.symmetric) first = max(first, x);
    if (first >= end) return;
    const Span<Rows> span = load_x();
    if (!(span.largest() <= most_of_x<Rows>(a))) {
      for (int64_t j = first + threadIdx.x; j < end; j += warps_alone * warp) leave_pair(a, x, j);
      return;
    }
    limit = most_of_y<Rows>(a, span.reach(), a.n, a.m), middle = span.middle();
    if constexpr (Rows::has_pulse)
      pulse = measure_pulse<Rows, true>(a, x, a.n, warp, static_cast<int>(threadIdx.x), a.turns.of_pair, shared(),
                                        warps_alone * warp);
    for (int of = 0; of < streams; of++)
      for (int i = lane_id(); i < turns_items; i += warp) bad_of(of)[i] = 0;
    __syncwarp();
    start();
    const int each = streams * warps_alone, pairs = static_cast<int>((end - first + each - 1) / each);
    const int last_turn = (pairs - 1) * a.turns.of_pair + a.turns.end_turn + a.turns.end_step / steps_of_turn;
    int turn = 0, of_pair = 0;  // of the turn that begins next
    int until_end = a.turns.end_turn + a.turns.end_step / steps_of_turn, ending_lane = a.turns.end_turn % a.turns.lanes;
    int beginning_lane = 0;
    // Before the first round the ring is filled.
#pragma unroll 1
    for (int round = -rounds_ahead; round * turns_of_round <= last_turn; round++) {
      ask(round + rounds_ahead);
#pragma unroll 1
      for (int i = 0; round >= 0 && i < turns_of_round; i++) {
        if (lane == beginning_lane) begin(round * turns_of_round + i, turn, of_pair);
        if (until_end == 0) {
          steps<true>(a.turns.end_step % steps_of_turn);
          if (lane == ending_lane) finish();
          until_end = a.turns.of_pair, ending_lane = (ending_lane + a.turns.of_pair) % a.turns.lanes;
        } else {
          steps<false>(0);
        }
        until_end--;
        if (++turn == a.turns.of_pair) turn = 0, of_pair++;
        if (++beginning_lane == a.turns.lanes) beginning_lane = 0;
      }
      __syncwarp();
      stage(round + rounds_ahead);
      __syncwarp();
    }
  }
};

template <class Rows>
__device__ __forceinline__ void run_turns(const Args &a) {
  let_next_kernel_in();
  wait_for_kernel_before();
  Turns<Rows> turns(a, ptx::shared_memory());
  for (;;) {
    __syncthreads();
    if (threadIdx.x == 0) turns.shared().ticket = atomicAdd(&a.control->ticket[0], Word(1));
    __syncthreads();
    const Word task = turns.shared().ticket;
    if (task >= static_cast<Word>(a.tasks)) return;
    turns.run(static_cast<int64_t>(task));
  }
}

template <class Rows>
__global__ void __launch_bounds__(warps_alone *warp, Rows::resident) turns_kernel(const __grid_constant__ Args a) {
  if constexpr (Rows::exists) run_turns<Rows>(a);
}

}  // namespace sdtw::cuda::streams
