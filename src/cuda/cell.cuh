// The cell: Z = exp(-R / gamma) = m 2^e. Fast has a float and an integer, Exact a double and an integer, Wide a double
// and an integer-valued double.
//
// With t = D log2(e) / gamma = n + f, n the nearest integer, one step of the recursion of sdtw.h is
//   x = max(e_diagonal, e_vertical, e_horizontal),  s = sum m_k 2^(e_k - x),  m = s 2^-f,  e = x - n,
// and the probability that a path to the cell came from neighbour k is m_k 2^(e_k - x) / s. Exponents are exact, so
// no error builds up along a path but that of m. Forbidden cells have a very negative exponent.
#pragma once

#include "core/numbers.h"
#include "memory.cuh"

namespace sdtw::cuda {

// Of a stored Z.
__device__ __forceinline__ constexpr int words_of(Format format) { return format == two_words ? 2 : 1; }

// p[0..2]: the way into a cell that a path took, as in sdtw_problem.step_weight.
enum { diagonal = 0, vertical = 1, horizontal = 2, ways = 3 };

__device__ __forceinline__ float reciprocal(float s) {
  float r;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(s));
  return fmaf(fmaf(-s, r, 1.0f), r, r);
}
__device__ __forceinline__ double reciprocal(double s) { return 1 / s; }

// 2^-f by the polynomial of core/numbers.h. The hardware's ex2 is off by as much as 2^-22, and by the same where costs
// are the same.
template <class Real, int k = 0>
__device__ __forceinline__ Real exp2_minus_tail(Real f) {
  using Poly = core::Exp2Minus<Real>;
  constexpr Real c = Poly::c[k];
  if constexpr (k == Poly::degree - 1)
    return c;
  else
    return fma(f, exp2_minus_tail<Real, k + 1>(f), c);
}
template <class Real>
__device__ __forceinline__ Real exp2_minus(Real f) {
  return fma(f, exp2_minus_tail<Real>(f), Real(1));
}

// Adding it to a double leaves a multiple of 2^-32 in the low bits: its fraction in the low word, its integer part in
// the high one, which is that of `fixed_point` where the sum is 0. The half makes the nearest integer of the integer
// part; the rest is half a unit of the 23 bits of the fraction that a float takes.
constexpr double fixed_point = 1572864.0 + 0.5 + 0x1p-24;  // 1.5 2^20
constexpr int fixed_point_high = 0x41380000;

// t = n + f of a cost, |f| <= 1/2, as a cell needs it: w = 2^-f.
template <class Real, class Integer>
struct Weight {
  Real w;
  Integer n;
};

// fraction: of t + 1/2, in units of 2^-32.
__device__ __forceinline__ float centred(unsigned fraction) {
  return __uint_as_float(__funnelshift_r(fraction, 0x7f, 9)) - 1.5f;
}

struct Fast {
  using Real = float;
  using Cost = Weight<float, int>;
  static constexpr bool wide = false;
  static __device__ __forceinline__ constexpr int words(Format) { return 1; }
  struct Z {
    float m;
    int e;
  };

  static __device__ __forceinline__ Z forbidden() { return {1, core::Exponent<float>::forbidden}; }
  static __device__ __forceinline__ Z one() { return {1, 0}; }

  // m 2^(e - x), or m 2^-100 if that is less. Between two renormalisations, 8 steps of 4 rows, m stays within 2^-17 and
  // 2^30: so the result is no denormal, and what is made larger here adds less than 2^-50 to a sum.
  static __device__ __forceinline__ float term(const Z &z, int x) {
    const int shift = __viaddmax_s32(z.e, -x, -100);
    return __int_as_float(__float_as_int(z.m) + (shift << 23));
  }

  // sum: fixed_point + t.
  static __device__ __forceinline__ Cost split_fixed(double sum) {
    return {exp2_minus(centred(__double2loint(sum))), __double2hiint(sum) - fixed_point_high};
  }
  // t + 1/2 in units of 2^-bits, 1 <= bits <= 31.
  static __device__ __forceinline__ Cost split_word(int word, int bits) {
    return {exp2_minus(centred(static_cast<unsigned>(word) << (32 - bits))), word >> bits};
  }

