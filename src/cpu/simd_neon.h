// Vectors of the AArch64 kernels: 8 floats with int32 exponents, 4 doubles with exponents held in doubles, each in two
// registers. simd_avx512.h documents the operations, which round as they do there.
#pragma once

#include <arm_neon.h>

#include <cstdint>

#include "core/half.h"
#include "core/numbers.h"
#include "cpu/simd_parts.h"

namespace sdtw::cpu::neon {

// Four floats of any type that inputs may have.
SDTW_INLINE float32x4_t load_four(const float *p) { return load_register<float32x4_t>(p); }
SDTW_INLINE void store_four(float *p, float32x4_t a) { store_register(p, a); }
SDTW_INLINE float32x4_t load_four(const core::Half *p) {
  return vcvt_f32_f16(vreinterpret_f16_u16(load_register<uint16x4_t>(p)));
}
SDTW_INLINE void store_four(core::Half *p, float32x4_t a) { store_register(p, vreinterpret_u16_f16(vcvt_f16_f32(a))); }
SDTW_INLINE float32x4_t load_four(const core::BFloat16 *p) {
  return vreinterpretq_f32_u32(vshll_n_u16(load_register<uint16x4_t>(p), 16));
}
SDTW_INLINE void store_four(core::BFloat16 *p, float32x4_t a) {
  const uint32x4_t bits = vreinterpretq_u32_f32(a), odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint16x4_t rounded = vaddhn_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  store_register(p, vbsl_u16(vmovn_u32(vceqq_f32(a, a)), rounded, vdup_n_u16(0x7fc0)));
}

// What both types have in common.
template <class T, class Register, class BitsRegister>
struct VecBase {
  using Scalar = T;
  using Real = Parts<Register>;
  using Mask = Parts<BitsRegister>;
  static constexpr int lanes = sizeof(Register) / sizeof(T), width = 2 * lanes, block_steps = 2;

  static SDTW_INLINE Real add(Real a, Real b) {
    return each([](auto x, auto y) { return x + y; }, a, b);
  }
  static SDTW_INLINE Real sub(Real a, Real b) {
    return each([](auto x, auto y) { return x - y; }, a, b);
  }
  static SDTW_INLINE Real mul(Real a, Real b) {
    return each([](auto x, auto y) { return x * y; }, a, b);
  }
  static SDTW_INLINE Real div(Real a, Real b) {
    return each([](auto x, auto y) { return x / y; }, a, b);
  }
  static SDTW_INLINE T first(Real a) { return a.low[0]; }
};

template <class T>
struct Vec;

template <>
struct Vec<float> : VecBase<float, float32x4_t, uint32x4_t> {
  using Exponent = Parts<int32x4_t>;
  using ScalarExponent = int32_t;
  using VecBase::first;
  using VecBase::sub;

  template <class Number>
  static SDTW_INLINE Real load(const Number *p) {
    return {load_four(p), load_four(p + lanes)};
  }
  template <class Number>
  static SDTW_INLINE void store(Number *p, Real a) {
    store_four(p, a.low), store_four(p + lanes, a.high);
  }
  static SDTW_INLINE Real reciprocal(Real a) { return div(set1(1), a); }
  static SDTW_INLINE Real set1(float a) { return {vdupq_n_f32(a), vdupq_n_f32(a)}; }
  static SDTW_INLINE Real larger(Real a, Real b) {
    return each([](auto x, auto y) { return vmaxq_f32(x, y); }, a, b);
  }
  static SDTW_INLINE Real at_least(Real a, float bound) {
    return each([](auto x, auto least) { return masked(vcgeq_f32(x, least), x); }, a, set1(bound));
  }
  static SDTW_INLINE bool any_nonzero(Real a) {
    const uint32x4_t any = vorrq_u32(vreinterpretq_u32_f32(a.low), vreinterpretq_u32_f32(a.high));
    return vmaxvq_u32(vshlq_n_u32(any, 1)) != 0;  // but for signs
  }
  static SDTW_INLINE Real abs(Real a) {
    return each([](auto x) { return vabsq_f32(x); }, a);
  }
  static SDTW_INLINE Real sqrt(Real a) {
    return each([](auto x) { return vsqrtq_f32(x); }, a);
  }
  static SDTW_INLINE Real where_positive(Real of, Real a) {
    return each([](auto by, auto x) { return masked(vcgtzq_f32(by), x); }, of, a);
  }
  static SDTW_INLINE Real with_sign(Real a, Real of) {
    return each(
        [](auto x, auto by) {
          const uint32x4_t sign = vandq_u32(vreinterpretq_u32_f32(by), vdupq_n_u32(0x80000000));
          const uint32x4_t turned = veorq_u32(vreinterpretq_u32_f32(x), sign);
          return masked(vcagtq_f32(by, vdupq_n_f32(0)), vreinterpretq_f32_u32(turned));  // |by| > 0
        },
        a, of);
  }
  static SDTW_INLINE Real fma(Real a, Real b, Real c) {
    return each([](auto x, auto y, auto z) { return vfmaq_f32(x, y, z); }, c, a, b);
  }
  static SDTW_INLINE Real fnma(Real a, Real b, Real c) {
    return each([](auto x, auto y, auto z) { return vfmsq_f32(x, y, z); }, c, a, b);
  }

