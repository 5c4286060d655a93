#include "reference.h"

#include <type_traits>

namespace test {

namespace {

// What squared distances from products of float32 points may leave of cells all along the path of pair b, of which the
// costs are 0 (5.7e-5 gamma at (3, 180), where y is x resampled, of 440 features with norms of 10^8 gamma).
double error_of_products(const Case &c, int64_t b) {
  const sdtw_problem &p = c.problem;
  if (!c.fused() || p.metric != SDTW_SQEUCLIDEAN || p.dtype == SDTW_F64 || c.length_x(b) == 0) return 0;
  const auto *origin = c.x.data() + c.index_x(b) * p.n * p.features;
  double largest = 0;
  const auto measure = [&](const auto *points, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      double norm = 0;
      for (int64_t f = 0; f < p.features; ++f) {
        const double difference = points[i * p.features + f] - origin[f];
        norm += difference * difference;
      }
      if (std::isfinite(norm)) largest = std::max(largest, norm);
    }
  };
  measure(origin, c.length_x(b));
  measure((c.symmetric() ? c.x : c.y).data() + c.index_y(b) * p.m * p.features, c.length_y(b));
  const auto steps = static_cast<double>(c.length_x(b) + c.length_y(b));
  return steps * 0x1p-52 * std::sqrt(static_cast<double>(p.features)) * largest;
}

}  // namespace

bool costs_nothing(const Case &c, double cost) { return std::abs(cost) < 1e-4 * c.problem.gamma; }

double value_scale(const Case &c, int64_t b, double value, double path, int64_t steady) {
  const auto n = static_cast<double>(c.length_x(b)), m = static_cast<double>(c.length_y(b));
  const double most = std::max(n, m), slender = most > 16 * std::min(n, m) ? 0.15 * most : 0;
  const double alike = std::max(slender, 0.3 * static_cast<double>(steady));
  return std::abs(value) + path + c.problem.gamma * (std::sqrt(n + m) + alike) + error_of_products(c, b) / value_limit;
}

oracle::Rule rule_of(const sdtw_problem &p) {
  oracle::Rule rule;
  rule.gamma = p.gamma;
  std::copy(p.step_weight, p.step_weight + 3, rule.weight);
  std::copy(p.step_penalty, p.step_penalty + 3, rule.penalty);
  rule.band = p.band;
  rule.radius = p.band_radius;
  return rule;
}

namespace {

// As problems see a cost: one beyond a double's range, as float64 inputs alone can make, is infinite, and one by which
// a step costs more than exponents can hold spoils its pair (sdtw.h). first: of the pair, which has no penalty.
template <class Real>
Real seen_cost(const sdtw_problem &p, const Real &cost, bool first) {
  const auto value = oracle::value_of(cost);
  using Value = std::decay_t<decltype(value)>;
  const Value size = std::abs(value);
  if (!std::isfinite(size)) return cost;
  if (p.dtype == SDTW_F64 && size > static_cast<Value>(std::numeric_limits<double>::max()))
    return Real(std::copysign(oracle::infinity<Value>, value));
  const Value scale = p.gamma > 0 ? static_cast<Value>(1.4426950408889634) / static_cast<Value>(p.gamma) : 1;
  const Value most = static_cast<Value>(p.gamma > 0 ? 1e289 : 1e298);
  for (int k = 0; k < 3; ++k) {
    const Value weight = static_cast<Value>(p.step_weight[k]) * scale;
    const Value penalty = first ? 0 : static_cast<Value>(p.step_penalty[k]) * scale;
    if (!(std::abs(value * weight + penalty) < most)) return Real(oracle::not_a_number<Value>);
  }
  return cost;
}

// The reference of a case, pair by pair. Number is Real, or with tangents dual numbers of them.
template <class Real, class Number>
class Referee {
  static constexpr bool dual = !std::is_same_v<Real, Number>;

