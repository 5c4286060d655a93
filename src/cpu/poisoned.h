// Which pairs are NaN for their inputs: sdtw.h, "Defined results".
#pragma once

#include "core/band.h"
#include "core/metric.h"
#include "core/steps.h"
#include "cpu/engine.h"
#include "cpu/pair.h"

namespace sdtw::cpu {

// Whether any cost of the pair is for no engine: NaN, -infinity, or one by which a step costs more than can be held.
template <class Cost>
bool any_impossible(const Problem &p, const Lengths &lengths, const Cost &cost) {
  const double limit = largest_wide_step(p), scale = p.gamma > 0 ? bits_of_cost(p) : 1;
  const core::Band band{p.band, p.band_radius, lengths.n, lengths.m};
  for (int64_t i = 0; i < lengths.n; ++i)
    for (auto [j, end] = band.columns(i); j < end; ++j) {
      const double d = cost(i, j);
      if (d == std::numeric_limits<double>::infinity()) continue;
      if (!std::isfinite(d)) return true;
      for (int k = 0; k < core::step_count; ++k) {
        const double penalty = i == 0 && j == 0 ? 0 : p.step_penalty[k];
        if (!(std::abs(d * (p.step_weight[k] * scale) + penalty * scale) < limit)) return true;
      }
    }
  return false;
}

// The cost of a pair of points, in float64; of cosine the largest that there is, or NaN.
constexpr double largest_cosine = 2;
template <class Metric, class In>
double cost_of(Metric metric, const In *x, int64_t x_stride, const In *y, int64_t y_stride, int64_t features) {
  double sum = 0;
  for (int64_t f = 0; f < features; ++f) {
    const double of_x = x[f * x_stride], of_y = y[f * y_stride];
    sum += Metric::metric == SDTW_COSINE ? 0 * of_x + 0 * of_y : metric.term(of_x - of_y);
  }
  return Metric::metric == SDTW_COSINE ? sum + largest_cosine : metric.finish(sum);
}

// Whether a cell that the band admits has a cost of NaN or -infinity, or one that no engine can hold.
template <class In>
bool poisoned(const Problem &p, const Buffers &b, const Place &at, const Lengths &lengths) {
  const In *x = element<In>(b.x, at.x);
  if (!p.fused())
    return any_impossible(p, lengths,
                          [&](int64_t i, int64_t j) { return double(x[i * b.x.stride[1] + j * b.x.stride[2]]); });
  using Number = std::conditional_t<core::dtype_of<In> == SDTW_F64, double, float>;
  const In *y = element<In>(b.y, at.y);
  Number largest[2] = {0, 0};  // of what is finite
  bool undefined = false;      // some cost would be NaN if the band admitted all cells
  constexpr int64_t few = 8;   // features together, as they may be neighbours in a line of cache
  for (int64_t first = 0; first < p.features; first += few) {
    const int64_t count = std::min(few, p.features - first);
    unsigned infinite[2][few] = {};  // bit 0: +infinity, bit 1: -infinity: of the same sign in both, x - y is NaN
    for (int side = 0; side < 2; ++side) {
      const In *data = side ? y : x;
      const auto &stride = side ? b.y.stride : b.x.stride;
      for (int64_t i = 0, steps = side ? lengths.m : lengths.n; i < steps; ++i)
        for (int64_t k = 0; k < count; ++k) {
          const Number v = data[i * stride[1] + (first + k) * stride[2]];
          if (std::abs(v) <= largest[side]) continue;  // nearly all: one comparison for all that is asked
          if (std::isnan(v) || (std::isinf(v) && p.metric == SDTW_COSINE))  // which has no direction
            undefined = true;
          else if (std::isinf(v))
            infinite[side][k] |= v > 0 ? 1 : 2;
          else
            largest[side] = std::abs(v);
        }
    }
    for (int64_t k = 0; k < count; ++k) undefined |= (infinite[0][k] & infinite[1][k]) != 0;
    if (undefined && p.band == SDTW_BAND_NONE) return true;
  }
  const double span = double(largest[0]) + double(largest[1]);
  return core::for_metric(p.metric, [&](auto metric) {
    const bool cosine = p.metric == SDTW_COSINE;
    const double bound = cosine ? largest_cosine : metric.finish(metric.term(span) * double(p.features));
    if (!undefined && bound < largest_given_cost<double>(p)) return false;
    return any_impossible(p, lengths, [&](int64_t i, int64_t j) {
      return cost_of(metric, x + i * b.x.stride[1], b.x.stride[2], y + j * b.y.stride[1], b.y.stride[2], p.features);
    });
  });
}

}  // namespace sdtw::cpu
