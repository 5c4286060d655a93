// The forward kernel: values of all pairs, and rows and checkpoints for backward. A warp takes a task (a strip of a
// pair, or several short pairs side by side) and sweeps it. Where the source of costs is cooperative (many features),
// four producer warps of the same block compute costs for the one that sweeps.
//
// Invariant: tasks are taken by an atomic ticket in an order in which a strip waits only for tasks with earlier
// tickets, which are running or done; so blocks do not deadlock, however many are resident.
// Trade-off: for float32 the float engine takes all pairs that it can, and a second kernel of the double engine
// computes the rest (Control::any_double). Where there are several strips, that kernel first resets the rows of these
// pairs.
// Not used where float32 pairs have one strip and up to four features (has_warp_fallback): tickets and the second
// kernel. There the warp itself runs the double engine.
#pragma once

#include "cuda/costs/sources.cuh"
#include "cuda/pipeline/place.cuh"
#include "cuda/sweep/forward_sweep.cuh"
#include "cuda/sweep/midline.cuh"

namespace sdtw::cuda {

// A pair's value, -log2(Z) / scale.
template <class Cell>
__device__ __forceinline__ double value_of(const Args &a, const ExtendedDouble &z, Status &status) {
  if (z.m != z.m) {
    status = status_not_a_number;
    return __longlong_as_double(0x7ff8000000000000ll);
  }
  if (Cell::wide && !(z.e > -core::Exponent<double>::limit)) {
    status = status_unreachable;
    return __longlong_as_double(0x7ff0000000000000ll);
  }
  status = status_finite;
  return -(z.e + log2(z.m)) / a.scale;
}

// For the pairs whose first strip the task is: stores the values of pairs without cells, and tells whether another
// engine is needed for a pair whose bounds are known.
__device__ __forceinline__ void finish_trivial_pairs(const Args &a, int64_t task, int lane) {
  const Pair pair = pair_of(a, task, lane);
  const bool exists = a.lanes == warp || task * (warp >> a.lane_bits) + (lane >> a.lane_bits) < a.batch;
  if (!exists || (lane & (a.lanes - 1)) != 0) return;
  if (pair.lengths == LengthCase::regular) {
    if (!has_bounds(a)) return;
    const Engine engine = engine_of(a, pair);
    if (engine == Engine::of_double) a.control->any_double = 1;
    if (engine == Engine::of_long) a.control->any_long = 1;
    return;
  }
  const long long inf = 0x7ff0000000000000ll, nan = 0x7ff8000000000000ll;
  const bool invalid = pair.lengths == LengthCase::invalid;
  const double value = pair.lengths == LengthCase::empty ? 0 : __longlong_as_double(invalid ? nan : inf);
  store(a.value, pair.index, a.f64, value);
  a.status[pair.index] = invalid ? status_not_a_number : status_unreachable;
}

// Stores value and status of a pair. Called by one thread.
template <class Cell>
__device__ __forceinline__ void finish_pair(const Args &a, const Pair &pair, const ExtendedDouble &z) {
  Status status;
  const double value = value_of<Cell>(a, z, status);
  a.status[pair.index] = status;
  store(a.value, pair.index, a.f64, value);
}

// Z of a pair of several strips, summed along the midline between its two sweeps. Called by the warp that has just
// swept the pair's last strip in the order of tickets: the strip on the other side of the middle has an earlier ticket,
// so the warp may wait for its row. Lanes take columns in turn, and of each lane several columns are loaded before any
// is used. Not inlined: it is needed once for a pair.
template <class Cell>
__device__ __noinline__ ExtendedDouble join(const Args &a, const Pair &pair, int strip, bool reversed) {
  constexpr int at_once = Cell::wide ? 2 : 8, of_column = 3;  // columns of a lane; cells of a column: see Step
  const int words = Cell::words(a.format);
  const MidlineRows rows(a, pair, strip, reversed, words);
  __syncwarp();
  ExtendedDouble sum = nothing();
  for (int first = lane_id(); first < pair.m; first += at_once * warp) {
    const Word *from[at_once][of_column];
    Word word[at_once][of_column][2];
#pragma unroll
    for (int i = 0; i < at_once; i++) {
      const int column = min(first + i * warp, pair.m - 1);
      from[i][0] = rows.own + static_cast<int64_t>(column) * words;
      from[i][1] = rows.other + static_cast<int64_t>(pair.m - 1 - column) * words;
      from[i][2] = rows.other + static_cast<int64_t>(max(pair.m - 2 - column, 0)) * words;
#pragma unroll
      for (int of = 0; of < of_column; of++)
#pragma unroll
        for (int w = 0; w < 2; w++) word[i][of][w] = w < words ? load_relaxed(from[i][of] + w) : 0;
    }
#pragma unroll
    for (int i = 0; i < at_once; i++) {
      typename Cell::Z z[of_column];
#pragma unroll
      for (int of = 0; of < of_column; of++) {
#pragma unroll
        for (int w = 0; w < 2; w++)
          if (w < words && word[i][of][w] == ~Word(0)) word[i][of][w] = wait_for(from[i][of] + w);
        z[of] = Cell::unpack(word[i][of][0], word[i][of][1], a.format);
      }
      const int column = first + i * warp;
      if (column + 1 >= pair.m) z[2] = Cell::forbidden();
      if (column < pair.m) sum = sum_of(sum, Step<Cell>{z[0], z[1], z[2]}.product());
    }
  }
  return sum_of_warp(sum);
}

// After the sweep of a task, in any engine: rejects pairs that the float engine cannot compute, and stores the values
// of pairs that are complete. Returns whether the calling warp itself has to run another engine for the task, which is
// so for warp_fallback only; else a second kernel looks after rejected pairs.
template <class Cell, bool warp_fallback, bool several, class Source>
__device__ __forceinline__ bool finish(const Args &a, const StripView &s, const Source &source,
                                       const typename Cell::Z &corner) {
  bool exceeded = false;
  if constexpr (std::is_same_v<Cell, FloatCell> && !Source::cooperative) {
    const int met = source.bound(a, s), bound = core::is_thin(s.pair.n, s.pair.m) ? rejected : met;
    exceeded = !(__int_as_float(bound) <= float_limit(a, s.pair));
    if (s.active && s.lane == 0) {
      if (warp_fallback)
        a.bounds[bounds_per_pair * s.pair.index] = exceeded ? bound : accepted;
      else if (exceeded)
        reject_pair(a, s.pair.index, bound);
    }
  }
  if constexpr (several)
    if (s.joins) {
      const ExtendedDouble z = join<Cell>(a, s.pair, s.strip, s.reversed);
      if (lane_id() == 0) finish_pair<Cell>(a, s.pair, z);
      return false;
    }
  if (s.active && s.is_end()) finish_pair<Cell>(a, s.pair, {static_cast<double>(corner.m), Cell::exponent(corner)});
  return warp_fallback && __any_sync(all_lanes, s.active && exceeded);
}

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

template <class Cell, bool several>
__device__ __forceinline__ StripView forward_view(const Args &a, int64_t task, int lane) {
  return make_strip_view<inwards, several>(a, task, lane, [&](const Pair &pair) { return is_wanted<Cell>(a, pair); });
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
template <class Source>
size_t forward_bytes(const Args &a) {
  if constexpr (Source::cooperative)
    return pipeline_bytes + tops_bytes + Source::ring_bytes(forward_columns<Source>(a)) + Source::scratch_bytes(a);
  else
    return Source::warps * (tops_bytes + Source::bytes(a));
}

// The sweep of a task by a warp that has its costs without producers. Returns whether the warp has to run the double
// engine for the task: see finish.
template <class Cell, class Source, bool warp_fallback, bool several>
__device__ __forceinline__ bool sweep_by_itself(const Args &a, int64_t task, unsigned char *memory) {
  const StripView s = forward_view<Cell, several>(a, task, lane_id());
  if (s.steps == 0) return false;
  auto *tops = reinterpret_cast<typename Cell::Z *>(memory);
  Source source;
  source.begin(a, s, memory + tops_bytes);
  Sweep<Cell, Source> sweep(a, s, source);
  sweep.run(tops);
  return finish<Cell, warp_fallback, several>(a, s, source, sweep.corner);
}
// Another engine's sweep of a task, by the same warp. Not inlined: it is needed seldom, and would take registers.
template <class Cell, class Source, bool several>
__device__ __noinline__ void sweep_seldom(const Args &a, int64_t task, unsigned char *memory) {
  sweep_by_itself<Cell, Source, false, several>(a, task, memory);
}

// A block of one sweeping warp and four producers. The sweeping warp announces the next task before it sweeps its own,
// and producers work ahead of it, also into that next task, as far as the ring of costs has room. Chunks of 16 columns
// are numbered through over all tasks of the block.
template <class Cell, class Source, bool several>
struct Together {
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
        const int steps = forward_view<Cell, several>(a, item.task, lane_id()).steps;
        if (steps == 0) continue;
        item.first_chunk = chunk;
        item.chunks = (steps + block_steps - 1) / block_steps;
        chunk += item.chunks;
        break;
      }
      pipeline().announce(count++, item);
      return item;
    };
    for (WorkItem item = announce(); item.task != none;) {
      const WorkItem after = announce();
      const StripView s = forward_view<Cell, several>(a, item.task, lane_id());
      Source source;
      source.ring = ring(), source.pipeline = &pipeline();
      source.next_chunk = item.first_chunk;
      source.shift = source.next_chunk * chunk_columns;
      source.begin(a, s);
      Sweep<Cell, Source> sweep(a, s, source);
      sweep.run(reinterpret_cast<typename Cell::Z *>(tops()));
      pipeline().leave(source.next_chunk - 1);
      finish<Cell, false, several>(a, s, source, sweep.corner);
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
      const StripView s = forward_view<Cell, several>(a, item.task, strip_lane);
      Producer producer(a, s, strip_lane, ring(), scratch(), item.first_chunk * chunk_columns, chunks);
      for (int i = 0; i < item.chunks; i++) {
        const int first = i * chunk_columns;
        pipeline().wait_swept(item.first_chunk + i - ahead);
        const bool outside = first >= producer.end();
        if (i == 0 || outside)
          producer.put_outside(outside ? first : -producer.lane(), outside ? first + chunk_columns : 0);
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
// primary kernel's (has_warp_fallback) when they have no more tasks. several: see make_strip_view.
// The next kernel is let in at once where pairs have one strip or this kernel is not primary, and else when the tasks
// have run out.
template <class Cell, class Source, bool warp_fallback, bool primary, bool several>
__global__ void __launch_bounds__(Source::warps *warp, Source::resident)
    forward_kernel(const __grid_constant__ Args a) {
  if constexpr (!is_compiled<rooms_of_forward<Source, primary>>) {
    __trap();
  } else {
    unsigned char *const shared = ptx::shared_memory();
    if (!primary || !several || a.strips == 1) let_next_kernel_in();
    wait_for_kernel_before();
    if (!primary && a.control->any_double != 1) return;
    const int64_t tasks = forward_tasks(a);
    const int64_t own_turn = static_cast<int64_t>(blockIdx.x) * Source::warps + threadIdx.x / warp;
    int64_t turn = own_turn;
    const auto next = [&](int64_t &task) {
      if constexpr (warp_fallback &&
                    primary) {  // no task waits for another, so warps take fixed turns without a ticket
        task = turn < tasks ? turn : -1;
        turn += static_cast<int64_t>(gridDim.x) * Source::warps;
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
      Together<Cell, Source, several>{a, shared}.run(next);
    } else {
      unsigned char *memory = shared + threadIdx.x / warp * (tops_bytes + Source::bytes(a));
      int64_t task;
      bool others = false;  // whether any of the warp's tasks needs another engine
      while (next(task)) {
        others |= sweep_by_itself<Cell, Source, warp_fallback, several>(a, task, memory);
        if constexpr (warp_fallback && !primary) sweep_seldom<DoubleCell, DirectCosts, several>(a, task, memory);
      }
      if constexpr (warp_fallback && primary)
        if (others)
          for (turn = own_turn; next(task);) {
            sweep_seldom<LongCell, typename LargeOf<Source>::type, several>(a, task, memory);
            sweep_seldom<DoubleCell, DirectCosts, several>(a, task, memory);
          }
    }
  }
}

// The second kernel where bounds are known: LongCell's pairs, and then DoubleCell's. Both in one save a launch.
template <class Source, bool several>
__global__ void __launch_bounds__(Source::warps *warp, Source::resident)
    forward_rest_kernel(const __grid_constant__ Args a) {
  if constexpr (!is_compiled<rooms_of<Source>>) {
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
      const Together<LongCell, Source, several> together{a, shared};
      together.run(tasks_of(2));
      together.retire();
    }
    if (any_double) Together<DoubleCell, DifferenceCosts, several>{a, shared}.run(tasks_of(1));
  }
}

}  // namespace sdtw::cuda
