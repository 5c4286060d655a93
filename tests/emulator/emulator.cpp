// What the threads of a warp or a block wait for, and which of them goes on.
#include "emulator.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "fiber.h"

namespace emulator {

namespace {

constexpr long most_idle_turns = 20'000'000;  // turns in a row in which threads only gave way: a wait without end

enum class Operation : int { none, exchange, ballot, add_up, meet };
const char *const operation_names[] = {"nothing", "a shuffle", "a vote", "__reduce_add_sync", "__syncwarp"};

struct Block;
struct Warp;

struct Thread {
  Fiber fiber;
  Position position;
  Warp *warp = nullptr;
  int lane = 0;
  // Of the meeting that it waits for.
  Operation operation = Operation::none;
  unsigned mask = 0;
  uint64_t value = 0, result = 0;
  int source = 0;
  struct Copy {
    void *to;
    const void *from;
    size_t bytes, zeros;
  };
  std::vector<Copy> copies;
  std::deque<size_t> batches;  // how many copies each of those that were committed has, the oldest first
  size_t uncommitted = 0;
};

// A thread is in none of these sets while it waits.
struct Warp {
  Block *block = nullptr;
  Thread *threads = nullptr;
  unsigned live = 0;     // have not ended
  unsigned ready = 0;    // have something to do in this turn
  unsigned later = 0;    // gave way until the next turn
  unsigned meeting = 0;  // wait for others of the warp
  bool runnable() const { return (ready | later) != 0; }
};

struct Meeting {
  int threads = 0;  // that it waits for; 0: all
  const char *place = nullptr;
  std::vector<Thread *> here;
};

struct Block {
  Index index;
  std::vector<Thread> threads;
  std::vector<Warp> warps;
  std::map<int, Meeting> meetings;
  std::vector<unsigned char> shared;  // with AddressSanitizer, exactly what was asked for
  std::map<const void *, std::vector<unsigned char>> objects;
  int live = 0;
};

struct Gpu {
  const Launch *launch = nullptr;
  Fiber host;
  Thread *running = nullptr;
  std::vector<std::unique_ptr<Stack>> stacks, idle_stacks;
  std::vector<std::unique_ptr<Block>> resident;
  uint64_t random = 0;
  long idle_turns = 0;
  bool progress = false;

