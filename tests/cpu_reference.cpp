#include "cpu_reference.h"

namespace test {

namespace {

// Sets what errors of pair b are relative to, from its alignment. Of step weights and penalties the largest counts.
void add_cpu_scales(const Case &c, const Result &result, int64_t b, Reference<double> &ref) {
  using Dual = oracle::Dual<double>;
  const sdtw_problem &p = c.problem;
  const int64_t step = p.n * p.m, columns = c.shape_x()[2], features = p.features;
  const auto [least, most] = std::minmax_element(p.step_weight, p.step_weight + 3);
  const double least_weight = *least, weight = *most;
  int64_t steady = 0;
  double penalty = 0, path = 0, along = 0, square = 0;
  CosineTerms terms;
  for (const double v : p.step_penalty) penalty = std::max(penalty, std::abs(v));
  const bool tangents = !result.value_tangent.empty();
  std::vector<Dual> xi(columns), yj(features);
  const auto take = [&](std::vector<Dual> &to, const std::vector<double> &v, const std::vector<double> &t, size_t at) {
    for (size_t k = 0; k < to.size(); ++k) to[k] = {v[at + k], t.empty() ? 0 : t[at + k]};
  };
  const auto x_at = [&](int64_t i) { return size_t((b * p.n + i) * columns); };
  const auto y_at = [&](int64_t j) { return size_t((b * p.m + j) * features); };
  // Of lengths out of range there is no alignment, and they may be more than it has room for.
  const bool aligned = !result.alignment.empty() && c.length_x(b) <= p.n && c.length_y(b) <= p.m;
  for (int64_t i = 0; aligned && i < c.length_x(b); ++i) {
    take(xi, c.x, c.tangent_x, x_at(i));
    for (int64_t j = 0; j < c.length_y(b); ++j) {
      const double e = result.alignment[b * step + i * p.m + j];
      if (e == 0) continue;
      if (c.fused()) take(yj, c.y, c.tangent_y, y_at(j));
      const Dual cost = c.fused() ? oracle::metric_cost<Dual>(p.metric, xi.data(), yj.data(), features) : xi[j];
      path += e * (weight * std::abs(cost.v) + penalty + (p.metric == SDTW_COSINE ? 1 : 0));
      steady += e > 0.5 && costs_nothing(c, least_weight * cost.v);
      along += weight * e * std::abs(cost.d), square += weight * weight * e * cost.d * cost.d;
      if (p.metric != SDTW_COSINE) continue;
      const double g = c.grad_value.empty() ? 1 : std::abs(c.grad_value[b]);
      terms.add(weight * e * g, oracle::Products<double>(&c.x[x_at(i)], &c.y[y_at(j)], features), p.dtype);
    }
  }
  ref.scale.push_back(value_scale(c, b, result.value[b], path, steady));
  const auto largest = [&](const std::vector<double> &x, const std::vector<double> &y) {
    const int64_t step_x = p.n * columns, step_y = p.m * features;
    return std::max(x.empty() ? 0 : max_norm(x.data() + b * step_x, step_x),
                    y.empty() ? 0 : max_norm(y.data() + b * step_y, step_y));
  };
  const double gradient = largest(result.grad_x, result.grad_y);
  ref.grad_x_scale.push_back(gradient + terms.slope);
  if (!tangents) return;
  const double spread = p.gamma > 0 ? std::sqrt(square) / p.gamma : 0;
  ref.value_tangent_scale.push_back(along);
  ref.grad_x_tangent_scale.push_back(
      std::max(largest(result.grad_x_tangent, result.grad_y_tangent), spread * (gradient + terms.whole)));
}

}  // namespace

Reference<double> cpu_reference(Case c, int32_t threads) {
  c.problem.dtype = SDTW_F64;
  c.exec.device = SDTW_CPU;
  c.exec.cpu_isa = SDTW_CPU_ISA_AUTO;
  c.exec.num_threads = threads;
  Result result = run(c);
  Reference<double> ref;
  for (int64_t b = 0; b < c.batch(); ++b) add_cpu_scales(c, result, b, ref);
  ref.value = std::move(result.value);
  ref.grad_x = std::move(result.grad_x);
  ref.grad_y = std::move(result.grad_y);
  ref.alignment = std::move(result.alignment);
  ref.value_tangent = std::move(result.value_tangent);
  ref.grad_x_tangent = std::move(result.grad_x_tangent);
  ref.grad_y_tangent = std::move(result.grad_y_tangent);
  return ref;
}

}  // namespace test
