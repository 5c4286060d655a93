#include "inputs.h"

namespace test {

std::vector<double> normal_values(Random &random, int64_t count, double scale) {
  std::vector<double> values(count);
  for (double &value : values) value = narrow(scale * random.normal());
  return values;
}

std::vector<double> smooth_values(Random &random, int64_t batch, int64_t steps, int64_t features) {
  constexpr int waves = 4;
  std::vector<double> values(batch * steps * features);
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t k = 0; k < features; ++k) {
      double frequency[waves], phase[waves];
      for (int w = 0; w < waves; ++w) {
        frequency[w] = 2 * M_PI * (1 + 7 * random.uniform());
        phase[w] = 2 * M_PI * random.uniform();
      }
      for (int64_t i = 0; i < steps; ++i) {
        double sum = 0;
        for (int w = 0; w < waves; ++w)
          sum += std::sin(frequency[w] * static_cast<double>(i) / static_cast<double>(steps) + phase[w]);
        values[(b * steps + i) * features + k] = narrow(sum * std::sqrt(2.0 / waves));
      }
    }
  return values;
}

Case &fill(Case &c, Random &random, double scale) {
  const auto count = [](const Shape &shape) { return shape[0] * shape[1] * shape[2]; };
  c.x = normal_values(random, count(c.shape_x()), scale);
  if (c.has_y())
    c.y = normal_values(random, count(c.shape_y()), scale);
  else if (!c.fused())
    for (double &cost : c.x) cost = narrow(cost * cost);
  return c;
}

Case random_case(uint64_t seed, sdtw_metric metric, int64_t batch, int64_t n, int64_t m, int64_t features,
                 double gamma) {
  Random random(seed);
  Case c = make_case(metric, batch, n, m, features, gamma);
  c.data = "data=normal seed=" + std::to_string(seed);
  return fill(c, random);
}

Case &with_lengths(Case &c, Random &random, int64_t least) {
  c.x_len.resize(c.series_x());
  c.y_len.resize(c.symmetric() ? 0 : c.series_y());
  const size_t most = std::max(c.x_len.size(), c.y_len.size());
  for (size_t b = 0; b < most; ++b) {
    if (b < c.x_len.size()) c.x_len[b] = b == 0 ? c.problem.n : random.integer(least, c.problem.n);
    if (b < c.y_len.size()) c.y_len[b] = b == c.y_len.size() - 1 ? c.problem.m : random.integer(least, c.problem.m);
  }
  return c;
}

Case &with_grad_value(Case &c, Random &random) {
  c.grad_value = normal_values(random, c.batch());
  return c;
}

}  // namespace test
