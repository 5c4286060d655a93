// The errors that random problems may have, whatever their data.
#pragma once

#include "compare.h"

namespace test {

// What the library promises of values, and what is asked of gradients: docs/numerics.md.
Errors limits(const Case &c, double value);

}  // namespace test
