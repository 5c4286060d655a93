// Backward of the general engine: strips from the last one up, tiles from the
// last that E enters to where no E is left. A tile is recomputed from the
// checkpoint before it, part by part; its last part is the tile itself, through
// which E is swept. While the first warp has a part, producers make gradients
// of the E of the part before, and fill the one that comes next with costs.
#pragma once

#include "cuda/general/gradients.cuh"
#include "cuda/general/launch_tasks.h"
#include "cuda/general/sweep.cuh"

namespace sdtw::cuda::general {

template <class Cell, bool tangents>
struct BackwardMemory {
  using Real = typename Cell::Real;
  static constexpr int T = backward_steps<Cell, tangents>;
  static constexpr int ways = tangents ? 2 * transitions : transitions;
  static constexpr int shared_planes = Cell::cost_planes > ways ? Cell::cost_planes : ways;
  static constexpr size_t plane_bytes = T * pitch * sizeof(Real);
  static constexpr int points = at_once * (staged_rows + staged_columns<T>);
  static constexpr size_t points_bytes = (tangents ? 2 : 1) * points * sizeof(double);

  // Of a part: its planes, among them the slope's for one metric only.
  static __host__ __device__ __forceinline__ size_t tile_bytes(const Args &a) {
    return (shared_planes + (tangents ? 1 : 0) + (a.metric == SDTW_EUCLIDEAN ? 1 : 0)) * plane_bytes;
  }
  static size_t bytes(const Args &a) { return points_bytes + 2 * tile_bytes(a); }

  static __device__ __forceinline__ Planes<Cell, tangents, T> tile(const Args &a, unsigned char *raw, int parity) {
    Real *base = reinterpret_cast<Real *>(raw + points_bytes + parity * tile_bytes(a)),
         *more = base + shared_planes * T * pitch;
    return {base, more + (tangents ? T * pitch : 0), more};
  }
  template <class Element>
  static __device__ __forceinline__ Points<Element> staged(unsigned char *raw, int which) {
    Element *x = reinterpret_cast<Element *>(reinterpret_cast<double *>(raw) + which * points);
    return {x, x + at_once * staged_rows};
  }
};

// E as it enters a strip from the one below and leaves for the one above, by
// the first warp. In float no E is gained or lost on its way through a strip: as in sweep/adjoint_sweep.cuh, what is
// inside and what has left are scaled to what has entered, after every tile. Else rounding errors of the transition
// probabilities, which are the same where costs are, would add up to 1e-5 along a thousand steps.
template <class Cell, bool tangents, int T>
struct AdjointSweep {
  using Real = typename Cell::Real;
  static constexpr int count = tangents ? 2 : 1;

  const Args &a;
  const Task &s;
  Adjoint<Cell, tangents, T> flow;
  Returned below;      // of the strip below, as last looked up
  int high;            // the last column in which E has left; -1: none yet
  int reached;         // from here on to `high` columns are stored
  Real inflow[count];  // in the tile's step of the lane's number
  Real weight[transitions];
  int due;  // float: E that has entered the strip and not left it, as Measure has it

  __device__ __forceinline__ AdjointSweep(const Args &args, const Task &task)
      : a(args), s(task), below{-1, 0, true}, high(-1), reached(task.m), due(0) {
    flow.clear();
    for (int way = 0; way < transitions; way++) weight[way] = static_cast<Real>(a.out_weight[way]);
  }
  __device__ __forceinline__ Word *told(int strip) const { return a.returned + s.local * a.strips + strip; }
  __device__ __forceinline__ Word *flow_at(int column) const { return a.flows + (s.local * a.m + column) * count; }
  template <class Enough>
  __device__ __forceinline__ void look(Enough enough) {
    Word word = 0;
    if (lane_id() == 0) word = wait_until(told(s.strip + 1), [&](Word v) { return enough(Returned::of(v, s.m)); });
    below = Returned::of(__shfl_sync(all_lanes, word, 0), s.m);
  }
  __device__ __forceinline__ void tell(bool done) const {
    __syncwarp();
    if (s.strip > 0 && lane_id() == 0) publish(told(s.strip), Returned{high, reached, done}.word(s.m));
  }

  // The step of the first cell that E enters; -1: it enters nowhere.
  __device__ __forceinline__ int entry() {
    if (s.last()) return s.end_step();
    look([](const Returned &r) { return r.high >= 0 || r.done; });
    return below.high < 0 ? -1 : below.high + warp - 1;
  }

