// Trains a small network by gradient descent on soft-DTW, without a framework: the network and its derivatives are
// written out, the library gives the loss and its gradient by the prediction, and all memory is the caller's, got once.
//
//   c++ -std=c++17 -O2 train_loop.cpp $(pkg-config --cflags --libs sdtw)
//
// On a GPU it computes the loss there. That build is told so, and where CUDA is: -DWITH_CUDA -I$CUDA/include
// -L$CUDA/lib64 -lcudart. The network stays on the CPU, in memory that both see.
//
// The task: from the first half of an oscillation the second, which in training comes a little early or late. A loss
// that compares step by step would teach the mean of all of these, which is flat; soft-DTW follows them in time.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

#include "sdtw.h"
#if defined(WITH_CUDA)
#include <cuda_runtime.h>
#endif

namespace {

constexpr int batch = 64, steps = 32, hidden = 48;

void check(sdtw_status status) {
  if (status == SDTW_STATUS_OK) return;
  std::fprintf(stderr, "%s: %s\n", sdtw_status_string(status), sdtw_last_error());
  std::exit(EXIT_FAILURE);
}

// Memory that the device of the loss can read and write, and this program too when the device is done.
#if defined(WITH_CUDA)
sdtw_device device() { return sdtw_device_available(SDTW_CUDA) == SDTW_STATUS_OK ? SDTW_CUDA : SDTW_CPU; }
void *allocate(size_t bytes) {
  if (device() == SDTW_CPU) return std::malloc(bytes);
  void *memory = nullptr;
  return cudaMallocManaged(&memory, bytes) == cudaSuccess ? memory : nullptr;
}
void release(void *memory) { device() == SDTW_CPU ? std::free(memory) : static_cast<void>(cudaFree(memory)); }
void wait() {
  if (device() == SDTW_CUDA && cudaDeviceSynchronize() != cudaSuccess) std::exit(EXIT_FAILURE);
}
#else
sdtw_device device() { return SDTW_CPU; }
void *allocate(size_t bytes) { return std::malloc(bytes); }
void release(void *memory) { std::free(memory); }
void wait() {}
#endif

struct Release {
  void operator()(void *memory) const { release(memory); }
};
template <class T>
using Array = std::unique_ptr<T[], Release>;

template <class T>
Array<T> array(size_t count) {
  void *memory = allocate(count * sizeof(T));
  if (!memory && count) {
    std::fprintf(stderr, "no memory\n");
    std::exit(EXIT_FAILURE);
  }
  return Array<T>(static_cast<T *>(memory));
}

// The mean soft-DTW of predictions and targets, [batch, steps] each, and its gradient by the predictions.
class Loss {
 public:
  explicit Loss(double gamma)
      : prediction(array<float>(batch * steps)),
        target(array<float>(batch * steps)),
        grad(array<float>(batch * steps)),
        value_(array<float>(batch)),
        upstream_(array<float>(batch)) {
    check(sdtw_problem_init(&problem_, sizeof problem_));
    problem_.batch_x = problem_.batch_y = batch;
    problem_.n = problem_.m = steps;
    problem_.features = 1;
    problem_.gamma = gamma;
    check(sdtw_exec_init(&exec_, sizeof exec_));
    exec_.device = device();
    sdtw_sizes sizes;
    check(sdtw_sizes_init(&sizes, sizeof sizes));
    check(sdtw_get_sizes(&problem_, &exec_, &sizes));
    const size_t workspace = sizes.forward > sizes.backward ? sizes.forward : sizes.backward;
    state_ = array<char>(sizes.state);
    workspace_ = array<char>(workspace);

    check(sdtw_buffers_init(&buffers_, sizeof buffers_));
    buffers_.x = {prediction.get(), {steps, 1, 1}};
    buffers_.y = {target.get(), {steps, 1, 1}};
    buffers_.grad_x = {grad.get(), {steps, 1, 1}};
    buffers_.value = value_.get();
    buffers_.grad_value = upstream_.get();
    buffers_.state = state_.get(), buffers_.state_bytes = sizes.state;
    buffers_.workspace = workspace_.get(), buffers_.workspace_bytes = workspace;
    for (int b = 0; b < batch; ++b) upstream_[b] = 1.0f / batch;  // of the mean
  }

