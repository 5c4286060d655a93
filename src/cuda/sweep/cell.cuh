// One cell of the soft-DTW recurrence R[i,j] = D[i,j] + softmin(...) (Cuturi and Blondel 2017, Algorithm 1) in terms of
// Z = exp(-R / gamma) = m 2^e, with mantissa m and exponent e apart.
//
// With t = D log2(e) / gamma = n + f, n the nearest integer, a cell is computed from its three neighbours as
//   x = max(e_diagonal, e_vertical, e_horizontal),  s = sum m_k 2^(e_k - x),  m = s + s q,  q = 2^-f - 1,  e = x - n,
// and the transition probability, that a path to the cell came from neighbour k, is m_k 2^(e_k - x) / s. Exponents are
// exact, so no error builds up along a path but the one of m. The rounding error of q is relative to f: where all costs
// of a path are the same, and all its rounding errors have the same sign, these add up to no more than the rounding of
// the costs themselves does. A very negative exponent stands for Z = 0, in a forbidden cell.
//
// FloatCell (a float and an int) is the fast one. LongCell (a float and 41 bits) takes the pairs of float32 problems
// whose exponents leave an int's range, of large costs or small gamma. DoubleCell (double_cell.cuh: two doubles) is
// for float64 problems, and for what is left of float32 problems (engine_of in pair.cuh): NaN, infinities, costs that
// are larger still, long thin pairs.
//
// The range of m. FloatCell and LongCell add exponents to the bits of m, so m has to stay where no such sum leaves the
// exponents of a float.
//   - A cell's s is at least the m of the neighbour with the largest exponent and at most the sum of all three, and
//     1 + q is in [2^-1/2, 2^1/2]. So m shrinks by at most half a bit a cell.
//   - In the 8 steps between two renormalisations a path goes through at most 32 cells: 4 rows of a lane in a step, and
//     in the next step those of the lane below. With all that is carried from step to step in [1, 2] at the beginning
//     (the lane's rows, the diagonal neighbour above them, the row above the strip, what is restored from checkpoints),
//     m stays in [2^-16, 2^29.3]: the upper bound is that of the recursion itself for f = -1/2 and equal exponents
//     everywhere, which tests/test_cells.cpp computes.
//   - Forbidden cells, cells left of column 0, right of the last column and below the last row are cells like any
//     other, of costs that are finite: the same bounds hold.
//   - The row that a strip hands on is stored as it is, within these bounds, and its readers renormalise it.
//     Checkpoints are saved right after a renormalisation. A sweep that is restored from a checkpoint or a snapshot
//     renormalises at the same steps as the sweep that saved it.
// In a build with SDTW_CHECKED cells of floats trap where the m of a term is outside of [2^-17, 2^30].
#pragma once

#include "core/numbers.h"
#include "core/packed.h"
#include "cuda/memory.cuh"

