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
inline void store_relaxed(int *p, int v) { store_volatile(p, v); }
inline Word load_acquire(const Word *p) { return load_volatile(p); }
inline void store_release(Word *p, Word v) { store_volatile(p, v); }
inline int load_acquire(const int *p) { return load_volatile(p); }
inline void store_release(int *p, int v) { store_volatile(p, v); }

inline void wait_for_kernel_before() {}
inline void let_next_kernel_in() {}
inline int warp_slot() { return static_cast<int>((blockIdx.x * 7 + threadIdx.x / 32 * 11) % 64); }  // any will do
inline unsigned multiprocessors() { return 1; }
inline void barrier(int id, int threads) { emulator::meet_in_block(id, threads); }
inline void barrier_of_roles(int id, int threads) { emulator::meet_in_block(id, threads); }

inline float approximate_reciprocal(float s) { return 1 / s; }
// Of the accuracy that the instructions have.
inline double approximate_reciprocal(double s) { return 1 / s * (1 - 0x1p-21); }
inline float approximate_reciprocal_root(float s) { return 1 / sqrtf(s) * (1 - 0x1p-22f); }

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

// Wraps around, as the instruction does: exponents may be anything in lanes whose pair another kernel computes.
template <int b>
int scaled_sum(int a, int c) {
  return static_cast<int>(static_cast<unsigned>(a) * b + static_cast<unsigned>(c));
}

inline void hide(int &) {}

inline long long shift_right(long long v, int by) { return v >> std::min(static_cast<unsigned>(by), 63u); }

// Lanes leave their parts of both matrices in shared memory, and each takes the rows and columns that it needs.
inline void multiply_add(int (&c)[4], const uint4 &a, const uint2 &b) {
  struct Matrices {
    unsigned a[4][32], b[2][32];
  };
  static const char identity = 0;
  const unsigned thread = emulator::position().thread.x, lane = thread % 32;
  auto &all = static_cast<Matrices *>(emulator::shared_object(&identity, 32 * sizeof(Matrices)))[thread / 32];
  const unsigned of_a[] = {a.x, a.y, a.z, a.w}, of_b[] = {b.x, b.y};
  for (int i = 0; i < 4; i++) all.a[i][lane] = of_a[i];
  for (int i = 0; i < 2; i++) all.b[i][lane] = of_b[i];
  emulator::meet_in_warp(~0u);
  for (int i = 0; i < 4; i++) {
    unsigned sum = static_cast<unsigned>(c[i]);
    for (int part = 0; part < 2; part++)
      for (int word = 0; word < 4; word++) {
        const unsigned left = all.a[2 * part + i / 2][lane / 4 * 4 + word];
        const unsigned right = all.b[part][(lane % 4 * 2 + i % 2) * 4 + word];
        for (int byte = 0; byte < 32; byte += 8)
          sum +=
              static_cast<unsigned>(static_cast<signed char>(left >> byte) * static_cast<signed char>(right >> byte));
      }
    c[i] = static_cast<int>(sum);
  }
  emulator::meet_in_warp(~0u);
}

inline unsigned char *shared_memory() { return static_cast<unsigned char *>(emulator::shared_memory()); }
template <class T>
T &shared_object() {
  static const char identity = 0;
  return *static_cast<T *>(emulator::shared_object(&identity, sizeof(T)));
}

}  // namespace sdtw::cuda::ptx
