// float16 and bfloat16: what is read and written, and that all between is float32.
#include "family.h"

using namespace test;

TEST_CASE("halves in many shapes are the oracle's", "[types]") {
  uint64_t seed = 0;
  for (const char *dtype : {"f16", "bf16"})
    for (const char *metric : metric_names)
      for (const Size &size : {Size{1, 1}, {1, 33}, {16, 15}, {40, 52}, {130, 65}}) {
        std::ostringstream line;
        ++seed;
        line << "dtype=" << dtype << " metric=" << metric << " B=" << 1 + 16 * (seed % 2) << " n=" << size.n
             << " m=" << size.m << (std::string(metric) == "precomputed" ? "" : " d=3") << " gamma=0.5 seed=" << seed
             << (seed % 3 ? "" : " lengths=0 grad=random layout=mixed");
        check_line(line.str());
      }
}

TEST_CASE("halves are computed as float32", "[types]") {
  for (const char *dtype : {"f16", "bf16"})
    for (const char *shape : {" B=3 n=70 m=64 d=5", " B=32 n=12 m=20 d=1"})
      each_result(std::string("dtype=") + dtype + shape + " gamma=0.1", [](const Case &c, const Result &half) {
        Case wide = c;
        wide.problem.dtype = SDTW_F32;
        const Result there = run(wide);
        CHECK(close(half.value, there.value, 1e-6));
        for (size_t k = 0; k < half.grad_x.size(); ++k) {
          const double by = half_an_ulp(c.problem.dtype, there.grad_x[k]);
          if (!near(half.grad_x[k], there.grad_x[k], by + 1e-5)) FAIL(half.grad_x[k] << " for " << there.grad_x[k]);
        }
      });
}

TEST_CASE("what a half cannot hold is an infinity, as rounding has it", "[types]") {
  each_result("dtype=f16 metric=precomputed n=3 m=3", [](Case c, const Result &) {
    c.grad_value = {60000};
    std::fill(c.x.begin(), c.x.end(), 60000);
    const Result r = run(c);
    CHECK(near(r.value[0], 180000, 1));  // of float32
    CHECK(r.grad_x[0] == 60000);
    c.grad_value = {120000};
    CHECK(run(c).grad_x[0] == INFINITY);
  });
}