  static SDTW_INLINE Exponent load(const int32_t *p) {
    return {load_register<int32x4_t>(p), load_register<int32x4_t>(p + lanes)};
  }
  static SDTW_INLINE void store(int32_t *p, Exponent a) { store_register(p, a.low), store_register(p + lanes, a.high); }
  static SDTW_INLINE Exponent sub(Exponent a, Exponent b) {
    return each([](auto x, auto y) { return vsubq_s32(x, y); }, a, b);
  }
  static SDTW_INLINE Real real_of(Exponent a) {
    return each([](auto x) { return vcvtq_f32_s32(x); }, a);
  }
  static SDTW_INLINE Exponent max(Exponent a, Exponent b) {
    return each([](auto x, auto y) { return vmaxq_s32(x, y); }, a, b);
  }
  static SDTW_INLINE Exponent whole(int32_t a) { return {vdupq_n_s32(a), vdupq_n_s32(a)}; }

  static SDTW_INLINE Mask at_most(Real a, Real b) {
    return each([](auto x, auto y) { return vcleq_f32(x, y); }, a, b);
  }
  static SDTW_INLINE Mask within(Exponent at, Exponent first, Exponent end) {
    return each([](auto x, auto lo, auto hi) { return vandq_u32(vcgeq_s32(x, lo), vcltq_s32(x, hi)); }, at, first, end);
  }
  static SDTW_INLINE Real where(Mask mask, Real a, Real b) {
    return each([](auto x, auto y, auto z) { return vbslq_f32(x, y, z); }, mask, a, b);
  }
  static SDTW_INLINE Exponent where(Mask mask, Exponent a, Exponent b) {
    return each([](auto x, auto y, auto z) { return vbslq_s32(x, y, z); }, mask, a, b);
  }

  // The shift takes what is negative to 0.
  static SDTW_INLINE Exponent base(Exponent x) { return sub(x, whole(127)); }
  static SDTW_INLINE Real power(Exponent e, Exponent base) {
    return each([](auto x, auto zero) { return vreinterpretq_f32_u32(vqshluq_n_s32(vsubq_s32(x, zero), 23)); }, e,
                base);
  }
  static SDTW_INLINE Real scale(Real m, Exponent e, Exponent base) { return mul(m, power(e, base)); }
  static SDTW_INLINE Real add_scaled(Real sum, Real m, Exponent e, Exponent base) {
    return fma(m, power(e, base), sum);
  }

  struct Split {
    Exponent integer;
    Real fraction;
  };
  static SDTW_INLINE Split split(Real cost, Real scale, Real scale_low) {
    const Real magic = set1(12582912.f), rounded = fma(cost, scale, magic);
    const Exponent integer = each(
        [](auto x, auto y) { return vsubq_s32(vreinterpretq_s32_f32(x), vreinterpretq_s32_f32(y)); }, rounded, magic);
    const Real fraction = fma(cost, scale, sub(magic, rounded));
    return {integer, fma(cost, scale_low, fraction)};
  }

