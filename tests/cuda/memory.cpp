// GPU memory for the tests.
#include "memory.h"

#include <cuda_runtime.h>

namespace {

void check(cudaError_t error, const char *what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

struct CudaMemory final : test::Memory {
  void *allocate(size_t bytes) override {
    void *address = nullptr;
    return cudaMalloc(&address, bytes) == cudaSuccess ? address : nullptr;
  }
  void release(void *address, size_t) override { cudaFree(address); }
  void fill(void *to, unsigned char value, size_t bytes) override { check(cudaMemset(to, value, bytes), "fill"); }
  void upload(void *to, const void *from, size_t bytes) override {
    check(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "upload");
  }
  void download(void *to, const void *from, size_t bytes) override {
    check(cudaDeviceSynchronize(), "the calls before a download");
    check(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "download");
  }
};

}  // namespace

test::Memory &test::cuda_memory() {
  static CudaMemory memory;
  return memory;
}
