// The kernel of the streams. A group takes tasks: a warp, or with long x all warps of a block, of which each has the
// rows behind those of the warp before, and gets the row above its own through shared memory, three blocks of steps
// later: that is when its last lane has computed them. One more warp may feed them. A warp may have two or four streams
// of short x side by side. Few pairs have two such groups each (Group::halves).
// Results do not depend on which group takes a task, nor on what a task's other pairs are.
#pragma once

#include "cuda/launch.h"
#include "cuda/streams/stream.cuh"

namespace sdtw::cuda::streams {

constexpr int lag = 3;               // blocks of steps by which a warp is behind the one above
constexpr size_t more_shared = 128;  // bytes of shared memory beside the rings: what warps tell each other

struct Shared {
  Word ticket;
  int up, down, pulse, still;  // of x: what largest_of is of
  int bad[2];                  // of halves, as Ring::bad
  double least[most_warps];
};
static_assert(sizeof(Shared) <= more_shared);

// Before each round. A half's warps wait for each other; a warp that feeds them has a loop of its own.
template <Group group>
__device__ __forceinline__ void sync(const Args &a, const Task &t) {
  if constexpr (is_fed<group>)
    barrier_of_roles(group == Group::halves && t.backward ? 2 : 1, (a.warps + 1) * warp);
  else if constexpr (group == Group::block)
    __syncthreads();
  else
    __syncwarp();
}

// One warp's part of a task.
template <class Rows, Group group>
struct Sweep {
  using Z = typename Rows::Z;
  static constexpr bool several = group != Group::warp, halves = group == Group::halves;
  static constexpr int K = Rows::K, D = Rows::features, cells = Ring<Rows>::cells;

  const Args &a;
  const Task &t;
  Ring<Rows> ring;
  Rows rows;
  int part;          // the warp's number in its group, or in its half
  Items<Rows> item;  // the pair that ends next
  int number;        // of it among the items of the task
  int end;           // the step after which its last cell is known, of those of the lane that has it
  Z corner;          // that cell
  double *edge;  // of halves: [rows], the half's cells in its last column, a lane's of which are known after step `end`

  __device__ __forceinline__ Sweep(const Args &args, const Task &task, const Ring<Rows> &of, int warp_of_group)
      : a(args), t(task), ring(of), part(warp_of_group) {}

  // Of those of the task, the lane's first one.
  __device__ __forceinline__ int first_row() const { return (part * warp + t.lane) * K; }
  // Loads x.
  __device__ __forceinline__ Span<Rows> load(const Origin<Rows> &origin) {
    Span<Rows> of_lane;
#pragma unroll
    for (int k = 0; k < K; k++) {
      const int row = clamp(first_row() + k, t.n);
      load_row(a, origin, t.x, t.template is_backward<Rows>() ? t.n - 1 - row : row, rows.x[k], of_lane);
    }
    return of_lane;
  }

  __device__ __forceinline__ void start() {
    const int own = lane_id();
    rows.start(a, own - t.lane + (t.lane + t.lanes - 1) % t.lanes, t.lane == t.lanes - 1);
    item.find(a, t, t.first);
    number = 0, end = columns_of_item(item.m) - 1 + (halves ? t.lane : t.end_lane);
    if constexpr (halves)
      for (int k = 0; k < K; k++) edge[first_row() + k] = infinity;
  }

  // Left of the first column, whose cells are forbidden, any finite y will do.
  __device__ __forceinline__ void clear_ring() const {
    for (int c = t.lane; c < ring.columns; c += t.lanes) {
      for (int f = 0; f < D; f++) ring.put(c, f, {});
      if (Rows::banded) ring.admit(c, 0);
    }
    for (int c = t.lane; c < cells; c += t.lanes) ring.bad[c] = 0, ring.rows[c] = Rows::forbidden();
  }

  __device__ __forceinline__ void block(int first) {
    if (several && Rows::soft && part > 0) {  // see the range of m in cell.cuh
      if (t.lane < block_steps) Rows::renormalise(ring.rows[part * cells + (first + warp - 1 + t.lane) % cells]);
      __syncwarp();
    }
    const bool ends_here = halves ? end >= first : part == t.warp_of_end && t.lane == t.end_lane;
    const bool is_end = item.m > 0 && ends_here && end < first + block_steps;
    if (several && Rows::banded && !has_admitted(first))
      pass(first);
    else if (__any_sync(all_lanes, is_end))
      steps<true>(first, is_end ? end - first : -1);
    else
      steps<false>(first, -1);
    if (!halves && item.m > 0 && end < first + block_steps) finish();
  }

