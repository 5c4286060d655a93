// Vectors of the baseline kernels, for any processor: 8 floats with int32 exponents, 4 doubles with exponents held in
// doubles, each in two of GCC's and Clang's vectors of 128 bits. Of wider ones GCC takes numbers apart wherever the
// processor has none. simd_avx512.h documents the operations. Products and sums are rounded apart: without a fused
// multiply-add the last bit of results differs from the other instruction sets'.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/half.h"
#include "core/numbers.h"
#include "cpu/simd_parts.h"

namespace sdtw::cpu::baseline {

typedef float Floats __attribute__((vector_size(16)));
typedef int32_t Int32s __attribute__((vector_size(16)));
typedef double Doubles __attribute__((vector_size(16)));
typedef int64_t Int64s __attribute__((vector_size(16)));
typedef uint64_t Uint64s __attribute__((vector_size(16)));

template <class T>
struct Vec;

// What both types have in common.
template <class T, class Register, class BitsRegister>
struct VecBase {
  using Scalar = T;
  using Real = Parts<Register>;
  using Bits = Parts<BitsRegister>;
  using Mask = Bits;
  static constexpr int lanes = 16 / sizeof(T), width = 2 * lanes, block_steps = 3;

  static SDTW_INLINE Real load(const T *p) { return {load_register<Register>(p), load_register<Register>(p + lanes)}; }
  static SDTW_INLINE void store(T *p, Real a) { store_register(p, a.low), store_register(p + lanes, a.high); }
  template <class Short>
  static SDTW_INLINE Real load(const Short *p) {
    T numbers[width];
    for (int l = 0; l < width; ++l) numbers[l] = T(float(p[l]));
    return load(numbers);
  }
  template <class Short>
  static SDTW_INLINE void store(Short *p, Real a) {
    T numbers[width];
    store(numbers, a);
    for (int l = 0; l < width; ++l) p[l] = Short(static_cast<float>(numbers[l]));
  }
  static SDTW_INLINE Real set1(T a) { return {a - Register{}, a - Register{}}; }
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
  static SDTW_INLINE Real reciprocal(Real a) { return div(set1(1), a); }
  static SDTW_INLINE Real larger(Real a, Real b) {
    return each([](auto x, auto y) { return x > y ? x : y; }, a, b);
  }
  static SDTW_INLINE Real smaller(Real a, Real b) {
    return each([](auto x, auto y) { return x < y ? x : y; }, a, b);
  }
  static SDTW_INLINE Real at_least(Real a, T bound) {
    return each([](auto x, auto least) { return x >= least ? x : Register{}; }, a, set1(bound));
  }
  static SDTW_INLINE bool any_nonzero(Real a) {
    return any_bit(each([](auto x) { return reinterpret_cast<BitsRegister>(x != Register{}); }, a));
  }
  static SDTW_INLINE Real abs(Real a) {
    return each([](auto x) { return x < Register{} ? -x : x; }, a);
  }
  static SDTW_INLINE Real sqrt(Real a) {
    return each(
        [](auto x) {
          for (int l = 0; l < lanes; ++l) x[l] = std::sqrt(x[l]);
          return x;
        },
        a);
  }
  static SDTW_INLINE Real where_positive(Real of, Real a) {
    return each([](auto by, auto x) { return by > Register{} ? x : Register{}; }, of, a);
  }
  static SDTW_INLINE Real with_sign(Real a, Real of) {
    return each([](auto x, auto by) { return by > Register{} ? x : by < Register{} ? -x : Register{}; }, a, of);
  }
  static SDTW_INLINE Real fma(Real a, Real b, Real c) { return add(mul(a, b), c); }
  static SDTW_INLINE Real fnma(Real a, Real b, Real c) { return sub(c, mul(a, b)); }
  static SDTW_INLINE T first(Real a) { return a.low[0]; }

  static SDTW_INLINE Bits bits(Real a) {
    return each([](auto x) { return reinterpret_cast<BitsRegister>(x); }, a);
  }
  static SDTW_INLINE Real real(Bits a) {
    return each([](auto x) { return reinterpret_cast<Register>(x); }, a);
  }
  static SDTW_INLINE bool any_bit(Bits a) {
    int64_t any = 0;
    for (int l = 0; l < lanes; ++l) any |= a.low[l] | a.high[l];
    return any != 0;
  }

