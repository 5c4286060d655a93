// The metrics of series, for host and device: what a cost is, its derivative, and that along a tangent. A metric is one
// functor and one line in for_metric.
//
// A cost is finish(sum over features of term(x - y)), and its derivative with respect to a feature of x is
// slope(cost) direction(x - y), to that of y the negative of it. Along tangents, whose difference in a feature is dt,
// the cost changes by the sum of slope direction dt.
//
// Cosine is computed from other series: each point divided by its norm, with two features more, that are 0 but for a
// point of norm 0: there the first is 1 in x and the second in y. Half the squared distance of such points is
// 1 - <x, y> / (|x| |y|), without cancelling where they are near each other, and 1 if either is 0.
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
