// Identities that need no oracle: symmetries of soft-DTW, its limits in gamma, and its derivatives by differences.
#include "family.h"

using namespace test;

namespace {

bool close(const Result &a, const Result &b, const Errors &tolerance) {
  using test::close;
  return close(a.value, b.value, tolerance.value) && close(a.grad_x, b.grad_x, tolerance.gradient) &&
         close(a.grad_y, b.grad_y, tolerance.gradient) && close(a.alignment, b.alignment, tolerance.alignment);
}

// Reverses dimension 1 of [batch, steps, features].
std::vector<double> reversed_in_time(const std::vector<double> &from, int64_t batch, int64_t steps, int64_t features) {
  std::vector<double> to(from.size());
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < steps; ++i)
      for (int64_t k = 0; k < features; ++k)
        to[(b * steps + i) * features + k] = from[(b * steps + steps - 1 - i) * features + k];
  return to;
}

Errors twice(Errors e) { return {2 * e.value, 2 * e.gradient, 2 * e.alignment}; }

constexpr Size identity_sizes[] = {{1, 30}, {40, 50}, {130, 70}};
constexpr int64_t identity_batches[] = {1, 17};

// f(case) for sizes and batches of either mapping, on every backend and in both dtypes.
template <class F>
void each_variant(uint64_t seed, sdtw_metric metric, const F &f) {
  for (const Size &size : identity_sizes)
    for (const int64_t batch : identity_batches) {
      if (batch > 1 && size.n > 100) continue;
      for (const Case &c : variants(random_case(++seed, metric, batch, size.n, size.m, 2, 1))) {
        INFO(describe(c));
        f(c);
      }
    }
}

}  // namespace

TEST_CASE("swapping x and y transposes everything", "[identities]") {
  each_variant(7000, SDTW_SQEUCLIDEAN, [](const Case &c) {
    Case swapped = c;
    std::swap(swapped.x, swapped.y);
    std::swap(swapped.problem.n, swapped.problem.m);
    Result there = run(swapped);
    std::swap(there.grad_x, there.grad_y);
    there.alignment = transposed_pairs(there.alignment, c.batch(), c.problem.m, c.problem.n);
    CHECK(close(there, run(c), twice(bounds(c))));
  });
}

TEST_CASE("reversing time reverses everything", "[identities]") {
  each_variant(7100, SDTW_SQEUCLIDEAN, [](const Case &c) {
    const sdtw_problem &p = c.problem;
    Case back = c;
    back.x = reversed_in_time(c.x, c.batch(), p.n, p.features);
    back.y = reversed_in_time(c.y, c.batch(), p.m, p.features);
    Result there = run(back);
    there.grad_x = reversed_in_time(there.grad_x, c.batch(), p.n, p.features);
    there.grad_y = reversed_in_time(there.grad_y, c.batch(), p.m, p.features);
    there.alignment = reversed_in_time(there.alignment, c.batch(), p.n, p.m);
    there.alignment = transposed_pairs(there.alignment, c.batch(), p.n, p.m);
    there.alignment = reversed_in_time(there.alignment, c.batch(), p.m, p.n);
    there.alignment = transposed_pairs(there.alignment, c.batch(), p.m, p.n);
    CHECK(close(there, run(c), twice(bounds(c))));
  });
}

TEST_CASE("moving both series together changes nothing", "[identities]") {
  each_variant(7200, SDTW_SQEUCLIDEAN, [](Case c) {
    // On a grid of 2^-10 the shift is exact in float32.
    for (auto *series : {&c.x, &c.y})
      for (double &v : *series) v = std::round(v * 1024) / 1024;
    const Result here = run(c);
    for (auto *series : {&c.x, &c.y})
      for (double &v : *series) v += 32;
    CHECK(close(run(c), here, bounds(c)));
  });
}

TEST_CASE("scaling series by 2 and gamma by 4 scales the value by 4", "[identities]") {
  each_variant(7300, SDTW_SQEUCLIDEAN, [](Case c) {
    Result here = run(c);
    for (auto *series : {&c.x, &c.y})
      for (double &v : *series) v *= 2;
    c.problem.gamma *= 4;
    for (double &v : here.value) v *= 4;
    for (auto *gradient : {&here.grad_x, &here.grad_y})
      for (double &v : *gradient) v *= 2;
    CHECK(close(run(c), here, bounds(c)));
  });
}

TEST_CASE("permuting the batch permutes the results", "[identities]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const int64_t batch : {3, 18}) {
      Random random(7400);
      Case base = make_case(metric, batch, 30, 40, 2, 1);
      fill(base, random, 0.5);  // pairs that share vectors share the precision of costs: here it is float32's for all
      for (const Case &c : variants(base)) {
        const auto backwards = [&](const std::vector<double> &from) {
          return reversed_in_time(from, 1, batch, static_cast<int64_t>(from.size()) / batch);
        };
        Case permuted = c;
        permuted.x = backwards(c.x);
        permuted.y = backwards(c.y);
        Result there = run(permuted);
        for (auto *array : {&there.value, &there.grad_x, &there.grad_y, &there.alignment}) *array = backwards(*array);
        INFO(describe(c));
        CHECK(same(there, run(c)));
      }
    }
}

