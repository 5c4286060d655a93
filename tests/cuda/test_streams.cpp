// What only a GPU has: streams, graphs that are replayed with other data, two calls at once.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "backends.h"
#include "catch.h"

namespace {

void check(cudaError_t error) {
  INFO(cudaGetErrorString(error));
  REQUIRE(error == cudaSuccess);
}

class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes) : bytes_(bytes) { check(cudaMalloc(&data_, bytes + 1)); }
  ~DeviceMemory() { cudaFree(data_); }
  DeviceMemory(const DeviceMemory &) = delete;
  void *data() const { return data_; }
  size_t bytes() const { return bytes_; }
  template <class T>
  void upload(const std::vector<T> &from) {
    check(cudaMemcpy(data_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
  std::vector<float> download() const {
    std::vector<float> to(bytes_ / sizeof(float));
    check(cudaMemcpy(to.data(), data_, bytes_, cudaMemcpyDeviceToHost));
    return to;
  }

 private:
  void *data_ = nullptr;
  size_t bytes_;
};

struct Stream {
  Stream() { check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream); }
  cudaStream_t stream = nullptr;
};

// Forward and backward of one problem on buffers and a stream of its own.
class Work {
 public:
  static constexpr int64_t batch = 3, n = 150, m = 333, features = 3;

  Work()
      : x_(batch * n * features * 4),
        y_(batch * m * features * 4),
        x_len_(batch * 8),
        value_(batch * 4),
        grad_x_(x_.bytes()),
        grad_y_(y_.bytes()) {
    sdtw_problem_init(&problem_, sizeof problem_);
    sdtw_exec_init(&exec_, sizeof exec_);
    sdtw_buffers_init(&buffers_, sizeof buffers_);
    problem_.batch_x = problem_.batch_y = batch;
    problem_.n = n, problem_.m = m, problem_.features = features;
    exec_.device = SDTW_CUDA;
    exec_.stream = stream.stream;
    sdtw_sizes sizes;
    sdtw_sizes_init(&sizes, sizeof sizes);
    REQUIRE(sdtw_get_sizes(&problem_, &exec_, &sizes) == SDTW_STATUS_OK);
    state_ = std::make_unique<DeviceMemory>(sizes.state);
    workspace_ = std::make_unique<DeviceMemory>(std::max(sizes.forward, sizes.backward));
    for (int k = 0; k < 2; k++) {
      const int64_t length = k ? m : n;
      const int64_t stride[3] = {length * features, features, 1};
      std::memcpy((k ? buffers_.y : buffers_.x).stride, stride, sizeof stride);
      std::memcpy((k ? buffers_.grad_y : buffers_.grad_x).stride, stride, sizeof stride);
    }
    buffers_.x.data = x_.data(), buffers_.y.data = y_.data(), buffers_.x_len = x_len_.data();
    buffers_.value = value_.data();
    buffers_.grad_x.data = grad_x_.data(), buffers_.grad_y.data = grad_y_.data();
    buffers_.state = state_->data(), buffers_.state_bytes = state_->bytes();
    buffers_.workspace = workspace_->data(), buffers_.workspace_bytes = workspace_->bytes();
  }

  void load(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    std::vector<float> x(batch * n * features), y(batch * m * features);
    for (auto *series : {&x, &y})
      for (float &v : *series) v = normal(random);
    std::vector<int64_t> lengths(batch);
    for (int64_t &length : lengths) length = 1 + random() % n;
    x_.upload(x), y_.upload(y), x_len_.upload(lengths);
  }
  void poison() {
    for (const DeviceMemory *memory : {&value_, &grad_x_, &grad_y_, workspace_.get(), state_.get()})
      check(cudaMemset(memory->data(), 0x7f, memory->bytes()));
    check(cudaDeviceSynchronize());
  }
  void run() {
    REQUIRE(sdtw_forward(&problem_, &buffers_, &exec_) == SDTW_STATUS_OK);
    REQUIRE(sdtw_backward(&problem_, &buffers_, &exec_) == SDTW_STATUS_OK);
  }
  std::vector<float> results() {
    check(cudaStreamSynchronize(stream.stream));
    std::vector<float> all = value_.download();
    for (const DeviceMemory *gradient : {&grad_x_, &grad_y_}) {
      const std::vector<float> part = gradient->download();
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  Stream stream;

 private:
  DeviceMemory x_, y_, x_len_, value_, grad_x_, grad_y_;
  std::unique_ptr<DeviceMemory> state_, workspace_;
  sdtw_problem problem_;
  sdtw_exec exec_;
  sdtw_buffers buffers_;
};

bool same(const std::vector<float> &a, const std::vector<float> &b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

bool on_gpu() { return test::options().device == SDTW_CUDA; }

}  // namespace

TEST_CASE("a captured call is replayed with other data and lengths", "[streams]") {
  if (!on_gpu()) return;
  Work direct, captured;
  captured.load(1);
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  check(cudaStreamBeginCapture(captured.stream.stream, cudaStreamCaptureModeGlobal));
  captured.run();
  check(cudaStreamEndCapture(captured.stream.stream, &graph));
  check(cudaGraphInstantiate(&exec, graph, 0));
  for (unsigned seed = 1; seed <= 4; seed++) {
    direct.load(seed);
    direct.poison();
    direct.run();
    captured.load(seed);
    captured.poison();
    check(cudaGraphLaunch(exec, captured.stream.stream));
    INFO("seed " << seed);
    CHECK(same(captured.results(), direct.results()));
  }
  check(cudaGraphExecDestroy(exec));
  check(cudaGraphDestroy(graph));
}

TEST_CASE("twenty runs give the same bits", "[streams]") {
  if (!on_gpu()) return;
  Work work;
  work.load(5);
  work.run();
  const std::vector<float> first = work.results();
  for (int i = 0; i < 20; i++) {
    work.poison();
    work.run();
    CHECK(same(work.results(), first));
  }
}

TEST_CASE("calls on two streams at once do not disturb each other", "[streams]") {
  if (!on_gpu()) return;
  Work a, b;
  a.load(6), b.load(7);
  a.run(), b.run();
  const std::vector<float> alone_a = a.results(), alone_b = b.results();
  a.poison(), b.poison();
  for (int i = 0; i < 10; i++) a.run(), b.run();
  CHECK(same(a.results(), alone_a));
  CHECK(same(b.results(), alone_b));
}
