// What CUDA C++ has no name for: single PTX instructions, and shared memory as a value. All inline assembly that every
// GPU needs is here, so that a build may put other functions of the same names in its place (tests/emulator).
#pragma once

namespace sdtw::cuda::ptx {

using Word = unsigned long long;

__device__ __forceinline__ Word load_relaxed(const Word *p) {
  Word v;
  asm volatile("ld.relaxed.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_relaxed(Word *p, Word v) {
  asm volatile("st.relaxed.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
__device__ __forceinline__ void store_relaxed(int *p, int v) {
  asm volatile("st.relaxed.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}
__device__ __forceinline__ Word load_acquire(const Word *p) {
  Word v;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_release(Word *p, Word v) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(p), "l"(v) : "memory");
}
__device__ __forceinline__ int load_acquire(const int *p) {
  int v;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
  return v;
}
__device__ __forceinline__ void store_release(int *p, int v) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// Programmatic dependent launch: memory.cuh says when.
__device__ __forceinline__ void wait_for_kernel_before() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
__device__ __forceinline__ void let_next_kernel_in() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// The warp's slot on its multiprocessor, whose schedulers have every fourth one.
__device__ __forceinline__ int warp_slot() {
  unsigned slot;
  asm("mov.u32 %0, %%warpid;" : "=r"(slot));
  return static_cast<int>(slot);
}

// Of the GPU, or a few more where their numbers have gaps.
__device__ __forceinline__ unsigned multiprocessors() {
  unsigned count;
  asm("mov.u32 %0, %%nsmid;" : "=r"(count));
  return count;
}

// A barrier among `threads` threads of the block. Id 0 is the one of __syncthreads.
__device__ __forceinline__ void barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
// The same where warps of different roles come to it at places of their own.
__device__ __forceinline__ void barrier_of_roles(int id, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// To about 2^-23; numbers too small to be normal count as 0.
__device__ __forceinline__ float approximate_reciprocal(float s) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(s));
  return r;
}
// To about 2^-20; numbers too small to be normal count as 0.
__device__ __forceinline__ double approximate_reciprocal(double s) {
  double r;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(s));
  return r;
}

// 1 / sqrt(s) to about 2^-22, of a normal number.
__device__ __forceinline__ float approximate_reciprocal_root(float s) {
  float r;
  asm("rsqrt.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(s));
  return r;
}

// Bytes chosen by a selector, one per hexadecimal digit, lowest byte first: 0 to 3 are the bytes of a and 4 to 7 those
// of b. 8 added to the number gives the sign of that byte in all of its bits.
template <unsigned selector>
__device__ __forceinline__ unsigned permute(unsigned a, unsigned b) {
  unsigned bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(selector));
  return bytes;
}

// a b + c in one instruction. The compiler takes two where it knows that bits of the product and of c never meet.
template <int b>
__device__ __forceinline__ int scaled_sum(int a, int c) {
  int sum;
  asm("mad.lo.s32 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "n"(b), "r"(c));
  return sum;
}

// Shifts as the instruction does: by 63 where it is more, or less than 0.
__device__ __forceinline__ long long shift_right(long long v, int by) {
  long long shifted;
  asm("shr.s64 %0, %1, %2;" : "=l"(shifted) : "l"(v), "r"(by));
  return shifted;
}

// c += a b by a warp, of bytes with signs: a of 16 x 32, b of 32 x 8, c of 16 x 8. The elements of a lane: of a
// [lane / 4 (+ 8)][lane % 4 * 4 + 0 to 3 (+ 16)], where the row changes faster; of b [lane % 4 * 4 + 0 to 3 (+ 16)]
// [lane / 4]; of c [lane / 4 (+ 8)][lane % 4 * 2 (+ 1)], where the column changes faster.
__device__ __forceinline__ void multiply_add(int (&c)[4], const uint4 &a, const uint2 &b) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
#else
  const auto quarter = [](int &c0, int &c1, unsigned of_a, unsigned of_b) {
    asm("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};"
        : "+r"(c0), "+r"(c1)
        : "r"(of_a), "r"(of_b));
  };
  quarter(c[0], c[1], a.x, b.x), quarter(c[0], c[1], a.z, b.y);
  quarter(c[2], c[3], a.y, b.x), quarter(c[2], c[3], a.w, b.y);
#endif
}

// The compiler cannot know the number behind this, so what is computed from it is not computed before.
__device__ __forceinline__ void hide(int &v) { asm volatile("" : "+r"(v)); }

// The shared memory that the launch has asked for.
__device__ __forceinline__ unsigned char *shared_memory() {
  extern __shared__ __align__(16) unsigned char shared[];
  return shared;
}
// The block's object of this type in shared memory beside that: one for each kernel.
template <class T>
__device__ __forceinline__ T &shared_object() {
  __shared__ T object;
  return object;
}

}  // namespace sdtw::cuda::ptx
