// The forward kernel: values of all pairs, and rows and checkpoints for backward. A warp takes a task (a strip of a
// pair, or several short pairs side by side) and sweeps it. Where the source of costs is cooperative (many features),
// four producer warps of the same block compute costs for the one that sweeps.
//
// Invariant: tasks are taken by an atomic ticket in an order in which a strip waits only for tasks with earlier
// tickets, which are running or done; so blocks do not deadlock, however many are resident.
// Trade-off: for float32 the float engine takes all pairs that it can, and a second kernel of the long and the double
// engine computes the rest (Control::any_long, any_double). Where there are several strips, that kernel first resets
// the rows of these pairs.
// Not used where float32 pairs have one strip and few features (has_warp_fallback): tickets and the second kernel.
// There the warp itself runs the other engines.
#pragma once

#include "cuda/launch.h"
#include "cuda/pipeline/finish.cuh"
#include "cuda/pipeline/place.cuh"
#include "cuda/sweep/forward_sweep.cuh"

namespace sdtw::cuda {

// Whether an engine computes a pair: the pairs that are its own. The float engine tries all pairs if bounds of costs
// are not computed beforehand, and goes on with a pair that it has rejected: other warps wait for rows of all of its
// strips.
template <class Cell>
__device__ __forceinline__ bool is_wanted(const Args &a, const Pair &pair) {
  return (std::is_same_v<Cell, FloatCell> && !has_bounds(a)) || engine_of(a, pair) == own_engine<Cell>;
}

// Marks the rows of a pair as unwritten (all ones) if the float engine has tried and rejected it: it has left its own
// words there, and strips would take them for those of the engine that computes the pair. Called by a warp.
__device__ __forceinline__ void reset_rows(const Args &a, int64_t b) {
  const Pair pair = read_pair(a, b);
  if (pair.lengths != LengthCase::regular || engine_of(a, pair) == Engine::of_float) return;
  const int64_t size = (a.full_sweeps ? halves : 1) * static_cast<int64_t>(a.strips) * a.m * words_of(a.format);
  for (int64_t i = lane_id(); i < size; i += warp) a.rows[b * size + i] = ~Word(0);
}
// The second kernel's next task, or -1, where the float engine has tried all pairs and these have several strips. The
// first `batch` tickets are the pairs, whose rows are reset; the tasks come after these, and wait until all rows are
// reset. Not inlined: it is needed seldom.
static __device__ __noinline__ int64_t next_task_after_reset(const Args &a, int64_t tasks) {
  Word *const tickets = a.control->ticket + 1;
  int *const rows_reset = &a.control->rows_reset;
  int64_t task = take_ticket(tickets, a.batch + tasks);
  for (; task >= 0 && task < a.batch; task = take_ticket(tickets, a.batch + tasks)) {
    reset_rows(a, task);
    __syncwarp();
    if (lane_id() != 0) continue;
    __threadfence();  // covers what all lanes have written: the __syncwarp orders their writes before it
    atomicAdd(rows_reset, 1);
  }
  if (task < 0) return task;
  while (load_acquire(rows_reset) != a.batch - 1) back_off();
  __syncwarp();
  return task - a.batch;
}

template <class Cell, Extent extent>
__device__ __forceinline__ StripView forward_view(const Args &a, int64_t task, int lane) {
  return make_strip_view<inwards, extent>(a, task, lane, [&](const Pair &pair) { return is_wanted<Cell>(a, pair); });
}

// Shared memory of a block in bytes. With producers: the ForwardPipeline, the row above, the ring of costs, and the
// producers' scratch memory. Without: for each warp the row above and what its source of costs needs.
constexpr size_t pipeline_bytes = (sizeof(ForwardPipeline) + 15) / 16 * 16;
template <class Source>
__host__ __device__ __forceinline__ int forward_columns(const Args &a) {
  if constexpr (Source::forward_columns > 0)
    return Source::forward_columns;
  else
    return a.cost_columns;
}
// Warps of a block: fewer, if they need no producers, where there is no room for all in 64 KB.
template <class Source>
int forward_warps(const Args &a) {
  int warps = Source::warps;
  const Device device = current_device();
  if constexpr (!Source::cooperative)
    while (device.room == room_of_64 && warps > 1 && warps * (tops_bytes + Source::bytes(a)) > device.shared_memory)
      warps /= 2;
  return warps;
}
// The same in the kernel: a constant in code that no GPU of 64 KB runs.
template <class Source>
__device__ __forceinline__ int warps_of_block() {
  if constexpr (is_compiled<room_of_64>)
    return static_cast<int>(blockDim.x) / warp;
  else
    return Source::warps;
}
template <class Source>
size_t forward_bytes(const Args &a) {
  if constexpr (Source::cooperative)
    return pipeline_bytes + tops_bytes + Source::ring_bytes(forward_columns<Source>(a)) + Source::scratch_bytes(a);
  else
    return forward_warps<Source>(a) * (tops_bytes + Source::bytes(a));
}

// The sweep of a task by a warp that has its costs without producers. Returns whether the warp has to run the double
// engine for the task: see finish.
template <class Cell, class Source, bool warp_fallback, Extent extent>
__device__ __forceinline__ bool sweep_by_itself(const Args &a, int64_t task, unsigned char *memory) {
  const StripView s = forward_view<Cell, extent>(a, task, lane_id());
  if (s.steps == 0) return false;
  auto *tops = reinterpret_cast<typename Cell::Z *>(memory);
  Source source;
  source.begin(a, s, memory + tops_bytes);
  Sweep<Cell, Source, extent == Extent::corridor> sweep(a, s, source);
  sweep.run(tops);
  return finish<Cell, warp_fallback, extent>(a, s, source, sweep.corner);
}
// Another engine's sweep of a task, by the same warp. Not inlined: it is needed seldom, and would take registers.
template <class Cell, class Source, Extent extent>
__device__ __noinline__ void sweep_seldom(const Args &a, int64_t task, unsigned char *memory) {
  sweep_by_itself<Cell, Source, false, extent>(a, task, memory);
}

// A block of one sweeping warp and four producers. The sweeping warp announces the next task before it sweeps its own,
// and producers work ahead of it, also into that next task, as far as the ring of costs has room. Chunks of 16 columns
// are numbered through over all tasks of the block.
template <class Cell, class Source, Extent extent>
struct Together {
  static constexpr bool banded = extent == Extent::corridor;

