// An oracle of its own for soft-DTW and its family: the plain log-domain recursion, one pair at a time, in double, long
// double or dual numbers (dual.h), with step weights and penalties, bands, and gamma = 0.
//
// It shares no code with the library. test_oracle.cpp checks it by enumerating every alignment of tiny pairs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "dual.h"
#include "sdtw.h"

namespace oracle {

template <class Real>
constexpr Real infinity = std::numeric_limits<Real>::infinity();
template <class Real>
constexpr Real not_a_number = std::numeric_limits<Real>::quiet_NaN();

// What is known of one pair whose own lengths are n and m.
template <class Real>
struct Pair {
  Real value;
  std::vector<Real> alignment;  // the probability that a path visits the cell, [n, m]
  std::vector<Real> gradient;   // d value / d cost: by step weights, too
  Real path = 0;                // the expected sum of the sizes of a path's terms, <steps, w |D| + |p|>
};

// How paths may step, and how much a step costs: w D + p. Steps are diagonal, vertical (from the row above) and
// horizontal.
struct Rule {
  double gamma = 1;
  double weight[3] = {1, 1, 1}, penalty[3] = {0, 0, 0};
  sdtw_band band = SDTW_BAND_NONE;
  double radius = 0;  // SDTW_BAND_ITAKURA: the slope
};

// As tslearn.metrics has its masks: bounds of rows for each column, rounded to hundredths, so that a row is within a
// bound that it misses by half of one. In whole numbers, of a slope p / q: where a row misses a bound by just that
// much, rounding of slopes would take it or leave it.
inline bool itakura_admits(double slope, int64_t n, int64_t m, int64_t i, int64_t j) {
  __extension__ using Whole = __int128;
  double digits = std::min(slope, 0x1p30);  // steeper than any path of series that are less than 2^22 steps long
  Whole q = 1;
  for (; digits != std::floor(digits); digits *= 2) q *= 2;
  const auto p = static_cast<Whole>(digits);
  const auto in_cone = [&](int64_t down, int64_t right) {
    return 200 * q * m * down <= 200 * p * n * right + q * m && 200 * q * n * right <= 200 * p * m * down + p * m;
  };
  return in_cone(i, j) && in_cone(n - 1 - i, m - 1 - j);
}

inline bool admits(const Rule &rule, int64_t n, int64_t m, int64_t i, int64_t j) {
  const auto within = [&](int64_t cells) { return static_cast<double>(cells) <= rule.radius; };
  const int64_t right = j - i, more = std::max<int64_t>(m - n, 0), less = std::max<int64_t>(n - m, 0);
  switch (rule.band) {
    case SDTW_BAND_SAKOE_CHIBA: return within(-right - less) && within(right - more);
    case SDTW_BAND_ABSOLUTE: return within(-right) && within(right);
    case SDTW_BAND_ITAKURA: return itakura_admits(rule.radius, n, m, i, j);
    default: return true;
  }
}

// The probabilities softmax(-a / gamma) of three steps, and the soft minimum that they belong to; gamma = 0: the first
// of the least.
template <class Real>
struct Softmin {
  Real weight[3];
  Real value;
};

template <class Real>
Softmin<Real> softmin(const Real (&candidate)[3], double gamma) {
  using std::exp;
  using std::log;
  Softmin<Real> result{{Real(0), Real(0), Real(0)}, Real(std::numeric_limits<double>::infinity())};
  int least = 0;
  for (int k = 1; k < 3; ++k)
    if (candidate[k] < candidate[least]) least = k;
  const Real low = candidate[least];
  if (std::isinf(value_of(low))) return result;
  if (gamma == 0) {
    result.weight[least] = Real(1);
    result.value = low;
    return result;
  }
  Real sum(0);
  for (int k = 0; k < 3; ++k)
    if (!std::isinf(value_of(candidate[k])))
      sum += result.weight[k] = k == least ? Real(1) : exp((low - candidate[k]) / Real(gamma));
  for (Real &weight : result.weight) weight /= sum;
  result.value = low - Real(gamma) * log(sum);
  return result;
}

// The recursion of one pair.
template <class Real, class Cost>
class Solver {
 public:
  Solver(int64_t n, int64_t m, const Rule &rule, const Cost &cost)
      : n_(n), m_(m), rule_(rule), cost_(cost), r_((n + 1) * (m + 1), Real(infinity<double>)) {}

  Pair<Real> solve(bool with_alignment) {
    if (n_ == 0 || m_ == 0) return {Real(n_ == m_ ? 0 : infinity<double>), {}, {}};
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t j = 0; j < m_; ++j)
        if (admits(rule_, n_, m_, i, j)) r(i, j) = step_into(i, j).value;
    Pair<Real> pair{r(n_ - 1, m_ - 1), {}, {}};
    if (invalid_) pair.value = Real(not_a_number<double>);
    if (!with_alignment) return pair;
    pair.alignment.assign(n_ * m_, invalid_ ? pair.value : Real(0));
    pair.gradient = pair.alignment;
    if (!invalid_ && !std::isinf(value_of(pair.value))) walk_back(pair);
    return pair;
  }

