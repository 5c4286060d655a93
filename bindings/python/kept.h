// Gradients that are computed with the values, for an upstream gradient of 1, and kept until the true one is known, of
// which they are linear functions: one call of the library takes less time on CPUs than two. In host memory,
// contiguous, of float32 and float64.
#pragma once

#include "sdtw.h"

namespace sdtw_python::kept {

// sdtw_backward without state and with values. Kept gradients that must not be multiplied begin with NaN: those with
// numbers that are not finite, as 0 * infinity is not what 0 makes of a gradient beyond the range of its type.
sdtw_status value_and_gradients(const sdtw_problem *problem, const sdtw_buffers *buffers, const sdtw_exec *exec);

// Whether gradients for buffers.grad_value are its products with those kept in grad_x and grad_y, either of which may
// be absent: all is finite and in range. Else sdtw_backward is to be called for it, which knows what is padding.
bool are_products(const sdtw_problem *problem, const sdtw_buffers *buffers);

}  // namespace sdtw_python::kept
