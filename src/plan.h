// Problem + Exec -> Plan: every decision (algorithm, tile shape, threads, thresholds, sizes) is taken here, from sizes
// alone, before any data is seen. Backends carry it out.
#pragma once

#include <string>

#include "layout.h"
#include "problem.h"

namespace sdtw {

// Tiles of the backward sweep whose incoming E is below this everywhere are skipped. E is a probability, so the
// threshold is relative to the upstream gradient, which is multiplied in at the end. sdtw.h documents it.
constexpr double negligible_alignment = 1e-12;

namespace cpu {

enum class Mapping {
  strips,  // one pair at a time per thread; SIMD lanes along an anti-diagonal of a strip of rows
  lanes,   // one pair per SIMD lane; small pairs, batch large enough to fill the lanes
};

// Offsets and sizes, in bytes, of one pair's (strips) or one group's (lanes) part of state and workspace.
struct Plan {
  Mapping mapping;
  sdtw_cpu_isa isa;     // resolved: never AUTO
  int threads;          // resolved: at least 1
  bool wavefront;       // strips: the threads share each pair, tile by tile, instead of taking a pair each
  int64_t units;        // independent pieces of work: pairs, or groups of lane_group pairs
  int64_t strip_rows;   // rows of a tile
  int64_t tile_cols;    // columns (lanes) or steps (strips) of a tile
  int64_t strips;       // tiles down
  int64_t tiles;        // tiles across
  size_t state_bytes;   // whole state
  size_t unit_state;    // bytes of one unit's state
  size_t forward_bytes, backward_bytes, alignment_bytes;
};

}  // namespace cpu

namespace cuda {
// Decisions of the CUDA backend.
struct Plan {
  size_t state_bytes;
  size_t forward_bytes, backward_bytes, alignment_bytes;
};
}  // namespace cuda

struct Plan {
  Problem problem;
  Exec exec;
  cpu::Plan cpu;    // valid if exec.device is SDTW_CPU
  cuda::Plan cuda;  // valid if exec.device is SDTW_CUDA

  sdtw_sizes sizes() const;
  std::string describe() const;
};

Plan make_plan(const Problem &problem, const Exec &exec);

namespace cpu {
sdtw::Plan make_plan(const Problem &problem, const Exec &exec);
std::string describe(const sdtw::Plan &plan);
}  // namespace cpu
namespace cuda {
sdtw::Plan make_plan(const Problem &problem, const Exec &exec);
std::string describe(const sdtw::Plan &plan);
}  // namespace cuda

}  // namespace sdtw
