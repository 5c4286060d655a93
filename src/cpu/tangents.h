// What sdtw_jvp keeps of a pair beside what its value and gradients take: the tangents of its series, derivatives of R
// along them where tiles meet, derivatives of E on their way back.
#pragma once

#include "cpu/places.h"
#include "cpu/rules.h"
#include "cpu/skewed_series.h"

namespace sdtw::cpu {

template <class T, class In>
class Tangents {
 public:
  double value = 0;  // of the pair's value

  Tangents(const Problem &problem, const Plan &plan_, const Kernels<T> &kernels_, const Buffers &buffers,
           const Place &place, int64_t n_, int64_t m_, const ScratchLayout &offsets, std::byte *scratch)
      : p(problem), plan(plan_), kernels(kernels_), b(buffers), at_place(place), n(n_), m(m_), layout(offsets) {
    if (!wanted()) return;
    series = {&kernels,          at<T>(scratch, layout.tangent_x), at<T>(scratch, layout.tangent_y), p.features, n, m,
              packed_features(p)};
    row = at<T>(scratch, layout.row_dot) + pad;
    adjoint_row = at<T>(scratch, layout.adjoint_row_dot) + pad;
    rows = at<T>(scratch, layout.dot_rows);
    columns = at<T>(scratch, layout.dot_columns);
    plain_x = at<T>(scratch, layout.plain_x), plain_y = at<T>(scratch, layout.plain_y);
    along_x = at<double>(scratch, layout.along_x), along_y = at<double>(scratch, layout.along_y);
  }

  bool wanted() const { return layout.tangents; }
  bool carried() const { return wanted() && p.gamma > 0; }  // at gamma = 0 the path is held fixed

  // The tangents packed as the series are; what is not given is 0.
  void pack(std::byte *local) {
    static constexpr In zero{};
    const auto strided = [](const sdtw_in &in, int64_t index) {
      return in.data ? Strided<In>{element<In>(in, index), in.stride[1], in.stride[2]} : Strided<In>{&zero, 0, 0};
    };
    std::fill(series.x, series.x + series.size_x(), T(0));
    std::fill(series.y, series.y + series.size_y(), T(0));
    series.pack(strided(b.tangent_x, at_place.x), strided(b.tangent_y, at_place.y), at<T>(local, layout.tile));
  }
  // From tangents of the caller's points to those of points of norm 1 / sqrt(2).
  void normalise(const SkewedSeries<T> &points, double *inverse_x, double *inverse_y) const {
    points.along_x(inverse_x, series.x, along_x);
    points.along_y(inverse_y, series.y, along_y);
    points.project_x(nullptr, inverse_x, series.x, series.x);
    points.project_y(nullptr, inverse_y, series.y, series.y);
  }

  // Derivatives of R beside Z, as in LaneState, and the tile of the costs'.
  struct Carried {
    const T *tangent;
    T *dot, *above_dot, *row_dot;
  };
  T *tile(const std::byte *local) const { return at<T>(local, layout.tangent); }
  T *alignment_dot(const std::byte *local) const { return at<T>(local, layout.alignment_dot); }
  Carried carried_in(std::byte *local, T *row_dot) const {
    T *const dot = at<T>(local, layout.dot);
    return {tile(local), dot, dot + strip_rows, row_dot};
  }
  void start_strip(std::byte *local) const {
    T *const dot = at<T>(local, layout.dot);
    std::fill(dot, dot + strip_rows + max_width, T(0));
  }
  void start() const { std::fill(row - pad, row + m + pad, T(0)); }

  // Forward: the boundaries of the tile at step s of strip i; c: how many tiles are to the left of it.
  void save(int64_t i, int64_t c, int64_t s, int64_t count, std::byte *local, bool column) const {
    if (i > 0 && s < m) std::copy(row + s, row + std::min(s + count, m), row_of(i) + s);
    const T *const dot = at<T>(local, layout.dot);
    if (column) std::copy(dot, dot + column_size, column_of(i, c));
  }
  // Backward: these again; returns the row above the tile.
  T *load(int64_t i, int64_t c, int64_t s, int64_t count, std::byte *local, bool column) const {
    T *const above = at<T>(local, layout.segment_dot) + pad;
    std::fill(above, above + count, T(0));
    if (i > 0 && s < m) std::copy(row_of(i) + s, row_of(i) + std::min(s + count, m), above);
    if (column)
      std::copy(column_of(i, c), column_of(i, c) + column_size, at<T>(local, layout.dot));
    else
      start_strip(local);
    return above;
  }

