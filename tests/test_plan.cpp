// What plans decide, by their descriptions and by the plans themselves: which kernels problems of a shape get.
#include "catch.h"
#include "harness.h"
#include "plan.h"

using namespace test;

namespace {

sdtw::Plan plan_of(const Case &c) { return sdtw::make_plan(sdtw::validate(&c.problem), sdtw::validate(&c.exec)); }

sdtw::cpu::Plan cpu_plan(int64_t batch, int64_t n, int64_t m, int64_t features, int threads = 1) {
  Case c = make_case(SDTW_SQEUCLIDEAN, batch, n, m, features, 1);
  c.exec.device = SDTW_CPU;
  c.exec.num_threads = threads;
  return plan_of(c).cpu;
}

sdtw::cuda::Plan cuda_plan(sdtw_metric metric, int64_t batch, int64_t n, int64_t m, int64_t features,
                           sdtw_dtype dtype = SDTW_F32) {
  Case c = make_case(metric, batch, n, m, features, 1);
  c.exec.device = SDTW_CUDA;
  c.problem.dtype = dtype;
  return plan_of(c).cuda;
}

}  // namespace

TEST_CASE("CUDA: step rules have the narrowest kernels that do for them") {
  using sdtw::cuda::general::Rule;
  const auto rule = [](double diagonal, double vertical, double horizontal, double penalty, bool wide) {
    Case c = make_case(SDTW_SQEUCLIDEAN, 2, 20, 20, 1, 1);
    c.problem.step_weight[0] = diagonal, c.problem.step_weight[1] = vertical, c.problem.step_weight[2] = horizontal;
    c.problem.step_penalty[1] = penalty;
    return sdtw::cuda::general::rule_of(sdtw::validate(&c.problem), wide);
  };
  CHECK(rule(1, 1, 1, 0, false) == Rule::unit);
  CHECK(rule(1, 1, 1, 0, true) == Rule::unit);
  CHECK(rule(2, 2, 2, 0, false) == Rule::penalised);
  CHECK(rule(1, 1, 1, 3, false) == Rule::penalised);
  CHECK(rule(1, 1, 1, 3, true) == Rule::weighted);
  CHECK(rule(2, 1, 1, 0, false) == Rule::doubled);
  CHECK(rule(1, .5, .5, 0, false) == Rule::doubled);
  CHECK(rule(2, 1, 1, 0, true) == Rule::weighted);
  CHECK(rule(2, 1, 1, 3, false) == Rule::weighted);
  CHECK(rule(2, 1, .5, 0, false) == Rule::weighted);
  CHECK(rule(1, 2, 2, 0, false) == Rule::weighted);
}

TEST_CASE("CPU: many short pairs take a lane each, few or long ones strips") {
  using sdtw::cpu::Mapping;
  CHECK(cpu_plan(512, 20, 20, 1).mapping == Mapping::lanes);
  CHECK(cpu_plan(64, 128, 128, 8).mapping == Mapping::lanes);
  CHECK(cpu_plan(64, 128, 128, 64).mapping == Mapping::strips);  // series of 16 pairs are more than a cache holds
  CHECK(cpu_plan(40, 100, 100, 6).mapping == Mapping::lanes);    // three groups
  CHECK(cpu_plan(32, 100, 100, 6).mapping == Mapping::strips);
  CHECK(cpu_plan(1, 128, 128, 8).mapping == Mapping::strips);
  CHECK(cpu_plan(512, 600, 600, 1).mapping == Mapping::strips);
  CHECK(cpu_plan(64, 8, 257, 1).mapping == Mapping::lanes);  // beside a short series any length will do
  Case c = make_case(SDTW_SQEUCLIDEAN, 512, 20, 20, 1, 0);
  c.exec.device = SDTW_CPU;
  CHECK(plan_of(c).cpu.mapping == Mapping::lanes);
  c.problem.step_weight[0] = 2;
  CHECK(plan_of(c).cpu.mapping == Mapping::lanes);
  Case wide = make_case(SDTW_SQEUCLIDEAN, 512, 500, 500, 1, 1);
  wide.exec.device = SDTW_CPU;
  CHECK(plan_of(wide).cpu.mapping == Mapping::strips);
  wide.problem.band = SDTW_BAND_SAKOE_CHIBA, wide.problem.band_radius = 50;  // few columns of each row
  CHECK(plan_of(wide).cpu.mapping == Mapping::lanes);
}

