// The ceilings of the current GPU that the library's times are held against, one JSON object a line:
// bytes copied, exponentials and float64 matrix operations per second.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

constexpr int threads = 256, blocks_per_sm = 8, chains = 8, steps = 4096;

// Independent chains hide the latency of one. What a chain computes does not matter: 2^2^..., which is soon infinite.
__global__ void __launch_bounds__(threads) exponentials(float *sink) {
  float x[chains];
  for (int k = 0; k < chains; k++) x[k] = static_cast<float>(k) - static_cast<float>(threadIdx.x);
  for (int step = 0; step < steps; step++)
#pragma unroll
    for (int k = 0; k < chains; k++) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x[k]));
  float sum = 0;
  for (int k = 0; k < chains; k++) sum += x[k];
  if (sum == -1) *sink = sum;  // never, but the compiler cannot know
}

__global__ void __launch_bounds__(threads) small_matrices(double *sink) {
  double c[chains][2] = {};
#if __CUDA_ARCH__ >= 800
  const double a = threadIdx.x, b = 1;
  for (int step = 0; step < steps; step++)
#pragma unroll
    for (int k = 0; k < chains; k++)
      asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                   : "+d"(c[k][0]), "+d"(c[k][1])
                   : "d"(a), "d"(b));
#endif
  double sum = 0;
  for (int k = 0; k < chains; k++) sum += c[k][0] + c[k][1];
  if (sum == -1) *sink = sum;
}

__global__ void __launch_bounds__(threads) large_matrices(double *sink) {
  double c[chains][4] = {};
#if __CUDA_ARCH__ >= 900
  const double a = threadIdx.x, b = 1;
  for (int step = 0; step < steps / 8; step++)
#pragma unroll
    for (int k = 0; k < chains; k++)
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %4, %4, %4, %4, %4, %4, %4}, "
          "{%5, %5, %5, %5}, {%0, %1, %2, %3};"
          : "+d"(c[k][0]), "+d"(c[k][1]), "+d"(c[k][2]), "+d"(c[k][3])
          : "d"(a), "d"(b));
#endif
  double sum = 0;
  for (int k = 0; k < chains; k++) sum += c[k][0] + c[k][1] + c[k][2] + c[k][3];
  if (sum == -1) *sink = sum;
}

// Median seconds of work on the default stream.
template <class Work>
double seconds_of(const Work &work) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  std::vector<float> times;
  for (int repeat = 0; repeat < 23; repeat++) {
    check(cudaEventRecord(begin));
    work();
    check(cudaGetLastError());
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end));
    if (repeat >= 3) times.push_back(ms);
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2] / 1e3;
}

void report(const char *name, double operations, double seconds, const char *unit) {
  std::printf("{\"phase\": \"ceiling\", \"ceiling\": \"%s\", \"rate\": %.5g, \"unit\": \"%s\"}\n", name,
              operations / seconds, unit);
}

void report_copy() {
  constexpr size_t bytes = size_t(1) << 30;
  void *from, *to;
  check(cudaMalloc(&from, bytes));
  check(cudaMalloc(&to, bytes));
  check(cudaMemset(from, 1, bytes));
  const double seconds = seconds_of([&] { check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice)); });
  report("copy", 2.0 * bytes, seconds, "bytes read and written/s");
  check(cudaFree(from));
  check(cudaFree(to));
}

}  // namespace

int main() {
  cudaDeviceProp device;
  check(cudaGetDeviceProperties(&device, 0));
  const int blocks = device.multiProcessorCount * blocks_per_sm;
  const double warps = double(blocks) * threads / 32, issued = double(steps) * chains;
  void *sink;
  check(cudaMalloc(&sink, 64));
  report_copy();
  report("ex2", warps * 32 * issued, seconds_of([&] { exponentials<<<blocks, threads>>>(static_cast<float *>(sink)); }),
         "exponentials/s");
  if (device.major >= 8)
    report("f64 mma m8n8k4", warps * issued * 2 * 8 * 8 * 4,
           seconds_of([&] { small_matrices<<<blocks, threads>>>(static_cast<double *>(sink)); }), "operations/s");
  if (device.major >= 9)
    report("f64 mma m16n8k16", warps * issued / 8 * 2 * 16 * 8 * 16,
           seconds_of([&] { large_matrices<<<blocks, threads>>>(static_cast<double *>(sink)); }), "operations/s");
  check(cudaFree(sink));
}
