// Bands: which cells a path may visit, what lies outside, and corners that no path reaches.
#include "core/band.h"
#include "family.h"

using namespace test;

namespace {

constexpr const char *kinds[] = {"sakoe_chiba", "absolute", "itakura"};

std::string band(const char *kind, double radius) {
  std::ostringstream text;
  text << " band=" << kind << ":" << radius;
  return text.str();
}

}  // namespace

TEST_CASE("a value of tslearn's with a band", "[bands]") {
  each_result("dtype=f64 n=5 m=5 d=1 gamma=1 band=sakoe_chiba:1", [](Case c, const Result &) {
    c.x = {1, 2, 3, 3, 3};
    c.y = {1, 2, 2, 2, 3};
    CHECK(near(run(c).value[0], -1.65266, 1e-5));
  });
}

TEST_CASE("every band in many shapes is the oracle's", "[bands]") {
  uint64_t seed = 0;
  for (const char *kind : kinds)
    for (const Size &size : {Size{1, 1}, {1, 9}, {12, 5}, {16, 16}, {33, 40}, {70, 64}, {129, 100}, {30, 130}})
      for (const double radius : {0., 1., 2.5, 7., 40.}) {
        const double slope = 1 + radius / 2;
        std::ostringstream line;
        ++seed;
        line << "dtype=" << every_type[seed % 2] << " metric=" << metric_names[seed % std::size(metric_names)]
             << " B=" << 1 + 8 * (seed % 3) << " n=" << size.n << " m=" << size.m << (seed % 5 ? " d=2" : "")
             << " gamma=" << (seed % 3 ? 0.5 : 5) << band(kind, kind == kinds[2] ? slope : radius)
             << " grad=random seed=" << seed;
        check_line(line.str());
      }
}

// Slopes as floating point has them would take such a cell or leave it, and sums of a radius and a number of cells take
// one too many.
TEST_CASE("cells that a band's bound has just or misses by a hair", "[bands]") {
  for (const char *rest :
       {"n=257 m=400 band=itakura:2", "n=27 m=120 band=itakura:5", "n=138 m=160 band=itakura:2.5",
        "n=38 m=40 band=itakura:1.7", "n=47 m=20 band=itakura:1.7", "n=60 m=60 band=itakura:1e300",
        "n=30 m=130 band=sakoe_chiba:2.9999999999999996", "n=130 m=30 band=sakoe_chiba:2.9999999999999996"})
    for (const char *batch : {"metric=precomputed dtype=f64 gamma=50 seed=3 ", "B=17 dtype=f64 gamma=50 d=2 seed=3 "})
      check_line(std::string(batch) + rest);
}

