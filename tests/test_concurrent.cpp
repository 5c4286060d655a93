// Concurrent callers: several threads, each with problems of its own, get what each would get alone.
#include <atomic>
#include <thread>

#include "check.h"

using namespace test;

namespace {

// Different sizes, dtypes, metrics and numbers of threads, and one that is refused.
std::vector<Case> problems() {
  std::vector<Case> result;
  uint64_t seed = 9000;
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const int64_t batch : {1, 3, 18})
      for (const int threads : {1, 2}) {
        Random random(++seed);
        Case c = make_case(metric, batch, batch > 3 ? 20 : 150, batch > 3 ? 30 : 90, 2, seed % 2 ? 1.0 : 1e-5);
        with_lengths(fill(c, random), random);
        c.problem.dtype = seed % 3 ? SDTW_F32 : SDTW_F64;
        c.exec.num_threads = threads;
        result.push_back(c);
      }
  return result;
}

}  // namespace

TEST_CASE("concurrent callers do not disturb each other", "[concurrent]") {
  constexpr int callers = 4, rounds = 5;
  const std::vector<Case> cases = problems();
  std::vector<Result> expected;
  for (const Case &c : cases) expected.push_back(run(c));

  std::atomic<int> wrong{0}, thrown{0};
  std::vector<std::thread> threads;
  for (int caller = 0; caller < callers; ++caller)
    threads.emplace_back([&, caller] {
      for (int round = 0; round < rounds; ++round)
        for (size_t k = 0; k < cases.size(); ++k) {
          const size_t which = (k + static_cast<size_t>(caller) * 3) % cases.size();
          try {
            if (!same(run(cases[which]), expected[which])) ++wrong;
          } catch (const std::exception &) {
            ++thrown;
          }
        }
    });
  for (std::thread &thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(thrown == 0);
}

TEST_CASE("each thread has its own last error", "[concurrent]") {
  REQUIRE(sdtw_device_available(-1) == SDTW_STATUS_INVALID_ARGUMENT);
  const std::string mine = sdtw_last_error();
  std::string before = "unset", after;
  std::thread([&] {
    before = sdtw_last_error();
    sdtw_problem_init(nullptr, sizeof(sdtw_problem));
    after = sdtw_last_error();
  }).join();
  CHECK(before.empty());
  CHECK(after.find("problem") != std::string::npos);
  CHECK(mine == sdtw_last_error());
  CHECK(sdtw_version() == SDTW_VERSION);  // a call that succeeds leaves the message alone
  CHECK(sdtw_device_available(SDTW_CPU) == SDTW_STATUS_OK);
  CHECK(mine == sdtw_last_error());
}