 public:
  Referee(const Case &c, bool with_gradients, const std::vector<double> *paths = nullptr)
      : c_(c), p_(c.problem), rule_(rule_of(p_)), with_gradients_(with_gradients), paths_(paths) {
    x_ = numbers(c.x, c.tangent_x);
    if (c.has_y()) y_ = numbers(c.y, c.tangent_y);
    const std::vector<Number> &y = c.symmetric() ? x_ : y_;
    y_data_ = y.data();
    step_x_ = p_.n * c.shape_x()[2], step_y_ = c.fused() ? p_.m * p_.features : 0, step_e_ = p_.n * p_.m;
    gx_.assign(c.series_x() * step_x_, Number(0));
    gy_.assign(c.fused() ? c.series_y() * step_y_ : 0, Number(0));
    for (auto *scales : {&ref_.grad_x_scale, &ref_.grad_x_tangent_scale}) scales->assign(c.series_x(), 0);
    for (auto *scales : {&ref_.grad_y_scale, &ref_.grad_y_tangent_scale}) scales->assign(c.series_y(), 0);
    ref_.value.resize(c.batch());
    ref_.scale.resize(c.batch());
    ref_.value_tangent.resize(dual ? c.batch() : 0);
    ref_.value_tangent_scale.resize(dual ? c.batch() : 0);
    if (with_gradients) ref_.alignment.assign(c.batch() * step_e_, 0);
  }

  Reference<Real> run() {
    for (int64_t b = 0; b < c_.batch(); ++b) add_pair(b);
    if (!with_gradients_) return std::move(ref_);
    if (c_.symmetric()) {  // x is both
      for (size_t k = 0; k < gx_.size(); ++k) gx_[k] += gy_[k];
      for (int64_t s = 0; s < c_.series_x(); ++s) {
        ref_.grad_x_scale[s] += ref_.grad_y_scale[s];
        ref_.grad_x_tangent_scale[s] += ref_.grad_y_tangent_scale[s];
      }
      gy_.clear();
    }
    const auto take = [](const std::vector<Number> &from, std::vector<Real> &values, std::vector<Real> &tangents) {
      for (const Number &v : from) {
        values.push_back(oracle::value_of(v));
        if constexpr (dual) tangents.push_back(std::isnan(v.v) ? v.v : v.d);
      }
    };
    take(gx_, ref_.grad_x, ref_.grad_x_tangent);
    take(gy_, ref_.grad_y, ref_.grad_y_tangent);
    return std::move(ref_);
  }

 private:
  static std::vector<Number> numbers(const std::vector<double> &values, const std::vector<double> &tangents) {
    std::vector<Number> result(values.begin(), values.end());
    if constexpr (dual)
      for (size_t k = 0; k < tangents.size(); ++k) result[k].d = static_cast<Real>(tangents[k]);
    return result;
  }

  Number cost(const Number *x, const Number *y, int64_t i, int64_t j) const {
    const int64_t d = p_.features;
    const Number given = c_.fused() ? oracle::metric_cost<Number>(p_.metric, x + i * d, y + j * d, d) : x[i * p_.m + j];
    return seen_cost(p_, given, i == 0 && j == 0);
  }

  void add_pair(int64_t b) {
    const int64_t n = c_.length_x(b), m = c_.length_y(b), ix = c_.index_x(b), iy = c_.index_y(b);
    const Number *const x = x_.data() + ix * step_x_, *const y = c_.fused() ? y_data_ + iy * step_y_ : nullptr;
    const bool in_range = n >= 0 && n <= p_.n && m >= 0 && m <= p_.m;
    const auto cost_of = [&](int64_t i, int64_t j) { return cost(x, y, i, j); };
    oracle::Pair<Number> pair{Number(oracle::not_a_number<Real>), {}, {}};
    if (in_range && c_.symmetric() && iy < ix)
      pair = transposed(n, m, cost_of);
    else if (in_range)
      pair = oracle::soft_dtw<Number>(n, m, rule_, cost_of, with_gradients_);
    if (paths_ && std::isfinite(oracle::value_of(pair.value)))
      oracle::adopt_path(n, m, p_.m, rule_, cost_of, paths_->data() + b * step_e_, tolerance_,
                         Real(p_.metric == SDTW_COSINE), pair);
    const Real value = ref_.value[b] = oracle::value_of(pair.value);
    ref_.scale[b] = std::abs(value);
    if constexpr (dual) ref_.value_tangent[b] = std::isnan(value) ? value : std::isinf(value) ? 0 : pair.value.d;
    if (!with_gradients_) return;
    if (std::isnan(value)) {
      std::fill_n(gx_.begin() + ix * step_x_, step_x_, Number(value));
      if (step_y_) std::fill_n(gy_.begin() + iy * step_y_, step_y_, Number(value));
      std::fill_n(ref_.alignment.begin() + b * step_e_, step_e_, value);
      return;
    }
    if (std::isinf(value) || n == 0) return;
    add_scales(b, pair, cost_of, x, y);
    add_gradients(b, pair, x, y);
  }

