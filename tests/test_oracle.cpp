// The oracle itself: against the sum over every alignment of tiny pairs, and its gradients against differences.
#include "catch.h"
#include "inputs.h"
#include "oracle_metrics.h"
#include "storage.h"

namespace {

using Real = long double;

// Every alignment of an n x m pair, walked from the first cell: the definition, without any recursion over values.
struct Enumeration {
  int64_t n, m;
  oracle::Rule rule;
  const std::vector<Real> &cost;
  struct Step {
    int64_t cell;
    int kind;  // diagonal, vertical, horizontal
  };
  std::vector<Step> path = {};
  Real least = oracle::infinity<Real>, total = 0;

  template <class F>
  void walk(int64_t i, int64_t j, int kind, Real sum, const F &finish) {
    if (!oracle::admits(rule, n, m, i, j)) return;
    const bool first = path.empty();
    path.push_back({i * m + j, kind});
    if (std::isinf(cost[i * m + j]))
      sum = oracle::infinity<Real>;
    else
      sum += static_cast<Real>(rule.weight[kind]) * cost[i * m + j] + static_cast<Real>(first ? 0 : rule.penalty[kind]);
    if (i == n - 1 && j == m - 1) finish(sum);
    if (i < n - 1 && j < m - 1) walk(i + 1, j + 1, 0, sum, finish);
    if (i < n - 1) walk(i + 1, j, 1, sum, finish);
    if (j < m - 1) walk(i, j + 1, 2, sum, finish);
    path.pop_back();
  }

  oracle::Pair<Real> solve() {
    walk(0, 0, 0, 0, [&](Real sum) { least = std::min(least, sum); });
    oracle::Pair<Real> pair{least, std::vector<Real>(n * m), std::vector<Real>(n * m)};
    if (std::isinf(least)) return pair;
    walk(0, 0, 0, 0, [&](Real sum) {
      const Real weight = std::exp((least - sum) / static_cast<Real>(rule.gamma));
      total += weight;
      for (const Step &step : path) {
        pair.alignment[step.cell] += weight;
        pair.gradient[step.cell] += weight * static_cast<Real>(rule.weight[step.kind]);
      }
    });
    for (auto *sums : {&pair.alignment, &pair.gradient})
      for (Real &sum : *sums) sum /= total;
    pair.value = least - static_cast<Real>(rule.gamma) * std::log(total);
    return pair;
  }
};

void check_against_enumeration(int64_t n, int64_t m, const oracle::Rule &rule, const std::vector<Real> &cost) {
  const oracle::Pair<Real> expected = Enumeration{n, m, rule, cost}.solve();
  const oracle::Pair<Real> pair =
      oracle::soft_dtw<Real>(n, m, rule, [&](int64_t i, int64_t j) { return cost[i * m + j]; });
  const auto gamma = static_cast<Real>(rule.gamma);
  INFO("n " << n << " m " << m << " gamma " << rule.gamma << " band " << rule.band << ":" << rule.radius);
  if (std::isinf(expected.value))
    CHECK(pair.value == expected.value);
  else
    CHECK(std::abs(pair.value - expected.value) <= 1e-16L * (std::abs(expected.value) + gamma));
  REQUIRE(pair.alignment.size() == expected.alignment.size());
  for (size_t k = 0; k < pair.alignment.size(); ++k) {
    CHECK(std::abs(pair.alignment[k] - expected.alignment[k]) <= 1e-16L * (1 + 1 / gamma));
    CHECK(std::abs(pair.gradient[k] - expected.gradient[k]) <= 3e-16L * (1 + 1 / gamma));
  }
}

std::vector<oracle::Rule> rules() {
  std::vector<oracle::Rule> result(1);
  for (const auto &[band, radius] :
       {std::pair<sdtw_band, double>{SDTW_BAND_SAKOE_CHIBA, 1}, {SDTW_BAND_ABSOLUTE, 1.5}, {SDTW_BAND_ITAKURA, 2}}) {
    result.emplace_back();
    result.back().band = band;
    result.back().radius = radius;
  }
  for (oracle::Rule rule : std::vector<oracle::Rule>(result)) {
    const double weight[] = {2, 1, 0.5}, penalty[] = {0.25, -0.5, 1};
    std::copy(weight, weight + 3, rule.weight);
    std::copy(penalty, penalty + 3, rule.penalty);
    result.push_back(rule);
  }
  return result;
}

}  // namespace

