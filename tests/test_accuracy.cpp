// Accuracy against the oracle on series up to 4096 long. `sdtw_tests --table "[accuracy]"` prints what is measured.
#include <cstdio>

#include "check.h"

using namespace test;

namespace {

enum class Kind { random, smooth };

Case series(Kind kind, uint64_t seed, int64_t length, int64_t features) {
  Random random(seed);
  Case c = make_case(SDTW_SQEUCLIDEAN, 1, length, length, features, 1);
  c.want_alignment = false;
  if (kind == Kind::random) return fill(c, random);
  c.x = smooth_values(random, 1, length, features);
  c.y = smooth_values(random, 1, length, features);
  return c;
}

// The error of each gradient relative to its own largest entry.
template <class Real>
Errors measure(const Case &c, const Result &result, const Reference<Real> &ref) {
  const auto relative = [](const std::vector<double> &actual, const std::vector<Real> &expected) {
    const auto count = static_cast<int64_t>(expected.size());
    return ratio(distance(actual.data(), expected.data(), count), max_norm(expected.data(), count));
  };
  Errors errors;
  errors.value = relative(result.value, ref.value);
  errors.gradient = relative(result.grad_x, ref.grad_x);
  if (c.fused()) errors.gradient = std::max(errors.gradient, relative(result.grad_y, ref.grad_y));
  if (!result.alignment.empty())
    errors.alignment =
        distance(result.alignment.data(), ref.alignment.data(), static_cast<int64_t>(ref.alignment.size()));
  return errors;
}

void print_heading() {
  if (options().table)
    std::printf("%-6s %-8s %-4s %6s %4s %8s %10s %10s\n", "", "inputs", "", "n", "d", "gamma", "value", "gradient");
}

void print_row(const char *backend, const Case &c, Kind kind, const Errors &error) {
  if (!options().table) return;
  std::printf("%-6.6s %-8s %-4s %6d %4d %8g %10.1e %10.1e\n", backend, kind == Kind::random ? "random" : "smooth",
              c.problem.dtype == SDTW_F64 ? "f64" : "f32", static_cast<int>(c.problem.n),
              static_cast<int>(c.problem.features), c.problem.gamma, error.value, error.gradient);
  std::fflush(stdout);
}

// One problem on every backend in one dtype, against an oracle in Real.
template <class Real>
void check_accuracy(Case c, Kind kind, sdtw_dtype dtype) {
  c.problem.dtype = dtype;
  const auto ref = reference<Real>(c);
  for (const Backend &backend : backends()) {
    c.exec.device = backend.device;
    c.exec.cpu_isa = backend.isa;
    const Errors error = measure(c, run(c), ref), bound = bounds(c);
    print_row(backend.name, c, kind, error);
    INFO(describe(c) << (kind == Kind::random ? " random" : " smooth"));
    CHECK(error.value <= bound.value);
    CHECK(error.gradient <= bound.gradient);
  }
}

constexpr double gammas[] = {0.001, 0.01, 0.1, 1, 10};

}  // namespace

TEST_CASE("float32 is as accurate as promised, up to 4096 steps", "[accuracy]") {
  print_heading();
  uint64_t seed = 8000;
  for (const Kind kind : {Kind::random, Kind::smooth})
    for (const int64_t length : {128, 1024, 4096})
      for (const int64_t features : {1, 8, 64})
        for (const double gamma : gammas) {
          // The oracle takes seconds for the longest: of these a third, with every gamma and every number of features.
          if (++seed % 3 != 0 && length == 4096 && !options().table) continue;
          Case c = series(kind, seed, length, features);
          c.problem.gamma = gamma;
          check_accuracy<double>(c, kind, SDTW_F32);
        }
}

TEST_CASE("float64 is as accurate as promised", "[accuracy]") {
  print_heading();
  uint64_t seed = 8100;
  for (const Kind kind : {Kind::random, Kind::smooth})
    for (const int64_t length : {128, 700})
      for (const int64_t features : {1, 8, 64})
        for (const double gamma : gammas) {
          Case c = series(kind, ++seed, length, features);
          c.problem.gamma = gamma;
          check_accuracy<long double>(c, kind, SDTW_F64);
        }
}

TEST_CASE("short pairs are as accurate as long ones, at every gamma", "[accuracy]") {
  uint64_t seed = 8200;
  for (const Size &size : {Size{1, 1}, Size{1, 20}, Size{20, 1}, Size{3, 3}, Size{10, 12}})
    for (const double gamma : gammas)
      for (const int64_t batch : {1, 16})
        check_everywhere(random_case(++seed, SDTW_SQEUCLIDEAN, batch, size.n, size.m, 4, gamma));
}
