// Which engine a pair's cells need: what costs may be in float, and how costs come to its sweeps.
#pragma once

#include <algorithm>
#include <cmath>

#include "cpu/layout.h"

namespace sdtw::cpu {

// What computes a pair: cells in float, from costs of series in float or double, the latter by products of points or
// as they are, or everything in double.
enum class Engine : uint8_t { plain, products, double_costs, float64 };
inline CostForm cost_form(Engine engine) {
  return engine == Engine::products || engine == Engine::double_costs ? double_cost : plain_cost;
}

// Whether sweeps compute plain costs of this problem themselves, as long as all of its cells are the core's.
inline bool has_point_costs(const Problem &p) {
  return p.metric == SDTW_SQEUCLIDEAN && p.features == 1 && p.gamma > 0 && p.band == SDTW_BAND_NONE &&
         p.has_unit_steps();
}

// What points relative to a centre, and their squared norms or the sums of their coordinates, are multiplied by for
// costs from products (cpu/metrics.h), which come times `scale`.
struct ProductScales {
  bool coordinates;
  double x, y, norm;
  ProductScales(sdtw_metric metric, double scale) : coordinates(metric == SDTW_CITYBLOCK) {
    x = coordinates ? 2 * scale : -2 * scale;
    y = coordinates ? 2 * scale : 1;
    norm = coordinates ? -scale : scale;
  }
};

// Bounds of what a step costs: its weight times that of the cell, and its penalty.
struct StepBounds {
  double weight = 0, penalty = 0;
  explicit StepBounds(const Problem &p) {
    for (int k = 0; k < 3; ++k) {
      weight = std::max(weight, p.step_weight[k]);
      penalty = std::max(penalty, std::abs(p.step_penalty[k]));
    }
  }
};

// Largest R that the minimum keeps as two floats.
constexpr double hard_float_limit = 1e37;
// Where all costs are less float has not all digits of their squares, or none, and paths are any.
constexpr double hard_float_least = 1e-30;

// What is known of a pair's costs before they are computed.
struct CostBound {
  double largest = 0;  // infinite or NaN if an input is, or if that is what float makes of it
  bool tiny = false;   // differences may be so small that float loses their squares: asked of SDTW_EUCLIDEAN alone
};

// Whether any number is so near 0, but not 0, that the square of its difference from another may not be a normal float.
template <class T>
bool any_tiny(const T *data, int64_t count) {
  bool any = false;
  for (int64_t i = 0; i < count; ++i) {
    const T size = std::abs(data[i]);
    any |= (size > 0) & (size < T(1e-11));
  }
  return any;
}

// What a cost is times in an exponent; gamma = 0 has no exponents, and no division by 0 that a caller might trap.
inline double bits_of_cost(const Problem &p) { return p.gamma > 0 ? core::log2_e / p.gamma : 0; }

// core::is_thin, and pairs of more than 1024 steps beside a 200th of them or less: of 80 000 random ones five had
// gradients, sums of thousands of E of either sign, off by 2.4e-5 to 7.2e-5 of the largest.
inline bool is_thin_on_cpu(int64_t n, int64_t m) {
  const int64_t longer = std::max(n, m), shorter = std::min(n, m);
  return core::is_thin(n, m) || (longer > 1024 && longer > 200 * shorter);
}

// The engine for float32 series, or given costs, of these lengths. Of given costs, which are no sums, split ones would
// be no better.
inline Engine engine_for(const CostBound &bound, int64_t n, int64_t m, const Problem &p) {
  const StepBounds steps(p);
  if (!(steps.weight < std::numeric_limits<float>::max())) return Engine::float64;
  if (p.gamma == 0) {
    if (p.metric == SDTW_COSINE) return Engine::float64;  // float costs of nearly parallel points have few digits
    const bool too_large =
        !((bound.largest * std::max(1., steps.weight) + steps.penalty) * double(n + m) < hard_float_limit);
    const bool too_small = bound.tiny || (p.metric == SDTW_SQEUCLIDEAN && bound.largest < hard_float_least);
    return too_large || too_small ? Engine::float64 : Engine::plain;
  }
  const double scale = bits_of_cost(p), heaviest = bound.largest * std::max(1., steps.weight);
  const double step = (heaviest + steps.penalty) * scale, total = step * double(n + m);
  if (!core::is_float_scale(scale) || !(total <= core::Exponent<float>::limit)) return Engine::float64;
  // Nor are weights times it, of costs that are 0 or next to nothing.
  if (!core::is_float_scale(scale * std::max(1., steps.weight))) return Engine::float64;
  // Reciprocals of tiny distances, and for tangents their squares, are no floats.
  if (is_thin_on_cpu(n, m) || bound.tiny) return Engine::float64;
  if (!p.fused()) return Engine::plain;
  const bool precise = p.metric == SDTW_COSINE;
  const double thinness = double(std::max(n, m)) / double(std::min(n, m));
  const double limit = p.metric == SDTW_CITYBLOCK ? core::plain_cityblock_limit : core::plain_cost_limit;
  if (!precise && total * thinness <= limit && step <= core::plain_cost_step(double(p.features))) return Engine::plain;
  // Split costs are weighed as floats.
  const bool alike = p.step_weight[0] == p.step_weight[1] && p.step_weight[1] == p.step_weight[2];
  if (!alike && step >= core::float_cost_limit) return Engine::float64;
  return has_products(p) && step <= core::product_cost_step ? Engine::products : Engine::double_costs;
}

// What a step costs is for no engine, in size, from this on: in exponents (core/numbers.h) or, of the minimum, where
// sums might leave a double's range.
inline double largest_wide_step(const Problem &p) { return p.gamma > 0 ? core::largest_wide_cost : 1e298; }

// The largest given |cost| that T's engine takes, whatever the step; that of float64 must be below it, and one that is
// not may be possible all the same (cpu/poisoned.h).
template <class T>
double largest_given_cost(const Problem &p) {
  const StepBounds steps(p);
  const double scale = p.gamma > 0 ? bits_of_cost(p) : 1;
  if (sizeof(T) == 8) return std::max(0., (largest_wide_step(p) - steps.penalty * scale) / (steps.weight * scale));
  const double heaviest = std::max(1., steps.weight);
  if (p.gamma == 0) return (hard_float_limit / double(p.n + p.m) - steps.penalty) / heaviest;
  const double step = core::Exponent<T>::limit / double(p.n + p.m) - steps.penalty * scale;
  return std::min(core::float_cost_limit, step) / heaviest / double(T(scale));
}

}  // namespace sdtw::cpu
