// Launchers: host functions that put kernels on a stream, and what they share.
#pragma once

#include <cuda_runtime.h>

#include "args.h"
#include "error.h"

namespace sdtw::cuda {

inline void check(cudaError_t error, const char *what) {
  if (error != cudaSuccess) {
    cudaGetLastError();  // the error is reported here: the caller's next check must not find it again
    fail(SDTW_STATUS_CUDA_ERROR, "%s: %s", what, cudaGetErrorString(error));
  }
}
inline void check_launch() { check(cudaGetLastError(), "kernel launch"); }

inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  check(cudaGetDevice(&device), "cudaGetDevice");
  check(cudaDeviceGetAttribute(&value, attribute, device), "cudaDeviceGetAttribute");
  return value;
}

// pairs.cu
void launch_bounds(const Args &a, cudaStream_t stream);
void launch_reset(const Args &a, cudaStream_t stream);
void launch_fill(const Args &a, const sdtw_out &out, int rows, int columns, const void *lengths, bool scaled,
                 cudaStream_t stream);

// The sweeps of one engine: sweeps.cu.in is compiled once for each.
template <class Cell>
struct Sweeps {
  // again: the same with what a second pass over cancelled values is to use.
  static void forward(const Args &a, const Args &again, cudaStream_t stream);
  static void backward(const Args &a, cudaStream_t stream);
};

}  // namespace sdtw::cuda
