// Plans are made by the backend that carries them out; this picks the backend.
#include "plan.h"

namespace sdtw {

Plan make_plan(const Problem &problem, const Exec &exec) {
  return exec.device == SDTW_CUDA ? cuda::make_plan(problem, exec) : cpu::make_plan(problem, exec);
}

sdtw_sizes Plan::sizes() const {
  const auto collect = [this](const auto &backend) {
    return sdtw_sizes{sizeof(sdtw_sizes),    exec.no_state ? 0 : backend.state_bytes,
                      backend.forward_bytes, backend.backward_bytes,
                      backend.jvp_bytes,     backend.alignment_bytes};
  };
  return exec.device == SDTW_CUDA ? collect(cuda) : collect(cpu);
}

std::string Plan::describe() const { return exec.device == SDTW_CUDA ? cuda::describe(*this) : cpu::describe(*this); }

}  // namespace sdtw
