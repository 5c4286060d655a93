// In place of CUDA's header of this name.
#pragma once

#include "core/half.h"

struct __nv_bfloat16 {
  sdtw::core::BFloat16 value;
};
inline float __bfloat162float(__nv_bfloat16 v) { return v.value; }
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return {sdtw::core::BFloat16(v)}; }
