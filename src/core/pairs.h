// Which series a pair is made of.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/numbers.h"

namespace sdtw::core {

struct PairIndex {
  int64_t pair, x, y;  // of the results, of the series
};

SDTW_HOST_DEVICE inline PairIndex pair_index(int64_t pair, bool all_pairs, int64_t batch_y) {
  return all_pairs ? PairIndex{pair, pair / batch_y, pair % batch_y} : PairIndex{pair, pair, pair};
}

// With SDTW_SYMMETRIC pairs (i, j) with i <= j are computed, row by row: how many, which number one has, and which is
// the k-th.
SDTW_HOST_DEVICE inline int64_t pairs_of_triangle(int64_t batch) {
  return batch % 2 ? (batch + 1) / 2 * batch : batch / 2 * (batch + 1);
}
SDTW_HOST_DEVICE inline int64_t number_in_triangle(int64_t i, int64_t j, int64_t batch) {
  return i * batch - i * (i - 1) / 2 + j - i;
}
SDTW_HOST_DEVICE inline PairIndex pair_of_triangle(int64_t k, int64_t batch) {
  const double size = 2.0 * static_cast<double>(batch) + 1;
  int64_t i = static_cast<int64_t>((size - std::sqrt(std::fmax(size * size - 8.0 * static_cast<double>(k), 0.0))) / 2);
  while (i > 0 && number_in_triangle(i, i, batch) > k) i--;  // the root is rounded
  while (number_in_triangle(i + 1, i + 1, batch) <= k) i++;
  const int64_t j = i + k - number_in_triangle(i, i, batch);
  return {i * batch + j, i, j};
}

}  // namespace sdtw::core
