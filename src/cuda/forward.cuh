// Forward: a warp takes a task and sweeps it. Where costs take matrix instructions, four other warps of its block
// compute them, a block of steps ahead.
#pragma once

#include "direct_costs.cuh"
#include "forward_sweep.cuh"
#include "given_costs.cuh"
#include "tensor_costs.cuh"

namespace sdtw::cuda {

// Of the pair's value, -log2(Z) / scale.
template <class Cell>
__device__ __forceinline__ double value_of(const Args &a, const typename Cell::Z &z, Status &status) {
  if (z.m != z.m) {
    status = status_not_a_number;
    return __longlong_as_double(0x7ff8000000000000ll);
  }
  if (!Cell::reachable(z)) {
    status = status_unreachable;
    return __longlong_as_double(0x7ff0000000000000ll);
  }
  status = status_finite;
  return -Cell::log2(z) / a.scale;
}

// Of the pairs whose first strip a task has: values of those without cells, and whether the wide engine is needed.
__device__ __forceinline__ void look_after(const Args &a, int64_t task, int lane) {
  const Pair pair = pair_of(a, task, lane);
  const bool exists = a.lanes == warp || task * (warp >> a.lane_bits) + (lane >> a.lane_bits) < a.batch;
  if (!exists || (lane & (a.lanes - 1)) != 0) return;
  if (pair.kind == Kind::regular) {
    if (has_bounds(a) && !is_fast(a, pair)) a.control->any_wide = 1;
    return;
  }
  const long long inf = 0x7ff0000000000000ll, nan = 0x7ff8000000000000ll;
  const bool invalid = pair.kind == Kind::invalid;
  const double value = pair.kind == Kind::empty ? 0 : __longlong_as_double(invalid ? nan : inf);
  store(a.value, pair.index, a.f64, value);
  a.status[pair.index] = invalid ? status_not_a_number : status_unreachable;
}

// After the fast engine's sweep: the value, as it is. Whether another engine has to look after a pair of the task: of
// pairs that are alone the warp has to see to that itself.
template <bool alone, class Source>
__device__ __forceinline__ bool finish_fast(const Args &a, const View &s, const Source &source, const Fast::Z &corner) {
  const bool exceeded = source.exceeded(a, s);
  Status status;
  const double value = value_of<Fast>(a, corner, status);
  const bool ends = s.active && s.is_end();
  const bool cancelled = ends && !exceeded && fabs(value) < cancellation(a, s.pair);
  if (s.active && s.lane == 0) {
    if (alone)
      a.bounds[bounds_per_pair * s.pair.index] = exceeded ? given_back : not_given_back;
    else if (exceeded)
      give_back(a, s.pair.index);
  }
  if (ends) {
    if (cancelled && !alone) a.control->any_wide = a.control->any_again = 1;
    a.status[s.pair.index] = cancelled ? status_cancelled : status;
    store(a.value, s.pair.index, a.f64, value);
  }
  return alone && __any_sync(all_lanes, s.active && (exceeded || cancelled));
}

// After any engine's sweep. rewriting: a value that is computed again; its status stays for backward.
template <class Cell, bool alone = false, class Source>
__device__ __forceinline__ bool finish(const Args &a, const View &s, const Source &source,
                                       const typename Cell::Z &corner, bool rewriting) {
  if (s.reversed) return false;
  if constexpr (std::is_same_v<Cell, Fast>) {
    return finish_fast<alone>(a, s, source, corner);
  } else if (s.active && s.is_end()) {
    Status status;
    const double value = value_of<Cell>(a, corner, status);
    if (!rewriting) a.status[s.pair.index] = status;
    store(a.value, s.pair.index, a.f64, value);
  }
  return false;
}

// What a pass of an engine computes: pairs that are its own, or values of the fast engine's that are computed again, of
// which it leaves rows in place of the fast engine's. The exact engine does that where it can, else the wide one. The
// fast engine tries all pairs whose bounds it has to find out itself: one that it gave back in between would have
// strips that others wait for.
template <class Cell>
__device__ __forceinline__ bool is_wanted(const Args &a, const Pair &pair, bool rewriting) {
  if (rewriting) return a.status[pair.index] == status_cancelled && is_fast(a, pair);
  return (std::is_same_v<Cell, Fast> && !has_bounds(a)) || is_mine<Cell>(a, pair);
}

// Before an engine computes anything that the fast one has tried, the rows that this has left have to look unwritten.
// By a warp, pair by pair.
template <class Cell>
__device__ __forceinline__ void forget_rows(const Args &a, int64_t b, bool rewrites) {
  const Pair pair = read_pair(a, b);
  const bool own = Cell::wide && is_wanted<Cell>(a, pair, false);
  if (pair.kind != Kind::regular || !(own || (rewrites && is_wanted<Cell>(a, pair, true)))) return;
  const int64_t size = static_cast<int64_t>(a.strips - 1) * a.m * words_of(a.format);
  for (int64_t i = lane_id(); i < size; i += warp) {
    a.rows[b * size + i] = ~Word(0);
    if (own && a.back_rows) a.back_rows[b * size + i] = ~Word(0);
  }
}

// Tasks are strips from the top, or where there is room for what the others leave, from both ends in turn.
template <class Cell>
__device__ __forceinline__ View forward_view(const Args &a, int64_t task, bool rewriting, int lane) {
  const int order = order_of(a, task);
  const bool both = a.back_rows != nullptr;
  return make_view(a, task, both ? order / 2 : order, both && order % 2 == 1, lane,
                   [&](const Pair &pair) { return is_wanted<Cell>(a, pair, rewriting); });
}
__host__ __device__ __forceinline__ int64_t forward_tasks(const Args &a) {
  return a.back_rows ? a.batch * (2 * a.strips - 1) : a.tasks;
}

// Shared memory of a block. Together: the relay, the row above, the ring of costs, and what the producers need.
constexpr size_t relay_bytes = (sizeof(Relay) + 15) / 16 * 16;
template <class Source>
size_t forward_bytes(const Args &a) {
  if constexpr (Source::cooperative)
    return relay_bytes + tops_bytes + Source::ring_bytes(a.cost_columns) + Source::scratch_bytes(a);
  else
    return Source::warps * (tops_bytes + Source::bytes(a));
}

// A warp without others that make its costs. Whether another engine has to look after the task.
template <class Cell, class Source, bool alone = false>
__device__ __forceinline__ bool sweep_by_itself(const Args &a, int64_t task, bool rewriting, unsigned char *memory) {
  const View s = forward_view<Cell>(a, task, rewriting, lane_id());
  if (s.steps == 0) return false;
  auto *tops = reinterpret_cast<typename Cell::Z *>(memory);
  Source source;
  source.begin(a, s, memory + tops_bytes);
  Sweep<Cell, Source> sweep(a, s, source);
  sweep.run(tops);
  return finish<Cell, alone>(a, s, source, sweep.corner, rewriting);
}
// What the fast engine could not do of a task whose pairs are alone. Not inlined: it is needed seldom, and would take
// registers from the fast engine.
template <class Cell, class Source>
__device__ __noinline__ void sweep_seldom(const Args &a, int64_t task, bool rewriting, unsigned char *memory) {
  sweep_by_itself<Cell, Source>(a, task, rewriting, memory);
}

// One warp that sweeps, and four that make its costs. These have the next task before the first has done with its own,
// and work ahead as far as the ring of costs has room.
template <class Cell, class Source>
struct Together {
  const Args &a, &again;
  unsigned char *memory;