  // What goes back: derivatives beside AdjointSweep's.
  T *left(std::byte *local) const { return at<T>(local, layout.left_dot); }
  T *diagonal(std::byte *local) const { return at<T>(local, layout.diagonal_dot); }
  void start_adjoint() const { std::fill(adjoint_row - pad, adjoint_row + m + pad, T(0)); }
  void clear_carry(std::byte *local) const {
    std::fill(left(local), left(local) + strip_rows + max_width, T(0));
    std::fill(diagonal(local), diagonal(local) + strip_rows, T(0));
  }
  void skip(int64_t s, int64_t count, std::byte *local) const {
    clear_carry(local);
    std::fill(adjoint_row + s + 1, adjoint_row + s + count + 1, T(0));
  }
  RuleAdjoint<T> adjoint(const AdjointSweep<T> &of, const StepRule<T> &rule, int64_t first_step, int64_t s,
                         std::byte *local) const {
    return {of,
            &rule,
            alignment_dot(local) + s * strip_rows,
            left(local),
            diagonal(local),
            left(local) + strip_rows,
            adjoint_row + first_step + s};
  }

  // Series: the derivative of costs, and of gradients through E and through the metric.
  TangentTile<T> beside(const FusedTile<T> &of, int64_t strip, int64_t column, const std::byte *local) const {
    return {of, series.x + strip, series.y + column, tile(local), alignment_dot(local)};
  }
  void cost(TangentTile<T> t, CostForm form) const {
    t.of.features = p.features;
    metric().tangent[form](t);
  }
  void clear_gradients() const {
    if (p.metric != SDTW_COSINE) return;
    std::fill(plain_x, plain_x + series.size_x(), T(0));
    std::fill(plain_y, plain_y + series.size_y(), T(0));
  }
  void gradient(TangentTile<T> t, int64_t strip, int64_t column, CostForm form) const {
    t.of.features = p.features;
    if (metric().tangent_slopes[form]) metric().tangent_slopes[form](t);
    FusedTile<T> through_e = t.of;
    through_e.alignment = t.alignment_dot;
    metric().gradient(through_e);
    if (metric().bends) {
      FusedTile<T> through_metric = t.of;
      through_metric.x = t.x, through_metric.y = t.y;
      kernels.strips.metric[SDTW_SQEUCLIDEAN].gradient(through_metric);
    }
    if (p.metric != SDTW_COSINE) return;
    FusedTile<T> plain = t.of;  // the caller's points take the gradient itself as well
    plain.grad_x = plain_x + strip, plain.grad_y = plain_y + column;
    metric().gradient(plain);
  }
  // Cosine: from derivatives with respect to points of norm 1 / sqrt(2) to those with respect to the caller's.
  void project(const SkewedSeries<T> &points, double *inverse_x, double *inverse_y, T *grad_x, T *grad_y) const {
    points.project_tangent_x(inverse_x, series.x, along_x, plain_x, grad_x);
    points.project_tangent_y(inverse_y, series.y, along_y, plain_y, grad_y);
  }

 private:
  static constexpr int64_t column_size = strip_rows + max_width;
  template <class U>
  static U *at(const std::byte *base, size_t offset) {
    return reinterpret_cast<U *>(const_cast<std::byte *>(base) + offset);
  }
  const MetricKernels<T> &metric() const { return kernels.strips.metric[p.metric]; }
  T *row_of(int64_t i) const { return rows + (i - 1) * p.m; }
  T *column_of(int64_t i, int64_t c) const { return columns + (i * (plan.tiles_across - 1) + c - 1) * column_size; }

  const Problem &p;
  const Plan &plan;
  const Kernels<T> &kernels;
  const Buffers &b;
  const Place at_place;
  const int64_t n, m;
  const ScratchLayout &layout;
  SkewedSeries<T> series{};

 public:
  T *row = nullptr, *adjoint_row = nullptr;  // derivatives beside StripPair's

 private:
  T *rows = nullptr, *columns = nullptr;
  T *plain_x = nullptr, *plain_y = nullptr;
  double *along_x = nullptr, *along_y = nullptr;
};

}  // namespace sdtw::cpu
