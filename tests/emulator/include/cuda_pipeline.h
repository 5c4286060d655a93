// In place of CUDA's header of this name.
#pragma once

#include "cuda_runtime.h"

inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0) {
  emulator::copy_later(to, from, bytes - zeros, zeros);
}
inline void __pipeline_commit() { emulator::commit_copies(); }
inline void __pipeline_wait_prior(int prior) { emulator::wait_for_copies(prior); }
