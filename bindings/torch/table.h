// The table of calls: a training step asks for the same again and again, and what it has found good once is not checked
// again, but for lengths. Its keys are sizes, types, devices and options.
#pragma once

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "call.h"
#include "plain.h"

namespace sdtw_torch {

using Key = std::array<int64_t, 11>;

struct Hash {
  size_t operator()(const Key &key) const {
    uint64_t result = 0;
    for (const int64_t word : key) {
      result = (result ^ static_cast<uint64_t>(word)) * 0x9e3779b97f4a7c15U;
      result ^= result >> 29;
    }
    return static_cast<size_t>(result);
  }
};

class Table {
 public:
  std::shared_ptr<const Call> find(const Key &key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = calls_.find(key);
    return found == calls_.end() ? nullptr : found->second;
  }

  void add(const Key &key, std::shared_ptr<const Call> call) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (calls_.size() >= limit) calls_.clear();
    calls_[key] = std::move(call);
  }

 private:
  static constexpr size_t limit = 1024;  // a program has few
  std::mutex mutex_;
  std::unordered_map<Key, std::shared_ptr<const Call>, Hash> calls_;
};

// Whether lengths are as the library takes them: one for each of x.
inline bool are_lengths_of(const at::Tensor &lengths, const at::Tensor &x) {
  return !lengths.defined() ||
         (is_plain(lengths) && lengths.dim() == 1 && lengths.size(0) == x.size(0) && lengths.is_contiguous() &&
          lengths.device() == x.device() && (lengths.scalar_type() == at::kInt || lengths.scalar_type() == at::kLong));
}

// Makes the key of a call; false if its inputs are not as the library takes them, or not where it computes.
inline bool make_key(const Inputs &in, double gamma, int64_t options, Key &key) {
  const at::Tensor &x = in.x, &y = in.y;
  if (!is_plain(x) || !is_plain(y) || x.dim() != 3 || y.dim() != 3 || x.size(0) == 0 || x.size(0) != y.size(0) ||
      x.size(2) != y.size(2) || x.scalar_type() != y.scalar_type() || x.device() != y.device() ||
      !are_lengths_of(in.x_lengths, x) || !are_lengths_of(in.y_lengths, x))
    return false;
  if (!x.is_cpu() && !current_cuda_stream) return false;
  int64_t length_type = -1;
  for (const at::Tensor *lengths : {&in.x_lengths, &in.y_lengths}) {
    if (!lengths->defined()) continue;
    const auto type = static_cast<int64_t>(lengths->scalar_type());
    if (length_type >= 0 && type != length_type) return false;
    length_type = type;
  }
  const int64_t how = x.is_cpu() ? at::get_num_threads() : at::globalContext().deterministicAlgorithms();
  int64_t bits = 0;
  static_assert(sizeof bits == sizeof gamma, "gamma is of 64 bits");
  std::memcpy(&bits, &gamma, sizeof bits);
  const int64_t given = (in.x_lengths.defined() ? 1 : 0) + (in.y_lengths.defined() ? 2 : 0);
  key = {x.size(0),   x.size(1), x.size(2), y.size(1), static_cast<int64_t>(x.scalar_type()), x.get_device(), how,
         length_type, given,     bits,      options};
  return true;
}

}  // namespace sdtw_torch
