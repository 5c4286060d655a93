#include "cpu/simd_avx2.h"

#include "simd/check_vectors.h"

test::Failures test::check_avx2_vectors() { return check_vectors<sdtw::cpu::avx2::Vec, true>(); }