TEST_CASE("series and their cost matrix agree", "[identities]") {
  each_variant(7500, SDTW_SQEUCLIDEAN, [](const Case &c) {
    const sdtw_problem &p = c.problem;
    Case given = c;
    given.problem.metric = SDTW_PRECOMPUTED;
    given.problem.features = 0;
    given.x.clear();
    for (int64_t b = 0; b < c.batch(); ++b)
      for (int64_t i = 0; i < p.n; ++i)
        for (int64_t j = 0; j < p.m; ++j)
          given.x.push_back(oracle::sqeuclidean<double>(&c.x[(b * p.n + i) * 2], &c.y[(b * p.m + j) * 2], 2));
    const Result a = run(given), b = run(c);
    CHECK(close(a.value, b.value, 2 * bounds(c).value));
    CHECK(close(a.alignment, b.alignment, 2 * bounds(c).alignment));
  });
}

TEST_CASE("the gradients of x and of y sum to nothing", "[identities]") {
  each_variant(7600, SDTW_SQEUCLIDEAN, [](const Case &c) {
    const Result result = run(c);
    const sdtw_problem &p = c.problem;
    for (int64_t b = 0; b < c.batch(); ++b)
      for (int64_t k = 0; k < p.features; ++k) {
        double sum = 0, size = 0;
        const auto add = [&](double g) {
          sum += g;
          size += std::abs(g);
        };
        for (int64_t i = 0; i < p.n; ++i) add(result.grad_x[(b * p.n + i) * p.features + k]);
        for (int64_t j = 0; j < p.m; ++j) add(result.grad_y[(b * p.m + j) * p.features + k]);
        CHECK(std::abs(sum) <= (p.dtype == SDTW_F64 ? 1e-13 : 1e-5) * size);
      }
  });
}

TEST_CASE("the value falls as gamma grows, and tends to hard DTW", "[identities]") {
  constexpr int64_t n = 60, m = 45;
  Case base = random_case(7700, SDTW_SQEUCLIDEAN, 1, n, m, 2, 1);
  std::vector<double> r((n + 1) * (m + 1), INFINITY);
  r[0] = 0;
  for (int64_t i = 1; i <= n; ++i)
    for (int64_t j = 1; j <= m; ++j) {
      const int64_t cell = i * (m + 1) + j;
      r[cell] = std::min({r[cell - m - 2], r[cell - m - 1], r[cell - 1]}) +
                oracle::sqeuclidean<double>(&base.x[(i - 1) * 2], &base.y[(j - 1) * 2], 2);
    }
  for (Case c : variants(base)) {
    const double rounding = c.problem.dtype == SDTW_F64 ? 1e-12 : 1e-6;
    double smaller = r.back();
    for (const double gamma : {1e-7, 1e-6, 1e-4, 1e-2, 1.0, 1e2, 1e4}) {
      c.problem.gamma = gamma;
      const double value = run(c).value[0];
      INFO(describe(c));
      CHECK(value <= smaller + rounding * std::abs(smaller));
      // There are fewer than 3^(n + m) paths.
      CHECK(value >= r.back() - gamma * static_cast<double>(n + m) * std::log(3.0) - rounding * r.back());
      smaller = value;
    }
  }
}

TEST_CASE("gradients are the differences of values", "[identities]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    each_variant(7800, metric, [&](Case c) {
      if (c.problem.dtype != SDTW_F64) return;
      Random random(7801);
      const Result here = run(c);
      const auto check_along = [&](std::vector<double> &input, const std::vector<double> &gradient) {
        const std::vector<double> direction = normal_values(random, static_cast<int64_t>(input.size()));
        const std::vector<double> origin = input;
        const auto moved = [&](double step) {
          for (size_t k = 0; k < input.size(); ++k) input[k] = origin[k] + step * direction[k];
          return run(c).value;
        };
        constexpr double step = 1e-5;
        const std::vector<double> above = moved(step), below = moved(-step);
        input = origin;
        const size_t count = input.size() / static_cast<size_t>(c.batch());
        for (int64_t b = 0; b < c.batch(); ++b) {
          double slope = 0, size = 0;
          for (size_t k = b * count; k < (b + 1) * count; ++k) {
            slope += gradient[k] * direction[k];
            size += std::abs(gradient[k] * direction[k]);
          }
          CHECK(std::abs((above[b] - below[b]) / (2 * step) - slope) <= 1e-6 * (1 + size));
        }
      };
      check_along(c.x, here.grad_x);
      if (c.fused()) check_along(c.y, here.grad_y);
    });
}
