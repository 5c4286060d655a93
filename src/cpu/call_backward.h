// Backward and alignment: from state, or from a forward of each pair's own, which leaves its solver's scratch as
// backward goes on with it.
#pragma once

#include "cpu/call.h"
#include "cpu/lanes_backward.h"
#include "cpu/strips_backward.h"

namespace sdtw::cpu {

template <class In>
void TypedCall<In>::backward(Wanted wanted) {
  GradientSums sums;
  const bool summing = p.all_pairs && wanted == Wanted::gradients;
  if (summing) {
    const bool both = p.symmetric;
    sums.x = sums_of(scratch.sums_x, b.grad_x.data, p.batch_x, p.n);
    sums.y = both ? sums.x : sums_of(scratch.sums_y, b.grad_y.data, p.batch_y, p.m);
    sums.x.clear();
    sums.y.clear();
  }
  each_unit([&](int64_t index, int thread) {
    Unit unit = begin(index, thread, true);
    if (!unit.recalled) solve(unit);
    if (b.value) write_values(unit);
    // Of a soft minimum the value's tangent is known by now.
    const bool done = scratch.tangents && p.gamma > 0 && !b.grad_x.data && !b.grad_y.data;
    if (!done) backward_unit(unit, wanted, summing ? &sums : nullptr);
    if (scratch.tangents && b.value_tangent) write_value_tangent(unit, b.value_tangent);
  });
  if (!summing) return;
  sums.x.write<In>(b.grad_x);
  if (!p.symmetric) sums.y.write<In>(b.grad_y);
}

template <class In>
void TypedCall<In>::backward_unit(Unit &unit, Wanted wanted, GradientSums *sums) {
  const sdtw_out *const target = target_of(wanted, b);
  double g[lane_group] = {};
  for (int64_t l = 0; l < unit.count; ++l) {
    if (!sums) clear(unit, l, wanted);
    g[l] = grad_value(unit.places[l], wanted);
    // Also where E is 0 and nothing is swept: NaN and infinity times 0 are NaN.
    const Lengths &of = unit.lengths[l];
    if (target && !std::isfinite(g[l]) && of.kind == Kind::solved)
      fill_matrix(element<In>(*target, unit.places[l].result), of.n, target->stride[1], of.m, target->stride[2],
                  static_cast<In>(std::numeric_limits<float>::quiet_NaN()));
  }
  const auto run = [&](auto type) {
    using T = decltype(type);
    if (plan.mapping == Mapping::lanes)
      backward_group<T>(unit, wanted, g, sums);
    else if (unit.lengths[0].kind == Kind::solved)
      backward_pair<T>(unit, wanted, g[0], sums);
    if (sums) sums->in_turn(unit.index, [&] { add_to<T>(*sums, unit); });
  };
  // Of a unit without a solved pair the engine may be any, if state is damaged there: it has its turn all the same.
  if (has_float && unit.engine != Engine::float64)
    run(std::conditional_t<has_float, float, double>{});
  else
    run(double{});
  if (target)
    for (int64_t l = 0; l < unit.count; ++l) mirror(unit.places[l], *target);
}

// What the sweeps do not write of a pair's gradients or alignment: padding, and everything of a pair not solved.
template <class In>
void TypedCall<In>::clear(const Unit &unit, int64_t lane, Wanted wanted) {
  const Lengths &lengths = unit.lengths[lane];
  const Place &at = unit.places[lane];
  const auto fill = [&](const sdtw_out &out, int64_t index, int64_t length, int64_t rows, int64_t cols) {
    const int64_t kept = lengths.kind == Kind::solved && wanted == Wanted::gradients ? length : 0;
    fill_matrix(element<In>(out, index) + kept * out.stride[1], rows - kept, out.stride[1], cols, out.stride[2],
                lengths.kind == Kind::nan ? static_cast<In>(std::numeric_limits<float>::quiet_NaN()) : In(0));
  };
  if (const sdtw_out *const target = target_of(wanted, b)) return fill(*target, at.result, 0, p.n, p.m);
  if (b.grad_x.data) fill(b.grad_x, at.x, lengths.n, p.n, p.features);
  if (b.grad_y.data) fill(b.grad_y, at.y, lengths.m, p.m, p.features);
}

template <class In>
double TypedCall<In>::grad_value(const Place &at, Wanted wanted) const {
  if (wanted == Wanted::alignment) return 1;
  const double g = read_grad_value(p, b, at.result);
  return at.mirror < 0 ? g : g + read_grad_value(p, b, at.mirror);
}

template <class In>
template <class T>
void TypedCall<In>::backward_pair(Unit &unit, Wanted wanted, double g, GradientSums *sums) {
  auto solver = pair_solver<T>(unit);
  const Place &at = unit.places[0];
  std::byte *const own = shared(unit.thread), *const scratch_of_thread = local(unit.thread);
  if (unit.recalled || scratch.tangents) {
    solver.prepare(scratch_of_thread);
    solver.use(unit.engine);
  } else {
    solver.resume(unit.engine, unit.features[0]);
  }
  solver.backward(wanted, T(g), locals(unit.thread), team());
  if (scratch.tangents && p.gamma == 0) unit.value_tangent = solver.value_tangent();
  if (wanted != Wanted::gradients) return;
  if (!sums) {
    const auto of = [](const sdtw_out &out, int64_t series) {
      return StridedOut<In>{out.data ? element<In>(out, series) : nullptr, out.stride[1], out.stride[2]};
    };
    return solver.write_gradients(g, of(b.grad_x, at.x), of(b.grad_y, at.y), scratch_of_thread);
  }
  const auto room = [&](const SeriesSums &side, size_t offset) {
    return StridedOut<T>{side.data ? reinterpret_cast<T *>(own + offset) : nullptr, p.features, 1};
  };
  solver.write_gradients(g, room(sums->x, scratch.out_x), room(sums->y, scratch.out_y), scratch_of_thread);
}

template <class In>
template <class T>
void TypedCall<In>::backward_group(const Unit &unit, Wanted wanted, const double *g, GradientSums *sums) {
  const int W = isa.kernels<T>().width;
  std::byte *const own = shared(unit.thread);
  for (int64_t l = 0; l < lane_group; l += W) {
    T factor[max_width] = {};
    for (int k = 0; k < W; ++k) factor[k] = T(g[l + k]);
    auto group = group_solver<T>(unit, l);
    if (group.empty()) continue;
    if (!unit.recalled && group.stays) {
      group.resume(unit.engine, unit.features[l]);
    } else {
      group.prepare();
      group.use(unit.engine);
    }
    group.backward(wanted, factor);
    if (wanted != Wanted::gradients) continue;
    if (!sums) {
      group.template write_gradients<In>(factor, b.grad_x, b.grad_y, nullptr);
      continue;
    }
    const auto room = [&](const SeriesSums &side, size_t offset) {
      sdtw_out out{nullptr, {side.each(), p.features, 1}};
      if (side.data) out.data = reinterpret_cast<T *>(own + offset) + l * side.each();
      return out;
    };
    Place apart[max_width];
    for (int k = 0; k < W; ++k) apart[k] = {k, k, k, -1};
    group.template write_gradients<T>(factor, room(sums->x, scratch.out_x), room(sums->y, scratch.out_y), apart);
  }
}

// Adds a unit's gradients, which lie in the thread's scratch, pair by pair.
template <class In>
template <class T>
void TypedCall<In>::add_to(GradientSums &sums, const Unit &unit) const {
  const T *const of_x = reinterpret_cast<const T *>(shared(unit.thread) + scratch.out_x);
  const T *const of_y = reinterpret_cast<const T *>(shared(unit.thread) + scratch.out_y);
  for (int64_t l = 0; l < unit.count; ++l) {
    const Place &at = unit.places[l];
    const Lengths &lengths = unit.lengths[l];
    if (lengths.kind == Kind::solved) {
      sums.x.add(at.x, of_x + l * sums.x.each(), lengths.n);
      sums.y.add(at.y, of_y + l * sums.y.each(), lengths.m);
    } else if (lengths.kind == Kind::nan) {
      sums.x.spoil(at.x);
      sums.y.spoil(at.y);
    }
  }
}

// The alignment of the pair transposed: a few rows at a time, as of lines of cache that are a power of two apart there
// is room for no more.
template <class In>
void TypedCall<In>::mirror(const Place &at, const sdtw_out &target) const {
  if (at.mirror < 0) return;
  constexpr int64_t few = 8;
  const In *const from = element<In>(target, at.result);
  In *const to = element<In>(target, at.mirror);
  const int64_t row = target.stride[1], column = target.stride[2];
  for (int64_t top = 0; top < p.n; top += few)
    for (int64_t j = 0; j < p.m; ++j)
      for (int64_t i = top; i < std::min(top + few, p.n); ++i) to[j * row + i * column] = from[i * row + j * column];
}

template <class In>
SeriesSums TypedCall<In>::sums_of(size_t offset, bool wanted, int64_t batch, int64_t steps) const {
  std::byte *const base = workspace + scratch.of_threads(plan);
  return {wanted ? reinterpret_cast<double *>(base + offset) : nullptr, batch, steps, p.features};
}

template <class In>
void TypedCall<In>::write_value_tangent(const Unit &unit, void *out) const {
  const Place &at = unit.places[0];
  double tangent = unit.value_tangent;
  if (unit.lengths[0].kind == Kind::zero) tangent = 0;
  if (unit.lengths[0].kind == Kind::nan) tangent = std::numeric_limits<double>::quiet_NaN();
  for (const int64_t result : {at.result, at.mirror}) {
    if (result < 0) continue;
    if (p.dtype == SDTW_F64)
      static_cast<double *>(out)[result] = tangent;
    else
      static_cast<float *>(out)[result] = static_cast<float>(tangent);
  }
}

}  // namespace sdtw::cpu
