// Gradients with respect to x, y and the cost: the oracle's, over shapes, upstream gradients and absent outputs.
#include "check.h"
#include "data.h"
#include "family.h"

using namespace test;

TEST_CASE("gradients of every shape are the oracle's", "[gradients]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    each_shape(1000, 40000, [&](uint64_t seed, int64_t batch, int64_t n, int64_t m) {
      Random random(seed);
      Case base = random_case(seed, metric, batch, n, m, 1 + static_cast<int64_t>(seed % 4), seed % 3 ? 1.0 : 0.1);
      base.want_alignment = false;
      if (seed % 2) with_grad_value(base, random);
      check_everywhere(base);
    });
}

TEST_CASE("gradients at many features", "[gradients]") {
  uint64_t seed = 1100;
  for (const int64_t features : {5, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100})
    for (const int64_t batch : {1, 16}) {
      Case base = random_case(++seed, SDTW_SQEUCLIDEAN, batch, 33, 20, features, 1);
      base.want_alignment = false;
      check_everywhere(base);
    }
}

// Where E is in many cells of a pair of several strips the CUDA backend multiplies matrices.
TEST_CASE("gradients where paths spread over many cells", "[gradients]") {
  for (const char *rest : {
           "n=190 m=150 d=32 gamma=30 seed=1",
           "n=140 m=200 d=25 gamma=1000 lengths=1 grad=random seed=2",
           "n=150 m=130 d=33 gamma=300 layout=mixed seed=3",
           "n=129 m=140 d=63 gamma=100 data=walk seed=4",
           "n=260 m=128 d=36 gamma=1e4 data=offset seed=5",
           "n=160 m=160 d=28 gamma=100 data=equal seed=6",
           "n=140 m=110 d=70 gamma=1e6 seed=7",
       })
    check_line(std::string("metric=sqeuclidean dtype=f32 B=2 ") + rest);
  check_line("metric=sqeuclidean dtype=f32 B=1 n=140 m=500 d=25 gamma=1e4 seed=8");  // strips in turns: no room in side
  check_line("metric=sqeuclidean dtype=f32 B=1 n=130 m=120 d=140 gamma=500 seed=9");
  for (const char *rest : {"n=170 m=150 d=32 gamma=1 lengths=1 seed=10", "n=140 m=130 d=64 gamma=5 data=padded seed=11",
                           "n=135 m=135 d=30 gamma=1 seed=12"})
    check_line(std::string("metric=cosine dtype=f32 B=2 grad=random ") + rest);
}

TEST_CASE("a gradient that tslearn publishes", "[gradients]") {
  Case base = make_case(SDTW_SQEUCLIDEAN, 1, 3, 3, 1, 1);
  base.x = {1, 2, 3};
  base.y = {3, 4, -3};
  const double expected[] = {-4.0001, -2.2852, 10.1643};
  for (const Case &c : variants(base)) {
    const Result result = run(c);
    INFO(describe(c));
    for (int i = 0; i < 3; ++i) CHECK(std::abs(result.grad_x[i] - expected[i]) < 1e-4);
  }
}

TEST_CASE("either gradient may be left out", "[gradients]") {
  for (const sdtw_metric metric : metrics_of_series())
    for (const int64_t batch : {1, 2, 70})
      for (const Size &size : {Size{5, 70}, Size{65, 33}}) {
        const Case base = random_case(1200, metric, batch, size.n, size.m, 3, 1);
        for (Case c : variants(base)) {
          const Result both = run(c);
          INFO(describe(c));
          c.want_grad_y = false;
          CHECK(same(run(c).grad_x, both.grad_x));
          c.want_grad_y = true;
          c.want_grad_x = false;
          CHECK(same(run(c).grad_y, both.grad_y));
        }
      }
}

TEST_CASE("the upstream gradient scales, pair by pair", "[gradients]") {
  for (const int64_t batch : {3, 17}) {
    Case base = random_case(1300, SDTW_SQEUCLIDEAN, batch, 40, 50, 2, 1);
    for (Case c : variants(base)) {
      const Result unit = run(c);
      // Powers of two are exact; 0 must give 0, and large and small ones must not change which tiles are skipped.
      const double factors[] = {0, -1, 0x1p60, 0x1p-60, 2};
      for (int64_t b = 0; b < batch; ++b) c.grad_value.push_back(factors[b % 5]);
      const Result scaled = run(c);
      INFO(describe(c));
      const auto all_scaled = [&](const std::vector<double> &from, const std::vector<double> &to) {
        const int64_t step = static_cast<int64_t>(from.size()) / batch;
        for (int64_t k = 0; k < static_cast<int64_t>(from.size()); ++k) {
          const double expected = from[k] * factors[k / step % 5];
          // Products that leave float32's normal range may be rounded.
          if (std::abs(to[k] - expected) > 0x1p-126 + 1e-6 * std::abs(expected)) return false;
        }
        return true;
      };
      CHECK(all_scaled(unit.grad_x, scaled.grad_x));
      CHECK(all_scaled(unit.grad_y, scaled.grad_y));
      CHECK(same(unit.alignment, scaled.alignment));
    }
  }
}

TEST_CASE("the gradient of the cost is the upstream gradient times E", "[gradients]") {
  for (const int64_t batch : {1, 16}) {
    Random random(1400);
    Case base = random_case(1400, SDTW_PRECOMPUTED, batch, 70, 33, 0, 0.5);
    with_grad_value(base, random);
    for (const Case &c : variants(base)) {
      const Result result = run(c);
      const int64_t step = 70 * 33;
      double largest = 0;
      for (int64_t k = 0; k < batch * step; ++k) {
        const double expected = c.grad_value[k / step] * result.alignment[k];
        largest = std::max(largest, std::abs(result.grad_x[k] - expected) - 2e-7 * std::abs(expected));
      }
      INFO(describe(c));
      CHECK(largest <= 1e-30);
    }
  }
}