TEST_CASE("CPU: the side that fills strips, or takes few rows, has the rows") {
  CHECK(cpu_plan(1, 5, 2000, 1).transposed);
  CHECK_FALSE(cpu_plan(1, 2000, 5, 1).transposed);
  CHECK_FALSE(cpu_plan(1, 2000, 2000, 1).transposed);
  CHECK_FALSE(cpu_plan(512, 100, 200, 1).transposed);  // short pairs stay as they are, whatever they are padded to
}

TEST_CASE("CPU: threads share a pair only where there are too few pairs") {
  CHECK(cpu_plan(1, 4000, 4000, 4, 8).wavefront);
  CHECK_FALSE(cpu_plan(64, 1000, 1000, 4, 8).wavefront);
  CHECK(cpu_plan(1, 20, 20, 1, 8).threads == 1);
  CHECK(cpu_plan(64, 1000, 1000, 4, 8).threads == 8);
}

TEST_CASE("CUDA: pairs of few rows share a warp, others are cut into strips of 128 rows") {
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 64, 32, 100, 1).lanes == 8);
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 64, 33, 100, 1).lanes == 16);
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 64, 65, 100, 1).lanes == 32);
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 64, 128, 100, 1).strips == 1);
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 64, 129, 100, 1).strips == 2);
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 64, 32, 100, 1).tasks == 16);
}

TEST_CASE("CUDA: of few pairs a much longer y has the rows") {
  const auto plan = [](int64_t batch, int64_t n, int64_t m) { return cuda_plan(SDTW_SQEUCLIDEAN, batch, n, m, 8); };
  CHECK(plan(32, 10, 5000).transposed);
  CHECK(plan(32, 10, 5000).strips == 40);
  CHECK(plan(400, 10, 5000).transposed);
  CHECK_FALSE(plan(401, 10, 5000).transposed);  // which keep more warps busy as they are
  CHECK_FALSE(plan(32, 5000, 10).transposed);
  CHECK(plan(4, 2500, 5000).transposed);
  CHECK_FALSE(plan(4, 2501, 5000).transposed);
  CHECK_FALSE(plan(32, 10, 512).transposed);  // so that a short pair's result does not depend on its padding
  CHECK_FALSE(cuda_plan(SDTW_PRECOMPUTED, 32, 10, 5000, 0).transposed);
}

TEST_CASE("CUDA: sources of costs, sweeps and sums by shape") {
  using sdtw::cuda::Costs;
  CHECK(cuda_plan(SDTW_PRECOMPUTED, 8, 300, 300, 0).costs == Costs::given);
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 8, 300, 300, 4).costs == Costs::tensor);
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 100, 300, 300, 4).costs == Costs::inlined);
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 8, 100, 300, 4).costs == Costs::inlined);
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 8, 300, 300, 5).costs == Costs::tensor);
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 2, 2048, 2048, 1).full_sweeps);
  CHECK_FALSE(cuda_plan(SDTW_SQEUCLIDEAN, 64, 2048, 2048, 1).full_sweeps);
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 1, 100, 8193, 1).wide_sums);
  CHECK_FALSE(cuda_plan(SDTW_SQEUCLIDEAN, 1, 100, 8192, 8).wide_sums);
  CHECK_FALSE(cuda_plan(SDTW_PRECOMPUTED, 1, 100, 9000, 0).wide_sums);
  CHECK(cuda_plan(SDTW_SQEUCLIDEAN, 8, 300, 300, 3, SDTW_F64).snapshots_each == 1);
}

