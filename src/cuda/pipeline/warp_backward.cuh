// Backward of few features by warps of which each goes through strips by itself: it recomputes a tile, sweeps E back
// through it (Cuturi and Blondel 2017, Algorithm 2) and makes gradients of it, without waiting for other warps of its
// block. Tiles are swept in parts of 16 steps. Transition probabilities of the last steps of a part are in registers
// and those of the others in shared memory, so that eight such warps fit a multiprocessor.
//
//   checkpoint            part 0            part 1
//   -> steps 0..15, cells alone -> cells with probabilities -> E and gradients back to step 16
//   -> (again) steps 0..15, cells with probabilities        -> E and gradients back to step 0
//
// Invariant: results are the same bit for bit as those of the pipeline of warps (backward_kernel.cuh), if it has tiles
// of 32 steps, but for E that counts as 0, of which the pipeline may sweep two tiles more where E has left the strip.
// Trade-off: nobody waits for other warps of the block, and nothing is handed on; but cells of the left part are
// computed once more, and each strip takes longer. So where strips are too few to fill the GPU, there is the pipeline,
// and for intervals longer than a tile, corridors and alignments.
#pragma once

#include "cuda/gradients/lane_gradients.cuh"
#include "cuda/pipeline/backward_kernel.cuh"
#include "cuda/sweep/adjoint_strip.cuh"

namespace sdtw::cuda {

template <class Source, Extent extent>
struct WarpBackward {
  static constexpr int features = Source::features;
  static constexpr bool several = is_several<extent>;
  static constexpr int most_warps = 4;  // of a block
  static constexpr int resident = 2;    // blocks of a multiprocessor
  static constexpr Room rooms = rooms_of<Source>;
  // Steps of a part; of these, those whose probabilities are in registers, for which more features leave less room.
  static constexpr int part_steps = 2 * renormalise_every, in_registers = features > 2 ? 4 : 8;
  static constexpr int in_memory = part_steps - in_registers;

  using Costs = typename InBackward<Source>::type;
  using LargeCosts = typename LargeOf<Costs>::type;
  using Gradients = LaneGradients<features>;
  using Point = typename Gradients::Point;
  using Probabilities = typename Adjoint<float>::Transitions;

  // Shared memory of a warp, in this order: E that enters and that leaves the strip in each step of a tile; the row
  // above; the cells with which a tile begins; probabilities [step][transition][32]; the window of columns; and of each
  // pair the same columns as they are given, of which the sum for grad_y takes the place when it leaves the first lane.
  static constexpr size_t entering_bytes = several ? 2 * sizeof(float) * warp : 0;
  static constexpr size_t tops_bytes = several ? sizeof(LongCell::Z) * warp : 0;
  static constexpr size_t cells_bytes = sizeof(LongCell::Z) * (K + 1) * warp;
  static constexpr size_t memory_bytes = sizeof(Rows<float>) * in_memory * transitions * warp;
  __host__ __device__ static size_t bytes_of_warp(const Args &a) {
    const size_t points = sizeof(Point) * Costs::columns_of(a) * (warp >> a.lane_bits);
    return entering_bytes + tops_bytes + cells_bytes + memory_bytes + Costs::bytes(a) + (points + 15) / 16 * 16;
  }

  const Args &a;
  unsigned char *memory;  // of the warp

  __device__ __forceinline__ float *entering() const { return reinterpret_cast<float *>(memory); }
  __device__ __forceinline__ unsigned char *tops() const { return memory + entering_bytes; }
  __device__ __forceinline__ unsigned char *cells() const { return tops() + tops_bytes; }
  __device__ __forceinline__ Rows<float> *probabilities() const {
    return reinterpret_cast<Rows<float> *>(cells() + cells_bytes);
  }
  __device__ __forceinline__ unsigned char *window() const {
    return reinterpret_cast<unsigned char *>(probabilities()) + memory_bytes;
  }
  __device__ __forceinline__ Point *points() const {
    return reinterpret_cast<Point *>(window() + Costs::bytes(a)) + (lane_id() >> a.lane_bits) * Costs::columns_of(a);
  }

  __device__ __forceinline__ void run() const {
    for (int64_t task; (task = take_ticket(&a.control->ticket[0], a.tasks)) >= 0;) {
      const StripView s = view(task);
      if (s.steps == 0) continue;
      if (__any_sync(all_lanes, s.active && engine_of(a, s.pair) == Engine::of_long))
        sweep<LongCell, LargeCosts>(s);
      else
        sweep<FloatCell, Costs>(s);
    }
    let_next_kernel_in();
  }

