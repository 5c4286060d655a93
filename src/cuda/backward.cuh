// Backward: a block takes strips, and of each the tiles into which E flows. Its warps are a pipeline (board.cuh): two
// recompute tiles in turn and leave transition probabilities in shared memory; the first sweeps E back through these
// (Cuturi and Blondel 2017, Algorithm 2); others turn E into gradients. Four more compute costs, if there are many
// features.
#pragma once

#include "crossings.cuh"
#include "forward.cuh"
#include "recompute.cuh"
#include "spenders.cuh"
#include "stock.cuh"

namespace sdtw::cuda {

// The first warp's sweep of a strip. marks: it tells where there is any E.
template <class Cell, bool marks>
struct SweepBack {
  using Real = typename Cell::Real;

  const Args &a;
  const View &s;
  Board &board;
  Rows<Real> *ways_of;
  Real *entering;  // in shared memory: what flows into the strip's last row from below, in the steps of a tile
  Crossing from_below;
  Step<Cell> asked;  // of the lane's column of the next tile
  Flow<Real> flow;
  int row;  // of the lane's, that ends the pair; or none
  bool lowest;
  unsigned live;  // steps of half a tile in which the lane's rows have any E

  __device__ __forceinline__ SweepBack(const Args &args, const View &view, Board &of, Rows<Real> *from, Real *memory)
      : a(args), s(view), board(of), ways_of(from), entering(memory) {
    flow.clear();
    row = s.active && s.is_end() ? s.end_row() : none;
    lowest = s.lane == s.lanes - 1;
    if (takes()) from_below = a.crossings[boundary(a, s.pair, s.strip)];
  }

  __device__ __forceinline__ bool takes() const { return s.active && !s.last; }
  __device__ __forceinline__ int first_step(int tile) const { return tile << a.tile_bits; }
  __device__ __forceinline__ int steps_of(int tile) const { return min(a.tile_steps, s.steps - first_step(tile)); }
  // Whether the lane's pair ends in steps [begin, end).
  __device__ __forceinline__ bool ends_in(int begin, int end) const {
    return row != none && s.end > begin && s.end <= end;
  }

  // The column whose flow from below the lane looks after.
  __device__ __forceinline__ int column_in(int tile) const { return first_step(tile) + lane_id() - (warp - 1); }
  __device__ __forceinline__ bool has_column(int tile) const {
    return takes() && lane_id() < steps_of(tile) && column_in(tile) >= 0;
  }
  __device__ __forceinline__ void ask(int tile) {
    if (tile >= 0 && has_column(tile)) asked.load(a, s.pair, s.strip, column_in(tile));
  }

  // Steps [begin, end) of a tile, whose ways the lane finds from p on, from the last to the first. sent: what leaves.
  __device__ __forceinline__ void sweep(int first, int begin, int end, Rows<Real> *p, Real &sent) {
    typename Flow<Real>::Ways now;
    now.load(p + (end - 1 - begin) * ways * warp);
    Real below = load_now(entering + end - 1);
    const bool ends = ends_in(first + begin, first + end);
    if (__any_sync(all_lanes, ends)) {
#pragma unroll 1
      for (int u = end - 1; u >= begin; u--) {
        flow.begin(ends && first + u + 1 == s.end ? row : none);
        step(u, begin, p, now, below, sent);
      }
    } else {
#pragma unroll 2
      for (int u = end - 1; u >= begin; u--) step(u, begin, p, now, below, sent);
    }
  }
  // now: the ways of this step, which become those of the next. below: what comes from the strip below, too. E is left
  // where the ways were.
  __device__ __forceinline__ void step(int u, int begin, Rows<Real> *p, typename Flow<Real>::Ways &now, Real &below,
                                       Real &sent) {
    typename Flow<Real>::Ways ahead;
    Real below_ahead;
    const Rows<Real> e = flow.step(now, below, lowest, [&] {
      const int next = max(u - 1, begin);
      ahead.load(p + (next - begin) * ways * warp);
      below_ahead = load_now(entering + next);
    });
    now = ahead, below = below_ahead;
    sent += flow.up;  // of the first lane's alone it is what leaves
    p[(u - begin) * ways * warp] = e;
    if constexpr (marks) {
      bool any = false;
#pragma unroll
      for (int k = 0; k < K; k++) any |= e.v[k] >= Real(negligible);
      live |= static_cast<unsigned>(any) << (u - begin);
    }
  }
  // Of 32 steps those in which the lane is at a column of its pair: E that is not 0 elsewhere is a rounding error.
  __device__ __forceinline__ unsigned of_pair(int first) const {
    const int before = min(max(s.lane - first, 0), warp), after = min(max(s.lane + s.pair.m - first, 0), warp);
    return static_cast<unsigned>((uint64_t{1} << after) - (uint64_t{1} << before));
  }
  // All that is on its way inside the strip.
  __device__ __forceinline__ Real inside() const { return flow.sum() + (s.lane == 0 ? Real(0) : flow.up); }

