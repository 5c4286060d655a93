// The kernels for penalties, bands, and diagonal steps of twice the weight, and their launches.
#include "cuda/short_pairs/phases.cuh"

namespace sdtw::cuda::short_pairs {

void launch_steps(const Args &a, const ShortPairs &its, bool gradients, cudaStream_t stream) {
  with_general_shape<Steps::simple>(its, [&](auto shape) { launch_phases<decltype(shape)>(a, gradients, stream); });
}
size_t shared_bytes_of_steps(const ShortPairs &its, int columns, sdtw_metric metric) {
  size_t bytes = 0;
  with_general_shape<Steps::simple>(its, [&](auto shape) {
    using Shape = decltype(shape);
    bytes = shared_bytes<true, Shape>(columns, metric) + static_bytes<Shape>;
  });
  return bytes;
}

}  // namespace sdtw::cuda::short_pairs
