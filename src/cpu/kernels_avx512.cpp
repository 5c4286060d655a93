// The CPU kernels compiled for AVX-512.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/cell.h"
#include "core/metric.h"
#include "cpu/kernels.h"
#include "cpu/simd_avx512.h"

namespace sdtw::cpu {
namespace avx512 {
#include "cpu/table.h"
}  // namespace avx512

const Isa &isa_avx512() {
  static constexpr Isa isa{avx512::kernels<float>(), avx512::kernels<double>()};
  return isa;
}
}  // namespace sdtw::cpu