TEST_CASE("CUDA: many pairs have costs of up to eight features in the warp that sweeps") {
  using sdtw::cuda::Costs;
  const auto costs = [](int64_t batch, int64_t n, int64_t features, uint32_t flags, sdtw_dtype dtype = SDTW_F32) {
    Case c = make_case(SDTW_SQEUCLIDEAN, batch, n, n, features, 1);
    c.problem.dtype = dtype;
    c.exec.device = SDTW_CUDA;
    c.exec.flags = flags;
    return plan_of(c).cuda.costs;
  };
  CHECK(costs(1000, 128, 8, SDTW_NO_STATE) == Costs::inlined);
  CHECK(costs(1000, 128, 8, SDTW_NO_STATE, SDTW_F16) == Costs::inlined);
  CHECK(costs(1000, 128, 9, SDTW_NO_STATE) == Costs::tensor);
  CHECK(costs(1000, 128, 8, 0) == Costs::inlined);
  CHECK(costs(200, 600, 8, 0) == Costs::tensor);
  CHECK(costs(200, 600, 8, SDTW_NO_STATE) == Costs::inlined);
  CHECK(costs(100, 128, 8, SDTW_NO_STATE) == Costs::tensor);
  CHECK(costs(10000, 20, 8, SDTW_NO_STATE) == Costs::tensor);
  CHECK(costs(10000, 20, 4, SDTW_NO_STATE) == Costs::inlined);
}

TEST_CASE("CUDA: all pairs take the core kernels, without state, in waves of about the same size") {
  using sdtw::cuda::Route;
  const auto plan = [](sdtw_metric metric, uint32_t flags, uint32_t exec, sdtw_dtype dtype = SDTW_F32) {
    Case c = make_case(metric, 300, 128, 128, 3, 1);
    c.problem.dtype = dtype, c.problem.flags = flags;
    c.exec.device = SDTW_CUDA, c.exec.flags = exec;
    return plan_of(c);
  };
  constexpr uint32_t both = SDTW_ALL_PAIRS | SDTW_SYMMETRIC;
  for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F64, SDTW_F16, SDTW_BF16})
    for (const uint32_t flags : {uint32_t{SDTW_ALL_PAIRS}, both}) {
      for (const uint32_t exec : {uint32_t{SDTW_NO_STATE}, uint32_t{0}}) {
        const auto p = plan(SDTW_SQEUCLIDEAN, flags, exec, dtype);
        CHECK(p.cuda.route == Route::pairs);
        CHECK(p.cuda.converted == (dtype == SDTW_F16 || dtype == SDTW_BF16));
        CHECK(p.sizes().state == 0);
        CHECK(plan(SDTW_CITYBLOCK, flags, exec, dtype).cuda.route == Route::general);
      }
    }
  Case given = make_case(SDTW_PRECOMPUTED, 3, 20, 20, 0, 1);
  given.problem.flags = SDTW_ALL_PAIRS;
  given.exec.device = SDTW_CUDA;
  CHECK(plan_of(given).cuda.route == Route::core);
  const int64_t pairs = plan(SDTW_SQEUCLIDEAN, SDTW_ALL_PAIRS, SDTW_NO_STATE).cuda.backward_pairs.pairs;
  CHECK(pairs > 4000);
  CHECK((90000 - 1) % pairs + 1 > pairs / 2);  // the last wave
}

TEST_CASE("CUDA: few features have producers forward where strips are few, and hardly ever backward") {
  using sdtw::cuda::Costs;
  struct Shape {
    int64_t batch, steps, features;
    uint32_t flags;
    Costs forward, backward;
  };
  const uint32_t state = 0, none = SDTW_NO_STATE;
  const Shape shapes[] = {
      {32, 512, 2, state, Costs::tensor, Costs::inlined},    {33, 512, 2, state, Costs::tensor, Costs::inlined},
      {34, 512, 2, state, Costs::inlined, Costs::inlined},   {34, 512, 4, none, Costs::tensor, Costs::inlined},
      {67, 512, 4, none, Costs::inlined, Costs::inlined},    {16, 512, 1, state, Costs::tensor, Costs::inlined},
      {17, 512, 1, state, Costs::inlined, Costs::inlined},   {1, 256, 1, state, Costs::inlined, Costs::inlined},
      {1, 257, 1, state, Costs::tensor, Costs::inlined},     {1, 128, 3, state, Costs::inlined, Costs::inlined},
      {1, 129, 3, state, Costs::tensor, Costs::inlined},     {32, 512, 5, state, Costs::tensor, Costs::tensor},
      {40, 512, 6, state, Costs::tensor, Costs::inlined},    {40, 513, 6, state, Costs::tensor, Costs::tensor},
      {600, 60, 6, state, Costs::tensor, Costs::tensor},     {200, 65, 6, state, Costs::tensor, Costs::inlined},
      {40, 512, 7, state, Costs::tensor, Costs::tensor},     {129, 512, 8, state, Costs::inlined, Costs::inlined},
      {129, 513, 8, state, Costs::tensor, Costs::tensor},    {129, 513, 6, state, Costs::inlined, Costs::inlined},
      {1000, 512, 5, state, Costs::inlined, Costs::inlined}, {1000, 512, 8, none, Costs::inlined, Costs::inlined},
      {1000, 512, 64, state, Costs::tensor, Costs::tensor},
  };
  for (const Shape &shape : shapes) {
    Case c = make_case(SDTW_SQEUCLIDEAN, shape.batch, shape.steps, shape.steps, shape.features, 1);
    c.exec.device = SDTW_CUDA, c.exec.flags |= shape.flags;
    const sdtw::cuda::Plan plan = plan_of(c).cuda;
    INFO(describe(c));
    CHECK(plan.costs == shape.forward);
    CHECK(plan.backward_costs == shape.backward);
  }
}

