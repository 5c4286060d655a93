// Values and derivatives from one call, SDTW_WITH_VALUE: on CPUs bit for bit what forward and backward by state give,
// whether or not what forward knows of cells is kept for backward, which sizes decide.
#include "cpu/layout.h"
#include "family.h"

using namespace test;

namespace {

// Of the cosine's also points of norm 0, which have features that say so.
constexpr const char *const metrics[] = {
    "sqeuclidean d=2", "sqeuclidean d=17",         "euclidean d=3", "precomputed", "cityblock d=9",
    "cosine d=5",      "cosine d=1 data=quantised"};

// Of how many columns (steps, of strips) of each row of tiles a line's problem without state keeps entries.
int64_t kept(const std::string &line) {
  const Case c = problem(line + " state=no device=cpu");
  const sdtw::Plan plan = sdtw::make_plan(sdtw::validate(&c.problem), sdtw::validate(&c.exec));
  const sdtw::cpu::KeptLayout kept(plan.problem, plan.cpu);
  CHECK(kept.numbers(plan.cpu) * plan.problem.value_size() <= sdtw::cpu::max_kept_bytes);
  return kept.columns;
}

// Every instruction set, one thread and several; one alone where each takes twenty times as long.
void check_one_call(const std::string &line) {
  for (Case c : on_backends(line + " state=no"))
    for (const int threads : {1, 3}) {
      if (threads > 1 && has_address_sanitizer()) continue;
      if (c.exec.device == SDTW_CUDA && threads > 1) continue;
      c.exec.num_threads = threads;
      INFO("sdtw_differential --problem '" << describe(c) << "'");
      const std::optional<Result> here = try_run(c);   // throws where values are not forward's
      if (!here || here->alignment.empty()) continue;  // refused, and counted
      CHECK(here->backward_value.size() == here->value.size());
      CHECK(here->alignment_value.size() == here->value.size());
      Case with = c;
      with.exec.flags &= ~uint32_t{SDTW_NO_STATE};
      const Result there = run(with);
      if (c.exec.device == SDTW_CPU)
        CHECK((same(here->value, there.value) && same_derivatives(*here, there)));
      else
        CHECK((close(c, *here, there) && close(here->backward_value, there.value, between(c)) &&
               close(here->alignment_value, there.value, between(c))));
    }
}

}  // namespace

TEST_CASE("values and gradients from one call are those of two", "[one_call]") {
  for (const char *metric : metrics)
    for (const char *shape : {" B=70 n=12 m=17", " B=37 n=40 m=36", " B=3 n=70 m=64"})
      for (const char *more : {"", " lengths=0 grad=random", " band=sakoe_chiba:5", " weights=2,1,1", " gamma=0"})
        for (const char *dtype : {" dtype=f32", " dtype=f64"})
          check_one_call(std::string("metric=") + metric + shape + dtype + more);
  for (const char *dtype : {" dtype=f16", " dtype=bf16"})
    check_one_call(std::string("metric=sqeuclidean B=40 n=20 m=30 d=3") + dtype);
}

// Where entries are kept had depended on the longest pair that has a path, and cosine's means on how often the last
// point was repeated for it.
TEST_CASE("pairs without a path change nothing of those that share their vectors", "[one_call]") {
  for (const char *band : {" band=absolute:15", " band=itakura:1.1"})
    for (const char *dtype : {" dtype=f32", " dtype=f64"})
      for (const char *seed : {" seed=3", " seed=4", " seed=5"})
        check_one_call(std::string("B=20 n=141 m=130 d=1 lengths=0") + band + dtype + seed);
  check_one_call("metric=cosine B=16 n=255 m=64 d=2 band=itakura:2 data=integers lengths=0 seed=6328");
}

TEST_CASE("costs of which some pairs need doubles are recomputed, beside others that are kept", "[one_call]") {
  for (const char *shape : {" B=40 n=20 m=30", " B=3 n=90 m=70"})
    for (const char *scale : {" scale=30", " scale=1e4", " data=mixed scale=300", " spoil=inf", " spoil=nan"})
      for (const char *metric : {"sqeuclidean d=2", "sqeuclidean d=17", "euclidean d=3", "precomputed"})
        check_one_call(std::string("metric=") + metric + shape + scale + " gamma=0.1");
}

