// The backward kernel: a block takes strips, and goes through those tiles of each into which E flows, from right to
// left. Its warps are a pipeline (backward_pipeline.cuh): two recompute tiles in turn and leave transition
// probabilities in shared memory; the first sweeps E back through these (Cuturi and Blondel 2017, Algorithm 2); those
// of the Epilogue turn E into gradients. Four more compute costs if Source is cooperative (many features).
//
// Invariant: strips are taken by tickets in the order in which E flows, so a strip waits only for strips with earlier
// tickets; and a block does not wait for the beginning of its next strip while other blocks may wait for its own.
// Trade-off: cells are computed a second time, so that transition probabilities exist only for two tiles at a time and
// never leave shared memory.
#pragma once

#include "cuda/gradients/epilogues.cuh"
#include "cuda/pipeline/cost_tile_cache.cuh"
#include "cuda/pipeline/forward_kernel.cuh"
#include "cuda/pipeline/place.cuh"
#include "cuda/pipeline/recompute.cuh"
#include "cuda/sweep/adjoint_sweep.cuh"

namespace sdtw::cuda {

// Whether a kernel is FloatCell's for pairs whose costs are too large for a WordRing.
template <class Cell, class Source>
constexpr bool is_second = [] {
  if constexpr (std::is_same_v<Cell, FloatCell> && Source::cooperative)
    return !Source::of_words;
  else
    return false;
}();

// The view that a lane has of a strip if this kernel computes its pair. either, second: as below.
template <class Cell, Extent extent, bool either, bool second>
__device__ __forceinline__ StripView backward_view(const Args &a, int64_t task, int lane) {
  return make_strip_view<outwards, extent>(a, task, lane, [&](const Pair &pair) {
    const int status = a.status[pair.index];  // loaded here, so that it arrives while the bounds do
    const Engine engine = engine_of(a, pair);
    if (engine != own_engine<Cell> && !(either && engine == Engine::of_long)) {
      if (std::is_same_v<Cell, FloatCell>)  // which meets all pairs, and tells the kernels that follow
        (engine == Engine::of_double ? a.control->any_double : a.control->any_long) = 1;
      return false;
    }
    if constexpr (std::is_same_v<Cell, FloatCell> && !either)
      if (fits_words(a, pair) == second) {
        a.control->any_large = 1;
        return false;
      }
    return status == status_finite;  // gradients of other pairs have been set beforehand
  });
}

// The same, called.
template <class Cell, Extent extent, bool either, bool second>
__device__ __noinline__ StripView called_view(const Args &a, int64_t task, int lane) {
  return backward_view<Cell, extent, either, second>(a, task, lane);
}

template <class Cell, class Source, class Epilogue, Extent extent>
struct Backward {
  using Real = typename Cell::Real;
  static constexpr bool several = is_several<extent>, banded = extent == Extent::corridor;
  // Whether the kernel has pairs of FloatCell and of LongCell, and the engine of a strip is known when it is taken.
  static constexpr bool either = std::is_same_v<Cell, FloatCell> && !Source::cooperative;
  static constexpr bool second = is_second<Cell, Source>;
  // DirectCosts have gradients of series where DifferenceCosts have no room.
  static constexpr bool is_direct = std::is_same_v<Source, DirectCosts>;
  static constexpr Room rooms =
      is_direct && std::is_same_v<Epilogue, SparseGradients<Real>> ? room_of_64 : rooms_of<Source>;
  using Stored = std::conditional_t<either, LongCell, Cell>;  // reads what forward has left of any of them
  using Z = typename Stored::Z;
  static constexpr int producers = Source::cooperative ? producers_of_tiles : 0;
  static constexpr int first_producer = 1 + recomputers, first_reader = first_producer + producers;
  static constexpr int roles = first_reader + Epilogue::readers, threads = roles * warp;
  // Whether blocks have a warp for each scheduler, and may be two on a multiprocessor: it matters then which warps take
  // which roles. With more warps the GPU spreads them as well as this would.
  static constexpr bool mixes = Epilogue::resident > 1 && roles == schedulers;
  static constexpr int most_steps = Cell::wide ? wide_tile_steps : max_tile_steps;  // of a tile
  static constexpr int most_columns = Cell::wide ? 96 : 160;                        // of costs in the ring

