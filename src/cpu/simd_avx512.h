// Vectors of the AVX-512 kernels: 16 floats with int32 exponents, 8 doubles with exponents held in doubles.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "core/half.h"
#include "core/numbers.h"

namespace sdtw::cpu::avx512 {

template <class T>
struct Vec;

template <>
struct Vec<float> {
  using Scalar = float;
  using Real = __m512;
  using Exponent = __m512i;
  using ScalarExponent = int32_t;
  static constexpr int width = 16;
  // Steps of a block of costs, 4 rows by so many, that registers hold beside what is added to them.
  static constexpr int block_steps = 4;

  static Real load(const float *p) { return _mm512_loadu_ps(p); }
  static void store(float *p, Real a) { _mm512_storeu_ps(p, a); }
  static Real load(const core::Half *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
  }
  static void store(core::Half *p, Real a) {
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
  }
  static Real load(const core::BFloat16 *p) {
    const __m512i bits = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i *>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(bits, 16));
  }
  // The upper half of a float, to the nearest, ties to even; of NaN a NaN.
  static void store(core::BFloat16 *p, Real a) {
    const __m512i bits = _mm512_castps_si512(a),
                  odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i all = _mm512_mask_set1_epi32(rounded, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), 0x7fc00000);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(p), _mm512_cvtepi32_epi16(_mm512_srli_epi32(all, 16)));
  }
  static Real set1(float a) { return _mm512_set1_ps(a); }
  static Real add(Real a, Real b) { return _mm512_add_ps(a, b); }
  static Real sub(Real a, Real b) { return _mm512_sub_ps(a, b); }
  static Real mul(Real a, Real b) { return _mm512_mul_ps(a, b); }
  static Real div(Real a, Real b) { return _mm512_div_ps(a, b); }
  // 1 / a for a near 1, to 2^-23 or so: a division takes as long as most of a cell.
  static Real reciprocal(Real a) {
    const Real r = _mm512_rcp14_ps(a);
    return _mm512_fmadd_ps(_mm512_fnmadd_ps(a, r, set1(1)), r, r);
  }
  static Real larger(Real a, Real b) { return _mm512_max_ps(a, b); }
  // a where it is at least the bound, else 0; whether any lane is not 0; a where another number is positive, else 0.
  static Real at_least(Real a, float bound) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(a, _mm512_set1_ps(bound), _CMP_GE_OQ), a);
  }
  static bool any_nonzero(Real a) { return _mm512_cmp_ps_mask(a, _mm512_setzero_ps(), _CMP_NEQ_UQ) != 0; }
  static Real abs(Real a) { return _mm512_abs_ps(a); }
  static Real sqrt(Real a) { return _mm512_sqrt_ps(a); }
  static Real where_positive(Real of, Real a) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(of, _mm512_setzero_ps(), _CMP_GT_OQ), a);
  }
  // a times the sign of another number, which of 0 and NaN is 0.
  static Real with_sign(Real a, Real of) {
    const Real zero = _mm512_setzero_ps();
    const Real positive = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(of, zero, _CMP_GT_OQ), a);
    return _mm512_mask_sub_ps(positive, _mm512_cmp_ps_mask(of, zero, _CMP_LT_OQ), zero, a);
  }
  static Real fma(Real a, Real b, Real c) { return _mm512_fmadd_ps(a, b, c); }
  static Real fnma(Real a, Real b, Real c) { return _mm512_fnmadd_ps(a, b, c); }

  static Exponent load(const int32_t *p) { return _mm512_loadu_si512(p); }
  static void store(int32_t *p, Exponent a) { _mm512_storeu_si512(p, a); }
  static Real real_of(Exponent a) { return _mm512_cvtepi32_ps(a); }
  static Exponent sub(Exponent a, Exponent b) { return _mm512_sub_epi32(a, b); }
  static Exponent max(Exponent a, Exponent b) { return _mm512_max_epi32(a, b); }
  static Exponent whole(int32_t a) { return _mm512_set1_epi32(a); }

  // Lanes where first <= at < end, and what a is there; elsewhere b.
  using Mask = __mmask16;
  static Mask at_most(Real a, Real b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
  static Mask within(Exponent at, Exponent first, Exponent end) {
    return _mm512_mask_cmplt_epi32_mask(_mm512_cmpge_epi32_mask(at, first), at, end);
  }
  static Real where(Mask mask, Real a, Real b) { return _mm512_mask_mov_ps(b, mask, a); }
  static Exponent where(Mask mask, Exponent a, Exponent b) { return _mm512_mask_mov_epi32(b, mask, a); }

  // m 2^(e - x) for e <= x, nothing below 2^-126: a product with a power of two whose exponent bits are e - base(x).
  static Exponent base(Exponent x) { return _mm512_sub_epi32(x, _mm512_set1_epi32(127)); }
  static Real power(Exponent e, Exponent base) {
    const __m512i field = _mm512_max_epi32(_mm512_sub_epi32(e, base), _mm512_setzero_si512());
    return _mm512_castsi512_ps(_mm512_slli_epi32(field, 23));
  }
  static Real scale(Real m, Exponent e, Exponent base) { return mul(m, power(e, base)); }
  static Real add_scaled(Real sum, Real m, Exponent e, Exponent base) { return fma(m, power(e, base), sum); }

  struct Split {
    Exponent integer;
    Real fraction;
  };
  // cost * (scale + scale_low) = integer + fraction, |fraction| <= 1/2, exact but for two roundings of the fraction,
  // for |cost * scale| < 2^22.
  static Split split(Real cost, Real scale, Real scale_low) {
    const Real magic = _mm512_set1_ps(12582912.f);  // 1.5 * 2^23: adding it rounds to an integer in the low bits
    const Real rounded = _mm512_fmadd_ps(cost, scale, magic);
    const Exponent integer = _mm512_sub_epi32(_mm512_castps_si512(rounded), _mm512_castps_si512(magic));
    const Real fraction = _mm512_fmsub_ps(cost, scale, _mm512_sub_ps(rounded, magic));
    return {integer, _mm512_fmadd_ps(cost, scale_low, fraction)};
  }

  static void normalize(Real &m, Exponent &e) {
    const __m512i bits = _mm512_castps_si512(m);
    const __m512i k = _mm512_sub_epi32(_mm512_srli_epi32(bits, 23), _mm512_set1_epi32(127));
    m = _mm512_castsi512_ps(_mm512_sub_epi32(bits, _mm512_slli_epi32(k, 23)));
    e = _mm512_add_epi32(e, k);
  }

  // Lane l takes lane l - 1 (up) or l + 1 (down), cyclically.
  static Real rotate_up(Real a) { return _mm512_castsi512_ps(rotate_up(_mm512_castps_si512(a))); }
  static Real rotate_down(Real a) { return _mm512_castsi512_ps(rotate_down(_mm512_castps_si512(a))); }
  static Exponent rotate_up(Exponent a) { return _mm512_alignr_epi32(a, a, 15); }
  static Exponent rotate_down(Exponent a) { return _mm512_alignr_epi32(a, a, 1); }
  static Real insert_first(Real a, const float *p) { return _mm512_mask_blend_ps(1, a, _mm512_set1_ps(*p)); }
  static Exponent insert_first(Exponent a, const int32_t *p) { return _mm512_mask_set1_epi32(a, 1, *p); }
  static Real insert_last(Real a, const float *p) { return _mm512_mask_blend_ps(0x8000, a, _mm512_set1_ps(*p)); }
  static float first(Real a) { return _mm512_cvtss_f32(a); }
  static int32_t first(Exponent a) { return _mm512_cvtsi512_si32(a); }

  // Zero where the weight is 0: keeps 0 * infinity out of sums. Series are finite here, nothing to do.
  static Real where_live(Real, Real a) { return a; }

  // Largest |bits| seen so far: orders finite floats, infinities and NaN.
  using Watch = __m512i;
  static Watch watch_none() { return _mm512_setzero_si512(); }
  static Watch watch(Watch w, Real a, Real) {
    return _mm512_max_epi32(w, _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffffff)));
  }
  // 0: every |a| <= limit; 1: some are larger, infinite or NaN.
  static int verdict(Watch w, float limit) {
    return _mm512_reduce_max_epi32(w) > _mm_cvtsi128_si32(_mm_castps_si128(_mm_set_ss(limit)));
  }

  static void transpose(Real (&r)[16]) {
    __m512 t[16];
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
      t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
      r[i] = _mm512_shuffle_ps(t[i], t[i + 2], 0x44);
      r[i + 1] = _mm512_shuffle_ps(t[i], t[i + 2], 0xee);
      r[i + 2] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0x44);
      r[i + 3] = _mm512_shuffle_ps(t[i + 1], t[i + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
      t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
      t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
      t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 4; ++i) {
      r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
      r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
      r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
      r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
  }
};

