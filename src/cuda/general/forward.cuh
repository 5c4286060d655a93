// Forward of the general engine: while the first warp of a block sweeps a tile, the others fill the next one. If
// backward is to follow, strips are swept from either end of the pair.
#pragma once

#include "cuda/general/launch_tasks.h"
#include "cuda/general/sweep.cuh"

namespace sdtw::cuda::general {

// The tiles of a strip in forward.
template <int T>
struct TilesOn {
  int tile, end;

  __device__ __forceinline__ bool over() const { return tile >= end; }
  __device__ __forceinline__ int first_step() const { return tile * T; }
  __device__ __forceinline__ void advance() { tile++; }
};

template <class Cell, bool tangents, bool small, int fill_warps, bool resident>
struct ForwardMemory {
  using Real = typename Cell::Real;
  static constexpr int T = forward_steps<Cell, small, fill_warps, resident>;
  static constexpr int planes = Cell::cost_planes + (tangents ? 1 : 0);
  static constexpr size_t tile_bytes = planes * T * pitch * sizeof(Real);
  using Costs = Fill<Cell, tangents, T, false, TilesOn<T>, fill_warps, resident>;
  using Points = typename Costs::Points;
  static constexpr int feature_slots = tangents ? 2 : 3;
  static size_t bytes(const Args &a) {
    if constexpr (resident)
      return 2 * tile_bytes + Points::bytes(a.cost_features);
    else
      return 2 * tile_bytes + Points::bytes(a.x.dtype, feature_slots, false);
  }
  static_assert(Costs::exchange_bytes <= tile_bytes, "sums are exchanged in the memory of a tile");
  static_assert(!Costs::multiplies || Products<T>::bytes <= tile_bytes, "and products");

  static __device__ __forceinline__ Planes<Cell, tangents, T> tile(unsigned char *raw, int parity) {
    Real *base = reinterpret_cast<Real *>(raw + parity * tile_bytes);
    return {base, nullptr, base + Cell::cost_planes * T * pitch};
  }
  static __device__ __forceinline__ unsigned char *staged(unsigned char *raw) { return raw + 2 * tile_bytes; }
};

// Sweeps a tile; reads the row above, which the block of the strip above may still be writing, and hands on the last:
// whoever reads a cell of it waits until its words are there.
template <class Cell, bool tangents, int T>
struct ForwardSweep {
  Sweep<Cell, tangents, T, true> sweep;
  Word *row;               // that the strip hands on; null if it does not
  int *crossings;          // of that row
  int row_first, row_end;  // its columns
  int first_segment;       // the first checkpoint is behind it
  static constexpr bool tracks = Sweep<Cell, tangents, T, true>::tracks;

  __device__ __forceinline__ ForwardSweep(const Args &a, const Task &s, const Block &block, int first_step)
      : sweep(a, s, block),
        row(s.leads() ? row_handed_on(a, s) : nullptr),
        crossings(tracks && a.crossings ? a.crossings + row_at(a, s, s.strip) : nullptr),
        row_first(block.first[K * s.end_lane() + K - 1]),
        row_end(s.handed_end<Cell>(block.end[K * s.end_lane() + K - 1])),
        first_segment(block.begin / a.interval) {
    sweep.start(first_step);
    sweep.look_above(first_step);
  }

  __device__ __forceinline__ void run(const Planes<Cell, tangents, T> &tile, int first) {
    const Args &a = sweep.a;
    const Task &s = sweep.s;
    const int end = s.last() && !s.reversed ? s.end_step() - first : -1, words = Cell::wide || tangents ? a.words : 1;
    const int last_lane = s.end_lane();
    // The last lane's first column of the next steps, in the row that it hands on, and where its cell lies.
    int place = 0;
    Word *to = row;
    const unsigned columns = row && lane_id() == last_lane ? max(row_end - row_first, 0) : 0;
    sweep.template run<false>(
        tile, first, end,
        [&](int u) {
          const int step = first + u, segment = step / a.interval;
          if (a.saved && !s.reversed && segment > first_segment && step % a.interval == 0 && step < sweep.block.steps)
            sweep.save(checkpoint_of(a, s, segment, first_segment));
          place = step - last_lane - row_first;
          to = row + static_cast<int64_t>(place) * words;
        },
        [&](int i) {
          if (static_cast<unsigned>(place + i) >= columns) return;
          Word *cell = to + i * words;
          Cell::store(cell, a.format, sweep.handed_on());
          if constexpr (tangents) store_relaxed(cell + words - 1, word_of(sweep.dot_handed_on()));
          if constexpr (tracks)
            if (crossings) crossings[place + i] = sweep.from[K - 1];
        });
  }

