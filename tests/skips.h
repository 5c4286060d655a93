// What a backend does not implement yet: refused with SDTW_STATUS_UNSUPPORTED, counted, and printed at the end of a
// run, so that nothing that was not computed passes for tested.
#pragma once

#include <cstdio>
#include <map>
#include <string>

namespace test {

class Skips {
 public:
  void add(const std::string &reason) { ++counts_[reason]; }
  int count() const {
    int sum = 0;
    for (const auto &[reason, times] : counts_) sum += times;
    return sum;
  }
  void print() const {
    if (counts_.empty()) return;
    std::printf("SKIPPED: %d problems that this backend refuses as not implemented\n", count());
    for (const auto &[reason, times] : counts_) std::printf("  %6d: %s\n", times, reason.c_str());
    std::fflush(stdout);
  }

 private:
  std::map<std::string, int> counts_;
};

inline Skips &skips() {
  static Skips instance;
  return instance;
}

}  // namespace test
