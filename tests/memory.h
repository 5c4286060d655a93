// Guarded buffers in the memory of the device under test, filled with poison before every call.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "sdtw.h"

namespace test {

// Whether AddressSanitizer sees what the library does. It is asked when the program runs (address_sanitizer.cpp), as
// most of the tests themselves are compiled without it.
bool has_address_sanitizer();
// Under AddressSanitizer any access of the library to hidden memory ends the program; without it these do nothing.
void hide(const void *address, size_t bytes);
void reveal(const void *address, size_t bytes);
// Whether AddressSanitizer will call this before it ends the program.
bool call_before_death(void (*callback)());

// Hides all bytes that are not marked as used.
void hide_unused(const void *address, const std::vector<unsigned char> &used);

// How to get at the memory of a device. The host's is below; the GPU's is in cuda/, or a stub in builds without CUDA.
struct Memory {
  virtual ~Memory() = default;
  virtual void *allocate(size_t bytes) = 0;
  virtual void release(void *address, size_t bytes) = 0;
  virtual void fill(void *to, unsigned char value, size_t bytes) = 0;
  virtual void upload(void *to, const void *from, size_t bytes) = 0;    // synchronous
  virtual void download(void *to, const void *from, size_t bytes) = 0;  // synchronous, after all work
  virtual bool is_host() const { return false; }
};

struct HostMemory final : Memory {
  void *allocate(size_t bytes) override;
  void release(void *address, size_t bytes) override;
  void fill(void *to, unsigned char value, size_t bytes) override { std::memset(to, value, bytes); }
  void upload(void *to, const void *from, size_t bytes) override { std::memcpy(to, from, bytes); }
  void download(void *to, const void *from, size_t bytes) override { std::memcpy(to, from, bytes); }
  bool is_host() const override { return true; }
};

Memory &cuda_memory();

Memory &memory_of(sdtw_device device);

// Bytes with a guard on either side. The address is aligned to SDTW_BUFFER_ALIGNMENT, as malloc's is, and to no more
// than that for most. Under AddressSanitizer there are no guards: it sees reads beyond the end as well.
class Block {
 public:
  Block(Memory &memory, size_t bytes, unsigned char poison)
      : guard(has_address_sanitizer() ? 0 : most_guard),
        memory_(memory),
        bytes_(bytes),
        all_(std::max<size_t>(1, bytes + 2 * guard)),
        poison_(poison),
        base_(static_cast<unsigned char *>(memory.allocate(all_))) {
    if (base_ == nullptr) throw std::runtime_error("the test could not allocate memory");
    memory.fill(base_, poison, all_);
  }
  Block(const Block &) = delete;
  Block &operator=(const Block &) = delete;
  ~Block() { memory_.release(base_, all_); }

  size_t bytes() const { return bytes_; }
  void *data() const { return base_ + guard; }

  // The host's copy of the bytes: poison, or as it was last downloaded or is to be uploaded. Of host memory it is the
  // memory itself, since most of the time would go into copies; of other memory there is none until it is asked for.
  unsigned char *image() {
    if (memory_.is_host()) return base_ + guard;
    if (copy_.empty()) copy_.assign(all_, poison_);
    return copy_.data() + guard;
  }
  void upload() {
    if (!memory_.is_host()) memory_.upload(base_, image() - guard, all_);
  }
  void download() {
    if (!memory_.is_host()) memory_.download(image() - guard, base_, all_);
    downloaded_ = true;
  }

  // Throws if anything outside the block was written, up to the last download if there was one since the last check.
  void check_guards(const char *name) {
    for (const size_t begin : {size_t(0), guard + bytes_}) {
      unsigned char fetched[most_guard];
      const unsigned char *bytes = image_if_downloaded();
      if (bytes != nullptr)
        bytes += begin;
      else
        memory_.download(fetched, base_ + begin, guard), bytes = fetched;
      if (std::any_of(bytes, bytes + guard, [&](unsigned char byte) { return byte != poison_; }))
        throw std::runtime_error(std::string(name) + ": the call wrote outside of it");
    }
    downloaded_ = false;
  }

 private:
  const unsigned char *image_if_downloaded() { return memory_.is_host() || downloaded_ ? image() - guard : nullptr; }

  static constexpr size_t most_guard = 80;

  const size_t guard;
  Memory &memory_;
  bool downloaded_ = false;
  size_t bytes_, all_;
  unsigned char poison_;
  std::vector<unsigned char> copy_;
  unsigned char *base_;
};

}  // namespace test
