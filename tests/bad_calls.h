// A world in which every call of the library succeeds, to be broken one argument at a time by test_errors.cpp.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "backends.h"

namespace test {

// The functions that a broken argument is tried on.
enum Function : unsigned {
  get_sizes = 1,
  describe_plan = 2,
  forward = 4,
  backward = 8,
  alignment = 16,
  jvp = 32,
  planning = get_sizes | describe_plan,
  with_state = backward | alignment,  // which read one if there is one
  computing = forward | with_state | jvp,
  every = planning | computing,
};
inline constexpr Function functions[] = {get_sizes, describe_plan, forward, backward, alignment, jvp};

inline const char *name_of(Function function) {
  switch (function) {
    case get_sizes: return "sdtw_get_sizes";
    case describe_plan: return "sdtw_describe";
    case forward: return "sdtw_forward";
    case backward: return "sdtw_backward";
    case alignment: return "sdtw_alignment";
    default: return "sdtw_jvp";
  }
}

// Two pairs of small series, and every array that any call can use, all in one block of memory so that a write to
// any of them is seen.
struct World {
  static constexpr int64_t batch = 2, n = 3, m = 4, features = 2;
  static constexpr size_t region = 512, regions = 13;  // of one array each; inputs have room to be moved in

  sdtw_problem problem;
  sdtw_exec exec;
  sdtw_buffers buffers;
  sdtw_sizes sizes;
  char text[64];
  std::vector<unsigned char> memory;

  // What is passed: the structs above unless a test puts NULL here.
  const sdtw_problem *problem_argument = &problem;
  const sdtw_exec *exec_argument = &exec;
  const sdtw_buffers *buffers_argument = &buffers;
  sdtw_sizes *sizes_argument = &sizes;
  char *text_argument = text;
  size_t capacity = sizeof text;

  explicit World(sdtw_metric metric = SDTW_SQEUCLIDEAN) {
    sdtw_problem_init(&problem, sizeof problem);
    sdtw_exec_init(&exec, sizeof exec);
    sdtw_buffers_init(&buffers, sizeof buffers);
    sdtw_sizes_init(&sizes, sizeof sizes);
    std::memset(text, 'x', sizeof text);
    problem.metric = metric;
    problem.batch_x = problem.batch_y = batch;
    problem.n = n;
    problem.m = m;
    problem.features = metric == SDTW_PRECOMPUTED ? 0 : features;
    exec.num_threads = 1;
    exec.device = options().device;
    most_workspace_ = 64;
    for (const uint32_t flags : {uint32_t(SDTW_NO_STATE), 0u}) {
      exec.flags = flags;
      sdtw_get_sizes(&problem, &exec, &sizes);
      most_workspace_ = std::max({most_workspace_, sizes.forward, sizes.backward, sizes.alignment, sizes.jvp});
    }
    lay_out(metric != SDTW_PRECOMPUTED);
  }
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  sdtw_status call(Function function) {
    switch (function) {
      case get_sizes: return sdtw_get_sizes(problem_argument, exec_argument, sizes_argument);
      case describe_plan: return sdtw_describe(problem_argument, exec_argument, text_argument, capacity);
      case forward: return sdtw_forward(problem_argument, buffers_argument, exec_argument);
      case backward: return sdtw_backward(problem_argument, buffers_argument, exec_argument);
      case alignment: return sdtw_alignment(problem_argument, buffers_argument, exec_argument);
      default: return sdtw_jvp(problem_argument, buffers_argument, exec_argument);
    }
  }

  size_t workspace_of(Function function) const {
    return function == forward     ? sizes.forward
           : function == backward  ? sizes.backward
           : function == alignment ? sizes.alignment
                                   : sizes.jvp;
  }

  // Every byte that belongs to the caller.
  std::vector<unsigned char> snapshot() const {
    std::vector<unsigned char> bytes = memory;
    const auto append = [&](const void *from, size_t count) {
      bytes.insert(bytes.end(), static_cast<const unsigned char *>(from),
                   static_cast<const unsigned char *>(from) + count);
    };
    append(&problem, sizeof problem);
    append(&exec, sizeof exec);
    append(&buffers, sizeof buffers);
    append(&sizes, sizeof sizes);
    append(text, sizeof text);
    return bytes;
  }

 private:
  void lay_out(bool fused) {
    const size_t state = (sizes.state + 63) / 64 * 64 + 64;
    memory.assign(64 + regions * region + state + most_workspace_ + 64, 0);
    unsigned char *next = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64);
    const auto take = [&](size_t bytes) {
      unsigned char *const place = next;
      next += bytes;
      return place;
    };
    const auto strided = [](auto &array, void *data, int64_t rows, int64_t columns) {
      array.data = data;
      array.stride[0] = rows * columns;
      array.stride[1] = columns;
      array.stride[2] = 1;
    };
    strided(buffers.x, take(region), n, fused ? features : m);
    strided(buffers.grad_x, take(region), n, fused ? features : m);
    strided(buffers.tangent_x, take(region), n, fused ? features : m);
    strided(buffers.grad_x_tangent, take(region), n, fused ? features : m);
    if (fused) {
      strided(buffers.y, take(region), m, features);
      strided(buffers.grad_y, take(region), m, features);
      strided(buffers.tangent_y, take(region), m, features);
      strided(buffers.grad_y_tangent, take(region), m, features);
    }
    strided(buffers.alignment, take(region), n, m);
    buffers.value = take(region);
    buffers.grad_value = take(region);
    buffers.value_tangent = take(region);
    auto *const lengths = reinterpret_cast<int64_t *>(take(region));
    for (int64_t b = 0; b < batch; ++b) {
      lengths[b] = n;
      lengths[8 + b] = m;
    }
    buffers.x_len = lengths;
    buffers.y_len = lengths + 8;
    buffers.state = take(state);
    buffers.state_bytes = sizes.state;
    buffers.workspace = take(most_workspace_);
    buffers.workspace_bytes = most_workspace_;
  }

  size_t most_workspace_;
};

// One way to break a World, and how each of `functions` must refuse it.
struct BadCall {
  unsigned functions;
  sdtw_status status;
  std::string names;  // what the message must contain
  std::function<void(World &)> breaks;
  sdtw_metric metric = SDTW_SQEUCLIDEAN;
};

}  // namespace test