  // The most that a cost's derivative along the tangents can be, of points as far apart as these.
  Real reach(const Number *x, const Number *y) const {
    Real tangents = 0, apart = 0, of_x = 0, of_y = 0, tx = 0, ty = 0;
    if constexpr (dual)
      for (int64_t k = 0; k < p_.features; ++k) {
        const Real difference = x[k].v - y[k].v;
        tangents += std::abs(x[k].d) + std::abs(y[k].d), apart += difference * difference;
        of_x += x[k].v * x[k].v, of_y += y[k].v * y[k].v, tx += x[k].d * x[k].d, ty += y[k].d * y[k].d;
      }
    if (p_.metric == SDTW_SQEUCLIDEAN) return 2 * std::sqrt(apart) * tangents;
    if (p_.metric != SDTW_COSINE) return tangents;
    return (of_x > 0 ? std::sqrt(tx / of_x) : 0) + (of_y > 0 ? std::sqrt(ty / of_y) : 0);
  }

  // Of symmetric pairs (j, i) is (i, j) transposed, whatever a band or a tie makes of it.
  template <class Cost>
  oracle::Pair<Number> transposed(int64_t n, int64_t m, const Cost &cost) const {
    const auto other = [&](int64_t j, int64_t i) { return cost(i, j); };
    const oracle::Pair<Number> there = oracle::soft_dtw<Number>(m, n, rule_, other, with_gradients_);
    oracle::Pair<Number> pair = there;
    for (int64_t i = 0; i < n && !there.alignment.empty(); ++i)
      for (int64_t j = 0; j < m; ++j) {
        pair.alignment[i * m + j] = there.alignment[j * n + i];
        pair.gradient[i * m + j] = there.gradient[j * n + i];
      }
    return pair;
  }

  template <class Cost>
  void add_scales(int64_t b, const oracle::Pair<Number> &pair, const Cost &cost, const Number *x, const Number *y) {
    const int64_t n = c_.length_x(b), m = c_.length_y(b);
    bend_ = 0;
    const auto [least, most] = std::minmax_element(p_.step_weight, p_.step_weight + 3);
    const Real least_weight = *least, most_weight = *most;
    Real path = oracle::value_of(pair.path), along = 0, square = 0, most_reach = 0;
    int64_t steady = 0;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < m; ++j) {
        const Real e = oracle::value_of(pair.alignment[i * m + j]);
        ref_.alignment[b * step_e_ + i * p_.m + j] = e;
        // A cosine is rounded where it is near 1, not where its distance is near 0.
        if (p_.metric == SDTW_COSINE) path += e;
        if (e > Real(0.5))
          steady += costs_nothing(c_, static_cast<double>(least_weight * oracle::value_of(cost(i, j))));
        if constexpr (dual)
          if (e != 0) {
            const Real t = c_.fused() ? reach(x + i * p_.features, y + j * p_.features) : std::abs(cost(i, j).d);
            most_reach = std::max(most_reach, t), along += most_weight * e * t,
            square += most_weight * most_weight * e * t * t;
            const Real d = oracle::value_of(cost(i, j));
            if (p_.metric == SDTW_EUCLIDEAN && d > 0) bend_ += most_weight * e * t / d;
          }
      }
    ref_.scale[b] = value_scale(c_, b, static_cast<double>(ref_.value[b]), static_cast<double>(path), steady);
    // E below 1e-12 counts as 0: where there is nothing else, as of a pair of equal series.
    if constexpr (dual) ref_.value_tangent_scale[b] = along + Real(0.05) * most_reach;
    // How far a path's cost strays along the tangent, in units of gamma, is what probabilities change by.
    spread_ = p_.gamma > 0 ? std::sqrt(square) / static_cast<Real>(p_.gamma) : 0;
    if (p_.metric == SDTW_COSINE) spread_ += std::sqrt(square);  // and directions turn
  }

