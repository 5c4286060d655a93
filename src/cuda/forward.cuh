// Forward: a warp takes a task and sweeps it. Where costs take matrix instructions, four other warps of its block
// compute them, a block of steps ahead.
#pragma once

#include "given_costs.cuh"
#include "inline_costs.cuh"
#include "strip.cuh"
#include "tile_costs.cuh"

namespace sdtw::cuda {

constexpr size_t tops_bytes = 2 * block_steps * 16;  // of the row above, in shared memory: of the largest Z

// The row above a strip, which the strip above is still writing: a block of columns is asked for while the block before
// is swept, and waited for word by word.
template <class Cell>
struct RowAbove {
  using Z = typename Cell::Z;
  static constexpr int slots = 2 * block_steps;

  Z *ring;
  const Word *words;
  Format format;
  int columns;
  bool there;
  Word ahead[2];

  __device__ __forceinline__ void begin(const Args &a, const View &s, Z *to) {
    ring = to;
    there = !s.first && s.active;
    columns = s.pair.m, format = a.format;
    __syncwarp();
    ring[lane_id() % slots] = Cell::forbidden();
    __syncwarp();
    if (!there) return;
    words = row_above(a, s);
    ask(0);
  }
  __device__ __forceinline__ bool has(int column) const { return there && lane_id() < block_steps && column < columns; }
  __device__ __forceinline__ int words_each() const { return format == two_words ? 2 : 1; }
  __device__ __forceinline__ void ask(int first) {
    const int column = first + lane_id();
    if (!has(column)) return;
    const Word *from = words + static_cast<int64_t>(column) * words_each();
    ahead[0] = load_relaxed(from);
    if (format == two_words) ahead[1] = load_relaxed(from + 1);
  }
  __device__ __forceinline__ bool missing() const {
    return ahead[0] == ~Word(0) || (format == two_words && ahead[1] == ~Word(0));
  }
  // In the middle of the block before: what has come already, or rubbish.
  __device__ __forceinline__ void stage(int first) {
    if (has(first + lane_id())) ring[(first + lane_id()) % slots] = Cell::unpack(ahead[0], ahead[1], format);
  }
  __device__ __forceinline__ void enter(int first) {
    if (!there) return;
    const int column = first + lane_id();
    if (has(column) && (first == 0 || missing())) {
      const Word *from = words + static_cast<int64_t>(column) * words_each();
      ahead[0] = wait_for(from);
      if (format == two_words) ahead[1] = wait_for(from + 1);
      stage(first);
    }
    __syncwarp();
    ask(first + block_steps);
  }
  // The cells of a block.
  __device__ __forceinline__ const Z *block(int first) const { return ring + first % slots; }
};

// One warp's sweep of a task.
template <class Cell, class Source>
struct Sweep {
  using Z = typename Cell::Z;

  const Args &a;
  const View &s;
  Source &source;
  RowAbove<Cell> above;
  Strip<Cell> strip;
  Format format;
  Z corner;     // the cell that has the pair's value, in the lane that met it
  Word *below;  // the strip's last row, for the next strip; null if nobody reads it

  __device__ __forceinline__ Sweep(const Args &args, const View &view, Source &costs)
      : a(args), s(view), source(costs), format(args.format) {}

  // Where the steps of a block read and write.
  struct Block {
    const Z *tops;
    Word *below;  // where the strip's last row goes
    int from;     // step of the block from which on that row has columns; beyond the block if nobody reads it
  };
  __device__ __forceinline__ Block begin_block(int first) {
    source.seek(first);
    const int column = first - s.end_lane;  // of the last row in the block's first step
    return {above.block(first), below + static_cast<int64_t>(column) * a.words, below ? max(-column, 0) : block_steps};
  }
  __device__ __forceinline__ void hand_on(Word *to, int i) const { Cell::store(to, i, format, strip.z[K - 1]); }

  __device__ __forceinline__ void run(Z *tops) {
    above.begin(a, s, tops);
    strip.start(s);
    corner = Cell::forbidden();
    below = s.active && !s.last && lane_id() == s.end_lane ? row_below(a, s) : nullptr;
    constexpr bool saves = !std::is_same_v<Cell, Exact>;
    Word *save_to = saves && a.saved && s.active && !s.reversed ? checkpoint(a, s, 0) : nullptr;
    int next_save = save_to ? a.interval : 0;
    for (int first = 0; first < s.steps; first += block_steps) {
      source.enter(first);
      above.enter(first);
      if constexpr (saves)
        if (first > 0 && first == next_save) {
          strip.save(save_to, format);
          save_to += (K + 1) * warp * a.words;
          next_save += a.interval;
        }
      const bool begins = s.reversed && s.first && first == 0, ends = s.end > first && s.end <= first + block_steps;
      if (__any_sync(all_lanes, begins || ends))
        outer_block(first, begins);
      else
        whole_block(first);
    }
  }

