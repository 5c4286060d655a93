// Instantiates the kernels for one ISA. Included by kernels_*.cpp inside its namespace, after its Vec.

template <int N>
struct Int {
  static constexpr int value = N;
};

// body(0) .. body(N - 1), written out: what a loop indexes, if the compiler leaves it one, is in memory, not in
// registers.
template <int N, class Body>
inline __attribute__((always_inline)) void unrolled(Body body) {
  if constexpr (N > 0) {
    unrolled<N - 1>(body);
    body(N - 1);
  }
}

// Likewise for K rows of a lane, unless they are more than there are registers for.
template <int K, class Body>
inline __attribute__((always_inline)) void each_row(Body body) {
  if constexpr (K <= 8)
    unrolled<K>(body);
  else
    for (int k = 0; k < K; ++k) body(k);
}

#include "cpu/sweeps.h"
// What follows takes its rows from there.
#include "cpu/hard_sweeps.h"
#include "cpu/metrics.h"
#include "cpu/points.h"
#include "cpu/row_tiles.h"
#include "cpu/rule_sweeps.h"
#include "cpu/tangent_tiles.h"
#include "cpu/tiles.h"

template <class T, int K, bool skew, class Metric>
constexpr MetricKernels<T> metric_kernels(double slope) {
  constexpr bool split = sizeof(T) == 4, sign = std::is_same_v<Metric, core::CityBlock>;
  MetricKernels<T> kernels{};
  kernels.cost[plain_cost] = kernels.cost[double_cost] = metric_cost<Metric, T, K>;
  if constexpr (split) kernels.cost[double_cost] = metric_double<Metric, T, K>;
  if constexpr (split && !std::is_same_v<Metric, core::Euclidean>) kernels.products = metric_products<Metric, T, K>;
  if constexpr (std::is_same_v<Metric, core::Euclidean>) {
    kernels.slopes[plain_cost] = reciprocal_slopes<T, K, false>;
    kernels.slopes[double_cost] = reciprocal_slopes<T, K, split>;
  }
  if constexpr (skew) {
    kernels.row_gradient = row_gradient<T, K, sign>;
    kernels.tangent[plain_cost] = tangent_cost<Metric, T, K, false>;
    kernels.tangent[double_cost] = tangent_cost < Metric, T, K, split && std::is_same_v < Metric, core::Euclidean >> ;
    if constexpr (std::is_same_v<Metric, core::Euclidean>) {
      kernels.tangent_slopes[plain_cost] = reciprocal_tangent_slopes<T, K, false>;
      kernels.tangent_slopes[double_cost] = reciprocal_tangent_slopes<T, K, split>;
    }
  }
  kernels.bends = !std::is_same_v<Metric, core::CityBlock>;
  kernels.gradient = metric_gradient < T, K, skew, sign ? Direction::sign : Direction::difference > ;
  kernels.slope = slope;
  return kernels;
}

// The float engine never meets a double matrix: its entry for one is that for floats.
template <class T>
using Double = std::conditional_t<sizeof(T) == 8, double, float>;

template <class T, int K, bool skew>
constexpr MappingKernels<T> mapping_kernels() {
  constexpr bool split = sizeof(T) == 4;
  constexpr CostForm wide = split ? double_cost : plain_cost;
  const auto sqeuclidean = metric_kernels<T, K, skew, core::SqEuclidean>(2);
  auto cosine = sqeuclidean;
  if constexpr (split) {
    cosine.products = metric_products<core::Cosine, T, K>;
    cosine.gradient = cosine_gradient<K, skew>;
  }
  return {K,
          {sweep<T, K, skew, plain_cost, false>, sweep<T, K, skew, wide, false>, sweep<T, K, skew, point_cost, false>},
          {sweep<T, K, skew, plain_cost, true>, sweep<T, K, skew, wide, true>, sweep<T, K, skew, point_cost, true>},
          adjoint<T, K, skew>,
          {{},
           sqeuclidean,
           metric_kernels<T, K, skew, core::Euclidean>(1),
           metric_kernels<T, K, skew, core::CityBlock>(1),
           cosine},
          {load_matrix<T, K, float>, load_matrix<T, K, Double<T>>, load_matrix<T, K, core::Half>,
           load_matrix<T, K, core::BFloat16>},
          {store_matrix<T, K, float>, store_matrix<T, K, Double<T>>, store_matrix<T, K, core::Half>,
           store_matrix<T, K, core::BFloat16>}};
}

// add(form, shape), for all forms of costs and shapes of steps.
template <class Add>
constexpr void each_form_and_shape(Add add) {
  const auto add_form = [&](auto form) {
    add(form, Int<one_weight>{}), add(form, Int<doubled_diagonal>{});
    add(form, Int<heavier_diagonal>{}), add(form, Int<any_weights>{});
  };
  add_form(Int<plain_cost>{}), add_form(Int<double_cost>{});
}