TEST_CASE("all pairs from one call are those of two", "[one_call]") {
  for (const char *metric : {"sqeuclidean d=2", "euclidean d=3", "cosine d=5"})
    for (const char *pairs : {" B=7x9 pairs=all", " B=8 pairs=symmetric"})
      for (const char *more : {"", " lengths=0 grad=random", " gamma=0", " dtype=f64"})
        check_one_call(std::string("metric=") + metric + " n=20 m=20" + pairs + more);
  check_one_call("metric=precomputed B=7x9 n=20 m=20 pairs=all");
}

TEST_CASE("a call keeps what forward knows of cells up to a size, and then a part around the diagonal", "[one_call]") {
  struct Sizes {
    const char *shape, *dtype;
    int64_t m;            // the last of which all is kept
    int64_t more, tiles;  // another one, and of how many of its columns something is
  };
  // Pairs in lanes, and in strips.
  for (const Sizes &sizes : {Sizes{"B=64 n=104", "f32", 157, 230, 128},
                             {"B=64 n=104", "f64", 78, 100, 64},
                             {"B=2 n=380", "f32", 666, 700, 640},
                             {"B=2 n=380", "f64", 325, 500, 320},
                             {"B=2 n=380", "f16", 666, 700, 640}})
    for (const char *metric : {"sqeuclidean d=2", "euclidean d=3", "cosine d=5", "precomputed"}) {
      const auto line = [&](int64_t m, const char *more) {
        return std::string(sizes.shape) + " m=" + std::to_string(m) + " metric=" + metric + " dtype=" + sizes.dtype +
               more;
      };
      CHECK(kept(line(sizes.m, "")) >= sizes.m);
      for (const int64_t m : {sizes.m + 1, sizes.more}) CHECK(kept(line(m, "")) == sizes.tiles);
      CHECK(kept(line(sizes.m + 1, " gamma=0")) == 0);
      const bool plain = std::string(metric) == metrics[0];
      for (const int64_t m : {sizes.m, sizes.m + 1, sizes.more}) {
        check_one_call(line(m, " lengths=1"));
        if (plain) check_one_call(line(m, " band=sakoe_chiba:20 grad=random"));
      }
    }
  for (const char *metric : metrics)
    for (const int64_t m : {666, 667})
      check_one_call(std::string("B=2 n=380 weights=2,1,1 metric=") + metric + " m=" + std::to_string(m));
}

TEST_CASE("parts that are kept lie within a pair, whatever its shape", "[one_call]") {
  for (const char *line : {"B=33 n=200 m=180 d=1", "B=33 n=180 m=200 d=1 lengths=0", "B=1 n=700 m=1000 d=1",
                           "B=1 n=1000 m=700 d=3 band=absolute:90", "B=2 n=1500 m=64 d=1", "B=2 n=64 m=4000 d=1",
                           "B=1 n=900 m=900 d=20", "B=2 n=700 m=700 d=2 scale=1e4 gamma=0.1"})
    check_one_call(std::string("metric=sqeuclidean ") + line);
}

TEST_CASE("tangents come with values, if they are asked for", "[one_call]") {
  for (const char *metric : metrics)
    for (const char *more : {" n=40 m=33", " n=70 m=64 lengths=0", " n=20 m=20 gamma=0", " n=20 m=30 state=no"})
      each_result(std::string("B=3 tangents=xy metric=") + metric + more, [](const Case &c, const Result &result) {
        if (result.value_tangent.empty()) return;  // refused, and counted
        CHECK(result.jvp_value.size() == result.value.size());
        // Other sweeps than forward's: to the digits of values.
        CHECK(close(result.jvp_value, result.value, between(c)));
        Case without = c;
        without.exec.flags &= ~uint32_t{SDTW_WITH_VALUE};
        const Result alone = run(without);
        CHECK(alone.jvp_value.empty());
        CHECK((same(alone.value_tangent, result.value_tangent) && same(alone.grad_x_tangent, result.grad_x_tangent)));
      });
}
