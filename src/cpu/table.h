// Instantiates the kernels for one ISA. Included by kernels_*.cpp inside its namespace, after its Vec.

template <int N>
struct Int {
  static constexpr int value = N;
};

#include "cpu/metrics.h"
#include "cpu/sweeps.h"
#include "cpu/tiles.h"

template <class T, int K, bool skew, class Metric>
constexpr MetricKernels<T> metric_kernels(double slope) {
  constexpr bool split = sizeof(T) == 4, sign = std::is_same_v<Metric, core::CityBlock>;
  MetricKernels<T> kernels{};
  kernels.cost[plain_cost] = kernels.cost[double_cost] = metric_cost<Metric, T, K>;
  if constexpr (split) kernels.cost[double_cost] = metric_double<Metric, T, K>;
  if constexpr (std::is_same_v<Metric, core::Euclidean>) {
    kernels.slopes[plain_cost] = reciprocal_slopes<T, K, false>;
    kernels.slopes[double_cost] = reciprocal_slopes<T, K, split>;
  }
  kernels.gradient = metric_gradient<T, K, skew, sign>;
  kernels.slope = slope;
  return kernels;
}

// The float engine never meets a double matrix: its entry for one is that for floats.
template <class T>
using Double = std::conditional_t<sizeof(T) == 8, double, float>;

template <class T, int K, bool skew>
constexpr Walk<T> walk() {
  constexpr bool split = sizeof(T) == 4;
  const auto sqeuclidean = metric_kernels<T, K, skew, core::SqEuclidean>(2);
  return {K,
          {sweep<T, K, skew, false, false>, sweep<T, K, skew, split, false>},
          {sweep<T, K, skew, false, true>, sweep<T, K, skew, split, true>},
          adjoint<T, K, skew>,
          {{},
           sqeuclidean,
           metric_kernels<T, K, skew, core::Euclidean>(1),
           metric_kernels<T, K, skew, core::CityBlock>(1),
           sqeuclidean},
          {load_matrix<T, K, float>, load_matrix<T, K, Double<T>>},
          {store_matrix<T, K, float>, store_matrix<T, K, Double<T>>}};
}

template <class T>
constexpr Kernels<T> kernels() {
  constexpr int W = Vec<T>::width;
  return {W,
          walk<T, strip_rows / W, true>(),
          walk<T, lane_rows, false>(),
          {load_matrix<T, 1, float>, load_matrix<T, 1, Double<T>>},
          {store_matrix<T, 1, float>, store_matrix<T, 1, Double<T>>}};
}