  // Shared memory, in this order: the BackwardPipeline; E that enters and that leaves the strip in each step of a tile;
  // the row above of each recomputing warp; transition probabilities [step][transition][32] of two tiles, in half
  // slots, where E takes their place; the Epilogue's; the source's: the ring of costs and the producers' scratch
  // memory, or what each recomputing warp needs.
  static constexpr size_t pipeline_bytes = (sizeof(BackwardPipeline) + 15) / 16 * 16, tops_bytes = sizeof(Z) * warp;
  static constexpr size_t entering_bytes = 2 * sizeof(Real) * warp;
  __host__ __device__ static size_t transition_bytes(const Args &a) {
    return 2 * sizeof(Rows<Real>) * transitions * warp * a.tile_steps;
  }
  __host__ __device__ static size_t source_bytes(const Args &a) {
    if constexpr (Source::cooperative)
      return Source::ring_bytes(a.cost_columns) + Source::scratch_bytes(a);
    else
      return recomputers * InBackward<Source>::type::bytes(a);
  }
  __host__ __device__ static size_t shared_bytes(const Args &a) {
    return pipeline_bytes + entering_bytes + recomputers * tops_bytes + transition_bytes(a) + Epilogue::bytes(a) +
           source_bytes(a);
  }

  const Args &a;
  unsigned char *memory;

  __device__ __forceinline__ BackwardPipeline &pipeline() const {
    return *reinterpret_cast<BackwardPipeline *>(memory);
  }
  __device__ __forceinline__ Real *entering() const { return reinterpret_cast<Real *>(memory + pipeline_bytes); }
  __device__ __forceinline__ Z *tops(int reader) const {
    return reinterpret_cast<Z *>(memory + pipeline_bytes + entering_bytes + reader * tops_bytes);
  }
  __device__ __forceinline__ Rows<Real> *transitions_of() const {
    return reinterpret_cast<Rows<Real> *>(tops(recomputers));
  }
  __device__ __forceinline__ unsigned char *epilogue() const {
    return reinterpret_cast<unsigned char *>(transitions_of()) + transition_bytes(a);
  }
  __device__ __forceinline__ unsigned char *source() const { return epilogue() + Epilogue::bytes(a); }

  // All warps of a block need it, some in several places, so that inlined it is a quarter of the code. It is inlined
  // for pairs of one strip, of which most is known beforehand.
  __device__ __forceinline__ StripView view(int64_t task, int lane) const {
    if constexpr (!several) return backward_view<Cell, extent, either, second>(a, task, lane);
    StripView s = called_view<Cell, extent, either, second>(a, task, lane);
    s.task = task, s.lane = lane & (a.lanes - 1), s.lanes = a.lanes;  // so that these take no registers
    if constexpr (!banded) s.begin = s.opens = s.closes = 0;
    return s;
  }

  __device__ __forceinline__ void run() const {
    if (threadIdx.x == 0) {
      pipeline().init(roles, producers, Epilogue::readers);
      if constexpr (producers > 0) Source::init(source() + Source::ring_bytes(a.cost_columns));
    }
    __syncthreads();
    int role = threadIdx.x / warp;
    if constexpr (mixes)
      if (gridDim.x > ptx::multiprocessors()) role = role_at(place_of_warp<roles>(reinterpret_cast<int *>(entering())));
    if (role == 0)
      sweep();
    else if (role < first_producer)
      recompute(role - 1);
    else if (role >= first_reader)
      consume(role - first_reader);
    else if constexpr (producers > 0)
      Source::choose(a, [&](auto of) { produce<typename decltype(of)::type>(); });
  }

  // The role at a place (place.cuh): the recomputing warps, which take longest, have every other one.
  static __device__ __forceinline__ int role_at(int place) { return place < 2 ? 1 - place : place; }

  // Called by the whole block after `run`, so that another one may follow.
  __device__ __forceinline__ void retire() const {
    __syncthreads();
    if (threadIdx.x > 0) return;
    pipeline().retire();
    if constexpr (producers > 0) Source::retire(source() + Source::ring_bytes(a.cost_columns));
  }