  static SDTW_INLINE Mask at_most(Real a, Real b) {
    return each([](auto x, auto y) { return reinterpret_cast<BitsRegister>(x <= y); }, a, b);
  }
  template <class Any>
  static SDTW_INLINE Parts<Any> where(Mask mask, Parts<Any> a, Parts<Any> b) {
    return each([](auto use, auto x, auto y) { return use ? x : y; }, mask, a, b);
  }
  template <class Any>
  static SDTW_INLINE Mask within(Parts<Any> at, Parts<Any> first, Parts<Any> end) {
    return each([](auto x, auto lo, auto hi) { return reinterpret_cast<BitsRegister>((lo <= x) & (x < hi)); }, at,
                first, end);
  }

  template <class Any>
  static SDTW_INLINE Parts<Any> rotate_up(Parts<Any> a) {
    return {behind(a.high, a.low), behind(a.low, a.high)};
  }
  template <class Any>
  static SDTW_INLINE Parts<Any> rotate_down(Parts<Any> a) {
    return {before(a.low, a.high), before(a.high, a.low)};
  }
  template <class Any, class Number>
  static SDTW_INLINE Parts<Any> insert_first(Parts<Any> a, const Number *p) {
    a.low[0] = *p;
    return a;
  }
  static SDTW_INLINE Real insert_last(Real a, const T *p) {
    a.high[lanes - 1] = *p;
    return a;
  }
  static void transpose(Real (&r)[width]) {
    T numbers[width][width], turned[width][width];
    for (int i = 0; i < width; ++i) store(numbers[i], r[i]);
    for (int i = 0; i < width; ++i)
      for (int j = 0; j < width; ++j) turned[j][i] = numbers[i][j];
    for (int i = 0; i < width; ++i) r[i] = load(turned[i]);
  }

 private:
  // The last number of a, and all of b but the last.
  template <class Any>
  static SDTW_INLINE Any behind(Any a, Any b) {
    if constexpr (lanes == 4)
      return Any{a[3], b[0], b[1], b[2]};
    else
      return Any{a[1], b[0]};
  }
  // All of a but the first, and the first of b.
  template <class Any>
  static SDTW_INLINE Any before(Any a, Any b) {
    if constexpr (lanes == 4)
      return Any{a[1], a[2], a[3], b[0]};
    else
      return Any{a[1], b[0]};
  }
};

template <>
struct Vec<float> : VecBase<float, Floats, Int32s> {
  using Exponent = Bits;
  using ScalarExponent = int32_t;
  using VecBase::first;
  using VecBase::load;
  using VecBase::store;
  using VecBase::sub;

  static SDTW_INLINE Exponent load(const int32_t *p) {
    return {load_register<Int32s>(p), load_register<Int32s>(p + lanes)};
  }
  static SDTW_INLINE void store(int32_t *p, Exponent a) { store_register(p, a.low), store_register(p + lanes, a.high); }
  static SDTW_INLINE Exponent sub(Exponent a, Exponent b) {
    return each([](auto x, auto y) { return x - y; }, a, b);
  }
  static SDTW_INLINE Real real_of(Exponent a) {
    return each([](auto x) { return __builtin_convertvector(x, Floats); }, a);
  }
  static SDTW_INLINE Exponent max(Exponent a, Exponent b) {
    return each([](auto x, auto y) { return x > y ? x : y; }, a, b);
  }
  static SDTW_INLINE Exponent whole(int32_t a) { return {a - Int32s{}, a - Int32s{}}; }
  static SDTW_INLINE int32_t first(Exponent a) { return a.low[0]; }

  static SDTW_INLINE Exponent base(Exponent x) { return sub(x, whole(127)); }
  static SDTW_INLINE Real scale(Real m, Exponent e, Exponent base) {
    const Exponent field = max(sub(e, base), whole(0));
    return mul(m, real(each([](auto x) { return x * (1 << 23); }, field)));
  }
  static SDTW_INLINE Real add_scaled(Real sum, Real m, Exponent e, Exponent base) {
    return add(sum, scale(m, e, base));
  }

