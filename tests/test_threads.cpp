// Threads and batches change nothing: one thread and several, a pair alone and among others, are equal bit for bit.
#include <cfenv>

#include "check.h"

using namespace test;

namespace {

constexpr int thread_counts[] = {2, 3, 5, 0};  // 0: OpenMP's default

struct Work {
  int64_t batch, n, m;
  double gamma;
};
// Many pairs, fewer pairs than threads, one long pair, one tall and one wide; small gammas take the float64 engine.
constexpr Work works[] = {{33, 40, 50, 1},   {33, 30, 20, 1e-4}, {1, 400, 300, 1}, {1, 260, 200, 1e-4},
                          {2, 300, 130, 1},  {3, 129, 257, 0.1}, {1, 1000, 3, 1},  {1, 3, 1000, 1},
                          {1, 64, 64, 1e-4}, {7, 65, 65, 1},     {40, 5, 7, 1},    {1, 1, 1, 1}};

}  // namespace

TEST_CASE("the number of threads changes no bit", "[threads]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const Work &work : works) {
      Random random(5000);
      Case base = make_case(metric, work.batch, work.n, work.m, 3, work.gamma);
      with_grad_value(fill(base, random), random);
      if (work.batch > 2) with_lengths(base, random);
      for (Case c : variants(base)) {
        const Result one = run(c);
        for (const int threads : thread_counts) {
          c.exec.num_threads = threads;
          INFO(describe(c));
          CHECK(same(run(c), one));
        }
      }
    }
}

TEST_CASE("threads round as their caller does", "[threads][cpu]") {
  Case base = random_case(5001, SDTW_SQEUCLIDEAN, 40, 30, 25, 3, 0.5);
  for (Case c : variants(base)) {
    INFO(describe(c));
    Result results[2];
    std::fesetround(FE_UPWARD);
    for (const int threads : {1, 4}) {
      c.exec.num_threads = threads;
      results[threads > 1] = compute(c);
    }
    std::fesetround(FE_TONEAREST);
    CHECK(same(results[1], results[0]));
    CHECK_FALSE(same(compute(c), results[0]));
  }
}

TEST_CASE("what was in workspace, state and outputs changes no bit", "[threads]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const Work &work : works)
      for (const int threads : {1, 3}) {
        Case base = random_case(5100, metric, work.batch, work.n, work.m, 2, work.gamma);
        base.exec.num_threads = threads;
        for (Case c : variants(base)) {
          const Result nan = run(c);
          INFO(describe(c));
          for (const unsigned char poison : {0x00, 0xab}) {
            c.poison = poison;
            CHECK(same(run(c), nan));
          }
        }
      }
}

TEST_CASE("backward goes on from any forward's state", "[threads]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const Work &work : works)
      for (Case c : variants(random_case(5200, metric, work.batch, work.n, work.m, 2, work.gamma))) {
        const Result expected = run(c);
        Session session(c);
        c.exec.num_threads = 3;
        Result result;
        result.value = session.forward();
        c.exec.num_threads = 1;
        c.exec.cpu_isa = SDTW_CPU_ISA_AUTO;  // the state says which instruction set goes on
        result.alignment = session.alignment();
        c.exec.num_threads = 2;
        session.backward(result);
        INFO(describe(c));
        CHECK(same(result, expected));
      }
}

TEST_CASE("a pair's result does not depend on its batch", "[threads]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const Size &size : {Size{5, 9}, Size{33, 64}, Size{127, 129}, Size{250, 200}}) {
      constexpr int64_t batch = 19;
      Random random(5300);
      Case base = make_case(metric, batch, size.n, size.m, 3, 1);
      with_lengths(fill(base, random), random);
      for (const Case &all : variants(base)) {
        const Result together = run(all);
        const auto part = [](const std::vector<double> &from, int64_t b) {
          const int64_t step = static_cast<int64_t>(from.size()) / batch;
          return std::vector<double>(from.begin() + b * step, from.begin() + (b + 1) * step);
        };
        for (const int64_t b : {0, 1, 8, 17, 18}) {
          Case alone = all;
          alone.problem.batch_x = alone.problem.batch_y = 1;
          alone.x = part(all.x, b);
          if (all.fused()) alone.y = part(all.y, b);
          alone.x_len = {all.x_len[b]};
          alone.y_len = {all.y_len[b]};
          const Result result = run(alone);
          INFO(describe(all) << " pair " << b);
          CHECK(same(result.value, part(together.value, b)));
          CHECK(same(result.grad_x, part(together.grad_x, b)));
          if (all.fused()) CHECK(same(result.grad_y, part(together.grad_y, b)));
          CHECK(same(result.alignment, part(together.alignment, b)));
        }
      }
    }
}