TEST_CASE("a band has the same cells by rows and by columns", "[bands]") {
  Random random(3);
  for (int round = 0; round < 3000; ++round) {
    const sdtw_band kind[] = {SDTW_BAND_NONE, SDTW_BAND_SAKOE_CHIBA, SDTW_BAND_ABSOLUTE, SDTW_BAND_ITAKURA};
    const sdtw::core::Band band{kind[round % 4],
                                round % 4 == 3 ? 1 + 0.01 * random.integer(0, 400) : 0.5 * random.integer(0, 90),
                                random.integer(1, 90), random.integer(1, 90)};
    INFO("kind " << band.kind << " radius " << band.radius << " n " << band.n << " m " << band.m);
    int64_t wrong = 0;
    for (int64_t j = 0; j < band.m; ++j) {
      const sdtw::core::Interval rows = band.rows(j);
      for (int64_t i = 0; i < band.n; ++i) wrong += band.admits(i, j) != (rows.first <= i && i < rows.end);
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a band follows each pair's own lengths", "[bands]") {
  for (const char *kind : kinds)
    for (const char *metric : {"sqeuclidean", "precomputed"})
      for (const char *shape : {" B=6 n=40 m=52", " B=40 n=14 m=11"}) {
        const std::string line = std::string("metric=") + metric + shape + " gamma=0.3 lengths=0 seed=5";
        check_line(line + band(kind, 3));
      }
}

// Points of which it admits no cell leave no path, whatever they hold; of others a cost of NaN makes the pair's value
// NaN.
TEST_CASE("NaN and infinities spoil a pair where its band admits them", "[bands]") {
  for (const char *metric : {"precomputed", "sqeuclidean d=3", "cityblock d=3", "euclidean d=20", "cosine d=2"})
    for (const char *how : {"nan", "inf", "infs"})
      for (const char *shape :
           {" B=3 n=1 m=100 band=itakura:2", " B=3 n=2 m=100 band=itakura:1", " B=20 n=30 m=9 band=absolute:2",
            " B=3 n=19 m=80 band=absolute:50", " B=3 n=70 m=80 band=sakoe_chiba:3"})
        for (const char *seed : {" seed=1", " seed=2", " seed=3"})
          check_line(std::string("metric=") + metric + shape + " spoil=" + how + seed);
  for (const char *line : {"dtype=f64 B=4x3 n=2 m=1 d=2 gamma=298 band=itakura:1.75 data=smooth seed=931028",
                           "dtype=bf16 B=5 n=1 m=6 d=487 gamma=1.5 band=itakura:1.5 data=walk seed=1010341"})
    check_line(std::string("metric=cosine pairs=all state=no spoil=nan ") + line);
}

TEST_CASE("a band as wide as the matrix is none", "[bands]") {
  for (const char *kind : {kinds[0], kinds[1]})
    for (const char *shape : {" B=3 n=50 m=41 d=2", " B=20 n=9 m=12 d=2"})
      each_result(std::string(shape) + " gamma=0.5" + band(kind, 50), [](const Case &c, const Result &here) {
        Case without = c;
        without.problem.band = SDTW_BAND_NONE;
        CHECK(close(c, run(without), here));
      });
}

TEST_CASE("outside of a band everything is 0", "[bands]") {
  for (const char *kind : kinds)
    each_result(std::string("metric=precomputed B=2 n=60 m=70 gamma=0.5") + band(kind, 4),
                [](const Case &c, const Result &result) {
                  const sdtw_problem &p = c.problem;
                  const oracle::Rule rule = rule_of(p);
                  int64_t outside = 0;
                  for (int64_t k = 0; k < static_cast<int64_t>(result.alignment.size()); ++k) {
                    if (oracle::admits(rule, p.n, p.m, k / p.m % p.n, k % p.m)) continue;
                    ++outside;
                    if (result.alignment[k] != 0 || result.grad_x[k] != 0) FAIL("cell " << k << " is not 0");
                  }
                  CHECK(outside > 0);
                });
}

TEST_CASE("costs outside of a band are not looked at", "[bands]") {
  for (const char *kind : kinds)
    each_result(std::string("metric=precomputed B=2 n=40 m=44 gamma=0.5") + band(kind, 4),
                [](Case c, const Result &here) {
                  const sdtw_problem &p = c.problem;
                  const oracle::Rule rule = rule_of(p);
                  for (int64_t k = 0; k < static_cast<int64_t>(c.x.size()); ++k)
                    if (!oracle::admits(rule, p.n, p.m, k / p.m % p.n, k % p.m)) c.x[k] = k % 2 ? NAN : -INFINITY;
                  CHECK(close(c, run(c), here));
                });
}

TEST_CASE("a corner that no path reaches gives +infinity and gradients 0", "[bands]") {
  for (const char *shape : {" n=20 m=30", " n=30 m=20", " B=20 n=8 m=12"})
    each_result(std::string(shape) + " d=2 band=absolute:3", [](const Case &, const Result &result) {
      for (const double v : result.value) CHECK(v == INFINITY);
      for (const auto *array : {&result.grad_x, &result.grad_y, &result.alignment})
        CHECK(std::all_of(array->begin(), array->end(), [](double v) { return v == 0; }));
    });
}

// Costs that are least on the band's lower edge: the likeliest paths go along it, through every row.
TEST_CASE("paths along the edge of a band", "[bands]") {
  for (const int radius : {0, 1, 8, 16, 31, 32, 33, 64})
    for (const char *shape : {" n=129 m=129", " n=300 m=301", " n=200 m=600"}) {
      std::optional<Oracle> oracle;
      each_result(std::string("metric=precomputed gamma=0.1") + shape + band("sakoe_chiba", radius),
                  [&](Case c, const Result &) {
                    const sdtw_problem &p = c.problem;
                    const oracle::Rule rule = rule_of(p);
                    for (int64_t i = 0, edge = 0; i < p.n; ++i) {
                      while (edge < p.m - 1 && !oracle::admits(rule, p.n, p.m, i, edge)) ++edge;
                      for (int64_t j = 0; j < p.m; ++j)
                        c.x[i * p.m + j] = 0.125 * std::min<double>(128, std::abs(static_cast<double>(j - edge)));
                    }
                    if (const std::optional<Result> result = try_run(c)) check(c, *result, oracle);
                  });
    }
}

// Of few cells for each row E leaves a strip of 128 for the column before the strip's first. Where columns beyond a
// strip have been asked for and are not used, they must not come where the next strip's are.
TEST_CASE("bands of pairs of several strips", "[bands]") {
  for (const char *line :
       {"B=14 n=276 m=387 d=7 gamma=1 band=sakoe_chiba:0 data=mixed seed=9494",
        "B=2 n=513 m=386 d=8 gamma=100 band=sakoe_chiba:1 data=walk seed=52902",
        "B=16 n=258 m=261 d=1 gamma=1e-06 band=sakoe_chiba:0 data=steps seed=25718",
        "B=3 n=400 m=150 d=3 gamma=1 band=sakoe_chiba:40 lengths=0 data=noise seed=3",
        "B=2 n=200 m=700 d=40 dtype=f16 gamma=0.1 band=sakoe_chiba:33 state=no data=walk seed=4",
        "B=3 n=300 m=290 d=2 gamma=1 band=sakoe_chiba:20 pairs=all state=no lengths=1 seed=5",
        "B=20 n=30 m=25 d=2 gamma=0.01 band=sakoe_chiba:3 lengths=0 spoil=nan seed=6",
        "metric=euclidean dtype=f32 B=1 n=532 m=514 d=130 gamma=1 band=sakoe_chiba:100 data=mixed seed=99199"})
    check_line(line);
}

TEST_CASE("swapping x and y transposes a band", "[bands]") {
  for (const char *kind : {kinds[0], kinds[1]})  // that of Itakura is rounded to hundredths, in each column
    each_result(std::string("B=2 n=33 m=47 d=2 gamma=0.5") + band(kind, 15), [](const Case &c, const Result &here) {
      Case swapped = c;
      std::swap(swapped.x, swapped.y);
      std::swap(swapped.problem.n, swapped.problem.m);
      Result there = run(swapped);
      std::swap(there.grad_x, there.grad_y);
      there.alignment = transposed_pairs(there.alignment, c.batch(), c.problem.m, c.problem.n);
      CHECK(close(c, there, here));
    });
}
