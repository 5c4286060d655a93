// Forward: a block takes a strip; one warp sweeps it while the others stage what it needs next.
#pragma once

#include "source.cuh"
#include "strip.cuh"

namespace sdtw::cuda {

template <class Cell, int K, class Source>
struct Forward {
  using Z = typename Cell::Z;
  using Real = typename Cell::Real;
  static constexpr int block = Source::block_steps;
  static constexpr int threads = warp * (1 + Source::helpers);

  // Shared memory: two buffers of the source's, its scratch, and two of the row above.
  __host__ static size_t shared_bytes(const Args &a) {
    return 2 * Source::bytes(block) + Source::scratch_bytes(a, block, true) + 2 * block * sizeof(Z);
  }

  const Args &a;
  const StripView &s;
  unsigned char *memory;
  int role;  // of the warp: 0 sweeps

  __device__ unsigned char *buffer(int i) const { return memory + i % 2 * Source::bytes(block); }
  __device__ Z *tops(int i) const {
    return reinterpret_cast<Z *>(memory + 2 * Source::bytes(block) + Source::scratch_bytes(a, block, true)) +
           i % 2 * block;
  }

  // By the helpers: what block i needs. The row above is waited for word by word.
  __device__ __forceinline__ void stage(int i, int blocks, int lane) const {
    const int thread = (role - 1) * warp + lane, step = i * block;
    Source::stage(a, s, step, block, buffer(i), memory + 2 * Source::bytes(block), thread, threads - warp, i > 0, i > 0,
                  i + 1 < blocks ? step + block : -1, [] { barrier(1, threads - warp); });
    if (thread < block) {
      const int column = step + thread;
      const bool wait = s.index > 0 && column < s.pair.m;
      tops(i)[thread] = wait ? Cell::wait(row_above(a, s), column, a.words) : Cell::forbidden();
    }
  }

  // By the sweeping warp.
  struct Sweep {
    Strip<Cell, K> strip;
    Source source;
    typename Cell::Scale scale;
    float limit;
    bool exceeded;
    Word *below;  // the strip's last row, for the next strip; null for the last strip
  };

  __device__ __forceinline__ void begin(Sweep &w, int lane) const {
    w.strip.start(s.index == 0 && lane == 0);
    w.source.begin(a, s, lane);
    w.limit = fast_limit(a, s.pair) / static_cast<float>(a.scale);
    w.exceeded = false;
    w.below = s.last ? nullptr : a.rows + (s.pair.index * (a.strips - 1) + s.index) * a.m * a.words;
  }

  __device__ __forceinline__ void step(Sweep &w, int i, int u, int lane) const {
    typename Cell::Cost cost[K];
    if constexpr (Source::checks) w.exceeded |= w.source.exceeds(buffer(i), u, block, lane, w.limit);
    w.source.costs(buffer(i), u, block, lane, w.scale, cost);
    w.strip.step(cost, tops(i)[u], lane);
    const int column = i * block + u - (warp - 1);
    if (w.below && lane == warp - 1 && column >= 0) Cell::store(w.below, column, a.words, w.strip.z[K - 1]);
  }

  __device__ __forceinline__ void sweep(Sweep &w, int i, int lane) const {
    const int first = i * block, steps = min(block, s.steps - first);
    if (a.saved && first > 0 && first % a.interval == 0) {
      const int64_t strip = s.pair.index * a.strips + s.index;
      const int64_t at = (strip * a.checkpoints + first / a.interval - 1) * ((K + 1) * warp);
      w.strip.save(a.saved + at * a.words, a.words, lane);
    }
#pragma unroll 4
    for (int u = 0; u < steps; u++) {
      step(w, i, u, lane);
      if (u % renormalise_every == renormalise_every - 1) w.strip.renormalise();
    }
  }

  __device__ __forceinline__ void finish(const Sweep &w, int lane) const {
    if (Source::checks && a.precomputed && __any_sync(all_lanes, w.exceeded) && lane == 0) {
      a.bounds[2 * s.pair.index] = given_back;
      a.control->any_wide = 1;
    }
    if (!s.last || lane != s.end_lane) return;
    const int row = s.pair.n - 1 - s.row - lane * K;
    Z z = w.strip.z[0];
#pragma unroll
    for (int k = 1; k < K; k++) z = select(k == row, w.strip.z[k], z);
    const double log2_z = Cell::log2(z);
    const bool reachable = Cell::reachable(z);
    const double value = reachable ? -log2_z / a.scale : __longlong_as_double(0x7ff0000000000000ll);
    Status status = z.m != z.m ? status_not_a_number : reachable ? status_finite : status_unreachable;
    if (!Cell::wide && fabs(value) < cancellation(a, s.pair)) status = status_cancelled;
    if (status == status_cancelled) a.control->any_wide = 1;
    write(value, status);
  }

