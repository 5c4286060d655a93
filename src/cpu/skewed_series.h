// The series of a pair as the skewed mapping wants them: packed for the fused kernels, gradients unpacked, costs
// bounded.
#pragma once

#include <algorithm>

#include "cpu/cosine.h"
#include "cpu/engine.h"
#include "cpu/pair.h"

namespace sdtw::cpu {

// A series as the caller has it.
template <class In>
struct Strided {
  const In *data;
  int64_t step, feature;  // strides
};
template <class Out>
struct StridedOut {
  Out *data;
  int64_t step, feature;
};

// Where the packed series of one pair lie for a skewed mapping:
//   x [strip][room][K][W], feature by feature, row strip * 64 + l K + k, rows past the end repeating the last one;
//   y [feature][pad + m + pad] backwards, so that the column s - l of lane l is a contiguous load; ends repeated too.
// The repeats keep the costs of cells that do not exist within the pair's own bound.
template <class T>
struct SkewedSeries {
  const Kernels<T> *kernels;
  T *x, *y;
  int64_t features, n, m;  // the pair's own lengths
  int64_t room;            // packed_features
  T *centre = nullptr;     // [features]: of `points`

  int64_t y_length() const { return padded_length(m); }
  int64_t strips() const { return ceil_div<int64_t>(n, strip_rows); }
  int64_t size_x() const { return strips() * strip_rows * room; }
  int64_t size_y() const { return y_length() * room; }
  int64_t strip(int64_t b) const { return b * strip_rows * room; }
  // y of lane 0 at step s.
  int64_t column(int64_t s) const { return pad + m - 1 - s; }

  // Descriptor of a move of `count` <= 64 time steps in [features][K][W] blocks, forwards or backwards.
  template <class Pointer>
  MatrixTile block(Pointer data, int64_t step, int64_t feature, int64_t count, bool backwards,
                   int64_t (&last)[strip_rows], const int64_t (&first)[max_width]) const {
    const int W = kernels->width, K = strip_rows / W;
    MatrixTile move{};
    move.steps = features;
    move.source = data;
    move.target = const_cast<void *>(static_cast<const void *>(data));
    // Forwards, rows go along the lanes' K rows; backwards, along the lanes: the order in which each is laid out.
    move.lane_stride = backwards ? -step : K * step;
    move.row_stride = backwards ? -W * step : step;
    move.step_stride = feature;
    move.first = first;
    move.last = last;
    move.limit = std::numeric_limits<double>::infinity();
    for (int k = 0; k < K; ++k)
      for (int l = 0; l < W; ++l) last[k * W + l] = (backwards ? k * W + l : l * K + k) < count ? features : 0;
    return move;
  }

  template <class In>
  void pack(Strided<In> from_x, Strided<In> from_y, T *block_of_tile) {
    if (features < few)
      pack_few(from_x, from_y);
    else
      pack_blocks(from_x, from_y, block_of_tile);
    const int W = kernels->width, K = strip_rows / W;
    T *const end = x + strip(strips() - 1);
    const int64_t present = (n - 1) % strip_rows + 1;
    const auto at = [&](int64_t row) { return (row % K) * W + row / K; };
    int64_t absent[strip_rows];
    for (int64_t row = present; row < strip_rows; ++row) absent[row] = at(row);
    for (int64_t f = 0, last = at(present - 1); f < features; ++f)
      for (int64_t row = present; row < strip_rows; ++row)
        end[f * strip_rows + absent[row]] = end[f * strip_rows + last];
    for (int64_t f = 0; f < features; ++f) {
      T *row = y + f * y_length();
      std::fill(row, row + pad, row[pad]);
      std::fill(row + pad + m, row + y_length(), row[pad + m - 1]);
    }
  }

  // One number at a time: blocks are for vectors full of features. Gradients likewise.
  static constexpr int64_t few = 16;
  template <class In>
  void pack_few(Strided<In> from_x, Strided<In> from_y) {
    const int W = kernels->width, K = strip_rows / W;
    for (int64_t i = 0; i < n; i += K) {  // K rows of one lane
      T *const to = x + strip(i / strip_rows) + i % strip_rows / K;
      for (int64_t k = 0; k < K && i + k < n; ++k)
        for (int64_t f = 0; f < features; ++f)
          to[f * strip_rows + k * W] = static_cast<T>(from_x.data[(i + k) * from_x.step + f * from_x.feature]);
    }
    for (int64_t f = 0; f < features; ++f) {
      T *const to = y + f * y_length() + pad + m - 1;
      for (int64_t j = 0; j < m; ++j) to[-j] = static_cast<T>(from_y.data[j * from_y.step + f * from_y.feature]);
    }
  }