  __device__ __forceinline__ StripView view(int64_t task) const {
    StripView s = backward_view<FloatCell, extent, true, false>(a, task, lane_id());
    if constexpr (several) s.lane = lane_id(), s.lanes = warp;  // so that these take no registers
    s.begin = s.opens = s.closes = 0;
    return s;
  }

  // A strip, or pairs of one strip that share the warp.
  template <class Cell, class Own>
  __device__ __forceinline__ void sweep(const StripView &s) const {
    const LiveSteps live = live_steps<float, false>(a, s, true);
    Own costs;
    costs.begin(a, s, window());
    AdjointOfStrip<LongCell, false, several> back(a, s, entering());  // reads what the strip before has told by now
    Gradients gradients(a, s);
    gradients.leaving = points() + s.lanes - 1;  // where the first lane's column of step 0 is
    const int last = live.last / max_tile_steps, first = min(live.first / max_tile_steps, last);
    const bool leaves = __any_sync(all_lanes, back.leaves());
    Start<Cell> start(a, s);
    start.ask(last);
    back.ask(last);
    gradients.begin(last);
    int tile = last;
    for (;; tile--) {
      sweep_tile(s, costs, back, gradients, start, tile, tile > first);
      if (tile == first || (leaves && back.is_over(tile))) break;
      if (leaves) back.announce_exit(tile);
    }
    if (leaves) back.tell(back.first_step(tile));
    gradients.finish(tile);
  }

  // What a tile begins with, asked for while the tile to its right is swept.
  template <class Cell>
  struct Start {
    using Z = typename Cell::Z;
    const Args &a;
    const StripView &s;
    Format format;
    Z saved[K + 1], top;  // the lane's registers; the cell of the row above for the tile's step lane_id()

    __device__ __forceinline__ Start(const Args &args, const StripView &view)
        : a(args), s(view), format(format_for<Cell>(args, view)) {}
    __device__ __forceinline__ void ask(int tile) {
      const int words = Cell::words(a.format);
      if constexpr (several) {
        const int column = tile * max_tile_steps + lane_id();
        const bool there = s.active && !s.first && column < s.pair.m;
        top = there ? Cell::load(row_above(a, s, words), column, format) : Cell::forbidden();
      }
      if (tile == 0) return;
      const Word *const from = checkpoint(a, s, tile - 1, words);
#pragma unroll
      for (int k = 0; k <= K; k++) saved[k] = Cell::load(from, k * warp + lane_id(), format);
    }
    __device__ __forceinline__ void give(Strip<Cell> &strip, int tile, Z *tops) {
      strip.start(s);
      if (tile > 0) strip.restore(saved);
#ifdef SDTW_CHECKED
      if (!s.active) strip.start(s);  // of a pair that is not to be computed state has anything
#endif
      if constexpr (several) {
        Cell::renormalise(top);
        tops[lane_id()] = top;
      }
    }
  };

