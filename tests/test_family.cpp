// Random problems of the whole family, on every backend.
#include <fstream>
#include <numeric>
#include <regex>

#include "draw_problem.h"
#include "family.h"

using namespace test;

TEST_CASE("random problems of the whole family are the oracle's", "[family]") {
  for (uint64_t seed = 1; seed <= 250; ++seed) check_line(draw_line(seed, 60000));
}

TEST_CASE("every line of the table of features in docs/c-api.md is the oracle's", "[family]") {
  std::ifstream page(SDTW_FEATURES);
  if (!page) {  // of an executable that runs elsewhere than it was built
    WARN("skipped: there is no " SDTW_FEATURES);
    return;
  }
  const std::regex row("\\| .* \\| `([^`]*n=[^`]*)` \\| `test_[a-z_]+\\.cpp` \\|");
  int found = 0;
  std::smatch match;
  for (std::string line; std::getline(page, line);)
    if (std::regex_match(line, match, row)) found++, check_line(match[1]);
  CHECK(found == 16);
}

// Beyond the range of float32, of gamma, of costs, or of both.
TEST_CASE("gamma up to the largest double, and costs of any size", "[family]") {
  for (const char *gamma : {"1e30", "1e39", "1e300", "1.7976931348623157e308"})
    for (const char *scale : {"1", "1e18", "1e37"})
      for (const char *metric : metric_names)
        for (const char *shape : {" B=3 n=1 m=8", " B=17 n=9 m=12", " B=1 n=40 m=140"})
          check_line(std::string("metric=") + metric + shape + (metric == metric_names[0] ? "" : " d=3") +
                     " gamma=" + gamma + " scale=" + scale + " seed=7");
}

// Walks beside short series, where likely paths stay apart for hundreds of steps: the rounding errors of float32 costs
// had added up to 2.3e-5, 1.3e-4 and 5.1e-5 of the largest entry.
TEST_CASE("long series beside short ones keep their digits", "[family]") {
  check_line(
      "metric=sqeuclidean dtype=f32 B=2x3 n=514 m=10 d=2 gamma=11.333 weights=0.5,1.5,1 penalties=-0.5,-0.25,0 "
      "pairs=all state=no grad=random tangents=xy data=mixed seed=56001454");
  check_line("metric=sqeuclidean dtype=f32 B=20 n=514 m=10 d=2 gamma=6.294 weights=1,2,1 data=walk seed=21");
  check_line("metric=sqeuclidean dtype=f32 B=4 n=672 m=30 d=3 gamma=13.4568 data=walk seed=1062");
  // On CUDA these are transposed: with lengths, in half precision, and with points given in another order.
  check_line("metric=sqeuclidean dtype=f32 B=3 n=10 m=600 d=8 gamma=0.5 lengths=1 grad=random data=mixed seed=31");
  check_line("metric=sqeuclidean dtype=bf16 B=2 n=3 m=520 d=2 gamma=1 lengths=0 data=walk seed=32");
  check_line("metric=sqeuclidean dtype=f32 B=2 n=130 m=530 d=1 gamma=0.1 layout=mixed tangents=xy seed=33");
  check_line("metric=sqeuclidean dtype=f64 B=2 n=7 m=513 d=3 gamma=2 lengths=1 seed=34");
  // Costs of the long engine: relative to a point of the pair.
  check_line("metric=sqeuclidean dtype=f32 B=2 n=140 m=50 d=64 gamma=1e-4 data=offset lengths=1 seed=35");
  // In float32 the sums of normalised points, of which most is projected out, lost digits.
  check_line(
      "metric=cosine dtype=f32 B=1 n=9 m=2646 d=73 gamma=0.330513 weights=0,1.5,0.75 penalties=-0.5,1,1 seed=36");
  check_line("metric=cosine dtype=f32 B=3 n=2 m=770 d=10 gamma=0.00275208 penalties=0.125,0,16 data=mixed seed=37");
  for (uint64_t seed = 1; seed <= 20; ++seed) check_line(draw_line(seed, 60000, Shapes::thin));
}

// E of a column is in two strips, each of which backward has computed from costs that are rounded.
TEST_CASE("of two ways through a pair each strip has the same odds", "[family]") {
  check_line(
      "metric=sqeuclidean dtype=f32 B=7 n=461 m=139 d=66 gamma=0.000165882 data=flat scale=0.037003 seed=129101");
  check_line(
      "metric=sqeuclidean dtype=f32 B=2 n=477 m=217 d=12 gamma=0.57032 data=integers scale=2.60714 seed=1536349");
}

// Of fewer rows than a lane has in the last strip, of bands that end beside a strip's border, and with costs of steps
// in what strips hand on.
TEST_CASE("sweeps from both ends of a pair meet", "[family]") {
  check_line("metric=euclidean dtype=f32 B=2 n=257 m=130 d=2 gamma=0.5 lengths=1 seed=38");
  check_line(
      "metric=cityblock dtype=f64 B=2 n=387 m=300 d=3 gamma=1 band=absolute:90 weights=2,1,1.5 lengths=0 seed=39");
  check_line(
      "metric=cityblock dtype=f32 B=2 n=259 m=259 d=1 gamma=2 band=sakoe_chiba:9 weights=2,1,1 tangents=xy seed=40");
  check_line("metric=euclidean dtype=f32 B=2 n=300 m=280 d=1 gamma=0 weights=1,2,1 data=integers lengths=1 seed=41");
  // Paths that are equally good, by costs that are the same in forward and backward.
  check_line("metric=cosine dtype=f32 B=16 n=256 m=7 d=29 gamma=0 weights=0.5,0.25,1 data=constant seed=861830");
  check_line(
      "metric=cosine dtype=f32 B=9 n=384 m=6 d=132 gamma=0 weights=1,1,0 penalties=-0.5,1,1 data=steps seed=873023");
}

