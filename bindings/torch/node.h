// Soft-DTW as a function of autograd: values, reduced, and the node that computes their gradients.
#pragma once

#include <ATen/ops/div.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>
#include <ATen/record_function.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "call.h"
#include "plain.h"

namespace sdtw_torch {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

// The function of Python that computes gradients where more than this call is asked for: gradients that have gradients,
// upstream gradients of transforms and subclasses, and errors.
inline PyObject *python_gradients = nullptr;

[[noreturn]] inline void throw_python_error() {
  python_error error;
  error.persist();
  throw error;
}

inline at::Tensor unwrap(PyObject *object) { return object == Py_None ? at::Tensor() : THPVariable_Unpack(object); }

inline py::object wrap(const at::Tensor &tensor) {
  return tensor.defined() ? py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)) : py::none();
}

inline const char *name_of(Reduction reduction) {
  return reduction == Reduction::none ? "none" : reduction == Reduction::mean ? "mean" : "sum";
}

// The sum of values in host memory times a factor, added up in float64 as Plan.add_up of libsdtw._core does.
template <class Value>
void add_up(const at::Tensor &value, double factor, const at::Tensor &result) {
  const auto *const values = static_cast<const Value *>(value.const_data_ptr());
  double total = 0;
  for (int64_t i = 0; i < value.numel(); ++i) total += static_cast<double>(values[i]);
  *static_cast<Value *>(result.mutable_data_ptr()) = static_cast<Value>(total * factor);
}

inline at::Tensor reduced(const at::Tensor &value, Reduction reduction) {
  if (reduction == Reduction::none) return value;
  if (!value.is_cpu()) return reduction == Reduction::mean ? at::mean(value) : at::sum(value);
  at::Tensor result = at::empty({}, value.options());
  const double factor = reduction == Reduction::mean ? 1 / static_cast<double>(value.numel()) : 1.0;
  const auto add = value.scalar_type() == at::kDouble ? &add_up<double> : &add_up<float>;
  add(value, factor, result);
  return result;
}

struct SoftDtwBackward : torch::autograd::Node {
  std::shared_ptr<const Call> call;
  Reduction reduction = Reduction::none;
  SavedVariable x, y, x_lengths, y_lengths, state;

  std::string name() const override { return "SoftDtwBackward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable *saved : {&x, &y, &x_lengths, &y_lengths, &state}) saved->reset_data();
  }

  variable_list apply(variable_list &&grads) override {
    Saved saved = unpack();
    at::Tensor grad = std::move(grads[0]);
    const c10::OptionalDeviceGuard device(saved.x.is_cpu() ? std::optional<at::Device>() : saved.x.device());
    if (!grad.defined())
      grad = at::zeros(reduction == Reduction::none ? at::IntArrayRef{call->batch()} : at::IntArrayRef{},
                       saved.x.options().dtype(call->value_type));
    variable_list result(2);
    if (!is_usual(grad, saved) || !compute(grad, saved, result)) ask_python(grad, saved, result);
    return result;
  }

 private:
  struct Saved {
    at::Tensor x, y, x_lengths, y_lengths, state;
  };

