// The plan of the CUDA backend's waves: the pairs that a call has room for at a time, of calls without state and of all
// pairs.
#include <algorithm>

#include "core/pairs.h"
#include "cuda/args.h"
#include "plan.h"

namespace sdtw::cuda {

// As many pairs at a time as the state of which takes this much.
Waves make_waves(const Problem &p, const Exec &exec) {
  const size_t budget = std::min(size_t{96} << 20, limits.bytes_of_wave);
  const Exec stateful = with_state(exec);
  const auto room = [&](int64_t pairs) {
    const Plan plan = make_core_plan(part_of(p, pairs), stateful);
    return Waves{pairs, plan.state_bytes, checked_mul(pairs, p.value_size()), plan.backward_bytes, 0};
  };
  const auto bytes = [](const Waves &w) { return checked_add(w.state, checked_add(w.value, w.workspace)); };
  const int64_t some = std::min<int64_t>(p.batch, 64);
  const size_t each = std::max<size_t>(bytes(room(some)) / some, 1);
  Waves waves = room(std::min<int64_t>(p.batch, std::max<size_t>(budget / each, 1)));
  if (const int64_t last = p.batch % waves.pairs; last > 0) {  // whose plan may differ
    const Waves tail = room(last);
    waves.state = std::max(waves.state, tail.state), waves.workspace = std::max(waves.workspace, tail.workspace);
  }
  Arena arena;
  const size_t state = arena.add(waves.state, 1), value = arena.add(waves.value, 1);
  const size_t workspace = arena.add(waves.workspace, 1);
  return {waves.pairs, state, value, workspace, arena.bytes()};
}

bool are_short_alone(const Problem &p) { return !takes_core(part_of(p, 1)); }

// Of short pairs state has nothing but how each has ended.
Plan make_wave_plan(const Problem &p, const Exec &exec, int64_t pairs) {
  const Problem part = part_of(p, pairs);
  if (!are_short_alone(p)) return make_core_plan(part, exec);
  Plan plan{};
  plan.state_bytes = checked_mul(pairs, sizeof(int));
  return plan;
}

namespace {

// What each array of so many pairs takes, with the names of where it lies.
PairWaves sizes_of_wave(const Problem &p, const Exec &exec, bool back, int64_t pairs) {
  const Plan plan = make_wave_plan(p, back ? with_state(exec) : exec, pairs);
  const auto points = [&](int64_t rows) {
    return back ? checked_mul(checked_mul(pairs, checked_mul(rows, p.features)), p.element_size()) : 0;
  };
  PairWaves sizes{};
  sizes.pairs = pairs;
  sizes.series = checked_mul(pairs, sizeof(SeriesOfPair));
  sizes.value = back || p.symmetric ? checked_mul(pairs, p.value_size()) : 0;
  sizes.state = back ? plan.state_bytes : 0;
  sizes.workspace = back ? plan.backward_bytes : plan.forward_bytes;
  sizes.grad_x = points(p.n), sizes.grad_y = points(p.m);
  for (size_t part : {sizes.series, sizes.value, sizes.state, sizes.workspace, sizes.grad_x, sizes.grad_y})
    sizes.bytes = checked_add(sizes.bytes, part);
  return sizes;
}

}  // namespace

// The waves of all pairs. Each takes as many pairs as there is room for, but all take about the same number, so that
// the last one does not leave the GPU idle.
PairWaves make_pair_waves(const Problem &p, const Exec &exec, Call call) {
  const bool back = call == Call::backward;
  const int64_t all = p.symmetric ? core::pairs_of_triangle(p.batch_x) : p.batch, some = std::min<int64_t>(all, 64);
  const size_t each = std::max<size_t>(sizes_of_wave(p, exec, back, some).bytes / some, 1);
  const size_t budget = back ? limits.bytes_of_wave : limits.bytes_of_wave / 2;  // forward takes less for a pair
  const int64_t most = std::max<int64_t>(static_cast<int64_t>(budget / each), 1);
  constexpr int64_t of_warp = warp / 8;  // most pairs that share a warp
  const int64_t pairs = std::min(all, round_up(ceil_div(all, ceil_div(all, most)), of_warp));
  const PairWaves first = sizes_of_wave(p, exec, back, pairs);
  // The plan of the last wave may take more: of few pairs both sweeps go through all strips.
  const PairWaves last = all % pairs > 0 ? sizes_of_wave(p, exec, back, all % pairs) : first;
  Arena arena;
  const auto place = [&](size_t PairWaves::*array) { return arena.add(std::max(first.*array, last.*array), 1); };
  const auto sums = [&](int64_t series, int64_t rows) {
    const bool needed = back && (p.symmetric || pairs < all);  // else they are written where they belong at once
    return arena.add(needed ? checked_mul(checked_mul(series, rows), p.features) : 0, sizeof(double));
  };
  PairWaves waves{};
  waves.pairs = pairs;
  waves.series = place(&PairWaves::series), waves.value = place(&PairWaves::value);
  waves.state = place(&PairWaves::state), waves.workspace = place(&PairWaves::workspace);
  waves.grad_x = place(&PairWaves::grad_x), waves.grad_y = place(&PairWaves::grad_y);
  waves.sums_x = sums(p.batch_x, p.n), waves.sums_y = sums(p.symmetric ? 0 : p.batch_y, p.m);
  waves.bytes = arena.bytes();
  return waves;
}

}  // namespace sdtw::cuda
