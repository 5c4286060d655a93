// The kernels for steps with weights and penalties, and their launches.
#include "cuda/short_pairs/phases.cuh"

namespace sdtw::cuda::short_pairs {

void launch_steps(const Args &a, const ShortPairs &its, bool gradients, cudaStream_t stream) {
  with_general_shape<true>(its, [&](auto shape) { launch_phases<decltype(shape)>(a, gradients, stream); });
}
size_t shared_bytes_of_steps(const ShortPairs &its, int columns) {
  size_t bytes = 0;
  with_general_shape<true>(its, [&](auto shape) { bytes = shared_bytes<true, decltype(shape)>(columns); });
  return bytes;
}

}  // namespace sdtw::cuda::short_pairs
