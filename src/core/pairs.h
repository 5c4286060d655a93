// Which series a pair is made of.
#pragma once

#include <cstdint>

#include "core/numbers.h"

namespace sdtw::core {

struct PairIndex {
  int64_t pair, x, y;  // of the results, of the series
};

SDTW_HOST_DEVICE inline PairIndex pair_index(int64_t pair, bool all_pairs, int64_t batch_y) {
  return all_pairs ? PairIndex{pair, pair / batch_y, pair % batch_y} : PairIndex{pair, pair, pair};
}

// With SDTW_SYMMETRIC pairs (i, j) with i <= j are computed: how many, and which is the k-th, row by row.
SDTW_HOST_DEVICE inline int64_t pairs_of_triangle(int64_t batch) {
  return batch % 2 ? (batch + 1) / 2 * batch : batch / 2 * (batch + 1);
}

}  // namespace sdtw::core