template <>
struct Vec<double> {
  using Scalar = double;
  using Real = __m512d;
  using Exponent = __m512d;
  using ScalarExponent = double;
  static constexpr int width = 8, block_steps = 4;
  using Mask = __mmask8;

  static Real load(const double *p) { return _mm512_loadu_pd(p); }
  static Real load(const float *p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
  static void store(double *p, Real a) { _mm512_storeu_pd(p, a); }
  static void store(float *p, Real a) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(a)); }
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
  static Real set1(double a) { return _mm512_set1_pd(a); }
  static Real add(Real a, Real b) { return _mm512_add_pd(a, b); }
  static Real sub(Real a, Real b) { return _mm512_sub_pd(a, b); }
  static Real mul(Real a, Real b) { return _mm512_mul_pd(a, b); }
  static Real div(Real a, Real b) { return _mm512_div_pd(a, b); }
  static Real reciprocal(Real a) { return div(set1(1), a); }
  static Real larger(Real a, Real b) { return _mm512_max_pd(a, b); }
  static Real at_least(Real a, double bound) {
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a, _mm512_set1_pd(bound), _CMP_GE_OQ), a);
  }
  static bool any_nonzero(Real a) { return _mm512_cmp_pd_mask(a, _mm512_setzero_pd(), _CMP_NEQ_UQ) != 0; }
  static Real abs(Real a) { return _mm512_abs_pd(a); }
  // The rounded root, as of a square root instruction, which would take longer than all the rest of a cost: from an
  // estimate, by Newton's iteration for the root g and half its inverse h, and a last step that rounds (Markstein
  // 1990).
  static Real sqrt(Real a) {
    const Real half = set1(.5), y = _mm512_rsqrt14_pd(a);
    Real g = mul(a, y), h = mul(half, y);
    for (int i = 0; i < 2; ++i) {
      const Real r = fnma(g, h, half);
      g = fma(g, r, g), h = fma(h, r, h);
    }
    const Real root = fma(fnma(g, g, a), h, g);
    // Not of 0, infinities and NaN, nor where the residual would leave a double's range.
    const Mask fits =
        _mm512_mask_cmp_pd_mask(_mm512_cmp_pd_mask(a, set1(1e-270), _CMP_GE_OQ), a, set1(1e290), _CMP_LE_OQ);
    return __builtin_expect(fits == 0xff, 1) ? root : _mm512_sqrt_pd(a);
  }
  static Real where_positive(Real of, Real a) {
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(of, _mm512_setzero_pd(), _CMP_GT_OQ), a);
  }
  // a times the sign of another number, which of 0 and NaN is 0.
  static Real with_sign(Real a, Real of) {
    const Real zero = _mm512_setzero_pd();
    const Real positive = _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(of, zero, _CMP_GT_OQ), a);
    return _mm512_mask_sub_pd(positive, _mm512_cmp_pd_mask(of, zero, _CMP_LT_OQ), zero, a);
  }
  static Real fma(Real a, Real b, Real c) { return _mm512_fmadd_pd(a, b, c); }
  static Real fnma(Real a, Real b, Real c) { return _mm512_fnmadd_pd(a, b, c); }
  static Exponent max(Exponent a, Exponent b) { return _mm512_max_pd(a, b); }
  static Real smaller(Real a, Real b) { return _mm512_min_pd(a, b); }
  static Exponent whole(double a) { return set1(a); }

  static Mask at_most(Real a, Real b) { return _mm512_cmp_pd_mask(a, b, _CMP_LE_OQ); }
  static Mask within(Exponent at, Exponent first, Exponent end) {
    return _mm512_mask_cmp_pd_mask(at_most(first, at), at, end, _CMP_LT_OQ);
  }
  static Real where(Mask mask, Real a, Real b) { return _mm512_mask_mov_pd(b, mask, a); }
  static Exponent base(Exponent x) { return x; }
  static Real scale(Real m, Exponent e, Exponent base) { return _mm512_scalef_pd(m, _mm512_sub_pd(e, base)); }
  static Real add_scaled(Real sum, Real m, Exponent e, Exponent base) { return add(sum, scale(m, e, base)); }

  struct Split {
    Exponent integer;
    Real fraction;
  };
  // cost * scale = integer + fraction. Any cost: an infinite or NaN one counts as 1e300, and where the product has no
  // fractional bits left the fraction is clamped (its residual would be anything).
  static Split split(Real cost, Real scale, Real) {
    const Real t = _mm512_min_pd(_mm512_mul_pd(cost, scale), _mm512_set1_pd(1e300));
    const Real integer = _mm512_roundscale_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const Real rest = _mm512_fmsub_pd(cost, scale, integer);
    const Real half = _mm512_set1_pd(.5);
    return {integer, _mm512_max_pd(_mm512_min_pd(rest, half), _mm512_set1_pd(-.5))};
  }
  // t = n + f for the float engine, |t| < 2^31.
  static void store_split(Real t, int32_t *n, float *f) {
    const Real integer = _mm512_roundscale_pd(t, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(n), _mm512_cvtpd_epi32(integer));
    _mm256_storeu_ps(f, _mm512_cvtpd_ps(_mm512_sub_pd(t, integer)));
  }
  static void normalize(Real &m, Exponent &e) {
    e = _mm512_add_pd(e, _mm512_getexp_pd(m));
    m = _mm512_getmant_pd(m, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_zero);
  }

  static Real rotate_up(Real a) {
    const __m512i i = _mm512_castpd_si512(a);
    return _mm512_castsi512_pd(_mm512_alignr_epi64(i, i, 7));
  }
  static Real rotate_down(Real a) {
    const __m512i i = _mm512_castpd_si512(a);
    return _mm512_castsi512_pd(_mm512_alignr_epi64(i, i, 1));
  }
  static Real insert_first(Real a, const double *p) { return _mm512_mask_blend_pd(1, a, _mm512_set1_pd(*p)); }
  static Real insert_last(Real a, const double *p) { return _mm512_mask_blend_pd(0x80, a, _mm512_set1_pd(*p)); }
  static double first(Real a) { return _mm512_cvtsd_f64(a); }

  static Real where_live(Real weight, Real a) {
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(weight, _mm512_setzero_pd(), _CMP_NEQ_UQ), a);
  }

  // Whether a NaN or -infinity was seen; anything else the arithmetic takes.
  using Watch = __mmask8;
  static Watch watch_none() { return 0; }
  static Watch watch(Watch w, Real a, Real limit) {
    return w | _mm512_cmp_pd_mask(_mm512_abs_pd(a), limit, _CMP_NLT_UQ);
  }
  // a, but 0 for +infinity.
  static Real unless_infinite(Real a) {
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a, _mm512_set1_pd(__builtin_inf()), _CMP_NEQ_UQ), a);
  }
  // 0: every |a| < limit.
  static int verdict(Watch w, double) { return w != 0; }

  static void transpose(Real (&r)[8]) {
    __m512d t[8];
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm512_unpacklo_pd(r[i], r[i + 1]);
      t[i + 1] = _mm512_unpackhi_pd(r[i], r[i + 1]);
    }
    for (int i = 0; i < 2; ++i)
      for (int h = 0; h < 8; h += 4) {
        r[h + i] = _mm512_shuffle_f64x2(t[h + i], t[h + i + 2], 0x88);
        r[h + i + 2] = _mm512_shuffle_f64x2(t[h + i], t[h + i + 2], 0xdd);
      }
    for (int i = 0; i < 2; ++i) {
      t[i] = _mm512_shuffle_f64x2(r[i], r[i + 4], 0x88);
      t[i + 4] = _mm512_shuffle_f64x2(r[i], r[i + 4], 0xdd);
      t[i + 2] = _mm512_shuffle_f64x2(r[i + 2], r[i + 6], 0x88);
      t[i + 6] = _mm512_shuffle_f64x2(r[i + 2], r[i + 6], 0xdd);
    }
    for (int i = 0; i < 8; ++i) r[i] = t[i];
  }
};

}  // namespace sdtw::cpu::avx512
