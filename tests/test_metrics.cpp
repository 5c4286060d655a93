// Metrics of series: values and gradients of every metric, in every shape and type, and what is defined of them.
#include "family.h"

using namespace test;

namespace {

// The same by the CPU's float64 engine, which rounds to 29 bits more.
Result in_float64(Case c) {
  c.problem.dtype = SDTW_F64;
  c.exec.device = SDTW_CPU;
  return run(c);
}

// A pair of given points, in float64.
std::optional<Result> of_points(sdtw_metric metric, std::vector<double> x, std::vector<double> y, int64_t features,
                                double gamma, const Backend &backend) {
  Case c = make_case(metric, 1, static_cast<int64_t>(x.size()) / features, static_cast<int64_t>(y.size()) / features,
                     features, gamma);
  c.problem.dtype = SDTW_F64;
  c.exec.device = backend.device;
  c.exec.cpu_isa = backend.isa;
  c.x = std::move(x);
  c.y = std::move(y);
  return try_run(c);
}

}  // namespace

TEST_CASE("every metric in every shape is the oracle's", "[metrics]") {
  for (const sdtw_metric metric : metrics_of_series())
    each_shape(100, 12000, [&](uint64_t seed, int64_t batch, int64_t n, int64_t m) {
      std::ostringstream line;
      line << "metric=" << metric_names[metric] << " dtype=" << every_type[seed % 2] << " B=" << batch << " n=" << n
           << " m=" << m << " d=" << 1 + seed % 5 << " gamma=" << (seed % 3 ? 1 : 0.1) << " seed=" << seed;
      check_line(line.str());
    });
}

TEST_CASE("every metric with lengths, layouts, upstream gradients and many features", "[metrics]") {
  for (const sdtw_metric metric : metrics_of_series())
    for (const int features : {1, 2, 7, 16, 17, 64, 130})
      for (const char *shape : {" B=3 n=40 m=52", " B=20 n=9 m=14"}) {
        std::ostringstream line;
        line << "metric=" << metric_names[metric] << shape << " d=" << features
             << " gamma=0.5 lengths=0 grad=random layout=mixed seed=" << features;
        check_line(line.str());
      }
}

TEST_CASE("every metric with more features than points of a strip have room for at a time", "[metrics]") {
  for (const sdtw_metric metric : metrics_of_series())
    for (const char *rest : {" dtype=f64 d=90 gamma=0.5", " dtype=f32 d=220 gamma=0.5", " dtype=f64 d=50 gamma=0",
                             " dtype=f32 d=45 gamma=0.5 tangents=xy"})
      check_line(std::string("metric=") + metric_names[metric] + " B=1 n=150 m=30 grad=random seed=3" + rest);
}

TEST_CASE("distances of two points", "[metrics]") {
  for (const Backend &backend : backends()) {
    INFO(backend.name);
    const auto value = [&](sdtw_metric metric, const std::vector<double> &x, const std::vector<double> &y) {
      const auto result = of_points(metric, x, y, static_cast<int64_t>(x.size()), 1, backend);
      return result ? result->value[0] : NAN;
    };
    const auto check = [&](sdtw_metric metric, double expected, std::vector<double> of_x) {
      const auto result = of_points(metric, {4, 2}, {1, 6}, 2, 1, backend);
      if (!result) return;
      CHECK(near(result->value[0], expected, 1e-14));
      for (size_t k = 0; k < 2; ++k) CHECK(near(result->grad_x[k], of_x[k], 1e-14));
      if (metric == SDTW_COSINE) return;
      for (size_t k = 0; k < 2; ++k) CHECK(near(result->grad_y[k], -of_x[k], 1e-14));
    };
    check(SDTW_SQEUCLIDEAN, 25, {6, -8});
    check(SDTW_EUCLIDEAN, 5, {0.6, -0.8});
    check(SDTW_CITYBLOCK, 7, {1, -1});
    const double norms = std::sqrt(20. * 37), cosine = 16 / norms;
    check(SDTW_COSINE, 1 - cosine, {cosine * 4 / 20 - 1 / norms, cosine * 2 / 20 - 6 / norms});
    CHECK((near(value(SDTW_COSINE, {1, 2, 2}, {2, 4, 4}), 0, 1e-15) || std::isnan(value(SDTW_COSINE, {1}, {1}))));
  }
}

