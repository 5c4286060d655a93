#include "cpu/simd_avx512.h"

#include "simd/check_vectors.h"

test::Failures test::check_avx512_vectors() { return check_vectors<sdtw::cpu::avx512::Vec, true>(); }
