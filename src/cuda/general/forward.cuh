// Forward of the general engine: while the first warp of a block sweeps a tile,
// the producers fill the next one.
#pragma once

#include "cuda/general/launch_tasks.h"
#include "cuda/general/sweep.cuh"

namespace sdtw::cuda::general {

template <class Cell, bool tangents>
struct ForwardMemory {
  using Real = typename Cell::Real;
  static constexpr int T = forward_steps<Cell, tangents>;
  static constexpr int planes = Cell::cost_planes + (tangents ? 1 : 0);
  static constexpr size_t tile_bytes = planes * T * pitch * sizeof(Real);
  static constexpr int points = at_once * (staged_rows + staged_columns<T>);
  static constexpr size_t bytes = 2 * tile_bytes + (tangents ? 2 : 1) * points * sizeof(double);

  static __device__ __forceinline__ Planes<Cell, tangents, T> tile(unsigned char *raw, int parity) {
    Real *base = reinterpret_cast<Real *>(raw + parity * tile_bytes);
    return {base, nullptr, base + Cell::cost_planes * T * pitch};
  }
  static __device__ __forceinline__ Points<double> staged(unsigned char *raw, int which) {
    double *x = reinterpret_cast<double *>(raw + 2 * tile_bytes) + which * points;
    return {x, x + at_once * staged_rows};
  }
};

// Sweeps a tile; reads the row above, which the block of the strip above may
// still be writing, and hands on the last.
template <class Cell, bool tangents, int T>
struct ForwardSweep {
  Sweep<Cell, tangents, T> sweep;
  Word *row;               // that the strip hands on; null if none does
  int row_first, row_end;  // its columns
  int ready;               // columns of the row above that are known to be there
  int first_segment;

  __device__ __forceinline__ ForwardSweep(const Args &a, const Task &s, const Block &block, int first_step)
      : sweep(a, s, block),
        row(s.last() ? nullptr : row_of(a, s, s.strip)),
        row_first(block.first[strip_rows - 1]),
        row_end(block.end[strip_rows - 1]),
        ready(0),
        first_segment(first_step / a.interval) {
    wait_above(first_step);
    sweep.start(first_step);
  }

  // Until the row above is there up to column `end`.
  __device__ __forceinline__ void wait_above(int end) {
    const Task &s = sweep.s;
    end = min(end, sweep.block.above_end);
    if (s.strip == 0 || end <= sweep.block.above_first || end <= ready) return;
    if (lane_id() == 0) ready = wait_until(progress(-1), [&](int columns) { return columns >= end; });
    ready = __shfl_sync(all_lanes, ready, 0);
  }
  __device__ __forceinline__ int *progress(int strip) const {
    return sweep.a.progress + sweep.s.local * sweep.a.strips + sweep.s.strip + strip;
  }

  __device__ __forceinline__ void run(const Planes<Cell, tangents, T> &tile, int first, bool begins) {
    const Args &a = sweep.a;
    const Task &s = sweep.s;
    wait_above(first + T);
    const auto tops = sweep.top_of(first + lane_id());
    if (a.saved && !begins && first % a.interval == 0)
      sweep.save(checkpoint_of(a, s, first / a.interval, first_segment));
    const int end = s.last() ? s.end_step() - first : -1;
    sweep.template run<false>(tile, tops, end, [&](int u) {
      const int column = first + u - (warp - 1);
      if (!row || lane_id() < warp - 1 || column < row_first || column >= row_end) return;
      Word *to = row + static_cast<int64_t>(column - row_first) * a.words;
      Cell::store(to, a.format, sweep.z[K - 1]);
      if constexpr (tangents) store_relaxed(to + a.words - 1, __double_as_longlong(sweep.dot[K - 1]));
    });
    if (!row) return;
    __syncwarp();
    if (lane_id() == 0 && first + T - (warp - 1) > row_first) publish(progress(0), first + T - (warp - 1));
  }

