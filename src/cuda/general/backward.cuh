// Backward of the general engine: strips from the last one up, tiles from the last that E enters to where no E is left.
// Phases of a tile: producers fill it with costs; the first warp recomputes it from the checkpoint before it, and
// sweeps E; producers make gradients of E.
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
  static constexpr size_t points_at = (shared_planes + (tangents ? 1 : 0)) * plane_bytes;
  static constexpr size_t slope_at = points_at + (tangents ? 2 : 1) * points * sizeof(double);

  static size_t bytes(const Args &a) { return slope_at + (a.metric == SDTW_EUCLIDEAN ? plane_bytes : 0); }

  static __device__ __forceinline__ Planes<Cell, tangents, T> tile(unsigned char *raw) {
    Real *base = reinterpret_cast<Real *>(raw);
    return {base, reinterpret_cast<Real *>(raw + slope_at), base + shared_planes * T * pitch};
  }
  template <class Element>
  static __device__ __forceinline__ Points<Element> staged(unsigned char *raw, int which) {
    Element *x = reinterpret_cast<Element *>(reinterpret_cast<double *>(raw + points_at) + which * points);
    return {x, x + at_once * staged_rows};
  }
};

// E as it enters a strip from the one below and leaves for the one above, by the first warp.
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

  __device__ __forceinline__ AdjointSweep(const Args &args, const Task &task)
      : a(args), s(task), below{-1, 0, true}, high(-1), reached(task.m) {
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

  // What a tile is to be: swept; skipped, since no E enters; or the end, since none enters any more.
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
    leave(first, out);
  }
};

// Sweeps Z again from the checkpoint before a tile up to the tile, which gets its transitions.
template <class Cell, bool tangents>
struct TileAgain {
  static constexpr int T = BackwardMemory<Cell, tangents>::T;
  using Tile = Planes<Cell, tangents, T>;

  const Args &a;
  const Task &s;
  const Block &block;
  Fill<Cell, tangents, T, true> fill;
  Tile tile;
  double limit;
  int begin;  // the strip's first tile

  // By all threads. The first warp may go on with the tile when it returns, the others behind a barrier.
  __device__ __forceinline__ void run(int number) const {
    const int thread = threadIdx.x - warp, each = a.interval / T;
    const int first = max(number / each * each, begin);
    Sweep<Cell, tangents, T> sweep(a, s, block);
    if (thread < 0) {
      if (first == begin)
        sweep.start(begin * T);
      else
        sweep.restore(checkpoint_of(a, s, first / each, begin / each));
    }
    for (int part = first; part <= number; part++) {
      if (thread >= 0) fill.run(tile, part * T, thread, limit);
      __syncthreads();
      if (thread < 0) {
        const auto tops = sweep.top_of(part * T + lane_id());
        if (part < number)
          sweep.template run<false>(tile, tops, -1, [](int) {});
        else
          sweep.template run<true>(tile, tops, -1, [](int) {});
      }
      if (part < number) __syncthreads();
    }
  }
};

template <class Cell, bool tangents>
__device__ __forceinline__ void backward_task(const Args &a, const Task &s, Block &block, unsigned char *raw) {
  using Memory = BackwardMemory<Cell, tangents>;
  using Real = typename Cell::Real;
  constexpr int T = Memory::T;
  find_columns(s, block);
  const int thread = threadIdx.x - warp, begin = block.begin / T;
  const auto tile = Memory::tile(raw);
  const TileAgain<Cell, tangents> again{
      a,     s,
      block, {a, s, block, Memory::template staged<double>(raw, 0), Memory::template staged<double>(raw, tangents)},
      tile,  limit_of<Cell>(s),
      begin};
  const Gradients<Cell, tangents, T> gradients{
      a, s, block, tile, Memory::template staged<Real>(raw, 0), Memory::template staged<Real>(raw, tangents), thread};
  AdjointSweep<Cell, tangents, T> adjoint(a, s);
  if (thread < 0) {
    const int entry = adjoint.entry();
    if (lane_id() == 0) block.entry = entry < 0 ? -1 : entry / T;
  }
  __syncthreads();
  const int *graded_below = a.graded + s.local * a.strips + s.strip + 1;
  int *graded = a.graded + s.local * a.strips + s.strip;
  const int last = min(block.entry, (block.steps + T - 1) / T - 1);
  for (int number = last; number >= begin; number--) {
    const int first = number * T;
    if (thread < 0) {
      const auto action = adjoint.enter(first);
      if (lane_id() == 0) block.action = action;
    }
    __syncthreads();
    const int action = block.action;
    if (action == AdjointSweep<Cell, tangents, T>::end) break;
    if (action == AdjointSweep<Cell, tangents, T>::skip) {
      if (thread < 0) {
        const Real nothing[tangents ? 2 : 1] = {};
        adjoint.leave(first, nothing);
      }
      __syncthreads();
      continue;
    }
    again.run(number);
    if (thread < 0) {
      __syncwarp();
      adjoint.run(tile, first);
    } else if (thread == 0 && !s.last() && !a.dense.data) {
      const int enough = s.m - max(first - (warp - 1), 0);
      wait_until(graded_below, [&](int columns) { return columns >= enough; });
    }
    __syncthreads();
    if (thread >= 0) {
      if (a.dense.data)
        gradients.put_dense(first);
      else
        gradients.run(first);
    }
    __syncthreads();
    if (thread == 0 && s.strip > 0) publish(graded, s.m - min(first, s.m));
  }
  if (thread < 0) {
    adjoint.tell(true);
  } else if (thread == 0 && s.strip > 0) {
    if (!s.last()) wait_until(graded_below, [](int columns) { return columns == INT_MAX; });
    publish(graded, INT_MAX);
  }
}

template <class Cell, bool tangents>
__global__ void __launch_bounds__(block_threads, blocks_of<Cell, tangents>)
    general_backward_kernel(const __grid_constant__ Args a) {
  extern __shared__ __align__(16) unsigned char raw[];
  __shared__ Block block;
  if (!a.primary && *a.any_double == 0) return;
  for (;;) {
    if (threadIdx.x == 0) block.ticket = static_cast<int64_t>(atomicAdd(a.ticket, Word(1)));
    __syncthreads();
    const int64_t ticket = block.ticket;
    if (ticket >= a.tasks) return;
    const Task s = make_task(a, ticket, true);
    const bool wanted = s.kind == LengthCase::regular && s.strip >= 0 && a.status[s.local] == status_finite &&
                        ((a.flags[s.local] & rejected) != 0) == (Cell::wide && !a.primary);
    if (wanted) backward_task<Cell, tangents>(a, s, block, raw);
    __syncthreads();
  }
}

template <class Cell, bool tangents>
void Kernels<Cell, tangents>::backward(const Args &a, cudaStream_t stream) {
  using Kernel = decltype(&general_backward_kernel<Cell, tangents>);
  launch_tasks<Kernel, general_backward_kernel<Cell, tangents>>(BackwardMemory<Cell, tangents>::bytes(a), a, stream);
}

}  // namespace sdtw::cuda::general