  // Costs are computed a step ahead: they do not depend on the cells, and fill the time that those wait for each other.
  // Where producers run beside the sweep, their code and all steps of a block do not fit the instruction cache.
  __device__ __forceinline__ void whole_block(int first) {
    constexpr int unrolled = Source::cooperative ? 4 : block_steps;
    const Block b = begin_block(first);
    typename Cell::Cost cost[K];
    Z top = load_now(b.tops);
    source.costs(0, cost);
#pragma unroll 1
    for (int begin = 0; begin < block_steps; begin += unrolled) {
      const Z *tops = b.tops + begin;
      Word *to = b.below + begin * a.words;
#pragma unroll
      for (int i = 0; i < unrolled; i++) {
        typename Cell::Cost ahead[K];
        Z top_ahead;
        const int u = begin + i;
        const bool is_last = i == unrolled - 1 && u == block_steps - 1;
        strip.step(cost, top, [&] {
          top_ahead = load_now(tops + (is_last ? i : i + 1));
          source.costs(is_last ? u : u + 1, ahead);
        });
        if (u >= b.from) hand_on(to, i);
        top = top_ahead;
#pragma unroll
        for (int k = 0; k < K; k++) cost[k] = ahead[k];
        if (u % renormalise_every == renormalise_every - 1) strip.renormalise();
        if (u + 1 == block_steps / 2) stage(first + block_steps);
      }
    }
  }
  __device__ __forceinline__ void stage(int first) {
    source.stage(first);
    above.stage(first);
  }
  // A block in which some pair ends, or paths of a reversed sweep begin.
  __device__ __forceinline__ void outer_block(int first, bool begins) {
    const Block b = begin_block(first);
    const int row = s.end_row();
#pragma unroll 1
    for (int u = 0; u < min(block_steps, s.steps - first); u++) {
      typename Cell::Cost cost[K];
      source.costs(u, cost);
      strip.step(cost, load_now(b.tops + u), [] {});
      if (begins && u == 0 && s.lane == 0) strip.begin_below(s.spare(), cost);
      if (u >= b.from) hand_on(b.below, u);
      if (u % renormalise_every == renormalise_every - 1) strip.renormalise();
#pragma unroll
      for (int k = 0; k < K; k++)
        if (first + u + 1 == s.end && k == row) corner = strip.z[k];
    }
    stage(first + block_steps);
  }
};

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

// The values of a task's pairs, to seven more digits. Not inlined: it is needed seldom, and its registers always would.
template <class Source>
__device__ __noinline__ double value_again(const Args &a, int64_t task, unsigned char *memory) {
  const View s = make_view(a, task, 0, false, lane_id(), [](const Pair &) { return true; });
  Source source;
  source.begin(a, s, memory + tops_bytes);
  Sweep<Exact, Source> sweep(a, s, source);
  sweep.run(reinterpret_cast<Exact::Z *>(memory));
  Status status;
  return value_of<Exact>(a, sweep.corner, status);
}

// After the fast engine's sweep: the value, if it can be had.
template <class Source>
__device__ __forceinline__ void finish_fast(const Args &a, const View &s, const Source &source, const Fast::Z &corner,
                                            unsigned char *memory) {
  const bool exceeded = source.exceeded(a, s);
  if (s.active && exceeded && s.lane == 0) give_back(a, s.pair.index);
  Status status;
  double value = value_of<Fast>(a, corner, status);
  const bool ends = s.active && s.is_end();
  bool cancelled = ends && !exceeded && fabs(value) < cancellation(a, s.pair);
  if constexpr (std::is_base_of_v<InlineBase, Source>)
    if (a.strips == 1 && __any_sync(all_lanes, cancelled)) {
      const double precise = value_again<Source>(a, s.task, memory);
      if (cancelled) value = precise, cancelled = false;
    }
  if (!ends) return;
  if (cancelled) {
    status = status_cancelled;
    a.control->any_wide = a.control->any_again = 1;
  }
  a.status[s.pair.index] = status;
  store(a.value, s.pair.index, a.f64, value);
}

// After any engine's sweep from the top. rewriting: a value that is computed again; its status stays for backward.
template <class Cell, class Source>
__device__ __forceinline__ void finish(const Args &a, const View &s, const Source &source,
                                       const typename Cell::Z &corner, bool rewriting, unsigned char *memory) {
  if (s.reversed) return;
  if constexpr (std::is_same_v<Cell, Fast>) {
    finish_fast(a, s, source, corner, memory);
  } else if (s.active && s.is_end()) {
    Status status;
    const double value = value_of<Cell>(a, corner, status);
    if (!rewriting) a.status[s.pair.index] = status;
    store(a.value, s.pair.index, a.f64, value);
  }
}

// What a pass of an engine computes: pairs that are its own, or values of the fast engine's that are computed again, of
// which it leaves rows in place of the fast engine's. The exact engine does that where it can, else the wide one. The
// fast engine tries all pairs whose bounds it has to find out itself: one that it gave back in between would have
// strips that others wait for.
template <class Cell>
__device__ __forceinline__ bool is_wanted(const Args &a, const Pair &pair, bool rewriting) {
  if (rewriting) return a.status[pair.index] == status_cancelled;
  return (std::is_same_v<Cell, Fast> && !has_bounds(a)) || is_mine<Cell>(a, pair);
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

// A warp on its own.
template <class Cell, class Source>
__device__ __forceinline__ void sweep_alone(const Args &a, int64_t task, bool rewriting, unsigned char *memory) {
  const View s = forward_view<Cell>(a, task, rewriting, lane_id());
  if (s.steps == 0) return;
  auto *tops = reinterpret_cast<typename Cell::Z *>(memory);
  Source source;
  source.begin(a, s, memory + tops_bytes);
  Sweep<Cell, Source> sweep(a, s, source);
  sweep.run(tops);
  finish<Cell>(a, s, source, sweep.corner, rewriting, memory);
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
  __device__ __forceinline__ void open() const {
    relay().open();
    Source::open(memory + relay_bytes + tops_bytes + Source::ring_bytes(a.cost_columns));
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
        job.chunks = Source::lead + (steps + block_steps - 1) / block_steps;
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
      source.next_chunk = job.first_chunk + Source::lead;
      source.shift = source.next_chunk * chunk_columns;
      source.begin(args, s);
      for (int lead = job.first_chunk; lead < source.next_chunk; lead++) relay().wait_full(lead), relay().leave(lead);
      Sweep<Cell, Source> sweep(args, s, source);
      sweep.run(reinterpret_cast<typename Cell::Z *>(tops()));
      relay().leave(source.next_chunk - 1);
      finish<Cell>(args, s, source, sweep.corner, job.rewriting, tops());
      job = after;
    }
  }

  template <bool quads>
  __device__ __forceinline__ void produce() const {
    const int strip_lane = (threadIdx.x / warp - 1) * 8 + lane_id() / 4;
    // The columns of a chunk are read in the two blocks of steps after its own, too.
    const int ahead = a.cost_columns / chunk_columns - 2;
    int count = 0, chunks = 0;
    for (Job job = relay().receive(count); job.task != none; job = relay().receive(++count)) {
      const View s = view(job.task, job.rewriting, strip_lane);
      typename Source::template Producer<quads> producer(a, s, strip_lane, ring(), a.cost_columns,
                                                         (job.first_chunk + Source::lead) * chunk_columns, chunks);
      for (int i = 0; i < job.chunks; i++) {
        const int first = (i - Source::lead) * chunk_columns;
        relay().wait_swept(job.first_chunk + i - ahead);
        producer.produce(first, first + chunk_columns);
        relay().fill(job.first_chunk + i);
      }
    }
  }
};

template <class Cell, class Source>
__global__ void __launch_bounds__(Source::warps *warp, Source::resident)
    forward_kernel(const __grid_constant__ Args a, const __grid_constant__ Args again) {
  extern __shared__ __align__(16) unsigned char shared[];
  constexpr bool exact = std::is_same_v<Cell, Exact>;
  const bool primary = !exact && Cell::wide == a.f64;  // the others are there for what this one cannot do
  const bool rewrites = !primary && a.control->any_again == 1 && exact == has_exact(a);
  if (!primary && (exact ? !rewrites : a.control->any_wide != 1)) return;
  // First the engine's own pairs, then those whose values are computed again.
  const int64_t own = exact ? 0 : forward_tasks(a), tasks = own + (rewrites ? again.tasks : 0);
  const auto next = [&](int64_t &task, bool &rewriting) {
    task = take_ticket(&a.control->ticket[exact ? 2 : Cell::wide], tasks);
    if (task < 0) return false;
    rewriting = task >= own;
    if (rewriting) task -= own;
    if (primary && order_of(a, task) == 0) look_after(a, task, lane_id());
    return true;
  };
  if constexpr (Source::cooperative) {
    const Together<Cell, Source> together{a, again, shared};
    if (threadIdx.x == 0) together.open();
    __syncthreads();
    if (threadIdx.x < warp)
      together.sweep(next);
    else if (Source::in_quads(a))
      together.template produce<true>();
    else
      together.template produce<false>();
  } else {
    int64_t task;
    bool rewriting;
    while (next(task, rewriting))
      sweep_alone<Cell, Source>(rewriting ? again : a, task, rewriting,
                                shared + threadIdx.x / warp * (tops_bytes + Source::bytes(a)));
  }
}

}  // namespace sdtw::cuda