// Costs of half precision are none: they would have to be converted, which is an n x m array.
TEST_CASE("CUDA: every core problem takes the core kernels, whatever its shape, and no other does") {
  using sdtw::cuda::Route;
  const auto route = [](const Case &c) { return plan_of(c).cuda.route; };
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F64, SDTW_F16, SDTW_BF16})
      for (const int64_t batch : {1, 7, 5000})
        for (const int64_t n : {1, 31, 128, 129, 3000})
          for (const int64_t m : {1, 64, 2000})
            for (const int64_t features : {1, 4, 5, 63, 128, 129, 1024})
              for (const double gamma : {1e-6, 0.1, 1e4})
                for (const uint32_t flags : {uint32_t{0}, uint32_t{SDTW_NO_STATE}}) {
                  Case c = make_case(metric, batch, n, m, metric == SDTW_PRECOMPUTED ? 0 : features, gamma);
                  c.problem.dtype = dtype;
                  c.exec.device = SDTW_CUDA;
                  c.exec.flags = flags;
                  const bool half = dtype == SDTW_F16 || dtype == SDTW_BF16;
                  if (route(c) == (half && metric == SDTW_PRECOMPUTED ? Route::general : Route::core)) continue;
                  FAIL_CHECK(describe(c));
                }
  Case core = make_case(SDTW_SQEUCLIDEAN, 7, 50, 60, 3, 1);
  core.exec.device = SDTW_CUDA;
  REQUIRE(route(core) == Route::core);
  const auto other = [&](auto change) {
    Case c = core;
    change(c.problem);
    return route(c);
  };
  for (const sdtw_metric metric : {SDTW_EUCLIDEAN, SDTW_CITYBLOCK, SDTW_COSINE})
    CHECK(other([&](sdtw_problem &p) { p.metric = metric; }) == Route::general);
  CHECK(other([](sdtw_problem &p) { p.band = SDTW_BAND_ABSOLUTE, p.band_radius = 9; }) == Route::general);
  CHECK(other([](sdtw_problem &p) { p.step_weight[1] = 2; }) == Route::general);
  CHECK(other([](sdtw_problem &p) { p.step_penalty[2] = 1; }) == Route::general);
  CHECK(other([](sdtw_problem &p) { p.gamma = 0; }) == Route::general);
}

