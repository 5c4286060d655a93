#include "data.h"

namespace test {

namespace {

// One series [steps, features] of unit scale.
std::vector<double> series(Random &random, Data data, int64_t steps, int64_t features) {
  if (data == Data::smooth) return smooth_values(random, 1, steps, features);
  std::vector<double> values(steps * features);
  const auto step = [&](int64_t i) { return values.data() + i * features; };
  const auto fresh = [&](int64_t i) {
    for (int64_t f = 0; f < features; ++f) step(i)[f] = random.normal();
  };
  const auto repeat = [&](int64_t i) { std::copy(step(i - 1), step(i), step(i)); };
  const bool still = data == Data::constant || (data == Data::pulses && random.uniform() < 0.5);
  const int64_t flat_from = random.integer(0, steps - 1), flat_to = random.integer(flat_from, steps - 1);
  for (int64_t i = 0; i < steps; ++i) {
    const bool stays = still || (data == Data::steps && random.uniform() < 0.95) ||
                       (data == Data::flat && i > flat_from && i <= flat_to);
    if (i > 0 && stays) {
      repeat(i);
      continue;
    }
    fresh(i);
    for (int64_t f = 0; f < features; ++f) {
      if (data == Data::walk) step(i)[f] = step(i)[f] / 3 + (i > 0 ? step(i - 1)[f] : 0);
      if (data == Data::quantised) step(i)[f] = std::round(2 * step(i)[f]) / 2;
      if (data == Data::integers) step(i)[f] = std::round(2 * step(i)[f]);
    }
  }
  if (data == Data::spikes)
    for (int64_t k = random.integer(1, 3); k > 0; --k) {
      const int64_t i = random.integer(0, steps - 1);
      const double factor = one_of(random, {1e2, 1e4, 1e6});
      for (int64_t f = 0; f < features; ++f) step(i)[f] = factor * random.normal();
    }
  if (data == Data::pulses)
    for (int64_t k = random.integer(1, 3); k > 0; --k) {
      const int64_t from = random.integer(0, steps - 1), to = std::min(steps, from + random.integer(1, 8));
      const double height = std::pow(10.0, 4 * random.uniform());
      for (int64_t i = from; i < to; ++i)
        for (int64_t f = 0; f < features; ++f) step(i)[f] += height;
    }
  if (data == Data::padded) std::fill(step(random.integer(0, steps)), values.data() + values.size(), 0);
  return values;
}

std::vector<double> repeated(const std::vector<double> &pattern, int64_t from, int64_t steps, int64_t features) {
  std::vector<double> values(steps * features);
  for (size_t k = 0; k < values.size(); ++k) values[k] = pattern[(from * features + k) % pattern.size()];
  return values;
}

}  // namespace

SeriesPair series_pair(Random &random, Data data, int64_t n, int64_t m, int64_t features, double scale) {
  SeriesPair pair;
  if (data == Data::periodic) {
    const auto pattern = series(random, Data::noise, random.integer(1, 12), features);
    pair.x = repeated(pattern, 0, n, features);
    pair.y = repeated(pattern, random.integer(0, 11), m, features);
  } else if (data == Data::equal || data == Data::near || data == Data::shifted) {
    const bool near = data == Data::near;
    pair.x = series(random, near ? one_of(random, {Data::noise, Data::walk, Data::smooth}) : Data::noise, n, features);
    const double noise = near ? std::pow(10.0, -1 - 6 * random.uniform()) : 0;
    const double shift = data == Data::shifted ? std::pow(10.0, -6 * random.uniform()) : 0;
    for (int64_t j = 0; j < m; ++j)
      for (int64_t f = 0; f < features; ++f)
        pair.y.push_back(pair.x[j * n / m * features + f] + shift + (near ? noise * random.normal() : 0));
  } else {
    pair.x = series(random, data, n, features);
    pair.y = series(random, data, m, features);
  }
  const double offset = data == Data::offset ? one_of(random, {1e2, 1e4, 1e6}) : 0;
  std::vector<double> scales(features, scale);
  if (data == Data::uneven)
    for (double &of_feature : scales) of_feature *= std::pow(10.0, 6 * random.uniform() - 3);
  for (std::vector<double> *values : {&pair.x, &pair.y})
    for (size_t k = 0; k < values->size(); ++k) (*values)[k] = narrow(scales[k % features] * ((*values)[k] + offset));
  return pair;
}

namespace {

// Walls of infinite costs, and through them one path of costs that are a little less than half of `unit`, beside
// others of some thirty. Along the path numbers with a common exponent shrink, and the walls' cells with them.
std::vector<double> walled_costs(Random &random, int64_t n, int64_t m, double unit) {
  std::vector<double> cost(n * m);
  for (double &c : cost) c = narrow(unit * (30 + random.normal()));
  for (int64_t k = random.integer(1, 14); k > 0; --k) {
    const int64_t top = random.integer(0, n - 1), left = random.integer(0, m - 1);
    const int64_t bottom = std::min(n, top + random.integer(1, 24)), right = std::min(m, left + random.integer(1, 24));
    for (int64_t i = top; i < bottom; ++i) std::fill(&cost[i * m] + left, &cost[i * m] + right, INFINITY);
  }
  const double down = one_of(random, {0.1, 0.5, 0.9}), aslant = one_of(random, {0., 0.5});
  for (int64_t i = 0, j = 0;;) {
    cost[i * m + j] = narrow(0.4999 * unit);
    const bool below = i < n - 1, beside = j < m - 1;
    if (!below && !beside) return cost;
    const bool both = below && beside && random.uniform() < aslant;
    const bool moves_down = both || (below && (!beside || random.uniform() < down));
    i += moves_down, j += both || !moves_down;
  }
}

}  // namespace

std::vector<double> costs(Random &random, Data data, int64_t n, int64_t m, double scale, double gamma) {
  std::vector<double> cost(n * m);
  const double kind = random.uniform(), unit = gamma / std::log2(std::exp(1.0));
  if (data == Data::walls) return walled_costs(random, n, m, unit);
  if (data == Data::integers) {
    for (double &c : cost) c = narrow(scale * static_cast<double>(random.integer(0, 8)));
    return cost;
  }
  if (data == Data::constant) {
    const double whole = std::floor(std::pow(10.0, 3 * random.uniform()) - 1);
    const double t = kind < 0.3 ? scale : unit * (whole + one_of(random, {0.0, 0.48, 0.4999, 0.5, 0.5001, 0.52}));
    std::fill(cost.begin(), cost.end(), narrow(kind > 0.9 ? -t : t));
    return cost;
  }
  if (kind < 0.2) {
    for (double &c : cost) c = narrow(scale * random.normal());
    return cost;
  }
  const SeriesPair pair = series_pair(random, data, n, m, 2, std::sqrt(scale));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j)
      cost[i * m + j] = narrow(oracle::sqeuclidean<double>(&pair.x[2 * i], &pair.y[2 * j], 2));
  return cost;
}

}  // namespace test
