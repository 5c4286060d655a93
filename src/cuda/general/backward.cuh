// Backward of the general engine: tiles of a strip from the last that E enters to where no E is left. It is known how E
// enters a strip (general/crossing.cuh), so strips wait for each other only to add to the gradients of y, from the
// first one down: where two have columns in common the upper one comes to them first.
//
// A tile is two halves. The warps of a block do four things to each: fill it with costs, recompute it from the
// checkpoint before, sweep E through it, make gradients of that; each in a round of its own, and all four in the same
// round of different halves. A round ends with a barrier of the block. The halves of a tile are filled and recomputed
// from the first to the second, and E goes from the second to the first:
//
//   round     0   1   2   3   4   5   6   7  ...
//   fill      a0  a1  b0  b1  c0  c1  d0  d1       a: the last tile that E enters, b: the tile before, ...
//   recompute     a0  a1  b0  b1  c0  c1  d0
//   E                     a1  a0  b1  b0  c1
//   gradients                 a1  a0  b1  b0
//
// So there are five halves at a time in shared memory: three first ones, which wait for E longer, and two second ones.
//
// Where there are several tiles between two checkpoints, the first of them that E enters has those before it recomputed
// without E, which leaves snapshots of their first states.
#pragma once

#include "cuda/general/adjoint.cuh"
#include "cuda/general/gradients.cuh"
#include "cuda/general/launch_tasks.h"

namespace sdtw::cuda::general {

// The tiles as they are taken up: `part` is recomputed, and if it is `tile` itself E is swept through it. As long as it
// is not, recomputation goes on from a checkpoint towards the tile.
struct Tiles {
  int begin, each;  // the strip's first tile; tiles between two checkpoints
  int number;       // how many there were before
  int tile, part;

  __device__ __forceinline__ Tiles(int first, int tiles, int last) : begin(first), each(tiles), number(0), tile(last) {
    part = base();
  }
  // The first tile behind the checkpoint, or the strip's first.
  __device__ __forceinline__ int base() const { return max(tile / each * each, begin); }
  __device__ __forceinline__ bool over() const { return tile < begin; }
  __device__ __forceinline__ bool is_tile() const { return tile == part; }
  __device__ __forceinline__ void advance() {
    number++;
    if (part < tile) {
      part++;
    } else {
      const bool same = tile > base();  // there is a snapshot, or the checkpoint itself
      tile--;
      part = same ? tile : base();
    }
  }
};

// Their halves in the order in which they are filled.
template <int T>
struct Halves {
  Tiles tiles;
  int half;

  __device__ __forceinline__ bool over() const { return tiles.over(); }
  __device__ __forceinline__ int first_step() const { return (2 * tiles.part + half) * T; }
  __device__ __forceinline__ void advance() {
    if (half == 1) tiles.advance();
    half ^= 1;
  }
};

template <class Cell, bool tangents, bool small>
struct BackwardMemory {
  using Real = typename Cell::Real;
  static constexpr int T = backward_steps<Cell, tangents, small>, slots = 5;
  using Costs = Fill<Cell, tangents, T, true, Halves<T>, fill_warps<tangents>>;
  using Points = GradientPoints<T, warp * gradient_warps<Cell, tangents>, tangents>;
  static constexpr int ways = tangents ? 2 * transitions : transitions;
  static constexpr int shared_planes = Cell::cost_planes > ways ? Cell::cost_planes : ways;
  static constexpr size_t plane_bytes = T * pitch * sizeof(Real);
  static_assert(Costs::exchange_bytes <= shared_planes * plane_bytes, "sums are exchanged in the memory of a tile");
  static_assert(!Costs::multiplies || Products<T>::bytes <= shared_planes * plane_bytes, "and products");

