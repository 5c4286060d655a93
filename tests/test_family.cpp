// Random problems of the whole family, on every backend.
#include "draw_problem.h"
#include "family.h"

using namespace test;

TEST_CASE("random problems of the whole family are the oracle's", "[family]") {
  for (uint64_t seed = 1; seed <= 250; ++seed) check_line(draw_line(seed, 60000));
}

TEST_CASE("a line is what it says when it is printed", "[family]") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Case c = problem(draw_line(seed, 5000)), again = problem(describe(c));
    INFO(describe(c));
    CHECK(describe(again) == describe(c));
    CHECK(same(again.x, c.x));
    CHECK(same(again.y, c.y));
    CHECK(same(again.tangent_x, c.tangent_x));
    CHECK(again.x_len == c.x_len);
    CHECK(again.problem.gamma == c.problem.gamma);
  }
  for (const char *bad : {"metric=manhattan", "n=4 n=5", "radius=3", "n=four", "band=sakoe", "weights=1,2", "n"})
    CHECK_THROWS(problem(bad));
}
