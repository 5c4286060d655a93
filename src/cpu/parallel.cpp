// The crew: threads that are started when a call first wants them and wait for the next call in between. A call borrows
// those that are free, starts what is missing, and does without what it cannot get: the calling thread works as well,
// and work is taken by tickets. Callers at the same time have different helpers, so that none waits for another.
//
// OpenMP is asked how many threads there may be, but starts none: libgomp's own end the process where one cannot be
// started, and in a forked child it waits for those of the parent for ever. Here is neither a lock that a fork could
// leave held nor memory that would have to be freed, so that a child, or exit, finds nothing to stumble over.
#include "cpu/parallel.h"

#include <fenv.h>
#include <linux/futex.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

namespace sdtw::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// Sleeps while word is `expected`; may return early.
void sleep_on(const std::atomic<uint32_t> &word, uint32_t expected) {
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}
// Wakes whoever sleeps on word, at which nothing needs to be any more.
void wake(const std::atomic<uint32_t> *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0); }

// How to wait for another thread: some microseconds on the processor, which answers fastest; then letting others have
// it, since the other thread may be waiting for this very one; and when that has taken too long, asleep.
class Patience {
 public:
  // Waits a little. False once it would be better to sleep.
  bool wait() {
    if (turns_ < 1000) {
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#elif defined(__aarch64__)
      __asm__ __volatile__("isb");  // takes about as long, where `yield` does nothing
#endif
      if (++turns_ == 1000) end_ = Clock::now() + std::chrono::microseconds(200);
      return true;
    }
    sched_yield();
    return Clock::now() < end_;
  }

 private:
  int turns_ = 0;
  Clock::time_point end_;
};

// A call's team, on the calling thread's stack.
struct Team {
  void (*body)(void *);
  void *context;
  fenv_t arithmetic;                  // the caller's rounding and small numbers, which its helpers take
  bool placed = false;                // cpus is known:
  cpu_set_t cpus = {};                // where its threads may run
  std::atomic<uint32_t> finished{0};  // helpers that are done; `sleeps` is added once the caller may be asleep
  static constexpr uint32_t sleeps = 1u << 31;

  // The last that a helper does for a team, which may be gone right after.
  void finish() {
    std::atomic<uint32_t> *const word = &finished;
    if (word->fetch_add(1, std::memory_order_acq_rel) & sleeps) wake(word);
  }
  void wait_for(uint32_t helpers) {
    Patience patience;
    for (uint32_t seen; ((seen = finished.load(std::memory_order_acquire)) & ~sleeps) != helpers;) {
      if (patience.wait()) continue;
      if (seen & sleeps)
        sleep_on(finished, seen);
      else
        finished.fetch_or(sleeps, std::memory_order_relaxed);
    }
  }
};

// What a worker is at: one of these, or the address of the Team that it is called to.
enum : uintptr_t { absent, idle, parked, busy };  // absent: it has no thread

struct alignas(64) Worker {
  std::atomic<uintptr_t> state;
  std::atomic<uint32_t> bell;  // rung to wake it

  bool change(uintptr_t from, uintptr_t to) {
    return state.compare_exchange_strong(from, to, std::memory_order_acq_rel, std::memory_order_relaxed);
  }
  // Calls it to a team if it is free.
  bool call(Team &team) {
    uintptr_t seen = state.load(std::memory_order_relaxed);
    while (seen == idle || seen == parked)
      if (state.compare_exchange_weak(seen, reinterpret_cast<uintptr_t>(&team), std::memory_order_acq_rel,
                                      std::memory_order_relaxed)) {
        if (seen == parked) {
          bell.fetch_add(1, std::memory_order_release);
          wake(&bell);
        }
        return true;
      }
    return false;
  }
  // Takes a call back; false if it has been followed.
  bool recall(Team &team) { return change(reinterpret_cast<uintptr_t>(&team), idle); }

  Team &next_team() {
    for (Patience patience;;) {
      const uint32_t rung = bell.load(std::memory_order_acquire);  // before state: no ring for a call is missed
      const uintptr_t seen = state.load(std::memory_order_relaxed);
      if (seen > busy) {
        if (change(seen, busy)) return *reinterpret_cast<Team *>(seen);  // NOLINT(performance-no-int-to-ptr)
      } else if (!patience.wait()) {
        if (seen == parked || change(idle, parked)) sleep_on(bell, rung);
      }
    }
  }
};

