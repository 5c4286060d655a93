// The oracle's metrics of series: costs and their derivatives, from the formulas of sdtw.h.
#pragma once

#include "oracle.h"

namespace oracle {

// sum_k (x_k - y_k)^2 over the features of two time steps.
template <class Real, class T>
Real sqeuclidean(const T *x, const T *y, int64_t features) {
  Real sum(0);
  for (int64_t k = 0; k < features; ++k) {
    const Real difference = static_cast<Real>(x[k]) - static_cast<Real>(y[k]);
    sum += difference * difference;
  }
  return sum;
}

// <x, y>, <x, x> and <y, y>.
template <class Real>
struct Products {
  Real xy{0}, xx{0}, yy{0};
  template <class T>
  Products(const T *x, const T *y, int64_t features) {
    for (int64_t k = 0; k < features; ++k) {
      const auto a = static_cast<Real>(x[k]), b = static_cast<Real>(y[k]);
      xy += a * b, xx += a * a, yy += b * b;
    }
  }
  // Of the angle between x and y; 0 where one of them is 0.
  Real sine() const {
    using std::sqrt;
    if (xx == 0 || yy == 0) return Real(0);
    const Real cosine = xy / (sqrt(xx) * sqrt(yy)), square = (1 - cosine) * (1 + cosine);
    return square > 0 ? sqrt(square) : Real(0);
  }
  // Beside a point with NaN or an infinity a zero vector has no cost either.
  bool has_zero() const { return (value_of(xx) == 0 || value_of(yy) == 0) && std::isfinite(value_of(xx + yy)); }
};

template <class Real, class T>
Real metric_cost(sdtw_metric metric, const T *x, const T *y, int64_t features) {
  using std::abs;
  using std::sqrt;
  if (metric == SDTW_EUCLIDEAN) return sqrt(sqeuclidean<Real>(x, y, features));
  if (metric == SDTW_CITYBLOCK) {
    Real sum(0);
    for (int64_t k = 0; k < features; ++k) sum += abs(static_cast<Real>(x[k]) - static_cast<Real>(y[k]));
    return sum;
  }
  if (metric == SDTW_COSINE) {
    const Products<Real> p(x, y, features);
    return p.has_zero() ? Real(1) : Real(1) - p.xy / (sqrt(p.xx) * sqrt(p.yy));
  }
  return sqeuclidean<Real>(x, y, features);
}

// Adds e times the cost's derivative to grad_x and grad_y, [features] each.
template <class Real, class T>
void add_slope(sdtw_metric metric, const Real &e, const T *x, const T *y, int64_t features, Real *grad_x,
               Real *grad_y) {
  using std::sqrt;
  const auto add = [&](int64_t k, const Real &of_x, const Real &of_y) {
    grad_x[k] += e * of_x;
    grad_y[k] += e * of_y;
  };
  if (metric == SDTW_COSINE) {
    const Products<Real> p(x, y, features);
    if (p.has_zero()) return;
    const Real norms = sqrt(p.xx) * sqrt(p.yy), similarity = p.xy / norms;
    for (int64_t k = 0; k < features; ++k) {
      const auto a = static_cast<Real>(x[k]), b = static_cast<Real>(y[k]);
      add(k, similarity * a / p.xx - b / norms, similarity * b / p.yy - a / norms);
    }
    return;
  }
  const Real cost = metric_cost<Real>(metric, x, y, features);
  if (metric == SDTW_EUCLIDEAN && value_of(cost) == 0) return;
  for (int64_t k = 0; k < features; ++k) {
    const Real difference = static_cast<Real>(x[k]) - static_cast<Real>(y[k]);
    const int sign = int(value_of(difference) > 0) - int(value_of(difference) < 0);
    const Real slope = metric == SDTW_CITYBLOCK   ? Real(sign)
                       : metric == SDTW_EUCLIDEAN ? difference / cost
                                                  : Real(2) * difference;
    add(k, slope, -slope);
  }
}

// Adds g times the gradients of a pair's value with respect to x [n, features] and y [m, features], both contiguous. An
// E of exactly 0 contributes nothing, whatever x and y are.
template <class Real, class T>
void add_gradients(sdtw_metric metric, const Pair<Real> &pair, const Real &g, const T *x, const T *y, int64_t n,
                   int64_t m, int64_t features, Real *grad_x, Real *grad_y) {
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) {
      const Real e = pair.gradient[i * m + j];
      if (value_of(pair.alignment[i * m + j]) == 0) continue;
      add_slope(metric, g * e, x + i * features, y + j * features, features, grad_x + i * features,
                grad_y + j * features);
    }
}

}  // namespace oracle