  const Args &a;
  unsigned char *memory;

  __device__ __forceinline__ int columns() const { return forward_columns<Source>(a); }  // of the ring

  __device__ __forceinline__ ForwardPipeline &pipeline() const { return *reinterpret_cast<ForwardPipeline *>(memory); }
  __device__ __forceinline__ unsigned char *tops() const { return memory + pipeline_bytes; }
  __device__ __forceinline__ typename Source::Ring ring() const {
    return {memory + pipeline_bytes + tops_bytes, columns()};
  }
  __device__ __forceinline__ unsigned char *scratch() const { return ring().data + Source::ring_bytes(columns()); }
  // The warp's place: 0 is the sweep's. Of few features the sweep is what all wait for, and has a scheduler to itself
  // in its block. Of more the producers take as long, and three of them on a scheduler would take longer.
  __device__ __forceinline__ int place_of() const {
    constexpr int few = 32;
    return a.features <= few ? place_of_warp<Source::warps>(reinterpret_cast<int *>(tops()))
                             : static_cast<int>(threadIdx.x) / warp;
  }
  // Called by the whole block.
  __device__ __forceinline__ void init() const {
    if (threadIdx.x == 0) {
      pipeline().init();
      Source::init(scratch());
    }
    __syncthreads();
  }
  // All of a block's work, by the whole block. next: as for `sweep`.
  template <class Next>
  __device__ __forceinline__ void run(Next next) const {
    init();
    const int place = place_of();
    if (place == 0)
      sweep(next);
    else
      Source::choose(a, [&](auto of) { produce<typename decltype(of)::type>(place - 1); });
  }
  // After `run`, so that another one may follow.
  __device__ __forceinline__ void retire() const {
    __syncthreads();
    if (threadIdx.x > 0) return;
    pipeline().retire();
    Source::retire(scratch());
  }

  // The sweeping warp. next(task): takes the next task, false if there is none.
  template <class Next>
  __device__ __forceinline__ void sweep(Next next) const {
    int count = 0, chunk = 0;    // of tasks announced, and of their chunks
    const auto announce = [&] {  // takes the next task that has any steps, and tells the producers
      WorkItem item{none, 0, 0};
      while (next(item.task)) {
        const StripView s = forward_view<Cell, extent>(a, item.task, lane_id());
        if (s.steps == 0) continue;
        item.first_chunk = chunk;
        item.chunks = (s.steps - begin_of<banded>(s) + block_steps - 1) / block_steps;
        chunk += item.chunks;
        break;
      }
      pipeline().announce(count++, item);
      return item;
    };
    for (WorkItem item = announce(); item.task != none;) {
      const WorkItem after = announce();
      const StripView s = forward_view<Cell, extent>(a, item.task, lane_id());
      Source source;
      source.ring = ring(), source.pipeline = &pipeline();
      source.next_chunk = item.first_chunk;
      source.shift = source.next_chunk * chunk_columns - begin_of<banded>(s);
      source.begin(a, s);
      Sweep<Cell, Source, banded> sweep(a, s, source);
      sweep.run(reinterpret_cast<typename Cell::Z *>(tops()));
      pipeline().leave(source.next_chunk - 1);
      finish<Cell, false, extent>(a, s, source, sweep.corner);
      item = after;
    }
  }

