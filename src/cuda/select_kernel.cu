// Selects the kernels of a call, and passes what was chosen to those who launch it. `choose` picks, for the plan, the
// source of costs that suits the problem and fits the GPU's shared memory, and the tile size.
// Invariant: the tile size of a pipeline of warps depends on the problem's features and dtype and on the GPU, not on
// how many lanes of a warp a pair's rows take, so that gradients do not depend on the latter. Warps by themselves have
// tiles of 32 steps everywhere.
#include <algorithm>

#include "backend.h"
#include "cuda/kernels.cuh"

namespace sdtw::cuda {

namespace {

template <class Source>
bool fits_forward(const Args &a) {
  return forward_bytes<Source>(a) <= current_device().shared_memory;
}

// Whether a multiprocessor has room for two blocks of so many bytes of shared memory.
bool fits_twice(size_t bytes) {
  constexpr size_t reserved = 1024;  // bytes that the GPU itself takes of every block
  return 2 * (bytes + reserved) <= current_device().shared_memory_of_multiprocessor;
}
template <class Source>
bool fits_twice(const Args &a) {
  return fits_twice(forward_bytes<Source>(a));
}

// InlineCosts of so many features.
Source inline_source(int features) {
  if (features > 4) return features > 6 ? Source::inline_eight : Source::inline_six;
  return static_cast<Source>(static_cast<int>(Source::inline_one) + features - 1);
}

// The source of costs for forward.
template <class Cell>
Source forward_source(const Args &a) {
  if constexpr (Cell::wide)
    return a.f64 && a.costs != Costs::given && fits_forward<DifferenceCosts>(a) ? Source::differences : Source::direct;
  if (a.costs == Costs::given) return Source::given;
  if (a.costs == Costs::inlined) return inline_source(a.features);
  if (a.banded) {
    const bool is_long = std::is_same_v<Cell, LongCell>;
    if (a.lanes == warp) return is_long ? Source::large : Source::split;
    return is_long ? Source::large_of_pairs : Source::split_of_pairs;
  }
  if constexpr (std::is_same_v<Cell, LongCell>) return a.lanes == warp ? Source::large : Source::large_of_pairs;
  if (a.units)
    return a.features > Units::at_once && a.features <= UnitsOfMany::at_once && fits_forward<UnitsOfMany>(a)
               ? Source::units_of_many
               : Source::units;
  if (a.features > most_whole_features && fits_forward<SplitPieces>(a)) return Source::split_pieces;
  if (a.lanes == warp) {
    if (a.features > Split::at_once && a.features <= most_whole_features && fits_forward<SplitOfMany>(a))
      return Source::split_of_many;
    if (forward_tasks(a) <= current_device().multiprocessors && fits_forward<SplitAlone>(a)) return Source::split_alone;
    return fits_forward<Split>(a) ? Source::split : Source::smallest;
  }
  const bool short_y = a.m <= most_packed_columns;
  if (short_y && fits_twice<PackedOfTwo>(a)) return Source::packed_of_two;
  if (short_y && fits_twice<PackedOfFour>(a)) return Source::packed_of_four;
  return fits_forward<SplitOfPairs>(a) ? Source::split_of_pairs : Source::smallest;
}

// Forward with costs in integers: x whole if it fits, and as many columns in the ring as do then. none: nothing fits.
template <class Slices>
Kernel fit_slices_as(Source source, Args a) {
  for (const bool whole : {true, false})
    for (const int columns : {64, 48}) {
      a.x_whole = whole, a.cost_columns = columns;
      if (fits_forward<Slices>(a)) return {source, 0, columns, forward_bytes<Slices>(a), whole, 0};
    }
  return {};
}
template <class Cell>
Kernel fit_slices(const Args &a) {
  if (std::is_same_v<Cell, LongCell>) return fit_slices_as<LongSlices>(Source::long_slices, a);
  const bool short_y = a.m <= most_packed_columns;
  if (a.units)
    return short_y ? fit_slices_as<UnitSlices>(Source::unit_slices, a)
                   : fit_slices_as<SplitUnitSlices>(Source::split_unit_slices, a);
  return short_y ? fit_slices_as<Slices>(Source::slices, a) : fit_slices_as<SplitSlices>(Source::split_slices, a);
}
// Sets cost_columns to the most columns of costs that shared memory has room for, whole tiles of them. The columns of a
// tile and those by which the lanes of a pair are apart must be there at once. With more columns, producer warps
// compute costs of the next tiles while a tile is recomputed.
template <class Kernel>
bool fit_columns(Args &a) {
  const int needed = std::max(a.lanes, chunk_columns) + std::max(a.tile_steps, chunk_columns);
  for (const int columns : {160, 128, 96, 80, 64, 48, 32}) {
    a.cost_columns = columns;
    if (columns >= needed && columns % a.tile_steps == 0 && columns <= Kernel::most_columns &&
        Kernel::shared_bytes(a) <= current_device().shared_memory)
      return true;
  }
  return false;
}
// Sets tile_steps to the largest number of steps, at least least_steps, for which shared memory has room with 8, 16 and
// 32 lanes for a pair alike: so results do not depend on how many lanes the padded rows take.
template <class Kernel>
bool fit_backward(Args &a, int least_steps) {
  for (a.tile_steps = Kernel::most_steps; a.tile_steps >= least_steps; a.tile_steps /= 2) {
    bool fits = fit_columns<Kernel>(a);
    for (const int bits : {3, 4, 5}) {
      Args other = a;
      other.lanes = 1 << bits, other.lane_bits = bits;
      fits = fits && fit_columns<Kernel>(other);
    }
    if (fits) return true;
  }
  return false;
}

// Steps of a tile. With tiles shorter than comfortable_steps the cells between two checkpoints are recomputed many
// times over, so a source that takes less shared memory is tried first; least_steps is the minimum.
constexpr int comfortable_steps = 8, least_steps = 2;

// The kernel that BackwardSweeps::choose gives; none if none fits. Of a corridor the sources that come first have one.
template <class Cell>
Kernel fit_any(Args a, bool large) {
  Kernel chosen{};
  const auto fits = [&](Source source, int least) {
    return visit_backward<Cell>(source, [&](auto type) {
      return visit_kernel<Cell, typename decltype(type)::type>(a, [&](auto of_kernel) {
        using Function = typename decltype(of_kernel)::type;
        if (!fit_backward<Function>(a, least)) return false;
        chosen = {source, a.tile_steps, a.cost_columns, Function::shared_bytes(a), a.x_whole, 0};
        return true;
      });
    });
  };
  [[maybe_unused]] const auto fits_with = [&](bool whole, Source source, int least) {
    a.x_whole = whole;
    return fits(source, least);
  };
  bool found;
  if constexpr (Cell::wide) {
    found = (a.costs != Costs::given && fits(Source::differences, least_steps)) || fits(Source::direct, least_steps);
  } else if constexpr (std::is_same_v<Cell, LongCell>) {
    found = a.slices ? fits_with(true, Source::long_slices, comfortable_steps) ||
                           fits_with(false, Source::long_slices, least_steps)
                     : fits(Source::large, least_steps);
  } else if (a.backward_costs != Costs::tensor) {
    found = fits(a.backward_costs == Costs::given ? Source::given : inline_source(a.features), least_steps);
  } else if (a.units && !a.slices) {
    found = !large && fits(Source::units_in_words, comfortable_steps);
  } else if (a.slices) {
    const Source source = a.units ? Source::unit_slices_in_words : large ? Source::slices : Source::slices_in_words;
    found = fits_with(true, source, comfortable_steps) || fits_with(false, source, least_steps);
  } else if (a.features > most_whole_features &&
             fits(large ? Source::packed_pieces : Source::word_pieces, comfortable_steps)) {
    found = true;
  } else if (large) {
    found = fits(Source::packed, comfortable_steps) || fits(Source::smallest, least_steps);
  } else {
    found = fits(Source::words, comfortable_steps) || fits(Source::smallest_words, least_steps);
  }
  return found ? chosen : Kernel{};
}

// Lets each warp go through strips by itself where a multiprocessor has room for two blocks of two or more such warps,
// and where strips are many: of pairs of one or two strips more than blocks of the other kind, of which two fit an
// H200's, would go through in two rounds; of longer pairs, in which strips wait for one another, a round more for each
// strip of a half. With gradients (512, 128, 128, 1) takes 84 us by blocks and 96 by warps, (1000, 128, 128, 2) 145 and
// 116; (128, 1024, 1024, 1) 0.57 ms and 0.71, (256, 1024, 1024, 1) 1.04 and 0.94.
Kernel by_warps_where_faster(const Args &a, const Kernel &chosen) {
  const Device device = current_device();
  const int64_t of_half = (a.strips + 1) / halves, few = 2 * device.multiprocessors * (of_half + 1);
  if (a.backward_costs != Costs::inlined || a.banded || a.dense.data || a.interval != max_tile_steps ||
      (a.tasks <= few && !limits.prefers_warps))
    return chosen;
  return visit_backward<FloatCell>(chosen.source, [&](auto type) {
    using Source = typename decltype(type)::type;
    if constexpr (has_warp_kernels<FloatCell, Source>)
      return visit_warp_kernel<Source>(a, [&](auto of_kernel) {
        using Own = typename decltype(of_kernel)::type;
        for (int warps = Own::most_warps; warps > 1; warps--) {
          const size_t bytes = warps * Own::bytes_of_warp(a);
          if (bytes <= device.shared_memory && fits_twice(bytes))
            return Kernel{chosen.source, max_tile_steps, 0, bytes, false, warps};
        }
        return chosen;
      });
    else
      return chosen;
  });
}

}  // namespace

template <class Cell>
bool ForwardSweeps<Cell>::fits_slices(const Args &a) {
  return std::is_same_v<Cell, FloatCell> && fit_slices<Cell>(a).source != Source::none;
}
template <class Cell>
bool ForwardSweeps<Cell>::fits_units(const Args &a) {
  return std::is_same_v<Cell, FloatCell> && fits_forward<Units>(a);
}

template <class Cell>
Kernel ForwardSweeps<Cell>::choose(const Args &a) {
  Kernel chosen{};
  if (!Cell::wide && a.slices) {
    chosen = fit_slices<Cell>(a);
  } else {
    chosen.source = forward_source<Cell>(a);
    chosen.shared_bytes =
        visit_forward<Cell>(chosen.source, [&](auto type) { return forward_bytes<typename decltype(type)::type>(a); });
  }
  if (std::is_same_v<Cell, LongCell> && has_bounds(a))  // beside DoubleCell, in one kernel
    chosen.shared_bytes = std::max(chosen.shared_bytes, forward_bytes<DifferenceCosts>(a));
  const size_t bytes = chosen.source == Source::none ? current_device().shared_memory + 1 : chosen.shared_bytes;
  if (bytes > current_device().shared_memory) fail_for_memory(bytes);
  return chosen;
}
template <class Cell>
void ForwardSweeps<Cell>::launch(const Args &given, const Kernel &chosen, cudaStream_t stream) {
  Args a = given;
  a.cost_columns = chosen.cost_columns, a.x_whole = chosen.x_whole;
  visit_forward<Cell>(chosen.source, [&](auto type) {
    ForwardKernels<Cell, typename decltype(type)::type>::launch(a, chosen, stream);
  });
}

template <class Cell>
Kernel BackwardSweeps<Cell>::choose(const Args &a, bool large) {
  const Kernel chosen = fit_any<Cell>(a, large);
  if (chosen.source == Source::none) fail_for_memory(current_device().shared_memory + 1);
  return std::is_same_v<Cell, FloatCell> ? by_warps_where_faster(a, chosen) : chosen;
}
namespace {

// Whether kernels of gradients fit, and those of alignments, so that forward may be followed by either. Of unit points
// there is none for large costs.
template <class Cell>
bool fits_all(Args a) {
  int alignment = 0;  // any address
  bool fits = std::is_same_v<Cell, FloatCell>;
  for (void *dense : {static_cast<void *>(nullptr), static_cast<void *>(&alignment)}) {
    a.dense.data = dense;
    fits = fits && fit_any<Cell>(a, false).source != Source::none;
    fits = fits && (a.units || fit_any<Cell>(a, true).source != Source::none);
  }
  return fits;
}

}  // namespace

template <class Cell>
bool BackwardSweeps<Cell>::fits_slices(const Args &given) {
  Args a = given;
  a.slices = true;
  return fits_all<Cell>(a);
}
template <class Cell>
bool BackwardSweeps<Cell>::fits_units(const Args &a) {
  return fits_all<Cell>(a);
}
template <class Cell>
void BackwardSweeps<Cell>::launch(const Args &a, const Kernel &chosen, const Kernel &wide, cudaStream_t stream) {
  visit_backward<Cell>(chosen.source, [&](auto type) {
    BackwardKernels<Cell, typename decltype(type)::type>::launch(a, chosen, wide, stream);
  });
}

template struct ForwardSweeps<FloatCell>;
template struct ForwardSweeps<LongCell>;
template struct ForwardSweeps<DoubleCell>;
template struct BackwardSweeps<FloatCell>;
template struct BackwardSweeps<LongCell>;
template struct BackwardSweeps<DoubleCell>;

}  // namespace sdtw::cuda
