// Stands for the CUDA backend in a build without it.
#include "backend.h"

namespace sdtw::cuda {

namespace {
[[noreturn]] void not_built() {
  fail(SDTW_STATUS_NOT_BUILT, "exec.device is SDTW_CUDA: this build of the library has no CUDA backend");
}
}  // namespace

void require_device() { not_built(); }
void choose_kernels(sdtw::Plan &, Call) { not_built(); }
void forward(const sdtw::Plan &, const Buffers &) { not_built(); }
void backward(const sdtw::Plan &, const Buffers &) { not_built(); }
void alignment(const sdtw::Plan &, const Buffers &) { not_built(); }
const char *build_info() { return "no cuda"; }

}  // namespace sdtw::cuda
