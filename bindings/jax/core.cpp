#include "core.h"

#include <cstring>

namespace sdtw_jax {

Core core{};

}  // namespace sdtw_jax

// Takes the address of the function of this name without its prefix; returns 0 if handlers have no use for it.
extern "C" __attribute__((visibility("default"))) int sdtw_jax_set_core(const char *name, void *address) {
  using sdtw_jax::core;
  const auto set = [&](const char *field, auto &function) {
    if (std::strcmp(name, field) != 0) return false;
    std::memcpy(&function, &address, sizeof address);  // of a function in a void *, as POSIX has it
    return true;
  };
  return set("problem_init", core.problem_init) || set("exec_init", core.exec_init) ||
         set("buffers_init", core.buffers_init) || set("sizes_init", core.sizes_init) ||
         set("get_sizes", core.get_sizes) || set("forward", core.forward) || set("backward", core.backward) ||
         set("alignment", core.alignment) || set("jvp", core.jvp) || set("status_string", core.status_string) ||
         set("last_error", core.last_error);
}