  struct Split {
    Exponent integer;
    Real fraction;
  };
  static SDTW_INLINE Split split(Real cost, Real scale, Real scale_low) {
    const Real magic = set1(12582912.f);
    const Real rounded = add(mul(cost, scale), magic);
    // The product's low bits, for want of a fused multiply-add: halves of 12 bits have exact products (Dekker 1971).
    const Real c = upper_half(cost), d = sub(cost, c), u = upper_half(scale), v = sub(scale, u);
    const Real high = sub(mul(c, u), sub(rounded, magic));
    const Real low = add(mul(d, v), mul(cost, scale_low));
    return {sub(bits(rounded), bits(magic)), add(add(add(high, mul(c, v)), mul(d, u)), low)};
  }
  static SDTW_INLINE void normalize(Real &m, Exponent &e) {
    const Bits k = each([](auto x) { return (x >> 23) - 127; }, bits(m));
    m = real(each([](auto x, auto by) { return x - by * (1 << 23); }, bits(m), k));
    e = each([](auto x, auto by) { return x + by; }, e, k);
  }
  static SDTW_INLINE Real where_live(Real, Real a) { return a; }

  using Watch = Bits;
  static SDTW_INLINE Watch watch_none() { return whole(0); }
  static SDTW_INLINE Watch watch(Watch w, Real a, Real) {
    return max(w, each([](auto x) { return x & 0x7fffffff; }, bits(a)));
  }
  static SDTW_INLINE int verdict(Watch w, float limit) {
    return any_bit(each([](auto x, auto most) { return Int32s(x > most); }, w, bits(set1(limit))));
  }

 private:
  static SDTW_INLINE Real upper_half(Real a) {
    return real(each([](auto x) { return x & -4096; }, bits(a)));
  }
};

template <>
struct Vec<double> : VecBase<double, Doubles, Int64s> {
  using Exponent = Real;
  using ScalarExponent = double;

  static SDTW_INLINE Exponent max(Exponent a, Exponent b) { return larger(a, b); }
  static SDTW_INLINE Exponent whole(double a) { return set1(a); }

  static SDTW_INLINE Exponent base(Exponent x) { return x; }
  static SDTW_INLINE Real scale(Real m, Exponent e, Exponent base) {
    const Real field = add(max(sub(e, base), set1(-1023)), set1(4503599627370496. + 1023));
    return mul(m, real(each([](auto x) { return Int64s(Uint64s(x) << 52); }, bits(field))));
  }
  static SDTW_INLINE Real add_scaled(Real sum, Real m, Exponent e, Exponent base) {
    return add(sum, scale(m, e, base));
  }

  struct Split {
    Exponent integer;
    Real fraction;
  };
  static SDTW_INLINE Split split(Real cost, Real scale, Real) {
    const Real t = smaller(mul(cost, scale), set1(1e300));
    const Real small = nearest(t);  // while |t| < 2^51; beyond 2^52 t is one itself
    const Real integer = each([](auto x, auto of) { return ((x > 2e15) | (x < -2e15)) ? x : of; }, t, small);
    return {integer, max(smaller(sub(t, integer), set1(.5)), set1(-.5))};
  }
  static SDTW_INLINE void store_split(Real t, int32_t *n, float *f) {
    const Real integer = nearest(t);
    double numbers[width];
    store(numbers, integer);
    for (int l = 0; l < width; ++l) n[l] = static_cast<int32_t>(numbers[l]);
    store(f, sub(t, integer));
  }
  static SDTW_INLINE void normalize(Real &m, Exponent &e) {
    // An exponent field put into the low bits of 2^52 is 2^52 + field.
    const Bits field = each([](auto x) { return Int64s((Uint64s(x) >> 52 & 0x7ff) | 0x4330000000000000); }, bits(m));
    e = add(e, sub(real(field), set1(4503599627370496. + 1023)));
    m = real(each([](auto x) { return (x & 0x000fffffffffffff) | 0x3ff0000000000000; }, bits(m)));
  }
  static SDTW_INLINE Real where_live(Real weight, Real a) {
    return each([](auto w, auto x) { return w != Doubles{} ? x : Doubles{}; }, weight, a);
  }

  using Watch = Bits;
  static SDTW_INLINE Watch watch_none() { return bits(set1(0)); }
  static SDTW_INLINE Watch watch(Watch w, Real a, Real limit) {
    const Real size = real(each([](auto x) { return x & 0x7fffffffffffffff; }, bits(a)));
    return each([](auto seen, auto x, auto most) { return seen | ~Int64s(x < most); }, w, size, limit);
  }
  static SDTW_INLINE Real unless_infinite(Real a) {
    return each([](auto x) { return x != __builtin_inf() ? x : Doubles{}; }, a);
  }
  static SDTW_INLINE int verdict(Watch w, double) { return any_bit(w); }

 private:
  static SDTW_INLINE Real nearest(Real t) {
    const Real magic = set1(6755399441055744.);
    return sub(add(t, magic), magic);
  }
};

}  // namespace sdtw::cpu::baseline