 private:
  Real &r(int64_t i, int64_t j) { return r_[(i + 1) * (m_ + 1) + j + 1]; }

  Softmin<Real> step_into(int64_t i, int64_t j) {
    const Real d = cost_(i, j);
    const Real forbidden(infinity<double>);
    invalid_ |= std::isnan(value_of(d)) || (std::isinf(value_of(d)) && value_of(d) < 0);
    if (std::isinf(value_of(d)) || std::isnan(value_of(d))) return {{Real(0), Real(0), Real(0)}, forbidden};
    const auto by = [&](int k) { return Real(rule_.weight[k]) * d; };
    if (i == 0 && j == 0) return {{Real(1), Real(0), Real(0)}, by(0)};
    const auto penalty = [&](int k) { return Real(rule_.penalty[k]); };
    return softmin<Real>(
        {by(0) + penalty(0) + r(i - 1, j - 1), by(1) + penalty(1) + r(i - 1, j), by(2) + penalty(2) + r(i, j - 1)},
        rule_.gamma);
  }

  // Cuturi and Blondel 2017, Algorithm 2, in the form that passes E on by the weights of the soft minimum, which cannot
  // cancel.
  void walk_back(Pair<Real> &pair) {
    using std::abs;
    pair.alignment.back() = Real(1);
    for (int64_t i = n_ - 1; i >= 0; --i)
      for (int64_t j = m_ - 1; j >= 0; --j) {
        const Real e = pair.alignment[i * m_ + j];
        if (value_of(e) < 1e-30) continue;  // far below every tolerance; most cells of a long pair
        const Softmin<Real> from = step_into(i, j);
        const Real d = cost_(i, j);
        const bool first = i == 0 && j == 0;
        for (int k = 0; k < 3; ++k) {
          const Real by = e * from.weight[k];
          if (value_of(by) == 0) continue;
          pair.gradient[i * m_ + j] += by * Real(rule_.weight[k]);
          pair.path += by * (Real(rule_.weight[k]) * abs(d) + Real(first ? 0 : std::abs(rule_.penalty[k])));
          const int64_t up = k == 2 ? 0 : 1, left = k == 1 ? 0 : 1;
          if (!first) pair.alignment[(i - up) * m_ + j - left] += by;
        }
      }
  }

  int64_t n_, m_;
  const Rule &rule_;
  const Cost &cost_;
  std::vector<Real> r_;  // with the padded border
  bool invalid_ = false;
};

// Soft-DTW of one pair; cost(i, j) is its cost, and is asked of admitted cells alone.
template <class Real, class Cost>
Pair<Real> soft_dtw(int64_t n, int64_t m, const Rule &rule, const Cost &cost, bool with_alignment = true) {
  return Solver<Real, Cost>(n, m, rule, cost).solve(with_alignment);
}

// Where e [n, padded] is one admissible path and its cost is the pair's value but for tolerance, relative to its terms
// and to `unit` for each step, makes it the pair's.
template <class Real, class Cost, class Tolerance>
void adopt_path(int64_t n, int64_t m, int64_t padded, const Rule &rule, const Cost &cost, const double *e,
                Tolerance tolerance, Tolerance unit, Pair<Real> &pair) {
  using std::abs;
  Pair<Real> other{Real(0), std::vector<Real>(n * m, Real(0)), std::vector<Real>(n * m, Real(0))};
  int64_t visited = 0, steps = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) visited += e[i * padded + j] != 0;
  for (int64_t i = 0, j = 0, kind = 0;;) {
    if (e[i * padded + j] != 1 || !admits(rule, n, m, i, j)) return;
    const bool first = steps++ == 0;
    const Real d = cost(i, j), weighted = Real(rule.weight[kind]) * d;
    const double penalty = first ? 0 : rule.penalty[kind];
    other.value += weighted + Real(penalty);
    other.path += abs(weighted) + Real(std::abs(penalty));
    other.alignment[i * m + j] = Real(1);
    other.gradient[i * m + j] = Real(rule.weight[kind]);
    if (i == n - 1 && j == m - 1) break;
    // A path that has the cell beside or below goes there: those beyond are reached from it.
    const bool down = i < n - 1 && e[(i + 1) * padded + j] == 1, right = j < m - 1 && e[i * padded + j + 1] == 1;
    if (!down && !right && (i == n - 1 || j == m - 1)) return;
    kind = down ? 1 : right ? 2 : 0;
    i += kind == 2 ? 0 : 1, j += kind == 1 ? 0 : 1;
  }
  if (steps != visited) return;
  const Tolerance terms = value_of(other.path + pair.path) + unit * static_cast<Tolerance>(steps);
  if (abs(value_of(other.value) - value_of(pair.value)) <= tolerance * terms) pair = std::move(other);
}

template <class Real, class Cost>
Pair<Real> soft_dtw(int64_t n, int64_t m, double gamma, const Cost &cost, bool with_alignment = true) {
  Rule rule;
  rule.gamma = gamma;
  return soft_dtw<Real>(n, m, rule, cost, with_alignment);
}

}  // namespace oracle