  // Reads prediction and target, writes grad. The value may be negative: it is a soft minimum over many paths.
  float compute() {
    check(sdtw_forward(&problem_, &buffers_, &exec_));
    check(sdtw_backward(&problem_, &buffers_, &exec_));
    wait();
    float mean = 0;
    for (int b = 0; b < batch; ++b) mean += value_[b] / batch;
    return mean;
  }

  Array<float> prediction, target, grad;

 private:
  sdtw_problem problem_;
  sdtw_exec exec_;
  sdtw_buffers buffers_;
  Array<float> value_, upstream_;
  Array<char> state_, workspace_;
};

// prediction = W2 tanh(W1 [input, 1])
class Network {
 public:
  explicit Network(std::mt19937 &random) : w1_(hidden * (steps + 1)), w2_(steps * hidden) {
    std::normal_distribution<float> normal(0, 1 / std::sqrt(float(steps)));
    for (auto *weights : {&w1_, &w2_})
      for (float &w : *weights) w = normal(random);
    momentum1_.resize(w1_.size());
    momentum2_.resize(w2_.size());
  }

  void predict(const std::vector<float> &input, float *prediction) {
    for (int b = 0; b < batch; ++b) {
      for (int h = 0; h < hidden; ++h) {
        const float *w = &w1_[h * (steps + 1)];
        float sum = w[steps];
        for (int t = 0; t < steps; ++t) sum += w[t] * input[b * steps + t];
        active_[b * hidden + h] = std::tanh(sum);
      }
      for (int t = 0; t < steps; ++t) {
        prediction[b * steps + t] = 0;
        for (int h = 0; h < hidden; ++h) prediction[b * steps + t] += w2_[t * hidden + h] * active_[b * hidden + h];
      }
    }
  }

  void learn(const std::vector<float> &input, const float *grad, float rate) {
    std::vector<float> grad1(w1_.size()), grad2(w2_.size());
    for (int b = 0; b < batch; ++b)
      for (int h = 0; h < hidden; ++h) {
        const float a = active_[b * hidden + h];
        float back = 0;
        for (int t = 0; t < steps; ++t) {
          grad2[t * hidden + h] += grad[b * steps + t] * a;
          back += grad[b * steps + t] * w2_[t * hidden + h];
        }
        back *= 1 - a * a;
        for (int t = 0; t < steps; ++t) grad1[h * (steps + 1) + t] += back * input[b * steps + t];
        grad1[h * (steps + 1) + steps] += back;
      }
    descend(w1_, momentum1_, grad1, rate);
    descend(w2_, momentum2_, grad2, rate);
  }

 private:
  static void descend(std::vector<float> &w, std::vector<float> &momentum, const std::vector<float> &grad, float rate) {
    for (size_t i = 0; i < w.size(); ++i) w[i] -= rate * (momentum[i] = 0.9f * momentum[i] + grad[i]);
  }

  std::vector<float> w1_, w2_, momentum1_, momentum2_;
  std::vector<float> active_ = std::vector<float>(batch * hidden);
};

// Oscillations of all phases: the first half, and the second, up to 4 steps early or late.
void draw(std::mt19937 &random, std::vector<float> &input, float *target) {
  std::uniform_real_distribution<float> phase(0, 6.2831853f), late(-4, 4);
  for (int b = 0; b < batch; ++b) {
    const float begin = phase(random), shift = late(random);
    for (int t = 0; t < steps; ++t) {
      input[b * steps + t] = std::sin(begin + 0.4f * float(t));
      target[b * steps + t] = std::sin(begin + 0.4f * (float(t + steps) - shift));
    }
  }
}

}  // namespace

int main() {
  std::mt19937 random(1);
  std::printf("the loss is computed on the %s\n", device() == SDTW_CUDA ? "GPU" : "CPU");
  Loss loss(0.1);
  Network network(random);
  std::vector<float> input(batch * steps);
  float first = 0, last = 0;
  for (int step = 0; step <= 400; ++step) {
    draw(random, input, loss.target.get());
    network.predict(input, loss.prediction.get());
    const float now = loss.compute();
    network.learn(input, loss.grad.get(), 0.002f);
    if (step == 0) first = now;
    last = step == 0 ? now : 0.9f * last + 0.1f * now;
    if (step % 100 == 0) std::printf("step %3d: loss %8.3f\n", step, last);
  }
  return last < 0.2f * first ? EXIT_SUCCESS : EXIT_FAILURE;
}
