// Values: published ones, the oracle's over shapes on every side of a tile, and forward's options.
#include <cstdio>
#include <cstring>

#include "check.h"
#include "family.h"

using namespace test;

namespace {

double value_of(std::vector<double> x, std::vector<double> y, int64_t features, double gamma, const Backend &backend) {
  Case c = make_case(SDTW_SQEUCLIDEAN, 1, static_cast<int64_t>(x.size()) / features,
                     static_cast<int64_t>(y.size()) / features, features, gamma);
  c.problem.dtype = SDTW_F64;
  c.exec.device = backend.device;
  c.exec.cpu_isa = backend.isa;
  c.x = std::move(x);
  c.y = std::move(y);
  return run(c).value[0];
}

}  // namespace

TEST_CASE("values that other libraries publish", "[values]") {
  for (const Backend &backend : backends()) {
    INFO(backend.name);
    const auto soft_dtw = [&](std::vector<double> x, std::vector<double> y, int64_t features, double gamma) {
      return value_of(std::move(x), std::move(y), features, gamma, backend);
    };
    // tslearn.metrics.soft_dtw, and its tests.
    CHECK(near(soft_dtw({1, 2, 2, 3}, {1, 2, 3, 4}, 1, 1), -0.8954437807, 1e-10));
    CHECK(near(soft_dtw({1, 2, 3, 3}, {1, 2, 2.1, 3.2}, 1, 0.01), 0.09, 1e-2));
    CHECK(near(soft_dtw({1, 2, 3}, {3, 4, -3}, 1, 1), 41.187627, 1e-6));
    CHECK(near(soft_dtw(std::vector<double>(80, 0), std::vector<double>(96, 1), 8, 1), 91.9806137, 1e-5));
    CHECK(near(soft_dtw(std::vector<double>(10, 0), std::vector<double>(10, 0), 1, 1), -14.1957009, 1e-7));
    // aeon.distances.soft_dtw_distance.
    CHECK(near(soft_dtw({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {11, 12, 13, 14, 15, 16, 17, 18, 19, 20}, 1, 1),
               767.43894416832, 1e-10));
    // The divergence of tslearn, S(x, y) - (S(x, x) + S(y, y)) / 2.
    const std::vector<double> x{1, 2, 2, 3}, y{1, 2, 3, 4};
    CHECK(near(soft_dtw(x, y, 1, 1) - (soft_dtw(x, x, 1, 1) + soft_dtw(y, y, 1, 1)) / 2, 1.3094156980, 1e-9));
  }
}

TEST_CASE("values of every shape are the oracle's", "[values]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    each_shape(100, 40000, [&](uint64_t seed, int64_t batch, int64_t n, int64_t m) {
      Case base = random_case(seed, metric, batch, n, m, 1 + static_cast<int64_t>(seed % 4), seed % 3 ? 1.0 : 0.1);
      base.want_grad_x = base.want_grad_y = base.want_alignment = false;
      check_everywhere(base);
    });
}

TEST_CASE("values at many features", "[values]") {
  uint64_t seed = 200;
  for (const int64_t features : {5, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100})
    for (const int64_t batch : {1, 16}) {
      Case base = random_case(++seed, SDTW_SQEUCLIDEAN, batch, 33, 20, features, 1);
      base.want_grad_x = base.want_grad_y = base.want_alignment = false;
      check_everywhere(base);
    }
}

TEST_CASE("a hundred thousand tiny pairs", "[values]") {
  check_everywhere(random_case(250, SDTW_SQEUCLIDEAN, 100000, 3, 2, 1, 1));
}

TEST_CASE("forward without state gives the same value", "[values]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    each_shape(300, 20000, [&](uint64_t seed, int64_t batch, int64_t n, int64_t m) {
      Case base = random_case(seed, metric, batch, n, m, 2, 1);
      base.want_grad_x = base.want_grad_y = base.want_alignment = false;
      for (Case c : variants(base)) {
        const Result with_state = run(c);
        c.exec.flags |= SDTW_NO_STATE;
        sdtw_sizes sizes;
        sdtw_sizes_init(&sizes, sizeof sizes);
        REQUIRE(sdtw_get_sizes(&c.problem, &c.exec, &sizes) == SDTW_STATUS_OK);
        INFO(describe(c));
        CHECK(sizes.state == 0);
        CHECK(same(run(c).value, with_state.value));
      }
    });
}

