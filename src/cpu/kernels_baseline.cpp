// The CPU kernels compiled for any processor.
#include <algorithm>
#include <limits>
#include <type_traits>

#include "core/cell.h"
#include "core/metric.h"
#include "cpu/kernels.h"
#include "cpu/simd_baseline.h"

namespace sdtw::cpu {
namespace baseline {
#include "cpu/table.h"
}  // namespace baseline

const Isa &isa_baseline() {
  static constexpr Isa isa{baseline::kernels<float>(), baseline::kernels<double>()};
  return isa;
}
}  // namespace sdtw::cpu
