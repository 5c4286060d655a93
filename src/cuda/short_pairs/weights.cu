// The kernels for steps with any weights, and their launches. A block takes as much memory as one of steps.cu.
#include "cuda/short_pairs/phases.cuh"

namespace sdtw::cuda::short_pairs {

void launch_weights(const Args &a, const ShortPairs &its, bool gradients, cudaStream_t stream) {
  with_general_shape<Steps::weighted>(its, [&](auto shape) { launch_phases<decltype(shape)>(a, gradients, stream); });
}

}  // namespace sdtw::cuda::short_pairs
