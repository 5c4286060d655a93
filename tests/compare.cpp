#include "compare.h"

namespace test {

Errors larger(const Errors &a, const Errors &b) {
  return {std::max(a.value, b.value), std::max(a.gradient, b.gradient), std::max(a.alignment, b.alignment),
          std::max(a.value_tangent, b.value_tangent), std::max(a.gradient_tangent, b.gradient_tangent)};
}

template <class Real>
double distance(const double *actual, const Real *expected, int64_t count, sdtw_dtype dtype) {
  double largest = 0;
  for (int64_t k = 0; k < count; ++k) {
    if (std::isnan(expected[k]) && std::isnan(actual[k])) continue;
    if (static_cast<Real>(actual[k]) == expected[k]) continue;
    const auto there = static_cast<double>(expected[k]);
    if ((is_half(dtype) || std::isinf(actual[k])) && actual[k] == rounded(dtype, there)) continue;
    const double here = std::isfinite(there) ? within_range(dtype, actual[k]) : actual[k];
    const double difference =
        static_cast<double>(std::abs(static_cast<Real>(here) - expected[k])) - half_an_ulp(dtype, there);
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

namespace {

// Of the series of pair b: the largest difference of a feature between steps, and the largest number.
struct SeriesRange {
  double span = 0, largest = 0;
};
SeriesRange range_of(const Case &c, int64_t b) {
  const int64_t features = c.problem.features;
  SeriesRange range;
  for (int64_t f = 0; f < features; ++f) {
    double least = oracle::infinity<double>, most = -least;
    const auto include = [&](const std::vector<double> &series, int64_t index, int64_t padded, int64_t steps) {
      for (int64_t i = 0; i < steps; ++i) {
        const double v = series[(index * padded + i) * features + f];
        least = std::min(least, v), most = std::max(most, v);
      }
    };
    include(c.x, c.index_x(b), c.problem.n, std::min(c.length_x(b), c.problem.n));
    include(c.symmetric() ? c.x : c.y, c.index_y(b), c.problem.m, std::min(c.length_y(b), c.problem.m));
    range.span = std::max(range.span, most - least);
    range.largest = std::max({range.largest, most, -least});
  }
  return range;
}

// E below 1e-12 counts as 0 (sdtw.h): what that is worth in a gradient, of a few cells of derivatives up to 1. Where
// series are equal, or likely steps have weight 0, there is no more to gradients than that.
double negligible_alignment(const Case &c, int64_t b) {
  if (!c.fused() && c.unit_steps()) return 0;  // E is 1 in the corners
  const double g = c.grad_value.empty() ? 1 : std::abs(c.grad_value[b]);
  return std::isfinite(g) ? 4e-12 * g : 0;
}

// What gradients of pair b may be off by whatever they are. Rows that a strip has beyond a pair, of points 0, may have
// E of 1e-30, in tens of thousands of cells: of points of 928, all alike, a gradient was 5.7e-25.
double negligible_gradient(const Case &c, int64_t b) {
  if (c.problem.metric != SDTW_SQEUCLIDEAN) return negligible_alignment(c, b);
  const SeriesRange range = range_of(c, b);
  return std::isfinite(range.span) ? negligible_alignment(c, b) * (range.span + 1e-15 * range.largest) : 0;
}

// The same of the gradients' derivatives along the tangents: E of the derivative of twice a difference, which series
// of equal steps have, too; and E's own derivative, E times a path's over gamma, here of one cell.
double negligible_tangent(const Case &c, int64_t b) {
  const double gamma = c.problem.gamma, negligible = negligible_gradient(c, b);
  double reach = max_norm(c.tangent_x.data(), int64_t(c.tangent_x.size())) +
                 max_norm(c.tangent_y.data(), int64_t(c.tangent_y.size()));
  if (!std::isfinite(reach)) return negligible;
  const bool squared = c.problem.metric == SDTW_SQEUCLIDEAN;
  const double local = squared ? negligible_alignment(c, b) * 2 * reach : 0;
  if (negligible == 0 || gamma == 0) return negligible + local;
  if (squared) reach *= 2 * range_of(c, b).span;
  return local + negligible * (1 + reach * double(c.problem.features) / gamma);
}

}  // namespace

template <class Real>
Errors compare_pair(const Case &c, const Result &result, const Reference<Real> &ref, int64_t b) {
  const sdtw_dtype dtype = c.problem.dtype;
  const int64_t step_e = c.problem.n * c.problem.m;
  Errors errors;
  errors.value = ratio(distance(&result.value[b], &ref.value[b], 1, value_type(c)), double(ref.scale[b]));
  if (!result.alignment.empty() && !ref.alignment.empty())
    errors.alignment = distance(result.alignment.data() + b * step_e, ref.alignment.data() + b * step_e, step_e, dtype);
  if (!result.value_tangent.empty() && !ref.value_tangent.empty())
    errors.value_tangent = ratio(distance(&result.value_tangent[b], &ref.value_tangent[b], 1, value_type(c)),
                                 static_cast<double>(ref.value_tangent_scale[b]));
  if (c.all_pairs()) return errors;
  const int64_t step_x = c.problem.n * c.shape_x()[2], step_y = c.fused() ? c.problem.m * c.problem.features : 0;
  const auto off = [&](const std::vector<double> &actual, const std::vector<Real> &expected, int64_t step) {
    if (actual.empty() || expected.empty()) return 0.;
    return distance(actual.data() + b * step, expected.data() + b * step, step, dtype);
  };
  const auto largest = [&](const std::vector<Real> &x, const std::vector<Real> &y) {
    return std::max(x.empty() ? 0 : max_norm(x.data() + b * step_x, step_x),
                    y.empty() ? 0 : max_norm(y.data() + b * step_y, step_y));
  };
  const double gradient = std::max(off(result.grad_x, ref.grad_x, step_x), off(result.grad_y, ref.grad_y, step_y));
  const double scale = c.problem.metric == SDTW_COSINE && !ref.grad_x_scale.empty()
                           ? static_cast<double>(ref.grad_x_scale[b])
                           : largest(ref.grad_x, ref.grad_y);
  errors.gradient = ratio(std::max(0., gradient - negligible_gradient(c, b)), scale);
  if (!ref.grad_x_tangent.empty()) {
    const double tangent = std::max(off(result.grad_x_tangent, ref.grad_x_tangent, step_x),
                                    off(result.grad_y_tangent, ref.grad_y_tangent, step_y));
    errors.gradient_tangent =
        ratio(std::max(0., tangent - negligible_tangent(c, b)), static_cast<double>(ref.grad_x_tangent_scale[b]));
  }
  return errors;
}

namespace {

// Of a series that belongs to many pairs: the largest error of gradients, relative to its scale.
template <class Real>
double compare_series(const std::vector<double> &actual, const std::vector<Real> &expected,
                      const std::vector<Real> &scales, int64_t series, sdtw_dtype dtype, double negligible) {
  if (actual.empty() || expected.empty()) return 0;
  const auto step = static_cast<int64_t>(expected.size() / scales.size());
  const double off = distance(actual.data() + series * step, expected.data() + series * step, step, dtype);
  return ratio(std::max(0., off - negligible), static_cast<double>(scales[series]));
}

}  // namespace

template <class Real>
Errors compare(const Case &c, const Result &result, const Reference<Real> &ref) {
  Errors errors;
  for (int64_t b = 0; b < c.batch(); ++b) errors = larger(errors, compare_pair(c, result, ref, b));
  if (!c.all_pairs()) return errors;
  std::vector<double> of_x(c.series_x()), of_y(c.series_y()), tangent_x = of_x, tangent_y = of_y;
  for (int64_t b = 0; b < c.batch(); ++b) {
    const double of_gradient = negligible_gradient(c, b), of_tangent = negligible_tangent(c, b);
    of_x[c.index_x(b)] += of_gradient, tangent_x[c.index_x(b)] += of_tangent;
    (c.symmetric() ? of_x : of_y)[c.index_y(b)] += of_gradient;
    (c.symmetric() ? tangent_x : tangent_y)[c.index_y(b)] += of_tangent;
  }
  const auto hold = [&](double &error, const auto &actual, const auto &expected, const auto &scales,
                        const auto &least) {
    for (size_t s = 0; s < least.size(); ++s)
      error = std::max(error, compare_series(actual, expected, scales, s, c.problem.dtype, least[s]));
  };
  hold(errors.gradient, result.grad_x, ref.grad_x, ref.grad_x_scale, of_x);
  hold(errors.gradient_tangent, result.grad_x_tangent, ref.grad_x_tangent, ref.grad_x_tangent_scale, tangent_x);
  if (!c.has_y()) return errors;
  hold(errors.gradient, result.grad_y, ref.grad_y, ref.grad_y_scale, of_y);
  hold(errors.gradient_tangent, result.grad_y_tangent, ref.grad_y_tangent, ref.grad_y_tangent_scale, tangent_y);
  return errors;
}

bool has_exact_exponents(const Case &c) {
  const sdtw_problem &p = c.problem;
  if (p.gamma == 0) return true;
  double largest = 0, step = 0;
  for (const std::vector<double> *values : {&c.x, &c.y})
    for (const double v : *values)
      if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  const double apart = 2 * largest, cost = double(p.features) * std::max(apart, apart * apart);
  for (int k = 0; k < 3; ++k)
    step = std::max(step, p.step_weight[k] * (c.fused() ? cost : largest) + std::abs(p.step_penalty[k]));
  return double(p.n + p.m) * step / p.gamma < 0x1p51;
}

bool same_derivatives(const Result &a, const Result &b) {
  return same(a.grad_x, b.grad_x) && same(a.grad_y, b.grad_y) && same(a.alignment, b.alignment);
}

bool same(const Result &a, const Result &b) {
  return same(a.value, b.value) && same_derivatives(a, b) && same(a.value_tangent, b.value_tangent) &&
         same(a.grad_x_tangent, b.grad_x_tangent) && same(a.grad_y_tangent, b.grad_y_tangent) &&
         same(a.backward_value, b.backward_value) && same(a.alignment_value, b.alignment_value) &&
         same(a.jvp_value, b.jvp_value);
}

template double distance(const double *, const double *, int64_t, sdtw_dtype);
template double max_norm(const double *, int64_t);
template Errors compare_pair(const Case &, const Result &, const Reference<double> &, int64_t);
template Errors compare(const Case &, const Result &, const Reference<double> &);
template double distance(const double *, const long double *, int64_t, sdtw_dtype);
template double max_norm(const long double *, int64_t);
template Errors compare_pair(const Case &, const Result &, const Reference<long double> &, int64_t);
template Errors compare(const Case &, const Result &, const Reference<long double> &);

}  // namespace test