  // All strips above are done, with all that they may have found in their
  // costs.
  __device__ __forceinline__ void finish() {
    if (sweep.s.strip > 0 && lane_id() == 0) wait_until(progress(-1), [](int columns) { return columns == INT_MAX; });
    __syncwarp();
    if (lane_id() == 0) publish(progress(0), INT_MAX);
  }
};

__device__ __forceinline__ void put_value(const Args &a, void *to, const core::PairIndex &index, double v) {
  if (!to) return;
  const auto put = [&](int64_t i) {
    if (a.f64_values)
      static_cast<double *>(to)[i] = v;
    else
      static_cast<float *>(to)[i] = static_cast<float>(v);
  };
  put(index.pair);
  if (a.symmetric) put(index.y * a.batch_y + index.x);
}

// By one lane: what there is to say of a pair.
__device__ __forceinline__ void put_results(const Args &a, const Task &s, int status, double value, double derivative) {
  const double nan = __longlong_as_double(0x7ff8000000000000ll);
  a.status[s.local] = status;
  put_value(a, a.value, s.index, status == status_not_a_number ? nan : value);
  put_value(a, a.value_tangent, s.index,
            status == status_not_a_number  ? nan
            : status == status_unreachable ? 0
                                           : derivative);
}

// Pairs of which a series is empty, or a length out of range, and those that
// are the double engine's by their shape. Returns whether there is no more to
// do.
template <class Cell>
__device__ __forceinline__ bool is_settled(const Args &a, const Task &s, int64_t ticket) {
  const bool first = ticket < a.pairs && threadIdx.x == 0;
  const double infinity = __longlong_as_double(0x7ff0000000000000ll);
  if (s.kind != LengthCase::regular) {
    if (first && a.primary)
      put_results(a, s, s.kind == LengthCase::invalid ? status_not_a_number : status_unreachable,
                  s.kind == LengthCase::empty ? 0 : infinity, 0);
    return true;
  }
  if (!Cell::wide && core::is_thin(s.n, s.m)) {
    if (first) raise(a, s, rejected);
    return true;
  }
  return s.strip >= s.strips || !takes<Cell>(a, s);
}

template <class Cell, bool tangents>
__device__ __forceinline__ void forward_task(const Args &a, const Task &s, Block &block, unsigned char *raw) {
  using Memory = ForwardMemory<Cell, tangents>;
  constexpr int T = Memory::T;
  find_columns(s, block);
  const int begin = block.begin / T, end = (block.steps + T - 1) / T, thread = threadIdx.x - warp;
  const double limit = limit_of<Cell>(s);
  Fill<Cell, tangents, T, false> fill{a, s, block, Memory::staged(raw, 0), Memory::staged(raw, tangents ? 1 : 0)};
  if (thread >= 0) {
    if (begin < end) fill.run(Memory::tile(raw, begin & 1), begin * T, thread, limit);
    roles_barrier<tangents>();
    for (int tile = begin; tile < end; tile++) {
      if (tile + 1 < end) fill.run(Memory::tile(raw, (tile + 1) & 1), (tile + 1) * T, thread, limit);
      roles_barrier<tangents>();
    }
    return;
  }
  ForwardSweep<Cell, tangents, T> forward(a, s, block, begin * T);
  roles_barrier<tangents>();
  for (int tile = begin; tile < end; tile++) {
    forward.run(Memory::tile(raw, tile & 1), tile * T, tile == begin);
    roles_barrier<tangents>();
  }
  forward.finish();
  const auto &sweep = forward.sweep;
  if (!s.last() || lane_id() != s.end_lane()) return;
  const int flags = load_acquire(a.flags + s.local);
  if (!Cell::wide && (flags & rejected)) return;
  const int status = flags & not_a_number            ? status_not_a_number
                     : Cell::reachable(sweep.corner) ? status_finite
                                                     : status_unreachable;
  put_results(
      a, s, status,
      status == status_finite ? Cell::value(sweep.corner) / a.scale : __longlong_as_double(0x7ff0000000000000ll),
      sweep.corner_dot);
}

template <class Cell, bool tangents>
__global__ void __launch_bounds__(block_threads<tangents>, blocks_of<Cell, tangents>)
    general_forward_kernel(const __grid_constant__ Args a) {
  unsigned char *const raw = ptx::shared_memory();
  Block &block = ptx::shared_object<Block>();
  if (!a.primary && *a.any_double == 0) return;
  for (;;) {
    if (threadIdx.x == 0) block.ticket = static_cast<int64_t>(atomicAdd(a.ticket, Word(1)));
    __syncthreads();
    const int64_t ticket = block.ticket;
    if (ticket >= a.tasks) return;
    const Task s = make_task(a, ticket, false);
    if (!is_settled<Cell>(a, s, ticket)) forward_task<Cell, tangents>(a, s, block, raw);
    __syncthreads();
  }
}

template <class Cell, bool tangents>
void Kernels<Cell, tangents>::forward(const Args &a, cudaStream_t stream) {
  using Kernel = decltype(&general_forward_kernel<Cell, tangents>);
  launch_tasks<Kernel, general_forward_kernel<Cell, tangents>>(ForwardMemory<Cell, tangents>::bytes,
                                                               block_threads<tangents>, a, stream);
}

}  // namespace sdtw::cuda::general
