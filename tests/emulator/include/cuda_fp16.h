// In place of CUDA's header of this name.
#pragma once

#include "core/half.h"

struct __half {
  sdtw::core::Half value;
  __half() = default;
  explicit __half(float v) : value(v) {}
};
inline float __half2float(__half v) { return v.value; }
inline __half __float2half_rn(float v) { return __half(v); }
