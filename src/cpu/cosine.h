// Series whose cosine distance is wanted, as sqeuclidean's kernels take them: core/metric.h, but divided by the square
// root of 2 as well, so that the cost is the squared distance itself.
//
// The points of a block lie side by side and their features `stride` apart. For float cells they are kept in double: a
// rounded coordinate is off by as much where two points are near each other as where they are not, and their cost by
// more than float32's share. Gradients are made of the differences of float points, which are rounded relative to a
// point of the pair (`relate`): else nearly parallel points would be off by 1e-5 in sums over a thousand of them.
// Nearly opposite ones would be likewise: of such a pair these differences are those of x and -y. What is projected
// differs in multiples of the point that projection takes away, and, of x, in its sign, which x's inverses take. A
// point of norm 0 is marked by an inverse of 0. What makes the points, and projects gradients, are kernels
// (cpu/points.h).
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
      a.points[(features + f) * a.stride + i] = T(mark);
      if (a.wide) a.wide[(features + f) * a.stride + i] = mark;
    }
}

// Which side of its pair's other series a series is on: -1 if their means, of points of norm 1 / sqrt(2), have a
// product below half of the least that there can be.
inline double side_of(double product_of_means) { return product_of_means < -.25 ? -1 : 1; }

// What float points are relative to: feature f of it is sign[0] point[f * stride]; each_own: of point i
// sign[i] point[f * stride + i].
struct Origin {
  const double *point, *sign;
  int64_t stride;
  bool each_own;
};
// The float points relative to it. The sign is that of the points of y, and of the gradients of x.
template <class T>
void relate(const CosineBlock<T> &a, int64_t features, const Origin &origin, bool of_y) {
  const auto own = [&](int64_t i) { return origin.each_own ? i : 0; };
  for (int64_t f = 0; f < features; ++f)
    for (int64_t i = 0; i < a.count; ++i) {
      const int64_t place = f * a.stride + i;
      const double sign = origin.sign[own(i)], point = (of_y ? sign : 1) * a.wide[place];
      a.points[place] = T(point - sign * origin.point[f * origin.stride + own(i)]);
    }
  if (of_y) return;
  for (int64_t i = 0; i < a.count; ++i) a.inverse[i] *= origin.sign[own(i)];
}

template <class T>
double point_of(const CosineBlock<T> &a, int64_t place) {
  return a.wide ? a.wide[place] : double(a.points[place]);
}

// The product of each of these points with the caller's tangent there.
template <class T>
void along(const CosineBlock<T> &a, int64_t features, const T *tangent, double *dot) {
  std::fill(dot, dot + a.count, 0.);
  for (int64_t f = 0; f < features; ++f)
    for (int64_t i = 0; i < a.count; ++i) dot[i] += point_of(a, f * a.stride + i) * double(tangent[f * a.stride + i]);
}

// The derivative of project, in gradient_dot's place, where `gradient` has the derivative gradient_dot, the points
// have `tangent`, and the caller's points `along` of theirs: the inverse's own is -2 inverse^2 along.
template <class T>
void project_tangent(const CosineBlock<T> &a, int64_t features, const T *tangent, const double *along,
                     const T *gradient, T *gradient_dot) {
  constexpr int64_t portion = 64;
  for (int64_t at = 0; at < a.count; at += portion) {
    const int64_t width = std::min(portion, a.count - at);
    double dot[portion] = {}, dot_dot[portion] = {};
    const auto each = [&](auto &&body) {
      for (int64_t f = 0; f < features; ++f)
        for (int64_t i = 0; i < width; ++i) {
          const int64_t place = f * a.stride + at + i;
          body(i, point_of(a, place), double(tangent[place]), double(gradient[place]), gradient_dot[place]);
        }
    };
    each([&](int64_t i, double x, double x_dot, double g, T &g_dot) {
      dot[i] += x * g;
      dot_dot[i] += x_dot * g + x * double(g_dot);
    });
    each([&](int64_t i, double x, double x_dot, double g, T &g_dot) {
      const double scale = a.inverse[at + i];
      const double scale_dot = -2 * scale * (scale * along[at + i]);  // the square may leave a double's range
      g_dot = T(scale_dot * (g - 2 * x * dot[i]) + scale * (double(g_dot) - 2 * x_dot * dot[i] - 2 * x * dot_dot[i]));
    });
  }
}

}  // namespace sdtw::cpu
