// What a Case should give according to the oracle, and how far a Result is from it.
#pragma once

#include "oracle.h"
#include "run.h"

namespace test {

template <class Real>
struct Reference {
  std::vector<Real> value, grad_x, grad_y, alignment;  // as in Result
  std::vector<Real> scale;                             // what errors of values are relative to: see value_scale
};

// What the error of a value is relative to, as sdtw.h has it. path: <E, |D|>. Between lengths of which one is 16 times
// the other costs that are nearly 0 all along are rounded to one side by every cell: 2.18e-7 without the last term at
// (3, 136).
inline double value_scale(double value, double path, double gamma, int64_t n, int64_t m) {
  const auto least = static_cast<double>(std::min(n, m)), most = static_cast<double>(std::max(n, m));
  return std::abs(value) + path + gamma * (std::sqrt(least + most) + (most > 16 * least ? 0.15 * most : 0));
}

template <class Real>
struct PairView {  // one pair of a case: its own lengths and where its data begin
  int64_t n, m, features;
  const double *x, *y;
  bool fused;
  Real cost(int64_t i, int64_t j, int64_t columns) const {
    return fused ? oracle::sqeuclidean<Real>(x + i * features, y + j * features, features)
                 : static_cast<Real>(x[i * columns + j]);
  }
};

// As float64 problems see a cost: one beyond a double's range is infinite, one that no exponent can hold spoils its
// pair (sdtw.h). No cost of float32 inputs is either.
template <class Real>
Real seen_cost(const sdtw_problem &p, Real cost) {
  const Real size = std::abs(cost);
  if (p.dtype != SDTW_F64 || !std::isfinite(size)) return cost;
  if (size > static_cast<Real>(std::numeric_limits<double>::max())) return std::copysign(oracle::infinity<Real>, cost);
  return size * static_cast<Real>(1.4426950408889634) / static_cast<Real>(p.gamma) < static_cast<Real>(1e289)
             ? cost
             : oracle::not_a_number<Real>;
}

// Real is long double where float64 results are to be judged.
template <class Real = long double>
Reference<Real> reference(const Case &c, bool with_gradients = true) {
  const sdtw_problem &p = c.problem;
  const int64_t step_x = p.n * c.shape_x()[2], step_y = c.fused() ? p.m * p.features : 0, step_e = p.n * p.m;
  Reference<Real> ref;
  ref.value.resize(c.batch());
  ref.scale.resize(c.batch());
  if (with_gradients) {
    ref.grad_x.assign(c.batch() * step_x, 0);
    ref.grad_y.assign(c.batch() * step_y, 0);
    ref.alignment.assign(c.batch() * step_e, 0);
  }
  for (int64_t b = 0; b < c.batch(); ++b) {
    const PairView<Real> v{c.length_x(b),
                           c.length_y(b),
                           p.features,
                           c.x.data() + b * step_x,
                           c.fused() ? c.y.data() + b * step_y : nullptr,
                           c.fused()};
    const bool in_range = v.n >= 0 && v.n <= p.n && v.m >= 0 && v.m <= p.m;
    oracle::Pair<Real> pair{oracle::not_a_number<Real>, {}};
    if (in_range)
      pair = oracle::soft_dtw<Real>(
          v.n, v.m, p.gamma, [&](int64_t i, int64_t j) { return seen_cost(p, v.cost(i, j, p.m)); }, with_gradients);
    ref.value[b] = pair.value;
    ref.scale[b] = std::abs(pair.value);
    if (!with_gradients) continue;
    if (std::isnan(pair.value)) {
      std::fill_n(ref.grad_x.begin() + b * step_x, step_x, pair.value);
      std::fill_n(ref.grad_y.begin() + b * step_y, step_y, pair.value);
      std::fill_n(ref.alignment.begin() + b * step_e, step_e, pair.value);
      continue;
    }
    if (std::isinf(pair.value) || v.n == 0) continue;
    const Real g = c.grad_value.empty() ? Real(1) : static_cast<Real>(c.grad_value[b]);
    Real path = 0;
    for (int64_t i = 0; i < v.n; ++i)
      for (int64_t j = 0; j < v.m; ++j) {
        const Real e = pair.alignment[i * v.m + j];
        if (e != 0) path += e * std::abs(v.cost(i, j, p.m));
        ref.alignment[b * step_e + i * p.m + j] = e;
        if (!c.fused()) ref.grad_x[b * step_x + i * p.m + j] = g * e;
      }
    ref.scale[b] = value_scale(static_cast<double>(pair.value), static_cast<double>(path), p.gamma, v.n, v.m);
    if (c.fused())
      oracle::sqeuclidean_gradients(pair, g, v.x, v.y, v.n, v.m, p.features, ref.grad_x.data() + b * step_x,
                                    ref.grad_y.data() + b * step_y);
  }
  return ref;
}

// The largest errors over the pairs of a batch. Infinite if a NaN, an infinity or the zero of padding is not where it
// should be.
struct Errors {
  double value = 0;      // relative to the reference's scale
  double gradient = 0;   // max norm, relative to the pair's largest entry in either gradient
  double alignment = 0;  // absolute: the largest E is 1
};

// max |a - b| over a range; infinite where they differ in what is NaN, infinite or, if zeros must be exact, zero.
template <class Real>
double distance(const double *actual, const Real *expected, int64_t count) {
  double largest = 0;
  for (int64_t k = 0; k < count; ++k) {
    if (std::isnan(expected[k]) && std::isnan(actual[k])) continue;
    if (static_cast<Real>(actual[k]) == expected[k]) continue;
    const double difference = static_cast<double>(std::abs(static_cast<Real>(actual[k]) - expected[k]));
    largest = std::isfinite(difference) ? std::max(largest, difference) : static_cast<double>(oracle::infinity<float>);
  }
  return largest;
}

template <class Real>
double max_norm(const Real *values, int64_t count) {
  double largest = 0;
  for (int64_t k = 0; k < count; ++k) largest = std::max(largest, static_cast<double>(std::abs(values[k])));
  return largest;
}

// What gradients may be off by whatever they are: E below 1e-12 counts as 0 (sdtw.h), here of a few cells. Where series
// are equal there is no more to them than that.
inline double negligible_gradient(const Case &c, int64_t b) {
  if (!c.fused()) return 0;
  const int64_t features = c.problem.features;
  double span = 0;
  for (int64_t f = 0; f < features; ++f) {
    double least = oracle::infinity<double>, most = -least;
    const auto include = [&](const std::vector<double> &series, int64_t padded, int64_t steps) {
      for (int64_t i = 0; i < steps; ++i) {
        const double v = series[(b * padded + i) * features + f];
        least = std::min(least, v), most = std::max(most, v);
      }
    };
    include(c.x, c.problem.n, std::min(c.length_x(b), c.problem.n));
    include(c.y, c.problem.m, std::min(c.length_y(b), c.problem.m));
    span = std::max(span, most - least);
  }
  const double g = c.grad_value.empty() ? 1 : std::abs(c.grad_value[b]);
  return std::isfinite(span) && std::isfinite(g) ? 4e-12 * g * span : 0;
}

inline double ratio(double error, double scale) { return error == 0 ? 0 : error / scale; }

// Of pair b alone.
template <class Real>
Errors compare_pair(const Case &c, const Result &result, const Reference<Real> &ref, int64_t b) {
  const int64_t step_x = c.problem.n * c.shape_x()[2], step_y = c.fused() ? c.problem.m * c.problem.features : 0;
  const int64_t step_e = c.problem.n * c.problem.m;
  const Real *gx = ref.grad_x.data() + b * step_x, *gy = ref.grad_y.data() + b * step_y;
  const double largest = std::max(max_norm(gx, step_x), max_norm(gy, step_y));
  double off = 0;
  if (!result.grad_x.empty()) off = distance(result.grad_x.data() + b * step_x, gx, step_x);
  if (!result.grad_y.empty()) off = std::max(off, distance(result.grad_y.data() + b * step_y, gy, step_y));
  Errors errors;
  errors.value = ratio(distance(&result.value[b], &ref.value[b], 1), double(ref.scale[b]));
  errors.gradient = ratio(std::max(0., off - negligible_gradient(c, b)), largest);
  if (!result.alignment.empty())
    errors.alignment = distance(result.alignment.data() + b * step_e, ref.alignment.data() + b * step_e, step_e);
  return errors;
}

template <class Real>
Errors compare(const Case &c, const Result &result, const Reference<Real> &ref) {
  Errors errors;
  for (int64_t b = 0; b < c.batch(); ++b) {
    const Errors of_pair = compare_pair(c, result, ref, b);
    errors.value = std::max(errors.value, of_pair.value);
    errors.gradient = std::max(errors.gradient, of_pair.gradient);
    errors.alignment = std::max(errors.alignment, of_pair.alignment);
  }
  return errors;
}

// Whether two results are the same bit for bit, any NaN being equal to any other.
inline bool same(const std::vector<double> &a, const std::vector<double> &b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](double p, double q) {
    return (std::isnan(p) && std::isnan(q)) || std::memcmp(&p, &q, sizeof p) == 0;
  });
}
inline bool same(const Result &a, const Result &b) {
  return same(a.value, b.value) && same(a.grad_x, b.grad_x) && same(a.grad_y, b.grad_y) &&
         same(a.alignment, b.alignment);
}

}  // namespace test
