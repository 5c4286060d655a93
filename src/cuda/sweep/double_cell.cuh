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
  // z, which may be NaN, or a forbidden cell.
  static __device__ __forceinline__ Z unless(bool forbid, const Z &z) { return select(forbid, forbidden(), z); }

  static __device__ __forceinline__ double larger(double a, double b) { return a > b ? a : b; }

  // 2^(z.e - x), of which x is the largest exponent; 0, or a number that is as good as 0, where it is below 2^-1021.
  // 1.5 2^32 has room for 20 bits of a fraction, so that the low word of the sum is the high word of the result.
  static __device__ __forceinline__ double power(const Z &z, double x) {
    constexpr double place = 1.5 * 4294967296.0 + 1023;
    constexpr unsigned high_of_least = 0xc08ff000u;  // of -1022.0; a more negative number has a larger one
    const double difference = z.e - x;
    const unsigned high = min(static_cast<unsigned>(__double2hiint(difference)), high_of_least);
    return __hiloint2double(
        __double2loint(__hiloint2double(static_cast<int>(high), __double2loint(difference)) + place), 0);
  }

  static __device__ __forceinline__ double term(const Z &z, double x) { return z.m * power(z, x); }

  using Cost = Weight<double, double>;
  struct Scale {
    double scale;
    __device__ __forceinline__ explicit Scale(double s) : scale(s) {}
  };
  // t = D log2(e) / gamma such that `split` needs no exceptions. +infinity is what takes an exponent to that of
  // forbidden cells, or beyond. NaN, -infinity and finite costs too large for an exponent are NaN, and so is the pair
  // then. From 2^51 on, where t has hardly a fraction any more, its last two bits are left out.
  static __device__ __forceinline__ double prepare(double cost, const Scale &scale) {
    const double t = cost * scale.scale;
    const double whole = __hiloint2double(__double2hiint(t), __double2loint(t) & ~3);
    const double other =
        cost == __longlong_as_double(0x7ff0000000000000ll) ? -forbidden_e : __longlong_as_double(0x7ff8000000000000ll);
    return fabs(t) < 0x1p51 ? t : fabs(t) < core::largest_wide_cost ? whole : other;
  }
  static __device__ __forceinline__ Cost split(double t) {
    constexpr double round = 6755399441055744.0;  // 1.5 2^52: adding it rounds to an integer, exactly from 2^51 on
    const double n = (t + round) - round;
    return {exp2_minus_1(t - n), n};
  }
  static __device__ __forceinline__ Cost split(double cost, const Scale &scale) { return split(prepare(cost, scale)); }

  // The vertical neighbour is the last to be known. Multiplying by a power of two is exact, so that the sum has the
  // same bits with and without terms.
  template <bool with_terms>
  static __device__ __forceinline__ Z next(const Cost &c, const Z &d, const Z &v, const Z &h,
                                           double (&p)[transitions]) {
    const double x = larger(larger(d.e, h.e), v.e);
    const double td = d.m * power(d, x), th = h.m * power(h, x), of_v = power(v, x);
    if constexpr (with_terms) p[diagonal] = td, p[vertical] = v.m * of_v, p[horizontal] = th;
    const double s = fma(v.m, of_v, td + th);
    return {fma(s, c.q, s), x - c.n};
  }

  // Also brings the exponent of a forbidden cell back to where it was before further costs of +infinity.
  static __device__ __forceinline__ void renormalise(Z &z) {
    const int high = __double2hiint(z.m), exponent = high >> 20 & 0x7ff;
    const int shift = exponent == 0x7ff ? 0 : exponent - 1023;  // of NaN none
    z.m = __hiloint2double(high - shift * (1 << 20), __double2loint(z.m));
    z.e = larger(z.e + shift, forbidden_e);
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