TEST_CASE("AVX2 and AVX-512 give the same values bit for bit", "[values][cpu]") {
  if (!processor_has(SDTW_CPU_ISA_AVX512)) {
    WARN("skipped: this needs a processor with AVX-512");
    return;
  }
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F64})
      each_shape(400, 70000, [&](uint64_t seed, int64_t batch, int64_t n, int64_t m) {
        Case c = random_case(seed, metric, batch, n, m, 3, seed % 2 ? 1.0 : 0.01);
        c.problem.dtype = dtype;
        c.exec.cpu_isa = SDTW_CPU_ISA_AVX2;
        const Result avx2 = run(c);
        c.exec.cpu_isa = SDTW_CPU_ISA_AVX512;
        const Result avx512 = run(c);
        c.exec.cpu_isa = SDTW_CPU_ISA_AUTO;
        INFO(describe(c));
        CHECK(same(avx512.value, avx2.value));
        CHECK(same(run(c), avx512));  // the best that there is
      });
}

// Of what this processor does best: ./dev arm compares what is printed here with what is printed there.
TEST_CASE("bits of values, to be compared between processors", "[.bits]") {
  for (sdtw_metric metric = 0; metric < static_cast<int>(std::size(metric_names)); ++metric)
    for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F64}) {
      uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
      each_shape(500, 20000, [&](uint64_t seed, int64_t batch, int64_t n, int64_t m) {
        Case c = random_case(seed, metric, batch, n, m, seed % 3 ? 2 : 40, seed % 2 ? 1.0 : 0.01);
        c.problem.dtype = dtype;
        for (const double value : run(c).value) {
          uint64_t bits;
          std::memcpy(&bits, &value, sizeof bits);
          hash = (hash ^ bits) * 0x100000001b3;
        }
      });
      std::printf("metric %d, float%d: %016llx\n", metric, dtype == SDTW_F32 ? 32 : 64, (unsigned long long)hash);
    }
}

TEST_CASE("an empty batch succeeds and writes nothing", "[values]") {
  for (const Backend &backend : backends()) {
    INFO(backend.name);
    Case c = make_case(SDTW_SQEUCLIDEAN, 0, 4, 4, 2, 1);
    c.exec.device = backend.device;
    c.exec.cpu_isa = backend.isa;
    sdtw_buffers none;
    sdtw_buffers_init(&none, sizeof none);
    CHECK(sdtw_forward(&c.problem, &none, &c.exec) == SDTW_STATUS_OK);
    CHECK(sdtw_backward(&c.problem, &none, &c.exec) == SDTW_STATUS_OK);
    CHECK(sdtw_alignment(&c.problem, &none, &c.exec) == SDTW_STATUS_OK);
    CHECK(sdtw_jvp(&c.problem, &none, &c.exec) == SDTW_STATUS_OK);
    c.problem.flags = SDTW_ALL_PAIRS;
    c.problem.batch_x = 1;  // with no y
    float gradient[8] = {7};
    none.grad_x = {gradient, {8, 2, 1}};
    CHECK(sdtw_forward(&c.problem, &none, &c.exec) == SDTW_STATUS_OK);
    CHECK(sdtw_backward(&c.problem, &none, &c.exec) == SDTW_STATUS_OK);
    CHECK(gradient[0] == 7);
  }
}

TEST_CASE("values near 0, where every cell of the path costs next to nothing and is rounded to the same side",
          "[values]") {
  check_line(
      "metric=precomputed d=0 dtype=f32 B=1 n=236 m=236 gamma=0.00162761 scale=0.119588 data=periodic seed=1268004844");
  check_line("metric=precomputed d=0 dtype=f32 B=2 n=500 m=500 gamma=0.12028 data=periodic seed=1270001232 state=none");
  check_line("dtype=f32 B=1 n=3000 m=2998 d=1 gamma=0.10583 data=periodic seed=1272000276 state=none");
  check_line("dtype=f32 B=1 n=70 m=282 d=111 gamma=0.309276 data=near scale=0.485725 seed=1420002886 state=none");
  check_line("dtype=f32 B=1 n=143 m=680 d=8 gamma=0.01114 data=near scale=0.58 seed=2150002931 state=none");
}
