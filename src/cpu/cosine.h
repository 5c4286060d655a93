// Series whose cosine distance is wanted, as sqeuclidean's kernels take them: core/metric.h, but divided by the square
// root of 2 as well, so that the cost is the squared distance itself.
//
// The points of a block lie side by side and their features `stride` apart. For float cells they are kept in double: a
// rounded coordinate is off by as much where two points are near each other as where they are not, and their cost by
// more than float32's share. What follows a point of norm 0 is marked by an inverse of 0.
#pragma once

#include <algorithm>
#include <cmath>

#include "core/metric.h"

namespace sdtw::cpu {

constexpr double half_root = 0.70710678118654752440;  // of 2

template <class T>
struct CosineBlock {
  T *points;        // [features][stride], replaced
  double *wide;     // for T = float: likewise, in double
  double *inverse;  // 1 / (norm sqrt(2)) of each point, or 0
  int64_t stride, count;

  static constexpr int64_t portion = 64;

  // Whether any point has norm 0.
  bool normalise(int64_t features) const {
    bool any_zero = false;
    for (int64_t at = 0; at < count; at += portion) any_zero |= normalise(features, at, std::min(portion, count - at));
    return any_zero;
  }

  // The two features more, of which `mine` is the one where points of norm 0 have their 1.
  void mark_zeros(int64_t features, int mine) const {
    for (int64_t f = 0; f < core::Cosine::more_features; ++f)
      for (int64_t i = 0; i < count; ++i) {
        const double mark = f == mine && inverse[i] == 0 ? half_root : 0;
        points[(features + f) * stride + i] = T(mark);
        if (wide) wide[(features + f) * stride + i] = mark;
      }
  }

  // From the derivative with respect to these points to that with respect to the caller's, in place.
  void project(int64_t features, T *gradient) const {
    for (int64_t at = 0; at < count; at += portion) {
      const int64_t width = std::min(portion, count - at);
      double dot[portion] = {};
      const auto each = [&](auto &&body) {
        for (int64_t f = 0; f < features; ++f)
          for (int64_t i = 0; i < width; ++i) {
            const int64_t place = f * stride + at + i;
            body(i, wide ? wide[place] : double(points[place]), gradient[place]);
          }
      };
      each([&](int64_t i, double x, T &g) { dot[i] += x * double(g); });
      each([&](int64_t i, double x, T &g) { g = T(inverse[at + i] * (double(g) - 2 * x * dot[i])); });
    }
  }

  // The product of each of these points with the caller's tangent there.
  void along(int64_t features, const T *tangent, double *dot) const {
    std::fill(dot, dot + count, 0.);
    for (int64_t f = 0; f < features; ++f)
      for (int64_t i = 0; i < count; ++i) dot[i] += point(f * stride + i) * double(tangent[f * stride + i]);
  }

  // The derivative of project, in gradient_dot's place, where `gradient` has the derivative gradient_dot, the points
  // have `tangent`, and the caller's points `along` of theirs: the inverse's own is -2 inverse^2 along.
  void project_tangent(int64_t features, const T *tangent, const double *along, const T *gradient,
                       T *gradient_dot) const {
    for (int64_t at = 0; at < count; at += portion) {
      const int64_t width = std::min(portion, count - at);
      double dot[portion] = {}, dot_dot[portion] = {};
      const auto each = [&](auto &&body) {
        for (int64_t f = 0; f < features; ++f)
          for (int64_t i = 0; i < width; ++i) {
            const int64_t place = f * stride + at + i;
            body(i, point(place), double(tangent[place]), double(gradient[place]), gradient_dot[place]);
          }
      };
      each([&](int64_t i, double x, double x_dot, double g, T &g_dot) {
        dot[i] += x * g;
        dot_dot[i] += x_dot * g + x * double(g_dot);
      });
      each([&](int64_t i, double x, double x_dot, double g, T &g_dot) {
        const double scale = inverse[at + i], scale_dot = -2 * scale * scale * along[at + i];
        g_dot = T(scale_dot * (g - 2 * x * dot[i]) + scale * (double(g_dot) - 2 * x_dot * dot[i] - 2 * x * dot_dot[i]));
      });
    }
  }

 private:
  double point(int64_t place) const { return wide ? wide[place] : double(points[place]); }
  bool normalise(int64_t features, int64_t at, int64_t width) const {
    double scale[portion], sum[portion] = {};
    find_scale(features, at, width, scale);
    for (int64_t f = 0; f < features; ++f)
      for (int64_t i = 0; i < width; ++i) {
        const double v = double(points[f * stride + at + i]) * scale[i];
        sum[i] += v * v;
      }
    bool any_zero = false;
    for (int64_t i = 0; i < width; ++i) {
      const double factor = sum[i] == 0 ? 0 : half_root / std::sqrt(sum[i]);
      any_zero |= sum[i] == 0;
      inverse[at + i] = std::min(factor * scale[i], std::numeric_limits<double>::max());
      sum[i] = factor;
    }
    for (int64_t f = 0; f < features; ++f)
      for (int64_t i = 0; i < width; ++i) {
        const int64_t place = f * stride + at + i;
        const double v = double(points[place]) * scale[i] * sum[i];
        points[place] = T(v);
        if (wide) wide[place] = v;
      }
    return any_zero;
  }
  // Powers of two that keep the squares of doubles within their range.
  void find_scale(int64_t features, int64_t at, int64_t width, double (&scale)[portion]) const {
    std::fill(scale, scale + portion, 1.);
    if (sizeof(T) == 4) return;
    double largest[portion] = {};
    for (int64_t f = 0; f < features; ++f)
      for (int64_t i = 0; i < width; ++i)
        largest[i] = std::max(largest[i], std::abs(double(points[f * stride + at + i])));
    for (int64_t i = 0; i < width; ++i)
      if (largest[i] > 1e140)
        scale[i] = 0x1p-600;
      else if (largest[i] < 1e-140)
        scale[i] = 0x1p600;
  }
};

}  // namespace sdtw::cpu
