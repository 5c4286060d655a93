// Every backend against the CPU's in float64, which is quicker than the oracle: sizes on either side of every tile's
// edge, a thousand random shapes, and more than 2^31 cells.
#include "check.h"
#include "cpu_reference.h"
#include "draw.h"
#include "family.h"
#include "plan.h"

using namespace test;

namespace {

// float64 is held against float64: the errors of both add up.
void check_agreement(const Case &c, const Result &result, const Reference<double> &ref) {
  check(c, result, ref, c.problem.dtype == SDTW_F64 ? 2 : 1);
}

void check_agreement(const Case &base) {
  const Reference<double> ref = cpu_reference(base);
  for (const Case &c : variants(base)) check_agreement(c, run(c), ref);
}

// On a GPU more strips than it takes at once, so that E goes from one to the next.
struct Problem {
  sdtw_metric metric;
  int64_t batch, n, m, features;
  double gamma;
};
void check_agreement(uint64_t seed, const Problem &p) {
  Random random(seed);
  Case base = random_case(seed, p.metric, p.batch, p.n, p.m, p.features, p.gamma);
  base.want_alignment = p.batch * p.n * p.m < 10000000;
  check_agreement(base);
  check_agreement(with_lengths(base, random));
  if (p.features > 1 || !base.fused()) return;
  const int64_t size = static_cast<int64_t>(base.x.size()) / p.batch;  // some pairs whose costs are large
  for (int64_t b = 3; b < p.batch; b += 7)
    for (int64_t i = 0; i < size; ++i) base.x[b * size + i] *= 3000;
  check_agreement(base);
}

// The device's own choice of everything, in float32.
Case large_case(uint64_t seed, int64_t batch, int64_t length) {
  Case c = random_case(seed, SDTW_SQEUCLIDEAN, batch, length, length, 1, 1);
  c.exec.num_threads = 0;
  c.want_alignment = false;
  return c;
}

// Whether the pipeline's tiles are those of the warps: blocks of little shared memory have smaller ones.
bool has_tiles_of_32_steps(int64_t features) {
  Case c = make_case(SDTW_SQEUCLIDEAN, 1, 300, 300, features, 1);
  c.exec.device = SDTW_CUDA;
  char text[4000];
  require_ok(sdtw_describe(&c.problem, &c.exec, text, sizeof text), "sdtw_describe");
  return std::string(text).find(" (tiles of 32 steps") != std::string::npos;
}

}  // namespace

TEST_CASE("lengths on either side of every tile's edge", "[agreement]") {
  constexpr int64_t lengths[] = {1, 2, 31, 32, 33, 127, 128, 129, 1023, 1024, 1025, 4097};
  uint64_t seed = 11000;
  for (const int64_t n : lengths)
    for (const int64_t m : lengths) {
      Random random(++seed);
      const sdtw_metric metric = seed % 3 == 0 && n * m < 2000000 ? SDTW_PRECOMPUTED : SDTW_SQEUCLIDEAN;
      const int64_t features = n * m < 20000 ? one_of(random, {1, 8, 9, 64}) : one_of(random, {1, 3, 8, 9});
      Case base = make_case(metric, n * m < 2000000 ? 2 : 1, n, m, features, 1);
      fill(base, random);
      if (seed % 2 == 0) with_lengths(base, random);
      base.want_alignment = n * m < 200000;
      check_agreement(base);
    }
}

TEST_CASE("many pairs of several strips", "[agreement]") {
  constexpr Problem problems[] = {
      {SDTW_SQEUCLIDEAN, 110, 330, 230, 1, 1},   {SDTW_SQEUCLIDEAN, 110, 290, 260, 2, 0.1},
      {SDTW_SQEUCLIDEAN, 50, 400, 180, 9, 1},    {SDTW_SQEUCLIDEAN, 40, 700, 90, 64, 1000},
      {SDTW_PRECOMPUTED, 110, 300, 150, 1, 0.1}, {SDTW_SQEUCLIDEAN, 80, 520, 300, 1, 1000},
      {SDTW_SQEUCLIDEAN, 50, 300, 1500, 3, 1000}};  // the last one's halves share more columns than there is room for
  uint64_t seed = 11400;
  for (const Problem &p : problems) check_agreement(++seed, p);
}