  Gpu() {
    const char *seed = std::getenv("SDTW_EMULATOR_SEED");
    random = 0x9e3779b97f4a7c15u + (seed ? std::strtoull(seed, nullptr, 10) : 0) * 0xbf58476d1ce4e5b9u;
  }
  unsigned draw(size_t below) {
    random ^= random << 13, random ^= random >> 7, random ^= random << 17;
    return static_cast<unsigned>((random >> 32) * below >> 32);
  }
};

Gpu &gpu() {
  static thread_local Gpu instance;
  return instance;
}

// The next thread of the warp that has something to do, from a random end.
Thread *next_of(Warp &warp) {
  if (!warp.ready) return nullptr;
  const int lane = gpu().draw(2) ? __builtin_ctz(warp.ready) : warp_size - 1 - __builtin_clz(warp.ready);
  warp.ready &= ~(1u << lane);
  return &warp.threads[lane];
}

// Leaves the running thread, which waits, gave way or has ended, for the next of its warp or for the host.
void leave(bool ends = false) {
  Gpu &g = gpu();
  Thread &from = *g.running;
  Thread *const next = next_of(*from.warp);
  g.running = next;
  switch_fibers(from.fiber, next ? next->fiber : g.host, ends);
}

void describe(const Block &block) {
  std::fprintf(stderr, "  block (%u, %u, %u):\n", block.index.x, block.index.y, block.index.z);
  for (size_t w = 0; w < block.warps.size(); w++) {
    const Warp &warp = block.warps[w];
    std::fprintf(stderr, "    warp %zu: live %08x, running %08x, giving way %08x\n", w, warp.live, warp.ready,
                 warp.later);
    for (int lane = 0; lane < warp_size; lane++) {
      const Thread &thread = warp.threads[lane];
      if (!(warp.meeting >> lane & 1)) continue;
      std::fprintf(stderr, "      lane %d waits in %s of %08x\n", lane,
                   operation_names[static_cast<int>(thread.operation)], thread.mask);
    }
  }
  for (const auto &[id, meeting] : block.meetings)
    if (!meeting.here.empty()) {
      std::fprintf(stderr, "    barrier %d has %zu of %d threads, of warps", id, meeting.here.size(), meeting.threads);
      for (size_t w = 0; w < block.warps.size(); w++)
        if (const auto of_warp = std::count_if(meeting.here.begin(), meeting.here.end(),
                                               [&](const Thread *t) { return t->warp == &block.warps[w]; }))
          std::fprintf(stderr, " %zu (%d)", w, static_cast<int>(of_warp));
      std::fprintf(stderr, "\n");
    }
}

// Whether all threads that the meeting of `first` waits for are there.
bool is_complete(const Warp &warp, const Thread &first) {
  const unsigned expected = first.mask & warp.live;
  if ((warp.meeting & expected) != expected) return false;
  for (unsigned left = expected; left; left &= left - 1) {
    const Thread &other = warp.threads[__builtin_ctz(left)];
    if (other.mask != first.mask) return false;  // it is at another meeting, and may still come to this one
    if (other.operation != first.operation) stop("threads of one mask came to different operations");
  }
  return true;
}

void hold(Warp &warp, const Thread &first) {
  const unsigned all = first.mask & warp.live;
  unsigned votes = 0, sum = 0;
  for (unsigned left = all; left; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    votes |= (warp.threads[lane].value != 0 ? 1u : 0u) << lane, sum += static_cast<unsigned>(warp.threads[lane].value);
  }
  for (unsigned left = all; left; left &= left - 1) {
    Thread &thread = warp.threads[__builtin_ctz(left)];
    switch (thread.operation) {
      case Operation::exchange:
        if (!(all >> thread.source & 1)) stop("a shuffle reads from a lane that does not take part");
        thread.result = warp.threads[thread.source].value;
        break;
      case Operation::ballot: thread.result = votes; break;
      case Operation::add_up: thread.result = sum; break;
      default: break;
    }
  }
  warp.meeting &= ~all;
  warp.ready |= all;
  gpu().progress = true;
}

uint64_t meet(Operation operation, unsigned mask, uint64_t value, int source = 0) {
  Thread &self = *gpu().running;
  Warp &warp = *self.warp;
  if (!(mask >> self.lane & 1)) stop("a thread is not in the mask that it names");
  self.operation = operation, self.mask = mask, self.value = value, self.source = source;
  warp.meeting |= 1u << self.lane;
  if (is_complete(warp, self)) {
    hold(warp, self);
    warp.ready &= ~(1u << self.lane);  // it goes on itself
  } else {
    leave();
  }
  return self.result;
}

void release(Meeting &meeting) {
  for (Thread *thread : meeting.here) thread->warp->ready |= 1u << thread->lane;
  meeting.here.clear();
  gpu().progress = true;
}

void check_meetings(Block &block) {
  for (auto &[id, meeting] : block.meetings) {
    const int expected = meeting.threads ? meeting.threads : block.live;
    if (!meeting.here.empty() && static_cast<int>(meeting.here.size()) >= expected) release(meeting);
  }
}

void begin_thread() {
  Gpu &g = gpu();
#ifdef __SANITIZE_ADDRESS__
  // The first switch from the host tells where its stack is.
  const void *bottom;
  size_t bytes;
  __sanitizer_finish_switch_fiber(nullptr, &bottom, &bytes);
  if (!g.host.bottom) g.host.bottom = bottom, g.host.bytes = bytes;
#endif
  g.launch->body();
  Thread &self = *g.running;
  Warp &warp = *self.warp;
  warp.live &= ~(1u << self.lane);
  warp.block->live--;
  g.progress = true;
  // Those that waited for this thread wait no longer.
  for (unsigned left = warp.meeting; left; left &= left - 1) {
    const Thread &other = warp.threads[__builtin_ctz(left)];
    if ((warp.meeting >> other.lane & 1) && is_complete(warp, other)) hold(warp, other);
  }
  check_meetings(*warp.block);
  leave(true);
}

std::unique_ptr<Block> make_block(const Launch &launch, Index index) {
  Gpu &g = gpu();
  auto block = std::make_unique<Block>();
  const unsigned threads = launch.block.x * launch.block.y * launch.block.z;
  block->index = index;
  block->live = static_cast<int>(threads);
  block->threads.resize(threads);
  block->warps.resize((threads + warp_size - 1) / warp_size);
  block->shared.assign(launch.shared_memory, 0xee);
  for (unsigned t = 0; t < threads; t++) {
    Thread &thread = block->threads[t];
    thread.position = {{t % launch.block.x, t / launch.block.x % launch.block.y, t / launch.block.x / launch.block.y},
                       index,
                       launch.block,
                       launch.grid};
    Warp &warp = block->warps[t / warp_size];
    thread.lane = static_cast<int>(t % warp_size), thread.warp = &warp;
    if (thread.lane == 0) warp.threads = &thread, warp.block = block.get();
    warp.live |= 1u << thread.lane;
    warp.ready |= 1u << thread.lane;
    if (g.idle_stacks.empty()) g.idle_stacks.push_back(std::make_unique<Stack>());
    thread.fiber.begin(g.idle_stacks.back()->begin(), begin_thread);
    g.stacks.push_back(std::move(g.idle_stacks.back()));
    g.idle_stacks.pop_back();
  }
  return block;
}

void end_block(const Block &block) {
  Gpu &g = gpu();
  for (const Thread &thread : block.threads) {
    const auto at = std::find_if(g.stacks.begin(), g.stacks.end(),
                                 [&](const auto &stack) { return stack->begin() == thread.fiber.stack; });
    g.idle_stacks.push_back(std::move(*at));
    *at = std::move(g.stacks.back());
    g.stacks.pop_back();
  }
}

// A turn of one warp: until all of its threads wait, gave way or have ended.
void take_turn(Warp &warp) {
  Gpu &g = gpu();
  warp.ready |= warp.later, warp.later = 0;
  g.progress = false;
  while (Thread *thread = next_of(warp)) {
    g.running = thread;
    switch_fibers(g.host, thread->fiber);
    g.running = nullptr;
  }
  g.idle_turns = g.progress ? 0 : g.idle_turns + 1;
  if (g.idle_turns > most_idle_turns) stop("threads wait for what never comes");
}

}  // namespace

void stop(const char *message) {
  Gpu &g = gpu();
  std::fprintf(stderr, "emulator: %s, in %s\n", message, g.launch ? g.launch->name : "no kernel");
  if (g.running) {
    const Position &at = g.running->position;
    std::fprintf(stderr, "  by thread (%u, %u, %u) of block (%u, %u, %u)\n", at.thread.x, at.thread.y, at.thread.z,
                 at.block.x, at.block.y, at.block.z);
  }
  for (const auto &block : g.resident) describe(*block);
  std::abort();
}

const Position &position() { return gpu().running->position; }

int blocks_per_multiprocessor(int threads, size_t shared_memory) {
  const size_t by_memory = shared_memory_of_multiprocessor / (shared_memory + 1024);
  return static_cast<int>(std::min<size_t>({by_memory, static_cast<size_t>(2048 / threads), 2}));
}

void run(const Launch &launch) {
  Gpu &g = gpu();
  const int64_t blocks = int64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  const int threads = static_cast<int>(launch.block.x * launch.block.y * launch.block.z);
  const int64_t at_once =
      int64_t{multiprocessors} * std::max(1, blocks_per_multiprocessor(threads, launch.shared_memory));
  g.launch = &launch;
  g.idle_turns = 0;
  int64_t next = 0;
  std::vector<Warp *> runnable;
  for (;;) {
    while (next < blocks && static_cast<int64_t>(g.resident.size()) < at_once) {
      const Index index{static_cast<unsigned>(next % launch.grid.x),
                        static_cast<unsigned>(next / launch.grid.x % launch.grid.y),
                        static_cast<unsigned>(next / launch.grid.x / launch.grid.y)};
      g.resident.push_back(make_block(launch, index));
      next++;
    }
    runnable.clear();
    for (const auto &block : g.resident)
      for (Warp &warp : block->warps)
        if (warp.runnable()) runnable.push_back(&warp);
    if (runnable.empty()) {
      if (!g.resident.empty()) stop("all threads wait");
      break;
    }
    // Several turns before the list is made anew.
    for (size_t turns = runnable.size(); turns > 0; turns--) {
      Warp &warp = *runnable[g.draw(runnable.size())];
      if (warp.runnable()) take_turn(warp);
    }
    const auto over = [](const auto &block) { return block->live == 0; };
    for (const auto &block : g.resident)
      if (over(block)) end_block(*block);
    g.resident.erase(std::remove_if(g.resident.begin(), g.resident.end(), over), g.resident.end());
  }
  g.launch = nullptr;
}

uint64_t exchange(unsigned mask, uint64_t value, int source_lane) {
  return meet(Operation::exchange, mask, value, source_lane);
}
unsigned ballot(unsigned mask, bool predicate) {
  return static_cast<unsigned>(meet(Operation::ballot, mask, predicate));
}
unsigned add_up(unsigned mask, unsigned value) { return static_cast<unsigned>(meet(Operation::add_up, mask, value)); }
void meet_in_warp(unsigned mask) { meet(Operation::meet, mask, 0); }

void meet_in_block(int id, int threads, const char *place) {
  Thread &self = *gpu().running;
  Block &block = *self.warp->block;
  Meeting &meeting = block.meetings[id];
  if (!meeting.here.empty() && meeting.threads != threads) stop("a barrier is used with different numbers of threads");
  if (!meeting.here.empty() && meeting.place != place) {
    std::fprintf(stderr, "emulator: threads of a block came to %s and to %s\n", meeting.place, place);
    stop("a barrier was reached from two places");
  }
  meeting.threads = threads, meeting.place = place;
  meeting.here.push_back(&self);
  if (static_cast<int>(meeting.here.size()) < (threads ? threads : block.live)) return leave();
  release(meeting);
  self.warp->ready &= ~(1u << self.lane);
}

void give_way() {
  Thread &self = *gpu().running;
  self.warp->later |= 1u << self.lane;
  leave();
}

void may_give_way() {
  if (gpu().draw(4) == 0) give_way();
}

void copy_later(void *to, const void *from, size_t bytes, size_t zeros) {
  gpu().running->copies.push_back({to, from, bytes, zeros});
  gpu().running->uncommitted++;
}
void commit_copies() {
  auto &thread = *gpu().running;
  thread.batches.push_back(std::exchange(thread.uncommitted, 0));
}
// Copies of the latest `prior` batches, and those that belong to none yet, stay on their way.
void wait_for_copies(int prior) {
  auto &thread = *gpu().running;
  size_t count = 0;
  while (thread.batches.size() > static_cast<size_t>(prior)) {
    count += thread.batches.front();
    thread.batches.pop_front();
  }
  for (size_t i = 0; i < count; i++) {
    const auto &copy = thread.copies[i];
    std::memcpy(copy.to, copy.from, copy.bytes);
    std::memset(static_cast<char *>(copy.to) + copy.bytes, 0, copy.zeros);
  }
  thread.copies.erase(thread.copies.begin(), thread.copies.begin() + static_cast<std::ptrdiff_t>(count));
}

void *shared_memory() { return gpu().running->warp->block->shared.data(); }

void *shared_object(const void *identity, size_t bytes) {
  std::vector<unsigned char> &object = gpu().running->warp->block->objects[identity];
  if (object.empty()) object.assign(bytes, 0xee);
  return object.data();
}

}  // namespace emulator
