// How many columns a band admits, and how much room boundaries of tiles have: what is written must fit, whatever a
// pair's lengths.
#include "catch.h"
#include "cpu/boundaries.h"
#include "draw.h"
#include "harness.h"

using namespace test;
using sdtw::cpu::Boundaries;

namespace {

constexpr sdtw_band kinds[] = {SDTW_BAND_SAKOE_CHIBA, SDTW_BAND_ABSOLUTE, SDTW_BAND_ITAKURA};

double draw_radius(Random &random, sdtw_band kind, int64_t longest) {
  if (kind == SDTW_BAND_ITAKURA)
    return random.uniform() < 0.3 ? 1 : 1 + 5 * random.uniform() * random.uniform() * random.uniform();
  return std::floor(2 * static_cast<double>(longest) * random.uniform() * random.uniform() * random.uniform()) / 2;
}

}  // namespace

TEST_CASE("rows of a band admit no more columns than its widest") {
  Random random(1);
  double tightest = INFINITY;
  for (int k = 0; k < 6000; ++k) {
    const sdtw_band kind = one_of(random, kinds);
    const int64_t n = random.integer(1, 400), m = random.integer(1, 400), rows = one_of(random, {1, 4, 32, 64});
    const sdtw::core::Band band{kind, draw_radius(random, kind, std::max(n, m)), n, m};
    int64_t widest = 0;
    for (int64_t i = 0; i < n; ++i)
      widest = std::max(widest, band.columns(std::min(i + rows, n) - 1).end - band.columns(i).first);
    INFO(kind << ":" << band.radius << " n=" << n << " m=" << m << " rows=" << rows);
    REQUIRE(widest <= band.widest(rows));
    if (n < 2 * rows || kind == SDTW_BAND_ITAKURA) continue;
    tightest = std::min(tightest, static_cast<double>(band.widest(rows) - widest));
  }
  CHECK(tightest == 0);
}

TEST_CASE("boundaries of every pair have room in workspace, and those of whole series in state") {
  Random random(2);
  int64_t kept = 0, not_kept = 0;
  for (int k = 0; k < 3000; ++k) {
    Case c = make_case(SDTW_SQEUCLIDEAN, 1, random.integer(1, 2000), random.integer(1, 2000), 1, 1);
    c.exec.device = SDTW_CPU;
    c.problem.dtype = one_of(random, {SDTW_F32, SDTW_F64});
    c.problem.band = one_of(random, kinds);
    c.problem.band_radius = draw_radius(random, c.problem.band, std::max(c.problem.n, c.problem.m));
    const sdtw::Plan plan = sdtw::make_plan(sdtw::validate(&c.problem), sdtw::validate(&c.exec));
    const sdtw::Problem &p = plan.problem;
    if (plan.cpu.mapping != sdtw::cpu::Mapping::strips) continue;
    REQUIRE(sdtw::cpu::has_corridors(p, plan.cpu));
    const size_t most = Boundaries::most(p, plan.cpu).bytes, state = Boundaries::in_state(p, plan.cpu).bytes;
    INFO(describe(c));
    CHECK(state <= most);
    CHECK(Boundaries::of_pair(p, plan.cpu, p.n, p.m).bytes <= state);
    for (int pair = 0; pair < 4; ++pair) {
      const Boundaries of = Boundaries::of_pair(p, plan.cpu, random.integer(1, p.n), random.integer(1, p.m));
      CHECK(of.bytes <= most);
      if (sdtw::cpu::may_exceed_state(p, plan.cpu))
        ++(of.bytes <= state ? kept : not_kept);
      else
        CHECK(of.bytes <= state);
    }
  }
  CHECK(kept > 20);
  CHECK(not_kept > 20);
}
