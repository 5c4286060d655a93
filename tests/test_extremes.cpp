// Extremes: every gamma and scale stays finite; forbidden cells, NaN, infinities and huge costs do what sdtw.h says.
#include "check.h"

using namespace test;

namespace {

bool all_finite(const std::vector<double> &values) {
  return std::all_of(values.begin(), values.end(), [](double v) { return std::isfinite(v); });
}

bool all_finite(const Result &r) {
  return all_finite(r.value) && all_finite(r.grad_x) && all_finite(r.grad_y) && all_finite(r.alignment);
}

// One pair's part of an array of a batch.
std::vector<double> part(const std::vector<double> &from, int64_t batch, int64_t b) {
  const int64_t step = static_cast<int64_t>(from.size()) / batch;
  return std::vector<double>(from.begin() + b * step, from.begin() + (b + 1) * step);
}

// Checks that every pair but `except` has the bits it has in `expected`.
void check_others(const Result &actual, const Result &expected, int64_t batch, int64_t except) {
  for (int64_t b = 0; b < batch; ++b) {
    if (b == except) continue;
    INFO("pair " << b);
    CHECK(same(part(actual.value, batch, b), part(expected.value, batch, b)));
    CHECK(same(part(actual.grad_x, batch, b), part(expected.grad_x, batch, b)));
    if (!actual.grad_y.empty()) CHECK(same(part(actual.grad_y, batch, b), part(expected.grad_y, batch, b)));
    if (!actual.alignment.empty()) CHECK(same(part(actual.alignment, batch, b), part(expected.alignment, batch, b)));
  }
}

Case random_costs(uint64_t seed, int64_t batch, int64_t n, int64_t m, double gamma, double scale) {
  Random random(seed);
  Case c = make_case(SDTW_PRECOMPUTED, batch, n, m, 0, gamma);
  c.x = normal_values(random, batch * n * m, scale);
  return c;
}

}  // namespace

// Where Z is m 2^e, costs just below and above half a unit shrink and grow m with every cell of a path.
TEST_CASE("a pair of which all costs are the same", "[extremes]") {
  for (const double cost : {0.499, 0.501, 7.499, 7.501})
    for (const Size &size : {Size{1, 300}, Size{300, 1}, Size{300, 2}, Size{140, 33}})
      for (const int64_t features : {1, 3, 70}) {
        Case base = make_case(SDTW_SQEUCLIDEAN, 2, size.n, size.m, features, 1.4426950408889634);
        base.x.assign(2 * size.n * features, 0.25);
        base.y.assign(2 * size.m * features, 0.25);
        for (int64_t j = 0; j < 2 * size.m; ++j) base.y[j * features] += std::sqrt(cost);
        check_everywhere(base);
      }
}

TEST_CASE("finite inputs of any scale at any gamma give finite results", "[extremes]") {
  uint64_t seed = 6000;
  for (const double gamma : {1e-7, 1e-5, 1e-3, 1e-1, 1.0, 1e2, 1e4, 1e6})
    for (const double scale : {1e-3, 1.0, 1e3})
      for (const Size &size : {Size{1, 1}, Size{1, 9}, Size{40, 33}, Size{70, 130}})
        for (const int64_t batch : {1, 16})
          for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED}) {
            if (batch > 1 && size.n > 40) continue;
            Random random(++seed);
            Case base = make_case(metric, batch, size.n, size.m, 3, gamma);
            fill(base, random, scale);
            const auto ref = reference(base);
            for (const Case &c : variants(base)) {
              const Result result = run(c);
              const double error = compare(c, result, ref).value;
              INFO(describe(c) << " scale " << scale);
              CHECK(all_finite(result));
              CHECK(error <= bounds(c).value);
            }
          }
}