  static SDTW_INLINE void normalize(Real &m, Exponent &e) {
    e = each([](auto x, auto of) { return add_field(x, vreinterpretq_u32_f32(of)); }, e, m);
    m = each([](auto x) { return vreinterpretq_f32_u32(vsliq_n_u32(vreinterpretq_u32_f32(x), vdupq_n_u32(127), 23)); },
             m);
  }

  static SDTW_INLINE Real rotate_up(Real a) {
    return {vextq_f32(a.high, a.low, lanes - 1), vextq_f32(a.low, a.high, lanes - 1)};
  }
  static SDTW_INLINE Real rotate_down(Real a) { return {vextq_f32(a.low, a.high, 1), vextq_f32(a.high, a.low, 1)}; }
  static SDTW_INLINE Exponent rotate_up(Exponent a) {
    return {vextq_s32(a.high, a.low, lanes - 1), vextq_s32(a.low, a.high, lanes - 1)};
  }
  static SDTW_INLINE Real insert_first(Real a, const float *p) { return {vld1q_lane_f32(p, a.low, 0), a.high}; }
  static SDTW_INLINE Exponent insert_first(Exponent a, const int32_t *p) {
    return {vld1q_lane_s32(p, a.low, 0), a.high};
  }
  static SDTW_INLINE Real insert_last(Real a, const float *p) { return {a.low, vld1q_lane_f32(p, a.high, lanes - 1)}; }
  static SDTW_INLINE int32_t first(Exponent a) { return vgetq_lane_s32(a.low, 0); }

  static SDTW_INLINE Real where_live(Real, Real a) { return a; }

  using Watch = Exponent;
  static SDTW_INLINE Watch watch_none() { return whole(0); }
  static SDTW_INLINE Watch watch(Watch w, Real a, Real) {
    return each([](auto most, auto x) { return vmaxq_s32(most, vreinterpretq_s32_f32(vabsq_f32(x))); }, w, a);
  }
  static SDTW_INLINE int verdict(Watch w, float limit) {
    return vmaxvq_s32(vmaxq_s32(w.low, w.high)) > vgetq_lane_s32(vreinterpretq_s32_f32(vdupq_n_f32(limit)), 0);
  }

  // In blocks of a register's size, of which those beside the diagonal change places.
  static SDTW_INLINE void transpose(Real (&r)[8]) {
    float32x4_t t[4][4];
    for (int k = 0; k < 4; ++k)
      t[0][k] = r[k].low, t[1][k] = r[k].high, t[2][k] = r[k + 4].low, t[3][k] = r[k + 4].high;
    for (auto &block : t) {
      const auto a = vzip1q_f32(block[0], block[2]), b = vzip2q_f32(block[0], block[2]);
      const auto c = vzip1q_f32(block[1], block[3]), d = vzip2q_f32(block[1], block[3]);
      block[0] = vzip1q_f32(a, c), block[1] = vzip2q_f32(a, c);
      block[2] = vzip1q_f32(b, d), block[3] = vzip2q_f32(b, d);
    }
    for (int k = 0; k < 4; ++k) r[k] = {t[0][k], t[2][k]}, r[k + 4] = {t[1][k], t[3][k]};
  }

 private:
  static SDTW_INLINE float32x4_t masked(uint32x4_t mask, float32x4_t a) {
    return vreinterpretq_f32_u32(vandq_u32(mask, vreinterpretq_u32_f32(a)));
  }
  static SDTW_INLINE int32x4_t add_field(int32x4_t e, uint32x4_t bits) {
    return vreinterpretq_s32_u32(vsraq_n_u32(vreinterpretq_u32_s32(vsubq_s32(e, vdupq_n_s32(127))), bits, 23));
  }
};

template <>
struct Vec<double> : VecBase<double, float64x2_t, uint64x2_t> {
  using Exponent = Real;
  using ScalarExponent = double;

