// An oracle of its own for soft-DTW: the plain log-domain recursion, one pair at a time, in double or long double.
//
// It shares no code with the library. test_oracle.cpp checks it by enumerating every alignment of tiny pairs.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace oracle {

template <class Real>
constexpr Real infinity = std::numeric_limits<Real>::infinity();
template <class Real>
constexpr Real not_a_number = std::numeric_limits<Real>::quiet_NaN();

// What is known of one pair whose own lengths are n and m.
template <class Real>
struct Pair {
  Real value;
  std::vector<Real> alignment;  // E, [n, m]
};

// The weights softmax(-a / gamma) of three predecessors, and the soft minimum that they belong to.
template <class Real>
struct Softmin {
  Real weight[3];
  Real value;
};

template <class Real>
Softmin<Real> softmin(Real a, Real b, Real c, Real gamma) {
  const Real candidate[3] = {a, b, c};
  const Real least = std::min({a, b, c});
  if (std::isinf(least)) return {{0, 0, 0}, infinity<Real>};
  Softmin<Real> result;
  Real sum = 0;
  for (int k = 0; k < 3; ++k) {
    result.weight[k] = candidate[k] == least ? 1 : std::exp((least - candidate[k]) / gamma);
    sum += result.weight[k];
  }
  for (Real &weight : result.weight) weight /= sum;
  result.value = least - gamma * std::log(sum);
  return result;
}

// Soft-DTW of one pair; cost(i, j) is its cost. Cuturi and Blondel 2017, Algorithms 1 and 2; Algorithm 2 in the form
// that passes E on by the weights of the soft minimum, which cannot cancel.
template <class Real, class Cost>
Pair<Real> soft_dtw(int64_t n, int64_t m, Real gamma, const Cost &cost, bool with_alignment = true) {
  if (n == 0 && m == 0) return {0, {}};
  if (n == 0 || m == 0) return {infinity<Real>, {}};
  const int64_t width = m + 1;
  std::vector<Real> accumulated((n + 1) * width, infinity<Real>);
  Real *const r = accumulated.data();
  r[0] = 0;
  bool invalid = false;
  for (int64_t i = 1; i <= n; ++i)
    for (int64_t j = 1; j <= m; ++j) {
      Real *const cell = r + i * width + j;
      const Real d = cost(i - 1, j - 1);
      invalid |= std::isnan(d) || d == -infinity<Real>;
      *cell = d + softmin(cell[-width - 1], cell[-width], cell[-1], gamma).value;
    }
  Pair<Real> pair{r[n * width + m], {}};
  if (invalid) pair.value = not_a_number<Real>;
  if (!with_alignment) return pair;
  if (invalid) {
    pair.alignment.assign(n * m, not_a_number<Real>);
    return pair;
  }
  pair.alignment.assign(n * m, 0);
  if (std::isinf(pair.value)) return pair;
  pair.alignment.back() = 1;
  for (int64_t i = n - 1; i >= 0; --i)
    for (int64_t j = m - 1; j >= 0; --j) {
      const Real e = pair.alignment[i * m + j];
      if (e < Real(1e-30)) continue;  // far below every tolerance; most cells of a long pair
      const Real *const cell = r + (i + 1) * width + j + 1;
      const Softmin<Real> from = softmin(cell[-width - 1], cell[-width], cell[-1], gamma);
      if (i > 0 && j > 0) pair.alignment[(i - 1) * m + j - 1] += e * from.weight[0];
      if (i > 0) pair.alignment[(i - 1) * m + j] += e * from.weight[1];
      if (j > 0) pair.alignment[i * m + j - 1] += e * from.weight[2];
    }
  return pair;
}

// sum_k (x_k - y_k)^2 over the features of two time steps.
template <class Real, class T>
Real sqeuclidean(const T *x, const T *y, int64_t features) {
  Real sum = 0;
  for (int64_t k = 0; k < features; ++k) {
    const Real difference = static_cast<Real>(x[k]) - static_cast<Real>(y[k]);
    sum += difference * difference;
  }
  return sum;
}

// Gradients with respect to x [n, features] and y [m, features], both contiguous, of g times the value:
// the chain rule through D = sqeuclidean. An E of exactly 0 contributes nothing, whatever x and y are.
template <class Real, class T>
void sqeuclidean_gradients(const Pair<Real> &pair, Real g, const T *x, const T *y, int64_t n, int64_t m,
                           int64_t features, Real *grad_x, Real *grad_y) {
  std::fill(grad_x, grad_x + n * features, Real(0));
  std::fill(grad_y, grad_y + m * features, Real(0));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) {
      const Real e = pair.alignment[i * m + j];
      if (e == 0) continue;
      for (int64_t k = 0; k < features; ++k) {
        const Real term = 2 * g * e * (static_cast<Real>(x[i * features + k]) - static_cast<Real>(y[j * features + k]));
        grad_x[i * features + k] += term;
        grad_y[j * features + k] -= term;
      }
    }
}

}  // namespace oracle
