// How tests compute: no alignment goes unchecked, whatever else a test asks of it.
#pragma once

#include "check_alignment.h"

namespace test {

Result run(const Case &c);

}  // namespace test
