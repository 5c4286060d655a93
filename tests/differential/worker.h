// What a worker of the differential driver needs of its device.
#pragma once

#include "harness.h"

namespace test {

// A stream of the calling thread's own, on which its problem runs beside those of others.
void prepare_worker(Case &c);

}  // namespace test