  static SDTW_INLINE Real load(const double *p) {
    return {load_register<float64x2_t>(p), load_register<float64x2_t>(p + lanes)};
  }
  static SDTW_INLINE void store(double *p, Real a) { store_register(p, a.low), store_register(p + lanes, a.high); }
  template <class Number>
  static SDTW_INLINE Real load(const Number *p) {
    const float32x4_t four = load_four(p);
    return {vcvt_f64_f32(vget_low_f32(four)), vcvt_high_f64_f32(four)};
  }
  template <class Number>
  static SDTW_INLINE void store(Number *p, Real a) {
    store_four(p, vcvt_high_f32_f64(vcvt_f32_f64(a.low), a.high));
  }
  static SDTW_INLINE Real reciprocal(Real a) { return div(set1(1), a); }
  static SDTW_INLINE Real set1(double a) { return {vdupq_n_f64(a), vdupq_n_f64(a)}; }
  static SDTW_INLINE Real larger(Real a, Real b) {
    return each([](auto x, auto y) { return vmaxq_f64(x, y); }, a, b);
  }
  static SDTW_INLINE Real at_least(Real a, double bound) {
    return each([](auto x, auto least) { return masked(vcgeq_f64(x, least), x); }, a, set1(bound));
  }
  static SDTW_INLINE bool any_nonzero(Real a) {
    const uint64x2_t any = vorrq_u64(vreinterpretq_u64_f64(a.low), vreinterpretq_u64_f64(a.high));
    return any_bit(vshlq_n_u64(any, 1));
  }
  static SDTW_INLINE Real abs(Real a) {
    return each([](auto x) { return vabsq_f64(x); }, a);
  }
  static SDTW_INLINE Real sqrt(Real a) {
    return each([](auto x) { return vsqrtq_f64(x); }, a);
  }
  static SDTW_INLINE Real where_positive(Real of, Real a) {
    return each([](auto by, auto x) { return masked(vcgtzq_f64(by), x); }, of, a);
  }
  static SDTW_INLINE Real with_sign(Real a, Real of) {
    return each(
        [](auto x, auto by) {
          const uint64x2_t sign = vandq_u64(vreinterpretq_u64_f64(by), vdupq_n_u64(uint64_t(1) << 63));
          const uint64x2_t turned = veorq_u64(vreinterpretq_u64_f64(x), sign);
          return masked(vcagtq_f64(by, vdupq_n_f64(0)), vreinterpretq_f64_u64(turned));
        },
        a, of);
  }
  static SDTW_INLINE Real fma(Real a, Real b, Real c) {
    return each([](auto x, auto y, auto z) { return vfmaq_f64(x, y, z); }, c, a, b);
  }
  static SDTW_INLINE Real fnma(Real a, Real b, Real c) {
    return each([](auto x, auto y, auto z) { return vfmsq_f64(x, y, z); }, c, a, b);
  }
  // Of a number and NaN the number, as the sweep's bounds take it.
  static SDTW_INLINE Exponent max(Exponent a, Exponent b) {
    return each([](auto x, auto y) { return vmaxnmq_f64(x, y); }, a, b);
  }
  static SDTW_INLINE Real smaller(Real a, Real b) {
    return each([](auto x, auto y) { return vminnmq_f64(x, y); }, a, b);
  }
  static SDTW_INLINE Exponent whole(double a) { return set1(a); }

  static SDTW_INLINE Mask at_most(Real a, Real b) {
    return each([](auto x, auto y) { return vcleq_f64(x, y); }, a, b);
  }
  static SDTW_INLINE Mask within(Exponent at, Exponent first, Exponent end) {
    return each([](auto x, auto lo, auto hi) { return vandq_u64(vcgeq_f64(x, lo), vcltq_f64(x, hi)); }, at, first, end);
  }
  static SDTW_INLINE Real where(Mask mask, Real a, Real b) {
    return each([](auto x, auto y, auto z) { return vbslq_f64(x, y, z); }, mask, a, b);
  }

  // As simd_avx2.h has it.
  static SDTW_INLINE Exponent base(Exponent x) { return x; }
  static SDTW_INLINE Real power(Exponent e, Exponent base) {
    const Real sum = add(max(sub(e, base), set1(-1023)), set1(4503599627370496. + 1023));
    return each([](auto x) { return vreinterpretq_f64_u64(vshlq_n_u64(vreinterpretq_u64_f64(x), 52)); }, sum);
  }
  static SDTW_INLINE Real scale(Real m, Exponent e, Exponent base) { return mul(m, power(e, base)); }
  static SDTW_INLINE Real add_scaled(Real sum, Real m, Exponent e, Exponent base) {
    return fma(m, power(e, base), sum);
  }

