// Launchers: host functions that put kernels on a stream, and what they share.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "cuda/args.h"
#include "error.h"

namespace sdtw::cuda {

inline void check(cudaError_t error, const char *what) {
  if (error != cudaSuccess) {
    cudaGetLastError();  // the error is reported here: the caller's next check must not find it again
    fail(SDTW_STATUS_CUDA_ERROR, "%s: %s", what, cudaGetErrorString(error));
  }
}

struct Device {
  int id, multiprocessors;
  size_t shared_memory;  // of one block, less what kernels have besides
  size_t shared_memory_of_multiprocessor;
};
// The current one. What is known of a device does not change, so it is asked for once.
inline Device current_device() {
  static thread_local Device known{-1, 0, 0, 0};
  int id = 0;
  check(cudaGetDevice(&id), "cudaGetDevice");
  if (id == known.id) return known;
  int multiprocessors = 0, shared_memory = 0, shared_memory_of_all = 0;
  check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, id), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&shared_memory, cudaDevAttrMaxSharedMemoryPerBlockOptin, id), "cudaDeviceGetAttribute");
  check(cudaDeviceGetAttribute(&shared_memory_of_all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, id),
        "cudaDeviceGetAttribute");
#ifdef SDTW_CUDA_SHARED_MEMORY  // to test what smaller GPUs are given
  shared_memory = std::min(shared_memory, SDTW_CUDA_SHARED_MEMORY);
  shared_memory_of_all = std::min(shared_memory_of_all, SDTW_CUDA_SHARED_MEMORY + 1024);
#endif
  return known = {id, multiprocessors, static_cast<size_t>(shared_memory) - 64,
                  static_cast<size_t>(shared_memory_of_all)};
}

// overlap: the kernel follows another of the same call, and may be made ready while that one runs; its first
// instruction waits for it, so it must have been compiled for a GPU that has this instruction.
template <class... Parameters, class... Arguments>
void launch_kernel(bool overlap, void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared,
                   cudaStream_t stream, const Arguments &...arguments) {
  cudaLaunchAttribute serialization{};
  serialization.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  serialization.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid, config.blockDim = dim3(static_cast<unsigned>(threads)), config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &serialization, config.numAttrs = overlap ? 1 : 0;
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "kernel launch");
}

// pair_kernels.cu
void launch_bounds(const Args &a, cudaStream_t stream);
// Initial values of the outputs, ones in the first bytes of the workspace, zeros in others, and where paths cross
// between strips.
struct Output {
  sdtw_out out;  // no data: nothing to do
  int rows, columns;
  const void *lengths;
};
void launch_prepare(const Args &a, const Output &first, const Output &second, void *ones, size_t bytes_of_ones,
                    void *zeros, size_t bytes_of_zeros, cudaStream_t stream);
// After backward: to grad_y what of it lies aside; or if sums are wide, both gradients from these.
void launch_add_side(const Args &a, cudaStream_t stream);
void launch_round_sums(const Args &a, const Output &grad_x, const Output &grad_y, cudaStream_t stream);

// The sweeps of one engine: kernels.cu.in is compiled once for each.
template <class Cell>
struct Sweeps {
  static void forward(const Args &a, cudaStream_t stream);
  static void backward(const Args &a, cudaStream_t stream);
};

}  // namespace sdtw::cuda
