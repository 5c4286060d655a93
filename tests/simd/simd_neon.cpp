#include "cpu/simd_neon.h"

#include "simd/check_vectors.h"

test::Failures test::check_neon_vectors() { return check_vectors<sdtw::cpu::neon::Vec, true>(); }
