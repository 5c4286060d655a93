// Vectors of the AVX2 + FMA kernels: 8 floats with int32 exponents, 4 doubles with exponents held in doubles.
// simd_avx512.h documents the operations.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "core/half.h"
#include "core/numbers.h"

namespace sdtw::cpu::avx2 {

template <class T>
struct Vec;

template <>
struct Vec<float> {
  using Scalar = float;
  using Real = __m256;
  using Exponent = __m256i;
  using ScalarExponent = int32_t;
  static constexpr int width = 8, block_steps = 3;

  static Real load(const float *p) { return _mm256_loadu_ps(p); }
  static void store(float *p, Real a) { _mm256_storeu_ps(p, a); }
  static Real load(const core::Half *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
  }
  static void store(core::Half *p, Real a) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
  }
  static Real load(const core::BFloat16 *p) {
    const __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(p)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
  }
  static void store(core::BFloat16 *p, Real a) {
    const __m256i bits = _mm256_castps_si256(a),
                  odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), of = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    const __m256i all = _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(rounded), nan, of));
    const __m256i high = _mm256_srli_epi32(all, 16);
    const __m128i both = _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(p), both);
  }
  static Real set1(float a) { return _mm256_set1_ps(a); }
  static Real add(Real a, Real b) { return _mm256_add_ps(a, b); }
  static Real sub(Real a, Real b) { return _mm256_sub_ps(a, b); }
  static Real mul(Real a, Real b) { return _mm256_mul_ps(a, b); }
  static Real div(Real a, Real b) { return _mm256_div_ps(a, b); }
  static Real reciprocal(Real a) { return div(set1(1), a); }
  static Real larger(Real a, Real b) { return _mm256_max_ps(a, b); }
  static Real at_least(Real a, float bound) {
    return _mm256_and_ps(_mm256_cmp_ps(a, _mm256_set1_ps(bound), _CMP_GE_OQ), a);
  }
  static bool any_nonzero(Real a) {
    return _mm256_movemask_ps(_mm256_cmp_ps(a, _mm256_setzero_ps(), _CMP_NEQ_UQ)) != 0;
  }
  static Real abs(Real a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.), a); }
  static Real sqrt(Real a) { return _mm256_sqrt_ps(a); }
  static Real where_positive(Real of, Real a) {
    return _mm256_and_ps(_mm256_cmp_ps(of, _mm256_setzero_ps(), _CMP_GT_OQ), a);
  }
  static Real with_sign(Real a, Real of) {
    const Real sign = _mm256_and_ps(of, _mm256_set1_ps(-0.));
    return _mm256_and_ps(_mm256_cmp_ps(of, _mm256_setzero_ps(), _CMP_NEQ_OQ), _mm256_xor_ps(a, sign));
  }
  static Real fma(Real a, Real b, Real c) { return _mm256_fmadd_ps(a, b, c); }
  static Real fnma(Real a, Real b, Real c) { return _mm256_fnmadd_ps(a, b, c); }

  static Exponent load(const int32_t *p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)); }
  static void store(int32_t *p, Exponent a) { _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), a); }
  static Exponent sub(Exponent a, Exponent b) { return _mm256_sub_epi32(a, b); }
  static Real real_of(Exponent a) { return _mm256_cvtepi32_ps(a); }
  static Exponent max(Exponent a, Exponent b) { return _mm256_max_epi32(a, b); }
  static Exponent whole(int32_t a) { return _mm256_set1_epi32(a); }

  using Mask = __m256i;
  static Mask at_most(Real a, Real b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LE_OQ)); }
  static Mask within(Exponent at, Exponent first, Exponent end) {
    return _mm256_andnot_si256(_mm256_cmpgt_epi32(first, at), _mm256_cmpgt_epi32(end, at));
  }
  static Real where(Mask mask, Real a, Real b) { return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(mask)); }
  static Exponent where(Mask mask, Exponent a, Exponent b) { return _mm256_blendv_epi8(b, a, mask); }

  static Exponent base(Exponent x) { return _mm256_sub_epi32(x, _mm256_set1_epi32(127)); }
  static Real power(Exponent e, Exponent base) {
    const __m256i field = _mm256_max_epi32(_mm256_sub_epi32(e, base), _mm256_setzero_si256());
    return _mm256_castsi256_ps(_mm256_slli_epi32(field, 23));
  }
  static Real scale(Real m, Exponent e, Exponent base) { return mul(m, power(e, base)); }
  static Real add_scaled(Real sum, Real m, Exponent e, Exponent base) { return fma(m, power(e, base), sum); }

  struct Split {
    Exponent integer;
    Real fraction;
  };
  static Split split(Real cost, Real scale, Real scale_low) {
    const Real magic = _mm256_set1_ps(12582912.f);
    const Real rounded = _mm256_fmadd_ps(cost, scale, magic);
    const Exponent integer = _mm256_sub_epi32(_mm256_castps_si256(rounded), _mm256_castps_si256(magic));
    const Real fraction = _mm256_fmsub_ps(cost, scale, _mm256_sub_ps(rounded, magic));
    return {integer, _mm256_fmadd_ps(cost, scale_low, fraction)};
  }

  static void normalize(Real &m, Exponent &e) {
    const __m256i bits = _mm256_castps_si256(m);
    const __m256i k = _mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(127));
    m = _mm256_castsi256_ps(_mm256_sub_epi32(bits, _mm256_slli_epi32(k, 23)));
    e = _mm256_add_epi32(e, k);
  }

  static Real rotate_up(Real a) { return _mm256_permutevar8x32_ps(a, _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6)); }
  static Real rotate_down(Real a) { return _mm256_permutevar8x32_ps(a, _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 0)); }
  static Exponent rotate_up(Exponent a) {
    return _mm256_permutevar8x32_epi32(a, _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6));
  }
  static Real insert_first(Real a, const float *p) { return _mm256_blend_ps(a, _mm256_broadcast_ss(p), 0x01); }
  static Exponent insert_first(Exponent a, const int32_t *p) {
    return _mm256_blend_epi32(a, _mm256_set1_epi32(*p), 0x01);
  }
  static Real insert_last(Real a, const float *p) { return _mm256_blend_ps(a, _mm256_broadcast_ss(p), 0x80); }
  static float first(Real a) { return _mm256_cvtss_f32(a); }
  static int32_t first(Exponent a) { return _mm256_cvtsi256_si32(a); }

  static Real where_live(Real, Real a) { return a; }

  using Watch = __m256i;
  static Watch watch_none() { return _mm256_setzero_si256(); }
  static Watch watch(Watch w, Real a, Real) {
    return _mm256_max_epi32(w, _mm256_and_si256(_mm256_castps_si256(a), _mm256_set1_epi32(0x7fffffff)));
  }
  static int verdict(Watch w, float limit) {
    const __m256i bound = _mm256_castps_si256(_mm256_set1_ps(limit));
    return _mm256_movemask_epi8(_mm256_cmpgt_epi32(w, bound)) != 0;
  }

  static void transpose(Real (&r)[8]) {
    __m256 t[8];
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4) {
      r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44);
      r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
      r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
      t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    for (int i = 0; i < 8; ++i) r[i] = t[i];
  }
};

