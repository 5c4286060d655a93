// Random small problems against the oracle: every dimension of a Case drawn at once. A failure prints its seed.
#include "check.h"

using namespace test;

namespace {

constexpr uint64_t first_seed = 1, problems = 300;

template <class T, size_t count>
const T &one_of(Random &random, const T (&choices)[count]) {
  return choices[random.integer(0, count - 1)];
}

Case draw(uint64_t seed) {
  Random random(seed);
  const sdtw_metric metric = random.uniform() < 0.6 ? SDTW_SQEUCLIDEAN : SDTW_PRECOMPUTED;
  const bool many = random.uniform() < 0.4;
  const int64_t batch = many ? random.integer(16, 40) : random.integer(1, 5);
  const int64_t most = random.uniform() < 0.3 ? 10 : many ? 40 : 150;
  Case c = make_case(metric, batch, random.integer(1, most), random.integer(1, most), random.integer(1, 9),
                     std::pow(10.0, 5 * random.uniform() - 3));
  fill(c, random, std::pow(10.0, 2 * random.uniform() - 1));
  if (random.uniform() < 0.5) with_lengths(c, random, random.integer(0, 1));
  if (random.uniform() < 0.5) with_grad_value(c, random);
  if (metric == SDTW_PRECOMPUTED && random.uniform() < 0.3)
    for (double &cost : c.x)
      if (random.uniform() < 0.1) cost = INFINITY;
  c.problem.length_bits = one_of(random, {32, 64});
  c.exec.num_threads = static_cast<int32_t>(random.integer(0, 4));
  c.poison = one_of<unsigned char>(random, {0x00, 0xab, 0xff});
  for (Layout *layout : {&c.layout_x, &c.layout_y, &c.layout_grad_x, &c.layout_grad_y, &c.layout_alignment})
    *layout = one_of(random, distinct_layouts);
  return c;
}

}  // namespace

TEST_CASE("random problems give the oracle's results", "[stress]") {
  for (uint64_t seed = first_seed; seed < first_seed + problems; ++seed) {
    INFO("seed " << seed);
    check_everywhere(draw(seed));
  }
}