  Saved unpack() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return {x.unpack(), y.unpack(), x_lengths.unpack(), y_lengths.unpack(), state.unpack()};
  }

  bool is_usual(const at::Tensor &grad, const Saved &saved) const {
    return !c10::GradMode::is_enabled() && is_alone() && is_plain(grad) && is_plain(saved.x) && is_plain(saved.y) &&
           grad.scalar_type() == call->value_type && grad.device() == saved.x.device() &&
           grad.numel() == (reduction == Reduction::none ? call->batch() : 1);
  }

  bool compute(const at::Tensor &grad, const Saved &saved, variable_list &result) {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Inputs in{saved.x, saved.y, saved.x_lengths, saved.y_lengths};
    at::Tensor grad_x, grad_y;
    if (task_should_compute_output(0)) grad_x = at::empty_like(saved.x, at::MemoryFormat::Contiguous);
    if (task_should_compute_output(1)) grad_y = at::empty_like(saved.y, at::MemoryFormat::Contiguous);
    if (!grad_x.defined() && !grad_y.defined()) return true;
    const at::Tensor upstream = of_values(grad);
    if (!backward(call->training, in, saved.state, upstream.const_data_ptr(), grad_x, grad_y)) return false;
    result = {std::move(grad_x), std::move(grad_y)};
    return true;
  }

  // Upstream gradients of the values, contiguous, from that of the reduced ones.
  at::Tensor of_values(const at::Tensor &grad) const {
    if (reduction == Reduction::none) return grad.contiguous();
    const int64_t batch = call->batch();
    if (!grad.is_cpu()) {
      const at::Tensor all = grad.expand({batch});
      return reduction == Reduction::mean ? at::div(all, at::Scalar(batch)) : all.contiguous();
    }
    at::Tensor all = at::empty({batch}, grad.options());
    const auto fill = [&](auto zero) {
      using Value = decltype(zero);
      const auto given = static_cast<double>(*static_cast<const Value *>(grad.const_data_ptr()));
      const double each = reduction == Reduction::mean ? given / static_cast<double>(batch) : given;
      std::fill_n(static_cast<Value *>(all.mutable_data_ptr()), batch, static_cast<Value>(each));
    };
    if (call->value_type == at::kDouble)
      fill(0.0);
    else
      fill(0.0F);
    return all;
  }

  void ask_python(const at::Tensor &grad, const Saved &saved, variable_list &result) {
    const py::gil_scoped_acquire locked;
    const py::tuple tensors =
        py::make_tuple(wrap(saved.x), wrap(saved.y), wrap(saved.x_lengths), wrap(saved.y_lengths), wrap(saved.state));
    const py::object grads = py::reinterpret_steal<py::object>(PyObject_CallFunction(
        python_gradients, "OO(ds)sOO", wrap(grad).ptr(), tensors.ptr(), call->gamma, call->options.c_str(),
        name_of(reduction), task_should_compute_output(0) ? Py_True : Py_False,
        task_should_compute_output(1) ? Py_True : Py_False));
    if (!grads) throw_python_error();
    for (int i = 0; i < 2; ++i) result[i] = unwrap(PyTuple_GET_ITEM(grads.ptr(), i));
  }
};

// A node, held as this PyTorch holds nodes: 2.13 counts references inside of them, and versions before in shared_ptr,
// whose deleter spares the stack where graphs are deep.
template <class Pointer = decltype(torch::autograd::Edge::function)>
Pointer new_node(SoftDtwBackward *&node) {
  if constexpr (std::is_same_v<Pointer, std::shared_ptr<torch::autograd::Node>>) {
    node = new SoftDtwBackward;
    return Pointer(node, [](auto *old) { deleteNode(old); });
  } else {
    auto made = c10::make_intrusive<SoftDtwBackward>();
    node = made.get();
    return made;
  }
}

// The reduced values, with their history if a gradient is asked for; undefined where the library refuses.
inline at::Tensor soft_dtw(const std::shared_ptr<const Call> &call, const Inputs &in, Reduction reduction) {
  RECORD_FUNCTION("libsdtw::soft_dtw", c10::ArrayRef<const c10::IValue>());
  const c10::OptionalDeviceGuard device(in.x.is_cpu() ? std::optional<at::Device>() : in.x.device());
  const bool trains = torch::autograd::compute_requires_grad(in.x, in.y);
  at::Tensor state, result;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Plan &plan = trains ? call->training : call->inference;
    const at::Tensor value = at::empty({call->batch()}, in.x.options().dtype(call->value_type));
    if (trains) state = at::empty({static_cast<int64_t>(plan.sizes.state)}, in.x.options().dtype(at::kByte));
    if (!forward(plan, in, value, state)) return {};
    result = reduced(value, reduction);
  }
  if (!trains) return result;
  SoftDtwBackward *node = nullptr;
  const auto holder = new_node(node);
  node->set_next_edges(torch::autograd::collect_next_edges(in.x, in.y));
  node->call = call;
  node->reduction = reduction;
  node->x = SavedVariable(in.x, false);
  node->y = SavedVariable(in.y, false);
  if (in.x_lengths.defined()) node->x_lengths = SavedVariable(in.x_lengths, false);
  if (in.y_lengths.defined()) node->y_lengths = SavedVariable(in.y_lengths, false);
  node->state = SavedVariable(state, false);
  torch::autograd::set_history(result, holder);
  return result;
}

}  // namespace sdtw_torch