  // Of half a tile: its planes, among them the slope's for one metric only.
  static __host__ __device__ __forceinline__ size_t half_bytes(const Args &a) {
    return (shared_planes + (tangents ? 1 : 0) + (a.metric == SDTW_EUCLIDEAN ? 1 : 0)) * plane_bytes;
  }
  // Without the points of gradients.
  static __host__ __device__ __forceinline__ size_t least_bytes(const Args &a) {
    return slots * half_bytes(a) + checkpoint_bytes(a) +
           Costs::Points::bytes(a.x.dtype, a.feature_slots, a.shared_rows);
  }
  static __host__ __device__ __forceinline__ size_t checkpoint_bytes(const Args &a) {
    return (K + 1) * warp * sizeof(Word) * a.words;
  }
  static __host__ __device__ __forceinline__ size_t points_end(const Args &a) {
    return least_bytes(a) + a.staged * Points::bytes(a);
  }
  // Where x of costs is if it stays: gradients of cosine are made of normalised points.
  static __host__ __device__ __forceinline__ bool has_own_rows(const Args &a) {
    return a.shared_rows && a.metric == SDTW_COSINE;
  }
  static __host__ __device__ __forceinline__ size_t rows_at(const Args &a) {
    return has_own_rows(a) ? points_end(a) : least_bytes(a);
  }
  static size_t bytes(const Args &a) {
    return points_end(a) + (has_own_rows(a) ? a.cost_features * pitch * sizeof(float) : 0);
  }
  // Sets what depends on the room that there is. Returns whether there is enough.
  static bool fit(Args &a, size_t room) {
    const int wanted = a.dense.data ? 0 : a.features;
    // Of few features x is copied once anyway; of cosine that of products is float.
    a.shared_rows = Costs::Points::may_share && wanted > features_of_slot<T> && (a.metric != SDTW_COSINE || a.products);
    a.staged = wanted;
    a.feature_slots = 2;
    if (a.shared_rows && bytes(a) <= room) return true;
    a.shared_rows = false;
    for (int slots = a.cost_features > features_of_slot<T> ? 3 : 2; slots > 0; slots--) {
      a.feature_slots = slots;
      a.staged = wanted;
      if (bytes(a) <= room) return true;
      const size_t least = least_bytes(a);
      const int most = wanted > 0 && room > least ? static_cast<int>((room - least) / Points::bytes(a)) : 0;
      a.staged = most >= warp ? most / warp * warp : most;
      if (most > 0 && slots < 3) return true;
    }
    a.staged = std::min(wanted, 1);
    return false;
  }

  static __device__ __forceinline__ Planes<Cell, tangents, T> half(const Args &a, unsigned char *raw, int slot) {
    Real *base = reinterpret_cast<Real *>(raw + slot * half_bytes(a)), *more = base + shared_planes * T * pitch;
    return {base, more + (tangents ? T * pitch : 0), more};
  }
  static __device__ __forceinline__ unsigned char *staged(const Args &a, unsigned char *raw) {
    return raw + slots * half_bytes(a) + checkpoint_bytes(a);
  }
  static __device__ __forceinline__ Word *checkpoint(const Args &a, unsigned char *raw) {
    return reinterpret_cast<Word *>(raw + slots * half_bytes(a));
  }
};

// A strip's backward.
template <class Cell, bool tangents, bool small>
struct Backward {
  using Memory = BackwardMemory<Cell, tangents, small>;
  using Half = Planes<Cell, tangents, Memory::T>;
  static constexpr int T = Memory::T, steps = 2 * T;  // steps: of a tile
  static constexpr int fillers = warp * fill_warps<tangents>, graders = warp * gradient_warps<Cell, tangents>;
  using E = AdjointSweep<Cell, tangents, T>;
  using Z = Sweep<Cell, tangents, T, false>;

  const Args &a;
  const Task &s;
  Block &block;
  unsigned char *raw;
  int &met;  // of Rounds

  __device__ __forceinline__ int last_tile() const { return (block.steps + steps - 1) / steps - 1; }
  // The tile that E enters first; -1: none.
  __device__ __forceinline__ int entry_tile() const {
    const int entry = E(a, s).entry();
    return entry < 0 ? -1 : max(entry, block.begin) / steps;
  }
  __device__ __forceinline__ Tiles tiles() const {
    return Tiles(block.begin / steps, a.interval / steps, min(entry_tile(), last_tile()));
  }
  // Where a half lies.
  __device__ __forceinline__ Half half_of(int number, int half) const {
    return Memory::half(a, raw, half == 0 ? 2 * (number % 3) : 2 * (number % 2) + 1);
  }
  // The end of a round. Returns whether it was the last.
  __device__ __forceinline__ bool meet(int round) const {
    block.rounds.meet(met);
    return block.over[round & 1];
  }

  __device__ __forceinline__ void fill(int thread) const {
    Halves<T> halves{tiles(), 0};
    typename Memory::Costs costs(a, s, block, Memory::staged(a, raw), a.feature_slots, thread, halves,
                                 a.shared_rows ? raw + Memory::rows_at(a) : nullptr);
    const typename Cell::Units units(a, limit_of<Cell>(a, s));
    for (int round = 0;; round++) {  // one after the other until meet() says that it was the last
      if (!halves.over()) {
        costs.run(half_of(halves.tiles.number, halves.half), halves.first_step(), thread, units);
        halves.advance();
      }
      if (meet(round)) {
        __pipeline_wait_prior(0);  // as forward_task's
        return;
      }
    }
  }

