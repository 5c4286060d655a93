// What a Case should give according to the oracle.
#pragma once

#include "case.h"
#include "oracle_metrics.h"

namespace test {

template <class Real>
struct Reference {
  std::vector<Real> value, grad_x, grad_y, alignment;  // as in Result
  std::vector<Real> scale;                             // what errors of values are relative to: see value_scale
  std::vector<Real> value_tangent, grad_x_tangent, grad_y_tangent;
  // What errors of the tangents of values are relative to, of each pair, and those of gradients and their tangents, of
  // each series: sums over its pairs of the largest entries. Empty: as compare_pair has it.
  std::vector<Real> value_tangent_scale, grad_x_scale, grad_y_scale, grad_x_tangent_scale, grad_y_tangent_scale;
};

// What values of float32 problems may be off by, relative to value_scale: nine of 150 000 random problems on a GPU were
// off by 2.1e-7 to 3.8e-7, slender pairs and such of large gamma among them.
constexpr double value_limit = 4e-7;

// Whether a cost, times the weight of the step that weighs least, is next to nothing.
bool costs_nothing(const Case &c, double cost);

// What the error of a value of pair b is relative to, as docs/numerics.md has it. path: <E, |D|>; steady: how many
// cells cost nothing and are visited by most paths (E > 1/2): what such a cell adds up is what the one before it did,
// and is rounded to the same side. Without these: a series with itself 6.8e-7 at 262 steps and 1.45e-6 at 500, where
// its costs were given (4.3e-7 with half as much for each); itself two steps later, if it is periodic, 4.5e-7 at 3000;
// itself resampled to 282 from 70, with noise, 5.8e-7; constant series of 274 steps, whose diagonal steps weigh
// nothing, 5.5e-7. Between lengths of which one is 16 times the other, of costs that are nearly 0, no cell is visited
// by most paths, but all are alike (2.18e-7 without that term at (3, 136)).
double value_scale(const Case &c, int64_t b, double value, double path, int64_t steady);

// The largest of the terms that a gradient of cosines is made of: of a cell of E between points x and y there are
// E sin(x, y) / |x| and E sin(x, y) / |y|. whole: the same without the sine.
struct CosineTerms {
  double slope = 0, whole = 0;

  template <class Real>
  void add(double e, const oracle::Products<Real> &products, sdtw_dtype dtype) {
    const double rounding = dtype == SDTW_F64 ? 1e-3 : 1e-6;  // of a sine, as limits has it of gradients
    for (const Real square : {products.xx, products.yy})
      if (square > 0) {
        const double term = e / std::sqrt(static_cast<double>(square));
        whole = std::max(whole, term);
        slope = std::max(slope, term * std::min(1., static_cast<double>(products.sine()) + rounding));
      }
  }
};

// How paths may step, as the oracle has it.
oracle::Rule rule_of(const sdtw_problem &p);

// Of double, or of long double where float64 results are to be judged: compiled for these two, as what compares is.
template <class Real = long double>
Reference<Real> reference(const Case &c, bool with_gradients = true);

// At gamma = 0 costs are equal or not by their last digit. Where a result has another path than the oracle, and one as
// good to the digits of its type, the reference is that of this path.
template <class Real = long double>
Reference<Real> reference_along(const Case &c, const std::vector<double> &alignment);

}  // namespace test
