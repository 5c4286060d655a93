// What forward is expected to take where there is more than one way to it, so that the faster one can be chosen.
#pragma once

#include <cstdint>

namespace sdtw::cuda {

// A kernel whose blocks sweep a task each: how many a multiprocessor holds, and the cycles of a step while it does.
struct Pace {
  int blocks;
  int cycles;
};

// Cycles until all tasks have been swept, over the steps of one: blocks take tasks in rounds, and the last
// round takes as long if it is not a full one.
constexpr int64_t expected_cycles(const Pace &pace, int64_t tasks, int multiprocessors) {
  const int64_t at_once = static_cast<int64_t>(pace.blocks) * multiprocessors;
  return (tasks + at_once - 1) / at_once * pace.cycles;
}

// Costs of many features: two blocks on a multiprocessor, or one whose producers take costs apart. Measured on an H200
// by forcing either: value alone of (8, 2048, 2048, 64), which is one round of both, in 0.424 and 0.358 ms. Value alone
// of (20, 1024, 1024, 64), one round and two, takes 0.255 and 0.307 ms, of (50, 1024, 1024, 64) 0.433 and 0.529.
constexpr Pace shared_pace{2, 300}, alone_pace{1, 255};

}  // namespace sdtw::cuda
