// Shapes and data in which values or gradients were once wrong, each against float64 on the CPU: what an ordinary test
// does not draw.
#include "check.h"
#include "cpu_reference.h"
#include "data.h"
#include "error_limits.h"
#include "family.h"

using namespace test;

namespace {

// On every backend, in float32. large: without alignments, which values are then judged without.
void check_hard(Case c, bool large = false) {
  c.want_alignment = !large;
  const Reference<double> ref = cpu_reference(c);
  for (const Backend &backend : backends()) {
    c.exec.device = backend.device;
    c.exec.cpu_isa = backend.isa;
    const Result result = run(c);
    for (int64_t b = 0; b < c.batch(); ++b) {
      const Errors error = compare_pair(c, result, ref, b), limit = limits(c, ref.value[b]);
      INFO("pair " << b << " of " << describe(c));
      CHECK(error.value <= limit.value);
      CHECK(error.gradient <= limit.gradient);
      CHECK(error.alignment <= limit.alignment);
    }
  }
}

Case of_series(int64_t batch, int64_t n, int64_t m, int64_t features, double gamma) {
  return make_case(SDTW_SQEUCLIDEAN, batch, n, m, features, gamma);
}

// x = 0 and y = constant.
Case equal_steps(int64_t n, int64_t m, double constant) {
  Case c = of_series(1, n, m, 1, 1);
  c.x.assign(n, 0);
  c.y.assign(m, narrow(constant));
  return c;
}

Case equal_costs(int64_t n, int64_t m, double cost, double gamma) {
  Case c = make_case(SDTW_PRECOMPUTED, 1, n, m, 0, gamma);
  c.x.assign(n * m, narrow(cost));
  return c;
}

// y = 0 and x a sine about 2.
Case waves(int64_t n, int64_t m) {
  Case c = of_series(1, n, m, 1, 1);
  for (int64_t j = 0; j < m; ++j) c.y.push_back(narrow(std::sin(0.001 * static_cast<double>(j)) + 2));
  c.x.assign(n, 0);
  return c;
}

}  // namespace

// Where costs have a fraction near 1/2 the cell above a lane's rows lost half a bit a step, and was NaN in the end. A
// NaN beyond the last column passed for E that has ended: nothing was written of the strips that follow.
TEST_CASE("concentrated alignments of three strips and more have no rows without E", "[hard]") {
  for (const int64_t n : {257, 700, 2000})
    for (const int64_t m : {44, 48, 76, 80, 108, 112, 144}) {
      check_hard(random_case(n + m, SDTW_SQEUCLIDEAN, 32 * 300 / n, n, m, 16, 0.1));
      Random random(n * m);
      Case smooth = of_series(2, n, m, 3, 0.1);
      smooth.x = smooth_values(random, 2, n, 3);
      smooth.y = smooth_values(random, 2, m, 3);
      check_hard(smooth);
    }
  Random random(0);
  Case c = of_series(16, 257, 80, 31, 0.3);
  check_hard(fill(c, random, 4));
}

TEST_CASE("equal costs, of any fraction of the unit that they are split by", "[hard]") {
  const Case nan = equal_costs(128, 16, 2.6488292495012282, 0.00098);
  check_hard(nan);
  CHECK(cpu_reference(nan).value[0] == Approx(339.00711507704426).epsilon(1e-7));
  const double unit = std::log(2.0);  // at gamma 1
  for (const double whole : {0, 3, 10, 100, 1000})
    for (const double fraction : {0.48, 0.4999, 0.5, 0.52})
      for (const Size size : {Size{386, 44}, {1000, 44}, {257, 16}, {44, 386}, {600, 130}})
        check_hard(equal_costs(size.n, size.m, unit * (whole + fraction), 1));
}

TEST_CASE("an outlier takes no digits from the costs beside it", "[hard]") {
  struct Shape {
    int64_t batch, n, m, features;
    double gamma, scale;
  };
  for (const Shape &s : {Shape{21, 31, 229, 13, 0.0032, 0.09},
                         {2, 661, 65, 128, 1, 1},
                         {10, 130, 65, 64, 1, 1},
                         {1, 417, 689, 128, 1, 1},
                         {19, 8, 141, 100, 1, 1},
                         {6, 257, 100, 40, 1, 1}})
    for (const double outlier : {1e2, 1e4, 1e6}) {
      Random random(s.n * s.m);
      Case c = of_series(s.batch, s.n, s.m, s.features, s.gamma);
      fill(c, random, s.scale);
      for (int64_t b = 0; b < s.batch; ++b) {
        double *const step = &c.y[(b * s.m + random.integer(0, s.m - 1)) * s.features];
        for (int64_t f = 0; f < s.features; ++f) step[f] = narrow(outlier * step[f]);
      }
      check_hard(c);
    }
}

