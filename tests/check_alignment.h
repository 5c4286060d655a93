// What is true of every expected alignment, whatever the costs, and needs no oracle: every path visits the first and
// the last cell, and each row and each column.
#pragma once

#include <cmath>

#include "harness.h"

namespace test {

// What E may be off by where values are so large beside gamma that no double has the digits (sdtw.h): those of float64
// problems, and of float32 ones that are computed in float64, whose state has as many up to 2^39 gamma.
double large_value_error(const Case &c, double value);

// What is wrong with a matrix [n, m], of padded rows, that is to be an alignment times a factor; empty if nothing is.
std::string check_alignment(const double *e, int64_t n, int64_t m, int64_t padded, double factor, double tolerance);

// What is wrong with the alignment of a pair, or with the gradient of its given costs; empty if nothing is.
std::string check_alignment(const Case &c, const Result &result, int64_t b);

}  // namespace test
