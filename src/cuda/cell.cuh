// The cell: Z = exp(-R / gamma) = m 2^e. Fast has a float and an integer, Wide a double and an integer-valued double.
//
// With t = D log2(e) / gamma = n + f, n the nearest integer, one step of the recursion of sdtw.h is
//   x = max(e_diagonal, e_vertical, e_horizontal),  s = sum m_k 2^(e_k - x),  m = s 2^-f,  e = x - n,
// and the probability that a path to the cell came from neighbour k is m_k 2^(e_k - x) / s. Exponents are exact, so
// no error builds up along a path but that of m. Forbidden cells have a very negative exponent.
#pragma once

#include "core/numbers.h"
#include "memory.cuh"

namespace sdtw::cuda {

// p[0..2]: the way into a cell that a path took, as in sdtw_problem.step_weight.
enum { diagonal = 0, vertical = 1, horizontal = 2 };

__device__ __forceinline__ float reciprocal(float s) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(s));
  return fmaf(fmaf(-s, r, 1.0f), r, r);
}
__device__ __forceinline__ double reciprocal(double s) { return 1 / s; }

// Terms of a cell's sum to probabilities of the three ways into it. The largest is what the others leave: a sum that is
// not 1 would leak, or swell, in every cell of a path.
template <class Real>
__device__ __forceinline__ void normalise(Real &d, Real &v, Real &h) {
  const Real r = reciprocal(d + h + v);
  d *= r, v *= r, h *= r;
  if (v >= d && v >= h)
    v = 1 - (d + h);
  else if (h >= d)
    h = 1 - (d + v);
  else
    d = 1 - (v + h);
}

struct Fast {
  using Real = float;
  static constexpr bool wide = false;
  struct Z {
    float m;
    int e;
  };

  static __device__ Z forbidden() { return {1, core::Exponent<float>::forbidden}; }
  static __device__ Z one() { return {1, 0}; }

  // m 2^(e - x), to 2^-80 of the largest term: m stays within 2^-46 and 2^120 between two renormalisations.
  static __device__ float term(const Z &z, int x) {
    const int shift = __viaddmax_s32(z.e, -x, -80);
    return __int_as_float(__float_as_int(z.m) + (shift << 23));
  }

  // t = n + f of a cost.
  struct Cost {
    float f;
    int n;
  };
  // log2(e) / gamma as the sum of two floats: were it rounded to one, the value would be off by 2^-25 <E, D>, which may
  // be far more than it is.
  struct Scale {
    float high, low;
    __device__ explicit Scale(double scale)
        : high(static_cast<float>(scale)), low(static_cast<float>(scale - static_cast<double>(high))) {}
    __device__ double whole() const { return static_cast<double>(high) + static_cast<double>(low); }
  };
  static __device__ __forceinline__ Cost split(float cost, const Scale &scale) {
    constexpr float round = 12582912.0f;  // 1.5 2^23: adding it rounds to an integer, in the low bits of the sum
    const float r = fmaf(cost, scale.high, round);
    const float f = fmaf(cost, scale.low, fmaf(cost, scale.high, -(r - round)));
    return {f, __float_as_int(r) - __float_as_int(round)};
  }
  static __device__ __forceinline__ Cost split(double cost, const Scale &scale) {
    constexpr double round = 6755399441055744.0;  // 1.5 2^52
    const double r = fma(cost, scale.whole(), round);
    return {static_cast<float>(fma(cost, scale.whole(), -(r - round))), __double2loint(r)};
  }

  // 2^-f. The hardware's ex2 is off by as much as 2^-22, and by the same where costs are the same.
  template <int k>
  static __device__ __forceinline__ float horner(float f) {
    if constexpr (k == core::Exp2Minus<float>::degree - 1) {
      return core::Exp2Minus<float>::c[k];
    } else {
      constexpr float c = core::Exp2Minus<float>::c[k];
      return fmaf(f, horner<k + 1>(f), c);
    }
  }

  // The next cell from its cost and its neighbours, and the three terms of its sum.
  template <bool with_terms>
  static __device__ __forceinline__ Z next(const Cost &cost, const Z &d, const Z &v, const Z &h, float *p) {
    const float w = fmaf(cost.f, horner<0>(cost.f), 1.0f);
    const int x = __vimax3_s32(d.e, h.e, v.e);
    const float td = term(d, x), th = term(h, x), tv = term(v, x);
    const float side = td + th;
    if (with_terms) p[diagonal] = td, p[vertical] = tv, p[horizontal] = th;
    return {fmaf(tv, w, side * w), x - cost.n};
  }

  static __device__ void renormalise(Z &z) {
    const int shift = (__float_as_int(z.m) >> 23) - 127;
    z.m = __int_as_float(__float_as_int(z.m) - (shift << 23));
    z.e += shift;
  }

  static __device__ double log2(const Z &z) { return z.e + ::log2(static_cast<double>(z.m)); }
  static __device__ bool reachable(const Z &) { return true; }

