// The kernels for short pairs, and their launches.
#include "cuda/short_pairs/backend.h"
#include "cuda/short_pairs/phases.cuh"

namespace sdtw::cuda::short_pairs {
namespace {

// Calls visit with the Shape that the plan says.
template <class Visit>
void with_shape(const ShortPairs &its, const Visit &visit) {
  if (!its.squares) return with_general_shape<Steps::unit>(its, visit);
  if (its.rows_of_lane == 4) return visit(Shape<4, 16, most_steps_of_few>{});
  if (its.rows_of_lane == 1) return visit(Shape<1, 4, most_short_steps>{});
  its.warps == 8 ? visit(Shape<2, 8, most_short_steps>{}) : visit(Shape<2, 4, most_short_steps>{});
}

Args make_args(const sdtw::Plan &plan, const Buffers &given, const SeriesOfPair *series) {
  const bool swapped = plan.cuda.short_pairs.swapped;
  const Problem p = swapped ? transpose(plan.problem) : plan.problem;
  const Buffers b = swapped ? transpose(plan.problem, given) : given;
  Args a{};
  a.x = b.x, a.y = b.y;
  a.x_len = b.x_len, a.y_len = b.y_len;
  a.series = series;
  a.dtype = p.dtype, a.metric = p.metric;
  a.swapped = swapped;
  if (is_banded(p)) a.band.kind = p.band, a.band.radius = p.band_radius;
  a.long_lengths = p.length_bits == 64;
  a.costs = a.backward_costs = Costs::tensor;
  a.batch = p.batch;
  a.n = static_cast<int>(p.n), a.m = static_cast<int>(p.m), a.features = static_cast<int>(p.features);
  a.hard = p.gamma == 0;
  a.scale = a.hard ? 1 : core::log2_e / p.gamma;
  for (int way = 0; way < transitions; way++) {
    a.weight[way] = p.step_weight[way], a.penalty[way] = p.step_penalty[way] * a.scale;
    a.largest_weight = std::max(a.largest_weight, static_cast<float>(a.weight[way]));
    a.largest_penalty = std::max(a.largest_penalty, static_cast<float>(std::abs(a.penalty[way])));
  }
  a.value = b.value;
  a.grad_value = b.grad_value;
  a.grad_x = b.grad_x, a.grad_y = b.grad_y;
  a.dense = b.alignment;
  if (series && b.state) a.status = at<int>(b.state, plan.cuda.status);
  return a;
}

void call(const sdtw::Plan &plan, const Buffers &buffers, const SeriesOfPair *series, bool gradients) {
  const Args a = make_args(plan, buffers, series);
  const ShortPairs &its = plan.cuda.short_pairs;
  if (a.hard) return launch_hard(a, its, gradients, plan.exec.stream);
  if (its.steps == Steps::simple) return launch_steps(a, its, gradients, plan.exec.stream);
  if (its.steps == Steps::weighted) return launch_weights(a, its, gradients, plan.exec.stream);
  with_shape(its, [&](auto shape) { launch_phases<decltype(shape)>(a, gradients, plan.exec.stream); });
}

}  // namespace

bool are_fit(const sdtw::Plan &plan) {
  const ShortPairs &its = plan.cuda.short_pairs;
  if (!its.fit || prefers_slices()) return false;
  size_t shared = 0;
  const Problem &p = plan.problem;
  const auto columns = static_cast<int>(its.swapped ? p.n : p.m);
  with_shape(its, [&](auto shape) { shared = shared_bytes<true, decltype(shape)>(columns, p.metric); });
  if (its.steps != Steps::unit) shared = std::max(shared, shared_bytes_of_steps(its, columns, p.metric));
  return shared <= current_device().shared_memory;
}
void forward(const sdtw::Plan &plan, const Buffers &buffers, const SeriesOfPair *series) {
  call(plan, buffers, series, false);
}
void backward(const sdtw::Plan &plan, const Buffers &buffers, const SeriesOfPair *series) {
  call(plan, buffers, series, true);
}

}  // namespace sdtw::cuda::short_pairs