TEST_CASE("the oracle is the sum over every alignment", "[oracle]") {
  test::Random random(1);
  for (int64_t n = 1; n <= 5; ++n)
    for (int64_t m = 1; m <= 5; ++m)
      for (oracle::Rule rule : rules())
        for (const double gamma : {0.01, 1.0, 100.0}) {
          rule.gamma = gamma;
          std::vector<Real> cost(n * m);
          for (Real &d : cost) d = random.normal();  // negative costs too
          check_against_enumeration(n, m, rule, cost);
          for (Real &d : cost)
            if (random.uniform() < 0.2) d = oracle::infinity<Real>;  // forbidden cells
          check_against_enumeration(n, m, rule, cost);
        }
}

TEST_CASE("at gamma = 0 the oracle has the best path, ties diagonal, vertical, horizontal", "[oracle]") {
  test::Random random(2);
  for (int64_t n = 1; n <= 5; ++n)
    for (int64_t m = 1; m <= 5; ++m)
      for (oracle::Rule rule : rules()) {
        rule.gamma = 0;
        std::vector<Real> cost(n * m);
        for (Real &d : cost) d = static_cast<Real>(random.integer(0, 2));
        // Of the best paths, read from the end, the one of which each step is the first that can be.
        Enumeration all{n, m, rule, cost};
        std::vector<int> best;
        std::vector<Real> expected(n * m, 0);
        all.walk(0, 0, 0, 0, [&](Real sum) { all.least = std::min(all.least, sum); });
        if (!std::isinf(all.least))
          all.walk(0, 0, 0, 0, [&](Real sum) {
            std::vector<int> kinds;
            for (auto step = all.path.rbegin(); step != all.path.rend() - 1; ++step) kinds.push_back(step->kind);
            if (sum != all.least || (!best.empty() && !(kinds < best))) return;
            best = kinds;
            std::fill(expected.begin(), expected.end(), Real(0));
            for (const auto &step : all.path) expected[step.cell] = 1;
          });
        const auto pair = oracle::soft_dtw<Real>(n, m, rule, [&](int64_t i, int64_t j) { return cost[i * m + j]; });
        INFO("n " << n << " m " << m << " band " << rule.band);
        CHECK(pair.value == all.least);
        CHECK(pair.alignment == expected);
      }
}

TEST_CASE("the oracle's tangents are differences of its gradients", "[oracle]") {
  constexpr int64_t n = 4, m = 3, features = 2;
  constexpr Real step = 1e-7L;
  test::Random random(4);
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_EUCLIDEAN, SDTW_CITYBLOCK, SDTW_COSINE})
    for (oracle::Rule rule : rules()) {
      rule.gamma = 0.7;
      if (rule.band == SDTW_BAND_ABSOLUTE) rule.radius = 2;
      std::vector<Real> x(n * features), y(m * features), tx(x.size()), ty(y.size());
      for (auto *values : {&x, &y, &tx, &ty})
        for (Real &v : *values) v = random.normal();
      const auto solve = [&](const auto &a, const auto &b, auto &grad_a, auto &grad_b) {
        using Number = std::decay_t<decltype(a[0])>;
        const auto pair = oracle::soft_dtw<Number>(n, m, rule, [&](int64_t i, int64_t j) {
          return oracle::metric_cost<Number>(metric, &a[i * features], &b[j * features], features);
        });
        grad_a.assign(a.size(), Number(0)), grad_b.assign(b.size(), Number(0));
        oracle::add_gradients(metric, pair, Number(-1.5L), a.data(), b.data(), n, m, features, grad_a.data(),
                              grad_b.data());
        return pair.value;
      };
      const auto moved = [&](Real by) {
        std::vector<Real> a = x, b = y, of_a, of_b;
        for (size_t k = 0; k < a.size(); ++k) a[k] += by * tx[k];
        for (size_t k = 0; k < b.size(); ++k) b[k] += by * ty[k];
        const Real value = solve(a, b, of_a, of_b);
        of_a.insert(of_a.end(), of_b.begin(), of_b.end());
        of_a.push_back(value);
        return of_a;
      };
      std::vector<oracle::Dual<Real>> a(x.begin(), x.end()), b(y.begin(), y.end()), of_a, of_b;
      for (size_t k = 0; k < a.size(); ++k) a[k].d = tx[k];
      for (size_t k = 0; k < b.size(); ++k) b[k].d = ty[k];
      const auto value = solve(a, b, of_a, of_b);
      of_a.insert(of_a.end(), of_b.begin(), of_b.end());
      of_a.push_back(value);
      const std::vector<Real> above = moved(step), below = moved(-step);
      Real along = 0;  // the value's own derivative, from the gradients
      for (size_t k = 0; k < of_a.size(); ++k) {
        INFO("metric " << metric << " band " << rule.band << " entry " << k);
        CHECK(std::abs((above[k] - below[k]) / (2 * step) - of_a[k].d) < 1e-8L);
        if (k + 1 < of_a.size()) along += of_a[k].v * (k < tx.size() ? tx[k] : ty[k - tx.size()]);
      }
      CHECK(std::abs(along + 1.5L * value.d) < 1e-14L);
    }
}

