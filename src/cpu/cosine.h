// Series whose cosine distance is wanted, as sqeuclidean's kernels take them: core/metric.h, but divided by the square
// root of 2 as well, so that the cost is the squared distance itself.
//
// The points of a block lie side by side and their features `stride` apart. For float cells they are in double, and so
// are sums that gradients are made of: a rounded coordinate is off by as much where two points are near each other as
// where they are not, and their cost, and what projection leaves of a gradient, by more than float32's share. A point
// of norm 0 is marked by an inverse of 0. What makes the points, and projects gradients, are kernels (cpu/points.h).
#pragma once

#include <algorithm>

#include "core/metric.h"
#include "cpu/kernels.h"

namespace sdtw::cpu {

// The two features more, of which `mine` is the one where points of norm 0 have their 1.
template <class T>
void mark_zeros(const CosineBlock<T> &a, int64_t features, int mine) {
  for (int64_t f = 0; f < core::Cosine::more_features; ++f)
    for (int64_t i = 0; i < a.count; ++i) {
      const double mark = f == mine && a.inverse[i] == 0 ? half_root : 0;
      const int64_t place = (features + f) * a.stride + i;
      a.wide ? a.wide[place] = mark : a.points[place] = T(mark);
    }
}

// Tangents, of float64 alone. The product of each of these points with the caller's tangent there.
inline void along(const CosineBlock<double> &a, int64_t features, const double *tangent, double *dot) {
  std::fill(dot, dot + a.count, 0.);
  for (int64_t f = 0; f < features; ++f)
    for (int64_t i = 0; i < a.count; ++i) dot[i] += a.points[f * a.stride + i] * tangent[f * a.stride + i];
}

// The derivative of project, in gradient_dot's place, where `gradient` has the derivative gradient_dot, the points
// have `tangent`, and the caller's points `along` of theirs: the inverse's own is -2 inverse^2 along.
inline void project_tangent(const CosineBlock<double> &a, int64_t features, const double *tangent, const double *along,
                            const double *gradient, double *gradient_dot) {
  constexpr int64_t portion = 64;
  for (int64_t at = 0; at < a.count; at += portion) {
    const int64_t width = std::min(portion, a.count - at);
    double dot[portion] = {}, dot_dot[portion] = {};
    const auto each = [&](auto &&body) {
      for (int64_t f = 0; f < features; ++f)
        for (int64_t i = 0; i < width; ++i) {
          const int64_t place = f * a.stride + at + i;
          body(i, a.points[place], tangent[place], gradient[place], gradient_dot[place]);
        }
    };
    each([&](int64_t i, double x, double x_dot, double g, double &g_dot) {
      dot[i] += x * g;
      dot_dot[i] += x_dot * g + x * g_dot;
    });
    each([&](int64_t i, double x, double x_dot, double g, double &g_dot) {
      const double scale = a.inverse[at + i];
      const double scale_dot = -2 * scale * (scale * along[at + i]);  // the square may leave a double's range
      g_dot = scale_dot * (g - 2 * x * dot[i]) + scale * (g_dot - 2 * x_dot * dot[i] - 2 * x * dot_dot[i]);
    });
  }
}

}  // namespace sdtw::cpu
