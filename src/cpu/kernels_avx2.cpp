// The CPU kernels compiled for AVX2 and FMA.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/cell.h"
#include "core/metric.h"
#include "cpu/kernels.h"
#include "cpu/simd_avx2.h"

namespace sdtw::cpu {
namespace avx2 {
#include "cpu/table.h"
}  // namespace avx2

const Isa &isa_avx2() {
  static constexpr Isa isa{avx2::kernels<float>(), avx2::kernels<double>()};
  return isa;
}
}  // namespace sdtw::cpu
