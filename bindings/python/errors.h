// Statuses of sdtw.h as Python exceptions.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "sdtw.h"

namespace sdtw_python {

// Adds SdtwError and its subclasses, one for each status, to the module.
void define_errors(pybind11::module_ &module);

// Raises the exception of the status with sdtw_last_error() as its message; returns if it is SDTW_STATUS_OK. Must be
// called on the thread that made the call, with the GIL held.
void check(sdtw_status status);

// Raises InvalidArgumentError.
[[noreturn]] void raise_invalid(const std::string &message);

}  // namespace sdtw_python
