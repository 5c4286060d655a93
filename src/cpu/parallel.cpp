// run_team: one OpenMP parallel region, with its fork and join spelled out as acquire and release for ThreadSanitizer,
// which does not see libgomp's own.
#include "cpu/parallel.h"

#include <sched.h>

namespace sdtw::cpu {
namespace {

struct Team {
  void (*body)(void *);
  void *context;
  std::atomic<int> forked{0}, joined{0};
};

__attribute__((noinline)) void member(Team *team) {
  team->forked.load(std::memory_order_acquire);
  team->body(team->context);
  team->joined.fetch_add(1, std::memory_order_release);
}

}  // namespace

void run_team(int threads, void (*body)(void *), void *context) {
  Team team{body, context};
  Team *const shared = &team;
  team.forked.store(1, std::memory_order_release);
#pragma omp parallel num_threads(threads) firstprivate(shared)
  member(shared);
  team.joined.load(std::memory_order_acquire);
}

void wait_until(const std::atomic<int64_t> &counter, int64_t target) {
  for (int spins = 0; counter.load(std::memory_order_acquire) < target; ++spins) {
    if (spins < 1000) {
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    } else {
      sched_yield();
    }
  }
}

}  // namespace sdtw::cpu