  // Whether the band admits any of the warp's rows in the steps of a block.
  __device__ __forceinline__ bool has_admitted(int first) const {
    const int begin = part * warp * K, end_of_rows = begin + warp * K;
    const auto meets = [&](unsigned packed) {
      return static_cast<int>(packed >> 16) > begin && static_cast<int>(packed & 0xffffu) < end_of_rows;
    };
    const bool any = meets(ring.admitted_from(first - warp + t.lane)[0]) ||
                     meets(ring.admitted_from(first + t.lane % block_steps)[0]);
    return __any_sync(all_lanes, any);
  }
  // A block in which there are none: all that is left is the cell above the first row, in the block's last column.
  __device__ __forceinline__ void pass(int first) {
    rows.forbid();
    rows.set_above(t.lane == 0 ? ring.rows[part * cells + (first + block_steps + warp - 2) % cells]
                               : Rows::forbidden());
    if (part + 1 < a.warps && t.lane < block_steps)
      ring.rows[(part + 1) * cells + (first + t.lane) % cells] = Rows::forbidden();
    corner = Rows::forbidden();
  }

  // The steps of a block. A block in which a pair ends, after step `ending` in the lane that has its last cell, is not
  // unrolled, and in the others nothing is asked in each step.
  template <bool ends>
  __device__ __forceinline__ void steps(int first, int ending) {
    const typename Rows::Point *const at = ring.from(first - t.lane);
    const Z *const tops = ring.rows + part * cells, *const from = tops + (first + warp) % cells;
    Z *const below =
        several && t.lane == warp - 1 && part + 1 < a.warps ? ring.rows + (part + 1) * cells + first % cells : nullptr;
    const unsigned *const admitted = Rows::banded ? ring.admitted_from(first - t.lane) : nullptr;
    const int row = first_row();
    const auto look = [&](int u) {
      typename Rows::Ahead at_step = rows.look(at, ring.pitch(), u);
      if constexpr (Rows::banded) at_step.gate = LaneGate<K>(admitted[u], row);
      return at_step;
    };
    typename Rows::Ahead ahead = look(0);
    Z top = load_now(tops + (first + warp - 1) % cells);
    constexpr int unrolled = ends ? 1 : Rows::unrolled;
#pragma unroll unrolled
    for (int u = 0; u < block_steps; u++) {
      typename Rows::Ahead after;
      Z top_after;
      rows.step(ahead, top, [&] {
        // In the last step the own once more, which is not used: what lies behind the block is being written.
        const int next = min(u + 1, block_steps - 1);
        top_after = load_now(from + next - 1);
        after = look(next);
      });
      if (several && below) below[u] = rows.row(K - 1);
      if (ends && u == ending) {
#pragma unroll
        for (int k = 0; k < K; k++)
          if (halves)
            edge[row + k] = Rows::value(rows.row(k), a);
          else if (k == t.end_row)
            corner = rows.row(k);
      }
      ahead = after, top = top_after;
      if (u % renormalise_every == renormalise_every - 1) rows.renormalise();
    }
  }

  // Of the pair that has ended: in all lanes of the stream, of which one has its last cell.
  __device__ __forceinline__ void finish() {
    if (part == t.warp_of_end && t.lane == t.end_lane) {
      int &bad = ring.bad[number % cells];
      settle<Rows>(a, t.x, item.item, t.n, item.m, bad, *ring.pulse, Rows::value(corner, a));
      bad = 0;
    }
    item.find(a, t, item.item + 1);
    number++, end += columns_of_item(item.m);
  }

