// Gradients by way of Python: where more than this extension's call is asked for, as gradients that have gradients,
// upstream gradients of transforms and subclasses, or a part of a program that compiled autograd makes; and for errors.
#pragma once

#include <ATen/ops/zeros.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/dynamo/compiled_autograd.h>

#include <optional>
#include <string>
#include <vector>

#include "call.h"

namespace sdtw_torch {

using torch::autograd::variable_list;

// The function that computes them: libsdtw.torch._direct._gradients.
inline PyObject *python_gradients = nullptr;

// Gradients of what is asked for.
struct Question {
  at::Tensor x, y, x_lengths, y_lengths;
  Kept kept;
  double gamma;
  std::string options;
  std::string reduction;
  at::ScalarType value_type;
  bool need_x, need_y;

  // A gradient that autograd leaves out is 0.
  at::Tensor zeros() const {
    const at::SymInt batch = x.sym_size(0);
    return at::zeros_symint(reduction == "none" ? at::SymIntArrayRef(batch) : at::SymIntArrayRef(),
                            x.options().dtype(value_type));
  }
};

inline at::Tensor unwrap(PyObject *object) { return object == Py_None ? at::Tensor() : THPVariable_Unpack(object); }

inline py::object wrap(const at::Tensor &tensor) {
  return tensor.defined() ? py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)) : py::none();
}

inline variable_list ask_python(const at::Tensor &grad, const Question &of) {
  const py::gil_scoped_acquire locked;
  const py::tuple tensors = py::make_tuple(wrap(of.x), wrap(of.y), wrap(of.x_lengths), wrap(of.y_lengths),
                                           wrap(of.kept[0]), wrap(of.kept[1]));
  const py::object grads = py::reinterpret_steal<py::object>(PyObject_CallFunction(
      python_gradients, "OO(ds)sOO", wrap(grad).ptr(), tensors.ptr(), of.gamma, of.options.c_str(),
      of.reduction.c_str(), of.need_x ? Py_True : Py_False, of.need_y ? Py_True : Py_False));
  if (!grads) {
    python_error error;
    error.persist();
    throw error;
  }
  return {unwrap(PyTuple_GET_ITEM(grads.ptr(), 0)), unwrap(PyTuple_GET_ITEM(grads.ptr(), 1))};
}

// A question as what programs of compiled autograd may hold, and back.
inline std::vector<c10::IValue> packed(const Question &of) {
  return {of.x,     of.y,       of.x_lengths, of.y_lengths,  of.kept[0], of.kept[1],
          of.gamma, of.options, of.reduction, of.value_type, of.need_x,  of.need_y};
}

inline Question unpacked(const std::vector<c10::IValue> &from) {
  const auto tensor = [&](size_t i) { return from[i].toTensor(); };
  return {tensor(0),
          tensor(1),
          tensor(2),
          tensor(3),
          {tensor(4), tensor(5)},
          from[6].toDouble(),
          from[7].toStringRef(),
          from[8].toStringRef(),
          from[9].toScalarType(),
          from[10].toBool(),
          from[11].toBool()};
}

// What such a program calls: compilers look into it, and find the operators.
inline variable_list answer(const variable_list &grads, const std::vector<c10::IValue> &question) {
  const Question of = unpacked(question);
  return ask_python(grads[0].defined() ? grads[0] : of.zeros(), of);
}

// Puts a call of answer into the program that compiled autograd is about to make.
inline variable_list ask_in_program(const std::string &name, const variable_list &grads, const Question &of,
                                    const torch::autograd::edge_list &edges, PyObject *program) {
  namespace dynamo = torch::dynamo::autograd;
  const std::vector<c10::IValue> question = packed(of);
  std::vector<at::TypePtr> types;
  for (const c10::IValue &one : question)
    types.push_back(one.isTensor() ? at::TypePtr(at::TensorType::get()) : one.type());
  using Metadata = std::vector<std::optional<torch::autograd::InputMetadata>>;
  const at::IValue results = dynamo::IValuePacker<Metadata>::pack(dynamo::get_input_metadata(edges));
  const auto &compiler = dynamo::getPyCompilerInterface();
  const std::string function = compiler->bind_function(program, name, &answer, types, /*is_custom_function=*/true);
  return compiler->call_function(program, "apply_functional", function, grads, question, results);
}

}  // namespace sdtw_torch
