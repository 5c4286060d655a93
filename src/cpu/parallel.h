// run_team: a call's threads. They are a crew of the library's own, which parallel.cpp keeps.
#pragma once

#include <atomic>
#include <cstdint>

namespace sdtw::cpu {

// Calls body(context) from up to `threads` threads at once, of which the calling one is one, and returns when all have
// returned. The team may come out smaller than asked for (OpenMP's limits, no threads to be had), so work is to be
// taken by tickets. body must not throw.
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
