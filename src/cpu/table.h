// Instantiates the kernels for one ISA. Included by kernels_*.cpp inside its namespace, after its Vec.

template <int N>
struct Int {
  static constexpr int value = N;
};

#include "cpu/sweeps.h"
#include "cpu/tiles.h"

// The float engine never meets a double matrix: its entry for one is that for floats.
template <class T>
using Double = std::conditional_t<sizeof(T) == 8, double, float>;

template <class T, int K, bool skew>
constexpr Walk<T> walk() {
  constexpr bool split = sizeof(T) == 4;
  void (*in_double)(const FusedTile<T> &) = sqeuclidean_cost<T, K>;
  if constexpr (split) in_double = sqeuclidean_double<T, K>;
  return {K,
          {sweep<T, K, skew, false, false>, sweep<T, K, skew, split, false>},
          {sweep<T, K, skew, false, true>, sweep<T, K, skew, split, true>},
          adjoint<T, K, skew>,
          {sqeuclidean_cost<T, K>, in_double},
          sqeuclidean_gradient<T, K, skew>,
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
