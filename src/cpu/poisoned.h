// Which pairs are NaN for their inputs: sdtw.h, "Defined results".
#pragma once

#include "core/band.h"
#include "cpu/pair.h"

namespace sdtw::cpu {

// Whether any cost of the pair is for no engine: NaN, -infinity, or finite and larger than exponents can hold.
template <class Cost>
bool any_impossible(const Problem &p, const Lengths &lengths, const Cost &cost) {
  const double limit = largest_given_cost<double>(p);
  const core::Band band{p.band, p.band_radius, lengths.n, lengths.m};
  for (int64_t i = 0; i < lengths.n; ++i)
    for (auto [j, end] = band.columns(i); j < end; ++j) {
      const double d = cost(i, j);
      if (!(std::abs(d) < limit) && d != std::numeric_limits<double>::infinity()) return true;
    }
  return false;
}

// NaN among the pair's own inputs, or costs that no engine can hold.
template <class In>
bool poisoned(const Problem &p, const Buffers &b, int64_t pair, const Lengths &lengths) {
  const In *x = element<In>(b.x, pair);
  if (!p.fused())
    return any_impossible(p, lengths,
                          [&](int64_t i, int64_t j) { return double(x[i * b.x.stride[1] + j * b.x.stride[2]]); });
  const In *y = element<In>(b.y, pair);
  In largest[2] = {0, 0};  // of what is finite
  for (int64_t f = 0; f < p.features; ++f) {
    unsigned infinite[2] = {0, 0};  // bit 0: +infinity, bit 1: -infinity: of the same sign in both, x - y is NaN
    for (int side = 0; side < 2; ++side) {
      const In *data = side ? y : x;
      const auto &stride = side ? b.y.stride : b.x.stride;
      for (int64_t i = 0, count = side ? lengths.m : lengths.n; i < count; ++i) {
        const In v = data[i * stride[1] + f * stride[2]];
        if (std::abs(v) <= largest[side]) continue;  // nearly all: one comparison for all that is asked
        if (std::isnan(v)) return true;
        if (std::isinf(v))
          infinite[side] |= v > 0 ? 1 : 2;
        else
          largest[side] = std::abs(v);
      }
    }
    if (infinite[0] & infinite[1]) return true;
  }
  const double span = double(largest[0]) + double(largest[1]);
  if (span * span * double(p.features) < largest_given_cost<double>(p)) return false;
  return any_impossible(p, lengths, [&](int64_t i, int64_t j) {
    double sum = 0;
    for (int64_t f = 0; f < p.features; ++f) {
      const double difference =
          double(x[i * b.x.stride[1] + f * b.x.stride[2]]) - double(y[j * b.y.stride[1] + f * b.y.stride[2]]);
      sum += difference * difference;
    }
    return sum;
  });
}

}  // namespace sdtw::cpu
