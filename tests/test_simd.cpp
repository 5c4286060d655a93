// The vectors that CPU kernels are written with.
#include "backends.h"
#include "catch.h"
#include "simd/simd.h"

namespace {

void require_none(const test::Failures &failures) {
  for (const std::string &failure : failures) UNSCOPED_INFO(failure);
  REQUIRE(failures.empty());
}

}  // namespace

TEST_CASE("every operation of the baseline's vectors is what it is in plain C++") {
  require_none(test::check_baseline_vectors());
}

#ifdef SDTW_HAVE_AVX2
TEST_CASE("every operation of AVX2's vectors is what it is in plain C++") {
  if (test::processor_has(SDTW_CPU_ISA_AVX2)) require_none(test::check_avx2_vectors());
}
#endif

#ifdef SDTW_HAVE_AVX512
TEST_CASE("every operation of AVX-512's vectors is what it is in plain C++") {
  if (test::processor_has(SDTW_CPU_ISA_AVX512)) require_none(test::check_avx512_vectors());
}
#endif

#ifdef SDTW_HAVE_NEON
TEST_CASE("every operation of NEON's vectors is what it is in plain C++") { require_none(test::check_neon_vectors()); }
#endif
