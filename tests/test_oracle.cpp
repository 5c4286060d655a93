// The oracle itself: against the sum over every alignment of tiny pairs, and its gradients against differences.
#include "catch.h"
#include "inputs.h"
#include "oracle.h"

namespace {

using Real = long double;

// Every alignment of an n x m pair, walked from the first cell: the definition, without any recursion over values.
struct Enumeration {
  int64_t n, m;
  Real gamma;
  const std::vector<Real> &cost;
  std::vector<int64_t> path = {};
  Real least = oracle::infinity<Real>, total = 0;
  std::vector<Real> visits = {};

  template <class F>
  void walk(int64_t i, int64_t j, Real sum, const F &finish) {
    path.push_back(i * m + j);
    sum += cost[i * m + j];
    if (i == n - 1 && j == m - 1) finish(sum);
    if (i < n - 1 && j < m - 1) walk(i + 1, j + 1, sum, finish);
    if (i < n - 1) walk(i + 1, j, sum, finish);
    if (j < m - 1) walk(i, j + 1, sum, finish);
    path.pop_back();
  }

  oracle::Pair<Real> solve() {
    walk(0, 0, 0, [&](Real sum) { least = std::min(least, sum); });
    visits.assign(n * m, 0);
    if (std::isinf(least)) return {least, visits};
    walk(0, 0, 0, [&](Real sum) {
      const Real weight = std::exp((least - sum) / gamma);
      total += weight;
      for (const int64_t cell : path) visits[cell] += weight;
    });
    for (Real &visit : visits) visit /= total;
    return {least - gamma * std::log(total), visits};
  }
};

void check_against_enumeration(int64_t n, int64_t m, Real gamma, const std::vector<Real> &cost) {
  const oracle::Pair<Real> expected = Enumeration{n, m, gamma, cost}.solve();
  const oracle::Pair<Real> pair =
      oracle::soft_dtw<Real>(n, m, gamma, [&](int64_t i, int64_t j) { return cost[i * m + j]; });
  INFO("n " << n << " m " << m << " gamma " << gamma);
  if (std::isinf(expected.value))
    CHECK(pair.value == expected.value);
  else
    CHECK(std::abs(pair.value - expected.value) <= 1e-16L * (std::abs(expected.value) + gamma));
  REQUIRE(pair.alignment.size() == expected.alignment.size());
  for (size_t k = 0; k < pair.alignment.size(); ++k)
    CHECK(std::abs(pair.alignment[k] - expected.alignment[k]) <= 1e-16L * (1 + 1 / gamma));
}

}  // namespace

TEST_CASE("the oracle is the sum over every alignment", "[oracle]") {
  test::Random random(1);
  for (int64_t n = 1; n <= 5; ++n)
    for (int64_t m = 1; m <= 5; ++m)
      for (const Real gamma : {0.01L, 1.0L, 100.0L}) {
        std::vector<Real> cost(n * m);
        for (Real &d : cost) d = random.normal();  // negative costs too
        check_against_enumeration(n, m, gamma, cost);
        for (Real &d : cost)
          if (random.uniform() < 0.2) d = oracle::infinity<Real>;  // forbidden cells
        check_against_enumeration(n, m, gamma, cost);
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
  oracle::sqeuclidean_gradients(solve(), g, x.data(), y.data(), n, m, features, grad_x.data(), grad_y.data());
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