  // Of given costs. log2(e) / gamma is the sum of two floats: were it rounded to one, the value would be off by
  // 2^-25 <E, D>, which may be far more than it is.
  struct Scale {
    float high, low;
    __device__ __forceinline__ explicit Scale(double scale)
        : high(static_cast<float>(scale)), low(static_cast<float>(scale - static_cast<double>(high))) {}
  };
  static __device__ __forceinline__ Cost split(float cost, const Scale &scale) {
    constexpr float round = 12582912.0f;  // 1.5 2^23: adding it rounds to an integer, in the low bits of the sum
    const float r = fmaf(cost, scale.high, round);
    const float f = fmaf(cost, scale.low, fmaf(cost, scale.high, -(r - round)));
    return {exp2_minus(f), __float_as_int(r) - __float_as_int(round)};
  }

  // The next cell from its cost and its neighbours, and the three terms of its sum.
  static __device__ __forceinline__ Z next(const Cost &cost, const Z &d, const Z &v, const Z &h, float (&p)[ways]) {
    const int x = __vimax3_s32(d.e, h.e, v.e);
    const float td = term(d, x), th = term(h, x), tv = term(v, x);
    p[diagonal] = td, p[vertical] = tv, p[horizontal] = th;
    return {fmaf(tv, cost.w, (td + th) * cost.w), x - cost.n};
  }

  static __device__ __forceinline__ void renormalise(Z &z) {
    const int shift = (__float_as_int(z.m) >> 23) - 127;
    z.m = __int_as_float(__float_as_int(z.m) - (shift << 23));
    z.e += shift;
  }

  // m is positive, so a word with its sign bit cleared is never all ones.
  static __device__ __forceinline__ Word pack(const Z &z) {
    return static_cast<Word>(static_cast<unsigned>(z.e)) << 32 | (__float_as_uint(z.m) & 0x7fffffffu);
  }
  static __device__ __forceinline__ Z unpack(Word word) {
    return {__uint_as_float(static_cast<unsigned>(word)), static_cast<int>(word >> 32)};
  }
  static __device__ __forceinline__ Z unpack(Word word, Word, Format) { return unpack(word); }
  static __device__ __forceinline__ void store(Word *p, int64_t i, Format, const Z &z) {
    store_relaxed(p + i, pack(z));
  }
  static __device__ __forceinline__ Z load(const Word *p, int64_t i, Format) { return unpack(__ldg(p + i)); }
  static __device__ __forceinline__ Z load_own(const Word *p, int64_t i, Format) { return unpack(__ldcg(p + i)); }
  static __device__ __forceinline__ Z shuffle(const Z &z, int lane) {
    return {__shfl_sync(all_lanes, z.m, lane), __shfl_sync(all_lanes, z.e, lane)};
  }
};

// Fast with seven more digits, for values that float32 cells do not give precisely enough. The rows that it hands from
// strip to strip have the digits of Fast, whose place they take.
struct Exact {
  using Real = double;
  using Cost = Weight<double, int>;
  static constexpr bool wide = false;
  static __device__ __forceinline__ constexpr int words(Format) { return 1; }
  struct Z {
    double m;
    int e;
  };

  static __device__ __forceinline__ Z forbidden() { return {1, core::Exponent<float>::forbidden}; }
  static __device__ __forceinline__ Z one() { return {1, 0}; }

  static __device__ __forceinline__ double term(const Z &z, int x) {
    const int shift = __viaddmax_s32(z.e, -x, -600);
    return __hiloint2double(__double2hiint(z.m) + (shift << 20), __double2loint(z.m));
  }

  static __device__ __forceinline__ Cost split(double t) {
    constexpr double round = 6755399441055744.0;  // 1.5 2^52
    const double r = t + round;
    return {exp2_minus(t - (r - round)), __double2loint(r)};
  }

  static __device__ __forceinline__ Z next(const Cost &cost, const Z &d, const Z &v, const Z &h, double (&)[ways]) {
    const int x = __vimax3_s32(d.e, h.e, v.e);
    return {fma(term(v, x), cost.w, (term(d, x) + term(h, x)) * cost.w), x - cost.n};
  }

  static __device__ __forceinline__ void renormalise(Z &z) {
    const int shift = (__double2hiint(z.m) >> 20) - 1023;
    z.m = __hiloint2double(__double2hiint(z.m) - (shift << 20), __double2loint(z.m));
    z.e += shift;
  }

