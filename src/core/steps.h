// Weights and penalties of the three steps into a cell (sdtw.h), for host and device.
#pragma once

#include <cmath>

#include "core/numbers.h"

namespace sdtw::core {

enum Step { diagonal, vertical, horizontal, step_count };

struct Steps {
  double weight[step_count], penalty[step_count];

  SDTW_HOST_DEVICE double largest_weight() const {
    return std::fmax(weight[diagonal], std::fmax(weight[vertical], weight[horizontal]));
  }
  SDTW_HOST_DEVICE double largest_penalty() const {  // in size
    return std::fmax(std::fabs(penalty[diagonal]),
                     std::fmax(std::fabs(penalty[vertical]), std::fabs(penalty[horizontal])));
  }
};

}  // namespace sdtw::core
