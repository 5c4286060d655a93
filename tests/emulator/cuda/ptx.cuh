// In place of src/cuda/ptx.cuh: the same functions, on the emulator.
#pragma once

#include "cuda_runtime.h"

namespace sdtw::cuda::ptx {

using Word = unsigned long long;

// Where threads of different blocks speak to each other others may run first, at random.
template <class T>
T load_volatile(const T *p) {
  emulator::may_give_way();
  return *static_cast<const volatile T *>(p);
}
template <class T>
void store_volatile(T *p, T v) {
  emulator::may_give_way();
  *static_cast<volatile T *>(p) = v;
}
inline Word load_relaxed(const Word *p) { return load_volatile(p); }
inline void store_relaxed(Word *p, Word v) { store_volatile(p, v); }
inline Word load_acquire(const Word *p) { return load_volatile(p); }
inline void store_release(Word *p, Word v) { store_volatile(p, v); }
inline int load_acquire(const int *p) { return load_volatile(p); }
inline void store_release(int *p, int v) { store_volatile(p, v); }

inline void wait_for_kernel_before() {}
inline void let_next_kernel_in() {}
inline void barrier(int id, int threads) { emulator::meet_in_block(id, threads); }

inline float approximate_reciprocal(float s) { return 1 / s; }

template <unsigned selector>
unsigned permute(unsigned a, unsigned b) {
  const uint64_t both = uint64_t{b} << 32 | a;
  unsigned bytes = 0;
  for (int i = 0; i < 4; i++) {
    const unsigned choice = selector >> 4 * i & 15;
    const unsigned byte = static_cast<unsigned>(both >> 8 * (choice & 7)) & 255;
    bytes |= (choice & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * i;
  }
  return bytes;
}

template <int b>
int multiply_add(int a, int c) {
  return a * b + c;
}

inline void hide(int &) {}

inline unsigned char *shared_memory() { return static_cast<unsigned char *>(emulator::shared_memory()); }
template <class T>
T &shared_object() {
  static const char identity = 0;
  return *static_cast<T *>(emulator::shared_object(&identity, sizeof(T)));
}

}  // namespace sdtw::cuda::ptx