  __device__ __forceinline__ Relay &relay() const { return *reinterpret_cast<Relay *>(memory); }
  __device__ __forceinline__ unsigned char *tops() const { return memory + relay_bytes; }
  __device__ __forceinline__ auto *ring() const {
    return reinterpret_cast<typename Source::Element *>(memory + relay_bytes + tops_bytes);
  }
  // By the whole block.
  __device__ __forceinline__ void open() const {
    if (threadIdx.x == 0) {
      relay().open();
      Source::open(memory + relay_bytes + tops_bytes + Source::ring_bytes(a.cost_columns));
    }
    __syncthreads();
  }
  __device__ __forceinline__ View view(int64_t task, bool rewriting, int lane) const {
    return forward_view<Cell>(rewriting ? again : a, task, rewriting, lane);
  }

  // tickets: gives the next task.
  template <class Next>
  __device__ __forceinline__ void sweep(Next next) const {
    int count = 0, chunk = 0;
    const auto announce = [&] {  // the next task that has any steps
      Job job{none, false, 0, 0};
      while (next(job.task, job.rewriting)) {
        const int steps = view(job.task, job.rewriting, lane_id()).steps;
        if (steps == 0) continue;
        job.first_chunk = chunk;
        job.chunks = (steps + block_steps - 1) / block_steps;
        chunk += job.chunks;
        break;
      }
      relay().announce(count++, job);
      return job;
    };
    for (Job job = announce(); job.task != none;) {
      const Job after = announce();
      const Args &args = job.rewriting ? again : a;
      const View s = view(job.task, job.rewriting, lane_id());
      Source source;
      source.ring = ring(), source.columns = a.cost_columns, source.relay = &relay();
      source.next_chunk = job.first_chunk;
      source.shift = source.next_chunk * chunk_columns;
      source.begin(args, s);
      Sweep<Cell, Source> sweep(args, s, source);
      sweep.run(reinterpret_cast<typename Cell::Z *>(tops()));
      relay().leave(source.next_chunk - 1);
      finish<Cell>(args, s, source, sweep.corner, job.rewriting);
      job = after;
    }
  }

