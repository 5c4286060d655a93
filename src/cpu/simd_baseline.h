// Vectors of the baseline kernels, for any processor: GCC's and Clang's vector extensions, lowered by the compiler to
// what the target has. simd_avx512.h documents the operations. Products and sums are rounded apart: without a fused
// multiply-add the last bit of results differs from the other instruction sets'.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#include "core/half.h"
#include "core/numbers.h"

namespace sdtw::cpu::baseline {

template <class T>
struct Vec;

template <class T, class Int, int N>
struct VecBase {
  using Scalar = T;
  typedef T Real __attribute__((vector_size(N * sizeof(T))));
  typedef Int Bits __attribute__((vector_size(N * sizeof(T))));
  static constexpr int width = N, block_steps = 3;

  static Real load(const T *p) {
    Real a;
    std::memcpy(&a, p, sizeof a);
    return a;
  }
  static void store(T *p, Real a) { std::memcpy(p, &a, sizeof a); }
  template <class Short>
  static Real load_short(const Short *p) {
    Real a;
    for (int l = 0; l < N; ++l) a[l] = T(float(p[l]));
    return a;
  }
  template <class Short>
  static void store_short(Short *p, Real a) {
    for (int l = 0; l < N; ++l) p[l] = Short(static_cast<float>(a[l]));
  }
  static Real load(const core::Half *p) { return load_short(p); }
  static Real load(const core::BFloat16 *p) { return load_short(p); }
  static void store(core::Half *p, Real a) { store_short(p, a); }
  static void store(core::BFloat16 *p, Real a) { store_short(p, a); }
  static Real set1(T a) { return a - Real{}; }
  static Real add(Real a, Real b) { return a + b; }
  static Real sub(Real a, Real b) { return a - b; }
  static Real mul(Real a, Real b) { return a * b; }
  static Real div(Real a, Real b) { return a / b; }
  static Real reciprocal(Real a) { return set1(1) / a; }
  static Real larger(Real a, Real b) { return a > b ? a : b; }
  static Real at_least(Real a, T bound) { return a >= set1(bound) ? a : Real{}; }
  static bool any_nonzero(Real a) {
    bool any = false;
    for (int l = 0; l < N; ++l) any |= a[l] != 0;
    return any;
  }
  static Real abs(Real a) { return a < Real{} ? -a : a; }
  static Real sqrt(Real a) {
    for (int l = 0; l < N; ++l) a[l] = std::sqrt(a[l]);
    return a;
  }
  static Real where_positive(Real of, Real a) { return of > Real{} ? a : Real{}; }
  static Real with_sign(Real a, Real of) { return of > Real{} ? a : of < Real{} ? -a : Real{}; }
  static Real fma(Real a, Real b, Real c) { return a * b + c; }
  static Real fnma(Real a, Real b, Real c) { return c - a * b; }
  static T first(Real a) { return a[0]; }
  static Bits bits(Real a) {
    Bits b;
    std::memcpy(&b, &a, sizeof b);
    return b;
  }
  static Real real(Bits b) {
    Real a;
    std::memcpy(&a, &b, sizeof a);
    return a;
  }
  template <class Any>
  static Any up(Any a) {
    Any r;
    for (int l = 0; l < N; ++l) r[l] = a[(l + N - 1) % N];
    return r;
  }
  template <class Any>
  static Any down(Any a) {
    Any r;
    for (int l = 0; l < N; ++l) r[l] = a[(l + 1) % N];
    return r;
  }
  static Real rotate_up(Real a) { return up(a); }
  static Real rotate_down(Real a) { return down(a); }
  static Real insert_first(Real a, const T *p) {
    a[0] = *p;
    return a;
  }
  static Real insert_last(Real a, const T *p) {
    a[N - 1] = *p;
    return a;
  }
  static void transpose(Real (&r)[N]) {
    for (int i = 0; i < N; ++i)
      for (int j = 0; j < i; ++j) {
        const T a = r[i][j];
        r[i][j] = r[j][i];
        r[j][i] = a;
      }
  }
};

template <>
struct Vec<float> : VecBase<float, int32_t, 8> {
  using Exponent = Bits;
  using ScalarExponent = int32_t;
  using VecBase::first;
  using VecBase::insert_first;
  using VecBase::load;
  using VecBase::rotate_up;
  using VecBase::store;
  using VecBase::sub;

  static Exponent load(const int32_t *p) {
    Exponent a;
    std::memcpy(&a, p, sizeof a);
    return a;
  }
  static void store(int32_t *p, Exponent a) { std::memcpy(p, &a, sizeof a); }
  static Exponent sub(Exponent a, Exponent b) { return a - b; }
  static Real real_of(Exponent a) { return __builtin_convertvector(a, Real); }
  static Exponent max(Exponent a, Exponent b) { return a > b ? a : b; }
  static Exponent whole(int32_t a) { return a - Exponent{}; }

