// CUDA: series whose features cannot be loaded four at a time are copied with as many more as can, where they are many.
#include "backend.h"
#include "catch.h"
#include "family.h"

using namespace test;

namespace {

// Of any number of cells.
struct CopiesOfFew : CudaLimits {
  CopiesOfFew() { sdtw::cuda::limits.cells_copied = 1; }
};

}  // namespace

TEST_CASE("CUDA: copies have a multiple of four features, of many features and cells alone") {
  const auto features = [](int64_t of_problem, int64_t n, sdtw_dtype dtype = SDTW_F32,
                           sdtw_metric metric = SDTW_SQEUCLIDEAN) {
    Case c = make_case(metric, 8, n, 400, of_problem, 1);
    c.problem.dtype = dtype;
    return sdtw::cuda::as_computed(sdtw::validate(&c.problem)).features;
  };
  CHECK(features(129, 400) == 132);
  CHECK(features(513, 400, SDTW_BF16) == 516);
  CHECK(features(132, 400) == 132);
  CHECK(features(127, 400) == 127);
  CHECK(features(129, 300) == 129);
  CHECK(features(129, 400, SDTW_F64) == 129);
  CHECK(features(129, 400, SDTW_F32, SDTW_EUCLIDEAN) == 129);
}

TEST_CASE("series that are copied with more features are the oracle's", "[family]") {
  const CopiesOfFew any;
  uint64_t seed = 0;
  for (const char *shape : {"B=3 n=40 m=33 d=129", "B=2 n=140 m=50 d=131", "B=1 n=20 m=600 d=130"})
    for (const char *dtype : {" dtype=f32", " dtype=f16"})
      for (const char *state : {"", " state=no"})
        for (const char *rest : {" lengths=0 grad=random", " layout=mixed gamma=100", " gamma=1e-3 spoil=nan"})
          check_line(shape + std::string(dtype) + state + rest + " seed=" + std::to_string(++seed));
  for (const char *pairs : {"B=3x4 pairs=all", "B=4 pairs=symmetric"})
    check_line(pairs + std::string(" n=20 m=20 d=133 state=no gamma=10 lengths=0 grad=random dtype=f32 layout=mixed"));
}
