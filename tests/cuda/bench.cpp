// Times the CUDA backend without Python: for tuning, and to put under a profiler. The whole suite is that of
// benchmarks/run.py, which also checks values. Prints one JSON object a line.
// usage: sdtw_cuda_bench [label [B N d metric(0 cost, 1 fused) gamma f64]...]: without shapes, those of
// benchmarks/targets.json and a few that take other kernels.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "sdtw.h"

namespace {

void check(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}
void check(sdtw_status status) {
  if (status == SDTW_STATUS_OK) return;
  std::fprintf(stderr, "%s\n", sdtw_last_error());
  std::exit(1);
}

struct Device {
  explicit Device(size_t bytes) { check(cudaMalloc(&data, std::max<size_t>(bytes, 16))); }
  ~Device() { cudaFree(data); }
  Device(const Device &) = delete;
  void *data = nullptr;
};

struct Shape {
  int64_t batch, n, features;
  bool fused = true;
  double gamma = 1;
  bool f64 = false;
};

// The line of the problem, as tests/problem.h reads it.
std::string line_of(const Shape &shape, bool keeps_state) {
  std::ostringstream line;
  line << "metric=" << (shape.fused ? "sqeuclidean" : "precomputed") << " dtype=" << (shape.f64 ? "f64" : "f32")
       << " B=" << shape.batch << " n=" << shape.n << " m=" << shape.n;
  if (shape.fused) line << " d=" << shape.features;
  line << " gamma=" << shape.gamma << (keeps_state ? "" : " state=none") << " data=noise seed=1";
  return line.str();
}

struct Times {
  double median, p10, p90;  // ms
};

Times summarise(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  const auto at = [&](double q) { return times[static_cast<size_t>(q * static_cast<double>(times.size() - 1) + 0.5)]; };
  return {at(0.5), at(0.1), at(0.9)};
}

Times time_events(cudaStream_t stream, const std::function<void()> &work) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  for (int i = 0; i < 3; i++) work();
  check(cudaStreamSynchronize(stream));
  std::vector<double> times;
  double total = 0;
  while (times.size() < 20 || (times.size() < 100 && total < 100)) {
    check(cudaEventRecord(begin, stream));
    work();
    check(cudaEventRecord(end, stream));
    check(cudaEventSynchronize(end));
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end));
    times.push_back(ms);
    total += ms;
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  return summarise(times);
}

// The same work captured into a graph: without what the host takes to launch it.
Times time_graph(cudaStream_t stream, const std::function<void()> &work) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  work();
  check(cudaStreamEndCapture(stream, &graph));
  check(cudaGraphInstantiate(&exec, graph, 0));
  const Times times = time_events(stream, [&] { check(cudaGraphLaunch(exec, stream)); });
  check(cudaGraphExecDestroy(exec));
  check(cudaGraphDestroy(graph));
  return times;
}

template <class Real>
void fill(void *data, size_t count, unsigned seed, bool cost) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<Real> host(count);
  const size_t period = std::min<size_t>(count, 1 << 20);
  for (size_t i = 0; i < period; i++) host[i] = cost ? std::abs(normal(random)) * 2 : normal(random);
  for (size_t i = period; i < count; i++) host[i] = host[i - period];
  check(cudaMemcpy(data, host.data(), count * sizeof(Real), cudaMemcpyHostToDevice));
}