  __device__ __forceinline__ Word *snapshot(int number) const {
    return a.snapshots +
           ((s.local * a.strips + s.strip) * (a.interval / steps - 1) + number) * ((K + 1) * warp) * a.words;
  }
  // Makes the sweep ready for a tile. follows: it has just gone through the tile before.
  __device__ __forceinline__ void prepare(Z &sweep, const Tiles &t, bool follows) const {
    const int base = t.base(), first = t.part * steps;
    if (t.part > base) {
      Word *saved = snapshot(t.part - base - 1);
      follows ? sweep.save(saved) : sweep.restore(saved);
    } else if (base == t.begin) {
      sweep.start(first);
    } else {
      sweep.restore_fetched(Memory::checkpoint(a, raw));
    }
    sweep.look_above(first);
  }
  // Begins to load the checkpoint that a tile begins with, if it does.
  __device__ __forceinline__ void fetch(const Z &sweep, const Tiles &t) const {
    if (t.over() || t.part > t.base() || t.part == t.begin) return;
    sweep.fetch(Memory::checkpoint(a, raw), checkpoint_of(a, s, t.part * steps / a.interval, block.begin / a.interval));
  }
  __device__ __forceinline__ void recompute() const {
    Tiles t = tiles();
    Z sweep(a, s, block);
    fetch(sweep, t);
    if (!t.over()) prepare(sweep, t, false);
    for (int round = 0;; round++) {
      if (round > 0 && !t.over()) {
        const int half = (round - 1) & 1, first = t.part * steps + half * T;
        const Half tile = half_of(t.number, half);
        const bool is_tile = t.is_tile();
        if (half == 1) t.advance(), fetch(sweep, t);
        if (is_tile)
          sweep.template run<true>(
              tile, first, cuda::none, [](int) {}, [](int) {});
        else
          sweep.template run<false>(
              tile, first, cuda::none, [](int) {}, [](int) {});
        if (half == 1 && !t.over()) prepare(sweep, t, !is_tile);
      }
      if (meet(round)) return;
    }
  }

  __device__ __forceinline__ void sweep_back() const {
    constexpr int from = 3;
    E adjoint(a, s);
    Tiles t = tiles();
    for (int round = 0;; round++) {
      bool over = t.over(), swept = false;
      unsigned live = 0;
      if (!over && round >= from) {
        const int half = (round - from) & 1 ^ 1, first = t.part * steps + half * T;
        if (t.is_tile()) {
          const int action = adjoint.enter(first);
          over = action == E::end, swept = action == E::sweep;
          if (swept) live = adjoint.run(half_of(t.number, half), first);
        }
        if (half == 0) t.advance();
        if (t.is_tile() && !t.over() && !over) adjoint.look(t.part * steps + (half ^ 1) * T);
      }
      block.live[round & 1][lane_id()] = live;
      if (lane_id() == 0) block.swept[round & 1] = swept, block.over[round & 1] = over;
      if (meet(round)) return;
    }
  }

  __device__ __forceinline__ int *graded(int strip) const { return a.graded + s.local * a.strips + strip; }
  // thread: of those that make gradients. The first half of them adds to rows, the other one to columns, which strips
  // do one after the other: the first thread of these waits for the strip above. The first thread of all tells the
  // strip below in every round, so that the sweep of E does not wait for a fence.
  __device__ __forceinline__ void grade(int thread) const {
    constexpr int from = 4, of_columns = graders / 2;
    const bool speaks = thread == 0 && !s.last() && !a.dense.data;
    const bool orders = thread == of_columns && s.strip > 0 && !a.dense.data;
    // Strips above add to no columns beyond the one in which E enters the next of them.
    const int shared = orders ? a.entrances[s.local * a.strips + s.strip - 1].last : -1;
    const bool stays = a.staged == a.features;  // x, for all tiles
    const typename Memory::Points all{raw + Memory::least_bytes(a), 0, a.staged};
    Tiles t = tiles();
    const auto bring_next = [&](int half) {
      if (stays && !a.dense.data && !t.over() && t.is_tile())
        all.bring_columns(a, s, t.part * steps + half * T, thread);
    };
    if (stays && !a.dense.data && !a.shared_rows) all.bring_rows(a, s, thread);
    bring_next(1);
    int done = 0, told = 0, above = 0;  // columns to which gradients have been added, by this strip and the one above
    for (int round = 0;; round++) {
      if (speaks && done > told) publish(graded(s.strip), told = done);
      if (round >= from && !t.over()) {
        const int half = (round - from) & 1 ^ 1, before = (round - 1) & 1, first = t.part * steps + half * T;
        const Half tile = half_of(t.number, half);
        if (block.swept[before]) {
          const int enough = s.m - max(first - (warp - 1), 0);
          if (orders && first - (warp - 1) <= shared && above < enough)
            above = wait_until(graded(s.strip - 1), [&](int columns) { return columns >= enough; });
          if (a.dense.data)
            Gradients<Cell, tangents, T>{a, s, block, tile, block.live[before], all}.put_dense(first, thread);
          else
            for (int f = 0; f < a.features; f += a.staged) {
              const typename Memory::Points points{all.memory, f, min(a.staged, a.features - f)};
              if (!stays) points.bring_rows(a, s, thread), points.bring_columns(a, s, first, thread);
              __pipeline_wait_prior(0);
              meet_at(grading, graders);  // all points are there
              const Gradients<Cell, tangents, T> gradients{a, s, block, tile, block.live[before], points};
              thread < of_columns ? gradients.add_rows(thread / warp, first)
                                  : gradients.add_columns((thread - of_columns) / warp, first);
              meet_at(grading, graders);  // and have been read
            }
          done = s.m - min(first, s.m);
        }
        if (half == 0) t.advance();
        __pipeline_wait_prior(0);
        bring_next(half ^ 1);
      }
      if (meet(round)) {
        __pipeline_wait_prior(0);
        return;
      }
    }
  }
  // All strips up to this one have made their gradients.
  __device__ __forceinline__ void tell_graded() const {
    if (s.last() || a.dense.data) return;
    if (s.strip > 0) wait_until(graded(s.strip - 1), [](int columns) { return columns == INT_MAX; });
    publish(graded(s.strip), INT_MAX);
  }