// Through all engines, whose limits are where exponents of whole paths leave an int or 40 bits; and side by side, since
// the pairs of a batch are 2^3 apart.
TEST_CASE("costs of any size and pairs of different sizes in one batch", "[extremes]") {
  uint64_t seed = 6050;
  struct Shape {
    int64_t batch, n, m, features;
  };
  for (const Shape &s : {Shape{5, 20, 33, 1}, Shape{5, 12, 70, 9}, Shape{3, 150, 40, 2}, Shape{3, 140, 45, 7}})
    for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
      for (int bits = 17; bits <= 44; bits += 3) {
        Random random(++seed);
        Case base = make_case(metric, s.batch, s.n, s.m, s.features, 0.5);
        fill(base, random);
        const auto enlarge = [&](std::vector<double> &values) {
          const size_t each = values.size() / s.batch;
          for (size_t i = 0; i < values.size(); ++i) {
            const double cost = std::exp2(bits + 3 * static_cast<double>(i / each)) / std::max(s.n, s.m);
            values[i] = narrow(values[i] * (base.fused() ? std::sqrt(cost) : cost));
          }
        };
        enlarge(base.x);
        if (base.fused()) enlarge(base.y);
        check_everywhere(base);
      }
}

// Of one feature, on either side of what an engine has room for: the largest cost is 2^bits, between the ends of the
// two series, wherever their first point lies, from which costs are made.
TEST_CASE("costs at the limits of engines, with a first point at an end, in the middle or outside", "[extremes]") {
  uint64_t seed = 6080;
  for (const double first : {-0.5, 0., 0.4, 0.5, 3.})
    for (const double bits : {19.99, 20., 20.01, 21.5, 30.9, 31.1})
      for (const Size &size : {Size{20, 33}, Size{140, 45}})
        for (const bool all_pairs : {false, true}) {
          Random random(++seed);
          Case base = make_case(SDTW_SQEUCLIDEAN, 3, size.n, size.m, 1, 0.5);
          const double width = std::sqrt(std::exp2(bits) * std::log(2.0) * 0.5);
          const auto points = [&](int64_t steps, double end) {
            std::vector<double> result(3 * steps);
            for (double &v : result) v = narrow(width * (random.uniform() - 0.5));
            for (int64_t b = 0; b < 3; ++b) result[b * steps + random.integer(1, steps - 1)] = narrow(width * end);
            return result;
          };
          base.x = points(size.n, -0.5), base.y = points(size.m, 0.5);
          for (int64_t b = 0; b < 3; ++b) base.x[b * size.n] = narrow(width * first);
          if (all_pairs) {
            base.problem.flags |= SDTW_ALL_PAIRS;
            base.want_grad_x = base.want_grad_y = base.want_alignment = false;
          }
          check_everywhere(base);
        }
}

TEST_CASE("inputs at the ends of the float32 range", "[extremes]") {
  for (const double scale : {1e-45, 1e-38, 1e-20, 1e15})
    for (const double gamma : {1e-7, 1.0, 1e6})
      for (const int64_t batch : {1, 16}) {
        Random random(6100);
        Case base = make_case(SDTW_SQEUCLIDEAN, batch, 20, 30, 2, gamma);
        fill(base, random, scale);
        for (const Case &c : variants(base)) {
          INFO(describe(c) << " scale " << scale);
          CHECK(all_finite(run(c)));
        }
      }
}

TEST_CASE("constant series: nothing but the number of paths", "[extremes]") {
  for (const double gamma : {1e-3, 1.0, 1e3})
    for (const Size &size : {Size{700, 600}, Size{3, 2000}, Size{64, 64}})
      for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED}) {
        Case base = make_case(metric, 1, size.n, size.m, 1, gamma);
        base.x.assign(base.shape_x()[1] * base.shape_x()[2], 0);
        if (base.fused()) base.y.assign(size.m, 0);
        check_everywhere(base);
      }
}

TEST_CASE("costs of either sign", "[extremes]") {
  uint64_t seed = 6200;
  for (const double scale : {1.0, 100.0})
    for (const double gamma : {0.1, 1.0, 10.0})
      for (const int64_t batch : {1, 17}) check_everywhere(random_costs(++seed, batch, 50, 40, gamma, scale));
}

