// gamma = 0: dynamic time warping, its path, and ties: diagonal, vertical, horizontal.
#include "family.h"

using namespace test;

TEST_CASE("dynamic time warping of a few series", "[hard]") {
  each_result("dtype=f64 n=4 m=4 d=1 gamma=0", [](Case c, const Result &) {
    c.x = {1, 2, 2, 3}, c.y = {1, 2, 3, 4};
    const Result result = run(c);
    CHECK(result.value[0] == 1);
    CHECK(result.grad_x == std::vector<double>{0, 0, 0, -2});
    CHECK(result.grad_y == std::vector<double>{0, 0, 0, 2});
    CHECK(result.alignment == std::vector<double>{1, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1});
  });
}

TEST_CASE("ties are broken diagonal, vertical, horizontal", "[hard]") {
  each_result("metric=precomputed n=3 m=5 gamma=0", [](Case c, const Result &) {
    std::fill(c.x.begin(), c.x.end(), 1);
    const Result result = run(c);
    CHECK(result.value[0] == 5);
    CHECK(result.alignment == std::vector<double>{1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1});
    CHECK(result.grad_x == result.alignment);
    std::fill(c.x.begin(), c.x.end(), 0);  // any path: diagonals first, from the end
    CHECK(run(c).alignment == std::vector<double>{1, 1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1});
  });
}

// Whole numbers: sums are exact in every type, and equal more often than not.
TEST_CASE("paths among many that are equally good are the oracle's", "[hard]") {
  uint64_t seed = 0;
  for (const char *metric : {"precomputed", "sqeuclidean", "cityblock"})
    for (const char *rule : {"", " weights=2,1,1", " penalties=0,1,1", " band=sakoe_chiba:4", " band=absolute:12",
                             " band=itakura:2", " band=sakoe_chiba:3 weights=1,2,0.5 penalties=1,0,-1"})
      for (const char *shape : {" B=2 n=70 m=80", " B=19 n=12 m=17", " B=1 n=1 m=30", " B=3 n=40 m=1",
                                " B=40 n=45 m=70", " B=17 n=300 m=8", " B=17 n=8 m=300"}) {
        std::ostringstream line;
        ++seed;
        line << "metric=" << metric << shape << " gamma=0" << rule << " data=integers lengths=" << seed % 2
             << " grad=random seed=" << seed;
        check_line(line.str());
      }
}

TEST_CASE("values and paths at gamma = 0 of any series are the oracle's", "[hard]") {
  for (const char *metric : metric_names)
    for (const char *shape : {" B=2 n=130 m=100", " B=19 n=12 m=17", " B=1 n=400 m=390"})
      for (const char *dtype : {"f32", "f64"})
        check_line(std::string("metric=") + metric + " dtype=" + dtype + shape + " gamma=0 grad=random");
}

// Of squared distances values are too small for float32 as well, but paths and gradients are not.
TEST_CASE("series whose squares are outside of a float's range", "[hard]") {
  for (const char *shape : {" n=20 m=23 d=2", " B=17 n=30 m=12 d=1", " n=90 m=80 d=3"}) {
    for (const char *scale : {" scale=1e-22", " scale=1e-30", " scale=1e30", " scale=1e34"})
      check_line(std::string("metric=euclidean dtype=f32 gamma=0") + shape + scale);
    each_result(std::string("metric=sqeuclidean dtype=f32 gamma=0 scale=1e-22") + shape,
                [](const Case &c, const Result &) {
                  const Reference<double> ref = reference<double>(c);
                  const Result result = run(c);
                  for (int64_t b = 0; b < c.batch(); ++b) CHECK(compare_pair(c, result, ref, b).alignment == 0);
                });
  }
}

TEST_CASE("an alignment at gamma = 0 is one path", "[hard]") {
  each_result("B=3 n=60 m=45 d=3 gamma=0", [](const Case &c, const Result &result) {
    const int64_t n = c.problem.n, m = c.problem.m;
    for (int64_t b = 0; b < c.batch(); ++b) {
      const double *const e = result.alignment.data() + b * n * m;
      int64_t i = 0, j = 0, steps = 1, visited = 0;
      for (int64_t k = 0; k < n * m; ++k) visited += e[k] == 1;
      CHECK(e[0] == 1);
      while (i < n - 1 || j < m - 1) {
        const bool down = i < n - 1 && e[(i + 1) * m + j] == 1, right = j < m - 1 && e[i * m + j + 1] == 1;
        if (!down && !right && !(i < n - 1 && j < m - 1 && e[(i + 1) * m + j + 1] == 1)) break;
        i += right ? 0 : 1, j += down ? 0 : 1, ++steps;
      }
      CHECK((i == n - 1 && j == m - 1));
      CHECK(steps == visited);
    }
  });
}

TEST_CASE("small gamma tends to gamma = 0", "[hard]") {
  each_result("B=3 n=60 m=45 d=3 gamma=0", [](const Case &c, const Result &hard) {
    Case soft = c;
    soft.problem.gamma = 1e-6;
    const Result result = run(soft);
    CHECK(close(result.value, hard.value, 1e-4));
    CHECK(close(result.grad_x, hard.grad_x, 1e-3 + between(c)));
  });
}

TEST_CASE("what is wrong with one pair does not touch the others at gamma = 0", "[hard]") {
  for (const char *metric : {"precomputed", "sqeuclidean"})
    for (const char *how : {"nan", "length", "inf"})
      for (const char *shape : {" B=5 n=40 m=33", " B=33 n=12 m=9"}) {
        if (std::string(how) == "inf" && std::string(metric) == "sqeuclidean") continue;
        check_line(std::string("metric=") + metric + shape + " gamma=0 seed=3 spoil=" + how);
      }
}
