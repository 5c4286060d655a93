// The series of a group of pairs as lanes want them: interleaved for the fused kernels, gradients taken apart, costs
// bounded.
#pragma once

#include <algorithm>

#include "cpu/cosine.h"
#include "cpu/engine.h"
#include "cpu/pair.h"

namespace sdtw::cpu {

// Series are [row][feature][W], one pair a lane. Where a lane's series begins in the caller's array, in elements, is
// given as `offsets`.
template <class T>
struct LaneSeries {
  const Kernels<T> &kernels;
  int64_t features;
  int W;  // kernels.width

  // Series of all lanes as [row][feature][W], lanes that end early repeating their last row, `padded` rows in all.
  template <class In>
  void pack(const sdtw_in &from, const int64_t *offsets, const int64_t *lengths, int64_t longest, int64_t padded,
            T *to) const {
    const bool contiguous = from.stride[2] == 1 && from.stride[1] == features;
    int64_t last[max_width];
    const int64_t first[max_width] = {};
    MatrixTile t{};
    t.source = from.data;
    t.lane_offset = offsets;
    t.step_stride = from.stride[2];
    t.first = first;
    t.last = last;
    t.limit = std::numeric_limits<double>::infinity();
    const auto load = kernels.pack[core::dtype_of<In>];
    if (contiguous) {
      for (int l = 0; l < W; ++l) last[l] = lengths[l] * features;
      t.steps = longest * features;
      load(t, to);
    } else {
      t.steps = features;
      for (int64_t i = 0; i < longest; ++i) {
        for (int l = 0; l < W; ++l) last[l] = i < lengths[l] ? features : 0;
        load(t, to + i * features * W);
        t.source = static_cast<const In *>(t.source) + from.stride[1];
      }
    }
    for (int l = 0; l < W; ++l)
      for (int64_t i = std::max<int64_t>(1, lengths[l]); lengths[l] > 0 && i < longest; ++i)
        for (int64_t f = 0; f < features; ++f)
          to[(i * features + f) * W + l] = to[((lengths[l] - 1) * features + f) * W + l];
    for (int64_t i = longest; i < padded; ++i)
      std::copy(to + (longest - 1) * features * W, to + longest * features * W, to + i * features * W);
  }

  // Writes gradients laid out as packed series, times sign and the lanes' factors, into each lane's own time steps.
  template <class Out>
  void unpack(const sdtw_out &into, const int64_t *offsets, const int64_t *lengths, int64_t longest, const T *grad,
              const T *factor, T sign) const {
    int64_t last[max_width];
    const int64_t first[max_width] = {};
    T factors[max_width];
    for (int l = 0; l < W; ++l) factors[l] = sign * factor[l];
    MatrixTile t{};
    t.target = into.data;
    t.lane_offset = offsets;
    t.step_stride = into.stride[2];
    t.first = first;
    t.last = last;
    t.steps = features;
    const auto store = kernels.unpack[core::dtype_of<Out>];
    if (into.stride[2] == 1 && into.stride[1] == features) {
      t.steps = longest * features;
      for (int l = 0; l < W; ++l) last[l] = lengths[l] * features;
      store(t, grad, factors);
      return;
    }
    for (int64_t i = 0; i < longest; ++i) {
      for (int l = 0; l < W; ++l) last[l] = i < lengths[l] ? features : 0;
      store(t, grad + i * features * W, factors);
      t.target = static_cast<Out *>(t.target) + into.stride[1];
    }
  }

  // As SkewedSeries::centre_points.
  void centre_points(sdtw_metric metric, double scale, const T *x, int64_t x_count, double *wide_x, double *norm_x,
                     const T *y, int64_t y_count, double *wide_y, double *norm_y) const {
    const ProductScales by(metric, scale);
    kernels.centred[by.coordinates](points(x, x_count, y), by.x, by.norm, wide_x, norm_x);
    kernels.centred[by.coordinates](points(y, y_count, y), by.y, by.norm, wide_y, norm_y);
  }

  // Points of norm 1 / sqrt(2) in place of `rows` packed ones, or of float ones in `wide`; whether any has norm 0.
  // Lanes without cells (lengths 0) count for nothing.
  bool normalise(T *data, double *wide, double *inverse, int64_t rows, const int64_t *lengths) const {
    bool zeros = false;
    for (int64_t i = 0; i < rows; ++i) {
      for (int l = 0; l < W; ++l)
        if (lengths[l] == 0) data[i * features * W + l] = 1;
      zeros |= kernels.normalise(cosine(data, wide, inverse, i, features), features);
    }
    return zeros;
  }
  // Makes room for the features that mark points of norm 0.
  void mark_zeros(T *data, double *wide, double *inverse, int64_t rows, int mine) const {
    const int64_t more = features + core::Cosine::more_features;
    for (int64_t i = rows - 1; i >= 0; --i) {
      const auto spread = [&](auto *series) {
        std::copy_backward(series + i * features * W, series + (i + 1) * features * W,
                           series + (i * more + features) * W);
      };
      wide ? spread(wide) : spread(data);
      sdtw::cpu::mark_zeros(cosine(data, wide, inverse, i, more), features, mine);
    }
  }
  // Sums for packed points, of which each has `packed` features, to gradients of the caller's, which may take their
  // place.
  void project(T *data, double *wide, double *inverse, int64_t rows, int64_t packed, const double *sums,
               T *grad) const {
    for (int64_t i = 0; i < rows; ++i) {
      kernels.project(cosine(data, wide, inverse, i, packed), features, sums + i * packed * W, grad + i * packed * W);
      if (packed > features)
        std::copy(grad + i * packed * W, grad + (i * packed + features) * W, grad + i * features * W);
    }
  }

  // As SkewedSeries::cost_bound, the largest over the group. Counts are those of the longest lane.
  CostBound cost_bound(sdtw_metric metric, const T *x, int64_t x_count, const T *y, int64_t y_count) const {
    T largest[2][max_width] = {}, poison[2][max_width] = {};
    const bool absolute = metric == SDTW_CITYBLOCK;
    kernels.reach[absolute](points(x, x_count, y), largest[0], poison[0]);
    kernels.reach[absolute](points(y, y_count, y), largest[1], poison[1]);
    CostBound bound;
    for (int l = 0; l < W; ++l) {
      const double a = double(largest[0][l]), c = double(largest[1][l]);
      const double sum = absolute ? a + c : std::sqrt(a) + std::sqrt(c);
      bound.largest = std::max(bound.largest, metric == SDTW_SQEUCLIDEAN ? sum * sum : sum);
    }
    if (metric == SDTW_COSINE) bound.largest = 2;
    for (int l = 0; l < W; ++l) bound.largest += double(poison[0][l]) + double(poison[1][l]);
    if (metric == SDTW_EUCLIDEAN)
      bound.tiny = any_tiny(x, x_count * features * W) || any_tiny(y, y_count * features * W);
    return bound;
  }

 private:
  CosineBlock<T> cosine(T *data, double *wide, double *inverse, int64_t row, int64_t each) const {
    return {data + row * each * W, wide ? wide + row * each * W : nullptr, inverse + row * W, W, W};
  }

  // Relative to the first one of y.
  PointBlocks<T> points(const T *data, int64_t count, const T *y) const {
    return {data, count, features * W, features, W, W, y, true};
  }
};

}  // namespace sdtw::cpu
