// What only a GPU has: streams, graphs that are replayed with other data, two calls at once, memory that calls share.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <sstream>
#include <vector>

#include "catch.h"
#include "inputs.h"

using namespace test;

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
  DeviceMemory &operator=(const DeviceMemory &) = delete;
  void *data() const { return data_; }
  size_t bytes() const { return bytes_; }
  void upload(const void *from) { check(cudaMemcpy(data_, from, bytes_, cudaMemcpyHostToDevice)); }
  void fill(int byte) { check(cudaMemset(data_, byte, bytes_)); }
  void append_to(std::vector<unsigned char> &to) const {
    to.resize(to.size() + bytes_);
    check(cudaMemcpy(to.data() + to.size() - bytes_, data_, bytes_, cudaMemcpyDeviceToHost));
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

struct Form {
  int64_t batch, n, m, features;
  sdtw_metric metric = SDTW_SQEUCLIDEAN;
  sdtw_dtype dtype = SDTW_F32;
  double gamma = 1;
};

// Many short pairs and few long ones, few features and many, small gamma, given costs, float64.
const Form forms[] = {{3, 150, 333, 3},
                      {200, 40, 50, 2},
                      {2, 700, 900, 64},
                      {4, 500, 300, 5, SDTW_SQEUCLIDEAN, SDTW_F32, 1e-3},
                      {1, 3000, 2500, 1},
                      {4, 300, 400, 0, SDTW_PRECOMPUTED},
                      {2, 260, 300, 9, SDTW_SQEUCLIDEAN, SDTW_F64}};

std::string describe(const Form &form) {
  std::ostringstream text;
  text << "metric " << form.metric << " dtype " << form.dtype << " B" << form.batch << " n" << form.n << " m" << form.m
       << " d" << form.features << " gamma " << form.gamma;
  return text.str();
}

// Forward and backward of one problem on buffers and a stream of its own.
class Work {
 public:
  explicit Work(const Form &form)
      : case_(make_case(form.metric, form.batch, form.n, form.m, form.features, form.gamma)),
        element_(form.dtype == SDTW_F64 ? 8 : 4),
        x_(count(case_.shape_x()) * element_),
        y_(case_.fused() ? count(case_.shape_y()) * element_ : 0),
        x_len_(form.batch * 8),
        y_len_(form.batch * 8),
        value_(form.batch * element_),
        grad_x_(x_.bytes()),
        grad_y_(y_.bytes()) {
    case_.problem.dtype = form.dtype;
    case_.exec.device = SDTW_CUDA;
    case_.exec.stream = stream.stream;
    sdtw_buffers_init(&buffers_, sizeof buffers_);
    sdtw_sizes sizes;
    sdtw_sizes_init(&sizes, sizeof sizes);
    REQUIRE(sdtw_get_sizes(&case_.problem, &case_.exec, &sizes) == SDTW_STATUS_OK);
    state_ = std::make_unique<DeviceMemory>(sizes.state);
    workspace = std::make_shared<DeviceMemory>(std::max(sizes.forward, sizes.backward));
    bind(buffers_.x, x_, case_.shape_x());
    bind(buffers_.grad_x, grad_x_, case_.shape_x());
    if (case_.fused()) {
      bind(buffers_.y, y_, case_.shape_y());
      bind(buffers_.grad_y, grad_y_, case_.shape_y());
    }
    buffers_.x_len = x_len_.data(), buffers_.y_len = y_len_.data();
    buffers_.value = value_.data();
    buffers_.state = state_->data(), buffers_.state_bytes = state_->bytes();
  }

  // Other data and other lengths in the same buffers.
  void load(uint64_t seed) {
    Random random(seed);
    with_lengths(fill(case_, random), random, 0);
    upload(x_, case_.x);
    if (case_.fused()) upload(y_, case_.y);
    x_len_.upload(case_.x_len.data());
    y_len_.upload(case_.y_len.data());
    check(cudaDeviceSynchronize());  // the copies' way from the staging memory is not the stream's
  }
  void poison(int byte = 0xff) {
    for (DeviceMemory *memory : {&value_, &grad_x_, &grad_y_, workspace.get(), state_.get()}) memory->fill(byte);
    check(cudaDeviceSynchronize());
  }
  void run() {
    buffers_.workspace = workspace->data(), buffers_.workspace_bytes = workspace->bytes();
    REQUIRE(sdtw_forward(&case_.problem, &buffers_, &case_.exec) == SDTW_STATUS_OK);
    REQUIRE(sdtw_backward(&case_.problem, &buffers_, &case_.exec) == SDTW_STATUS_OK);
  }
  std::vector<unsigned char> results() {
    check(cudaStreamSynchronize(stream.stream));
    std::vector<unsigned char> all;
    for (const DeviceMemory *output : {&value_, &grad_x_, &grad_y_}) output->append_to(all);
    return all;
  }

  Stream stream;
  std::shared_ptr<DeviceMemory> workspace;

 private:
  static size_t count(const Shape &shape) { return static_cast<size_t>(shape[0] * shape[1] * shape[2]); }

  template <class Binding>
  static void bind(Binding &binding, const DeviceMemory &memory, const Shape &shape) {
    const Strides strides = contiguous(shape);
    binding.data = memory.data();
    std::copy(strides.begin(), strides.end(), binding.stride);
  }
  void upload(DeviceMemory &to, const std::vector<double> &values) {
    std::vector<unsigned char> bytes(to.bytes());
    for (size_t k = 0; k < values.size(); ++k) store(case_.problem.dtype, &bytes[k * element_], values[k]);
    to.upload(bytes.data());
  }

  Case case_;
  size_t element_;
  DeviceMemory x_, y_, x_len_, y_len_, value_, grad_x_, grad_y_;
  std::unique_ptr<DeviceMemory> state_;
  sdtw_buffers buffers_{};
};

// Not a bare == in CHECK: what differs is too long to print.
bool same(const std::vector<unsigned char> &a, const std::vector<unsigned char> &b) { return a == b; }

bool skip() { return options().device != SDTW_CUDA; }

}  // namespace

