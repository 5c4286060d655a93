// One cell of the recurrence and one cell of its adjoint, for any vectors of a CPU; the GPU has cuda/sweep/cell.cuh.
//
// A cell holds Z = exp(-R / gamma) as m 2^e, an extended-exponent number: m a float (or double) kept near 1, e an exact
// integer of its own. In these terms R[i,j] = D + softmin(up, left, diagonal) is a scaled sum (Cuturi and Blondel 2017,
// Algorithm 1, exponentiated): with t = D log2(e) / gamma = n + f, n the nearest integer,
//
//   x = max(e_up, e_left, e_diagonal)
//   s = m_up 2^(e_up - x) + m_left 2^(e_left - x) + m_diagonal 2^(e_diagonal - x)
//   m = s + s q,  q = 2^-f - 1,  e = x - n
//
// Nothing is subtracted that could cancel and exponents are exact, so errors do not accumulate with length, and the
// transition probabilities m_k 2^(e_k - x) / s of Algorithm 2 come out normalised. No logarithm is taken until the end.
// What q is rounded by is relative to f: where costs are the same all along, and errors of the same sign, they are no
// larger than what is due to the costs.
//
// The range of m. s is at least the m of the neighbour with the largest exponent and at most the sum of all three, and
// 1 + q is in [2^-1/2, 2^1/2]: a cell's m is at least its least neighbour's less half a bit, and at most three times
// the largest one's and half a bit. Sweeps (cpu/sweeps.h) bring all that they carry on to [1, 2) every 16 cells of a
// path or so, the neighbour above the first row included; those of penalties and other weights (cpu/rule_sweeps.h),
// which move m by another half bit a cell, every 8 or so. So m stays within 2^-16 and 2^24.2: what the recursion itself
// makes of equal exponents and f = -1/2 from one such time to the next, of what one strip hands to the next, too, which
// tests/test_cells.cpp computes. Nothing grows from strip to strip. Cells outside of a pair are cells like any other. A
// build with SDTW_CHECKED ends where an m is not within least_m and most_m.
//
// V supplies the arithmetic: Real and Exponent (one number or a SIMD vector of them) and operations on them.
#pragma once

#include "core/numbers.h"

#ifdef SDTW_CHECKED
#include <cstdio>
#include <cstdlib>
#endif

namespace sdtw::core {

// Wider than the range of m by a few bits.
constexpr double least_m = 0x1p-20, most_m = 0x1p34;

// 2^-f - 1 for |f| <= 1/2.
template <class V>
inline __attribute__((always_inline)) typename V::Real exp2_minus_1(typename V::Real f) {
  using Poly = Exp2Minus<typename V::Scalar>;
  auto p = V::set1(Poly::c[Poly::degree - 1]);
  for (int i = Poly::degree - 2; i >= 0; --i) p = V::fma(p, f, V::set1(Poly::c[i]));
  return V::mul(p, f);
}

template <class V>
struct Scaled {
  typename V::Real m;
  typename V::Exponent e;
};

// Ends a checked build where m is out of its range. Behind a cost of -infinity, of which the float64 engine learns as
// it goes, m is anything and e is not finite.
template <class V>
inline __attribute__((always_inline)) void check_range([[maybe_unused]] const Scaled<V> &z) {
#ifdef SDTW_CHECKED
  typename V::Scalar m[V::width];
  typename V::ScalarExponent e[V::width];
  V::store(m, z.m);
  V::store(e, z.e);
  for (int l = 0; l < V::width; ++l)
    if (!(m[l] >= least_m && m[l] <= most_m) && (sizeof m[l] == 4 || (m[l] == m[l] && std::isfinite(e[l])))) {
      std::fprintf(stderr, "m = %g is out of range, with the exponent %g\n", double(m[l]), double(e[l]));
      std::abort();
    }
#endif
}

// Probabilities of entering a cell from its three predecessors; they sum to 1.
template <class V>
struct Transition {
  typename V::Real up, left, diagonal;
};

// The three predecessors of a cell, on their common exponent x.
template <class V>
struct Terms {
  typename V::Real up, left, diagonal;
};
template <class V>
struct Sum {
  typename V::Real sum;
  typename V::Exponent x;
};

// Their sum, and if terms are wanted, these. The product of m with a power of two is exact, so that the sum has the
// same bits in both cases.
template <class V>
inline __attribute__((always_inline)) Sum<V> sum_of(Scaled<V> up, Scaled<V> left, Scaled<V> diagonal,
                                                    Terms<V> *terms = nullptr) {
  check_range<V>(up), check_range<V>(left), check_range<V>(diagonal);
  const auto x = V::max(V::max(left.e, diagonal.e), up.e), base = V::base(x);
  // up is the last to be known: it waits for the row above in the same step.
  if (!terms)
    return {
        V::add_scaled(V::add_scaled(V::scale(diagonal.m, diagonal.e, base), left.m, left.e, base), up.m, up.e, base),
        x};
  terms->left = V::scale(left.m, left.e, base);
  terms->diagonal = V::scale(diagonal.m, diagonal.e, base);
  terms->up = V::scale(up.m, up.e, base);
  return {V::add_scaled(V::add(terms->left, terms->diagonal), up.m, up.e, base), x};
}

// What a cost t = integer + fraction (V::split of the cost and log2(e) / gamma) does to a Z: times 1 + excess, and
// 2^-integer.
template <class V>
struct StepFactor {
  typename V::Real excess;
  typename V::Exponent integer;
};
template <class V, class Split>
inline __attribute__((always_inline)) StepFactor<V> step_factor(const Split &t) {
  return {exp2_minus_1<V>(t.fraction), t.integer};
}

// The cell with this cost.
template <class V>
inline __attribute__((always_inline)) Scaled<V> enter(const Sum<V> &of, const StepFactor<V> &cost) {
  return {V::fma(of.sum, cost.excess, of.sum), V::sub(of.x, cost.integer)};
}

// What a cell's terms are of their sum; 0 where nothing enters. Of a rounded reciprocal they come out as 1 or just
// below where one predecessor has it all, never above, so that E leaks all along a path. Both backends scale the E that
// has left a tile to what has entered it (cpu/flow.h, cuda/sweep/adjoint_sweep.cuh), which makes that good.
template <class V>
inline __attribute__((always_inline)) Transition<V> probabilities(const Terms<V> &terms) {
  const auto sum = V::larger(V::add(V::add(terms.left, terms.diagonal), terms.up), V::set1(0x1p-30));
  const auto reciprocal = V::reciprocal(sum);
  return {V::mul(terms.up, reciprocal), V::mul(terms.left, reciprocal), V::mul(terms.diagonal, reciprocal)};
}

}  // namespace sdtw::core