  // Called by the first warp: takes the next task that has any steps, and announces it as band `count`, so that the
  // other warps get ready for it. number: of the first tile that will be swept of it.
  __device__ __forceinline__ Band next_band(int count, int number) const {
    Band band{none, 0, 0, number, false};
    constexpr int engine = second ? 3 : std::is_same_v<Cell, LongCell> ? 2 : Cell::wide;
    for (int64_t task; band.task == none && (task = take_ticket(&a.control->ticket[engine], a.tasks)) >= 0;) {
      const StripView s = view(task, lane_id());
      if (s.steps > 0) band = {task, 0, none, number, __any_sync(all_lanes, leaves_for_next(a, s)) != 0};
    }
    if (band.task == none) let_next_kernel_in();
    pipeline().announce(count, band);
    return band;
  }
  // Called by the first warp: tells the other warps where the band begins, if that is known by now. may_wait: the block
  // has nothing else to do, so it may wait for the strip before; if it waited earlier, blocks might wait for each
  // other.
  __device__ __forceinline__ void begin_band(Band &band, int count, bool may_wait) const {
    if (band.task == none || band.last != none) return;
    const LiveSteps live = live_steps<Real, banded>(a, view(band.task, lane_id()), may_wait);
    if (live.last == none) return;
    band.last = live.last >> a.tile_bits, band.first = min(live.first >> a.tile_bits, band.last);
    pipeline().begin(count, band);
  }

  // The first warp: takes strips, and sweeps E through the tiles of each.
  __device__ __forceinline__ void sweep() const {
    int count = 0;
    for (Band band = next_band(count, 0); band.task != none; count++) {
      begin_band(band, count, true);
      const StripView s = view(band.task, lane_id());
      SweepBack<Stored, Epilogue::wants_live, banded> back(a, s, pipeline(), transitions_of(), entering());
      back.ask(band.last);
      Band next;
      bool announced = false, over = false;  // the next strip is announced; E has left this one
      for (int tile = band.last; tile >= band.first; tile--) {
        const int number = number_of(band, tile);
        // The next strip is taken and announced with the last tile but one of this band, so that the other warps work
        // ahead into it; not earlier, since the strip would be missing to a block that has nothing to do.
        if (tile <= min(band.first + 1, band.last)) {
          if (!announced) next = next_band(count + 1, number + tile - band.first + 1);
          announced = true;
          begin_band(next, count + 1, false);
        }
        back.run(tile, number, over);
        if (band.open_ended && !over && back.is_over(tile)) {
          over = true;
          back.tell(back.first_step(tile));
          band.first = max(tile - (lead - 1),
                           part_of_begin<banded>(a, s));  // tiles that other warps may have begun are swept, too
        } else if (band.open_ended) {
          back.announce_exit(tile);
        }
        if constexpr (several) pipeline().publish_end(number, band.first);
      }
      if (band.open_ended && !over) back.tell(begin_of<banded>(s));
      band = next;
    }
  }

  // Recomputing warp `reader`.
  __device__ __forceinline__ void recompute(int reader) const {
    int sequence = 0;  // of the parts that this warp recomputes, over all strips
    int count = 0;     // of bands
    for (Band band = pipeline().receive(count); band.task != none; band = pipeline().receive(++count)) {
      const StripView s = view(band.task, lane_id());
      if constexpr (either)
        if (__any_sync(all_lanes, s.active && engine_of(a, s.pair) == Engine::of_long)) {
          recompute_band<LongCell, typename LargeOf<typename InBackward<Source>::type>::type>(s, band, count, reader,
                                                                                              sequence);
          continue;
        }
      recompute_band<Cell, typename InBackward<Source>::type>(s, band, count, reader, sequence);
    }
  }
  template <class Own, class Costs>
  __device__ __forceinline__ void recompute_band(const StripView &s, Band &band, int count, int reader,
                                                 int &sequence) const {
    Costs costs;
    if constexpr (Costs::cooperative) {
      costs.ring = {source(), a.cost_columns}, costs.shift = 0;
      costs.begin(a, s);
    } else {
      costs.begin(a, s, source() + reader * Costs::bytes(a));
    }
    pipeline().wait_begun(count, band);
    auto *const own_tops = reinterpret_cast<typename Own::Z *>(tops(reader));
    Recompute<Own, Costs, extent> again(a, pipeline(), s, band, own_tops, transitions_of(), costs, sequence);
    // This warp has every other tile of the block: those whose number has the parity of `reader`.
    for (int tile = band.last - ((band.number ^ reader) & 1); pipeline().template goes_on<several>(band, tile);
         tile -= recomputers)
      again.run(tile);
  }