TEST_CASE("CUDA: values and gradients of a Sakoe-Chiba band take the core kernels, but for float64 and many features") {
  using sdtw::cuda::Route;
  const auto plan = [](double radius, int64_t features = 3, sdtw_dtype dtype = SDTW_F32, uint32_t flags = 0,
                       uint32_t exec = 0, sdtw_band band = SDTW_BAND_SAKOE_CHIBA) {
    Case c = make_case(SDTW_SQEUCLIDEAN, 7, 300, 290, features, 1);
    c.problem.dtype = dtype;
    c.problem.flags = flags;
    c.problem.band = band, c.problem.band_radius = radius;
    c.exec.device = SDTW_CUDA;
    c.exec.flags = exec;
    return plan_of(c).cuda;
  };
  for (const int64_t features : {1, 3, 5, 128})
    for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F16, SDTW_BF16})
      for (const double radius : {0., 1.5, 298.5}) {
        const auto p = plan(radius, features, dtype);
        CHECK(p.route == Route::core);
        CHECK(p.corridor);
        CHECK(p.aligns == (dtype == SDTW_F32));
        // Where a GPU has no such kernels the general engine has to do, and of alignments in half precision everywhere.
        CHECK(p.state_bytes >= p.general.state.bytes);
        CHECK(p.forward_bytes >= p.general.forward.bytes);
        CHECK(p.backward_bytes >= p.general.backward.bytes);
        CHECK(p.alignment_bytes >= p.general.alignment.bytes);
        CHECK((p.general.alignment.run.bytes > 0) == !p.aligns);  // without state
      }
  CHECK(plan(5, 3, SDTW_F32, SDTW_ALL_PAIRS, SDTW_NO_STATE).route == Route::pairs);
  CHECK(plan(5, 3, SDTW_F32, SDTW_ALL_PAIRS, SDTW_NO_STATE).corridor);
  CHECK(plan(5, 3, SDTW_F64).route == Route::general);
  CHECK(plan(5, 129).route == Route::general);
  for (const sdtw_band band : {SDTW_BAND_ABSOLUTE, SDTW_BAND_ITAKURA})
    CHECK(plan(5, 3, SDTW_F32, 0, 0, band).route == Route::general);
  for (const sdtw_band band : {SDTW_BAND_SAKOE_CHIBA, SDTW_BAND_ABSOLUTE})
    for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F64}) {
      CHECK(plan(299, 3, dtype, 0, 0, band).route == Route::core);  // it admits all cells, and is none
      CHECK_FALSE(plan(299, 3, dtype, 0, 0, band).corridor);
    }
}

TEST_CASE("CUDA: cosine of several features takes the core kernels, but for tiny gammas and long series") {
  using sdtw::cuda::Costs;
  const auto plan = [](int64_t features, double gamma, int64_t m, sdtw_dtype dtype = SDTW_F32, uint32_t flags = 0) {
    Case c = make_case(SDTW_COSINE, 7, 50, m, features, gamma);
    c.problem.dtype = dtype;
    c.problem.flags = flags;
    c.exec.device = SDTW_CUDA;
    return plan_of(c).cuda;
  };
  using sdtw::cuda::Route;
  for (const int64_t features : {5, 64, 1000})
    for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F16, SDTW_BF16})
      for (const double gamma : {2e-4, 1., 1e10}) {
        const auto p = plan(features, gamma, 4096, dtype);
        CHECK(p.route == Route::core);
        CHECK(p.units);
        CHECK(p.costs == Costs::tensor);
        CHECK_FALSE(p.converted);
        // Another GPU's general engine may have to do.
        CHECK(p.state_bytes >= p.general.state.bytes);
        CHECK(p.forward_bytes >= p.general.forward.bytes);
        CHECK(p.backward_bytes >= p.general.backward.bytes);
        CHECK(p.alignment_bytes >= p.general.alignment.bytes);
      }
  CHECK(plan(4, 1, 60).route == Route::general);
  CHECK(plan(5, 1e-4, 60).route == Route::general);
  CHECK(plan(5, 1, 4097).route == Route::general);
  CHECK(plan(5, 1, 60, SDTW_F64).route == Route::general);
  CHECK(plan(5, 1, 4096, SDTW_F32, SDTW_ALL_PAIRS).route == Route::general);
}

