// The series of a group of pairs as lanes want them: interleaved for the fused kernels, gradients taken apart, costs
// bounded.
#pragma once

#include <algorithm>

#include "cpu/pair.h"

namespace sdtw::cpu {

// Series are [row][feature][W], one pair a lane, the first being `first_pair` of the batch.
template <class T>
struct LaneSeries {
  const Kernels<T> &kernels;
  int64_t first_pair, features;
  int W;  // kernels.width

  // Series of all lanes as [row][feature][W], lanes that end early repeating their last row, `padded` rows in all.
  template <class In>
  void pack(const sdtw_in &from, const int64_t *lengths, int64_t longest, int64_t padded, T *to) const {
    const bool contiguous = from.stride[2] == 1 && from.stride[1] == features;
    int64_t last[max_width];
    const int64_t first[max_width] = {};
    MatrixTile t{};
    t.source = static_cast<const In *>(from.data) + first_pair * from.stride[0];
    t.lane_stride = from.stride[0];
    t.step_stride = from.stride[2];
    t.first = first;
    t.last = last;
    t.limit = std::numeric_limits<double>::infinity();
    const auto load = kernels.pack[sizeof(In) == 8];
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
  template <class In>
  void unpack(const sdtw_out &into, const int64_t *lengths, int64_t longest, const T *grad, const T *factor,
              T sign) const {
    int64_t last[max_width];
    const int64_t first[max_width] = {};
    T factors[max_width];
    for (int l = 0; l < W; ++l) factors[l] = sign * factor[l];
    MatrixTile t{};
    t.target = static_cast<In *>(into.data) + first_pair * into.stride[0];
    t.lane_stride = into.stride[0];
    t.step_stride = into.stride[2];
    t.first = first;
    t.last = last;
    t.steps = features;
    const auto store = kernels.unpack[sizeof(In) == 8];
    if (into.stride[2] == 1 && into.stride[1] == features) {
      t.steps = longest * features;
      for (int l = 0; l < W; ++l) last[l] = lengths[l] * features;
      store(t, grad, factors);
      return;
    }
    for (int64_t i = 0; i < longest; ++i) {
      for (int l = 0; l < W; ++l) last[l] = i < lengths[l] ? features : 0;
      store(t, grad + i * features * W, factors);
      t.target = static_cast<In *>(t.target) + into.stride[1];
    }
  }

  // As SkewedSeries::cost_bound, the largest over the group. Counts are those of the longest lane.
  double cost_bound(const T *x, int64_t x_count, const T *y, int64_t y_count) const {
    T centre[max_width], largest[2][max_width] = {}, poison = 0;
    for (int side = 0; side < 2; ++side) {
      const T *data = side ? y : x;
      const int64_t count = side ? y_count : x_count;
      for (int64_t i = 0; i < count; ++i) {
        T sum[max_width] = {};
        for (int64_t f = 0; f < features; ++f) {
          for (int l = 0; l < W; ++l) centre[l] = y[f * W + l];
          for (int l = 0; l < W; ++l) {
            const T d = data[(i * features + f) * W + l] - centre[l];
            sum[l] += d * d;
          }
        }
        for (int l = 0; l < W; ++l) {
          largest[side][l] = sum[l] > largest[side][l] ? sum[l] : largest[side][l];
          poison += 0 * sum[l];
        }
      }
    }
    double bound = 0;
    for (int l = 0; l < W; ++l) {
      const double reach = std::sqrt(double(largest[0][l])) + std::sqrt(double(largest[1][l]));
      bound = std::max(bound, reach * reach);
    }
    return bound + double(poison);
  }
};

}  // namespace sdtw::cpu