  template <class Producer>
  __device__ __forceinline__ void produce() const {
    const int strip_lane = (threadIdx.x / warp - 1) * 8 + lane_id() / 4;
    // The columns of a chunk are read in the two blocks of steps after its own, too.
    const int ahead = a.cost_columns / chunk_columns - 2;
    int count = 0, chunks = 0;
    for (Job job = relay().receive(count); job.task != none; job = relay().receive(++count)) {
      const View s = view(job.task, job.rewriting, strip_lane);
      Producer producer(a, s, strip_lane, ring(), a.cost_columns, job.first_chunk * chunk_columns, chunks);
      for (int i = 0; i < job.chunks; i++) {
        const int first = i * chunk_columns;
        relay().wait_swept(job.first_chunk + i - ahead);
        const bool outside = first >= producer.end();
        if (i == 0 || outside)
          producer.put_outside(outside ? first : -producer.lane(), outside ? first + chunk_columns : 0);
        if (!outside) producer.produce(first, first + chunk_columns);
        relay().fill(job.first_chunk + i);
      }
    }
  }
};

// alone: see is_alone.
template <class Cell, class Source, bool alone>
__global__ void __launch_bounds__(Source::warps *warp, Source::resident)
    forward_kernel(const __grid_constant__ Args a, const __grid_constant__ Args again) {
  extern __shared__ __align__(16) unsigned char shared[];
  constexpr bool exact = std::is_same_v<Cell, Exact>;
  const bool primary = !exact && Cell::wide == a.f64;  // the others are there for what this one cannot do
  if (!primary || a.strips == 1) let_next_kernel_in();
  wait_for_kernel_before();
  const bool rewrites = !primary && a.control->any_again == 1 && exact == has_exact(a);
  if (!primary && (exact ? !rewrites : a.control->any_wide != 1)) return;
  // First the engine's own pairs, then those whose values are computed again. An engine that comes after the fast one
  // has all pairs' rows seen to before.
  const int64_t own = exact ? 0 : forward_tasks(a), tasks = own + (rewrites ? again.tasks : 0);
  constexpr int engine = exact ? 2 : Cell::wide;
  const int64_t pairs = primary || a.strips == 1 ? 0 : a.batch;
  const int64_t own_turn = static_cast<int64_t>(blockIdx.x) * Source::warps + threadIdx.x / warp;
  int64_t turn = own_turn;
  const auto next = [&](int64_t &task, bool &rewriting) {
    if constexpr (alone) {  // no task waits for another: nobody has to count them
      task = turn < tasks ? turn : -1;
      turn += static_cast<int64_t>(gridDim.x) * Source::warps;
    } else {
      task = take_ticket(&a.control->ticket[engine], pairs + tasks);
    }
    if constexpr (!std::is_same_v<Cell, Fast>) {
      int *const forgotten = a.control->forgotten + engine;
      for (; task >= 0 && task < pairs; task = take_ticket(&a.control->ticket[engine], pairs + tasks)) {
        forget_rows<Cell>(a, task, rewrites);
        __threadfence();
        __syncwarp();
        if (lane_id() == 0) atomicAdd(forgotten, 1);
      }
      if (task >= 0 && pairs > 0) {
        while (load_acquire(forgotten) != a.batch - 1) continue;
        __syncwarp();
        task -= pairs;
      }
    }
    if (task < 0) {
      let_next_kernel_in();
      return false;
    }
    rewriting = !std::is_same_v<Cell, Fast> && task >= own;
    if (rewriting) task -= own;
    if (primary && order_of(a, task) == 0) look_after(a, task, lane_id());
    return true;
  };
  if constexpr (Source::cooperative) {
    const Together<Cell, Source> together{a, again, shared};
    together.open();
    if (threadIdx.x < warp)
      together.sweep(next);
    else
      Source::choose(a, [&](auto of) { together.template produce<typename decltype(of)::type>(); });
  } else {
    unsigned char *memory = shared + threadIdx.x / warp * (tops_bytes + Source::bytes(a));
    int64_t task;
    bool rewriting, others = false;
    while (next(task, rewriting))
      others |= sweep_by_itself<Cell, Source, alone>(rewriting ? again : a, task, rewriting, memory);
    if constexpr (alone)
      if (others)
        for (turn = own_turn; next(task, rewriting);) {
          sweep_seldom<Wide, DirectCosts>(a, task, false, memory);
          sweep_seldom<Exact, Source>(a, task, true, memory);
        }
  }
}

}  // namespace sdtw::cuda