TEST_CASE("huge costs", "[extremes]") {
  uint64_t seed = 6300;
  for (const double scale : {1e10, 1e30})
    for (const double gamma : {1e-7, 1.0, 1e6})
      for (const int64_t batch : {1, 16}) {
        const Case base = random_costs(++seed, batch, 30, 40, gamma, scale);
        const auto ref = reference(base);
        for (const Case &c : variants(base)) {
          const Result result = run(c);
          const Errors error = compare(c, result, ref);
          INFO(describe(c) << " scale " << scale);
          CHECK(all_finite(result));
          CHECK(error.value <= bounds(c).value);
        }
      }
}

TEST_CASE("forbidden cells", "[extremes]") {
  uint64_t seed = 6400;
  for (const double gamma : {1e-3, 1.0, 100.0})
    for (const double density : {0.05, 0.3, 0.6})
      for (const int64_t batch : {3, 18})
        for (const Size &size : {Size{12, 15}, Size{66, 40}}) {
          Case base = random_costs(++seed, batch, size.n, size.m, gamma, 1);
          Random random(seed);
          for (double &cost : base.x)
            if (random.uniform() < density) cost = INFINITY;
          for (int64_t i = 0; i < std::max(size.n, size.m); ++i)  // a path through pair 0
            base.x[std::min(i, size.n - 1) * size.m + std::min(i, size.m - 1)] = 1;
          check_everywhere(base);
        }
}

TEST_CASE("a single admissible path is taken whole", "[extremes]") {
  for (const double gamma : {1e-7, 1.0, 1e6})
    for (const int64_t n : {1, 16, 65, 300})
      for (const int64_t batch : {1, 16}) {
        if (batch * n * n > 200000) continue;
        Case base = make_case(SDTW_PRECOMPUTED, batch, n, n, 0, gamma);
        base.x.assign(batch * n * n, INFINITY);
        for (int64_t b = 0; b < batch; ++b)
          for (int64_t i = 0; i < n; ++i) base.x[(b * n + i) * n + i] = 2;
        for (const Case &c : variants(base)) {
          const Result result = run(c);
          double worst = 0;
          for (int64_t k = 0; k < batch * n * n; ++k)
            worst = std::max(worst, std::abs(result.alignment[k] - (std::isinf(c.x[k]) ? 0 : 1)));
          INFO(describe(c));
          CHECK(worst <= 1e-6);
          const double value = 2 * static_cast<double>(n);
          CHECK(std::abs(result.value[0] - value) <= bounds(c).value * value_scale(c, 0, value, value, 0));
        }
      }
}

TEST_CASE("no admissible path: infinity, and gradient 0", "[extremes]") {
  for (const int64_t batch : {2, 17}) {
    Case base = random_costs(6500, batch, 20, 70, 1, 1);
    for (int64_t j = 0; j < 70; ++j) base.x[9 * 70 + j] = INFINITY;  // a row of pair 0
    base.x[20 * 70] = INFINITY;                                      // the first cell of pair 1
    check_everywhere(base);
    Case fused = random_case(6501, SDTW_SQEUCLIDEAN, batch, 20, 70, 2, 1);
    fused.x[9 * 2] = -INFINITY;
    fused.y[70 * 2 + 139] = INFINITY;
    check_everywhere(fused);
    for (const Case &c : variants(fused)) {
      const Result result = run(c);
      INFO(describe(c));
      CHECK(result.value[0] == INFINITY);
      CHECK(result.value[1] == INFINITY);
    }
  }
}

TEST_CASE("a wall that no path passes, however much costs are less than 0 on both of its sides", "[extremes]") {
  for (const double penalty : {0.0, 1.0}) {
    Case c = random_costs(6510, 2, 130, 130, 1, 1);
    for (double &cost : c.x) cost = narrow(-1.38e6 + cost);
    for (int64_t j = 0; j < 130; ++j) c.x[70 * 130 + j] = INFINITY;  // of pair 0 alone
    c.problem.step_penalty[1] = c.problem.step_penalty[2] = penalty;
    const auto ref = reference(c);
    // Costs of 2^21 have 32 bits of fraction in float64: rounding them is off by 1e-10 itself.
    for (const Case &v : variants(c)) check(v, run(v), ref, v.problem.dtype == SDTW_F64 ? 4 : 1);
  }
}