TEST_CASE("short pairs of several strips", "[agreement]") {
  constexpr Problem problems[] = {{SDTW_SQEUCLIDEAN, 102, 270, 37, 1, 1}, {SDTW_SQEUCLIDEAN, 46, 270, 37, 5, 1}};
  uint64_t seed = 11450;
  for (const Problem &p : problems) check_agreement(++seed, p);
}

TEST_CASE("a thousand random shapes", "[agreement]") {
  constexpr uint64_t first_seed = 20000;
  const uint64_t problems = options().device == SDTW_CUDA ? 1000 : 200;  // the CPU's have met the oracle in [stress]
  for (uint64_t seed = first_seed; seed < first_seed + problems; ++seed) {
    INFO("seed " << seed);
    check_agreement(draw(seed, {6, 400, 200, 70, 9, 80}));
  }
}

TEST_CASE("one pair of more than 2^31 cells", "[agreement]") {
  const Case c = large_case(11500, 1, 50000);
  check_agreement(c, run(c), cpu_reference(c));
}

TEST_CASE("a batch of more than 2^31 cells", "[agreement]") {
  constexpr int64_t batch = 600, distinct = 4, length = 2048;
  const Case few = large_case(11600, distinct, length);
  Case many = large_case(11600, 1, length);
  many.problem.batch_x = many.problem.batch_y = batch;
  many.x.clear(), many.y.clear();
  for (int64_t b = 0; b < batch; b += distinct) {
    many.x.insert(many.x.end(), few.x.begin(), few.x.end());
    many.y.insert(many.y.end(), few.y.begin(), few.y.end());
  }
  const Result result = run(many);
  const Reference<double> ref = cpu_reference(few);
  const auto part = [&](const std::vector<double> &from, int64_t first) {
    const int64_t step = static_cast<int64_t>(from.size()) / batch;
    return std::vector<double>(from.begin() + first * step, from.begin() + (first + distinct) * step);
  };
  Result first;
  for (int64_t b = 0; b < batch; b += distinct) {
    const Result group{part(result.value, b), part(result.grad_x, b), part(result.grad_y, b), {}};
    if (b == 0) check_agreement(few, first = group, ref);
    INFO("pair " << b);
    CHECK(same(group, first));
  }
}

// Backward of few features by warps of which each goes through strips by itself, and by a pipeline of warps; and both
// with costs of forward by warps that sweep.
TEST_CASE("both kinds of backward of few features give the same bits", "[agreement][cuda]") {
  struct Shape {
    int64_t batch, n, m;
  };
  constexpr Shape shapes[] = {{3, 1, 1},    {5, 20, 33},   {9, 31, 7},    {4, 64, 200}, {2, 128, 16},  {3, 129, 128},
                              {2, 256, 97}, {2, 385, 511}, {1, 700, 300}, {3, 300, 40}, {40, 140, 30}, {1, 1400, 64}};
  uint64_t seed = 11700;
  for (const Shape &shape : shapes)
    for (int64_t features = 1; features <= sdtw::cuda::max_inline_features_of_many; ++features) {
      Random random(++seed);
      Case c = random_case(seed, SDTW_SQEUCLIDEAN, shape.batch, shape.n, shape.m, features, seed % 3 == 0 ? 1e-5 : 1);
      if (seed % 2 == 0) c = with_lengths(c, random);
      c.exec.device = SDTW_CUDA, c.core_kernels = true, c.want_alignment = false;
      const Result pipeline = run(c);
      c.inline_costs = true;
      const Result inlined = run(c);
      c.inline_costs = false, c.warp_kernels = true;
      const Result warps = run(c);
      INFO(describe(c));
      CHECK(close(c, pipeline, inlined));
      if (features > sdtw::cuda::max_inline_features || !has_tiles_of_32_steps(features))
        continue;  // E is scaled after every tile
      CHECK(same(warps.grad_x, pipeline.grad_x));
      CHECK(same(warps.grad_y, pipeline.grad_y));
    }
}
