// Which instruction sets this build and this processor have.
#if defined(SDTW_HAVE_AVX2) || defined(SDTW_HAVE_AVX512)
#include <cpuid.h>
#endif

#include "backend.h"
#include "cpu/kernels.h"

namespace sdtw::cpu {

#if defined(SDTW_HAVE_AVX2) || defined(SDTW_HAVE_AVX512)
namespace {
// Conversions of float16, which compilers do not all ask a processor about by name. Asked once: in a virtual machine
// the answer takes tens of microseconds.
bool has_f16c() {
  static const bool has = [] {
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
  }();
  return has;
}
}  // namespace
#endif

bool has_isa(sdtw_cpu_isa isa) {
  switch (isa) {
    case SDTW_CPU_ISA_AUTO:
    case SDTW_CPU_ISA_BASELINE: return true;
#if defined(SDTW_HAVE_AVX2)
    case SDTW_CPU_ISA_AVX2: return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
#endif
#if defined(SDTW_HAVE_AVX512)
    case SDTW_CPU_ISA_AVX512:
      return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
             __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && has_f16c();
#endif
#if defined(SDTW_HAVE_NEON)
    case SDTW_CPU_ISA_NEON: return true;
#endif
    default: return false;
  }
}

sdtw_cpu_isa best_isa() {
  for (const sdtw_cpu_isa isa : {SDTW_CPU_ISA_AVX512, SDTW_CPU_ISA_AVX2, SDTW_CPU_ISA_NEON})
    if (has_isa(isa)) return isa;
  return SDTW_CPU_ISA_BASELINE;
}

const Isa &isa_kernels(sdtw_cpu_isa isa) {
  switch (isa) {
#if defined(SDTW_HAVE_AVX2)
    case SDTW_CPU_ISA_AVX2: return isa_avx2();
#endif
#if defined(SDTW_HAVE_AVX512)
    case SDTW_CPU_ISA_AVX512: return isa_avx512();
#endif
#if defined(SDTW_HAVE_NEON)
    case SDTW_CPU_ISA_NEON: return isa_neon();
#endif
    default: return isa_baseline();
  }
}

}  // namespace sdtw::cpu