TEST_CASE("a captured call is replayed with other data and lengths", "[streams]") {
  if (skip()) return;
  for (const Form &form : forms) {
    INFO(describe(form));
    Work direct(form), captured(form);
    captured.load(1);
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    check(cudaStreamBeginCapture(captured.stream.stream, cudaStreamCaptureModeGlobal));
    captured.run();
    check(cudaStreamEndCapture(captured.stream.stream, &graph));
    check(cudaGraphInstantiate(&exec, graph, 0));
    for (uint64_t seed = 1; seed <= 4; seed++) {
      direct.load(seed);
      direct.poison();
      direct.run();
      captured.load(seed);
      captured.poison(0x7f);
      check(cudaGraphLaunch(exec, captured.stream.stream));
      INFO("seed " << seed);
      CHECK(same(captured.results(), direct.results()));
    }
    check(cudaGraphExecDestroy(exec));
    check(cudaGraphDestroy(graph));
  }
}

TEST_CASE("twenty runs give the same bits, whatever memory held", "[streams]") {
  if (skip()) return;
  for (const Form &form : forms) {
    INFO(describe(form));
    Work work(form);
    work.load(5);
    work.run();
    const auto first = work.results();
    for (int i = 0; i < 20; i++) {
      if (i % 4 != 0) work.poison(i % 4 == 1 ? 0xff : i % 4 == 2 ? 0x00 : 0x7f);  // else what the last call left
      work.run();
      INFO("run " << i);
      CHECK(same(work.results(), first));
    }
  }
}

TEST_CASE("calls on two streams at once do not disturb each other", "[streams]") {
  if (skip()) return;
  for (size_t k = 0; k < std::size(forms); k++) {
    const Form &one = forms[k], &other = forms[(k + 1) % std::size(forms)];
    INFO(describe(one) << " beside " << describe(other));
    Work a(one), b(other);
    a.load(6), b.load(7);
    a.run();
    const auto alone_a = a.results();
    b.run();
    const auto alone_b = b.results();
    a.poison(), b.poison();
    for (int i = 0; i < 10; i++) a.run(), b.run();
    CHECK(same(a.results(), alone_a));
    CHECK(same(b.results(), alone_b));
  }
}

TEST_CASE("calls of different problems use the same workspace in turn", "[streams]") {
  if (skip()) return;
  Work reference(forms[0]);
  for (const Form &form : forms) {
    INFO(describe(form));
    Work work(form);
    work.load(8);
    work.poison();
    work.run();
    const auto expected = work.results();
    reference.load(9);
    reference.run();
    const auto before = reference.results();
    const auto shared = std::make_shared<DeviceMemory>(std::max(work.workspace->bytes(), reference.workspace->bytes()));
    work.workspace = reference.workspace = shared;
    for (int i = 0; i < 3; i++) {
      reference.run();
      CHECK(same(reference.results(), before));
      work.run();
      CHECK(same(work.results(), expected));
    }
  }
}

// What the library remembers of kernels belongs to a context: after a reset the GPU has a new one.
TEST_CASE("calls go on after cudaDeviceReset, and on another GPU", "[streams]") {
  if (skip()) return;
  const auto results_of = [](const Form &form) {
    Work work(form);
    work.load(10);
    work.run();
    return work.results();
  };
  int devices = 0;
  check(cudaGetDeviceCount(&devices));
  for (const Form &form : forms) {
    INFO(describe(form));
    const auto before = results_of(form);
    check(cudaDeviceReset());
    CHECK(same(results_of(form), before));
    for (int i = 0; i < 4 && devices > 1; i++) {
      check(cudaSetDevice(i % 2));
      CHECK(same(results_of(form), before));
    }
    check(cudaSetDevice(0));
  }
}
