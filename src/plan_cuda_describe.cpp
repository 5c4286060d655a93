// What sdtw_describe says of the plan of the CUDA backend.
#include <cstdarg>
#include <cstdio>

#include "backend.h"

namespace sdtw::cuda {
namespace {

const char *name_of(Source source) {
  switch (source) {
    case Source::none: return "";
    case Source::given: return "GivenCosts";
    case Source::inline_one: return "InlineCosts<1>";
    case Source::inline_two: return "InlineCosts<2>";
    case Source::inline_three: return "InlineCosts<3>";
    case Source::inline_four: return "InlineCosts<4>";
    case Source::inline_six: return "InlineCosts<6>";
    case Source::inline_eight: return "InlineCosts<8>";
    case Source::split_alone: return "SplitAlone";
    case Source::split_of_many: return "SplitOfMany";
    case Source::split: return "Split";
    case Source::split_of_pairs: return "SplitOfPairs";
    case Source::packed_of_two: return "PackedOfTwo";
    case Source::packed_of_four: return "PackedOfFour";
    case Source::words: return "Words";
    case Source::smallest_words: return "SmallestWords";
    case Source::packed: return "Packed";
    case Source::smallest: return "Smallest";
    case Source::split_pieces: return "SplitPieces";
    case Source::word_pieces: return "WordPieces";
    case Source::packed_pieces: return "PackedPieces";
    case Source::slices: return "Slices";
    case Source::split_slices: return "SplitSlices";
    case Source::slices_in_words: return "SlicesInWords";
    case Source::units: return "Units";
    case Source::units_of_many: return "UnitsOfMany";
    case Source::units_in_words: return "UnitsInWords";
    case Source::unit_slices: return "UnitSlices";
    case Source::split_unit_slices: return "SplitUnitSlices";
    case Source::unit_slices_in_words: return "UnitSlicesInWords";
    case Source::large: return "Large";
    case Source::large_of_pairs: return "LargeOfPairs";
    case Source::long_slices: return "LongSlices";
    case Source::differences: return "DifferenceCosts";
    case Source::direct: return "DirectCosts";
  }
  return "";
}

__attribute__((format(printf, 2, 3))) void append(std::string &text, const char *format, ...) {
  char part[200];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(part, sizeof part, format, arguments);
  va_end(arguments);
  text += part;
}

// The kernels of a call on the current device, if there is one.
void append_kernels(std::string &text, sdtw::Plan plan, const char *name, Call call) {
  choose_kernels(plan, call);
  append(text, "; %s:", name);
  if (plan.cuda.short_pairs.fit) {
    text += " short_pairs_kernel";
    return;
  }
  const Kernels &kernels = plan.cuda.kernels;
  for (const Kernel *kernel : {&kernels.of_floats, &kernels.of_large_costs, &kernels.of_longs, &kernels.of_doubles}) {
    if (kernel->source == Source::none) continue;
    const char *const cell = kernel == &kernels.of_doubles ? "DoubleCell"
                             : kernel == &kernels.of_longs ? "LongCell"
                                                           : "FloatCell";
    const char *const pass = call == Call::forward ? "forward" : kernel->warps > 0 ? "warp_backward" : "backward";
    append(text, " %s_kernel<%s, %s> (", pass, cell, name_of(kernel->source));
    if (call != Call::forward) append(text, "tiles of %d steps, ", kernel->tile_steps);
    append(text, "%zu bytes of shared memory)", kernel->shared_bytes);
  }
}

std::string describe_short_pairs(const cuda::Plan &p) {
  return p.short_pairs.fit ? "; a block has a pair, and no state, where float64 is not slow" : "";
}

}  // namespace

std::string describe(const sdtw::Plan &plan) {
  const cuda::Plan &p = plan.cuda;
  if (p.route == Route::general || p.short_alone)
    return describe_general(plan) + describe_streams(plan) + describe_short_pairs(p);
  const auto number = [](auto value) { return static_cast<long long>(value); };
  std::string text = p.transposed ? "cuda: rows of y; " : "cuda: ";
  if (p.route == Route::pairs)
    append(text, "all pairs, %lld at a time, with gradients %lld; ", number(p.forward_pairs.pairs),
           number(p.backward_pairs.pairs));
  if (p.lanes == warp)
    append(text, "strips of %lld rows, %lld a pair, a warp each%s; ", number(rows_per_lane * warp), number(p.strips),
           p.full_sweeps  ? ", from both ends through all"
           : p.strips > 1 ? ", from both ends"
                          : "");
  else
    append(text, "%lld pairs a warp; ", number(warp / p.lanes));
  append(text, "costs %s%s; %lld checkpoints a warp, one every %lld steps; gradients summed up in %s",
         p.costs == Costs::given     ? "given"
         : p.costs == Costs::inlined ? "by the warp that sweeps"
                                     : "by other warps of its block",
         p.costs == p.backward_costs ? "" : ", in backward by those that recompute", number(p.checkpoints),
         number(p.interval), p.wide_sums || plan.problem.dtype == SDTW_F64 ? "float64" : "float32");
  append(text, "; state %zu, workspace forward %zu backward %zu alignment %zu bytes", p.state_bytes, p.forward_bytes,
         p.backward_bytes, p.alignment_bytes);
  text += describe_streams(plan) + describe_short_pairs(p);
  if (p.units) text += "; costs are of points divided by their norms";
  try {
    require_device();
  } catch (const Error &) {
    return text + "; kernels are chosen where there is a GPU";
  }
  sdtw::Plan chosen = plan;
  choose_kernels(chosen, Call::forward);
  if (chosen.cuda.route == Route::general) return describe_general(plan);
  append_kernels(text, plan, "forward", Call::forward);
  append_kernels(text, plan, "backward", Call::backward);
  if (p.route == Route::core) append_kernels(text, plan, "alignment", Call::alignment);
  return text;
}

}  // namespace sdtw::cuda
