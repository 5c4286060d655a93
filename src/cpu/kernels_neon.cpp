// The CPU kernels compiled for AArch64.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/cell.h"
#include "core/metric.h"
#include "cpu/kernels.h"
#include "cpu/simd_neon.h"

namespace sdtw::cpu {
namespace neon {
#include "cpu/table.h"
}  // namespace neon

const Isa &isa_neon() {
  static constexpr Isa isa{neon::kernels<float>(), neon::kernels<double>()};
  return isa;
}
}  // namespace sdtw::cpu
