// Reproducible inputs: every value is one that float32 can hold, so that both dtypes see the same problem.
#pragma once

#include <cmath>
#include <random>

#include "harness.h"

namespace test {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  // Uniform in [0, 1); the same on every platform, unlike the standard distributions.
  double uniform() { return static_cast<double>(engine_() >> 11) * 0x1p-53; }
  int64_t integer(int64_t low, int64_t high) { return low + static_cast<int64_t>(engine_() % (high - low + 1)); }
  double normal() {
    const double radius = std::sqrt(-2 * std::log(1 - uniform()));
    return radius * std::cos(2 * M_PI * uniform());
  }

 private:
  std::mt19937_64 engine_;
};

inline double narrow(double value) { return static_cast<double>(static_cast<float>(value)); }

std::vector<double> normal_values(Random &random, int64_t count, double scale = 1);

// Sums of a few waves of unit variance, features apart: what real series look like to the recursion.
std::vector<double> smooth_values(Random &random, int64_t batch, int64_t steps, int64_t features);

// Fills a case with series of independent normal values, or with costs that are the squares of such.
Case &fill(Case &c, Random &random, double scale = 1);

Case random_case(uint64_t seed, sdtw_metric metric, int64_t batch, int64_t n, int64_t m, int64_t features,
                 double gamma);

// A length for every series from 1 to the padded one, with the padded one among them.
Case &with_lengths(Case &c, Random &random, int64_t least = 1);

Case &with_grad_value(Case &c, Random &random);

}  // namespace test