  // What a tile is to be: swept; skipped, since no E enters; or the end, since
  // none enters any more.
  enum Action { skip, sweep, end };
  __device__ __forceinline__ Action enter(int first) {
    const int column = first + lane_id() - (warp - 1), lowest = max(first - (warp - 1), 0);
    inflow[0] = inflow[count - 1] = 0;
    bool live = flow.any();
    bool more = false;  // whether E may still enter in later tiles
    if (s.last()) {
      live |= s.end_step() >= first && s.end_step() < first + T;
      more = s.end_step() < first;
    } else {
      if (!below.done && below.reached > lowest) look([&](const Returned &r) { return r.done || r.reached <= lowest; });
      if (lane_id() < T && column >= 0 && column <= below.high && column >= below.reached) {
#pragma unroll
        for (int i = 0; i < count; i++)
          inflow[i] = static_cast<Real>(__longlong_as_double(load_relaxed(flow_at(column) + i)));
        live |= is_live(inflow[0]);
      }
      more = !below.done || below.reached < first - (warp - 1);
    }
    if (__any_sync(all_lanes, live)) return sweep;
    return more ? skip : end;
  }

  // Sends E on to the strip above: out, of the lane's column of a tile.
  __device__ __forceinline__ void leave(int first, const Real (&out)[count]) {
    if (s.strip == 0) return;
    const int column = first + lane_id();
    const bool there = lane_id() < T && column < s.m;
    const unsigned any = __ballot_sync(all_lanes, there && is_live(out[0]));
    if (high < 0 && any) high = first + warp - 1 - __clz(any);
    if (high < 0) return;
    if (there && column <= high) {
#pragma unroll
      for (int i = 0; i < count; i++)
        store_relaxed(flow_at(column) + i, __double_as_longlong(static_cast<double>(out[i])));
    }
    reached = min(first, s.m);
    tell(false);
  }

  __device__ __forceinline__ void run(const Planes<Cell, tangents, T> &tile, int first) {
    const int end = s.last() ? s.end_step() - first : -1;
    Real out[count] = {};
#pragma unroll 2
    for (int u = T - 1; u >= 0; u--) {
      Real in[count];
#pragma unroll
      for (int i = 0; i < count; i++) in[i] = __shfl_sync(all_lanes, inflow[i], u);
      if (u == end) flow.begin(lane_id() == s.end_lane() ? s.end_row() : -1);
      flow.step(tile, u, in, weight);
#pragma unroll
      for (int i = 0; i < count; i++) {
        const Real left = __shfl_sync(all_lanes, flow.up[i], 0);
        out[i] = lane_id() == u ? left : out[i];
      }
    }
    if constexpr (!Cell::wide) conserve(end >= 0 && end < T && lane_id() == s.end_lane(), out[0]);
    leave(first, out);
  }
  // Scales E inside the strip, and `out`, which leaves it. begins: E has begun in the lane.
  __device__ __forceinline__ void conserve(bool begins, float &out) {
    using Measure = cuda::Measure<float>;
    const int left = warp_sum(Measure::of(out));
    const int there = warp_sum(Measure::of(flow.inside())) + left;
    due += warp_sum(Measure::of(inflow[0] + (begins ? 1.0f : 0.0f)));
    const float all = static_cast<float>(there) * Measure::unit;
    const float excess = all >= Measure::least ? static_cast<float>(due - there) * Measure::unit / all : 0.0f;
    due -= left + Measure::of(static_cast<float>(left) * Measure::unit * excess);
    flow.scale(excess), out = fmaf(out, excess, out);
  }
};

// A strip's backward: its parts, one after the other.
template <class Cell, bool tangents>
struct Backward {
  using Memory = BackwardMemory<Cell, tangents>;
  using Real = typename Cell::Real;
  static constexpr int T = Memory::T, none = -1;
  using E = AdjointSweep<Cell, tangents, T>;

  const Args &a;
  const Task &s;
  Block &block;
  unsigned char *raw;
  int thread;  // of the producers; negative in the first warp
  int begin;   // the strip's first tile
  Sweep<Cell, tangents, T> sweep;
  E adjoint;

  __device__ __forceinline__ Backward(const Args &args, const Task &task, Block &of, unsigned char *memory)
      : a(args),
        s(task),
        block(of),
        raw(memory),
        thread(static_cast<int>(threadIdx.x) - warp),
        begin(of.begin / T),
        sweep(args, task, of),
        adjoint(args, task) {}

  struct Part {
    int tile, part;
    __device__ __forceinline__ bool operator==(const Part &other) const {
      return tile == other.tile && part == other.part;
    }
    __device__ __forceinline__ bool is_tile() const { return tile == part; }
  };
  // The first part of a tile: that behind a checkpoint, or the strip's first.
  __device__ __forceinline__ Part first_of(int tile) const {
    const int each = a.interval / T;
    return {tile, max(tile / each * each, begin)};
  }
  __device__ __forceinline__ Part after(const Part &p, bool swept) const {
    return swept && !p.is_tile() ? Part{p.tile, p.part + 1} : first_of(p.tile - 1);
  }