TEST_CASE("rounding errors of equal costs do not add up", "[hard]") {
  check_hard(equal_steps(1, 300, 0.166383475));
  check_hard(equal_steps(3, 1000, 0.00913011562));
  check_hard(equal_steps(10, 10000, 0.0411364362), true);
  check_hard(equal_steps(20, 100000, 0.0203397162), true);
}

TEST_CASE("long series with a short one", "[hard]") {
  // Gradients that nearly cancel: on CPUs they had been off by 2.4e-5 to 7.2e-5.
  for (const char *line : {"metric=euclidean n=3 m=3049 d=1 gamma=0.1433 data=periodic seed=262019188",
                           "metric=euclidean n=12 m=3060 d=1 gamma=0.1667 data=periodic seed=270001581",
                           "metric=euclidean n=1430 m=2 d=1 gamma=1.214 data=periodic seed=270015676 grad=random",
                           "metric=euclidean n=2095 m=3 d=1 gamma=0.1655 data=periodic seed=275001430",
                           "n=6 m=2771 d=1 gamma=1.459 data=mixed seed=275004164"})
    check_line(line);
  check_hard(equal_steps(1, 10000, 0.7));
  check_hard(equal_steps(1, 100000, 0.7), true);
  check_hard(equal_steps(100000, 1, 0.7), true);
  check_hard(waves(4, 1000000), true);
  check_hard(waves(64, 100000), true);
  for (const Size size : {Size{300, 2}, {2, 100000}})
    for (const Backend &backend : backends()) {
      Case c = equal_steps(size.n, size.m, 0);
      c.exec.device = backend.device;
      c.exec.cpu_isa = backend.isa;
      const std::vector<double> alignment = run(c).alignment;
      // Of 300 steps a GPU's cells are float32 (is_thin of core/numbers.h): 4.4e-6 at the first one, 1.4e-6 at the
      // last.
      const double most = backend.device == SDTW_CUDA && size.n == 300 ? 6e-6 : 1e-6;
      CHECK(std::abs(alignment.front() - 1) <= most);
      CHECK(std::abs(alignment.back() - 1) <= most);
    }
}

TEST_CASE("hundreds of features", "[hard]") {
  const auto transformed = [](Case c, double (*f)(double)) {
    for (std::vector<double> *series : {&c.x, &c.y})
      for (double &v : *series) v = narrow(f(v));
    return c;
  };
  const auto uniform = [](double v) { return 0.5 * std::erfc(-v / std::sqrt(2.0)); };
  const auto rectified = [](double v) { return std::max(v, 0.); };
  check_hard(transformed(random_case(1, SDTW_SQEUCLIDEAN, 2, 200, 200, 512, 1), uniform));
  check_hard(transformed(random_case(2, SDTW_SQEUCLIDEAN, 2, 200, 200, 768, 10), rectified));
  check_hard(random_case(3, SDTW_SQEUCLIDEAN, 1, 500, 500, 128, 10));
  check_hard(transformed(random_case(4, SDTW_SQEUCLIDEAN, 1, 60, 60, 4096, 1), uniform));
  for (const int64_t features : {300, 1000}) check_hard(random_case(features, SDTW_SQEUCLIDEAN, 5, 1, 1, features, 1));
  // Values of millions of gammas: costs of float64 summed one feature behind the other had E off by a few units of
  // their last place, 1.1 times what is allowed.
  check_line("metric=cityblock dtype=f64 B=28 n=59 m=9 d=563 gamma=117.299 data=mixed seed=519491");
}

// With costs in float32 gradients were off by 2.7e-5 and 3.2e-5 of their largest entry.
TEST_CASE("city block distances, of which many paths cost the same", "[hard]") {
  check_line("metric=cityblock n=228 m=25 d=6 gamma=2.58737 data=steps scale=6 seed=957210");
  check_line("metric=cityblock n=228 m=25 d=6 gamma=2.5 data=walk scale=3 seed=48");
}