  static __device__ __forceinline__ void store(Word *p, int64_t i, Format, Z z) {
    renormalise(z);
    store_relaxed(p + i, Fast::pack({static_cast<float>(z.m), z.e}));
  }
  static __device__ __forceinline__ Z unpack(Word word, Word, Format) {
    const Fast::Z z = Fast::unpack(word);
    return {z.m, z.e};
  }
  static __device__ __forceinline__ Z shuffle(const Z &z, int lane) {
    return {__shfl_sync(all_lanes, z.m, lane), __shfl_sync(all_lanes, z.e, lane)};
  }
};

struct Wide {
  using Real = double;
  static constexpr bool wide = true;
  static __device__ __forceinline__ constexpr int words(Format format) { return words_of(format); }
  static constexpr double forbidden_e = core::Exponent<double>::forbidden;
  struct Z {
    double m, e;
  };

  static __device__ __forceinline__ Z forbidden() { return {1, forbidden_e}; }
  static __device__ __forceinline__ Z one() { return {1, 0}; }

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

  struct Cost : Weight<double, double> {
    bool forbid;
  };
  struct Scale {
    double scale;
    __device__ __forceinline__ explicit Scale(double s) : scale(s) {}
  };
  static __device__ __forceinline__ Cost split(double cost, const Scale &scale) {
    constexpr double round = 6755399441055744.0;
    const double t = cost * scale.scale, nan = __longlong_as_double(0x7ff8000000000000ll);
    if (!(fabs(t) < 1e290)) return {{nan, 0}, t > 0};  // NaN and -infinity lead to NaN
    // Beyond 2^52 there may be no fraction.
    const double n = fabs(t) < 1e15 ? fma(cost, scale.scale, round) - round : rint(t);
    return {{exp2_minus(fmin(fmax(fma(cost, scale.scale, -n), -0.5), 0.5)), n}, false};
  }

  static __device__ __forceinline__ Z next(const Cost &c, const Z &d, const Z &v, const Z &h, double (&p)[ways]) {
    const double x = larger(larger(d.e, h.e), v.e);
    const double td = term(d, x), th = term(h, x), tv = term(v, x);
    const double s = td + th + tv;
    p[diagonal] = td, p[vertical] = tv, p[horizontal] = th;
    if (c.forbid) return {fma(s, 0.0, 1.0), forbidden_e};  // a NaN stays one
    return {s * c.w, x - c.n};
  }

  static __device__ __forceinline__ void renormalise(Z &z) {
    const int high = __double2hiint(z.m);
    const int shift = (high >> 20 & 0x7ff) - 1023;
    if (shift == 1024) return;  // NaN
    z.m = __hiloint2double(high - (shift << 20), __double2loint(z.m));
    z.e += shift;
  }

  // A NaN is written as the positive quiet one.
  static __device__ __forceinline__ Word pack(double v) {
    return v == v ? __double_as_longlong(v) : 0x7ff8000000000000ull;
  }
  static __device__ __forceinline__ Z unpack(Word first, Word second, Format format) {
    if (format == two_words) return {__longlong_as_double(first), __longlong_as_double(second)};
    if (format == compact) {
      const Fast::Z z = Fast::unpack(first);
      return {z.m, static_cast<double>(z.e)};
    }
    const double v = __longlong_as_double(first), e = floor(v);
    return v == v ? Z{exp2(v - e), e} : Z{v, 0};
  }
  static __device__ __forceinline__ void store(Word *p, int64_t i, Format format, Z z) {
    if (format == two_words) {
      store_relaxed(p + 2 * i, pack(z.m));
      store_relaxed(p + 2 * i + 1, pack(z.e));
    } else if (format == logarithm) {
      store_relaxed(p + i, pack(z.e + log2(z.m)));
    } else {
      renormalise(z);
      store_relaxed(p + i, Fast::pack({static_cast<float>(z.m), __double2int_rz(z.e)}));
    }
  }
  static __device__ __forceinline__ Z load_own(const Word *p, int64_t i, Format format) {
    return format == two_words ? unpack(__ldcg(p + 2 * i), __ldcg(p + 2 * i + 1), format)
                               : unpack(__ldcg(p + i), 0, format);
  }
  static __device__ __forceinline__ Z load(const Word *p, int64_t i, Format format) {
    return format == two_words ? unpack(__ldg(p + 2 * i), __ldg(p + 2 * i + 1), format)
                               : unpack(__ldg(p + i), 0, format);
  }
  static __device__ __forceinline__ Z shuffle(const Z &z, int lane) {
    return {__shfl_sync(all_lanes, z.m, lane), __shfl_sync(all_lanes, z.e, lane)};
  }
};

}  // namespace sdtw::cuda