  // By all warps of both halves, when they have come to where they meet: the pair's value is that of the best path by
  // way of any row of the front half's last column.
  __device__ __forceinline__ void meet(const double *front, const double *back, Shared &shared) const {
    const int m = length_of_y(a, t.first), warps = a.warps;
    if (part == 0 && t.lane == 0) shared.bad[t.backward] = ring.bad[0];
    __syncthreads();
    double least = infinity;
    if (!t.backward && part < warps) {
      for (int i = threadIdx.x; i < t.n; i += warps * warp) {  // the back half's rows are the last one's first
        const int own = t.n - 1 - i;
        const double rest = m == 1 ? (own > 0 ? infinity : 0) : own > 0 ? fmin(back[own], back[own - 1]) : back[own];
        least = fmin(least, front[i] + rest);
      }
      for (int step = warp / 2; step > 0; step /= 2) least = fmin(least, __shfl_xor_sync(all_lanes, least, step));
      if (t.lane == 0) shared.least[part] = least;
    }
    __syncthreads();
    if (threadIdx.x > 0) return;
    for (int i = 1; i < warps; i++) least = fmin(least, shared.least[i]);
    settle<Rows>(a, t.x, t.first, t.n, m, shared.bad[0] | shared.bad[1], *ring.pulse, least);
  }
};

// The largest v of a stream's lanes; with several warps of all of the block, in which `in` is for that.
template <bool several>
__device__ __forceinline__ int largest_of(int v, int lanes, int &in) {
  v = pair_max(v, lanes);
  if constexpr (!several) return v;
  if (threadIdx.x == 0) in = 0;
  __syncthreads();
  if (lane_id() == 0) atomicMax(&in, v);
  __syncthreads();
  return in;
}
template <bool several, class Rows>
__device__ __forceinline__ Span<Rows> largest_of(const Span<Rows> &of_lane, int lanes, Shared &shared) {
  return {largest_of<several>(of_lane.up, lanes, shared.up),
          Span<Rows>::has_sides ? largest_of<several>(of_lane.down, lanes, shared.down) : 0};
}

// The pulse of an x of n rows, negative if some lane has rows of which all but one or two are still beside it. The
// caller measures the rows of lanes [first, end), of those that there are, every `stride` of them. shift: the first row
// of lane 0.
template <class Rows, bool several>
__device__ __forceinline__ float measure_pulse(const Args &a, int64_t x, int n, int lanes, int first, int end,
                                               Shared &shared, int stride = 1, int shift = 0) {
  constexpr int K = Rows::K;
  int largest = 0, still = 0;
  for (int i = first; i < end; i += stride)
    largest = max(largest, __float_as_int(pulse_of_rows<Rows>(a, x, i * K + shift, n)));
  const float pulse = __int_as_float(largest_of<several>(largest, lanes, shared.pulse));
  for (int i = first; i < end; i += stride) still = max(still, still_rows<Rows>(a, x, i * K + shift, n, pulse / 8192));
  return largest_of<several>(still, lanes, shared.still) > K - 3 ? -pulse : pulse;
}

template <class Rows, Group group>
__device__ __forceinline__ void run_task(const Args &a, const Task &t, const Ring<Rows> &ring, Shared &shared,
                                         double *edges) {
  constexpr bool several = group != Group::warp, halves = group == Group::halves, apart = is_fed<group>;
  const int part = several ? threadIdx.x / warp - (halves ? t.backward * (a.warps + 1) : 0) : 0;
  const bool feeds = part == (apart ? a.warps : 0), is_first = part == 0 && !t.backward;
  int columns = settle_trivial<Rows>(a, t, is_first);
  Sweep<Rows, group> sweep(a, t, ring, part);
  const int rows = a.warps * warp * Rows::K;
  if (halves) sweep.edge = edges + t.backward * rows;
  Origin<Rows> origin;
  Span<Rows> span;
  if (columns > 0) origin = Origin<Rows>(a, t.x);
  if (columns > 0 && !(apart && feeds)) span = sweep.load(origin);
  span = largest_of<several>(span, t.lanes, shared);
  if (!(span.largest() <= most_of_x<Rows>(a))) {
    if (is_first) leave_all<Rows>(a, t);
    columns = 0;
  }
  int blocks = columns > 0 ? (columns + t.lanes - 1 + block_steps - 1) / block_steps : 0;
  if (!several) blocks = warp_max(blocks);
  if (blocks == 0) return;
  if (columns == 0) {  // beside a stream that has work: its lanes go through columns that are outside of all series
    for (int k = 0; k < Rows::K; k++)
      for (int f = 0; f < Rows::features; f++) sweep.rows.x[k][f] = {};
  }
  if constexpr (Rows::has_pulse) {
    // What a row of the back half is beside comes behind it.
    const int of_task = part * warp + t.lane, own = t.backward ? -1 - of_task : of_task,
              shift = t.backward ? t.n + 1 : 0;
    const float pulse =
        measure_pulse<Rows, several>(a, t.x, columns > 0 ? t.n : 0, t.lanes, own, own + 1, shared, 1, shift);
    if (t.lane == 0 && part == 0) *ring.pulse = pulse;
  }
  Task own = t;
  if (columns == 0) own.end = own.first;
  Feeder<Rows> feeder;
  if (feeds) {
    sweep.clear_ring();
    feeder.begin(a, own, origin, span);
  }
  const int rounds = blocks + (several ? lag * t.warp_of_end : 0);
  if (apart && feeds) {
#pragma unroll 1
    for (int round = -1; round < rounds; round++) {  // before the first one the ring is filled
      sync<group>(a, t);
      feeder.ask(a, own);
      feeder.stage(a, own, ring, (round + 1) * block_steps);
    }
  } else {
    sweep.start();
    if (columns == 0) sweep.item.m = 0;
#pragma unroll 1
    for (int round = -1; round < rounds; round++) {
      sync<group>(a, t);
      if (!apart && feeds) feeder.ask(a, own);
      const int block = round - (several ? lag * part : 0);
      if (block >= 0 && block < blocks && part <= t.warp_of_end) sweep.block(block * block_steps);
      if (!apart && feeds) feeder.stage(a, own, ring, (round + 1) * block_steps);
    }
  }
  sync<group>(a, t);
  if constexpr (halves) sweep.meet(edges, edges + rows, shared);
}

template <class Rows, Group group>
__device__ __forceinline__ void run_tasks(const Args &a) {
  constexpr bool several = group != Group::warp, halves = group == Group::halves;
  unsigned char *const raw = ptx::shared_memory();
  Shared &shared = *reinterpret_cast<Shared *>(raw);
  let_next_kernel_in();
  wait_for_kernel_before();
  if (Rows::again && a.control->left == 0) return;
  const int streams = warp >> a.lane_bits;  // of a group
  const int columns = ring_columns_of(a.warps);
  const size_t each = Ring<Rows>::bytes(columns, a.warps);
  const bool backward = halves && threadIdx.x >= blockDim.x / 2;
  const int place = several ? backward : threadIdx.x / warp * streams + (lane_id() >> a.lane_bits);
  Ring<Rows> ring;
  ring.place(raw + more_shared + place * each, columns, a.warps);
  const int64_t turns = (a.tasks + streams - 1) / streams;
  for (;;) {
    Word turn = 0;
    if (several) {
      __syncthreads();
      if (threadIdx.x == 0) shared.ticket = atomicAdd(&a.control->ticket[Rows::again], Word(1));
      __syncthreads();
      turn = shared.ticket;
    } else {
      if (lane_id() == 0) turn = atomicAdd(&a.control->ticket[Rows::again], Word(1));
      turn = __shfl_sync(all_lanes, turn, 0);
    }
    if (turn >= static_cast<Word>(turns)) return;
    const int64_t number = static_cast<int64_t>(turn) * streams + (lane_id() >> a.lane_bits);
    run_task<Rows, group>(a, make_task<Rows>(a, number, halves, backward), ring, shared,
                          reinterpret_cast<double *>(raw + more_shared + 2 * each));
  }
}

template <class Rows, Group group>
constexpr int most_threads = warp *(group == Group::warp        ? warps_alone
                                    : group == Group::block     ? least_of_fed<Rows> - 1
                                    : group == Group::fed_block ? most_warps + 1
                                                                : 2 * (most_of_half<Rows> + 1));
template <class Rows, Group group>
constexpr int least_resident = group == Group::warp ? Rows::resident
                               : group == Group::block
                                   ? Rows::resident_of_several *most_warps / (least_of_fed<Rows> - 1)
                               : group == Group::fed_block ? Rows::resident_of_several
                                                           : 1;

template <class Rows, Group group>
__global__ void __launch_bounds__(most_threads<Rows, group>, least_resident<Rows, group>)
    stream_kernel(const __grid_constant__ Args a) {
  if constexpr (Rows::exists) run_tasks<Rows, group>(a);
}

}  // namespace sdtw::cuda::streams
