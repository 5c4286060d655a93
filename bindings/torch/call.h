// A call of the library on tensors: memory, strides, streams and lengths. What is asked here is trusted to be right,
// but for what only the data can tell, the lengths; where the library refuses, the answer is false, and the way through
// Python is gone, which finds the words.
#pragma once

#include <ATen/DeviceGuard.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <c10/core/Allocator.h>

#include <array>
#include <cstdint>
#include <string>

#include "sdtw.h"

namespace sdtw_torch {

// The functions of sdtw.h inside the extension module libsdtw._core, which tells their addresses: linked in here once
// more, the library would have two sets of threads in a process.
struct Core {
  decltype(&sdtw_buffers_init) buffers_init;
  decltype(&sdtw_forward) forward;
  decltype(&sdtw_backward) backward;
  // Of kept.h beside that module.
  decltype(&sdtw_backward) value_and_gradients;
  bool (*are_products)(const sdtw_problem *, const sdtw_buffers *);
};
inline Core core{};

// aoti_torch_get_current_cuda_stream of PyTorch's C interface; null where PyTorch was built without CUDA. Through its
// address this extension needs no headers of CUDA, and serves PyTorch's builds for any version of it.
inline int32_t (*current_cuda_stream)(int32_t device, void **stream) = nullptr;

enum class Reduction { none, mean, sum };

inline at::ScalarType type_of(sdtw_dtype dtype) {
  switch (dtype) {
    case SDTW_F64: return at::kDouble;
    case SDTW_F16: return at::kHalf;
    case SDTW_BF16: return at::kBFloat16;
    default: return at::kFloat;
  }
}

// A problem with where and how it is computed and what that needs: what libsdtw._core.Plan holds.
struct Plan {
  sdtw_problem problem;
  sdtw_exec exec;
  sdtw_sizes sizes;
};

// What calls of one kind need.
struct Call {
  Plan training;   // with state, or of values and gradients in one call, as Python has decided
  Plan inference;  // without state
  at::ScalarType value_type;
  double gamma;
  std::string options;  // as the operators have them

  int64_t batch() const { return training.problem.batch_x; }
  bool keeps_gradients() const { return training.exec.flags & SDTW_WITH_VALUE; }
};

struct Inputs {
  const at::Tensor &x, &y, &x_lengths, &y_lengths;  // lengths may be undefined
};

// Whether all lengths are in [0, longest]: of memory of the host alone.
template <class Integer>
bool all_within(const void *lengths, int64_t count, int64_t longest) {
  const auto *const all = static_cast<const Integer *>(lengths);
  for (int64_t i = 0; i < count; ++i)
    if (all[i] < 0 || all[i] > longest) return false;
  return true;
}

inline bool are_within(const at::Tensor &lengths, int64_t longest) {
  if (!lengths.defined()) return true;
  const auto check = lengths.scalar_type() == at::kInt ? &all_within<int32_t> : &all_within<int64_t>;
  return check(lengths.const_data_ptr(), lengths.numel(), longest);
}

template <class View>  // sdtw_in or sdtw_out
View view(const at::Tensor &tensor, decltype(View::data) data) {
  View result{};
  result.data = data;
  for (int i = 0; i < 3; ++i) result.stride[i] = tensor.stride(i);
  return result;
}

inline sdtw_in input(const at::Tensor &tensor) { return view<sdtw_in>(tensor, tensor.const_data_ptr()); }

inline sdtw_out output(const at::Tensor &tensor) {
  return tensor.defined() ? view<sdtw_out>(tensor, tensor.mutable_data_ptr()) : sdtw_out{};
}

inline const void *address(const at::Tensor &lengths) { return lengths.defined() ? lengths.const_data_ptr() : nullptr; }

// Uninitialised memory that lives as long as a call: of PyTorch's allocator, whose stream says when it is free again. A
// tensor of it would take the host longer; versions before 2.9 do not tell of the allocator of GPUs.
class Scratch {
 public:
  Scratch(size_t bytes, const at::Tensor &like) {
    if (bytes == 0) return;
    if (c10::Allocator *const allocator = c10::GetAllocator(like.device().type()))
      memory_ = allocator->allocate(bytes);
    else
      tensor_ = at::empty({static_cast<int64_t>(bytes)}, like.options().dtype(at::kByte));
  }
  void *data() const { return tensor_.defined() ? tensor_.mutable_data_ptr() : memory_.get(); }

