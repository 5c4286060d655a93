// A random problem: shapes on every residue of tiles, strips and warps, data of every kind, one seed.
#pragma once

#include "data.h"

namespace test {

struct Drawn {
  Case c;
  std::vector<Data> data;  // of each pair
};

// A length: any up to 300, or near a border of tiles, strips and warps.
inline int64_t draw_length(Random &random) {
  constexpr int64_t borders[] = {1, 16, 32, 64, 96, 128, 192, 256, 257, 384, 512, 640, 768, 900};
  const double kind = random.uniform();
  if (kind < 0.15) return random.integer(1, 12);
  if (kind < 0.75) return random.integer(1, 300);
  return std::max<int64_t>(1, one_of(random, borders) + random.integer(-2, 2));
}

inline int64_t draw_features(Random &random) {
  const double kind = random.uniform();
  if (kind < 0.4) return random.integer(1, 2);
  return kind < 0.7 ? random.integer(3, 16) : random.integer(17, 130);
}

// cells: how many a problem may have, most of them a twentieth of that.
inline Drawn draw_problem(uint64_t seed, sdtw_device device, int64_t cells) {
  Random random(seed);
  const sdtw_metric metric = random.uniform() < 0.7 ? SDTW_SQEUCLIDEAN : SDTW_PRECOMPUTED;
  int64_t n = draw_length(random), m = draw_length(random);
  if (random.uniform() < 0.95) cells /= 20;
  while (n * m > cells) (n > m ? n : m) = (n > m ? n : m) / 2 + 1;
  const int64_t most = std::clamp<int64_t>(cells / (n * m), 1, 33);
  const int64_t batch = random.uniform() < 0.2 ? 1 : random.integer(1, most);
  const double gamma = std::pow(10.0, -4 + 6.5 * random.uniform());
  Drawn drawn{make_case(metric, batch, n, m, draw_features(random), gamma), {}};
  Case &c = drawn.c;
  c.exec.device = device;
  if (device == SDTW_CUDA && random.uniform() < 0.1) c.problem.dtype = SDTW_F64;
  const bool alike = random.uniform() < 0.5;
  const auto draw_data = [&] { return static_cast<Data>(random.integer(0, static_cast<int64_t>(Data::count) - 1)); };
  const auto draw_scale = [&] { return std::pow(10.0, -1.5 + 3 * random.uniform()); };
  Data data = draw_data();
  double scale = draw_scale();
  for (int64_t b = 0; b < batch; ++b) {
    if (!alike) data = draw_data(), scale = draw_scale();
    drawn.data.push_back(data);
    if (c.fused()) {
      const SeriesPair pair = series_pair(random, data, n, m, c.problem.features, scale);
      c.x.insert(c.x.end(), pair.x.begin(), pair.x.end());
      c.y.insert(c.y.end(), pair.y.begin(), pair.y.end());
    } else {
      const std::vector<double> cost = costs(random, data, n, m, scale * scale, gamma);
      c.x.insert(c.x.end(), cost.begin(), cost.end());
    }
  }
  if (random.uniform() < 0.3) with_lengths(c, random, random.integer(0, 1));
  if (random.uniform() < 0.3) with_grad_value(c, random);
  c.problem.length_bits = one_of(random, {32, 64});
  if (random.uniform() < 0.4)
    for (Layout *layout : {&c.layout_x, &c.layout_y, &c.layout_grad_x, &c.layout_grad_y, &c.layout_alignment})
      *layout = one_of(random, distinct_layouts);
  return drawn;
}

}  // namespace test
