// The header of state.
#pragma once

#include <algorithm>
#include <cstring>

#include "cpu/layout.h"

namespace sdtw::cpu {

// What wrote a state.
struct StateHeader {
  uint64_t magic;
  int64_t batch, batch_x, n, m, features;
  double gamma;
  int32_t metric, dtype, isa, transposed;
  double step_weight[3], step_penalty[3], band_radius;
  int32_t band, symmetric;
  int64_t batch_y, all_pairs;
  int64_t unused[5];
  static constexpr uint64_t expected_magic = 0x385f777464735f63;  // "c_sdtw_8", 8 being the version of the layout

  static StateHeader of(const sdtw::Plan &plan, sdtw_cpu_isa isa) {
    const Problem &p = plan.problem;
    StateHeader h{};
    h.magic = expected_magic;
    h.batch = p.batch, h.batch_x = p.batch_x, h.n = p.n, h.m = p.m, h.features = p.features;
    h.gamma = p.gamma;
    h.metric = p.metric, h.dtype = p.dtype, h.isa = isa, h.transposed = plan.cpu.transposed;
    h.band = p.band, h.symmetric = p.symmetric;
    h.batch_y = p.batch_y, h.all_pairs = p.all_pairs;
    h.band_radius = p.band == SDTW_BAND_NONE ? 0 : p.band_radius;
    std::copy(p.step_weight, p.step_weight + 3, h.step_weight);
    std::copy(p.step_penalty, p.step_penalty + 3, h.step_penalty);
    for (double *number : {&h.gamma, &h.band_radius}) *number += 0.0;  // -0 and 0 are the same problem
    for (int way = 0; way < 3; ++way) h.step_weight[way] += 0.0, h.step_penalty[way] += 0.0;
    return h;
  }
  bool matches(const sdtw::Plan &plan) const {
    const StateHeader other = of(plan, isa);
    return std::memcmp(this, &other, sizeof other) == 0;
  }
};
static_assert(sizeof(StateHeader) == state_header_bytes && std::is_trivially_copyable_v<StateHeader>);

}  // namespace sdtw::cpu
