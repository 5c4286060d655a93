// A Case from bytes: a call that must succeed, with sizes, layouts, lengths and data of every kind.
#pragma once

#include <algorithm>

#include "bytes.h"
#include "data.h"

namespace test {

// Dimensions in any order and direction, with gaps. Strides of inputs may also share elements. Any stride will do for a
// dimension of one element, even one that no address has room for.
inline Layout decode_layout(Bytes &bytes, bool input) {
  const uint8_t kind = bytes.byte();
  if (kind < 100) return {};
  static const int orders[6][3] = {{2, 1, 0}, {1, 2, 0}, {2, 0, 1}, {0, 2, 1}, {1, 0, 2}, {0, 1, 2}};
  const int *const order = bytes.one_of(orders);
  const uint8_t bits = bytes.byte();
  int64_t gap[3];
  for (int64_t &g : gap) g = std::max<int64_t>(0, bytes.integer(-8, 7));
  const bool repeats = input && kind >= 220;
  return {"fuzzed",
          [=](const Shape &shape) {
            Strides strides;
            int64_t next = 1;
            for (int k = 0; k < 3; ++k) {
              const int d = order[k];
              const int64_t step = next + gap[k];
              next = step * std::max<int64_t>(1, shape[d]);
              strides[d] = bits & (1 << d) ? -step : step;
              if (shape[d] == 1 && bits & 64) strides[d] = bits & 128 ? 0 : -(int64_t(1) << 60);
              if (repeats && bits & (8 << d)) strides[d] = bits & 128 ? strides[d] > 0 ? 1 : -1 : 0;
            }
            return strides;
          },
          repeats};
}

// Gives elements of an input that share an address the same value, and those that nothing live shares, NaN. live(k): of
// the element k in contiguous order.
template <class Live>
void settle(std::vector<double> &values, const Shape &shape, const Layout &layout, const Live &live) {
  const auto each = [&](const auto &f) {
    const Strides strides = layout.strides(shape);
    int64_t low = 0;
    for (int d = 0; d < 3; ++d) low += std::min<int64_t>(0, strides[d] * (shape[d] - 1));
    size_t k = 0;
    for (int64_t a = 0; a < shape[0]; ++a)
      for (int64_t b = 0; b < shape[1]; ++b)
        for (int64_t c = 0; c < shape[2]; ++c, ++k) f(k, a * strides[0] + b * strides[1] + c * strides[2] - low);
  };
  if (!layout.repeats) {
    for (size_t k = 0; k < values.size(); ++k)
      if (!live(k)) values[k] = NAN;
    return;
  }
  std::vector<double> memory;
  each([&](size_t k, int64_t offset) {
    if (offset >= static_cast<int64_t>(memory.size())) memory.resize(offset + 1, NAN);
    if (live(k)) memory[offset] = values[k];
  });
  each([&](size_t k, int64_t offset) { values[k] = memory[offset]; });
}

inline int64_t decode_length(Bytes &bytes) {
  const uint8_t kind = bytes.byte();
  if (kind < 200) return 1 + bytes.below(12);
  return 1 + bytes.below(kind < 253 ? 40 : 300);
}

// Of one pair: mostly from 0 to the padded length, seldom outside.
inline int64_t decode_pair_length(Bytes &bytes, int64_t padded) {
  const uint8_t kind = bytes.byte();
  if (kind < 40) return padded;
  if (kind >= 250) return bytes.one_of({int64_t(-1), padded + 1, int64_t(INT32_MIN), int64_t(INT32_MAX)});
  return (kind - 40) % (padded + 1);
}

inline double decode_gamma(Bytes &bytes) {
  const uint8_t kind = bytes.byte();
  if (kind == 0) return 1;
  if (kind < 225) return std::pow(10.0, -4 + 6.5 * bytes.fraction());
  static const double ends[] = {1e-200, 1e-100, 1e-45, 1e-38, 1e-30, 1e-20, 1e-10, 1e-7,
                                1e4,    1e6,    1e10,  1e20,  1e38,  1e100, 1e300, 1.4426950408889634};
  return bytes.one_of(ends);
}

inline void decode_data(Bytes &bytes, Case &c) {
  const int64_t n = c.problem.n, m = c.problem.m;
  const bool alike = !bytes.seldom(3);
  Random random(bytes.word(2));
  Data data{};
  double scale = 1;
  for (int64_t b = 0; b < c.batch(); ++b) {
    if (b == 0 || !alike) {
      data = static_cast<Data>(bytes.below(static_cast<int64_t>(Data::count)));
      const uint8_t kind = bytes.byte();
      scale = kind == 0     ? 1
              : kind < 235  ? std::pow(10.0, -1.5 + 3 * bytes.fraction())
              : kind == 255 ? 0
                            : bytes.one_of({1e-40, 1e-25, 1e-18, 1e-10, 1e-5, 1e4, 1e6, 1e10, 1e15, 1e18, 1e25, 1e37});
    }
    if (c.fused()) {
      const SeriesPair pair = series_pair(random, data, n, m, c.problem.features, scale);
      c.x.insert(c.x.end(), pair.x.begin(), pair.x.end());
      c.y.insert(c.y.end(), pair.y.begin(), pair.y.end());
    } else {
      const std::vector<double> cost = costs(random, data, n, m, std::min(1e38, scale * scale), c.problem.gamma);
      c.x.insert(c.x.end(), cost.begin(), cost.end());
    }
  }
  // Values that the kinds above do not have, anywhere.
  for (std::vector<double> *values : {&c.x, &c.y}) {
    if (values->empty() || !bytes.seldom(8)) continue;
    const bool many = bytes.seldom(4);
    const double any = bytes.special_double(), value = c.problem.dtype == SDTW_F64 ? any : narrow(any);
    for (int64_t left = many ? 1 + static_cast<int64_t>(values->size()) / 3 : bytes.integer(1, 3); left > 0; --left)
      (*values)[many ? random.integer(0, values->size() - 1) : bytes.word(2) % values->size()] = value;
  }
}

inline Case decode_case(Bytes &bytes, sdtw_device device) {
  const uint8_t kinds = bytes.byte();
  const sdtw_metric metric = kinds & 1 ? SDTW_PRECOMPUTED : SDTW_SQEUCLIDEAN;
  const int64_t n = decode_length(bytes), m = decode_length(bytes), most = std::clamp<int64_t>(4000 / (n * m), 1, 40);
  const uint8_t many = bytes.byte();
  const int64_t batch = 1 + (many < 210 ? many % 3 : bytes.below(40)) % most;
  const int64_t features = 1 + (bytes.seldom(5) ? bytes.below(70) : bytes.below(4));
  Case c = make_case(metric, batch, n, m, features, decode_gamma(bytes));
  c.problem.dtype = kinds & 2 ? SDTW_F64 : SDTW_F32;
  c.problem.length_bits = kinds & 4 ? 32 : 64;
  c.exec.device = device;
  c.exec.flags = kinds & 8 ? SDTW_DETERMINISTIC : 0;
  c.exec.num_threads = bytes.seldom(25) ? bytes.one_of({2, 3, 4, 0}) : 1;
  c.want_grad_x = !(kinds & 16) || (kinds & 32) || !c.fused();
  c.want_grad_y = !(kinds & 16) || !(kinds & 32);
  c.poison = kinds & 64 ? 0x3c : 0xff;
  if (bytes.seldom(3))
    for (std::vector<int64_t> *lengths : {&c.x_len, &c.y_len})
      if (!bytes.seldom(5))
        for (int64_t b = 0; b < batch; ++b) lengths->push_back(decode_pair_length(bytes, lengths == &c.x_len ? n : m));
  if (bytes.seldom(3)) {
    for (int64_t b = 0; b < batch; ++b) c.grad_value.push_back((bytes.byte() - 128) / 32.0);
    if (bytes.seldom(4)) c.grad_value[bytes.below(batch)] = narrow(bytes.special_double());
  }
  decode_data(bytes, c);
  if (bytes.seldom(2)) {
    for (Layout *layout : {&c.layout_x, &c.layout_y}) *layout = decode_layout(bytes, true);
    for (Layout *layout : {&c.layout_grad_x, &c.layout_grad_y, &c.layout_alignment})
      *layout = decode_layout(bytes, false);
  }
  const int64_t columns = c.shape_x()[2];
  settle(c.x, c.shape_x(), c.layout_x, [&](int64_t k) {
    return k / columns % n < c.length_x(k / columns / n) && (c.fused() || k % m < c.length_y(k / columns / n));
  });
  if (c.fused())
    settle(c.y, c.shape_y(), c.layout_y, [&](int64_t k) { return k / columns % m < c.length_y(k / columns / m); });
  return c;
}

}  // namespace test