  struct Split {
    Exponent integer;
    Real fraction;
  };
  static SDTW_INLINE Split split(Real cost, Real scale, Real) {
    const Real integer = each([](auto x) { return vrndnq_f64(x); }, smaller(mul(cost, scale), set1(1e300)));
    const Real rest = fma(cost, scale, each([](auto x) { return vnegq_f64(x); }, integer));
    return {integer, max(smaller(rest, set1(.5)), set1(-.5))};
  }
  static SDTW_INLINE void store_split(Real t, int32_t *n, float *f) {
    const Real integer = each([](auto x) { return vrndnq_f64(x); }, t);
    store_register(n, vqmovn_high_s64(vqmovn_s64(vcvtq_s64_f64(integer.low)), vcvtq_s64_f64(integer.high)));
    store(f, sub(t, integer));
  }

  // An exponent field put into the low bits of 2^52 is 2^52 + field.
  static SDTW_INLINE void normalize(Real &m, Exponent &e) {
    const auto field = [](auto x) {
      const uint64x2_t at = vreinterpretq_u64_f64(vdupq_n_f64(4503599627370496.));
      return vreinterpretq_f64_u64(vsriq_n_u64(at, vreinterpretq_u64_f64(x), 52));
    };
    e = add(e, sub(each(field, m), set1(4503599627370496. + 1023)));
    m = each([](auto x) { return vreinterpretq_f64_u64(vsliq_n_u64(vreinterpretq_u64_f64(x), vdupq_n_u64(1023), 52)); },
             m);
  }

  static SDTW_INLINE Real rotate_up(Real a) { return {vextq_f64(a.high, a.low, 1), vextq_f64(a.low, a.high, 1)}; }
  static SDTW_INLINE Real rotate_down(Real a) { return {vextq_f64(a.low, a.high, 1), vextq_f64(a.high, a.low, 1)}; }
  static SDTW_INLINE Real insert_first(Real a, const double *p) { return {vld1q_lane_f64(p, a.low, 0), a.high}; }
  static SDTW_INLINE Real insert_last(Real a, const double *p) { return {a.low, vld1q_lane_f64(p, a.high, 1)}; }

  static SDTW_INLINE Real where_live(Real weight, Real a) {
    return each([](auto w, auto x) { return unmasked(vceqzq_f64(w), x); }, weight, a);
  }

  using Watch = Mask;
  static SDTW_INLINE Watch watch_none() {
    return each([](auto x) { return vreinterpretq_u64_f64(x); }, set1(0));
  }
  static SDTW_INLINE Watch watch(Watch w, Real a, Real limit) {
    return each([](auto seen, auto x, auto most) { return vornq_u64(seen, vcaltq_f64(x, most)); }, w, a, limit);
  }
  static SDTW_INLINE Real unless_infinite(Real a) {
    return each([](auto x) { return unmasked(vceqq_f64(x, vdupq_n_f64(__builtin_inf())), x); }, a);
  }
  static SDTW_INLINE int verdict(Watch w, double) { return any_bit(vorrq_u64(w.low, w.high)); }

  static SDTW_INLINE void transpose(Real (&r)[4]) {
    const Real a = r[0], b = r[1], c = r[2], d = r[3];
    r[0] = {vtrn1q_f64(a.low, b.low), vtrn1q_f64(c.low, d.low)};
    r[1] = {vtrn2q_f64(a.low, b.low), vtrn2q_f64(c.low, d.low)};
    r[2] = {vtrn1q_f64(a.high, b.high), vtrn1q_f64(c.high, d.high)};
    r[3] = {vtrn2q_f64(a.high, b.high), vtrn2q_f64(c.high, d.high)};
  }

 private:
  static SDTW_INLINE float64x2_t masked(uint64x2_t mask, float64x2_t a) {
    return vreinterpretq_f64_u64(vandq_u64(mask, vreinterpretq_u64_f64(a)));
  }
  static SDTW_INLINE float64x2_t unmasked(uint64x2_t mask, float64x2_t a) {
    return vreinterpretq_f64_u64(vbicq_u64(vreinterpretq_u64_f64(a), mask));
  }
  static SDTW_INLINE bool any_bit(uint64x2_t a) { return vmaxvq_u32(vreinterpretq_u32_u64(a)) != 0; }
};

}  // namespace sdtw::cpu::neon
