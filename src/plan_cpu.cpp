// Decisions of the CPU backend: mapping, tile shape, instruction set, threads.
#include <omp.h>

#include <algorithm>
#include <cstdio>

#include "backend.h"
#include "core/band.h"
#include "cpu/layout.h"
#include "cpu/places.h"
#include "cpu/rules.h"
#include "names.h"

namespace sdtw::cpu {
namespace {

// Two series of which one is longer than that are for strips.
constexpr int64_t longest_of_lanes = 256;

// How much of the vectors strips of n rows and m columns fill.
double filled_by_strips(int64_t n, int64_t m) {
  return double(n) / double(round_up<int64_t>(n, strip_rows)) * double(m) / double(m + max_width);
}

// Short pairs stay as they are, so that their results do not depend on what they are padded to; and Itakura's rounding
// takes x's rows.
bool may_transpose(const Problem &p) { return std::max(p.n, p.m) > longest_of_lanes && p.band != SDTW_BAND_ITAKURA; }

// Few rows fill a strip badly, few columns less so. A matrix of given costs is read along its rows much faster. Where
// lanes hold pairs, rows are to be the few: what columns add up over them is not kept as precisely as what rows do.
bool choose_transposed(const Problem &p, Mapping mapping) {
  if (!may_transpose(p)) return false;
  if (mapping == Mapping::lanes) return p.n > p.m;
  return filled_by_strips(p.m, p.n) > (p.fused() ? 1.3 : 3) * filled_by_strips(p.n, p.m);
}

// How many columns the band admits of a row, in the mean.
double mean_columns(const Problem &p) {
  if (p.band == SDTW_BAND_NONE) return double(p.m);
  constexpr int64_t samples = 16;
  const core::Band band{p.band, p.band_radius, p.n, p.m};
  double sum = 0;
  for (int64_t i = 0; i < samples; ++i) {
    const core::Interval admits = band.columns((2 * i + 1) * p.n / (2 * samples));
    sum += double(std::max<int64_t>(0, admits.end - admits.first));
  }
  return sum / samples;
}

// How much of the columns that `rows` rows sweep together the band admits.
double filled_by_band(double columns, int64_t n, int64_t m, int64_t rows) {
  return columns / std::min(double(m), columns + double(rows) * double(m) / double(n));
}

// Lanes hold pairs where that wastes less of the vectors. The choice fixes the layout of state, so it may depend on the
// problem alone: not on threads nor on the instruction set.
Mapping choose_mapping(const Problem &p) {
  // Two long series fill strips, and the boundary rows of 16 pairs would leave the L1 cache. Beside a short one any
  // length will do for which the scratch of 16 pairs takes no more than some megabytes of a thread.
  // A band makes boundary rows as long as it is wide.
  constexpr int64_t shortest = 48, most_numbers = 32768;
  const bool beside_short =
      std::min(p.n, p.m) <= shortest && (p.n + p.m) * std::max<int64_t>(p.features, 1) <= most_numbers;
  const double columns = mean_columns(p);
  const bool narrow = p.band != SDTW_BAND_NONE && 2 * columns <= longest_of_lanes;
  if (std::max(p.n, p.m) > (narrow ? 2 : 1) * longest_of_lanes && !beside_short) return Mapping::strips;
  const bool turns = may_transpose(p) && p.fused();
  const double strips = std::max(filled_by_strips(p.n, p.m), turns ? filled_by_strips(p.m, p.n) : 0) *
                        filled_by_band(columns, p.n, p.m, strip_rows);
  const int64_t works = works_of(p);
  // Lanes sweep several rows at a time.
  const double rows = double(std::min<int64_t>({p.n, p.m, lane_rows})) / lane_rows;
  const double lanes =
      rows * double(works) / double(round_up(works, lane_group)) * filled_by_band(columns, p.n, p.m, lane_rows);
  // Fewer than four groups leave threads idle that strips would use; the series of a group that are larger than these
  // leave the second level of cache, where they are read for each row of tiles.
  constexpr double most_of_cache = 12288;
  const bool large = double(p.n + p.m) * double(p.features) > most_of_cache;
  if (large && 2 * works < lane_group) return Mapping::strips;  // most lanes would have copies to make for nothing
  double favour = works >= 4 * lane_group ? 1.1 : works > 2 * lane_group ? 0.85 : 0.6;
  if (large) favour = std::min(favour, 0.7);
  // Strips hide more of the work of a cell that has costs of its own for its steps, and at gamma = 0 go back along the
  // path alone.
  const StepShape shape = shape_of(p);
  if (!p.has_unit_steps() && (p.gamma == 0 || shape == heavier_diagonal || shape == any_weights)) favour *= 0.65;
  return lanes * favour > strips ? Mapping::lanes : Mapping::strips;
}

// Threads of this call: no more than there is work for. 50 us or so of work pay for waking a thread.
int choose_threads(const Problem &p, const Exec &exec) {
  const int asked = exec.num_threads > 0 ? exec.num_threads : std::max(1, omp_get_max_threads());
  const double cells = double(works_of(p)) * double(p.n) * double(p.m) * (1 + double(p.features) / 16);
  return int(std::min<double>(asked, 1 + cells / 5e4));
}

// One pair for all threads, or a pair for each? In units of a tile's time: the pipeline of strips is tiles_across long
// and each strip runs two tiles behind the one above.
bool choose_wavefront(const Plan &plan, int64_t pairs) {
  if (plan.threads < 2 || plan.tiles_down < 2) return false;
  const double tiles = double(plan.tiles_down) * double(plan.tiles_across), threads = plan.threads;
  const double shared =
      double(pairs) * std::max(tiles / threads, double(plan.tiles_across + 2 * (plan.tiles_down - 1)));
  const double apart = double(ceil_div<int64_t>(pairs, plan.threads)) * tiles;
  return shared * 1.1 < apart;
}

void shape(const Problem &p, Plan &plan) {
  plan.works = works_of(p);
  if (plan.mapping == Mapping::lanes) {
    plan.tile_rows = plan.tile_cols = 32;
    plan.units = ceil_div(plan.works, lane_group);
    plan.tiles_across = ceil_div(p.m, plan.tile_cols);
  } else {
    plan.tile_rows = strip_rows;
    plan.tile_cols = max_steps;
    plan.units = plan.works;
    plan.tiles_across = ceil_div<int64_t>(p.m + max_width, plan.tile_cols);
  }
  plan.tiles_down = ceil_div(p.n, plan.tile_rows);
}

// All but the sizes.
sdtw::Plan lay_out(const Problem &given, const Exec &exec, Mapping mapping) {
  sdtw::Plan result{};
  Plan &plan = result.cpu;
  plan.mapping = mapping;
  plan.transposed = choose_transposed(given, plan.mapping);
  const Problem problem = plan.transposed ? transpose(given) : given;
  result.problem = problem;
  result.exec = exec;
  plan.isa = exec.cpu_isa == SDTW_CPU_ISA_AUTO ? best_isa() : exec.cpu_isa;
  plan.threads = choose_threads(problem, exec);
  shape(problem, plan);
  plan.wavefront = plan.mapping == Mapping::strips && choose_wavefront(plan, plan.works);
  if (!plan.wavefront) plan.threads = int(std::max<int64_t>(1, std::min<int64_t>(plan.threads, plan.units)));
  plan.threads = int(std::min<int64_t>(plan.threads, std::max<int64_t>(1, plan.units * plan.tiles_down)));
  return result;
}

size_t workspace(const sdtw::Plan &plan, Need need) {
  return ScratchLayout(plan.problem, plan.cpu, need).bytes(plan.cpu);
}

}  // namespace

// Tangents are for strips, whatever the rest of the problem is computed by.
sdtw::Plan tangent_plan(const sdtw::Plan &plan) {
  return lay_out(plan.cpu.transposed ? transpose(plan.problem) : plan.problem, plan.exec, Mapping::strips);
}

sdtw::Plan make_plan(const Problem &given, const Exec &exec) {
  sdtw::Plan result = lay_out(given, exec, choose_mapping(given));
  Plan &plan = result.cpu;
  const Problem &problem = result.problem;
  plan.state_bytes = exec.no_state ? 0 : StateLayout(problem, plan).bytes;
  plan.forward_bytes = workspace(result, Need::forward());
  plan.backward_bytes = workspace(result, Need::backward(problem.fused(), exec.no_state));
  plan.alignment_bytes = workspace(result, Need::backward(false, exec.no_state));
  plan.jvp_bytes = workspace(tangent_plan(result), Need::jvp(problem.fused()));
  return result;
}

std::string describe(const sdtw::Plan &whole) {
  const Plan &plan = whole.cpu;
  char text[500];
  std::snprintf(text, sizeof text,
                "cpu: %lld pairs, mapping %s%s, tiles of %lld x %lld, %lld down and %lld across, isa %s, threads %d%s, "
                "skip E < %g, "
                "state %zu, workspace forward %zu backward %zu alignment %zu bytes",
                (long long)plan.works, plan.mapping == Mapping::lanes ? "lanes (a pair each)" : "strips",
                plan.transposed ? " of y" : "", (long long)plan.tile_rows, (long long)plan.tile_cols,
                (long long)plan.tiles_down, (long long)plan.tiles_across, names::isas[plan.isa].word, plan.threads,
                plan.wavefront ? " (wavefront)" : "", core::least_inflow(whole.problem.dtype == SDTW_F64),
                plan.state_bytes, plan.forward_bytes, plan.backward_bytes, plan.alignment_bytes);
  return text;
}

}  // namespace sdtw::cpu
