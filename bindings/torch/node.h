// Soft-DTW as a function of autograd: values, reduced, and the node that computes their gradients.
#pragma once

#include <ATen/ops/div.h>
#include <ATen/ops/mean.h>
#include <ATen/ops/sum.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "call.h"
#include "gradients.h"
#include "plain.h"

namespace sdtw_torch {

using torch::autograd::CompiledNodeArgs;
using torch::autograd::SavedVariable;
using torch::autograd::SwapSavedVariables;

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
  at::Device device{at::kCPU};
  SavedVariable x, y, x_lengths, y_lengths, kept_x, kept_y;

  std::string name() const override { return "SoftDtwBackward"; }

  void release_variables() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (SavedVariable *saved : variables()) saved->reset_data();
  }

  variable_list apply(variable_list &&grads) override {
    const bool keeps_graph = torch::autograd::get_current_graph_task_keep_graph();
    const Question of = question(keeps_graph);
    require_what_was_saved(of);
    const c10::OptionalDeviceGuard guard(device.is_cpu() ? std::optional<at::Device>() : device);
    const at::Tensor grad = grads[0].defined() ? std::move(grads[0]) : of.zeros();
    variable_list result(2);
    return is_usual(grad, of) && compute(grad, of, keeps_graph, result) ? result : ask_python(grad, of);
  }

  // What compiled autograd specializes its program on, and the tensors, which are inputs of it.
  void compiled_args(CompiledNodeArgs &args) const override {
    for (const SavedVariable *saved : {&x, &y, &x_lengths, &y_lengths, &kept_x, &kept_y}) args.collect(*saved, false);
    args.collect(call->gamma);
    args.collect(call->options);
    args.collect(static_cast<int64_t>(call->value_type));
    args.collect(static_cast<int64_t>(reduction));
  }

  variable_list apply_with_saved(const variable_list &grads, SwapSavedVariables &swap) override {
    for (SavedVariable *saved : variables()) swap.before(*saved);
    variable_list result =
        ask_in_program(name(), grads, question(/*keeps_graph=*/true), next_edges(), swap.get_py_compiler());
    for (SavedVariable *saved : variables()) swap.after(*saved);
    return result;
  }

 private:
  std::array<SavedVariable *, 6> variables() { return {&x, &y, &x_lengths, &y_lengths, &kept_x, &kept_y}; }

  // Of a graph that is not kept what was saved is released here already: gradients that were kept become others in
  // place, which neither another thread's pass may find, nor one that follows an error.
  Question question(bool keeps_graph) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Question result{x.unpack(),
                    y.unpack(),
                    x_lengths.unpack(),
                    y_lengths.unpack(),
                    {kept_x.unpack(), kept_y.unpack()},
                    call->gamma,
                    call->options,
                    name_of(reduction),
                    call->value_type,
                    task_should_compute_output(0),
                    task_should_compute_output(1)};
    if (!keeps_graph)
      for (SavedVariable *saved : variables()) saved->reset_data();
    return result;
  }

  // Hooks of saved tensors may hand back anything, and what follows reads memory as what was saved.
  void require_what_was_saved(const Question &of) const {
    const sdtw_problem &p = call->training.problem;
    const at::ScalarType type = type_of(p.dtype), of_lengths = p.length_bits == 32 ? at::kInt : at::kLong;
    const auto require = [&](const char *name, const at::Tensor &t, at::ScalarType wanted, at::IntArrayRef sizes) {
      TORCH_CHECK(!t.defined() || (t.scalar_type() == wanted && t.sizes() == sizes && t.device() == device), name,
                  " is ", t.scalar_type(), t.sizes(), " on ", t.device(),
                  ", as a hook of saved tensors gave it back: expected ", wanted, sizes, " on ", device,
                  ", as it was saved");
    };
    require("x", of.x, type, {p.batch_x, p.n, p.features});
    require("y", of.y, type, {p.batch_x, p.m, p.features});
    require("x_lengths", of.x_lengths, of_lengths, {p.batch_x});
    require("y_lengths", of.y_lengths, of_lengths, {p.batch_x});
    if (call->keeps_gradients()) {
      require("the gradient by x", of.kept[0], type, {p.batch_x, p.n, p.features});
      require("the gradient by y", of.kept[1], type, {p.batch_x, p.m, p.features});
    } else {
      require("state", of.kept[0], at::kByte, {static_cast<int64_t>(call->training.sizes.state)});
    }
  }

  bool is_usual(const at::Tensor &grad, const Question &of) const {
    return !c10::GradMode::is_enabled() && is_alone() && is_plain(grad) && is_plain(of.x) && is_plain(of.y) &&
           grad.scalar_type() == call->value_type && grad.device() == of.x.device() &&
           grad.numel() == (reduction == Reduction::none ? call->batch() : 1);
  }

  bool compute(const at::Tensor &grad, const Question &of, bool keeps_graph, variable_list &result) const {
    const at::AutoDispatchBelowADInplaceOrView below;
    if (!of.need_x && !of.need_y) return true;
    const at::Tensor upstream = of_values(grad);
    const bool keeps = call->keeps_gradients();
    Kept grads;
    if (keeps) {
      grads = {of.need_x ? of.kept[0] : at::Tensor(), of.need_y ? of.kept[1] : at::Tensor()};
      if (scale(call->training, upstream, /*in_place=*/!keeps_graph, grads)) {
        result = {std::move(grads[0]), std::move(grads[1])};
        return true;
      }
    }
    grads = {new_gradient(of.x, of.need_x), new_gradient(of.y, of.need_y)};
    const Plan &plan = keeps ? call->inference : call->training;
    const Inputs in{of.x, of.y, of.x_lengths, of.y_lengths};
    if (!backward(plan, in, keeps ? at::Tensor() : of.kept[0], upstream.const_data_ptr(), grads[0], grads[1]))
      return false;
    result = {std::move(grads[0]), std::move(grads[1])};
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
  at::Tensor result;
  Kept kept;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    const Plan &plan = trains ? call->training : call->inference;
    const at::Tensor value = at::empty({call->batch()}, in.x.options().dtype(call->value_type));
    if (trains && call->keeps_gradients()) {
      kept = {new_gradient(in.x, in.x.requires_grad()), new_gradient(in.y, in.y.requires_grad())};
      if (!value_and_gradients(plan, in, value, kept)) return {};
    } else {
      if (trains) kept[0] = at::empty({static_cast<int64_t>(plan.sizes.state)}, in.x.options().dtype(at::kByte));
      if (!forward(plan, in, value, kept[0])) return {};
    }
    result = reduced(value, reduction);
  }
  if (!trains) return result;
  SoftDtwBackward *node = nullptr;
  const auto holder = new_node(node);
  node->set_next_edges(torch::autograd::collect_next_edges(in.x, in.y));
  node->call = call;
  node->reduction = reduction;
  node->device = in.x.device();
  node->x = SavedVariable(in.x, false);
  node->y = SavedVariable(in.y, false);
  if (in.x_lengths.defined()) node->x_lengths = SavedVariable(in.x_lengths, false);
  if (in.y_lengths.defined()) node->y_lengths = SavedVariable(in.y_lengths, false);
  if (kept[0].defined()) node->kept_x = SavedVariable(kept[0], false);
  if (kept[1].defined()) node->kept_y = SavedVariable(kept[1], false);
  torch::autograd::set_history(result, holder);
  return result;
}

}  // namespace sdtw_torch