TEST_CASE("NaN and costs of -infinity spoil their own pair and no other", "[extremes]") {
  constexpr int64_t n = 35, m = 66, features = 2;
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const int64_t batch : {3, 19}) {
      const Case clean = random_case(6600, metric, batch, n, m, features, 1);
      const int64_t step = static_cast<int64_t>(clean.x.size()) / batch;
      const std::vector<Case> cleans = variants(clean);
      for (const int64_t where : {int64_t(0), step / 2, step - 1}) {
        Case spoilt = clean;
        spoilt.x[step + where] = metric == SDTW_PRECOMPUTED && where == step / 2 ? -INFINITY : NAN;
        const std::vector<Case> spoilts = variants(spoilt);
        for (size_t v = 0; v < cleans.size(); ++v) {
          const Result result = run(spoilts[v]);
          INFO(describe(spoilts[v]) << " element " << where);
          check_others(result, run(cleans[v]), batch, 1);
          for (const auto *array : {&result.value, &result.grad_x, &result.alignment}) {
            const std::vector<double> own = part(*array, batch, 1);
            CHECK(std::all_of(own.begin(), own.end(), [](double d) { return std::isnan(d); }));
          }
        }
      }
    }
}

TEST_CASE("NaN among forbidden cells that no path reaches is still NaN", "[extremes]") {
  for (const int64_t batch : {1, 16}) {
    Case base = random_costs(6700, batch, 20, 20, 1, 1);
    for (const int64_t cell : {2, 3, 4, 22, 24, 42, 43, 44}) base.x[cell] = INFINITY;
    base.x[23] = NAN;
    check_everywhere(base);
  }
}

TEST_CASE("infinite costs of both signs of infinity in x and y", "[extremes]") {
  for (const int64_t batch : {2, 16}) {
    Case base = random_case(6800, SDTW_SQEUCLIDEAN, batch, 20, 30, 2, 1);
    base.x[7] = INFINITY;  // inf - inf is NaN: so is the pair
    base.y[7] = INFINITY;
    check_everywhere(base);
  }
}

TEST_CASE("an infinite or NaN upstream gradient stays in its own pair", "[extremes]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const int64_t batch : {3, 18})
      for (const double g : {double(NAN), double(INFINITY), double(-INFINITY)}) {
        Case clean = random_case(6900, metric, batch, 20, 70, 2, 1);
        clean.grad_value.assign(batch, 1);
        clean.x_len.assign(batch, 19);
        Case spoilt = clean;
        spoilt.grad_value[1] = g;
        const std::vector<Case> cleans = variants(clean), spoilts = variants(spoilt);
        for (size_t v = 0; v < cleans.size(); ++v) {
          const Result expected = run(cleans[v]), result = run(spoilts[v]);
          INFO(describe(spoilts[v]) << " g " << g);
          check_others(result, expected, batch, 1);
          CHECK(same(result.alignment, expected.alignment));
          if (metric != SDTW_PRECOMPUTED) {
            CHECK(!std::isfinite(result.grad_x[result.grad_x.size() / batch]));
            continue;
          }
          bool as_ieee = true;
          for (int64_t k = 20 * 70; k < 2 * 20 * 70; ++k) {
            const double product = g * expected.alignment[k];
            const bool padding = k >= (20 + 19) * 70;
            as_ieee &= padding               ? result.grad_x[k] == 0
                       : std::isnan(product) ? std::isnan(result.grad_x[k])
                                             : result.grad_x[k] == product;
          }
          CHECK(as_ieee);
        }
      }
}