TEST_CASE("CUDA: values alone of many short series of few features are computed by streams") {
  const auto streams = [](int64_t n, int64_t m, int64_t features, double gamma, bool no_state = true) {
    Case c = make_case(SDTW_SQEUCLIDEAN, 20, n, m, features, gamma);
    c.problem.flags = SDTW_ALL_PAIRS;
    c.exec.device = SDTW_CUDA;
    c.exec.flags = no_state ? SDTW_NO_STATE : 0;
    return plan_of(c).cuda.streams;
  };
  CHECK(streams(128, 128, 1, 1).fit);
  CHECK(streams(128, 128, 1, 1).lanes == 32);
  CHECK(streams(64, 128, 2, 1).lanes == 16);
  CHECK(streams(128, 128, 1, 0).lanes == 16);
  CHECK(streams(1000, 128, 1, 1).warps == 8);
  CHECK(streams(1000, 128, 1, 0).warps == 4);
  CHECK(streams(128, 1000, 1, 0).swapped);
  CHECK_FALSE(streams(128, 1000, 1, 1).swapped);
  CHECK_FALSE(streams(1025, 128, 1, 1).fit);
  CHECK_FALSE(streams(128, 2049, 1, 0).fit);
  CHECK_FALSE(streams(128, 128, 9, 1).fit);
  CHECK(streams(128, 128, 1, 1, false).fit);  // all pairs keep no state
  CHECK(streams(2, 1 << 16, 1, 1).fit);
  CHECK_FALSE(streams(2, (1 << 16) + 1, 1, 1).fit);
}

TEST_CASE("CUDA: short pairs of many features have a block each") {
  const auto is_short = [](int64_t batch, int64_t n, int64_t m, int64_t features, sdtw_metric metric = SDTW_SQEUCLIDEAN,
                           sdtw_dtype dtype = SDTW_F32, uint32_t flags = 0, uint32_t exec_flags = 0, double gamma = 1) {
    Case c = make_case(metric, batch, n, m, features, gamma);
    c.problem.dtype = dtype;
    c.problem.flags = flags;
    c.exec.device = SDTW_CUDA;
    c.exec.flags = exec_flags;
    return plan_of(c).cuda.short_pairs.fit;
  };
  CHECK(is_short(32, 64, 64, 64));
  CHECK(is_short(1, 20, 20, 128));
  CHECK(is_short(4096, 64, 64, 63));
  CHECK(is_short(4096, 64, 32, 9));
  CHECK(is_short(32, 64, 64, 64, SDTW_SQEUCLIDEAN, SDTW_F16));
  CHECK(is_short(4096, 64, 64, 5));
  CHECK(is_short(132, 128, 65, 64));
  CHECK_FALSE(is_short(132, 129, 65, 64));
  CHECK_FALSE(is_short(133, 128, 65, 64));
  CHECK(is_short(4096, 128, 128, 65));
  CHECK(is_short(264, 64, 64, 2));  // few pairs
  CHECK_FALSE(is_short(265, 64, 64, 2));
  CHECK(is_short(132, 128, 128, 1));
  CHECK_FALSE(is_short(133, 128, 128, 1));
  CHECK_FALSE(is_short(198, 128, 128, 1));
  CHECK(is_short(256, 128, 128, 1));
  CHECK_FALSE(is_short(265, 128, 128, 1));
  CHECK_FALSE(is_short(32, 64, 64, 64, SDTW_SQEUCLIDEAN, SDTW_F64));
  CHECK_FALSE(is_short(1, 64, 64, 1 << 24));  // an int would count a series' elements
  for (const sdtw_metric metric : {SDTW_EUCLIDEAN, SDTW_CITYBLOCK, SDTW_COSINE})
    for (const int64_t features : {1, 100}) {
      CHECK(is_short(4096, 64, 64, features, metric));
      CHECK(is_short(132, 64, 65, features, metric));
      CHECK(is_short(4096, 64, 65, features, metric) == (features >= 16));
      CHECK_FALSE(is_short(32, 64, 129, features, metric));
      CHECK_FALSE(is_short(32, 64, 64, features, metric, SDTW_F64));
      CHECK(is_short(32, 64, 64, features, metric, SDTW_BF16, SDTW_ALL_PAIRS, SDTW_NO_STATE));
    }
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_EUCLIDEAN, SDTW_CITYBLOCK, SDTW_COSINE})
    for (const int64_t steps : {64, 128})
      CHECK(is_short(132, steps, 20, 1, metric, SDTW_F32, 0, 0, 0) == (metric != SDTW_COSINE));
  CHECK(is_short(32, 64, 64, 9, SDTW_COSINE, SDTW_F32, 0, 0, 1e-8));
  CHECK_FALSE(is_short(32, 64, 64, 9, SDTW_COSINE, SDTW_F32, 0, 0, 1e-9));
  const auto with_steps = [](int64_t batch, int64_t n, int64_t features, double weight = 1, double gamma = 1) {
    Case c = make_case(SDTW_SQEUCLIDEAN, batch, n, 64, features, gamma);
    c.exec.device = SDTW_CUDA;
    c.problem.step_penalty[1] = 1, c.problem.step_weight[1] = weight;
    CHECK_FALSE(plan_of(c).cuda.short_pairs.squares);
    return plan_of(c).cuda.short_pairs.fit;
  };
  CHECK(with_steps(32, 64, 64));
  CHECK(with_steps(264, 128, 64));
  CHECK_FALSE(with_steps(300, 128, 15));
  CHECK(with_steps(300, 128, 16));
  CHECK_FALSE(with_steps(300, 128, 16, 2));  // a cost for each way
  CHECK(with_steps(300, 64, 16, 2));
  CHECK(with_steps(300, 64, 16, 2, 0));
  for (const sdtw_band band : {SDTW_BAND_SAKOE_CHIBA, SDTW_BAND_ABSOLUTE, SDTW_BAND_ITAKURA}) {
    Case within = make_case(SDTW_EUCLIDEAN, 32, 64, 64, 64, 1);
    within.exec.device = SDTW_CUDA;
    within.problem.band = band;
    within.problem.band_radius = 5;
    CHECK(plan_of(within).cuda.short_pairs.steps == sdtw::cuda::Steps::simple);
    CHECK(plan_of(within).cuda.short_pairs.fit);
  }
  CHECK(is_short(32, 64, 64, 64, SDTW_SQEUCLIDEAN, SDTW_F32, SDTW_ALL_PAIRS));
  CHECK(is_short(32, 64, 64, 64, SDTW_SQEUCLIDEAN, SDTW_F32, SDTW_ALL_PAIRS, SDTW_NO_STATE));
}