  void add_gradients(int64_t b, const oracle::Pair<Number> &pair, const Number *x, const Number *y) {
    const int64_t n = c_.length_x(b), m = c_.length_y(b), ix = c_.index_x(b), iy = c_.index_y(b);
    const Number g(c_.grad_value.empty() ? Real(1) : static_cast<Real>(c_.grad_value[b]));
    std::vector<Number> of_x(step_x_, Number(0)), of_y(step_y_, Number(0));
    if (c_.fused())
      oracle::add_gradients(p_.metric, pair, g, x, y, n, m, p_.features, of_x.data(), of_y.data());
    else
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j = 0; j < m; ++j) of_x[i * p_.m + j] = g * pair.gradient[i * m + j];
    Real largest = 0, largest_tangent = 0;
    for (const auto *of : {&of_x, &of_y})
      for (const Number &v : *of) {
        largest = std::max(largest, std::abs(oracle::value_of(v)));
        if constexpr (dual) largest_tangent = std::max(largest_tangent, std::abs(v.d));
      }
    const CosineTerms terms = p_.metric == SDTW_COSINE ? cosine_terms(pair, g, x, y, n, m) : CosineTerms{};
    // E below 1e-12 counts as 0, and so does its tangent: where there is nothing else, as of a pair of equal series.
    const Real skipped = Real(0.05) * std::abs(oracle::value_of(g)) * slope(x, y, n, m);
    largest_tangent = std::max(largest_tangent, (largest + static_cast<Real>(terms.whole) + skipped) * spread_);
    largest += static_cast<Real>(terms.slope);
    largest_tangent += Real(1e-2) * std::abs(oracle::value_of(g)) * bend_;
    ref_.grad_x_scale[ix] += largest, ref_.grad_x_tangent_scale[ix] += largest_tangent;
    if (c_.fused()) ref_.grad_y_scale[iy] += largest, ref_.grad_y_tangent_scale[iy] += largest_tangent;
    for (int64_t k = 0; k < step_x_; ++k) gx_[ix * step_x_ + k] += of_x[k];
    for (int64_t k = 0; k < step_y_; ++k) gy_[iy * step_y_ + k] += of_y[k];
  }

  // The largest derivative that a cost of these series can have.
  Real slope(const Number *x, const Number *y, int64_t n, int64_t m) const {
    if (p_.metric != SDTW_SQEUCLIDEAN) return 1;
    Real most = 0;
    for (int64_t k = 0; k < n * p_.features; ++k) most = std::max(most, std::abs(oracle::value_of(x[k])));
    for (int64_t k = 0; y && k < m * p_.features; ++k) most = std::max(most, std::abs(oracle::value_of(y[k])));
    return 4 * most;
  }

  CosineTerms cosine_terms(const oracle::Pair<Number> &pair, const Number &g, const Number *x, const Number *y,
                           int64_t n, int64_t m) const {
    CosineTerms terms;
    std::vector<Real> xi, yj;
    const auto take = [&](std::vector<Real> &to, const Number *from) {
      to.clear();
      for (int64_t k = 0; k < p_.features; ++k) to.push_back(oracle::value_of(from[k]));
    };
    for (int64_t i = 0; i < n; ++i) {
      take(xi, x + i * p_.features);
      for (int64_t j = 0; j < m; ++j) {
        take(yj, y + j * p_.features);
        const Real e = std::abs(oracle::value_of(g * pair.gradient[i * m + j]));
        terms.add(static_cast<double>(e), oracle::Products<Real>(xi.data(), yj.data(), p_.features), p_.dtype);
      }
    }
    return terms;
  }

  const Case &c_;
  const sdtw_problem &p_;
  const oracle::Rule rule_;
  const bool with_gradients_;
  const std::vector<double> *paths_;  // at gamma = 0: alignments to be taken for the oracle's where they are as good
  const Real tolerance_ = c_.problem.dtype == SDTW_F64 ? Real(2e-13) : Real(value_limit);
  std::vector<Number> x_, y_, gx_, gy_;
  const Number *y_data_;
  int64_t step_x_, step_y_, step_e_;
  Real spread_ = 0;
  // How far a distance's direction can turn along the tangents, near coincident points: |t| / D, of which its second
  // derivative is a difference that is rounded (of one feature it is 0). A hundredth is far above that rounding.
  Real bend_ = 0;
  Reference<Real> ref_;
};

}  // namespace

template <class Real>
Reference<Real> reference(const Case &c, bool with_gradients) {
  if (c.tangent_x.empty() && c.tangent_y.empty()) return Referee<Real, Real>(c, with_gradients).run();
  return Referee<Real, oracle::Dual<Real>>(c, with_gradients).run();
}

template <class Real>
Reference<Real> reference_along(const Case &c, const std::vector<double> &alignment) {
  if (c.tangent_x.empty() && c.tangent_y.empty()) return Referee<Real, Real>(c, true, &alignment).run();
  return Referee<Real, oracle::Dual<Real>>(c, true, &alignment).run();
}

template Reference<double> reference<double>(const Case &, bool);
template Reference<double> reference_along<double>(const Case &, const std::vector<double> &);
template Reference<long double> reference<long double>(const Case &, bool);
template Reference<long double> reference_along<long double>(const Case &, const std::vector<double> &);

}  // namespace test
