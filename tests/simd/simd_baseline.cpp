#include "cpu/simd_baseline.h"

#include "simd/check_vectors.h"

test::Failures test::check_baseline_vectors() { return check_vectors<sdtw::cpu::baseline::Vec, false>(); }
