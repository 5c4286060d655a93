// The one use of OpenMP: runs body(thread) on a team. Leaves OpenMP's own settings alone.
#pragma once

#include <atomic>
#include <cstdint>

namespace sdtw::cpu {

// Calls body(context) from up to `threads` threads at once and returns when all have returned. The team may come out
// smaller than asked for (nested regions, limits), so work is to be taken by tickets.
void run_team(int threads, void (*body)(void *), void *context);

template <class Body>
void parallel(int threads, Body &&body) {
  if (threads <= 1) return body();
  run_team(
      threads, [](void *context) { (*static_cast<Body *>(context))(); }, &body);
}

// Waits until counter >= target; the thread that will raise it is running.
void wait_until(const std::atomic<int64_t> &counter, int64_t target);

}  // namespace sdtw::cpu
