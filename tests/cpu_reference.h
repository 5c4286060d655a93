// What the CPU backend gives in float64, as a reference that is quicker than the oracle, which it is tested against.
#pragma once

#include "compare.h"

namespace test {

// Not for all pairs. Without the alignment the scale of values is without the path's cost.
Reference<double> cpu_reference(Case c, int32_t threads = 0);

}  // namespace test
