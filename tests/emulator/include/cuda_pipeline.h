// In place of CUDA's header of this name.
#pragma once

#include "cuda_runtime.h"

inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0) {
  emulator::copy_later(to, from, bytes - zeros, zeros);
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(int) { emulator::wait_for_copies(); }
