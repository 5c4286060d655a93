// In place of CUDA's header of this name.
#pragma once

#include "core/half.h"

struct __nv_bfloat16 {
  sdtw::core::BFloat16 value;
  __nv_bfloat16() = default;
  explicit __nv_bfloat16(float v) : value(v) {}
};
inline float __bfloat162float(__nv_bfloat16 v) { return v.value; }
inline __nv_bfloat16 __float2bfloat16_rn(float v) { return __nv_bfloat16(v); }
