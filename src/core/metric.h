// The metrics of series, for host and device: what a cost is, its derivative, and that along a tangent.
//
// A cost is finish(sum over features of term(x - y)), and its derivative with respect to a feature of x is
// slope(cost) direction(x - y), to that of y the negative of it. Along tangents, whose difference in a feature is dt,
// the cost changes by the sum of slope direction dt.
//
// Cosine is computed from other series: each point divided by its norm, with two features more, that are 0 but for a
// point of norm 0: there the first is 1 in x and the second in y. Half the squared distance of such points is
// 1 - <x, y> / (|x| |y|), without cancelling where they are near each other, and 1 if either is 0.
//
// A new metric is
//   its name:    in sdtw.h, and a row of names.h, where validation, bindings and tests take their lists from;
//   its functor: here, and its case in for_metric;
//   on the CPU:  its sum in vectors (add_term and finish, cpu/metrics.h), which round a square and its sum at
//                once where term would apart; what of tangents (cpu/tangent_tiles.h) and of slopes is its own; its row
//                of the table in cpu/table.h; how large costs may be (cost_bound, cpu/skewed_series.h and
//                cpu/lane_series.h), which engine takes them (engine_for, cpu/engine.h), and whether that has them from
//                products (has_products, cpu/layout.h);
//   on GPUs:     its case in `fill` and in the slopes of cuda/general/costs.cuh and cuda/general/gradients.cuh; also in
//                cuda/short_pairs/metrics.cuh and cuda/streams/, unless make_short_pairs and are_streams
//                (plan_cuda_*.cpp) leave it to the general engine. The core kernels have squared differences alone;
//   in Python:   its degree (libsdtw/_rules.py), and its costs, for derivatives of any order (libsdtw/torch/_costs.py,
//                libsdtw/jax/_costs.py);
//   in tests:    its cost in the oracles, tests/oracle_metrics.h and tests/python/oracle.py.
#pragma once

#include <cmath>

#include "core/numbers.h"
#include "sdtw.h"

namespace sdtw::core {

struct SqEuclidean {
  static constexpr sdtw_metric metric = SDTW_SQEUCLIDEAN;
  template <class T>
  SDTW_HOST_DEVICE static T term(T difference) {
    return difference * difference;
  }
  template <class T>
  SDTW_HOST_DEVICE static T finish(T sum) {
    return sum;
  }
  template <class T>
  SDTW_HOST_DEVICE static T slope(T) {
    return 2;
  }
  template <class T>
  SDTW_HOST_DEVICE static T direction(T difference) {
    return difference;
  }
};

struct Euclidean {  // of points that coincide all derivatives are 0
  static constexpr sdtw_metric metric = SDTW_EUCLIDEAN;
  template <class T>
  SDTW_HOST_DEVICE static T term(T difference) {
    return difference * difference;
  }
  template <class T>
  SDTW_HOST_DEVICE static T finish(T sum) {
    return std::sqrt(sum);
  }
  template <class T>
  SDTW_HOST_DEVICE static T slope(T cost) {
    return cost > 0 ? 1 / cost : 0;
  }
  template <class T>
  SDTW_HOST_DEVICE static T direction(T difference) {
    return difference;
  }
};

struct CityBlock {  // a difference of 0 has the derivative 0
  static constexpr sdtw_metric metric = SDTW_CITYBLOCK;
  template <class T>
  SDTW_HOST_DEVICE static T term(T difference) {
    return std::fabs(difference);
  }
  template <class T>
  SDTW_HOST_DEVICE static T finish(T sum) {
    return sum;
  }
  template <class T>
  SDTW_HOST_DEVICE static T slope(T) {
    return 1;
  }
  template <class T>
  SDTW_HOST_DEVICE static T direction(T difference) {
    return T(difference > 0) - T(difference < 0);
  }
};

struct Cosine {  // of the series that the file's head describes
  static constexpr sdtw_metric metric = SDTW_COSINE;
  static constexpr int more_features = 2;
  template <class T>
  SDTW_HOST_DEVICE static T term(T difference) {
    return difference * difference;
  }
  template <class T>
  SDTW_HOST_DEVICE static T finish(T sum) {
    return sum / 2;
  }
  template <class T>
  SDTW_HOST_DEVICE static T slope(T) {
    return 1;
  }
  template <class T>
  SDTW_HOST_DEVICE static T direction(T difference) {
    return difference;
  }
};

// Calls visit(functor) for a metric of series.
template <class Visit>
decltype(auto) for_metric(sdtw_metric metric, Visit &&visit) {
  switch (metric) {
    case SDTW_EUCLIDEAN: return visit(Euclidean{});
    case SDTW_CITYBLOCK: return visit(CityBlock{});
    case SDTW_COSINE: return visit(Cosine{});
    default: return visit(SqEuclidean{});
  }
}

}  // namespace sdtw::core
