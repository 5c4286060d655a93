// Numbers too small to be normal become 0 for a while.
#pragma once

#if defined(__SSE__)
#include <xmmintrin.h>
#endif

namespace sdtw::cpu {

// E falls off by orders of magnitude from cell to cell, to where it is a denormal number, of which an x86 processor
// takes over a hundred cycles each: more than half of a backward's time. Where there is an E this small nobody asks for
// it, as the tile's neighbours are skipped from 1e-12 on. So do the terms of a soft minimum in double, at small gamma,
// next to the largest of them, which is 1 or more. In the caller's own numbers, costs and gradients, it would matter.
class FlushDenormals {
 public:
#if defined(__SSE__)
  explicit FlushDenormals(bool flushes = true) : flushes_(flushes), before_(_mm_getcsr()) {
    if (flushes_) _mm_setcsr(before_ | 0x8000);
  }
  // A write to this register waits for all that came before.
  ~FlushDenormals() {
    if (flushes_) _mm_setcsr(before_);
  }
#else
  explicit FlushDenormals(bool = true) {}
#endif
  FlushDenormals(const FlushDenormals &) = delete;
  FlushDenormals &operator=(const FlushDenormals &) = delete;

#if defined(__SSE__)
 private:
  const bool flushes_;
  const unsigned before_;
#endif
};

}  // namespace sdtw::cpu