  // By the producers.
  __device__ __forceinline__ void fill(const Part &p, int parity) const {
    const Fill<Cell, tangents, T, true> costs{a, s, block, Memory::template staged<double>(raw, 0),
                                              Memory::template staged<double>(raw, tangents)};
    costs.run(Memory::tile(a, raw, parity), p.part * T, thread, limit_of<Cell>(s));
  }
  __device__ __forceinline__ int *graded(int strip) const { return a.graded + s.local * a.strips + strip; }
  __device__ __forceinline__ void make_gradients(int tile, int parity) const {
    const int first = tile * T;
    const Gradients<Cell, tangents, T> gradients{a,
                                                 s,
                                                 block,
                                                 Memory::tile(a, raw, parity),
                                                 Memory::template staged<Real>(raw, 0),
                                                 Memory::template staged<Real>(raw, tangents),
                                                 thread};
    if (a.dense.data) {
      gradients.put_dense(first);
      return producers_barrier<tangents>();  // then the planes are free
    }
    if (thread == 0 && !s.last()) {
      const int enough = s.m - max(first - (warp - 1), 0);
      wait_until(graded(s.strip + 1), [&](int columns) { return columns >= enough; });
    }
    gradients.run(first);  // which has a barrier before it adds anything
    producers_barrier<tangents>();
    if (thread == 0 && s.strip > 0) publish(graded(s.strip), s.m - min(first, s.m));
  }

  // By the first warp.
  __device__ __forceinline__ int take(const Part &p, int parity) {
    const int first = p.tile * T;
    if (p == first_of(p.tile)) {
      const int action = adjoint.enter(first);
      if (action == E::skip) {
        const Real nothing[E::count] = {};
        adjoint.leave(first, nothing);
      }
      if (action != E::sweep) return action;
      if (p.part == begin)
        sweep.start(begin * T);
      else
        sweep.restore(checkpoint_of(a, s, p.part * T / a.interval, begin * T / a.interval));
    }
    const auto tile = Memory::tile(a, raw, parity);
    const auto tops = sweep.top_of(p.part * T + lane_id());
    if (p.is_tile()) {
      sweep.template run<true>(tile, tops, none, [](int) {});
      adjoint.run(tile, first);
    } else {
      sweep.template run<false>(tile, tops, none, [](int) {});
    }
    return E::sweep;
  }

  __device__ __forceinline__ void run() {
    if (thread < 0) {
      const int entry = adjoint.entry();
      if (lane_id() == 0) block.entry = entry < 0 ? none : entry / T;
    }
    roles_barrier<tangents>();
    const int last = min(block.entry, (block.steps + T - 1) / T - 1);
    Part part = first_of(last), filled{none, none};
    int parity = 0, pending = none;  // the tile of which gradients are to be
                                     // made, in the other buffer
    while (part.tile >= begin) {
      if (!(part == filled)) {
        if (thread >= 0) fill(part, parity);
        roles_barrier<tangents>();
      }
      const Part next = after(part, true);
      if (thread < 0) {
        const int action = take(part, parity);
        if (lane_id() == 0) block.action[parity] = action;
      } else {
        if (pending != none) make_gradients(pending, parity ^ 1);
        if (next.tile >= begin) fill(next, parity ^ 1);
      }
      roles_barrier<tangents>();
      const int action = block.action[parity];
      pending = action == E::sweep && part.is_tile() ? part.tile : none;
      if (action == E::end) break;
      filled = next, part = after(part, action == E::sweep);
      parity ^= 1;
    }
    if (thread < 0) {
      adjoint.tell(true);
      return;
    }
    if (pending != none) make_gradients(pending, parity ^ 1);
    if (thread > 0 || s.strip == 0) return;
    if (!s.last()) wait_until(graded(s.strip + 1), [](int columns) { return columns == INT_MAX; });
    publish(graded(s.strip), INT_MAX);
  }
};

template <class Cell, bool tangents>
__global__ void __launch_bounds__(block_threads<tangents>) general_backward_kernel(const __grid_constant__ Args a) {
  unsigned char *const raw = ptx::shared_memory();
  Block &block = ptx::shared_object<Block>();
  if (!a.primary && *a.any_double == 0) return;
  for (;;) {
    if (threadIdx.x == 0) block.ticket = static_cast<int64_t>(atomicAdd(a.ticket, Word(1)));
    __syncthreads();
    const int64_t ticket = block.ticket;
    if (ticket >= a.tasks) return;
    const Task s = make_task(a, ticket, true);
    const bool wanted = s.kind == LengthCase::regular && s.strip >= 0 && a.status[s.local] == status_finite &&
                        ((a.flags[s.local] & rejected) != 0) == (Cell::wide && !a.primary);
    if (wanted) {
      find_columns(s, block);
      Backward<Cell, tangents>(a, s, block, raw).run();
    }
    __syncthreads();
  }
}

template <class Cell, bool tangents>
void Kernels<Cell, tangents>::backward(const Args &a, cudaStream_t stream) {
  using Kernel = decltype(&general_backward_kernel<Cell, tangents>);
  launch_tasks<Kernel, general_backward_kernel<Cell, tangents>>(BackwardMemory<Cell, tangents>::bytes(a),
                                                                block_threads<tangents>, a, stream);
}

}  // namespace sdtw::cuda::general