  // goes_on: whether the tile to the left is the next one.
  template <class Cell, class Own, class Back>
  __device__ __forceinline__ void sweep_tile(const StripView &s, Own &costs, Back &back, Gradients &gradients,
                                             Start<Cell> &start, int tile, bool goes_on) const {
    using Z = typename Cell::Z;
    const int begin = back.first_step(tile), steps = back.steps_of(tile);
    const bool has_right = steps > part_steps;
    Z *const row = reinterpret_cast<Z *>(tops()), *const kept = reinterpret_cast<Z *>(cells()) + lane_id();
    Rows<float> *const in_shared = probabilities() + lane_id();
    Point *const raw = points();

    Strip<Cell> strip;
    start.give(strip, tile, row);
    costs.window(begin, max_tile_steps, [&](int i, const float(&point)[features]) {
#pragma unroll
      for (int f = 0; f < features; f++) raw[i].v[f] = point[f];
    });
    if (goes_on) {
      start.ask(tile - 1);
      costs.look_ahead(begin - max_tile_steps, max_tile_steps);
    }
    const auto top_of = [&](int u) { return several ? load_now(row + u) : Cell::forbidden(); };
    FloatCost cost[K];
    costs_of<Cell>(costs, s, 0, cost);
    // A step of cells, step u of the tile. to: of its probabilities.
    const auto step = [&](auto with, auto pitch, int u, Rows<float> *to) {
      FloatCost ahead[K];
      strip.template step<decltype(with)::value, false, decltype(pitch)::value>(
          cost, top_of(u), [&] { costs_of<Cell>(costs, s, min(u + 1, max_tile_steps - 1), ahead); }, to);
#pragma unroll
      for (int k = 0; k < K; k++) cost[k] = ahead[k];
      if constexpr (several)
        if (u == 0 && tile == 0 && s.reversed && s.first && s.lane == 0) {
          FloatCost of_first[K];
          costs_of<Cell>(costs, s, 0, of_first);
          strip.template begin_below<false>(s.spare(), of_first, Gate(), to);
        }
    };
    constexpr std::integral_constant<int, warp> apart{};
    constexpr std::integral_constant<int, 1> together{};
    if (has_right) {
#pragma unroll
      for (int k = 0; k < K; k++) kept[k * warp] = strip.z[k];
      kept[K * warp] = strip.above;
#pragma unroll 1
      for (int from = 0; from < part_steps; from += renormalise_every) {
#pragma unroll 2
        for (int u = from; u < from + renormalise_every; u++) step(std::false_type{}, apart, u, nullptr);
        strip.renormalise();
      }
    }

    const auto joining = back.enter(tile);
    typename Back::Amount sent = 0;
    const bool ends = back.ends_in(begin, begin + steps), any_ends = __any_sync(all_lanes, ends);
    // A step of E and of gradients, from right to left. y: of the lane's column in step u, and then in step `next`, as
    // loads behind the store of what leaves would wait for it.
    Point y;
    const auto step_back = [&](int u, int next, const Probabilities &now) {
      if (any_ends) back.flow.begin(ends && begin + u + 1 == s.end ? back.row : none);
      const Rows<float> e = back.step(u, now, several ? load_now(back.entering + u) : 0.0f, sent, [] {});
      const Point ahead = raw[costs.column_of(next)];
      gradients.meet(e, y, s.lane == s.lanes - 1);
      if (s.lane == 0) gradients.leaving[u] = gradients.column;
      y = ahead;
    };
#pragma unroll 1
    for (int first = has_right ? part_steps : 0; first >= 0; first -= part_steps) {
      if (first == 0 && has_right) {
#pragma unroll
        for (int k = 0; k < K; k++) strip.z[k] = kept[k * warp];
        strip.above = kept[K * warp];
        costs_of<Cell>(costs, s, 0, cost);
      }
      Rows<float> in_lane[in_registers][transitions];
#pragma unroll 1
      for (int from = 0; from < in_memory; from += renormalise_every) {
#pragma unroll 2
        for (int u = from; u < min(from + renormalise_every, in_memory); u++)
          step(std::true_type{}, apart, first + u, in_shared + u * transitions * warp);
        if (from + renormalise_every <= in_memory) strip.renormalise();
      }
#pragma unroll
      for (int u = 0; u < in_registers; u++) step(std::true_type{}, together, first + in_memory + u, in_lane[u]);
      y = raw[costs.column_of(first + part_steps - 1)];
#pragma unroll
      for (int u = in_registers - 1; u >= 0; u--) {
        Probabilities now;
        now.template load<1>(in_lane[u]);
        step_back(first + in_memory + u, first + in_memory + u - 1, now);
      }
      Probabilities now;
      now.load(in_shared + (in_memory - 1) * transitions * warp);
#pragma unroll 2
      for (int u = in_memory - 1; u >= 0; u--) {
        const int next = max(u - 1, 0);
        Probabilities ahead;
        ahead.load(in_shared + next * transitions * warp);
        step_back(first + u, first + next, now);
        now = ahead;
      }
      gradients.keep();
    }
    back.balance(tile, joining, sent, false);
    if (!a.grad_y.data) return;
    __syncwarp();
    gradients.hand_in(begin, steps);
    gradients.report(begin);
  }
};

template <class Source, Extent extent>
__global__ void __launch_bounds__(WarpBackward<Source, extent>::most_warps *warp,
                                  WarpBackward<Source, extent>::resident)
    warp_backward_kernel(const __grid_constant__ Args a) {
  using Kernel = WarpBackward<Source, extent>;
  if constexpr (!is_compiled_for<extent, Kernel::rooms>) {
    __trap();
  } else {
    if (!is_several<extent> || a.strips == 1) let_next_kernel_in();
    wait_for_kernel_before();
    Kernel{a, ptx::shared_memory() + threadIdx.x / warp * Kernel::bytes_of_warp(a)}.run();
  }
}

}  // namespace sdtw::cuda