  // A producer warp: costs of all parts that the two recomputing warps need, in the order of tiles. The warp has 8
  // lanes of the strip, four threads each.
  template <class Producer>
  __device__ __forceinline__ void produce() const {
    const int strip_lane = (threadIdx.x / warp - first_producer) * 8 + lane_id() / 4;
    CostTileCache cache(a, pipeline());
    int sequence[recomputers] = {};  // of the next part of each recomputing warp
    int count = 0, chunks = 0;       // of bands; of chunks of costs made, which the producer counts
    for (Band band = pipeline().receive(count); band.task != none; band = pipeline().receive(++count)) {
      const StripView s = view(band.task, strip_lane);
      Producer producer(a, s, strip_lane, typename Source::Ring{source(), a.cost_columns},
                        source() + Source::ring_bytes(a.cost_columns), 0, chunks);
      pipeline().wait_begun(count, band);
      for (int tile = band.last; pipeline().template goes_on<several>(band, tile); tile--) {
        const int reader = number_of(band, tile) % recomputers;
        for (int part = first_part<banded>(a, s, band, tile); part <= tile; part++) {
          cache.ensure(producer, {band.task, part, reader, reader == 0 ? sequence[0] : sequence[1]});
          sequence[0] += reader == 0, sequence[1] += reader == 1;
        }
      }
    }
  }

  // Warp `worker` of the Epilogue: reads E of each half tile from right to left, as the first warp leaves it.
  __device__ __forceinline__ void consume(int worker) const {
    int count = 0;
    for (Band band = pipeline().receive(count); band.task != none; band = pipeline().receive(++count)) {
      const StripView s = view(band.task, lane_id());
      Epilogue gradients(a, s, epilogue(), worker);
      pipeline().wait_begun(count, band);
      gradients.begin(band.last);
      gradients.with_way([&](auto way) {
        for (int tile = band.last; pipeline().template goes_on<several>(band, tile); tile--)
          for (int half = 1; half >= 0; half--) {
            const int number = number_of(band, tile);
            pipeline().wait_swept(number, half);
            gradients.consume(
                tile, half, number,
                transitions_of() + BackwardPipeline::slot_of(number, half) * (a.tile_steps / 2) * transitions * warp,
                pipeline(), way);
          }
      });
      gradients.finish(band.first);
    }
  }
};

// Three kernels may follow each other: the primary engine's; FloatCell's for pairs of costs too large for a WordRing;
// and the double engine's for a float32 problem, or, where bounds are known, LongCell's and the double engine's in one.
// Those that are not primary end at once if no pair is left to them.
template <class Cell, class Source, class Epilogue, Extent extent>
__global__ void __launch_bounds__(Backward<Cell, Source, Epilogue, extent>::threads, Epilogue::resident)
    backward_kernel(const __grid_constant__ Args a) {
  if constexpr (!is_compiled_for<extent, Backward<Cell, Source, Epilogue, extent>::rooms>) {
    __trap();
  } else {
    unsigned char *const shared = ptx::shared_memory();
    constexpr bool second = is_second<Cell, Source>;
    const bool primary = Cell::wide == a.f64 && !second;
    if (!primary || !is_several<extent> || a.strips == 1) let_next_kernel_in();
    wait_for_kernel_before();
    if (!primary && (second ? a.control->any_large : a.control->any_double) != 1) return;
    Backward<Cell, Source, Epilogue, extent>{a, shared}.run();
  }
}

// Long, Wide: the Backward of LongCell and of DoubleCell, each with its own sizes of tiles.
template <class Long, class Wide>
__global__ void __launch_bounds__(Long::threads, 1)
    backward_rest_kernel(const __grid_constant__ Args of_long, const __grid_constant__ Args of_wide) {
  static_assert(Long::threads == Wide::threads);
  if constexpr (!is_compiled_for < Long::banded ? Extent::corridor : Extent::strips, Long::rooms >) {
    __trap();
  } else {
    unsigned char *const shared = ptx::shared_memory();
    let_next_kernel_in();
    wait_for_kernel_before();
    const bool any_long = of_long.control->any_long == 1, any_double = of_wide.control->any_double == 1;
    if (any_long) {
      const Long together{of_long, shared};
      together.run();
      together.retire();
    }
    if (any_double) Wide{of_wide, shared}.run();
  }
}

}  // namespace sdtw::cuda
