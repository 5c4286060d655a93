// Backward: a block takes strips, last strips of all pairs first, and walks their tiles from right to left. Tiles into
// which nothing flows are passed over. For the others its warps are a pipeline (orders.cuh): two recompute tiles in
// turn and leave transition probabilities in shared memory; the first sweeps E back through these (Cuturi and Blondel
// 2017, Algorithm 2); others turn E into gradients. Four more compute costs, if there are many features.
#pragma once

#include "forward.cuh"
#include "outputs.cuh"
#include "recompute.cuh"
#include "stock.cuh"

namespace sdtw::cuda {

// The first warp's sweep of a strip.
template <class Real, class Outlet>
struct SweepBack {
  const Args &a;
  const View &s;
  Board &board;
  Rows<Real> *ways_of;
  Outlet &outlet;
  Flow<Real> flow;
  int row;  // of the lane's, that ends the pair; or none
  bool lowest;

  __device__ __forceinline__ SweepBack(const Args &args, const View &view, Board &of, Rows<Real> *from, Outlet &to)
      : a(args), s(view), board(of), ways_of(from), outlet(to) {
    flow.clear();
    row = s.active && s.is_end() ? s.end_row() : none;
    lowest = s.lane == s.lanes - 1;
  }

  __device__ __forceinline__ int first_step(int tile) const { return tile << a.tile_bits; }
  __device__ __forceinline__ int steps_of(int tile) const { return min(a.tile_steps, s.steps - first_step(tile)); }
  // Whether the lane's pair ends in steps [begin, end).
  __device__ __forceinline__ bool ends_in(int begin, int end) const {
    return row != none && s.end > begin && s.end <= end;
  }

  // Whether anything flows into the tile, from the right or from below. Unknown, if it need not wait, where some of the
  // latter has not come yet.
  __device__ __forceinline__ Look look(int tile, bool wait) {
    const Real threshold = static_cast<Real>(negligible);
    const int first = first_step(tile);
    if (!outlet.receive(first, steps_of(tile), wait)) return unknown;
    const bool any = flow.any(threshold) || ends_in(first, first + a.tile_steps) || outlet.received() >= threshold;
    return __any_sync(all_lanes, any) ? live : dead;
  }

  __device__ __forceinline__ void pass(int tile) {
    outlet.pass(first_step(tile), steps_of(tile));
    flow.clear();
  }

  // Steps [begin, end) of a tile, whose ways the lane finds from p on, from the last to the first. sent: what leaves.
  __device__ __forceinline__ void sweep(int first, int begin, int end, Rows<Real> *p, Real &sent) {
    typename Flow<Real>::Ways now;
    now.load(p + (end - 1 - begin) * ways * warp);
    Real below = outlet.below(end - 1);
    const bool ends = ends_in(first + begin, first + end);
    if (__any_sync(all_lanes, ends)) {
#pragma unroll 1
      for (int u = end - 1; u >= begin; u--) {
        flow.begin(ends && first + u + 1 == s.end ? row : none);
        step(u, begin, p, now, below, sent);
      }
    } else {
#pragma unroll 4
      for (int u = end - 1; u >= begin; u--) step(u, begin, p, now, below, sent);
    }
  }
  // now: the ways of this step, which become those of the next. below: what comes from the strip below, too.
  __device__ __forceinline__ void step(int u, int begin, Rows<Real> *p, typename Flow<Real>::Ways &now, Real &below,
                                       Real &sent) {
    typename Flow<Real>::Ways ahead;
    Real below_ahead;
    const Rows<Real> e = flow.step(now, below, lowest, [&] {
      const int next = max(u - 1, begin);
      ahead.load(p + (next - begin) * ways * warp);
      below_ahead = outlet.below(next);
    });
    now = ahead, below = below_ahead;
    sent += flow.up;  // of the first lane's alone it is what leaves
    outlet.take(u, e, flow.up, p + (u - begin) * ways * warp);
  }
  // All that is on its way inside the strip.
  __device__ __forceinline__ Real inside() const { return flow.sum() + (s.lane == 0 ? Real(0) : flow.up); }

  // E from right to left. What flows out of a tile is scaled to what flows in: the sum of a cell's probabilities may be
  // off by a rounding error.
  __device__ __forceinline__ void run(int tile, int order) {
    const int first = first_step(tile), steps = steps_of(tile), half_steps = a.tile_steps / 2;
    outlet.begin_tile(first);
    const bool counts = lane_id() < steps, ends = ends_in(first, first + steps);
    Real in = inside() + (counts ? outlet.received() : Real(0)) + Real(ends), sent = 0;
#pragma unroll 1
    for (int half = 1; half >= 0; half--) {
      board.wait_full(order, half);
      const int begin = half * half_steps, end = min(begin + half_steps, steps);
      if (begin < end)
        sweep(first, begin, end, ways_of + Board::slot_of(order, half) * half_steps * ways * warp + lane_id(), sent);
      outlet.end_half(order, first + half * half_steps);
    }
    outlet.send(first, steps);
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
  using Outlet = cuda::Outlet<Real, Spender>;
  static constexpr int producers = Source::cooperative ? producers_of_tiles : 0, spenders = Spender::spenders;
  static constexpr int first_producer = 1 + recomputers, first_spender = first_producer + producers;
  static constexpr int threads = (first_spender + spenders) * warp;

  // Shared memory: the board, rows above, ways [step][way][32] of two tiles, the outlet's, the spenders', the source's.
  static constexpr size_t board_bytes = (sizeof(Board) + 15) / 16 * 16, tops_bytes = sizeof(Z) * warp;
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
    return board_bytes + recomputers * tops_bytes + ways_bytes(a) + Outlet::bytes(a) + Spender::bytes(a) +
           source_bytes(a);
  }

