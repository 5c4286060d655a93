// What module.cpp and tensors.cpp share: buffers of a call, and how a call is made.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>

#include "sdtw.h"

namespace sdtw_python {

inline void *pointer(uintptr_t address) {
  return reinterpret_cast<void *>(address);  // NOLINT(performance-no-int-to-ptr): the interface is integers
}

using Compute = sdtw_status (*)(const sdtw_problem *, const sdtw_buffers *, const sdtw_exec *);

// Calls function without the interpreter's lock, and raises what it says. Workspace at address 0 is allocated for the
// call, on the CPU.
void compute(Compute function, const sdtw_problem &problem, sdtw_buffers &buffers, const sdtw_exec &exec);

// Bytes that the calls need; raises for a problem that cannot be had.
sdtw_sizes get_sizes(const sdtw_problem &problem, const sdtw_exec &exec);

// Adds the calls that take tensors.
void define_tensors(pybind11::module_ &module);

}  // namespace sdtw_python