  // E from right to left. What flows out of a tile is scaled to what flows in: the sum of a cell's probabilities may be
  // off by a rounding error.
  __device__ __forceinline__ void run(int tile, int number) {
    const int first = first_step(tile), steps = steps_of(tile), half_steps = a.tile_steps / 2;
    const Real below = has_column(tile) ? static_cast<Real>(asked.probability(from_below)) : Real(0);
    __syncwarp();
    entering[lane_id()] = below;
    __syncwarp();
    ask(tile - 1);
    Real in = inside() + below + Real(ends_in(first, first + steps)), sent = 0;
#pragma unroll 1
    for (int half = 1; half >= 0; half--) {
      board.wait_full(number, half);
      live = 0;
      const int begin = half * half_steps, end = min(begin + half_steps, steps);
      if (begin < end)
        sweep(first, begin, end, ways_of + Board::slot_of(number, half) * half_steps * ways * warp + lane_id(), sent);
      if constexpr (marks) board.live[Board::slot_of(number, half)][lane_id()] = live & of_pair(first + begin);
      board.sweep(number, half);
    }
    if (first == 0) return;
    Real out = inside() + (s.lane == 0 ? sent : Real(0));
    for (int step = s.lanes / 2; step > 0; step /= 2) {
      in += __shfl_xor_sync(all_lanes, in, step);
      out += __shfl_xor_sync(all_lanes, out, step);
    }
    if (out > 0) flow.scale(in / out);
  }
};

template <class Cell, class Source, class Spender>
struct Backward {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;
  static constexpr int producers = Source::cooperative ? producers_of_tiles : 0;
  static constexpr int first_producer = 1 + recomputers, first_reader = first_producer + producers;
  static constexpr int roles = first_reader + Spender::readers, threads = roles * warp;
  static constexpr int most_steps = Cell::wide ? max_tile_steps / 4 : max_tile_steps;  // of a tile
  static constexpr int most_columns = Cell::wide ? 64 : 128;                           // of costs at a time

  // Shared memory: the board, what enters, rows above, ways [step][way][32] of two tiles, the spenders', the source's.
  static constexpr size_t board_bytes = (sizeof(Board) + 15) / 16 * 16, tops_bytes = sizeof(Z) * warp;
  static constexpr size_t entering_bytes = sizeof(Real) * warp;
  __host__ __device__ static size_t ways_bytes(const Args &a) {
    return 2 * sizeof(Rows<Real>) * ways * warp * a.tile_steps;
  }
  __host__ __device__ static size_t source_bytes(const Args &a) {
    if constexpr (Source::cooperative)
      return Source::ring_bytes(a.cost_columns) + Source::scratch_bytes(a);
    else
      return recomputers * Source::bytes(a);
  }
  __host__ __device__ static size_t shared_bytes(const Args &a) {
    return board_bytes + entering_bytes + recomputers * tops_bytes + ways_bytes(a) + Spender::bytes(a) +
           source_bytes(a);
  }

  const Args &a;
  unsigned char *memory;

  __device__ __forceinline__ Board &board() const { return *reinterpret_cast<Board *>(memory); }
  __device__ __forceinline__ Real *entering() const { return reinterpret_cast<Real *>(memory + board_bytes); }
  __device__ __forceinline__ Z *tops(int reader) const {
    return reinterpret_cast<Z *>(memory + board_bytes + entering_bytes + reader * tops_bytes);
  }
  __device__ __forceinline__ Rows<Real> *ways_of() const { return reinterpret_cast<Rows<Real> *>(tops(recomputers)); }
  __device__ __forceinline__ unsigned char *spender() const {
    return reinterpret_cast<unsigned char *>(ways_of()) + ways_bytes(a);
  }
  __device__ __forceinline__ unsigned char *source() const { return spender() + Spender::bytes(a); }

  __device__ __forceinline__ View view(int64_t task, int lane) const {
    return make_view(a, task, order_of(a, task), false, lane, [&](const Pair &pair) {
      const int status = a.status[pair.index];  // comes while the bounds do
      if (!is_mine<Cell>(a, pair)) {
        if (!Cell::wide) a.control->any_wide = 1;
        return false;
      }
      return status == status_finite || status == status_cancelled;  // the others' gradients are there already
    });
  }

  __device__ __forceinline__ void run() const {
    if (threadIdx.x == 0) {
      board().open(roles, producers, Spender::readers);
      if constexpr (producers > 0) Source::open(source() + Source::ring_bytes(a.cost_columns));
    }
    __syncthreads();
    const int role = threadIdx.x / warp;
    if (role == 0)
      sweep();
    else if (role < first_producer)
      recompute(role - 1);
    else if (role >= first_reader)
      spend(role - first_reader);
    else if constexpr (producers > 0)
      Source::choose(a, [&](auto of) { produce<typename decltype(of)::type>(); });
  }

