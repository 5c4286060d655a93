// Decisions of the CPU backend: mapping, tile shape, instruction set, threads.
#include <omp.h>

#include <algorithm>
#include <cstdio>

#include "backend.h"
#include "cpu/layout.h"

namespace sdtw::cpu {
namespace {

// Lanes hold pairs where that wastes less of the vectors. The choice fixes the layout of state, so it may depend on the
// problem alone: not on threads nor on the instruction set.
Mapping choose_mapping(const Problem &p) {
  // Beyond this many steps strips fill their lanes, and the groups' boundary rows would leave the L1 cache.
  constexpr int64_t longest = 256;
  if (p.n > longest || p.m > longest) return Mapping::strips;
  const double strips =
      double(p.n) / double(round_up<int64_t>(p.n, strip_rows)) * double(p.m) / double(p.m + max_width);
  const double lanes = double(p.batch) / double(round_up(p.batch, lane_group));
  // Fewer than four groups leave threads idle that strips would use.
  return lanes * (p.batch >= 4 * lane_group ? 1.1 : 0.6) > strips ? Mapping::lanes : Mapping::strips;
}

// Threads of this call: no more than there is work for. 50 us or so of work pay for waking a thread.
int choose_threads(const Problem &p, const Exec &exec) {
  const int asked = exec.num_threads > 0 ? exec.num_threads : std::max(1, omp_get_max_threads());
  const double cells = double(p.batch) * double(p.n) * double(p.m) * (1 + double(p.features) / 16);
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

void shape(const Problem &p, Mapping mapping, Plan &plan) {
  plan.mapping = mapping;
  if (mapping == Mapping::lanes) {
    plan.tile_rows = plan.tile_cols = 32;
    plan.units = ceil_div(p.batch, lane_group);
    plan.tiles_across = ceil_div(p.m, plan.tile_cols);
  } else {
    plan.tile_rows = strip_rows;
    plan.tile_cols = max_steps;
    plan.units = p.batch;
    plan.tiles_across = ceil_div<int64_t>(p.m + max_width, plan.tile_cols);
  }
  plan.tiles_down = ceil_div(p.n, plan.tile_rows);
}

}  // namespace

sdtw::Plan alone(const sdtw::Plan &plan) {
  sdtw::Plan result = plan;
  shape(plan.problem, Mapping::strips, result.cpu);
  result.cpu.threads = 1;
  result.cpu.wavefront = false;
  return result;
}

sdtw::Plan make_plan(const Problem &problem, const Exec &exec) {
  sdtw::Plan result{};
  result.problem = problem;
  result.exec = exec;
  Plan &plan = result.cpu;
  plan.isa = exec.cpu_isa == SDTW_CPU_ISA_AUTO ? best_isa() : exec.cpu_isa;
  plan.threads = choose_threads(problem, exec);
  shape(problem, choose_mapping(problem), plan);
  plan.wavefront = plan.mapping == Mapping::strips && choose_wavefront(plan, problem.batch);
  if (!plan.wavefront) plan.threads = int(std::max<int64_t>(1, std::min<int64_t>(plan.threads, plan.units)));
  plan.threads = int(std::min<int64_t>(plan.threads, std::max<int64_t>(1, plan.units * plan.tiles_down)));

  plan.state_bytes = exec.no_state ? 0 : StateLayout(problem, plan).bytes;
  plan.forward_bytes = ScratchLayout(problem, plan, false, false).bytes(plan);
  if (plan.mapping == Mapping::lanes)
    plan.forward_bytes = checked_add(
        plan.forward_bytes, ScratchLayout(problem, alone(result).cpu, false, false).each() * size_t(plan.threads));
  plan.backward_bytes = ScratchLayout(problem, plan, true, problem.fused()).bytes(plan);
  plan.alignment_bytes = ScratchLayout(problem, plan, true, false).bytes(plan);
  return result;
}

std::string describe(const sdtw::Plan &whole) {
  static const char *const isas[] = {"auto", "baseline", "avx2", "avx512"};
  const Plan &plan = whole.cpu;
  char text[400];
  std::snprintf(text, sizeof text,
                "cpu: mapping %s, tiles of %lld x %lld, %lld down and %lld across, isa %s, threads %d%s, skip E < %g, "
                "state %zu, workspace forward %zu backward %zu alignment %zu bytes",
                plan.mapping == Mapping::lanes ? "lanes (a pair each)" : "strips", (long long)plan.tile_rows,
                (long long)plan.tile_cols, (long long)plan.tiles_down, (long long)plan.tiles_across, isas[plan.isa],
                plan.threads, plan.wavefront ? " (wavefront)" : "", core::negligible_alignment, plan.state_bytes,
                plan.forward_bytes, plan.backward_bytes, plan.alignment_bytes);
  return text;
}

}  // namespace sdtw::cpu