  // All strips above are done, with all that they may have found in their costs.
  __device__ __forceinline__ void finish() {
    int *done = sweep.a.done + sweep.s.local * sweep.a.strips + sweep.s.strip;
    if (lane_id() == 0) {
      if (sweep.s.strip > 0) wait_until(done - 1, [](int yes) { return yes != 0; });
      publish(done, 1);
    }
    __syncwarp();
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
  if (Cell::soft && !Cell::wide && core::is_slender(s.n, s.m)) {
    if (first) raise(a, s, rejected);
    return true;
  }
  return !exists(s) || !takes(a, s);
}

template <class Cell, bool tangents, class Memory>
__device__ __forceinline__ void forward_task(const Args &a, const Task &s, Block &block, unsigned char *raw, int &met) {
  constexpr int T = Memory::T;
  find_columns<Cell>(s, block);
  const int begin = block.begin / T, end = (block.steps + T - 1) / T, thread = threadIdx.x - warp;
  if (thread >= 0) {
    const typename Cell::Units units(a, limit_of<Cell>(a, s));
    typename Memory::Costs costs(a, s, block, Memory::staged(raw), Memory::feature_slots, thread,
                                 TilesOn<T>{begin, end});
    for (int tile = begin;; tile++) {  // a tile ahead of the sweep
      if (tile < end) costs.run(Memory::tile(raw, tile & 1), tile * T, thread, units);
      block.rounds.meet(met);
      if (tile >= end) break;
    }
    __pipeline_wait_prior(0);  // for what was asked for beyond the last tile: other threads may copy to the same place
    return;
  }
  ForwardSweep<Cell, tangents, T> forward(a, s, block, begin * T);
  block.rounds.meet(met);
  for (int tile = begin; tile < end; tile++) {
    forward.run(Memory::tile(raw, tile & 1), tile * T);
    block.rounds.meet(met);
  }
  if (s.reversed) return;
  forward.finish();
  const auto &sweep = forward.sweep;
  if (!s.last() || lane_id() != s.end_lane()) return;
  if constexpr (decltype(forward)::tracks)
    if (forward.crossings) forward.crossings[0] = sweep.from_corner;
  const int flags = load_acquire(a.flags + s.local);
  if (!Cell::wide && (flags & rejected)) return;
  if constexpr (!Cell::soft)
    if (Cell::lacks_digits(sweep.corner)) return raise(a, s, rejected);
  const int status = flags & not_a_number            ? status_not_a_number
                     : Cell::reachable(sweep.corner) ? status_finite
                                                     : status_unreachable;
  const double value = Cell::value(sweep.corner) - (a.row_penalty * (s.n - 1) + a.column_penalty * (s.m - 1));
  put_results(a, s, status, status == status_finite ? value / a.scale : __longlong_as_double(0x7ff0000000000000ll),
              whole_of(sweep.corner_dot));
}

// Makes the rows of pairs that have been rejected look unwritten again. These are the first tickets of a launch of the
// engine that takes such pairs; all strips wait for them.
__device__ __forceinline__ void reset_rows(const Args &a, int64_t pair) {
  if (load_acquire(a.flags + pair) & rejected) {
    const int64_t words = static_cast<int64_t>(a.strips) * a.row_columns * a.words;
    for (Word *rows : {a.rows, a.rows_below})
      if (rows && a.strips > 1)
        for (int64_t i = threadIdx.x; i < words; i += blockDim.x) store_relaxed(rows + pair * words + i, 0);
  }
  __syncthreads();
  if (threadIdx.x > 0) return;
  __threadfence();
  atomicAdd(a.rows_reset, Word(1));
}

template <class Cell, bool tangents, bool small, int fill_warps, bool resident>
__global__ void __launch_bounds__(forward_threads<fill_warps>, blocks_of<Cell, tangents, fill_warps>)
    general_forward_kernel(const __grid_constant__ Args a) {
  if constexpr (!is_compiled<forward_rooms<small>> || (resident && avoids_float64)) return __trap();
  using Memory = ForwardMemory<Cell, tangents, small, fill_warps, resident>;
  unsigned char *const raw = ptx::shared_memory();
  Block &block = ptx::shared_object<Block>();
  if (!a.primary && *a.any_double == 0) return;
  if (threadIdx.x == 0) block.rounds.barrier.init(1 + fill_warps);
  int met = 0;
  const int64_t resets = a.primary ? 0 : a.pairs;
  bool all_reset = a.primary;
  for (;;) {
    if (threadIdx.x == 0) block.ticket = static_cast<int64_t>(atomicAdd(a.ticket, Word(1)));
    __syncthreads();
    const int64_t ticket = block.ticket - resets;
    if (ticket >= a.tasks) return;
    if (ticket < 0) {
      reset_rows(a, block.ticket);
    } else {
      if (!all_reset && threadIdx.x == 0)
        wait_until(a.rows_reset, [&](Word pairs) { return pairs >= static_cast<Word>(a.pairs); });
      if (!all_reset) __syncthreads();
      all_reset = true;
      const Task s = make_task(a, ticket, a.rows_below != nullptr);
      if (!is_settled<Cell>(a, s, ticket)) forward_task<Cell, tangents, Memory>(a, s, block, raw, met);
    }
    __syncthreads();
  }
}

// The float engine keeps points in shared memory if there are more features than Feed copies at a time.
template <class Cell, bool tangents, bool small>
constexpr bool can_be_resident = Cell::soft && !Cell::wide && !tangents && !small;
template <class Cell, bool tangents, bool small>
bool Kernels<Cell, tangents, small>::may_be_resident(const Args &a) {
  return can_be_resident<Cell, tangents, small> && a.fused && a.x.dtype != SDTW_F64 && a.cost_features > at_once;
}
// Calls with the number of warps that fill a tile, and whether points are resident. Costs of many features take longer
// than sweeping them does, and those that are no products the longest. Of resident points as many warps share
// the features of a cell, whatever the number of warps: so costs have the same bits.
template <class Cell, bool tangents, bool small, class Call>
auto with_filling(const Args &a, const Call &call) {
  using Few = std::integral_constant<int, 4>;
  using Many = std::integral_constant<int, 8>;
  using Most = std::integral_constant<int, 16>;
  if constexpr (can_be_resident<Cell, tangents, small>)
    if (a.resident) return a.alone ? call(Most{}, std::true_type{}) : call(Many{}, std::true_type{});
  constexpr int few = 16;
  if constexpr (!tangents)
    if (a.products || (a.fused && a.cost_features > few)) return call(Many{}, std::false_type{});
  return call(Few{}, std::false_type{});
}
template <class Cell, bool tangents, bool small>
size_t Kernels<Cell, tangents, small>::forward_bytes(const Args &a) {
  return with_filling<Cell, tangents, small>(a, [&](auto fill_warps, auto resident) {
    return ForwardMemory<Cell, tangents, small, fill_warps.value, resident.value>::bytes(a);
  });
}
template <class Cell, bool tangents, bool small>
void Kernels<Cell, tangents, small>::forward(const Args &a, cudaStream_t stream) {
  with_filling<Cell, tangents, small>(a, [&](auto fill_warps, auto resident) {
    using Kernel = decltype(&general_forward_kernel<Cell, tangents, small, fill_warps.value, resident.value>);
    launch_tasks<Kernel, general_forward_kernel<Cell, tangents, small, fill_warps.value, resident.value>>(
        forward_bytes(a), forward_threads<fill_warps.value>, a, stream);
  });
}

}  // namespace sdtw::cuda::general
