// Soft-DTW on a GPU with the caller's own memory and stream, and the same captured into a CUDA graph and replayed with
// other data. Needs no nvcc:
//
//   c++ -std=c++17 cuda_stream.cpp $(pkg-config --cflags --libs sdtw) -I$CUDA/include -L$CUDA/lib64 -lcudart
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "sdtw.h"

namespace {

constexpr int64_t pairs = 32, n = 200, m = 240, features = 8;

void check(sdtw_status status) {
  if (status == SDTW_STATUS_OK) return;
  std::fprintf(stderr, "%s: %s\n", sdtw_status_string(status), sdtw_last_error());
  std::exit(EXIT_FAILURE);
}

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(EXIT_FAILURE);
}

template <class T>
T *device_array(size_t count) {
  T *array = nullptr;
  check(cudaMalloc(reinterpret_cast<void **>(&array), count * sizeof(T)));
  return array;
}

std::vector<float> random_series(int64_t steps, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> series(pairs * steps * features);
  for (float &number : series) number = normal(random);
  return series;
}

}  // namespace

int main() {
  if (sdtw_device_available(SDTW_CUDA) != SDTW_STATUS_OK) {
    std::printf("nothing to show here: %s\n", sdtw_last_error());
    return 0;
  }
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));

  sdtw_problem problem;  // what to compute
  check(sdtw_problem_init(&problem, sizeof problem));
  problem.batch_x = problem.batch_y = pairs;
  problem.n = n;
  problem.m = m;
  problem.features = features;
  problem.gamma = 0.1;

  sdtw_exec exec;  // where
  check(sdtw_exec_init(&exec, sizeof exec));
  exec.device = SDTW_CUDA;
  exec.stream = stream;

  sdtw_sizes sizes;  // how much memory, all of which is ours
  check(sdtw_sizes_init(&sizes, sizeof sizes));
  check(sdtw_get_sizes(&problem, &exec, &sizes));

  float *const x = device_array<float>(pairs * n * features);
  float *const y = device_array<float>(pairs * m * features);
  float *const grad_x = device_array<float>(pairs * n * features);
  float *const value = device_array<float>(pairs);

  sdtw_buffers buffers;
  check(sdtw_buffers_init(&buffers, sizeof buffers));
  buffers.x = {x, {n * features, features, 1}};  // strides of series, time step, feature
  buffers.y = {y, {m * features, features, 1}};
  buffers.grad_x = {grad_x, {n * features, features, 1}};
  buffers.value = value;
  buffers.state_bytes = sizes.state;
  buffers.workspace_bytes = sizes.forward > sizes.backward ? sizes.forward : sizes.backward;
  buffers.state = device_array<char>(buffers.state_bytes);
  buffers.workspace = device_array<char>(buffers.workspace_bytes);

  const auto compute = [&] {
    check(sdtw_forward(&problem, &buffers, &exec));
    check(sdtw_backward(&problem, &buffers, &exec));
  };
  // The calls only put work on the stream: what they read must be there when the stream comes to it.
  const auto load = [&](unsigned seed) {
    const std::vector<float> of_x = random_series(n, seed), of_y = random_series(m, seed + 1);
    check(cudaMemcpyAsync(x, of_x.data(), of_x.size() * sizeof(float), cudaMemcpyHostToDevice, stream));
    check(cudaMemcpyAsync(y, of_y.data(), of_y.size() * sizeof(float), cudaMemcpyHostToDevice, stream));
    check(cudaStreamSynchronize(stream));  // since of_x and of_y end here
  };
  const auto read = [&] {
    std::vector<float> result(pairs + pairs * n * features);
    check(cudaMemcpyAsync(result.data(), value, pairs * sizeof(float), cudaMemcpyDeviceToHost, stream));
    check(cudaMemcpyAsync(result.data() + pairs, grad_x, pairs * n * features * sizeof(float), cudaMemcpyDeviceToHost,
                          stream));
    check(cudaStreamSynchronize(stream));
    return result;
  };

  load(1);
  compute();  // without a graph first: a capture is no place to load the kernels
  const std::vector<float> first = read();
  std::printf("on the stream: value %f, its gradient at the first point %f\n", first[0], first[pairs]);

  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replayable = nullptr;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  compute();
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&replayable, graph, 0));

  load(3);
  compute();
  const std::vector<float> expected = read();
  load(1);
  check(cudaGraphLaunch(replayable, stream));
  const bool again = read() == first;
  load(3);
  check(cudaGraphLaunch(replayable, stream));
  const bool other = read() == expected;
  std::printf("replayed: the same bits for the same data: %s, for other data: %s\n", again ? "yes" : "no",
              other ? "yes" : "no");

  check(cudaGraphExecDestroy(replayable));
  check(cudaGraphDestroy(graph));
  for (void *memory : {static_cast<void *>(x), static_cast<void *>(y), static_cast<void *>(grad_x),
                       static_cast<void *>(value), buffers.state, buffers.workspace})
    check(cudaFree(memory));
  check(cudaStreamDestroy(stream));
  return again && other ? EXIT_SUCCESS : EXIT_FAILURE;
}