TEST_CASE("where distances have no derivative it is 0", "[metrics]") {
  for (const Backend &backend : backends()) {
    INFO(backend.name);
    for (const sdtw_metric metric : {SDTW_EUCLIDEAN, SDTW_CITYBLOCK, SDTW_COSINE}) {
      const bool cosine = metric == SDTW_COSINE;
      // Points that coincide; for the cosine points of norm 0, whose distance is 1 from each and each other.
      const std::vector<double> x = cosine ? std::vector<double>{0, 0, 0, 0} : std::vector<double>{1, 2, 1, 2};
      const std::vector<double> y = cosine ? std::vector<double>{0, 0, 3, 4} : x;
      const auto result = of_points(metric, x, y, 2, 1e-6, backend);
      if (!result) continue;
      INFO(metric_names[metric]);
      CHECK(near(result->value[0], cosine ? 2 : 0, 1e-5));
      for (const double g : result->grad_x) CHECK(g == 0);
      if (cosine)
        CHECK(result->grad_y[0] == 0);
      else
        for (const double g : result->grad_y) CHECK(g == 0);
    }
  }
}

TEST_CASE("the cosine does not see how long points are", "[metrics]") {
  each_result("metric=cosine B=4 n=30 m=25 d=3 gamma=0.1", [](const Case &c, const Result &here) {
    Case scaled = c;
    for (double &v : scaled.x) v *= 4;
    for (double &v : scaled.y) v *= 0.5;
    Result there = run(scaled);
    for (double &g : there.grad_x) g *= 4;
    for (double &g : there.grad_y) g *= 0.5;
    CHECK(close(c, there, here));
  });
}

// What a gradient adds up has next to nothing across the points, which is all that is left of it.
TEST_CASE("gradients of the cosine of nearly opposite points keep their digits", "[metrics]") {
  for (const char *shape : {"B=20 n=963 m=1 d=2", "B=20 n=1 m=150 d=2", "B=64 n=60 m=40 d=3", "B=1 n=200 m=300 d=2"})
    for (const double angle : {0.01, 0.002})
      for (const int opposite : {1, 0}) {
        Case c = problem(std::string("metric=cosine dtype=f32 gamma=10 data=constant seed=5 ") + shape);
        const int64_t d = c.problem.features, n = c.problem.n, m = c.problem.m;
        const auto put = [&](double *point, double at) {  // at an angle from a direction that has no short coordinates
          point[0] = float(3 * std::cos(0.7 + at)), point[1] = float(3 * std::sin(0.7 + at));
          std::fill(point + 2, point + d, 0.);
        };
        for (int64_t i = 0; i < c.problem.batch_x * n; ++i) put(&c.x[size_t(i * d)], angle * 0.1 * double(i * 31 % 7));
        for (int64_t j = 0; j < c.problem.batch_y * m; ++j)  // of a batch's every other pair the same, not the opposite
          put(&c.y[size_t(j * d)], angle * (1 + 0.3 * double(j * 17 % 11)) + (j / m % 2 == opposite ? 0 : M_PI));
        INFO(describe(c) << ", angle " << angle);
        const Result wanted = in_float64(c);
        for (const Backend &backend : backends()) {
          INFO(backend.name);
          c.exec.device = backend.device;
          c.exec.cpu_isa = backend.isa;
          const auto result = try_run(c);
          if (!result) continue;
          CHECK(close(result->grad_x, wanted.grad_x, 1e-5));
          CHECK(close(result->grad_y, wanted.grad_y, 1e-5));
        }
      }
}

