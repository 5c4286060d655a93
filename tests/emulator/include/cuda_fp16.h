// In place of CUDA's header of this name.
#pragma once

#include "core/half.h"

struct __half {
  sdtw::core::Half value;
};
inline float __half2float(__half v) { return v.value; }
inline __half __float2half_rn(float v) { return {sdtw::core::Half(v)}; }
