// Random small problems against the oracle. A failure prints its seed.
#include "check.h"
#include "draw.h"

using namespace test;

TEST_CASE("random problems give the oracle's results", "[stress]") {
  constexpr uint64_t first_seed = 1, problems = 300;
  for (uint64_t seed = first_seed; seed < first_seed + problems; ++seed) {
    INFO("seed " << seed);
    check_everywhere(draw(seed, {5, 150, 40, 40, 9, 9}));
  }
}