 private:
  c10::DataPtr memory_;
  at::Tensor tensor_;
};

// Buffers of a call that reads these inputs, and exec with the stream that is current now; false where there is none.
inline bool prepare(const Inputs &in, const at::Tensor &state, sdtw_buffers &buffers, sdtw_exec &exec) {
  if (core.buffers_init(&buffers, sizeof buffers) != SDTW_STATUS_OK) return false;
  buffers.x = input(in.x);
  buffers.y = input(in.y);
  buffers.x_len = address(in.x_lengths);
  buffers.y_len = address(in.y_lengths);
  if (state.defined()) {
    buffers.state = state.mutable_data_ptr();
    buffers.state_bytes = state.nbytes();
  }
  if (exec.device == SDTW_CPU) return true;
  void *stream = nullptr;
  if (current_cuda_stream(in.x.get_device(), &stream) != 0) return false;
  exec.stream = static_cast<CUstream_st *>(stream);
  return true;
}

// Of lengths that only the data can tell to be wrong.
inline bool may_call(const Plan &plan, const Inputs &in) {
  return plan.exec.device != SDTW_CPU ||
         (are_within(in.x_lengths, plan.problem.n) && are_within(in.y_lengths, plan.problem.m));
}

inline bool forward(const Plan &plan, const Inputs &in, const at::Tensor &value, const at::Tensor &state) {
  sdtw_buffers buffers;
  sdtw_exec exec = plan.exec;
  if (!may_call(plan, in) || !prepare(in, state, buffers, exec)) return false;
  const Scratch workspace(plan.sizes.forward, in.x);
  buffers.workspace = workspace.data();
  buffers.workspace_bytes = plan.sizes.forward;
  buffers.value = value.mutable_data_ptr();
  return core.forward(&plan.problem, &buffers, &exec) == SDTW_STATUS_OK;
}

// What a node keeps from forward until backward: state alone, or in its place the gradients of x and y, for upstream
// gradients of 1. A gradient that is not wanted is an undefined tensor.
using Kept = std::array<at::Tensor, 2>;

inline at::Tensor new_gradient(const at::Tensor &series, bool wanted) {
  return wanted ? at::empty_like(series, at::MemoryFormat::Contiguous) : at::Tensor();
}

inline bool value_and_gradients(const Plan &plan, const Inputs &in, const at::Tensor &value, const Kept &gradients) {
  sdtw_buffers buffers;
  sdtw_exec exec = plan.exec;
  if (!may_call(plan, in) || !prepare(in, {}, buffers, exec)) return false;
  const Scratch workspace(plan.sizes.backward, in.x);
  buffers.workspace = workspace.data();
  buffers.workspace_bytes = plan.sizes.backward;
  buffers.value = value.mutable_data_ptr();
  buffers.grad_x = output(gradients[0]);
  buffers.grad_y = output(gradients[1]);
  return core.value_and_gradients(&plan.problem, &buffers, &exec) == SDTW_STATUS_OK;
}

// Gradients for other upstream ones, from those for 1; false where they are to be computed for these.
inline bool scale(const Plan &plan, const at::Tensor &grad_value, bool in_place, Kept &gradients) {
  sdtw_buffers buffers{};
  buffers.grad_value = grad_value.const_data_ptr();
  for (int i = 0; i < 2; ++i)
    if (gradients[i].defined()) (i ? buffers.grad_y : buffers.grad_x).data = gradients[i].mutable_data_ptr();
  if (!core.are_products(&plan.problem, &buffers)) return false;
  const at::Tensor factors = grad_value.view({plan.problem.batch_x, 1, 1});
  for (at::Tensor &gradient : gradients)
    if (gradient.defined()) gradient = in_place ? gradient.mul_(factors) : gradient.mul(factors);
  return true;
}

inline bool backward(const Plan &plan, const Inputs &in, const at::Tensor &state, const void *grad_value,
                     const at::Tensor &grad_x, const at::Tensor &grad_y) {
  sdtw_buffers buffers;
  sdtw_exec exec = plan.exec;
  if (!prepare(in, state, buffers, exec)) return false;
  const Scratch workspace(plan.sizes.backward, in.x);
  buffers.workspace = workspace.data();
  buffers.workspace_bytes = plan.sizes.backward;
  buffers.grad_value = grad_value;
  buffers.grad_x = output(grad_x);
  buffers.grad_y = output(grad_y);
  return core.backward(&plan.problem, &buffers, &exec) == SDTW_STATUS_OK;
}

}  // namespace sdtw_torch
