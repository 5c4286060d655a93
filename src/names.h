// Names of sdtw.h's enumerations, in its order: a new constant is a row here. What a call may ask for, what messages
// say, and the words of the bindings and of tests come from these lists.
#pragma once

#include <cstddef>

#include "sdtw.h"

namespace sdtw::names {

struct Name {
  int32_t value;
  const char *constant, *word;
};

inline constexpr Name metrics[] = {{SDTW_PRECOMPUTED, "SDTW_PRECOMPUTED", "precomputed"},
                                   {SDTW_SQEUCLIDEAN, "SDTW_SQEUCLIDEAN", "sqeuclidean"},
                                   {SDTW_EUCLIDEAN, "SDTW_EUCLIDEAN", "euclidean"},
                                   {SDTW_CITYBLOCK, "SDTW_CITYBLOCK", "cityblock"},
                                   {SDTW_COSINE, "SDTW_COSINE", "cosine"}};
inline constexpr Name dtypes[] = {{SDTW_F32, "SDTW_F32", "f32"},
                                  {SDTW_F64, "SDTW_F64", "f64"},
                                  {SDTW_F16, "SDTW_F16", "f16"},
                                  {SDTW_BF16, "SDTW_BF16", "bf16"}};
inline constexpr Name bands[] = {{SDTW_BAND_NONE, "SDTW_BAND_NONE", "none"},
                                 {SDTW_BAND_SAKOE_CHIBA, "SDTW_BAND_SAKOE_CHIBA", "sakoe_chiba"},
                                 {SDTW_BAND_ABSOLUTE, "SDTW_BAND_ABSOLUTE", "absolute"},
                                 {SDTW_BAND_ITAKURA, "SDTW_BAND_ITAKURA", "itakura"}};
inline constexpr Name devices[] = {{SDTW_CPU, "SDTW_CPU", "cpu"}, {SDTW_CUDA, "SDTW_CUDA", "cuda"}};
inline constexpr Name isas[] = {{SDTW_CPU_ISA_AUTO, "SDTW_CPU_ISA_AUTO", "auto"},
                                {SDTW_CPU_ISA_BASELINE, "SDTW_CPU_ISA_BASELINE", "baseline"},
                                {SDTW_CPU_ISA_AVX2, "SDTW_CPU_ISA_AVX2", "avx2"},
                                {SDTW_CPU_ISA_AVX512, "SDTW_CPU_ISA_AVX512", "avx512"},
                                {SDTW_CPU_ISA_NEON, "SDTW_CPU_ISA_NEON", "neon"}};

// Our enumerations count from 0, so that a value is the index of its row, and a list has all valid values.
template <size_t count>
constexpr bool count_from_0(const Name (&rows)[count]) {
  for (size_t k = 0; k < count; ++k)
    if (rows[k].value != static_cast<int32_t>(k)) return false;
  return true;
}
static_assert(count_from_0(metrics) && count_from_0(dtypes) && count_from_0(bands) && count_from_0(devices) &&
              count_from_0(isas));

}  // namespace sdtw::names
