// What the handlers of both devices compute: from the operands and results of a call to calls of sdtw.h.
#pragma once

#include <functional>

#include "call.h"

#define SDTW_JAX_API __attribute__((visibility("default")))

namespace sdtw_jax {

// Results of a target, and its operands beside those that all have. Those that are not wanted have no elements.
struct Results {
  const ffi::AnyBuffer *value = nullptr, *grad_x = nullptr, *grad_y = nullptr, *alignment = nullptr;
  const ffi::AnyBuffer *upstream = nullptr;                         // operand: grad_value, else ones
  const ffi::AnyBuffer *tangent_x = nullptr, *tangent_y = nullptr;  // operands; grad_x and grad_y are then tangents
};

inline const ffi::AnyBuffer *wanted(const ffi::AnyBuffer &array) { return array.element_count() ? &array : nullptr; }

// Memory of a call, which what computes it divides into state and workspace.
struct Memory {
  size_t state, workspace;
  size_t bytes() const;
};

// How much a call needs that computes these results.
Memory memory_for(const sdtw_problem &problem, const sdtw_exec &exec, const Results &results);

// Computes pairs first to first + problem.batch_x - 1 of the call in `memory`, of as many bytes as memory_for said.
void compute(const Operands &operands, const Results &results, const sdtw_problem &problem, const sdtw_exec &exec,
             int64_t first, void *memory);

// Runs it, and makes an error of XLA of whatever is thrown.
ffi::Error guarded(const std::function<void()> &run);

}  // namespace sdtw_jax
