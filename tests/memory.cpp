#include "memory.h"

#include <map>
#include <new>

namespace test {

namespace {

// Large blocks that a thread has released, by size, for it to use again: sanitizers, as the C library by default, give
// them back to the system, and fresh pages took a third to a half of the suites' time. AddressSanitizer sees accesses
// beyond a block that is used again, too, but not those to one that is kept, so that small blocks are not.
class KeptBlocks {
 public:
  KeptBlocks() = default;
  KeptBlocks(const KeptBlocks &) = delete;
  KeptBlocks &operator=(const KeptBlocks &) = delete;
  ~KeptBlocks() {
    over = true;
    for (const auto &[bytes, address] : blocks_) std::free(address);
  }

  static void *allocate(size_t bytes) {
    void *const kept = is_kept(bytes) ? of_thread().take(bytes) : nullptr;
    return kept ? kept : std::malloc(bytes);
  }
  static void release(void *address, size_t bytes) {
    if (!is_kept(bytes) || !of_thread().keep(address, bytes)) std::free(address);
  }

 private:
  static constexpr size_t least = size_t{1} << 17, most = size_t{1} << 28;  // of a block; of a thread's
  static thread_local bool over;                                            // the thread's have been given back

  static bool is_kept(size_t bytes) { return bytes >= least && !over; }
  static KeptBlocks &of_thread() {
    static thread_local KeptBlocks blocks;
    return blocks;
  }

  void *take(size_t bytes) {
    const auto found = blocks_.find(bytes);
    if (found == blocks_.end()) return nullptr;
    void *const address = found->second;
    blocks_.erase(found);
    bytes_ -= bytes;
    return address;
  }
  bool keep(void *address, size_t bytes) {
    if (bytes_ + bytes > most) return false;
    reveal(address, bytes);
    blocks_.emplace(bytes, address);
    bytes_ += bytes;
    return true;
  }

  std::multimap<size_t, void *> blocks_;
  size_t bytes_ = 0;
};
thread_local bool KeptBlocks::over = false;

}  // namespace

void *HostMemory::allocate(size_t bytes) { return KeptBlocks::allocate(bytes); }
void HostMemory::release(void *address, size_t bytes) { KeptBlocks::release(address, bytes); }

Memory &memory_of(sdtw_device device) {
  static HostMemory host;
  return device == SDTW_CUDA ? cuda_memory() : host;
}

void hide_unused(const void *address, const std::vector<unsigned char> &used) {
  for (size_t from = 0, to; from < used.size(); from = to + 1) {
    for (to = from; to < used.size() && !used[to];) ++to;
    if (to > from) hide(static_cast<const unsigned char *>(address) + from, to - from);
  }
}

}  // namespace test

// Of vectors of results and of the oracle's matrices as well.
void *operator new(size_t bytes, const std::nothrow_t &) noexcept {
  return test::KeptBlocks::allocate(bytes > 0 ? bytes : 1);
}
void *operator new(size_t bytes) {
  void *const address = operator new(bytes, std::nothrow);
  if (!address) throw std::bad_alloc();
  return address;
}
void operator delete(void *address) noexcept { std::free(address); }
void operator delete(void *address, size_t bytes) noexcept { test::KeptBlocks::release(address, bytes); }