TEST_CASE("backward may be called again, and costs nothing of its state", "[gradients]") {
  const Case base = random_case(1500, SDTW_SQEUCLIDEAN, 2, 100, 90, 2, 1);
  for (const Case &c : variants(base)) {
    Session session(c);
    session.forward();
    Result first, second;
    session.backward(first);
    session.alignment();
    session.backward(second);
    INFO(describe(c));
    CHECK(same(first, second));
  }
}

namespace {

// The largest error of a time step's gradient relative to what it is summed up from, |g| sum_j E_ij 2 |x_i - y_j|: the
// measure of a series of which one point is far larger than all others.
double row_error(const Case &c, const Result &result, const Reference<long double> &ref) {
  const sdtw_problem &p = c.problem;
  double worst = 0;
  const auto look = [&](const std::vector<double> &got, const std::vector<long double> &wanted,
                        const std::vector<double> &own, const std::vector<double> &other, bool of_x, int64_t b) {
    const int64_t rows = of_x ? p.n : p.m, others = of_x ? p.m : p.n, d = p.features;
    for (int64_t i = 0; i < rows; ++i) {
      long double parts = 0, error = 0;
      for (int64_t j = 0; j < others; ++j) {
        const long double e = ref.alignment[(b * p.n + (of_x ? i : j)) * p.m + (of_x ? j : i)];
        double reach = 0;
        for (int64_t f = 0; f < d; ++f)
          reach = std::max(reach, std::abs(own[(b * rows + i) * d + f] - other[(b * others + j) * d + f]));
        parts += e * 2 * reach;
      }
      for (int64_t f = 0; f < d; ++f) {
        const int64_t at = (b * rows + i) * d + f;
        error = std::max(error, std::abs(static_cast<long double>(got[at]) - wanted[at]));
      }
      if (error > 4e-12L * parts) worst = std::max(worst, static_cast<double>(error / parts));
    }
  };
  for (int64_t b = 0; b < c.batch(); ++b) {
    look(result.grad_x, ref.grad_x, c.x, c.y, true, b);
    look(result.grad_y, ref.grad_y, c.y, c.x, false, b);
  }
  return worst;
}

}  // namespace

TEST_CASE("more features than shared memory has room for", "[gradients]") {
  uint64_t seed = 1750;
  for (const Size &size : {Size{20, 31}, Size{61, 17}, Size{131, 50}, Size{257, 33}})
    for (const int64_t features : {129, 130, 192, 257, 516}) {
      // Costs up to some thousands, for which backward's words have room, and beyond.
      const double gamma = features % 2 == 0 ? 1 : 0.01;
      Case base = random_case(++seed, SDTW_SQEUCLIDEAN, 3, size.n, size.m, features, gamma);
      check_everywhere(base);
    }
}

TEST_CASE("gradients are right time step by time step, beside outliers too", "[gradients]") {
  uint64_t seed = 1700;
  for (const Data data : {Data::noise, Data::walk, Data::smooth, Data::spikes, Data::flat})
    for (const int64_t features : {1, 3, 20})
      for (const Size &size : {Size{40, 61}, Size{257, 80}, Size{150, 300}}) {
        Random random(++seed);
        Case base = make_case(SDTW_SQEUCLIDEAN, 2, size.n, size.m, features, 1);
        for (int64_t b = 0; b < 2; ++b) {
          const SeriesPair pair = series_pair(random, data, size.n, size.m, features, 1);
          base.x.insert(base.x.end(), pair.x.begin(), pair.x.end());
          base.y.insert(base.y.end(), pair.y.begin(), pair.y.end());
        }
        const Reference<long double> ref = reference(base);
        for (Case c : variants(base)) {
          if (c.problem.dtype == SDTW_F64) continue;
          const double value = static_cast<double>(std::max(std::abs(ref.value[0]), std::abs(ref.value[1])));
          const double error = row_error(c, run(c), ref);
          INFO(describe(c) << ", " << data_names[static_cast<size_t>(data)]);
          CHECK(error < 2e-5 + large_value_error(c, value));
        }
      }
}

// Of cells of which nothing is swept, beside a band or far from all likely paths, it had been 0; and NaN beyond the
// length of y.
TEST_CASE("with an upstream gradient of NaN the gradient of all costs is NaN, and 0 beyond the lengths",
          "[gradients]") {
  for (const char *shape : {" B=1 n=5 m=5", " B=18 n=5 m=5", " B=1 n=130 m=140", " B=4 n=20 m=30 lengths=3"})
    for (const char *rule : {" gamma=1e-3", " gamma=1", " gamma=0", " band=absolute:12", " band=absolute:12 state=no"})
      each_result(std::string("metric=precomputed grad=random") + shape + rule, [](const Case &c, const Result &) {
        Case spoilt = c;
        spoilt.grad_value.assign(c.grad_value.size(), NAN);
        const std::vector<double> gradient = run(spoilt).grad_x, values = run(c).value;
        const auto [batch, n, m] = std::array{c.batch(), c.problem.n, c.problem.m};
        for (int64_t b = 0; b < batch; ++b) {
          const bool has_path = std::isfinite(values[size_t(b)]);
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = 0; j < m; ++j) {
              const double g = gradient[size_t((b * n + i) * m + j)];
              const bool inside = has_path && i < c.length_x(b) && j < c.length_y(b);
              if (inside ? !std::isnan(g) : g != 0) FAIL_CHECK(b << ", " << i << ", " << j << ": " << g);
            }
        }
      });
}