// Of more than 256 short pairs several share a block where a GPU gives gradients their initial values.
TEST_CASE("many tiny pairs are the oracle's, each by itself", "[family]") {
  for (const char *shape : {"B=2100 n=13 m=9", "B=9000 n=3 m=4"})
    for (const char *metric : {" d=1", " d=3", " d=7", " metric=precomputed"})
      for (const char *dtype : {" dtype=f32", " dtype=f64"})
        for (const char *more : {"", " lengths=0 spoil=nan", " grad=random"})
          check_line(std::string(shape) + metric + dtype + more);
}

// m of cells along the path shrinks, and exponents of the walls' cells fall below that of a forbidden one.
TEST_CASE("a cheap path between walls is the oracle's", "[family]") {
  for (const char *rule : {"", " weights=1,1,1 band=absolute:200", " weights=2,2,2", " penalties=0,1,1",
                           " weights=2,1,1", " weights=1,2,1", " weights=2,1,0.5 penalties=0,0.5,1"})
    for (uint64_t seed = 1; seed <= 8; ++seed)
      for (const char *shape : {" B=6 n=60 m=90", " B=2 n=140 m=100"})
        check_line("metric=precomputed dtype=f32" + std::string(shape) + " gamma=1" + rule +
                   " data=walls seed=" + std::to_string(seed));
}

// Derivatives of forbidden cells, which are anything, have no part in those of others.
TEST_CASE("tangents of series that are equal are nothing", "[family]") {
  check_line(
      "metric=sqeuclidean dtype=f64 B=1 n=4 m=4 d=2 gamma=0.000256 band=itakura:2.75 pairs=symmetric tangents=x "
      "data=flat scale=4409.84 seed=855810");
  check_line(
      "metric=sqeuclidean dtype=f64 B=1 n=154 m=173 d=12 gamma=0.0141157 lengths=1 tangents=xy data=equal seed=42");
}

TEST_CASE("a line is what it says when it is printed", "[family]") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Case c = problem(draw_line(seed, 5000)), again = problem(describe(c));
    INFO(describe(c));
    CHECK(describe(again) == describe(c));
    CHECK(same(again.x, c.x));
    CHECK(same(again.y, c.y));
    CHECK(same(again.tangent_x, c.tangent_x));
    CHECK(again.x_len == c.x_len);
    CHECK(again.problem.gamma == c.problem.gamma);
  }
  const Case drawn = random_case(7, SDTW_PRECOMPUTED, 3, 9, 5, 0, 0.5), again = problem(describe(drawn));
  CHECK(same(again.x, drawn.x));
  CHECK(describe(again) == describe(drawn));
  Case own = make_case(SDTW_COSINE, 2, 3, 4, 2, 1);
  own.x_len = {1, 3};
  CHECK(describe(own).find(" # but of other series lengths") != std::string::npos);
  CHECK(problem(describe(own)).problem.metric == SDTW_COSINE);
  for (const char *bad : {"metric=manhattan", "n=4 n=5", "radius=3", "n=four", "band=sakoe", "weights=1,2", "n"})
    CHECK_THROWS(problem(bad));
}

TEST_CASE("the data of a line are what tests/python/draws.py draws", "[family]") {
  const Case all = problem("B=2x3 n=3 m=2 d=2 pairs=all lengths=0 seed=42");
  CHECK(all.x.back() == narrow(-1.42570448));
  CHECK(all.y.back() == narrow(-0.333912998));
  CHECK(all.x_len == std::vector<int64_t>{3, 1});
  CHECK(all.y_len == std::vector<int64_t>{1, 0, 2});
  const Case cost = problem("metric=precomputed B=3 n=3 m=2 seed=42");
  CHECK(std::vector<double>{cost.x[5], cost.x[11], cost.x[17]} ==
        std::vector<double>{narrow(0.141300917), narrow(-1.42570448), narrow(3.23392558)});
  const Case whole = problem("metric=precomputed B=2 n=3 m=2 lengths=0 data=integers seed=42");
  CHECK(whole.x == std::vector<double>{5, 4, 6, 5, 5, 4, 1, 1, 7, 0, 0, 1});
  CHECK(whole.x_len == std::vector<int64_t>{3, 0});
  CHECK(whole.y_len == std::vector<int64_t>{0, 2});
  const Case series = problem("B=2 n=300 m=20 d=2 data=integers seed=4000000000");
  CHECK(std::vector<double>(series.x.begin(), series.x.begin() + 8) == std::vector<double>{3, -1, 1, -1, 4, 0, -2, -1});
  CHECK(std::accumulate(series.x.begin(), series.x.end(), 0.) == 2);
}
