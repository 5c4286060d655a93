// The calls of sdtw.h on objects that have data_ptr(), stride(), numel() and nbytes, as PyTorch's tensors have: asked
// here, a call takes half the time that it takes to ask them in Python and to convert tuples of numbers.
#include <pybind11/pybind11.h>

#include <string>
#include <type_traits>

#include "arrays.h"
#include "errors.h"
#include "kept.h"

namespace py = pybind11;

namespace sdtw_python {
namespace {

// A problem with where and how it is computed and what that needs.
struct Plan {
  sdtw_problem problem;
  sdtw_exec exec;
  sdtw_sizes sizes;
};

Plan make_plan(const sdtw_problem &problem, const sdtw_exec &exec) { return {problem, exec, get_sizes(problem, exec)}; }

// Names of methods as Python objects, which live as long as the process.
struct Names {
  PyObject *data_ptr = PyUnicode_InternFromString("data_ptr");
  PyObject *stride = PyUnicode_InternFromString("stride");
  PyObject *numel = PyUnicode_InternFromString("numel");
  PyObject *nbytes = PyUnicode_InternFromString("nbytes");
};

const Names &names() {
  static const Names result;
  return result;
}

py::object ask(py::handle tensor, PyObject *name) {
  PyObject *result = PyObject_CallMethodNoArgs(tensor.ptr(), name);
  if (!result) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(result);
}

int64_t integer(PyObject *number) {
  const int64_t result = PyLong_AsLongLong(number);
  if (result == -1 && PyErr_Occurred()) throw py::error_already_set();
  return result;
}

// NULL for None.
void *address(py::handle tensor) {
  if (tensor.is_none()) return nullptr;
  const auto result = static_cast<uintptr_t>(PyLong_AsUnsignedLongLong(ask(tensor, names().data_ptr).ptr()));
  if (PyErr_Occurred()) throw py::error_already_set();
  return pointer(result);
}

size_t count(py::handle tensor) { return static_cast<size_t>(integer(ask(tensor, names().numel).ptr())); }

template <class View>  // sdtw_in or sdtw_out
View view(py::handle tensor) {
  View result{};
  if (tensor.is_none()) return result;
  result.data = address(tensor);
  const py::object strides = ask(tensor, names().stride);
  if (!PyTuple_Check(strides.ptr()) || PyTuple_GET_SIZE(strides.ptr()) != 3)
    throw py::value_error("an array of a call does not have three dimensions");
  for (int i = 0; i < 3; ++i) result.stride[i] = integer(PyTuple_GET_ITEM(strides.ptr(), i));
  return result;
}

// Index of the first length outside of [0, longest], -1 if there is none: of memory of the host alone.
template <class Integer>
int64_t first_outside(const Integer *lengths, int64_t count, int64_t longest) {
  for (int64_t i = 0; i < count; ++i)
    if (lengths[i] < 0 || lengths[i] > longest) return i;
  return -1;
}

// Address of the lengths, one for each of the batch. Those that the host can read must be in [0, longest].
const void *lengths(const Plan &plan, const char *name, py::handle tensor, int64_t batch, int64_t longest) {
  if (tensor.is_none()) return nullptr;
  const void *const data = address(tensor);
  if (count(tensor) != static_cast<size_t>(batch))
    raise_invalid(std::string(name) + " holds " + std::to_string(count(tensor)) + " lengths: expected " +
                  std::to_string(batch) + ", one for each pair");
  if (plan.exec.device != SDTW_CPU) return data;
  const auto check_all = [&](auto *all) {
    const int64_t at = first_outside(all, batch, longest);
    if (at >= 0)
      raise_invalid(std::string(name) + "[" + std::to_string(at) + "] is " + std::to_string(all[at]) +
                    ": expected lengths in [0, " + std::to_string(longest) + "]");
  };
  if (plan.problem.length_bits == 32)
    check_all(static_cast<const int32_t *>(data));
  else
    check_all(static_cast<const int64_t *>(data));
  return data;
}

sdtw_buffers make_buffers(const Plan &plan, py::handle x, py::handle y, py::handle x_len, py::handle y_len,
                          py::handle state, py::handle workspace, size_t workspace_bytes) {
  sdtw_buffers buffers;
  check(sdtw_buffers_init(&buffers, sizeof buffers));
  buffers.x = view<sdtw_in>(x);
  buffers.y = view<sdtw_in>(y);
  buffers.x_len = lengths(plan, "x_lengths", x_len, plan.problem.batch_x, plan.problem.n);
  buffers.y_len = lengths(plan, "y_lengths", y_len, plan.problem.batch_y, plan.problem.m);
  if (!state.is_none()) {
    buffers.state = address(state);
    buffers.state_bytes = count(state);
  }
  buffers.workspace = address(workspace);
  buffers.workspace_bytes = workspace.is_none() ? workspace_bytes : count(workspace);
  return buffers;
}

// Of a tensor that may not be None. A tensor that says where it is not, as one of symbolic zeros does, must not pass
// for an absent array, which means ones. Of another size it may be where a node of autograd is called by itself.
void *upstream(const Plan &plan, py::handle grad_value) {
  void *const result = address(grad_value);
  if (!result && plan.problem.batch_x > 0) throw py::value_error("grad_value has no memory: expected a dense tensor");
  const sdtw_problem &problem = plan.problem;
  const int64_t pairs = problem.batch_x * (problem.flags & SDTW_ALL_PAIRS ? problem.batch_y : 1);
  const int64_t bytes = pairs * static_cast<int64_t>(problem.dtype == SDTW_F64 ? sizeof(double) : sizeof(float));
  const auto held = py::reinterpret_steal<py::object>(PyObject_GetAttr(grad_value.ptr(), names().nbytes));
  if (!held) throw py::error_already_set();
  if (integer(held.ptr()) != bytes)
    raise_invalid("grad_value has " + std::to_string(integer(held.ptr())) + " bytes: expected " +
                  std::to_string(bytes) + ", a number like the value for each of " + std::to_string(pairs) + " pairs");
  return result;
}

void forward(const Plan &plan, py::handle x, py::handle y, py::handle x_len, py::handle y_len, py::handle value,
             py::handle state, py::handle workspace) {
  sdtw_buffers buffers = make_buffers(plan, x, y, x_len, y_len, state, workspace, plan.sizes.forward);
  buffers.value = address(value);
  compute(sdtw_forward, plan.problem, buffers, plan.exec);
}

// The sum of the values of a call on the CPU, times a factor, in `sum`: what reductions of PyTorch take longer for than
// a small call.
void add_up(const Plan &plan, py::handle value, double factor, py::handle sum) {
  if (plan.exec.device != SDTW_CPU) throw py::value_error("values are not on the CPU");
  const auto store = [&](auto *values, auto *result) {
    double total = 0;
    for (int64_t i = 0; i < plan.problem.batch_x; ++i) total += static_cast<double>(values[i]);
    *result = static_cast<std::decay_t<decltype(*result)>>(total * factor);
  };
  void *const values = address(value), *const result = address(sum);
  if (plan.problem.dtype == SDTW_F64)
    store(static_cast<const double *>(values), static_cast<double *>(result));
  else
    store(static_cast<const float *>(values), static_cast<float *>(result));
}

void backward(const Plan &plan, py::handle x, py::handle y, py::handle x_len, py::handle y_len, py::handle grad_value,
              py::handle grad_x, py::handle grad_y, py::handle state, py::handle workspace) {
  sdtw_buffers buffers = make_buffers(plan, x, y, x_len, y_len, state, workspace, plan.sizes.backward);
  buffers.grad_value = upstream(plan, grad_value);
  buffers.grad_x = view<sdtw_out>(grad_x);
  buffers.grad_y = view<sdtw_out>(grad_y);
  compute(sdtw_backward, plan.problem, buffers, plan.exec);
}

void value_and_gradients(const Plan &plan, py::handle x, py::handle y, py::handle x_len, py::handle y_len,
                         py::handle value, py::handle grad_x, py::handle grad_y) {
  sdtw_buffers buffers = make_buffers(plan, x, y, x_len, y_len, py::none(), py::none(), plan.sizes.backward);
  buffers.value = address(value);
  buffers.grad_x = view<sdtw_out>(grad_x);
  buffers.grad_y = view<sdtw_out>(grad_y);
  compute(kept::value_and_gradients, plan.problem, buffers, plan.exec);
}

bool are_products(const Plan &plan, py::handle grad_value, py::handle grad_x, py::handle grad_y) {
  sdtw_buffers buffers{};
  buffers.grad_value = upstream(plan, grad_value);
  buffers.grad_x.data = address(grad_x);
  buffers.grad_y.data = address(grad_y);
  return kept::are_products(&plan.problem, &buffers);
}

void alignment(const Plan &plan, py::handle x, py::handle y, py::handle x_len, py::handle y_len, py::handle alignment,
               py::handle state, py::handle workspace) {
  sdtw_buffers buffers = make_buffers(plan, x, y, x_len, y_len, state, workspace, plan.sizes.alignment);
  buffers.alignment = view<sdtw_out>(alignment);
  compute(sdtw_alignment, plan.problem, buffers, plan.exec);
}

void jvp(const Plan &plan, py::handle x, py::handle y, py::handle x_len, py::handle y_len, py::handle tangent_x,
         py::handle tangent_y, py::handle grad_value, py::handle value_tangent, py::handle grad_x_tangent,
         py::handle grad_y_tangent, py::handle workspace) {
  sdtw_buffers buffers = make_buffers(plan, x, y, x_len, y_len, py::none(), workspace, plan.sizes.jvp);
  buffers.tangent_x = view<sdtw_in>(tangent_x);
  buffers.tangent_y = view<sdtw_in>(tangent_y);
  buffers.grad_value = upstream(plan, grad_value);
  buffers.value_tangent = address(value_tangent);
  buffers.grad_x_tangent = view<sdtw_out>(grad_x_tangent);
  buffers.grad_y_tangent = view<sdtw_out>(grad_y_tangent);
  compute(sdtw_jvp, plan.problem, buffers, plan.exec);
}

}  // namespace

void define_tensors(py::module_ &module) {
  py::class_<Plan>(
      module, "Plan",
      "A Problem, an Exec and the bytes that its calls need. Its methods are those of sdtw.h on tensors:\n"
      "objects with data_ptr(), stride(), numel() and nbytes. None is an absent array, or on the CPU workspace\n"
      "that is allocated for the call.")
      .def(py::init(&make_plan), py::arg("problem"), py::arg("exec"))
      .def_property_readonly(
          "structs",
          [](const Plan &plan) {
            return py::make_tuple(reinterpret_cast<uintptr_t>(&plan.problem), reinterpret_cast<uintptr_t>(&plan.exec),
                                  reinterpret_cast<uintptr_t>(&plan.sizes));
          },
          "Addresses of its sdtw_problem, sdtw_exec and sdtw_sizes, while it lives: for libraries in C beside this\n"
          "module.")
      // Numbers rather than a Sizes, which would take longer to make than a call takes otherwise.
      .def_property_readonly("state_bytes", [](const Plan &plan) { return plan.sizes.state; })
      .def_property_readonly("forward_bytes", [](const Plan &plan) { return plan.sizes.forward; })
      .def_property_readonly("backward_bytes", [](const Plan &plan) { return plan.sizes.backward; })
      .def_property_readonly("jvp_bytes", [](const Plan &plan) { return plan.sizes.jvp; })
      .def_property_readonly("alignment_bytes", [](const Plan &plan) { return plan.sizes.alignment; })
      .def("forward", &forward, py::arg("x"), py::arg("y"), py::arg("x_len"), py::arg("y_len"), py::arg("value"),
           py::arg("state"), py::arg("workspace"), "sdtw_forward.")
      .def("add_up", &add_up, py::arg("value"), py::arg("factor"), py::arg("sum"),
           "The sum of values in host memory, times the factor, in an array of one.")
      .def("backward", &backward, py::arg("x"), py::arg("y"), py::arg("x_len"), py::arg("y_len"), py::arg("grad_value"),
           py::arg("grad_x"), py::arg("grad_y"), py::arg("state"), py::arg("workspace"), "sdtw_backward.")
      .def("value_and_gradients", &value_and_gradients, py::arg("x"), py::arg("y"), py::arg("x_len"), py::arg("y_len"),
           py::arg("value"), py::arg("grad_x"), py::arg("grad_y"),
           "Both from one call on the CPU, of a Plan with values and without state, for a grad_value of 1: see kept.h.")
      .def("are_products", &are_products, py::arg("grad_value"), py::arg("grad_x"), py::arg("grad_y"),
           "Whether gradients are products of grad_value with these, which value_and_gradients has made.")
      .def("alignment", &alignment, py::arg("x"), py::arg("y"), py::arg("x_len"), py::arg("y_len"),
           py::arg("alignment"), py::arg("state"), py::arg("workspace"), "sdtw_alignment.")
      .def("jvp", &jvp, py::arg("x"), py::arg("y"), py::arg("x_len"), py::arg("y_len"), py::arg("tangent_x"),
           py::arg("tangent_y"), py::arg("grad_value"), py::arg("value_tangent"), py::arg("grad_x_tangent"),
           py::arg("grad_y_tangent"), py::arg("workspace"), "sdtw_jvp.");
}

}  // namespace sdtw_python