  // The tiles of a strip between the columns where paths enter it from above and where they leave it below.
  __device__ __forceinline__ Band band_of(const View &s, int number) const {
    Band band{s.task, 0, (s.steps - 1) >> a.tile_bits, number};
    if (s.active && s.strip > 0) band.first = a.crossings[boundary(a, s.pair, s.strip - 1)].first >> a.tile_bits;
    if (s.active && !s.last) band.last = (a.crossings[boundary(a, s.pair, s.strip)].last + s.end_lane) >> a.tile_bits;
    band.first = min(band.first, band.last);
    return band;
  }
  // The next strip that has any, told to the other warps.
  __device__ __forceinline__ Band next_band(int &count, int &number) const {
    Band band{none, 0, 0, number};
    for (int64_t task; band.task == none && (task = take_ticket(&a.control->ticket[Cell::wide], a.tasks)) >= 0;) {
      const View s = view(task, lane_id());
      if (s.steps > 0) band = band_of(s, number);
    }
    if (band.task == none) let_next_kernel_in();
    number += band.last - band.first + 1;
    board().announce(count++, band);
    return band;
  }

  __device__ __forceinline__ void sweep() const {
    int count = 0, number = 0;
    for (Band band = next_band(count, number); band.task != none;) {
      const View s = view(band.task, lane_id());
      SweepBack<Cell, Spender::wants_live> back(a, s, board(), ways_of(), entering());
      back.ask(band.last);
      // The others have the next strip before this one is done with, but not so early that another block has none.
      Band next{none, 0, 0, 0};
      for (int tile = band.last; tile >= band.first; tile--) {
        if (tile == min(band.first + 1, band.last)) next = next_band(count, number);
        back.run(tile, band.number + band.last - tile);
      }
      band = next;
    }
  }

  __device__ __forceinline__ void recompute(int reader) const {
    Source costs;
    int sequence = 0;  // of the parts that this warp recomputes
    int count = 0;
    for (Band band = board().receive(count); band.task != none; band = board().receive(++count)) {
      const View s = view(band.task, lane_id());
      if constexpr (Source::cooperative) {
        costs.ring = reinterpret_cast<typename Source::Element *>(source());
        costs.columns = a.cost_columns, costs.shift = 0;
        costs.begin(a, s);
      } else {
        costs.begin(a, s, source() + reader * Source::bytes(a));
      }
      Recompute<Cell, Source> again(a, board(), s, band, tops(reader), ways_of(), costs, sequence);
      // Every other tile is this warp's.
      for (int tile = band.last - ((band.number ^ reader) & 1), number = band.number + band.last - tile;
           tile >= band.first; tile -= recomputers, number += recomputers)
        again.run(tile, number);
    }
  }

  template <class Producer>
  __device__ __forceinline__ void produce() const {
    const int strip_lane = (threadIdx.x / warp - first_producer) * 8 + lane_id() / 4;
    Stock stock(a, board());
    int sequence[recomputers] = {};
    int count = 0, chunks = 0;
    for (Band band = board().receive(count); band.task != none; band = board().receive(++count)) {
      const View s = view(band.task, strip_lane);
      Producer producer(a, s, strip_lane, reinterpret_cast<typename Source::Element *>(source()), a.cost_columns, 0,
                        chunks);
      for (int tile = band.last; tile >= band.first; tile--) {
        const int reader = (band.number + band.last - tile) % recomputers;
        for (int part = first_part(a, band, tile); part <= tile; part++) {
          stock.supply(producer, {band.task, part, reader, reader == 0 ? sequence[0] : sequence[1]});
          sequence[0] += reader == 0, sequence[1] += reader == 1;
        }
      }
    }
  }

  __device__ __forceinline__ void spend(int worker) const {
    int count = 0;
    for (Band band = board().receive(count); band.task != none; band = board().receive(++count)) {
      const View s = view(band.task, lane_id());
      Spender gradients(a, s, spender(), worker);
      gradients.begin(band.last);
      for (int tile = band.last; tile >= band.first; tile--)
        for (int half = 1; half >= 0; half--) {
          const int number = band.number + band.last - tile;
          board().wait_swept(number, half);
          gradients.spend(tile, half, number,
                          ways_of() + Board::slot_of(number, half) * (a.tile_steps / 2) * ways * warp, board());
        }
      gradients.finish(band.first);
    }
  }
};

template <class Cell, class Source, class Spender>
__global__ void __launch_bounds__(Backward<Cell, Source, Spender>::threads, Spender::resident)
    backward_kernel(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char shared[];
  const bool primary = Cell::wide == a.f64;
  if (!primary || a.strips == 1) let_next_kernel_in();
  wait_for_kernel_before();
  if (!primary && a.control->any_wide != 1) return;
  Backward<Cell, Source, Spender>{a, shared}.run();
}

}  // namespace sdtw::cuda
