#include "draw.h"

namespace test {

Case draw(uint64_t seed, const Extent &extent) {
  Random random(seed);
  const sdtw_metric metric = random.uniform() < 0.6 ? SDTW_SQEUCLIDEAN : SDTW_PRECOMPUTED;
  const bool many = random.uniform() < 0.4;
  const int64_t batch = many ? random.integer(16, extent.many_pairs) : random.integer(1, extent.few_pairs);
  const int64_t most = random.uniform() < 0.3 ? 10 : many ? extent.short_steps : extent.long_steps;
  const int64_t features = random.uniform() < 0.8 ? extent.features : extent.many_features;
  Case c = make_case(metric, batch, random.integer(1, most), random.integer(1, most), random.integer(1, features),
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

}  // namespace test