  template <class Out>
  void unpack_few_x(StridedOut<Out> to, const T *grad_x, T factor) const {
    const int W = kernels->width, K = strip_rows / W;
    for (int64_t i = 0; i < n; i += K) {
      const T *const from = grad_x + strip(i / strip_rows) + i % strip_rows / K;
      for (int64_t k = 0; k < K && i + k < n; ++k)
        for (int64_t f = 0; f < features; ++f)
          to.data[(i + k) * to.step + f * to.feature] = static_cast<Out>(from[f * strip_rows + k * W] * factor);
    }
  }
  template <class Out>
  void unpack_few_y(StridedOut<Out> to, const T *grad_y, T factor) const {
    for (int64_t f = 0; f < features; ++f) {
      const T *const from = grad_y + f * y_length() + pad + m - 1;
      for (int64_t j = 0; j < m; ++j) to.data[j * to.step + f * to.feature] = static_cast<Out>(from[-j] * factor);
    }
  }

  template <class In>
  void pack_blocks(Strided<In> from_x, Strided<In> from_y, T *block_of_tile) {
    const int64_t first[max_width] = {};
    int64_t last[strip_rows];
    const auto load = kernels->strips.load[core::dtype_of<In>];
    for (int64_t i = 0; i < n; i += strip_rows)
      load(block(from_x.data + i * from_x.step, from_x.step, from_x.feature, n - i, false, last, first), x + i * room);
    // y, 64 columns and as many features as a tile holds at a time.
    for (int64_t j = 0; j < m; j += strip_rows) {
      const int64_t count = std::min<int64_t>(strip_rows, m - j), top = m - 1 - j;
      for (int64_t f = 0; f < features; f += strip_rows) {
        SkewedSeries part = *this;
        part.features = std::min<int64_t>(strip_rows, features - f);
        load(part.block(from_y.data + top * from_y.step + f * from_y.feature, from_y.step, from_y.feature, count, true,
                        last, first),
             block_of_tile);
        for (int64_t g = 0; g < part.features; ++g)
          std::memcpy(y + (f + g) * y_length() + pad + j, block_of_tile + g * strip_rows, size_t(count) * sizeof(T));
      }
    }
  }

  // Writes a gradient that is packed as x (y) is, times factor, into the n (m) time steps of the caller's array.
  template <class Out>
  void unpack_x(StridedOut<Out> to, const T *grad_x, T factor) const {
    if (features < few) return unpack_few_x(to, grad_x, factor);
    const int64_t first[max_width] = {};
    int64_t last[strip_rows];
    T factors[max_width];
    std::fill(factors, factors + max_width, factor);
    for (int64_t i = 0; i < n; i += strip_rows)
      kernels->strips.store[core::dtype_of<Out>](
          block(to.data + i * to.step, to.step, to.feature, n - i, false, last, first), grad_x + i * room, factors);
  }
  template <class Out>
  void unpack_y(StridedOut<Out> to, const T *grad_y, T factor, T *block_of_tile) const {
    if (features < few) return unpack_few_y(to, grad_y, factor);
    const int64_t first[max_width] = {};
    int64_t last[strip_rows];
    T factors[max_width];
    std::fill(factors, factors + max_width, factor);
    for (int64_t j = 0; j < m; j += strip_rows) {
      const int64_t count = std::min<int64_t>(strip_rows, m - j), top = m - 1 - j;
      for (int64_t f = 0; f < features; f += strip_rows) {
        SkewedSeries part = *this;
        part.features = std::min<int64_t>(strip_rows, features - f);
        for (int64_t g = 0; g < part.features; ++g)
          std::memcpy(block_of_tile + g * strip_rows, grad_y + (f + g) * y_length() + pad + j,
                      size_t(count) * sizeof(T));
        kernels->strips.store[core::dtype_of<Out>](
            part.block(to.data + top * to.step + f * to.feature, to.step, to.feature, count, true, last, first),
            block_of_tile, factors);
      }
    }
  }

  // What costs from products take: scale is that of costs.
  void centre_points(sdtw_metric metric, double scale, double *wide_x, double *wide_y, double *norm_x,
                     double *norm_y) const {
    find_centre();
    const ProductScales by(metric, scale);
    kernels->centred[by.coordinates](points_x(), by.x, by.norm, wide_x, norm_x);
    kernels->centred[by.coordinates](points_y(), by.y, by.norm, wide_y, norm_y);
  }

