// Sizes and offsets of workspace and state come out of one function each: an Arena adds regions up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "error.h"

namespace sdtw {

// a * b and a + b for sizes: a result that does not fit is an error, not a wrong number.
inline size_t checked_mul(size_t a, size_t b) {
  size_t r;
  if (__builtin_mul_overflow(a, b, &r) || r > PTRDIFF_MAX)
    fail(SDTW_STATUS_INVALID_ARGUMENT, "problem: the buffers it needs exceed the address space");
  return r;
}
inline size_t checked_add(size_t a, size_t b) {
  size_t r;
  if (__builtin_add_overflow(a, b, &r) || r > PTRDIFF_MAX)
    fail(SDTW_STATUS_INVALID_ARGUMENT, "problem: the buffers it needs exceed the address space");
  return r;
}

template <class Int>
constexpr Int ceil_div(Int a, Int b) {
  return (a + b - 1) / b;
}
template <class Int>
constexpr Int round_up(Int a, Int b) {
  return ceil_div(a, b) * b;
}

// Hands out consecutive regions, each aligned to `alignment` from the arena's own beginning.
class Arena {
 public:
  static constexpr size_t alignment = 64;
  // Offset of a region of count elements of the given size.
  size_t add(size_t count, size_t size) {
    const size_t offset = bytes_;
    bytes_ = checked_add(bytes_, round_up(checked_mul(count, size), alignment));
    return offset;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

}  // namespace sdtw
