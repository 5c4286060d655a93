// Forward: what becomes of a pair, or of a group of them, and its values. Backward begins with it where there is no
// state.
#pragma once

#include "cpu/call.h"
#include "cpu/lanes_forward.h"
#include "cpu/poisoned.h"
#include "cpu/strips_forward.h"

namespace sdtw::cpu {

template <class In>
void TypedCall<In>::forward() {
  if (state) {
    const StateHeader header = StateHeader::of(whole, plan.isa);
    std::memcpy(state, &header, sizeof header);
  }
  // What is not written is 0, so that equal calls leave equal bytes.
  if (state) std::memset(state + sizeof(StateHeader), 0, state_layout.blocks - sizeof(StateHeader));
  each_unit([&](int64_t index, int thread) {
    Unit unit = begin(index, thread, false);
    const auto clear_block = [&] { std::memset(block_of_state(index), 0, state_layout.block); };
    const bool strips = plan.mapping == Mapping::strips;
    if (state && !strips) clear_block();
    solve(unit);
    if (state && strips && (!unit.in_state || unit.lengths[0].kind != Kind::solved)) clear_block();
    if (state) engine(index) = unit.engine;
    for (int64_t l = 0, work = index * works_each(); l < unit.count; ++l, ++work) {
      if (state) {
        noted_lengths(work) = unit.noted[l];
        kind(work) = unit.lengths[l].kind;
      }
    }
    write_values(unit);
  });
}

template <class In>
void TypedCall<In>::solve(Unit &unit) {
  for (int64_t l = 0; l < unit.count; ++l) unit.values[l] = unit.lengths[l].value;
  plan.mapping == Mapping::lanes ? solve_group(unit) : solve_pair(unit);
}

template <class In>
void TypedCall<In>::solve_pair(Unit &unit) {
  Lengths &lengths = unit.lengths[0];
  if (lengths.kind != Kind::solved) return;
  if (!solve_with_any_engine(unit)) {
    unit.values[0] = std::numeric_limits<double>::quiet_NaN();
    lengths.kind = Kind::nan;
  } else if (std::isinf(unit.values[0])) {
    lengths.kind = Kind::zero;  // no admissible path
  }
}

template <class In>
bool TypedCall<In>::solve_with_any_engine(Unit &unit) {
  if constexpr (has_float)
    if (try_pair<float>(unit)) return true;
  const auto bad = [&] { return poisoned<In>(p, b, unit.places[0], unit.lengths[0]); };
  // Given costs are looked at as they are read, series beforehand.
  if (p.fused() && bad()) return false;
  if (try_pair<double>(unit)) return true;
  // A tile also has costs of cells outside of a band, and the bound of costs is of all steps at once. Whether one is
  // bad is asked now.
  return (p.band != SDTW_BAND_NONE || !p.has_unit_steps()) && !bad();
}

template <class In>
template <class T>
bool TypedCall<In>::try_pair(Unit &unit) {
  auto solver = pair_solver<T>(unit);
  solver.prepare(local(unit.thread));
  const Engine needed = solver.needed();
  if (sizeof(T) == 4 && needed == Engine::float64) return false;
  unit.engine = needed;
  unit.features[0] = solver.use(needed);
  const bool ok = solver.forward(unit.values[0], locals(unit.thread), team());
  unit.value_tangent = solver.value_tangent();
  return ok;
}

template <class In>
void TypedCall<In>::solve_group(Unit &unit) {
  if (!solve_group_as_float(unit)) {
    const auto spoil = [&] {
      for (int64_t l = 0; l < unit.count; ++l)
        if (unit.lengths[l].kind == Kind::solved && poisoned<In>(p, b, unit.places[l], unit.lengths[l])) {
          unit.lengths[l].kind = Kind::nan;
          unit.values[l] = std::numeric_limits<double>::quiet_NaN();
        }
    };
    if (p.fused()) spoil();
    // Costs that are NaN disturb no lane but their own: which one, is asked afterwards.
    if (!try_group<double>(unit)) spoil();
  }
  for (int64_t l = 0; l < unit.count; ++l)  // no admissible path
    if (unit.lengths[l].kind == Kind::solved && std::isinf(unit.values[l])) unit.lengths[l].kind = Kind::zero;
}

template <class In>
bool TypedCall<In>::solve_group_as_float(Unit &unit) {
  if constexpr (has_float) return try_group<float>(unit);
  return false;
}

template <class In>
template <class T>
bool TypedCall<In>::try_group(Unit &unit) {
  const int W = isa.kernels<T>().width;
  // One engine for all of the unit, so that results do not depend on the width of vectors.
  Engine needed = sizeof(T) == 4 ? Engine::plain : Engine::float64;
  if (sizeof(T) == 4)
    for (int64_t l = 0; l < lane_group; l += W)
      if (auto g = group_solver<T>(unit, l); !g.empty()) {
        g.prepare();
        needed = std::max(needed, g.needed());
      }
  if (sizeof(T) == 4 && needed == Engine::float64) return false;
  unit.engine = needed;
  bool ok = true;
  for (int64_t l = 0; l < lane_group; l += W) {
    auto g = group_solver<T>(unit, l);
    if (g.empty()) continue;
    if (sizeof(T) == 8) g.prepare();
    unit.features[l] = g.use(needed);
    ok &= g.forward(unit.values + l);
    if (!ok && sizeof(T) == 4) return false;
  }
  return ok;
}

template <class In>
void TypedCall<In>::write_values(const Unit &unit) const {
  for (int64_t l = 0; l < unit.count; ++l)
    for (const int64_t result : {unit.places[l].result, unit.places[l].mirror})
      if (result >= 0) write_value(p, b, result, unit.values[l]);
}

}  // namespace sdtw::cpu
