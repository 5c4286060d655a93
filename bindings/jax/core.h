// The functions of sdtw.h that handlers call. They are those inside the extension module libsdtw._core, which tells
// their addresses: linked in here once more, the library would have two sets of threads in a process, and be in each
// wheel twice.
#pragma once

#include "sdtw.h"

namespace sdtw_jax {

struct Core {
  decltype(&sdtw_problem_init) problem_init;
  decltype(&sdtw_exec_init) exec_init;
  decltype(&sdtw_buffers_init) buffers_init;
  decltype(&sdtw_sizes_init) sizes_init;
  decltype(&sdtw_get_sizes) get_sizes;
  decltype(&sdtw_forward) forward;
  decltype(&sdtw_backward) backward;
  decltype(&sdtw_alignment) alignment;
  decltype(&sdtw_jvp) jvp;
  decltype(&sdtw_status_string) status_string;
  decltype(&sdtw_last_error) last_error;
};

// Set by sdtw_jax_set_core before any handler is registered, and never again.
extern Core core;

}  // namespace sdtw_jax