  // Producer warp `number`. It has 8 lanes of the strip, four threads each.
  template <class Producer>
  __device__ __forceinline__ void produce(int number) const {
    const int strip_lane = number * 8 + lane_id() / 4;
    // How many chunks producers may be ahead of the sweep. Lower lanes read the columns of a chunk up to 31 steps
    // later, that is in the two blocks of steps after the chunk's own, too.
    const int ahead = columns() / chunk_columns - 2;
    int count = 0, chunks = 0;
    for (WorkItem item = pipeline().receive(count); item.task != none; item = pipeline().receive(++count)) {
      const StripView s = forward_view<Cell, extent>(a, item.task, strip_lane);
      const int begin = begin_of<banded>(s);
      Producer producer(a, s, strip_lane, ring(), scratch(), item.first_chunk * chunk_columns - begin, chunks);
      for (int i = 0; i < item.chunks; i++) {
        const int first = begin + i * chunk_columns;
        pipeline().wait_swept(item.first_chunk + i - ahead);
        const bool outside = first >= producer.end();
        if (i == 0 || outside)
          producer.put_outside(outside ? first : first - producer.lane(), outside ? first + chunk_columns : first);
        if (!outside) producer.produce(first, first + chunk_columns);
        pipeline().fill(item.first_chunk + i);
      }
    }
  }
};

// DoubleCell has pairs of float32 series that are not given costs for itself where LongCell does not fit.
template <class Source, bool primary>
constexpr Room rooms_of_forward = std::is_same_v<Source, DirectCosts> && !primary ? room_of_64 : rooms_of<Source>;

// primary: this is the engine that runs first and takes all pairs that it can; the other kernel, of LongCell, or of
// DoubleCell where that does not fit, computes the rest. warp_fallback: warps run the other engines for their tasks, a
// primary kernel's (has_warp_fallback) when they have no more tasks. extent: what pairs it has.
// The next kernel is let in at once where pairs have one strip or this kernel is not primary, and else when the tasks
// have run out.
template <class Cell, class Source, bool warp_fallback, bool primary, Extent extent>
__global__ void __launch_bounds__(Source::warps *warp, Source::resident)
    forward_kernel(const __grid_constant__ Args a) {
  if constexpr (!is_compiled_for<extent, rooms_of_forward<Source, primary>>) {
    __trap();
  } else {
    unsigned char *const shared = ptx::shared_memory();
    if (!primary || !is_several<extent> || a.strips == 1) let_next_kernel_in();
    wait_for_kernel_before();
    if (!primary && a.control->any_double != 1) return;
    const int64_t tasks = forward_tasks(a);
    const int64_t own_turn = static_cast<int64_t>(blockIdx.x) * warps_of_block<Source>() + threadIdx.x / warp;
    int64_t turn = own_turn;
    const auto next = [&](int64_t &task) {
      if constexpr (warp_fallback &&
                    primary) {  // no task waits for another, so warps take fixed turns without a ticket
        task = turn < tasks ? turn : -1;
        turn += static_cast<int64_t>(gridDim.x) * warps_of_block<Source>();
      } else if (!primary && a.strips > 1 && !has_bounds(a)) {
        task = next_task_after_reset(a, tasks);
      } else {
        task = take_ticket(&a.control->ticket[Cell::wide || !primary], tasks);
      }
      if (task < 0) {
        let_next_kernel_in();
        return false;
      }
      if (primary && order_of(a, task) == 0) finish_trivial_pairs(a, task, lane_id());
      return true;
    };
    if constexpr (Source::cooperative) {
      Together<Cell, Source, extent>{a, shared}.run(next);
    } else {
      unsigned char *memory = shared + threadIdx.x / warp * (tops_bytes + Source::bytes(a));
      int64_t task;
      bool others = false;  // whether any of the warp's tasks needs another engine
      while (next(task)) {
        others |= sweep_by_itself<Cell, Source, warp_fallback, extent>(a, task, memory);
        if constexpr (warp_fallback && !primary) sweep_seldom<DoubleCell, DirectCosts, extent>(a, task, memory);
      }
      if constexpr (warp_fallback && primary)
        if (others)
          for (turn = own_turn; next(task);) {
            sweep_seldom<LongCell, typename LargeOf<Source>::type, extent>(a, task, memory);
            sweep_seldom<DoubleCell, DirectCosts, extent>(a, task, memory);
          }
    }
  }
}

// The second kernel where bounds are known: LongCell's pairs, and then DoubleCell's. Both in one save a launch.
template <class Source, Extent extent>
__global__ void __launch_bounds__(Source::warps *warp, Source::resident)
    forward_rest_kernel(const __grid_constant__ Args a) {
  if constexpr (!is_compiled_for<extent, rooms_of<Source>>) {
    __trap();
  } else {
    unsigned char *const shared = ptx::shared_memory();
    let_next_kernel_in();
    wait_for_kernel_before();
    const bool any_long = a.control->any_long == 1, any_double = a.control->any_double == 1;
    const auto tasks_of = [&](int engine) {
      return [&a, tickets = &a.control->ticket[engine]](int64_t &task) {
        return (task = take_ticket(tickets, forward_tasks(a))) >= 0;
      };
    };
    if (any_long) {
      const Together<LongCell, Source, extent> together{a, shared};
      together.run(tasks_of(2));
      together.retire();
    }
    if (any_double) Together<DoubleCell, DifferenceCosts, extent>{a, shared}.run(tasks_of(1));
  }
}

}  // namespace sdtw::cuda
