// DoubleCell: cells of two doubles, for float64 problems and for what FloatCell and LongCell leave of float32 problems.
#pragma once

#include "cuda/sweep/cell.cuh"

namespace sdtw::cuda {

// Its members mean what those of FloatCell do.
struct DoubleCell {
  using Real = double;
  static constexpr bool wide = true;
  static __device__ __forceinline__ constexpr int words(Format format) { return words_of(format); }
  static constexpr double forbidden_e = core::Exponent<double>::forbidden;
  struct Z {
    double m, e;
  };

  static __device__ __forceinline__ Z forbidden() { return {1, forbidden_e}; }
  static __device__ __forceinline__ Z one() { return {1, 0}; }

  static __device__ __forceinline__ double exponent(const Z &z) { return z.e; }
  static __device__ __forceinline__ Z select(bool first, const Z &a, const Z &b) {
    return {first ? a.m : b.m, first ? a.e : b.e};
  }

  static __device__ __forceinline__ double larger(double a, double b) { return a > b ? a : b; }

  static __device__ __forceinline__ double term(const Z &z, double x) {
    constexpr double round = 6755399441055744.0;     // 1.5 2^52: adding it leaves an integer in the low word
    constexpr int least = 1023;                      // the bits of 2^-1023 below are those of 0
    constexpr unsigned high_of_least = 0xc08ff800u;  // of -1023.0; a more negative number has a larger one
    const double difference = z.e - x;
    const int shift =
        static_cast<unsigned>(__double2hiint(difference)) > high_of_least ? -least : __double2loint(difference + round);
    return z.m * __hiloint2double((1023 + shift) << 20, 0);
  }

  struct Cost : Weight<double, double> {
    bool forbid;  // the cost is +infinity
  };
  struct Scale {
    double scale;
    __device__ __forceinline__ explicit Scale(double s) : scale(s) {}
  };
  static __device__ __forceinline__ Cost split(double cost, const Scale &scale) {
    constexpr double round = 6755399441055744.0;
    const double t = cost * scale.scale, nan = __longlong_as_double(0x7ff8000000000000ll);
    // NaN, -infinity and finite costs too large for an exponent make q, and so the pair, NaN.
    if (!(fabs(t) < core::largest_wide_cost)) return {{nan, 0}, cost == __longlong_as_double(0x7ff0000000000000ll)};
    // Adding `round` takes |t| below 2^51. Beyond 2^52 t has no fraction, and f is only what rounding took from t,
    // which is held to |f| <= 1/2.
    const double n = fabs(t) < 1e15 ? fma(cost, scale.scale, round) - round : rint(t);
    return {{exp2_minus_1(fmin(fmax(fma(cost, scale.scale, -n), -0.5), 0.5)), n}, false};
  }

  template <bool with_terms>
  static __device__ __forceinline__ Z next(const Cost &c, const Z &d, const Z &v, const Z &h,
                                           double (&p)[transitions]) {
    const double x = larger(larger(d.e, h.e), v.e);
    const double td = term(d, x), th = term(h, x), tv = term(v, x);
    const double s = td + th + tv;
    if constexpr (with_terms) p[diagonal] = td, p[vertical] = tv, p[horizontal] = th;
    if (c.forbid) return {fma(s, 0.0, 1.0), forbidden_e};  // m = 1, or NaN where s is NaN
    return {fma(s, c.q, s), x - c.n};
  }

  static __device__ __forceinline__ void renormalise(Z &z) {
    const int high = __double2hiint(z.m);
    const int shift = (high >> 20 & 0x7ff) - 1023;
    if (shift == 1024) return;  // NaN
    z.m = __hiloint2double(high - shift * (1 << 20), __double2loint(z.m));
    z.e += shift;
  }

  // Every NaN is stored as the positive quiet NaN, so that no word is all ones.
  static __device__ __forceinline__ Word pack(double v) {
    return v == v ? __double_as_longlong(v) : 0x7ff8000000000000ull;
  }
  static __device__ __forceinline__ Z unpack(Word first, Word second, Format format) {
    if (format == two_words) return {__longlong_as_double(first), __longlong_as_double(second)};
    const core::WideZ z = core::unpack(first);
    return {z.m, z.e};
  }
  static __device__ __forceinline__ void store(Word *p, int64_t i, Format format, Z z) {
    if (format == two_words) {
      store_relaxed(p + 2 * i, pack(z.m));
      store_relaxed(p + 2 * i + 1, pack(z.e));
    } else {
      store_relaxed(p + i, core::pack({z.m, z.e}));
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