TEST_CASE("a finite cost that no exponent can hold makes its own pair NaN", "[extremes]") {
  constexpr int64_t n = 35, m = 66, features = 2;
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const double gamma : {1e-200, 1e-5})
      for (const int64_t batch : {3, 19})
        for (const double sign : {1.0, -1.0}) {
          Case clean = random_case(6950, metric, batch, n, m, features, gamma);
          clean.problem.dtype = SDTW_F64;
          const int64_t step = static_cast<int64_t>(clean.x.size()) / batch;
          for (const double cost : {1e287 * gamma, 1e290 * gamma, std::min(1e302 * gamma, 1e307), 1e307}) {
            const bool held = cost / gamma < 1e289;
            Case spoilt = clean;
            spoilt.x[step + step / 2] = sign * (spoilt.fused() ? std::sqrt(cost) : cost);
            const auto ref = reference(spoilt);
            for (const Backend &backend : backends()) {
              clean.exec.cpu_isa = spoilt.exec.cpu_isa = backend.isa;
              const Result result = run(spoilt);
              INFO(describe(spoilt) << " cost " << cost << " sign " << sign);
              check_others(result, run(clean), batch, 1);
              if (held) {
                CHECK(all_finite(result));
                CHECK(compare(spoilt, result, ref).value <= bounds(spoilt).value);
                continue;
              }
              for (const auto *array : {&result.value, &result.grad_x, &result.alignment}) {
                const std::vector<double> own = part(*array, batch, 1);
                CHECK(std::all_of(own.begin(), own.end(), [](double d) { return std::isnan(d); }));
              }
            }
          }
        }
}

TEST_CASE("a value beyond its type's range is an infinity, and has a gradient all the same", "[extremes]") {
  uint64_t seed = 6970;
  for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F64})
    for (const int64_t batch : {2, 17})
      for (const double sign : {1.0, -1.0}) {
        const double most = dtype == SDTW_F64 ? 1e308 : 1e38;
        Case c = random_costs(++seed, batch, 4, 7, most / 1e3, 1);
        c.problem.dtype = dtype;
        for (double &cost : c.x) cost = narrow(sign * (1 + 0.1 * std::tanh(cost)));
        for (double &cost : c.x) cost = dtype == SDTW_F64 ? most * cost : narrow(most * cost);
        const auto ref = reference(c);
        for (const Backend &backend : backends()) {
          c.exec.cpu_isa = backend.isa;
          const Result result = run(c);
          const Errors error = compare(c, result, ref);
          INFO(describe(c) << " sign " << sign);
          CHECK(std::all_of(result.value.begin(), result.value.end(), [&](double v) { return v == sign * INFINITY; }));
          CHECK(error.alignment <= bounds(c).alignment);
          CHECK(error.gradient <= bounds(c).gradient);
        }
      }
}

// log2(e) / gamma is no float then.
TEST_CASE("given costs of 0, and infinite ones, at the smallest and the largest gamma", "[extremes]") {
  uint64_t seed = 6990;
  for (const double gamma : {1e-200, 1e-100, 1e-45, 1e-31, 1e31, 1e38, 1e300})
    for (const int64_t n : {1, 7, 150})
      for (const bool forbids : {false, true}) {
        Case base = random_costs(++seed, 3, n, 9, gamma, 1);
        Random random(seed);
        for (double &cost : base.x) cost = forbids && random.uniform() < 0.2 ? static_cast<double>(INFINITY) : 0;
        const auto ref = reference(base);
        for (const Case &c : variants(base)) {
          const Result result = run(c);
          const Errors error = compare(c, result, ref);
          INFO(describe(c));
          CHECK(error.alignment <= bounds(c).alignment);
          CHECK(error.gradient <= bounds(c).gradient);
          for (int64_t b = 0; b < 3; ++b) {  // no float can be as small or as large as most of these values
            const auto exact = static_cast<double>(ref.value[b]);
            const double expected = c.problem.dtype == SDTW_F64 ? exact : narrow(exact);
            CHECK((result.value[b] == expected || std::abs(result.value[b] - expected) <= 1e-6 * std::abs(expected)));
          }
        }
      }
}
