// Assertions that test files share: a Case against the oracle, within the bounds that the library promises.
#pragma once

#include "catch.h"
#include "compare.h"
#include "inputs.h"

namespace test {

// The errors that are allowed: of values half of what sdtw.h promises, of gradients what test_accuracy.cpp shows.
inline Errors bounds(const Case &c) {
  if (c.problem.dtype == SDTW_F64) return {1e-13, 1e-10, 1e-10, 1e-10, 1e-10};
  return {2e-7, 2e-5, 2e-5, 2e-5, 2e-5};
}

// times: how often the bounds may be in the errors.
template <class Real>
void check(const Case &c, const Result &result, const Reference<Real> &ref, double times = 1) {
  const Errors error = compare(c, result, ref), bound = bounds(c);
  INFO(describe(c));
  CHECK(error.value <= times * bound.value);
  CHECK(error.gradient <= times * bound.gradient);
  CHECK(error.alignment <= times * bound.alignment);
}

// A case with inputs that float32 can hold, on every backend and in both dtypes.
inline void check_everywhere(const Case &base) {
  const auto ref = reference(base);
  for (const Case &c : variants(base)) check(c, run(c), ref);
}

// Sizes on either side of every power of two that a vector, a strip or a tile may have.
struct Size {
  int64_t n, m;
};
inline const Size sizes[] = {{1, 1},    {1, 2},    {2, 1},    {2, 2},    {1, 17},    {33, 1},    {7, 5},    {15, 16},
                             {16, 15},  {16, 16},  {17, 31},  {31, 17},  {32, 33},   {33, 64},   {63, 64},  {64, 63},
                             {65, 65},  {64, 127}, {127, 1},  {128, 65}, {129, 128}, {127, 255}, {255, 3},  {5, 257},
                             {257, 31}, {256, 64}, {2, 1000}, {1000, 3}, {65, 300},  {1, 600},   {257, 255}};
inline const int64_t batches[] = {1, 2, 7, 16, 17, 33};

// f(seed, batch, n, m) for every batch and size that costs the oracle little, each with a seed of its own.
template <class F>
void each_shape(uint64_t seed, int64_t most_cells, const F &f) {
  for (const int64_t batch : batches)
    for (const Size &size : sizes)
      if (batch * size.n * size.m <= most_cells) f(++seed, batch, size.n, size.m);
}

}  // namespace test