  __device__ __forceinline__ void run() const {
    const int thread = threadIdx.x;
    if (a.shared_rows) {
      using Points = GradientPoints<T, backward_threads<Cell, tangents>, tangents>;
      if (Memory::has_own_rows(a))
        Points{nullptr, 0, a.cost_features}.template bring_rows<float>(
            a.x, reinterpret_cast<float *>(raw + Memory::rows_at(a)), s, thread);
      Points{raw + Memory::least_bytes(a), 0, a.staged}.bring_rows(a, s, thread);
      __pipeline_wait_prior(0);
      __syncthreads();
    }
    if (thread < warp)
      sweep_back();
    else if (thread < 2 * warp)
      recompute();
    else if (thread < 2 * warp + fillers)
      fill(thread - 2 * warp);
    else
      grade(thread - 2 * warp - fillers);
    if (thread == 2 * warp + fillers) tell_graded();
  }
};

template <class Cell, bool tangents, bool small>
__global__ void __launch_bounds__(backward_threads<Cell, tangents>, 1)
    general_backward_kernel(const __grid_constant__ Args a) {
  if constexpr (!is_compiled<backward_rooms<small>>) return __trap();
  unsigned char *const raw = ptx::shared_memory();
  Block &block = ptx::shared_object<Block>();
  if (!a.primary && *a.any_double == 0) return;
  if (threadIdx.x == 0) block.rounds.barrier.init(backward_threads<Cell, tangents> / warp);
  int met = 0;
  for (;;) {
    if (threadIdx.x == 0) block.ticket = static_cast<int64_t>(atomicAdd(a.ticket, Word(1)));
    __syncthreads();
    const int64_t ticket = block.ticket;
    if (ticket >= a.tasks) return;
    const Task s = make_task(a, ticket, false);
    if (exists(s) && goes_back<Cell>(a, s)) {
      find_columns<Cell>(s, block);
      Backward<Cell, tangents, small>{a, s, block, raw, met}.run();
    }
    __syncthreads();
  }
}

template <class Cell, bool tangents, bool small>
bool Kernels<Cell, tangents, small>::fit_backward(Args &a, size_t room) {
  return BackwardMemory<Cell, tangents, small>::fit(a, room);
}
template <class Cell, bool tangents, bool small>
void Kernels<Cell, tangents, small>::backward(const Args &a, cudaStream_t stream) {
  if (a.strips > 1) {
    const dim3 grid(static_cast<unsigned>(std::min<int64_t>(a.pairs, INT_MAX)),
                    static_cast<unsigned>(std::min(a.strips - 1, 65535)));
    launch_kernel(false, general_entrance_kernel<Cell, tangents>, grid, entrance_threads, 0, stream, a);
  }
  using Kernel = decltype(&general_backward_kernel<Cell, tangents, small>);
  launch_tasks<Kernel, general_backward_kernel<Cell, tangents, small>>(BackwardMemory<Cell, tangents, small>::bytes(a),
                                                                       backward_threads<Cell, tangents>, a, stream);
}

}  // namespace sdtw::cuda::general