void measure(const Shape &shape, const char *commit, const char *device, cudaStream_t stream) {
  sdtw_problem p;
  sdtw_exec e;
  sdtw_buffers b;
  sdtw_sizes s, alone;
  check(sdtw_problem_init(&p, sizeof p));
  check(sdtw_exec_init(&e, sizeof e));
  check(sdtw_buffers_init(&b, sizeof b));
  check(sdtw_sizes_init(&s, sizeof s));
  check(sdtw_sizes_init(&alone, sizeof alone));
  p.metric = shape.fused ? SDTW_SQEUCLIDEAN : SDTW_PRECOMPUTED;
  p.dtype = shape.f64 ? SDTW_F64 : SDTW_F32;
  p.batch_x = p.batch_y = shape.batch;
  p.n = p.m = shape.n;
  p.features = shape.fused ? shape.features : 0;
  p.gamma = shape.gamma;
  e.device = SDTW_CUDA;
  e.stream = stream;
  check(sdtw_get_sizes(&p, &e, &s));
  e.flags = SDTW_NO_STATE;
  check(sdtw_get_sizes(&p, &e, &alone));
  e.flags = 0;

  const size_t element = shape.f64 ? 8 : 4;
  const int64_t inner = shape.fused ? shape.features : shape.n;
  const size_t count = static_cast<size_t>(shape.batch * shape.n * inner);
  Device x(count * element), y(shape.fused ? count * element : 0), value(shape.batch * element);
  Device grad_x(count * element), grad_y(shape.fused ? count * element : 0);
  const size_t workspace_bytes = std::max(s.forward, s.backward);
  Device state(s.state), workspace(std::max(workspace_bytes, alone.forward));
  for (Device *in : {&x, &y}) {
    if (in == &y && !shape.fused) continue;
    if (shape.f64)
      fill<double>(in->data, count, in == &x ? 1 : 2, !shape.fused);
    else
      fill<float>(in->data, count, in == &x ? 1 : 2, !shape.fused);
  }
  const auto strides = [&](int64_t *to) { to[0] = shape.n * inner, to[1] = inner, to[2] = 1; };
  b.x.data = x.data, b.grad_x.data = grad_x.data;
  strides(b.x.stride), strides(b.grad_x.stride);
  if (shape.fused) {
    b.y.data = y.data, b.grad_y.data = grad_y.data;
    strides(b.y.stride), strides(b.grad_y.stride);
  }
  b.value = value.data;
  b.workspace = workspace.data, b.workspace_bytes = std::max(workspace_bytes, alone.forward);
  b.state = state.data, b.state_bytes = s.state;

  const double cells = static_cast<double>(shape.batch) * shape.n * shape.n;
  const auto report = [&](const char *phase, const char *launch, const Times &t, size_t extra) {
    std::printf(
        "{\"library\": \"libsdtw\", \"commit\": \"%s\", \"device\": \"cuda\", \"gpu\": \"%s\", \"threads\": 0, \"B\": "
        "%lld, "
        "\"N\": %lld, \"M\": %lld, \"d\": %lld, \"dtype\": \"%s\", \"metric\": \"%s\", \"gamma\": %g, \"phase\": "
        "\"%s\", "
        "\"launch\": \"%s\", \"problem\": \"%s\", \"median_ms\": %.4f, \"p10_ms\": %.4f, \"p90_ms\": %.4f, "
        "\"cells_per_s\": %.4g, "
        "\"extra_bytes\": %zu}\n",
        commit, device, static_cast<long long>(shape.batch), static_cast<long long>(shape.n),
        static_cast<long long>(shape.n), static_cast<long long>(shape.fused ? shape.features : 0),
        shape.f64 ? "float64" : "float32", shape.fused ? "sqeuclidean" : "precomputed", shape.gamma, phase, launch,
        line_of(shape, b.state != nullptr).c_str(), t.median, t.p10, t.p90, cells / t.median * 1e3, extra);
    std::fflush(stdout);
  };
  const auto forward = [&] { check(sdtw_forward(&p, &b, &e)); };
  const auto both = [&] {
    check(sdtw_forward(&p, &b, &e));
    check(sdtw_backward(&p, &b, &e));
  };
  report("forward+backward", "stream", time_events(stream, both), s.state + workspace_bytes);
  report("forward+backward", "graph", time_graph(stream, both), s.state + workspace_bytes);
  b.state = nullptr, b.state_bytes = 0;
  report("forward", "stream", time_events(stream, forward), alone.forward);
  report("forward", "graph", time_graph(stream, forward), alone.forward);
}

}  // namespace

int main(int argc, char **argv) {
  const char *commit = argc > 1 ? argv[1] : "unknown";
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0));
  cudaStream_t stream;
  check(cudaStreamCreate(&stream));
  std::vector<Shape> shapes;
  for (int i = 2; i + 5 < argc; i += 6)
    shapes.push_back({std::atoll(argv[i]), std::atoll(argv[i + 1]), std::atoll(argv[i + 2]),
                      std::atoi(argv[i + 3]) == 1, std::atof(argv[i + 4]), std::atoi(argv[i + 5]) == 1});
  if (shapes.empty()) {
    shapes = {{16, 128, 1},
              {16, 128, 64},
              {32, 512, 1},
              {32, 512, 64},
              {32, 1024, 64},
              {32, 2048, 1},
              {32, 2048, 64},
              {512, 64, 2},
              {512, 256, 2},
              {4096, 64, 63},
              {1, 4096, 8},
              {1, 65536, 8},
              {256, 1024, 1},
              {64, 2048, 0, false},
              {32, 512, 1, true, 1, true},
              {32, 512, 64, true, 1, true},
              {32, 512, 64, true, 0.01},
              {16, 1000, 13},
              {8, 1000, 80},
              {64, 1024, 0, false},
              {512, 60, 39},
              {2048, 24, 8},
              {32, 512, 8},
              {600, 2048, 1}};
  }
  for (const Shape &shape : shapes) measure(shape, commit, properties.name, stream);
  check(cudaStreamDestroy(stream));
}
