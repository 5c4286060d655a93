// The expected alignment E: the oracle's, its corners, its shape as a flow of probability.
#include "family.h"

using namespace test;

TEST_CASE("alignments of every shape are the oracle's", "[alignment]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    each_shape(2000, 40000, [&](uint64_t seed, int64_t batch, int64_t n, int64_t m) {
      Case base = random_case(seed, metric, batch, n, m, 1 + static_cast<int64_t>(seed % 4), seed % 3 ? 1.0 : 0.1);
      base.want_grad_x = base.want_grad_y = false;
      check_everywhere(base);
    });
}

TEST_CASE("both corners are visited for certain, at any gamma", "[alignment]") {
  uint64_t seed = 2100;
  for (const double gamma : {1e-7, 1e-5, 1e-3, 1e-1, 1.0, 1e2, 1e4, 1e6})
    for (const Size &size : {Size{1, 1}, Size{3, 200}, Size{64, 64}, Size{300, 257}})
      for (const int64_t batch : {1, 16}) {
        if (batch * size.n * size.m > 100000) continue;
        for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED}) {
          const Case base = random_case(++seed, metric, batch, size.n, size.m, 3, gamma);
          const int64_t step = size.n * size.m;
          for (const Case &c : variants(base)) {
            const Result result = run(c);
            double worst = 0;
            for (int64_t b = 0; b < batch; ++b)
              for (const int64_t corner : {b * step, (b + 1) * step - 1})
                worst = std::max(worst, std::abs(result.alignment[corner] - 1));
            INFO(describe(c));
            CHECK(worst <= 1e-6);
          }
        }
      }
}

TEST_CASE("every row is visited, and no cell more than once", "[alignment]") {
  const Case base = random_case(2200, SDTW_SQEUCLIDEAN, 1, 150, 90, 2, 1);
  for (const Case &c : variants(base)) {
    const Result result = run(c);
    INFO(describe(c));
    double least_row = 2, largest = 0, smallest = 1;
    for (int64_t i = 0; i < 150; ++i) {
      double row = 0;
      for (int64_t j = 0; j < 90; ++j) {
        row += result.alignment[i * 90 + j];
        largest = std::max(largest, result.alignment[i * 90 + j]);
        smallest = std::min(smallest, result.alignment[i * 90 + j]);
      }
      least_row = std::min(least_row, row);
    }
    CHECK(least_row >= 1 - 1e-5);
    CHECK(largest <= 1 + 1e-6);
    CHECK(smallest >= 0);
  }
}

// Nearly all of a diffuse E is at the diagonal, and the rest of a tile's edge is left out. Were that 1e-12 of E in
// every tile, which no float32 shows, E[0,0] would be 3e-11 less than 1 for 1000 steps, and 3e-13 for 100 where lanes
// are pairs. It is 3e-13 and 1e-16 less, on a GPU 1.8e-12 and 1e-15.
TEST_CASE("what is left out of E does not add up in float64", "[alignment]") {
  for (const char *shape : {"B=1 n=1000 m=1001", "B=64 n=100 m=100"})
    each_result(std::string("dtype=f64 metric=precomputed gamma=1 data=constant seed=1 ") + shape,
                [](const Case &c, const Result &result) {
                  const int64_t step = c.problem.n * c.problem.m;
                  double worst = 0;
                  for (int64_t b = 0; b < c.batch(); ++b)
                    worst = std::max(worst, std::abs(result.alignment[b * step] - 1));
                  CHECK(worst <= 2.5e-15 * double(c.problem.n));
                });
}