// As many as one call may ask for. They are zero pages of the library until they are used.
constexpr int most_helpers = 4095;
Worker workers[most_helpers];

[[noreturn]] void *work(void *self) noexcept {
  auto &worker = *static_cast<Worker *>(self);
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  sched_getaffinity(0, sizeof cpus, &cpus);
  for (;;) {
    Team &team = worker.next_team();
    if (team.placed && !CPU_EQUAL(&cpus, &team.cpus)) {
      cpus = team.cpus;
      sched_setaffinity(0, sizeof cpus, &cpus);  // where that is forbidden it stays where it is
    }
    fesetenv(&team.arithmetic);
    team.body(team.context);
    // First free for the next call, then done with this one: who calls again at once finds it.
    worker.state.store(idle, std::memory_order_release);
    team.finish();
  }
}

// A child has one thread, whatever its parent had.
void forget_workers() {
  for (Worker &worker : workers)
    if (worker.state.load(std::memory_order_relaxed) != absent) worker.state.store(absent, std::memory_order_relaxed);
}
const bool forks_are_seen = pthread_atfork(nullptr, nullptr, forget_workers) == 0;

// Starts a worker's thread, if it has none, with a call to the team. It takes no signals, which are the business of the
// program's own threads, but those of its own faults and of profilers.
bool start(Worker &worker, Team &team) {
  if (!forks_are_seen || worker.state.load(std::memory_order_relaxed) != absent ||
      !worker.change(absent, reinterpret_cast<uintptr_t>(&team)))
    return false;
  pthread_attr_t attributes;
  bool started = pthread_attr_init(&attributes) == 0;
  if (started) {
    sigset_t most, before;
    sigfillset(&most);
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF}) sigdelset(&most, own);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &most, &before);
    pthread_t thread;
    started = pthread_create(&thread, &attributes, work, &worker) == 0;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    pthread_attr_destroy(&attributes);
  }
  if (!started) worker.state.store(absent, std::memory_order_release);
  return started;
}

// Where a team may run: where its caller may; or, if OpenMP binds threads to places, which holds the calling thread to
// one of them, in all of these.
bool find_cpus(cpu_set_t &cpus) {
  CPU_ZERO(&cpus);
  if (omp_get_proc_bind() == omp_proc_bind_false) return sched_getaffinity(0, sizeof cpus, &cpus) == 0;
  int ids[CPU_SETSIZE];
  for (int place = 0; place < omp_get_num_places(); ++place) {
    const int count = omp_get_place_num_procs(place);
    if (count > CPU_SETSIZE) return false;
    omp_get_place_proc_ids(place, ids);
    for (int i = 0; i < count; ++i)
      if (ids[i] >= 0 && ids[i] < CPU_SETSIZE) CPU_SET(ids[i], &cpus);
  }
  return CPU_COUNT(&cpus) > 0;
}

// What OpenMP would make of so many threads here: one within a parallel region, unless regions may nest.
int allowed(int threads) {
  if (omp_get_active_level() >= omp_get_max_active_levels()) return 1;
  return std::min(threads, omp_get_thread_limit());
}

}  // namespace

void run_team(int threads, void (*body)(void *), void *context) {
  const int wanted = std::min(allowed(threads) - 1, most_helpers);
  if (wanted < 1) return body(context);
  Team team;
  team.body = body;
  team.context = context;
  fegetenv(&team.arithmetic);
  team.placed = find_cpus(team.cpus);
  uint16_t called[most_helpers];
  int count = 0;
  for (int i = 0; i < most_helpers && count < wanted; ++i) {
    if (workers[i].call(team) || start(workers[i], team))
      called[count++] = static_cast<uint16_t>(i);
    else if (workers[i].state.load(std::memory_order_relaxed) == absent)
      break;  // no more threads to be had
  }
  body(context);
  // There is no work left: who has not begun need not begin.
  uint32_t helpers = 0;
  for (int i = 0; i < count; ++i)
    if (!workers[called[i]].recall(team)) ++helpers;
  team.wait_for(helpers);
}

void wait_until(const std::atomic<int64_t> &counter, int64_t target) {
  for (Patience patience; counter.load(std::memory_order_acquire) < target;) patience.wait();
}

}  // namespace sdtw::cpu
