// What a library with threads of its own must not spoil: fork, processes that may have no more threads, the number of
// threads, where they run, and teams of the caller's OpenMP.
#include <dirent.h>
#include <omp.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <system_error>
#include <thread>

#include "check.h"
#include "cpu/parallel.h"

using namespace test;

namespace {

// Enough work for several threads, once of pairs and once of tiles of one pair.
std::vector<Case> threaded_cases(int threads = 4) {
  std::vector<Case> cases = {random_case(7000, SDTW_SQEUCLIDEAN, 33, 80, 90, 2, 1),
                             random_case(7001, SDTW_SQEUCLIDEAN, 1, 700, 600, 2, 1)};
  for (Case &c : cases) {
    c.exec.device = SDTW_CPU;  // a forked child has no GPU
    c.exec.num_threads = threads;
  }
  return cases;
}

bool all_same(const std::vector<Case> &cases, const std::vector<Result> &expected) {
  for (size_t k = 0; k < cases.size(); ++k)
    if (!same(run(cases[k]), expected[k])) return false;
  return true;
}

std::vector<Result> run_all(const std::vector<Case> &cases) {
  std::vector<Result> results;
  for (const Case &c : cases) results.push_back(run(c));
  return results;
}

constexpr int exit_skipped = 77;

// Runs body in a forked child. Its return value, or -1 if it did not come to an end by itself in time.
template <class Body>
int in_child(Body &&body) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    int code = 99;
    try {
      code = body();
    } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

// Of this process, an emulator's own among them: tests compare counts.
int count_threads() {
  int count = 0;
  DIR *const tasks = opendir("/proc/self/task");
  if (!tasks) return 0;
  while (const dirent *entry = readdir(tasks)) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

// The processors that each of a team's threads may run on; they wait for each other, so that there are as many.
std::vector<cpu_set_t> places_of_team(int threads) {
  std::vector<cpu_set_t> places;
  std::mutex mutex;
  std::atomic<int64_t> arrived{0};
  sdtw::cpu::parallel(threads, [&] {
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    {
      const std::lock_guard<std::mutex> lock(mutex);
      places.push_back(cpus);
    }
    ++arrived;
    sdtw::cpu::wait_until(arrived, threads);
  });
  return places;
}

}  // namespace

TEST_CASE("a forked child calls with several threads, and so do its children", "[processes]") {
  const std::vector<Case> cases = threaded_cases();
  const std::vector<Result> expected = run_all(cases);
  for (int round = 0; round < 3; ++round) {
    CHECK(in_child([&] {
            if (!all_same(cases, expected)) return 1;
            return in_child([&] { return all_same(cases, expected) ? 0 : 1; });
          }) == 0);
    CHECK(all_same(cases, expected));
  }
}

TEST_CASE("a child that was forked while other threads were in calls", "[processes]") {
  const std::vector<Case> cases = threaded_cases();
  const std::vector<Result> expected = run_all(cases);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 2; ++i)
    callers.emplace_back([&] {
      while (!stop)
        if (!all_same(cases, expected)) ++wrong;
    });
  // The child must not take memory from an allocator that a caller may have held: threads alone are of interest here.
  for (int round = 0; round < 50; ++round)
    CHECK(in_child([] {
            std::atomic<int> ran{0};
            for (int call = 0; call < 5; ++call) sdtw::cpu::parallel(4, [&] { ++ran; });
            return ran >= 5 && ran <= 20 ? 0 : 1;
          }) == 0);
  stop = true;
  for (std::thread &caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("without any thread to be had a call is only slower", "[processes]") {
  const std::vector<Case> cases = threaded_cases();
  std::vector<Case> single = threaded_cases(1);
  const std::vector<Result> expected = run_all(single);
  const int code = in_child([&] {
    const int before = count_threads();
    // The limit does not hold for root.
    const rlimit none{0, 0};
    if (geteuid() == 0 && setuid(65534) != 0) return exit_skipped;
    if (setrlimit(RLIMIT_NPROC, &none) != 0) return exit_skipped;
    try {
      std::thread([] {}).join();
      return exit_skipped;
    } catch (const std::system_error &) {
    }
    if (!all_same(cases, expected)) return 1;
    return count_threads() == before ? 0 : 2;
  });
  if (code == exit_skipped) {
    WARN("skipped: this machine does not limit threads");
    return;
  }
  CHECK(code == 0);
}

TEST_CASE("many calls have no more threads than one", "[processes]") {
  const std::vector<Case> cases = threaded_cases();
  CHECK(in_child([&] {  // where no other test has left any
          const int before = count_threads();
          run_all(cases);
          if (count_threads() > before + 3) return 1;
          for (int call = 0; call < 200; ++call) run_all(cases);
          return count_threads() <= before + 3 ? 0 : 2;
        }) == 0);
}

TEST_CASE("callers that come and go leave no more threads than were at work at once", "[processes]") {
  constexpr int callers = 3, threads = 4;
  const std::vector<Case> cases = threaded_cases(threads);
  CHECK(in_child([&] {
          const int before = count_threads();
          for (int round = 0; round < 20; ++round) {
            std::vector<std::thread> group;
            for (int i = 0; i < callers; ++i) group.emplace_back([&] { run_all(cases); });
            for (std::thread &caller : group) caller.join();
          }
          // The system may list a thread for a moment after it was joined; the library's own stay.
          for (int looks = 0; looks < 1000 && count_threads() > before + callers * (threads - 1); ++looks)
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
          return count_threads() <= before + callers * (threads - 1) ? 0 : 1;
        }) == 0);
}

TEST_CASE("helpers run where the calling thread may", "[processes][affinity]") {
  cpu_set_t all;
  REQUIRE(sched_getaffinity(0, sizeof all, &all) == 0);
  if (omp_get_proc_bind() != omp_proc_bind_false) {
    // OpenMP holds this thread to one place: its helpers are not to crowd there.
    CPU_ZERO(&all);
    for (int place = 0; place < omp_get_num_places(); ++place) {
      std::vector<int> ids(static_cast<size_t>(omp_get_place_num_procs(place)));
      omp_get_place_proc_ids(place, ids.data());
      for (const int id : ids) CPU_SET(id, &all);
    }
    const std::vector<cpu_set_t> places = places_of_team(3);
    CHECK(std::count_if(places.begin(), places.end(), [&](const cpu_set_t &p) { return CPU_EQUAL(&p, &all); }) >= 2);
    return;
  }
  const auto follow = [](const cpu_set_t &cpus) {
    REQUIRE(sched_setaffinity(0, sizeof cpus, &cpus) == 0);
    for (const cpu_set_t &place : places_of_team(3)) CHECK(CPU_EQUAL(&place, &cpus));
  };
  follow(all);
  for (int id = 0, done = 0; id < CPU_SETSIZE && done < 3; ++id) {
    if (!CPU_ISSET(id, &all)) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(id, &one);
    follow(one);
    ++done;
  }
  follow(all);
}

TEST_CASE("OpenMP's limits hold for a call's threads", "[processes]") {
  const auto most_at_once = [](int threads) {
    std::atomic<int> ran{0};
    for (int call = 0; call < 20; ++call) {
      std::atomic<int> now{0};
      sdtw::cpu::parallel(threads, [&] {
        ++now;
        for (int wait = 0; wait < 100; ++wait) sched_yield();
      });
      ran = std::max<int>(ran, now);
    }
    return ran.load();
  };
  const int levels = omp_get_max_active_levels();
  omp_set_max_active_levels(1);
  int within = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
  if (omp_get_active_level() > 0) within = most_at_once(3);
  CHECK(within <= 1);
  omp_set_max_active_levels(levels);
}
