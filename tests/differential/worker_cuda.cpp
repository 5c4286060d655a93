// Workers of the differential driver on a GPU: each has a stream of its own, and memory that it uses again and again,
// since allocating waits for all of them.
#include <cuda_runtime.h>

#include <map>

#include "worker.h"

namespace {

void check(cudaError_t error, const char *what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

class WorkerMemory final : public test::Memory {
 public:
  ~WorkerMemory() override {
    for (const auto &[address, size] : size_of_) cudaFree(address);
  }
  void *allocate(size_t bytes) override {
    size_t size = 4096;
    while (size < bytes) size *= 2;
    std::vector<void *> &free = free_[size];
    if (free.empty()) {
      void *address = nullptr;
      if (cudaMalloc(&address, size) != cudaSuccess) return nullptr;
      size_of_[address] = size;
      return address;
    }
    void *const address = free.back();
    free.pop_back();
    return address;
  }
  void release(void *address, size_t) override {
    if (address) free_[size_of_[address]].push_back(address);
  }
  void fill(void *to, unsigned char value, size_t bytes) override {
    check(cudaMemsetAsync(to, value, bytes, cudaStreamPerThread), "fill");
  }
  void upload(void *to, const void *from, size_t bytes) override { copy(to, from, bytes, cudaMemcpyHostToDevice); }
  void download(void *to, const void *from, size_t bytes) override { copy(to, from, bytes, cudaMemcpyDeviceToHost); }

 private:
  static void copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind) {
    check(cudaMemcpyAsync(to, from, bytes, kind, cudaStreamPerThread), "copy");
    check(cudaStreamSynchronize(cudaStreamPerThread), "the calls before a copy");
  }

  std::map<size_t, std::vector<void *>> free_;
  std::map<void *, size_t> size_of_;
};

}  // namespace

test::Memory &test::cuda_memory() {
  thread_local WorkerMemory memory;
  return memory;
}

void test::prepare_worker(Case &c) { c.exec.stream = cudaStreamPerThread; }