  // Points of norm 1 / sqrt(2) in place of what has been packed, or of float ones in wide_x and wide_y, and their
  // number of features.
  int64_t normalise(double *wide_x, double *wide_y, double *inverse_x, double *inverse_y) const {
    bool zeros = false;
    for (int64_t i = 0; i < strips(); ++i) zeros |= kernels->normalise(cosine_x(i, wide_x, inverse_x), features);
    zeros |= kernels->normalise(cosine_y(wide_y, inverse_y), features);
    if (!zeros) return features;
    for (int64_t i = 0; i < strips(); ++i) mark_zeros(cosine_x(i, wide_x, inverse_x), features, 0);
    mark_zeros(cosine_y(wide_y, inverse_y), features, 1);
    return room;
  }
  // From sums to gradients, which may take their place.
  void project_x(double *wide_x, double *inverse_x, const double *sums, T *grad_x) const {
    for (int64_t i = 0; i < strips(); ++i)
      kernels->project(cosine_x(i, wide_x, inverse_x), features, sums + strip(i), grad_x + strip(i));
  }
  void project_y(double *wide_y, double *inverse_y, const double *sums, T *grad_y) const {
    kernels->project(cosine_y(wide_y, inverse_y), features, sums, grad_y);
  }

  // Likewise along tangents: cpu/cosine.h.
  void along_x(double *inverse_x, const T *tangent, double *dot) const {
    for (int64_t i = 0; i < strips(); ++i)
      along(cosine_x(i, nullptr, inverse_x), features, tangent + strip(i), dot + i * strip_rows);
  }
  void along_y(double *inverse_y, const T *tangent, double *dot) const {
    along(cosine_y(nullptr, inverse_y), features, tangent, dot);
  }
  void project_tangent_x(double *inverse_x, const T *tangent, const double *along, const T *gradient,
                         T *gradient_dot) const {
    for (int64_t i = 0; i < strips(); ++i)
      project_tangent(cosine_x(i, nullptr, inverse_x), features, tangent + strip(i), along + i * strip_rows,
                      gradient + strip(i), gradient_dot + strip(i));
  }
  void project_tangent_y(double *inverse_y, const T *tangent, const double *along, const T *gradient,
                         T *gradient_dot) const {
    project_tangent(cosine_y(nullptr, inverse_y), features, tangent, along, gradient, gradient_dot);
  }

  // An upper bound of D over all cells, by the triangle inequality around a mean of y.
  CostBound cost_bound(sdtw_metric metric) const {
    CostBound bound;
    find_centre();
    const auto reach = [&](const PointBlocks<T> &points) {
      T largest[max_width], poison[max_width];
      const bool absolute = metric == SDTW_CITYBLOCK;
      kernels->reach[absolute](points, largest, poison);
      double all = 0;
      for (int l = 0; l < kernels->width; ++l) all = std::max(all, double(largest[l])) + double(poison[l]);
      return absolute ? all : std::sqrt(all);
    };
    const double sum = reach(points_x()) + reach(points_y());
    bound.largest = metric == SDTW_SQEUCLIDEAN ? sum * sum : sum;
    if (metric == SDTW_COSINE) bound.largest = 2 + 0 * sum;
    if (metric == SDTW_EUCLIDEAN)
      for (int64_t i = 0; i <= strips(); ++i)
        bound.tiny |= i < strips() ? any_tiny(x + strip(i), strip_rows * features) : any_tiny(y, y_length() * features);
    return bound;
  }

 private:
  CosineBlock<T> cosine_x(int64_t i, double *wide, double *inverse) const {
    return {x + strip(i), wide ? wide + strip(i) : nullptr, inverse + i * strip_rows, strip_rows, strip_rows};
  }
  CosineBlock<T> cosine_y(double *wide, double *inverse) const { return {y, wide, inverse, y_length(), y_length()}; }

  PointBlocks<T> points_x() const {
    return {x, strips(), strip_rows * room, features, strip_rows, strip_rows, centre, false};
  }
  PointBlocks<T> points_y() const { return {y, 1, 0, features, y_length(), y_length(), centre, false}; }

  // A mean of y.
  void find_centre() const {
    const int64_t samples = std::min<int64_t>(m, 16);
    int64_t at[16];
    for (int64_t i = 0; i < samples; ++i) at[i] = pad + i * m / samples;
    for (int64_t f = 0; f < features; ++f) {
      T sum = 0;
      for (int64_t i = 0; i < samples; ++i) sum += y[f * y_length() + at[i]];
      centre[f] = sum / T(samples);
    }
  }
};

}  // namespace sdtw::cpu
