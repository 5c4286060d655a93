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

// What of a step's cost has to be computed by itself. Only the first and the last have penalties.
enum StepShape {
  one_weight,        // of all three
  doubled_diagonal,  // the diagonal's is twice that of the other two, as in (2, 1, 1): one cost, taken off twice
  heavier_diagonal,  // it is more than theirs: what it has more
  any_weights,
  step_shapes
};

SDTW_HOST_DEVICE inline StepShape shape_of(const double *weight, const double *penalty) {
  const double other = weight[vertical];
  if (weight[horizontal] != other) return any_weights;
  if (weight[diagonal] == other) return one_weight;
  if (penalty[diagonal] != 0 || penalty[vertical] != 0 || penalty[horizontal] != 0) return any_weights;
  if (weight[diagonal] == 2 * other) return doubled_diagonal;
  // A diagonal that is heavier still would multiply what rounding takes from the others' costs.
  return weight[diagonal] > other && weight[diagonal] < 3 * other ? heavier_diagonal : any_weights;
}

}  // namespace sdtw::core
