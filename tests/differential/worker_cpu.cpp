// Workers of the differential driver in builds without CUDA.
#include "worker.h"

void test::prepare_worker(Case &) {}