  const Args &a;
  unsigned char *memory;

  __device__ __forceinline__ Board &board() const { return *reinterpret_cast<Board *>(memory); }
  __device__ __forceinline__ Z *tops(int reader) const {
    return reinterpret_cast<Z *>(memory + board_bytes + reader * tops_bytes);
  }
  __device__ __forceinline__ Rows<Real> *ways_of() const {
    return reinterpret_cast<Rows<Real> *>(memory + board_bytes + recomputers * tops_bytes);
  }
  __device__ __forceinline__ unsigned char *outlet() const {
    return reinterpret_cast<unsigned char *>(ways_of()) + ways_bytes(a);
  }
  __device__ __forceinline__ unsigned char *spender() const { return outlet() + Outlet::bytes(a); }
  __device__ __forceinline__ unsigned char *source() const { return spender() + Spender::bytes(a); }

  __device__ __forceinline__ View view(int64_t task, int lane) const {
    return make_view(a, task, a.strips - 1 - strip_of(a, task), lane, [&](const Pair &pair) {
      if (!is_mine<Cell>(a, pair)) {
        if (!Cell::wide) a.control->any_wide = 1;
        return false;
      }
      const int status = a.status[pair.index];
      return status == status_finite || status == status_cancelled;  // the others' gradients are there already
    });
  }

  __device__ __forceinline__ void run() const {
    if (threadIdx.x == 0) board().open(producers, spenders);
    __syncthreads();
    const int role = threadIdx.x / warp;
    if (role == 0)
      sweep();
    else if (role < first_producer)
      recompute(role - 1);
    else if (role < first_spender)
      produce();
    else
      spend();
  }

  __device__ __forceinline__ void sweep() const {
    Ledger<(producers > 0), spenders> ledger(a, board());
    int given = 0;  // notices to the spenders
    for (int64_t task; (task = take_ticket(&a.control->ticket[Cell::wide], a.tasks)) >= 0;) {
      const View s = view(task, lane_id());
      Outlet out(a, s, outlet(), board(), given);
      SweepBack<Real, Outlet> back(a, s, board(), ways_of(), out);
      ledger.begin(task);
      for (int tile = ((s.steps + a.tile_steps - 1) >> a.tile_bits) - 1; tile >= 0; tile--) {
        Look state = back.look(tile, false);
        if (state != dead) ledger.foresee(tile);
        if (state == unknown) {
          out.report((tile + 1) << a.tile_bits);
          state = back.look(tile, true);
        }
        if (state == live)
          back.run(tile, ledger.take(tile));
        else
          back.pass(tile);
      }
      out.finish();
    }
    ledger.stop();
    Outlet::stop(board(), given);
  }

  __device__ __forceinline__ void recompute(int reader) const {
    Source costs;
    int count = 0;
    Order order = board().receive(reader, count);
    while (order.task != none) {
      const int64_t task = order.task;
      const View s = view(task, lane_id());
      if constexpr (Source::cooperative) {
        costs.ring = reinterpret_cast<typename Source::Element *>(source());
        costs.columns = a.cost_columns, costs.shift = 0;
        costs.begin(a, s);
      } else {
        costs.begin(a, s, source() + reader * Source::bytes(a));
      }
      Recompute<Cell, Source> again(a, board(), s, tops(reader), ways_of(), costs);
      for (; order.task == task; order = board().receive(reader, ++count)) again.run(order);
    }
  }

  __device__ __forceinline__ void produce() const {
    if constexpr (Source::cooperative) {
      const int strip_lane = (threadIdx.x / warp - first_producer) * 8 + lane_id() / 4;
      Stock stock(a, board());
      int count = 0;
      Order order = board().receive(recomputers, count);
      while (order.task != none) {
        const int64_t task = order.task;
        const View s = view(task, strip_lane);
        typename Source::Producer producer(a, s, strip_lane, reinterpret_cast<typename Source::Element *>(source()),
                                           a.cost_columns);
        for (; order.task == task; order = board().receive(recomputers, ++count))
          for (int part = order.first_part; part <= order.tile; part++)
            stock.supply(producer, {task, part, order.reader, order.sequence + part - order.first_part});
      }
    }
  }

  __device__ __forceinline__ void spend() const {
    const auto next = [&](int count) {
      board().swept.wait_full(count);
      return board().notices[count % notice_slots];
    };
    int count = 0;
    Notice notice = next(count);
    while (notice.task != none) {
      const int64_t task = notice.task;
      const View s = view(task, lane_id());
      Spender gradients(a, s, spender(), threadIdx.x - first_spender * warp);
      for (; notice.task == task; notice = next(++count)) {
        const int slot = Board::slot_of(notice.order, half_of(a, notice.step));
        gradients.spend(notice, ways_of() + slot * (a.tile_steps / 2) * ways * warp, board());
        board().swept.leave(count);
      }
      gradients.finish();
    }
  }
};

template <class Cell, class Source, class Spender>
__global__ void __launch_bounds__(Backward<Cell, Source, Spender>::threads, Spender::resident)
    backward_kernel(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char shared[];
  const bool primary = Cell::wide == a.f64;
  if (!primary && a.control->any_wide != 1) return;
  Backward<Cell, Source, Spender>{a, shared}.run();
}

}  // namespace sdtw::cuda