TEST_CASE("sdtw_describe names what runs") {
  const auto describe = [](Case c) {
    char text[4096];
    require_ok(sdtw_describe(&c.problem, &c.exec, text, sizeof text), "sdtw_describe");
    return std::string(text);
  };
  for (const int64_t batch : {1000, 1100}) {  // values of which the first are those of a block each
    Case hard = make_case(SDTW_SQEUCLIDEAN, batch, 20, 20, 1, 0);
    hard.exec.device = SDTW_CUDA, hard.exec.flags = SDTW_NO_STATE;
    CHECK((describe(hard).find("of 1 warps, where float64 is slow") != std::string::npos) == (batch == 1000));
  }
  Case c = make_case(SDTW_SQEUCLIDEAN, 8, 300, 300, 64, 1);
  c.exec.device = SDTW_CPU;
  CHECK(describe(c).find("mapping strips") != std::string::npos);
  c.exec.device = SDTW_CUDA;
  const std::string text = describe(c);
  CHECK(text.find("strips of 128 rows, 3 a pair") != std::string::npos);
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_EUCLIDEAN, SDTW_COSINE})
    for (const uint32_t flags : {0u, static_cast<uint32_t>(SDTW_ALL_PAIRS)}) {
      Case pairs = make_case(metric, 3, 30, 40, 20, 1);
      pairs.problem.flags = flags;
      pairs.exec.device = SDTW_CUDA, pairs.exec.flags = SDTW_NO_STATE;
      CHECK(describe(pairs).find("a block has a pair") != std::string::npos);
    }
  if (sdtw_device_available(SDTW_CUDA) != SDTW_STATUS_OK) {
    CHECK(text.find("kernels are chosen where there is a GPU") != std::string::npos);
    return;
  }
  CHECK(text.find("forward: forward_kernel<FloatCell, ") != std::string::npos);
  CHECK(text.find("forward_kernel<LongCell, ") != std::string::npos);
  CHECK(text.find("backward: backward_kernel<FloatCell, ") != std::string::npos);
  CHECK(text.find("alignment: backward_kernel<FloatCell, ") != std::string::npos);
  CHECK(text.find("tiles of ") != std::string::npos);
}