  // m is positive, so a word with its sign bit cleared is never all ones.
  static __device__ Word pack(const Z &z) {
    return static_cast<Word>(static_cast<unsigned>(z.e)) << 32 | (__float_as_uint(z.m) & 0x7fffffffu);
  }
  static __device__ Z unpack(Word word) {
    return {__uint_as_float(static_cast<unsigned>(word)), static_cast<int>(word >> 32)};
  }
  static __device__ void store(Word *p, int64_t i, int, const Z &z) { store_relaxed(p + i, pack(z)); }
  static __device__ Z load(const Word *p, int64_t i, int) { return unpack(__ldg(p + i)); }
  static __device__ Z wait(const Word *p, int64_t i, int) { return unpack(wait_for(p + i)); }
  static __device__ Z shuffle(const Z &z, int lane) {
    return {__shfl_sync(all_lanes, z.m, lane), __shfl_sync(all_lanes, z.e, lane)};
  }
};

struct Wide {
  using Real = double;
  static constexpr bool wide = true;
  static constexpr double forbidden_e = core::Exponent<double>::forbidden;
  struct Z {
    double m, e;
  };

  static __device__ Z forbidden() { return {1, forbidden_e}; }
  static __device__ Z one() { return {1, 0}; }

  static __device__ __forceinline__ double larger(double a, double b) { return a > b ? a : b; }

  static __device__ __forceinline__ double term(const Z &z, double x) {
    constexpr double round = 6755399441055744.0;  // 1.5 2^52: adding it leaves an integer in the low word
    constexpr int least = 700;
    constexpr unsigned high_of_least = 0xc085e000u;  // of -700.0; that of a more negative number is larger
    const double difference = z.e - x;
    const int shift =
        static_cast<unsigned>(__double2hiint(difference)) > high_of_least ? -least : __double2loint(difference + round);
    return z.m * __hiloint2double((1023 + shift) << 20, 0);
  }

  template <int k>
  static __device__ double horner(double f) {
    if constexpr (k == core::Exp2Minus<double>::degree - 1) {
      return core::Exp2Minus<double>::c[k];
    } else {
      constexpr double c = core::Exp2Minus<double>::c[k];
      return fma(f, horner<k + 1>(f), c);
    }
  }

  struct Cost {
    double cost, scale;
  };
  using Scale = double;
  static __device__ __forceinline__ Cost split(double cost, const Scale &scale) { return {cost, scale}; }

  template <bool with_terms>
  static __device__ __forceinline__ Z next(const Cost &c, const Z &d, const Z &v, const Z &h, double *p) {
    constexpr double round = 6755399441055744.0;
    const double t = c.cost * c.scale;
    double n = 0, w = __longlong_as_double(0x7ff8000000000000ll);  // what NaN and -infinity lead to
    bool forbid = false;
    if (fabs(t) < 1e15) {
      n = fma(c.cost, c.scale, round) - round;
      const double f = fma(c.cost, c.scale, -n);
      w = fma(f, horner<0>(f), 1.0);
    } else if (fabs(t) < 1e290) {  // beyond 2^52 there may be no fraction
      n = rint(t);
      const double f = fmin(fmax(fma(c.cost, c.scale, -n), -0.5), 0.5);
      w = fma(f, horner<0>(f), 1.0);
    } else if (t > 0) {
      forbid = true;
    }
    const double x = larger(larger(d.e, h.e), v.e);
    const double td = term(d, x), th = term(h, x), tv = term(v, x);
    const double s = td + th + tv;
    if (with_terms) p[diagonal] = td, p[vertical] = tv, p[horizontal] = th;
    if (forbid) return {fma(s, 0.0, 1.0), forbidden_e};  // a NaN stays one
    return {s * w, x - n};
  }

  static __device__ void renormalise(Z &z) {
    const int high = __double2hiint(z.m);
    const int shift = (high >> 20 & 0x7ff) - 1023;
    if (shift == 1024) return;  // NaN
    z.m = __hiloint2double(high - (shift << 20), __double2loint(z.m));
    z.e += shift;
  }

  static __device__ double log2(const Z &z) { return z.e + ::log2(z.m); }
  static __device__ bool reachable(const Z &z) { return z.e > -core::Exponent<double>::limit; }

  // One word holds log2 Z, for float32 problems; two hold m and e. A NaN is written as the positive quiet one.
  static __device__ Word pack(double v) { return v == v ? __double_as_longlong(v) : 0x7ff8000000000000ull; }
  static __device__ Z split(Word word) {
    const double v = __longlong_as_double(word), e = floor(v);
    return v == v ? Z{exp2(v - e), e} : Z{v, 0};
  }
  static __device__ void store(Word *p, int64_t i, int words, const Z &z) {
    if (words == 1) {
      store_relaxed(p + i, pack(log2(z)));
    } else {
      store_relaxed(p + 2 * i, pack(z.m));
      store_relaxed(p + 2 * i + 1, pack(z.e));
    }
  }
  static __device__ Z load(const Word *p, int64_t i, int words) {
    if (words == 1) return split(__ldg(p + i));
    return {__longlong_as_double(__ldg(p + 2 * i)), __longlong_as_double(__ldg(p + 2 * i + 1))};
  }
  static __device__ Z wait(const Word *p, int64_t i, int words) {
    if (words == 1) return split(wait_for(p + i));
    const Word m = wait_for(p + 2 * i), e = wait_for(p + 2 * i + 1);
    return {__longlong_as_double(m), __longlong_as_double(e)};
  }
  static __device__ Z shuffle(const Z &z, int lane) {
    return {__shfl_sync(all_lanes, z.m, lane), __shfl_sync(all_lanes, z.e, lane)};
  }
};

}  // namespace sdtw::cuda
