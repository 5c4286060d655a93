// How far a Result is from what its Case should give.
#pragma once

#include "reference.h"
#include "run.h"

namespace test {

// The largest errors over the pairs of a batch. Infinite if a NaN, an infinity or the zero of padding is not where it
// should be.
struct Errors {
  double value = 0;                                // relative to the reference's scale
  double gradient = 0;                             // max norm, relative to the pair's largest entry in either gradient
  double alignment = 0;                            // absolute: the largest E is 1
  double value_tangent = 0, gradient_tangent = 0;  // relative to the reference's scales
};

Errors larger(const Errors &a, const Errors &b);

// max |a - b| over a range, less what rounding to dtype explains; infinite where they differ in what is NaN or
// infinite.
template <class Real>
double distance(const double *actual, const Real *expected, int64_t count, sdtw_dtype dtype = SDTW_F64);

template <class Real>
double max_norm(const Real *values, int64_t count);

inline double ratio(double error, double scale) { return error == 0 ? 0 : error / scale; }

// Of pair b alone: its value and its alignment, and its gradients unless series belong to many pairs.
template <class Real>
Errors compare_pair(const Case &c, const Result &result, const Reference<Real> &ref, int64_t b);

template <class Real>
Errors compare(const Case &c, const Result &result, const Reference<Real> &ref);

// Whether exponents of cells are whole numbers that a double has. Beyond 2^53 they are rounded, and by what depends on
// where sweeps pause, which is not the same in forward as where backward recomputes a tile.
bool has_exact_exponents(const Case &c);

// What the calls that gradients and alignments come from have in common, whether or not there is state.
bool same_derivatives(const Result &a, const Result &b);
bool same(const Result &a, const Result &b);

}  // namespace test