// Points that match are nearly parallel there, or opposite, and others are not; some are 0.
TEST_CASE("gradients and values of the cosine of series that are nearly equal keep their digits", "[metrics]") {
  uint64_t seed = 0;
  for (const char *shape :
       {"B=8 n=2 m=200 d=3", "B=1 n=6 m=200 d=3", "B=20 n=20 m=30 d=2", "B=1 n=120 m=120 d=8", "B=17 n=40 m=33 d=5",
        "B=2 n=130 m=90 d=33", "B=2 n=150 m=170 d=40", "B=1 n=70 m=300 d=70", "B=3x4 n=25 m=31 d=4 pairs=all",
        "B=3x2 n=90 m=70 d=35 pairs=all", "B=2 n=90 m=80 d=5 band=sakoe_chiba:20", "B=2 n=80 m=90 d=12 weights=2,1,1"})
    for (const double gamma : {0., 1e-3, 0.01, 0.1, 10.})
      for (const double along : {3, -3}) {
        Case c = problem("metric=cosine dtype=f32 data=noise grad=random " + std::string(shape));
        Random random(++seed);
        c.problem.gamma = gamma;
        const int64_t d = c.problem.features, n = c.problem.n, m = c.problem.m;
        for (int64_t j = 0; j < c.problem.batch_y * m; ++j)
          for (int64_t f = 0; f < d; ++f) {
            const int64_t of = std::min(j / m, c.problem.batch_x - 1) * n + j % m * n / m;
            const double v = c.x[size_t(of * d + f)] * along + 1e-4 * random.normal();
            c.y[size_t(j * d + f)] = j % 11 == 5 ? 0 : narrow(v);
          }
        INFO(describe(c));
        const Result wanted = in_float64(c);
        for (const Backend &backend : backends()) {
          INFO(backend.name);
          c.exec.device = backend.device;
          c.exec.cpu_isa = backend.isa;
          const Result result = run(c);
          const Errors error = compare(c, result, reference(c));
          CHECK(error.value <= bounds(c).value);
          CHECK(close(result.grad_x, wanted.grad_x, gamma < 0.1 ? 2e-4 : 2e-5));
          CHECK(close(result.grad_y, wanted.grad_y, gamma < 0.1 ? 2e-4 : 2e-5));
        }
      }
}

// Where a distance is small its gradient, of norm 1, is the difference of two points divided by it; and a gamma beside
// which all costs are nothing asks for few digits of them.
TEST_CASE("Euclidean gradients of series that are nearly equal are right at any gamma", "[metrics]") {
  for (const char *shape :
       {"B=2 n=28 m=28 d=5", "B=3 n=15 m=40 d=16", "B=2 n=5 m=5 d=64", "B=1 n=119 m=119 d=4", "B=2 n=16 m=167 d=33",
        "B=1 n=150 m=90 d=24 band=itakura:2", "B=2x2 n=70 m=70 d=48 pairs=all", "B=2 n=30 m=28 d=8 weights=1,0.25,2",
        "B=2 n=90 m=140 d=20 penalties=0,1,1 tangents=x"})
    for (const char *rest : {"gamma=1 scale=0.01 seed=1", "gamma=1000 scale=1 seed=2", "gamma=1000 scale=0.01 seed=3",
                             "gamma=1000 scale=100 seed=4", "gamma=0 scale=0.01 seed=5"})
      check_line(std::string("metric=euclidean dtype=f32 data=near grad=random ") + shape + " " + rest);
}

TEST_CASE("cosine gradients of one point beside many that are 0 keep their digits", "[metrics]") {
  for (const char *shape : {"B=4 n=1 m=700 d=20", "B=4 n=900 m=1 d=8", "B=4 n=2 m=600 d=41", "B=4 n=1 m=900 d=4"})
    for (int seed = 1; seed < 6; ++seed) {
      std::ostringstream line;
      line << "metric=cosine dtype=f32 data=padded gamma=100 " << shape << " seed=" << seed;
      check_line(line.str());
    }
}

TEST_CASE("of one feature euclidean is cityblock", "[metrics]") {
  each_result("metric=euclidean B=4 n=30 m=25 d=1 gamma=0.1", [](const Case &c, const Result &here) {
    Case other = c;
    other.problem.metric = SDTW_CITYBLOCK;
    CHECK(close(c, run(other), here));
  });
}

TEST_CASE("swapping x and y transposes every metric", "[metrics]") {
  for (const sdtw_metric metric : metrics_of_series())
    each_result(std::string("metric=") + metric_names[metric] + " B=3 n=41 m=25 d=5 gamma=0.5",
                [](const Case &c, const Result &here) {
                  Case swapped = c;
                  std::swap(swapped.x, swapped.y);
                  std::swap(swapped.problem.n, swapped.problem.m);
                  Result there = run(swapped);
                  std::swap(there.grad_x, there.grad_y);
                  there.alignment = transposed_pairs(there.alignment, c.batch(), c.problem.m, c.problem.n);
                  CHECK(close(c, there, here));
                });
}

TEST_CASE("what is wrong with one pair does not touch the others, whatever the metric", "[metrics]") {
  for (const sdtw_metric metric : metrics_of_series())
    for (const char *how : {"nan", "length"})
      for (const char *shape : {" B=5 n=40 m=33 d=3", " B=33 n=12 m=9 d=2"}) {
        const std::string line = std::string("metric=") + metric_names[metric] + shape + " gamma=0.5 seed=3";
        check_line(line + " spoil=" + how);
      }
}
