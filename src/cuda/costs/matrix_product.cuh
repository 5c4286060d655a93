// Products of matrices in float64, by a warp.
#pragma once

#include "cuda/memory.cuh"

namespace sdtw::cuda {

// c += a b by a warp, a of 16 x 4 parts, b of 4 parts x 8, c of 16 x 8, with 2 or 4 parts. The elements of a lane: of a
// [lane / 4 (+ 8)][lane % 4 (+ 4, 8, 12)], where the row changes fastest; of b [lane % 4 (+ 4, 8, 12)][lane / 4]; of c
// [lane / 4 (+ 8)][lane % 4 * 2 (+ 1)], where the column changes fastest. Before 9.0 smaller instructions do the same,
// and before 8.0 shuffles do.
template <int parts>
__device__ __forceinline__ void multiply_add(double (&c)[4], const double (&a)[2 * parts], const double (&b)[parts]) {
  static_assert(parts == 2 || parts == 4, "there are no others");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if constexpr (parts == 4)
    asm("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7, %8, %9, %10, %11}, "
        "{%12, %13, %14, %15}, {%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]), "d"(a[7]), "d"(b[0]), "d"(b[1]),
          "d"(b[2]), "d"(b[3]));
  else
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
  for (int part = 0; part < parts; part++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      double &c0 = c[2 * half], &c1 = c[2 * half + 1];
      const double row = a[2 * part + half];
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
      asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
          : "+d"(c0), "+d"(c1)
          : "d"(row), "d"(b[part]));
#else
      const int lane = lane_id();
#pragma unroll
      for (int k = 0; k < 4; k++) {
        const double of_a = __shfl_sync(all_lanes, row, lane / 4 * 4 + k);
        c0 = fma(of_a, __shfl_sync(all_lanes, b[part], lane % 4 * 8 + k), c0);
        c1 = fma(of_a, __shfl_sync(all_lanes, b[part], lane % 4 * 8 + 4 + k), c1);
      }
#endif
    }
#endif
}

}  // namespace sdtw::cuda