  __device__ void write(double value, Status status) const {
    if (a.saved || !Cell::wide || a.status[s.pair.index] != status_cancelled) a.status[s.pair.index] = status;
    if (status == status_not_a_number) value = __longlong_as_double(0x7ff8000000000000ll);
    store(a.value, s.pair.index, a.f64, value);
  }

  __device__ __forceinline__ void run() const {
    const int lane = threadIdx.x % warp, blocks = (s.steps + block - 1) / block;
    const bool sweeping = role == 0;
    Sweep w{{}, {}, typename Cell::Scale(a.scale), 0, false, nullptr};
    if (sweeping)
      begin(w, lane);
    else
      stage(0, blocks, lane);
    __syncthreads();
    for (int i = 0; i < blocks; i++) {
      if (sweeping)
        sweep(w, i, lane);
      else if (i + 1 < blocks)
        stage(i + 1, blocks, lane);
      __syncthreads();
    }
    if (sweeping) finish(w, lane);
  }
};

// The value of a pair without cells.
__device__ inline void write_degenerate(const Args &a, const Pair &pair) {
  const long long inf = 0x7ff0000000000000ll, nan = 0x7ff8000000000000ll;
  const bool invalid = pair.kind == Kind::invalid;
  const double value = pair.kind == Kind::empty ? 0 : __longlong_as_double(invalid ? nan : inf);
  store(a.value, pair.index, a.f64, value);
  a.status[pair.index] = invalid ? status_not_a_number : status_unreachable;
}

// The warp's part in its block. A multiprocessor's four schedulers share its warps out by their number, so in blocks of
// two the first warps of all would meet in two of the schedulers: every other pair of blocks exchanges its warps.
__device__ inline int spread_role(int warps) {
  __shared__ unsigned number;
  if (threadIdx.x == 0) asm volatile("mov.u32 %0, %%warpid;" : "=r"(number));
  __syncthreads();
  const int role = threadIdx.x / warp;
  return warps == 2 && number / 4 % 2 == 1 ? 1 - role : role;
}

template <class Cell, int K, class Source>
__device__ __forceinline__ void forward_strip(const Args &a, const StripView &s, unsigned char *shared, int role) {
  Forward<Cell, K, Source>{a, s, shared, role}.run();
}

// Precise is Source with costs in float64, for the pairs that need them.
template <class Cell, int K, class Source, class Precise>
__global__ void __launch_bounds__(Forward<Cell, K, Source>::threads, Source::resident)
    forward_kernel(const __grid_constant__ Args a, const __grid_constant__ Args again) {
  extern __shared__ __align__(16) unsigned char shared[];
  const int role = spread_role(Forward<Cell, K, Source>::threads / warp);
  const bool primary = Cell::wide == a.f64;  // the other engine is there for the pairs that this one cannot do
  if (!primary && a.control->any_wide != 1) return;
  for (;;) {
    const int64_t ticket = take_ticket(&a.control->ticket[Cell::wide], a.batch * a.strips);
    if (ticket < 0) return;
    const Pair pair = read_pair(a, ticket % a.batch);
    const int strip = static_cast<int>(ticket / a.batch);
    if (pair.kind != Kind::regular) {
      if (primary && strip == 0 && threadIdx.x == 0) write_degenerate(a, pair);
      continue;
    }
    if (strip * K * warp >= pair.n) continue;
    const StripView s = strip_view<K>(pair, strip);
    if constexpr (Cell::wide) {
      if (is_mine<Cell>(a, pair))
        forward_strip<Cell, K, Source>(a, s, shared, role);
      else if (a.status[pair.index] == status_cancelled)
        forward_strip<Cell, K, Source>(again, s, shared, role);
    } else if (!a.precomputed && !is_fast(a, pair)) {
      if (threadIdx.x == 0) a.control->any_wide = 1;
    } else if (std::is_same_v<Source, Precise> || is_plain(a, pair)) {
      forward_strip<Cell, K, Source>(a, s, shared, role);
    } else {
      forward_strip<Cell, K, Precise>(a, s, shared, role);
    }
  }
}

}  // namespace sdtw::cuda