template <class T, int K>
constexpr RuleKernels<T> rules() {
  RuleKernels<T> r{};
  const auto add = [&](auto form, auto shape) {
    constexpr int f = decltype(form)::value;
    constexpr bool split = f == double_cost && sizeof(T) == 4;
    constexpr auto s = static_cast<StepShape>(decltype(shape)::value);
    r.soft[f][s][0][0] = strip_sweep<T, K, s, split, false, false, false>;
    r.soft[f][s][0][1] = strip_sweep<T, K, s, split, false, true, false>;
    r.soft[f][s][1][0] = strip_sweep<T, K, s, split, true, false, false>;
    r.soft[f][s][1][1] = strip_sweep<T, K, s, split, true, true, false>;
    // Tangents take the general steps and a mask: what they do beside weighs more.
    constexpr StepShape t = s == one_weight ? one_weight : any_weights;
    r.tangent[f][s][0] = strip_sweep<T, K, t, split, false, true, true>;
    r.tangent[f][s][1] = strip_sweep<T, K, t, split, true, true, true>;
  };
  each_form_and_shape(add);
  constexpr CostForm wide = sizeof(T) == 4 ? double_cost : plain_cost;
  r.core[plain_cost][0] = sweep_corridor<T, K, plain_cost, false>;
  r.core[plain_cost][1] = sweep_corridor<T, K, plain_cost, true>;
  r.core[double_cost][0] = sweep_corridor<T, K, wide, false>;
  r.core[double_cost][1] = sweep_corridor<T, K, wide, true>;
  const auto add_hard = [&](auto differ, auto masked) {
    constexpr bool d = decltype(differ)::value, m = decltype(masked)::value;
    r.hard[d][m][0] = hard_sweep<T, K, !d, m, 0>;
    r.hard[d][m][1] = hard_sweep<T, K, !d, m, 1>;
    r.hard[d][m][2] = hard_sweep<T, K, !d, m, 2>;
  };
  add_hard(Int<0>{}, Int<0>{}), add_hard(Int<0>{}, Int<1>{}), add_hard(Int<1>{}, Int<0>{}),
      add_hard(Int<1>{}, Int<1>{});
  r.adjoint = rule_adjoint<T, K, true, false>;
  r.adjoint_tangent = rule_adjoint<T, K, true, true>;
  return r;
}

template <class T, int K>
constexpr LaneKernels<T> lane_kernels() {
  constexpr CostForm wide = sizeof(T) == 4 ? double_cost : plain_cost;
  LaneKernels<T> r{};
  r.core[plain_cost][0] = sweep_band<T, K, plain_cost, false>;
  r.core[plain_cost][1] = sweep_band<T, K, plain_cost, true>;
  r.core[double_cost][0] = sweep_band<T, K, wide, false>;
  r.core[double_cost][1] = sweep_band<T, K, wide, true>;
  const auto add = [&](auto form, auto shape) {
    constexpr int f = decltype(form)::value;
    constexpr bool split = f == double_cost && sizeof(T) == 4;
    constexpr auto s = static_cast<StepShape>(decltype(shape)::value);
    r.soft[f][s][0] = lane_sweep<T, K, s, split, false>;
    r.soft[f][s][1] = lane_sweep<T, K, s, split, true>;
  };
  each_form_and_shape(add);
  const auto add_hard = [](auto &of, auto unit, auto masked) {
    constexpr bool u = decltype(unit)::value, m = decltype(masked)::value;
    of[0] = hard_lanes<T, K, u, m, 0>;
    of[1] = hard_lanes<T, K, u, m, 1>;
    of[2] = hard_lanes<T, K, u, m, 2>;
  };
  add_hard(r.hard_core[0], Int<1>{}, Int<0>{});
  add_hard(r.hard_core[1], Int<1>{}, Int<1>{});
  add_hard(r.hard, Int<0>{}, Int<1>{});
  r.adjoint = rule_adjoint<T, K, false, false>;
  r.largest = lane_largest<T>;
  r.total = lane_total<T>;
  r.grow = lane_grow<T>;
  return r;
}

template <class T>
constexpr Kernels<T> kernels() {
  constexpr int W = Vec<T>::width;
  return {W,
          mapping_kernels<T, strip_rows / W, true>(),
          mapping_kernels<T, lane_rows, false>(),
          {load_matrix<T, 1, float>, load_matrix<T, 1, Double<T>>, load_matrix<T, 1, core::Half>,
           load_matrix<T, 1, core::BFloat16>},
          {store_matrix<T, 1, float>, store_matrix<T, 1, Double<T>>, store_matrix<T, 1, core::Half>,
           store_matrix<T, 1, core::BFloat16>},
          {load_row<T, float>, load_row<T, Double<T>>, load_row<T, core::Half>, load_row<T, core::BFloat16>},
          {store_row<T, float>, store_row<T, Double<T>>, store_row<T, core::Half>, store_row<T, core::BFloat16>},
          rules<T, strip_rows / W>(),
          lane_kernels<T, lane_rows>(),
          total<T>,
          grow<T>,
          {reach<T, false>, reach<T, true>},
          {centred<T, false>, centred<T, true>},
          normalise<T>,
          project<T>};
}