namespace sdtw::cuda {

// Words that a stored Z takes.
__device__ __forceinline__ constexpr int words_of(Format format) { return format == two_words ? 2 : 1; }

// The three transitions into a cell, numbered as in sdtw_problem.step_weight.
enum { diagonal = 0, vertical = 1, horizontal = 2, transitions = 3 };

// A product that is never fused with an addition that follows. Whether the compiler fuses the two depends on how it
// unrolls a loop, and results must not depend on that.
__device__ __forceinline__ float product(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ double product(double a, double b) { return __dmul_rn(a, b); }

__device__ __forceinline__ float reciprocal(float s) {
  const float r = ptx::approximate_reciprocal(s);
  return fmaf(fmaf(-s, r, 1.0f), r, r);
}
__device__ __forceinline__ double reciprocal(double s) {
  const double r = ptx::approximate_reciprocal(s), rest = fma(-s, r, 1.0);
  return fma(r, fma(rest, rest, rest), r);
}
// Makes transition probabilities of terms. E may go down the 128 rows of a strip within a tile, so that what a path
// that is all but certain loses in each cell adds up to 1e-5 where costs are the same, before it is made good. So the
// vertical probability is corrected by its remainder: s / s is 1, and s times a rounded reciprocal may be 1 - 2^-24.
// Other ways go through a tile in 32 cells.
__device__ __forceinline__ float corrected(float quotient, float of, float s, float factor) {
  return fmaf(fmaf(-s, quotient, of), factor, quotient);
}
__device__ __forceinline__ double corrected(double quotient, double, double, double) { return quotient; }
template <class Real>
__device__ __forceinline__ void normalise(Real (&p)[transitions]) {
  const Real s = (p[diagonal] + p[horizontal]) + p[vertical], factor = reciprocal(s), of_vertical = p[vertical];
#pragma unroll
  for (int way = 0; way < transitions; way++) p[way] = product(p[way], factor);
  p[vertical] = corrected(p[vertical], of_vertical, s, factor);
}

// 2^-f - 1 by the polynomial of core/numbers.h. The hardware's ex2 would not do: its error is up to 2^-22, and it is
// the same in every cell where costs are the same, so that it would add up along a path.
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
__device__ __forceinline__ Real exp2_minus_1(Real f) {
  return f * exp2_minus_tail<Real>(f);
}

// t + fixed_point, in float64, is t + 1/2 in fixed point, of a t that is not negative. The low word of the sum is the
// fraction of t + 1/2 in units of 2^-32. Its high word less fixed_point_high is the integer part of t + 1/2, which is
// the integer nearest to t.
constexpr double fixed_point = 1048576.0 + 0.5;  // 2^20
constexpr unsigned fixed_point_high = 0x41300000;

// A cost t = n + f, |f| <= 1/2, in the form that the recurrence takes.
template <class Real, class Integer>
struct Weight {
  Real q;  // 2^-f - 1
  Integer n;
};

// f from the fraction of t + 1/2, in units of 2^-32. The result has all digits of a float, however small f is.
__device__ __forceinline__ float centred(unsigned fraction) {
  return static_cast<float>(static_cast<int>(fraction ^ 0x80000000u)) * 0x1p-32f;
}

// Traps, in a build with SDTW_CHECKED, unless v is in [least, most].
__device__ __forceinline__ void check_range([[maybe_unused]] double v, [[maybe_unused]] double least,
                                            [[maybe_unused]] double most) {
#ifdef SDTW_CHECKED
  if (!(v >= least && v <= most)) __trap();
#endif
}

// A cost of FloatCell and LongCell.
using FloatCost = Weight<float, int>;

// sum: t + fixed_point.
__device__ __forceinline__ FloatCost split_fixed(double sum) {
  return {exp2_minus_1(centred(__double2loint(sum))),
          static_cast<int>(static_cast<unsigned>(__double2hiint(sum)) - fixed_point_high)};
}
// Any t of which |t| < 2^31.
__device__ __forceinline__ FloatCost split_large(double t) {
  constexpr double round = 6755399441055744.0;  // 1.5 2^52: adding it leaves the nearest integer in the low word
  const double whole = t + round;
  return {exp2_minus_1(static_cast<float>(t - (whole - round))), __double2loint(whole)};
}

// Exponents, and what a cell makes of those of its three neighbours: the shift of each to the largest, x, but at least
// least_shift; and x less n. With a shift of -100 a term of s is, by the range of m, never a denormal, and a term that
// is made larger by this limit adds less than 2^-50 to a sum.
constexpr int least_shift = -100;

// An int, for FloatCell.
struct ShortExponent {
  using Type = int;
  // Far enough below any other cell's exponent (float_limit in pair.cuh) that nothing of a forbidden cell shows, and
  // far enough from the end of an int that costs may take it lower on the way to a pair's first column.
  static constexpr int forbidden_e = -3 * (1 << 29);
  static constexpr float range = -static_cast<float>(forbidden_e);
  static __device__ __forceinline__ int forbidden() { return forbidden_e; }
  static __device__ __forceinline__ int zero() { return 0; }

  static __device__ __forceinline__ int shift(int e, int x) { return __viaddmax_s32(e, -x, least_shift); }
  struct Shifts {
    int x, d, v, h;
    __device__ __forceinline__ Shifts(int of_d, int of_v, int of_h)
        : x(__vimax3_s32(of_d, of_h, of_v)), d(shift(of_d, x)), v(shift(of_v, x)), h(shift(of_h, x)) {}
    __device__ __forceinline__ int less(int n) const {
#ifdef SDTW_CHECKED
      // Exponents may wrap around in a pair that is rejected later for its large costs. m would be anything then.
      constexpr long long least = -(1ll << 31) + (1ll << 22), most = (1ll << 29) - 1;
      const long long e = static_cast<long long>(x) - n;
      return static_cast<int>(e < least ? least : e > most ? most : e);
#endif
      // Unsigned, because exponents may wrap around in a pair that is rejected later for its large costs.
      return static_cast<int>(static_cast<unsigned>(x) - static_cast<unsigned>(n));
    }
  };
  static __device__ __forceinline__ int sum(int e, int more) {
    return static_cast<int>(static_cast<unsigned>(e) + static_cast<unsigned>(more));
  }
  static __device__ __forceinline__ double value(int e) { return e; }
  static __device__ __forceinline__ int select(bool first, int a, int b) { return first ? a : b; }
  static __device__ __forceinline__ int shuffle(int e, int lane) { return __shfl_sync(all_lanes, e, lane); }

  // The low word is m. As m is positive its sign bit may be cleared, so that no word is all ones, the mark of a word
  // that has not been written.
  static __device__ __forceinline__ Word pack(float m, int e) {
    return static_cast<Word>(static_cast<unsigned>(e)) << 32 | (__float_as_uint(m) & 0x7fffffffu);
  }
};

// 2^9 high + low, 0 <= low < 2^9, for LongCell: 41 bits, which with the 23 bits of a normalised m fill a word. In
// nine more instructions a cell than an int takes, where 64 bits would take twenty. Exponents of neighbours of which
// `high` is two less are at least 2^9 apart, so that what is between the others has room in an int.
struct LongExponent {
  static constexpr int digit = 9, mask = (1 << digit) - 1;
  struct Type {
    int high, low;
  };
  static constexpr int forbidden_high = -(1 << 30) - 7 * (1 << 27);  // costs may take it 2^27 lower
  static constexpr float range = -static_cast<float>(forbidden_high) * (1 << digit);
  static __device__ __forceinline__ Type forbidden() { return {forbidden_high, 0}; }
  static __device__ __forceinline__ Type zero() { return {0, 0}; }

  // high 2^9 + sum, any int.
  static __device__ __forceinline__ Type carry(int high, int sum) { return {high + (sum >> digit), sum & mask}; }
  // e - 2^9 high, for an e that is no more than 2^9 beyond; at least -2^10.
  static __device__ __forceinline__ int beyond(const Type &e, int high) {
    return ptx::scaled_sum<1 << digit>(__viaddmax_s32(e.high, -high, -2), e.low);
  }
  struct Shifts {
    int high, x, d, v, h;  // the largest exponent is 2^9 high + x
    __device__ __forceinline__ Shifts(const Type &of_d, const Type &of_v, const Type &of_h)
        : high(__vimax3_s32(of_d.high, of_h.high, of_v.high)) {
      const int d_beyond = beyond(of_d, high), v_beyond = beyond(of_v, high), h_beyond = beyond(of_h, high);
      x = __vimax3_s32(d_beyond, h_beyond, v_beyond);
      d = ShortExponent::shift(d_beyond, x), v = ShortExponent::shift(v_beyond, x);
      h = ShortExponent::shift(h_beyond, x);
    }
    __device__ __forceinline__ Type less(int n) const { return carry(high, x - n); }
  };
  static __device__ __forceinline__ Type sum(const Type &e, int more) { return carry(e.high, e.low + more); }
  static __device__ __forceinline__ double value(const Type &e) {
    return static_cast<double>(e.high) * (1 << digit) + e.low;
  }
  static __device__ __forceinline__ Type select(bool first, const Type &a, const Type &b) {
    return {first ? a.high : b.high, first ? a.low : b.low};
  }
  static __device__ __forceinline__ Type shuffle(const Type &e, int lane) {
    return {__shfl_sync(all_lanes, e.high, lane), __shfl_sync(all_lanes, e.low, lane)};
  }

  // The word is `high`, `low` and what m is more than 1. With its sign turned `high` is all ones for no exponent
  // that a pair has.
  static __device__ __forceinline__ Word pack(float m, const Type &e) {
    const unsigned low = static_cast<unsigned>(e.low) << 23 | (__float_as_uint(m) & 0x7fffffu);
    return static_cast<Word>(static_cast<unsigned>(e.high) ^ 0x80000000u) << 32 | low;
  }
};

// Cells of a float and either exponent. Both give the same bits of m, where both have room for the exponents.
template <class Exponent_>
struct ScaledCell {
  using Exponent = Exponent_;
  using Real = float;
  using Cost = FloatCost;
  static constexpr bool wide = false;
  static __device__ __forceinline__ constexpr int words(Format) { return 1; }
  struct Z {
    float m;
    typename Exponent::Type e;
  };

  static __device__ __forceinline__ Z forbidden() { return {1, Exponent::forbidden()}; }
  static __device__ __forceinline__ Z one() { return {1, Exponent::zero()}; }
  static __device__ __forceinline__ double exponent(const Z &z) { return Exponent::value(z.e); }
  static __device__ __forceinline__ Z select(bool first, const Z &a, const Z &b) {
    return {first ? a.m : b.m, Exponent::select(first, a.e, b.e)};
  }
  // z, or a forbidden cell, whose m is as good as any other.
  static __device__ __forceinline__ Z unless(bool forbid, const Z &z) {
    return {z.m, Exponent::select(forbid, Exponent::forbidden(), z.e)};
  }
  static __device__ __forceinline__ Z shuffle(const Z &z, int lane) {
    return {__shfl_sync(all_lanes, z.m, lane), Exponent::shuffle(z.e, lane)};
  }

  // m 2^shift.
  static __device__ __forceinline__ float scaled(float m, int shift) {
    check_range(m, 0x1p-17, 0x1p30);
    return __uint_as_float(__float_as_uint(m) + (static_cast<unsigned>(shift) << 23));
  }

  // The cell of a cost and the neighbours d (diagonal), v (vertical), h (horizontal); if with_terms, p is the three
  // terms of s. The vertical neighbour is the last to be known, so s is one fused multiply-add away from it:
  // multiplying v.m by a power of two is exact, so the sum has the same bits as the sum of the terms.
  template <bool with_terms>
  static __device__ __forceinline__ Z next(const Cost &cost, const Z &d, const Z &v, const Z &h,
                                           float (&p)[transitions]) {
    const typename Exponent::Shifts shift(d.e, v.e, h.e);
    const float td = scaled(d.m, shift.d), th = scaled(h.m, shift.h);
    if constexpr (with_terms) p[diagonal] = td, p[vertical] = scaled(v.m, shift.v), p[horizontal] = th;
    const float s = fmaf(v.m, __uint_as_float((static_cast<unsigned>(shift.v) << 23) + 0x3f800000u), td + th);
    return {fmaf(s, cost.q, s), shift.less(cost.n)};
  }

  // Brings m to [1, 2) without changing m 2^e.
  static __device__ __forceinline__ void renormalise(Z &z) {
    const int shift = (__float_as_int(z.m) >> 23) - 127;
    z.m = __uint_as_float(__float_as_uint(z.m) - (static_cast<unsigned>(shift) << 23));
    z.e = Exponent::sum(z.e, shift);
  }

  // Of LongCell a normalised z.
  static __device__ __forceinline__ Word pack(const Z &z) { return Exponent::pack(z.m, z.e); }
};

struct FloatCell : ScaledCell<ShortExponent> {
  // log2(e) / gamma for given costs, as the sum of two floats. Were it rounded to one float, the value would be off by
  // 2^-25 <E, D>, which may be far more than the value itself.
  struct Scale {
    float high, low;
    __device__ __forceinline__ explicit Scale(double scale)
        : high(static_cast<float>(scale)), low(static_cast<float>(scale - static_cast<double>(high))) {}
  };
  static __device__ __forceinline__ Cost split(float cost, const Scale &scale) {
    constexpr float round = 12582912.0f;  // 1.5 2^23: adding it rounds to an integer, in the low bits of the sum
    const float r = fmaf(cost, scale.high, round);
    float f = fmaf(cost, scale.low, fmaf(cost, scale.high, -(r - round)));
#ifdef SDTW_CHECKED
    f = fminf(fmaxf(f, -0.5f), 0.5f);  // f may be anything in a pair that is rejected later
#endif
    return {exp2_minus_1(f), static_cast<int>(__float_as_uint(r) - __float_as_uint(round))};
  }

  // As a neighbour of which the largest exponent is known.
  static __device__ __forceinline__ int shift(const Z &z, int x) {
    check_range(z.m, 0x1p-17, 0x1p30);
    return ShortExponent::shift(z.e, x);
  }
  static __device__ __forceinline__ float term(const Z &z, int x) { return scaled(z.m, ShortExponent::shift(z.e, x)); }

  static __device__ __forceinline__ Z unpack(Word word) {
    return {__uint_as_float(static_cast<unsigned>(word)), static_cast<int>(word >> 32)};
  }
  static __device__ __forceinline__ Z unpack(Word word, Word, Format) { return unpack(word); }
  static __device__ __forceinline__ void store(Word *p, int64_t i, Format, const Z &z) {
    store_relaxed(p + i, pack(z));
  }
  // load: of words that an earlier kernel has written. load_own: of words that this kernel has written, past L1.
  static __device__ __forceinline__ Z load(const Word *p, int64_t i, Format) { return unpack(__ldg(p + i)); }
  static __device__ __forceinline__ Z load_own(const Word *p, int64_t i, Format) { return unpack(__ldcg(p + i)); }
};

// For pairs whose exponents leave an int's range. Words are those of one_word, or those that FloatCell has stored
// (float_word), which it reads as well.
struct LongCell : ScaledCell<LongExponent> {
  static __device__ __forceinline__ Z unpack(Word word, Word, Format format) {
    const auto low = static_cast<unsigned>(word);
    if (format == float_word) {
      const FloatCell::Z z = FloatCell::unpack(word);
      return {z.m, LongExponent::carry(0, z.e)};
    }
    return {__uint_as_float((low & 0x7fffffu) | 0x3f800000u),
            {static_cast<int>(static_cast<unsigned>(word >> 32) ^ 0x80000000u), static_cast<int>(low >> 23)}};
  }
  static __device__ __forceinline__ void store(Word *p, int64_t i, Format, Z z) {
    renormalise(z);
    store_relaxed(p + i, pack(z));
  }
  static __device__ __forceinline__ Z load(const Word *p, int64_t i, Format format) {
    return unpack(__ldg(p + i), 0, format);
  }
  static __device__ __forceinline__ Z load_own(const Word *p, int64_t i, Format format) {
    return unpack(__ldcg(p + i), 0, format);
  }
};

// Whether E is not negligible. NaN counts as live.
template <class Real>
__device__ __forceinline__ bool is_live(Real e) {
  return !(e < static_cast<Real>(core::negligible_alignment));
}

// Amounts of E, to be added up over many steps and lanes: doubles in float64, floats as integers in units of 2^-30,
// which an int has room for because there is never more than 1 of E.
template <class Real>
struct Measure {
  using Amount = double;
  static constexpr Real unit = 1, least = 0x1p-20;  // least: of a smaller amount it is not known what rounding has cost
  static __device__ __forceinline__ Amount of(double flow) { return flow; }
};
template <>
struct Measure<float> {
  using Amount = int;
  static constexpr float unit = 0x1p-30f, least = 0x1p-8f;
  static __device__ __forceinline__ Amount of(float flow) { return __float2int_rn(flow * 0x1p30f); }
};

}  // namespace sdtw::cuda