TEST_CASE("halves are stored as IEEE has them", "[oracle]") {
  using test::half_bits, test::half_value;
  CHECK(half_bits(SDTW_F16, 1) == 0x3c00);
  CHECK(half_bits(SDTW_F16, -2.5) == 0xc100);
  CHECK(half_bits(SDTW_F16, 65504) == 0x7bff);
  CHECK(half_bits(SDTW_F16, 65520) == 0x7c00);
  CHECK(half_bits(SDTW_F16, 0x1p-24) == 1);
  CHECK(half_bits(SDTW_F16, 0x1p-25) == 0);
  CHECK(half_bits(SDTW_F16, 1 + 0x1p-11) == 0x3c00);  // ties to even
  CHECK(half_bits(SDTW_BF16, 1) == 0x3f80);
  CHECK(half_bits(SDTW_BF16, -3.140625) == 0xc049);
  CHECK(half_bits(SDTW_BF16, HUGE_VAL) == 0x7f80);
  for (const sdtw_dtype dtype : {SDTW_F16, SDTW_BF16})
    for (int bits = 0; bits < 0x10000; ++bits) {
      const double value = half_value(dtype, static_cast<uint16_t>(bits));
      if (!std::isnan(value) && half_bits(dtype, value) != bits) FAIL("bits " << bits << " of dtype " << dtype);
    }
}

TEST_CASE("the oracle knows empty and invalid pairs", "[oracle]") {
  const auto nothing = [](int64_t, int64_t) -> Real { return 0; };
  CHECK(oracle::soft_dtw<Real>(0, 0, 1, nothing).value == 0);
  CHECK(std::isinf(oracle::soft_dtw<Real>(0, 3, 1, nothing).value));
  CHECK(std::isinf(oracle::soft_dtw<Real>(3, 0, 1, nothing).value));
  for (const Real bad : {oracle::not_a_number<Real>, -oracle::infinity<Real>}) {
    const auto pair = oracle::soft_dtw<Real>(3, 3, 1, [&](int64_t i, int64_t j) { return i == 2 && j == 0 ? bad : 1; });
    CHECK(std::isnan(pair.value));
    for (const Real e : pair.alignment) CHECK(std::isnan(e));
  }
}

TEST_CASE("the oracle's gradients are those of its value", "[oracle]") {
  constexpr int64_t n = 4, m = 3, features = 2;
  constexpr Real gamma = 0.7L, step = 1e-6L, g = -1.5L;
  test::Random random(2);
  std::vector<Real> x(n * features), y(m * features), grad_x(x.size()), grad_y(y.size());
  for (Real &v : x) v = random.normal();
  for (Real &v : y) v = random.normal();
  const auto solve = [&] {
    return oracle::soft_dtw<Real>(n, m, gamma, [&](int64_t i, int64_t j) {
      return oracle::sqeuclidean<Real>(&x[i * features], &y[j * features], features);
    });
  };
  oracle::add_gradients(SDTW_SQEUCLIDEAN, solve(), g, x.data(), y.data(), n, m, features, grad_x.data(), grad_y.data());
  const auto difference = [&](Real &entry) {
    const Real here = entry;
    entry = here + step;
    const Real above = solve().value;
    entry = here - step;
    const Real below = solve().value;
    entry = here;
    return g * (above - below) / (2 * step);
  };
  for (size_t k = 0; k < x.size(); ++k) CHECK(std::abs(difference(x[k]) - grad_x[k]) < 1e-9L);
  for (size_t k = 0; k < y.size(); ++k) CHECK(std::abs(difference(y[k]) - grad_y[k]) < 1e-9L);
}