template <>
struct Vec<double> {
  using Scalar = double;
  using Real = __m256d;
  using Exponent = __m256d;
  using ScalarExponent = double;
  static constexpr int width = 4, block_steps = 3;

  static Real load(const double *p) { return _mm256_loadu_pd(p); }
  static Real load(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
  static void store(double *p, Real a) { _mm256_storeu_pd(p, a); }
  static void store(float *p, Real a) { _mm_storeu_ps(p, _mm256_cvtpd_ps(a)); }
  template <class Short>
  static Real load_short(const Short *p) {
    float some[width];
    for (int l = 0; l < width; ++l) some[l] = p[l];
    return load(some);
  }
  template <class Short>
  static void store_short(Short *p, Real a) {
    float some[width];
    store(some, a);
    for (int l = 0; l < width; ++l) p[l] = Short(some[l]);
  }
  static Real load(const core::Half *p) { return load_short(p); }
  static Real load(const core::BFloat16 *p) { return load_short(p); }
  static void store(core::Half *p, Real a) { store_short(p, a); }
  static void store(core::BFloat16 *p, Real a) { store_short(p, a); }
  static Real set1(double a) { return _mm256_set1_pd(a); }
  static Real add(Real a, Real b) { return _mm256_add_pd(a, b); }
  static Real sub(Real a, Real b) { return _mm256_sub_pd(a, b); }
  static Real mul(Real a, Real b) { return _mm256_mul_pd(a, b); }
  static Real div(Real a, Real b) { return _mm256_div_pd(a, b); }
  static Real reciprocal(Real a) { return div(set1(1), a); }
  static Real larger(Real a, Real b) { return _mm256_max_pd(a, b); }
  static Real at_least(Real a, double bound) {
    return _mm256_and_pd(_mm256_cmp_pd(a, _mm256_set1_pd(bound), _CMP_GE_OQ), a);
  }
  static bool any_nonzero(Real a) {
    return _mm256_movemask_pd(_mm256_cmp_pd(a, _mm256_setzero_pd(), _CMP_NEQ_UQ)) != 0;
  }
  static Real abs(Real a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.), a); }
  static Real sqrt(Real a) { return _mm256_sqrt_pd(a); }
  static Real where_positive(Real of, Real a) {
    return _mm256_and_pd(_mm256_cmp_pd(of, _mm256_setzero_pd(), _CMP_GT_OQ), a);
  }
  static Real with_sign(Real a, Real of) {
    const Real sign = _mm256_and_pd(of, _mm256_set1_pd(-0.));
    return _mm256_and_pd(_mm256_cmp_pd(of, _mm256_setzero_pd(), _CMP_NEQ_OQ), _mm256_xor_pd(a, sign));
  }
  static Real fma(Real a, Real b, Real c) { return _mm256_fmadd_pd(a, b, c); }
  static Real fnma(Real a, Real b, Real c) { return _mm256_fnmadd_pd(a, b, c); }
  static Exponent max(Exponent a, Exponent b) { return _mm256_max_pd(a, b); }
  static Real smaller(Real a, Real b) { return _mm256_min_pd(a, b); }
  static Exponent whole(double a) { return set1(a); }

  using Mask = __m256d;
  static Mask at_most(Real a, Real b) { return _mm256_cmp_pd(a, b, _CMP_LE_OQ); }
  static Mask within(Exponent at, Exponent first, Exponent end) {
    return _mm256_and_pd(at_most(first, at), _mm256_cmp_pd(at, end, _CMP_LT_OQ));
  }
  static Real where(Mask mask, Real a, Real b) { return _mm256_blendv_pd(b, a, mask); }

  // The bias is added to the difference: x may be so large that it would be lost. 2^52 brings the sum into the low
  // bits, from where it is shifted to those of the exponent.
  static Exponent base(Exponent x) { return x; }
  static Real power(Exponent e, Exponent base) {
    const __m256d difference = _mm256_max_pd(_mm256_sub_pd(e, base), _mm256_set1_pd(-1023));
    const __m256i bits = _mm256_castpd_si256(_mm256_add_pd(difference, _mm256_set1_pd(4503599627370496. + 1023)));
    return _mm256_castsi256_pd(_mm256_slli_epi64(bits, 52));
  }
  static Real scale(Real m, Exponent e, Exponent base) { return mul(m, power(e, base)); }
  static Real add_scaled(Real sum, Real m, Exponent e, Exponent base) { return fma(m, power(e, base), sum); }

  struct Split {
    Exponent integer;
    Real fraction;
  };
  static Split split(Real cost, Real scale, Real) {
    const Real t = _mm256_min_pd(_mm256_mul_pd(cost, scale), _mm256_set1_pd(1e300));
    const Real integer = _mm256_round_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const Real rest = _mm256_fmsub_pd(cost, scale, integer);
    return {integer, _mm256_max_pd(_mm256_min_pd(rest, _mm256_set1_pd(.5)), _mm256_set1_pd(-.5))};
  }
  static void store_split(Real t, int32_t *n, float *f) {
    const Real integer = _mm256_round_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i *>(n), _mm256_cvtpd_epi32(integer));
    _mm_storeu_ps(f, _mm256_cvtpd_ps(_mm256_sub_pd(t, integer)));
  }

  static void normalize(Real &m, Exponent &e) {
    const __m256i bits = _mm256_castpd_si256(m);
    const __m256i field = _mm256_srli_epi64(bits, 52);
    // An exponent field put into the low bits of 2^52 is 2^52 + field.
    const __m256d biased = _mm256_castsi256_pd(_mm256_or_si256(field, _mm256_set1_epi64x(0x4330000000000000)));
    e = _mm256_add_pd(e, _mm256_sub_pd(biased, _mm256_set1_pd(4503599627370496. + 1023)));
    const __m256i mantissa = _mm256_and_si256(bits, _mm256_set1_epi64x(0x000fffffffffffff));
    m = _mm256_castsi256_pd(_mm256_or_si256(mantissa, _mm256_set1_epi64x(0x3ff0000000000000)));
  }

  static Real rotate_up(Real a) { return _mm256_permute4x64_pd(a, 0x93); }
  static Real rotate_down(Real a) { return _mm256_permute4x64_pd(a, 0x39); }
  static Real insert_first(Real a, const double *p) { return _mm256_blend_pd(a, _mm256_broadcast_sd(p), 0x1); }
  static Real insert_last(Real a, const double *p) { return _mm256_blend_pd(a, _mm256_broadcast_sd(p), 0x8); }
  static double first(Real a) { return _mm256_cvtsd_f64(a); }

  static Real where_live(Real weight, Real a) {
    return _mm256_and_pd(_mm256_cmp_pd(weight, _mm256_setzero_pd(), _CMP_NEQ_UQ), a);
  }

  using Watch = __m256d;
  static Watch watch_none() { return _mm256_setzero_pd(); }
  static Watch watch(Watch w, Real a, Real limit) {
    return _mm256_or_pd(w, _mm256_cmp_pd(_mm256_andnot_pd(_mm256_set1_pd(-0.), a), limit, _CMP_NLT_UQ));
  }
  static Real unless_infinite(Real a) {
    return _mm256_and_pd(a, _mm256_cmp_pd(a, _mm256_set1_pd(__builtin_inf()), _CMP_NEQ_UQ));
  }
  static int verdict(Watch w, double) { return _mm256_movemask_pd(w) != 0; }

  static void transpose(Real (&r)[4]) {
    const __m256d a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
    const __m256d c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(a, c, 0x20);
    r[1] = _mm256_permute2f128_pd(b, d, 0x20);
    r[2] = _mm256_permute2f128_pd(a, c, 0x31);
    r[3] = _mm256_permute2f128_pd(b, d, 0x31);
  }
};

}  // namespace sdtw::cpu::avx2