  using Mask = Bits;
  static Mask at_most(Real a, Real b) { return a <= b; }
  static Mask within(Exponent at, Exponent first, Exponent end) { return (first <= at) & (at < end); }
  static Real where(Mask mask, Real a, Real b) { return mask ? a : b; }
  static Exponent where(Mask mask, Exponent a, Exponent b) { return mask ? a : b; }
  static Exponent base(Exponent x) { return x - 127; }
  static Real scale(Real m, Exponent e, Exponent base) { return m * real(max(e - base, Exponent{}) * (1 << 23)); }
  static Real add_scaled(Real sum, Real m, Exponent e, Exponent base) { return sum + scale(m, e, base); }

  struct Split {
    Exponent integer;
    Real fraction;
  };
  static Split split(Real cost, Real scale, Real scale_low) {
    const Real magic = set1(12582912.f);
    const Real rounded = cost * scale + magic;
    // The product's low bits, for want of a fused multiply-add: halves of 12 bits have exact products (Dekker 1971).
    const Real c = real(bits(cost) & -4096), d = cost - c, u = real(bits(scale) & -4096), v = scale - u;
    return {bits(rounded) - bits(magic), ((c * u - (rounded - magic)) + c * v + d * u) + (d * v + cost * scale_low)};
  }
  static void normalize(Real &m, Exponent &e) {
    const Bits k = (bits(m) >> 23) - 127;
    m = real(bits(m) - k * (1 << 23));
    e += k;
  }
  static Exponent rotate_up(Exponent a) { return up(a); }
  static Exponent insert_first(Exponent a, const int32_t *p) {
    a[0] = *p;
    return a;
  }
  static int32_t first(Exponent a) { return a[0]; }
  static Real where_live(Real, Real a) { return a; }

  using Watch = Bits;
  static Watch watch_none() { return Watch{}; }
  static Watch watch(Watch w, Real a, Real) { return max(w, bits(a) & 0x7fffffff); }
  static int verdict(Watch w, float limit) {
    int any = 0;
    for (int l = 0; l < width; ++l) any |= w[l] > bits(set1(limit))[0];
    return any;
  }
};

template <>
struct Vec<double> : VecBase<double, int64_t, 4> {
  using Exponent = Real;
  using ScalarExponent = double;
  using VecBase::load;
  using VecBase::store;

  static Real load(const float *p) { return Real{p[0], p[1], p[2], p[3]}; }
  static void store(float *p, Real a) {
    for (int l = 0; l < width; ++l) p[l] = static_cast<float>(a[l]);
  }
  static Exponent max(Exponent a, Exponent b) { return a > b ? a : b; }
  static Exponent min(Exponent a, Exponent b) { return a < b ? a : b; }
  static Real smaller(Real a, Real b) { return a < b ? a : b; }
  static Exponent whole(double a) { return set1(a); }

  using Mask = Bits;
  static Mask at_most(Real a, Real b) { return a <= b; }
  static Mask within(Exponent at, Exponent first, Exponent end) { return (first <= at) & (at < end); }
  static Real where(Mask mask, Real a, Real b) { return mask ? a : b; }
  static Exponent base(Exponent x) { return x; }
  static Real scale(Real m, Exponent e, Exponent base) {
    return m * real(bits(max(e - base, set1(-1023)) + set1(4503599627370496. + 1023)) << 52);
  }
  static Real add_scaled(Real sum, Real m, Exponent e, Exponent base) { return sum + scale(m, e, base); }

  struct Split {
    Exponent integer;
    Real fraction;
  };
  static Split split(Real cost, Real scale, Real) {
    const Real t = min(cost * scale, set1(1e300));
    const Real magic = set1(6755399441055744.);
    const Real small = (t + magic) - magic;  // the nearest integer while |t| < 2^51; beyond 2^52 t is one itself
    const Real integer = ((t > set1(2e15)) | (t < set1(-2e15))) ? t : small;
    return {integer, max(min(t - integer, set1(.5)), set1(-.5))};
  }
  static void store_split(Real t, int32_t *n, float *f) {
    const Real magic = set1(6755399441055744.), integer = (t + magic) - magic;
    for (int l = 0; l < width; ++l) {
      n[l] = static_cast<int32_t>(integer[l]);
      f[l] = static_cast<float>(t[l] - integer[l]);
    }
  }
  static void normalize(Real &m, Exponent &e) {
    const Bits field = (bits(m) >> 52) & 0x7ff;
    e += real(field | 0x4330000000000000) - set1(4503599627370496. + 1023);
    m = real((bits(m) & 0x000fffffffffffff) | 0x3ff0000000000000);
  }
  static Real where_live(Real weight, Real a) { return weight != Real{} ? a : Real{}; }

  using Watch = Bits;
  static Watch watch_none() { return Watch{}; }
  static Watch watch(Watch w, Real a, Real limit) {
    const Real size = real(bits(a) & 0x7fffffffffffffff);
    return w | ~(size < limit);
  }
  static Real unless_infinite(Real a) { return a != set1(__builtin_inf()) ? a : Real{}; }
  static int verdict(Watch w, double) {
    int any = 0;
    for (int l = 0; l < width; ++l) any |= w[l] != 0;
    return any;
  }
};

}  // namespace sdtw::cpu::baseline
