// The extension module libsdtw.torch._native: the short way of soft_dtw for tensors that only autograd looks at, where
// a call of Python's autograd.Function takes longer than small batches do. It is compiled for one version of PyTorch,
// and nothing depends on its being there: what it does not take, or what fails, goes the way through Python.
#include <torch/csrc/python_headers.h>
// Python's macros first.
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <string>

#include "call.h"
#include "node.h"
#include "plain.h"
#include "table.h"

namespace sdtw_torch {
namespace {

Table table;
PyObject *known_options = nullptr;  // dict: (metric, rules) to a number, which stands for them in keys
PyObject *find_call = nullptr;      // checks all arguments and plans: libsdtw.torch._direct

constexpr Py_ssize_t option_limit = 1024;
std::atomic<int64_t> next_option{0};  // no number is used twice: what is forgotten cannot be taken for another

py::object owned(PyObject *object) {
  if (!object) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(object);
}

// Numbers are found again by their values; what can change behind its identity must not be kept.
bool is_constant(PyObject *object) {
  if (PyTuple_CheckExact(object)) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object); ++i)
      if (!is_constant(PyTuple_GET_ITEM(object, i))) return false;
    return true;
  }
  return object == Py_None || PyUnicode_CheckExact(object) || PyFloat_CheckExact(object) || PyLong_CheckExact(object);
}

// The value of a key as a reference of one's own, null where there is none: another thread may clear the dict
// meanwhile, if Python has no lock (3.13 and later).
py::object found_in(PyObject *dict, PyObject *key) {
#if PY_VERSION_HEX >= 0x030D0000
  PyObject *value = nullptr;
  PyDict_GetItemRef(dict, key, &value);
#else
  PyObject *const value = Py_XNewRef(PyDict_GetItemWithError(dict, key));
#endif
  return py::reinterpret_steal<py::object>(value);
}

// The number of these options, -1 for what takes the way through Python.
int64_t number_of(PyObject *metric, PyObject *rules) {
  if (!PyUnicode_CheckExact(metric)) return -1;
  const py::object key = owned(PyTuple_Pack(2, metric, rules));
  if (const py::object number = found_in(known_options, key.ptr())) return PyLong_AsLongLong(number.ptr());
  if (PyErr_Occurred()) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw py::error_already_set();
    PyErr_Clear();  // options that are lists
    return -1;
  }
  if (!is_constant(rules)) return -1;
  if (PyDict_Size(known_options) >= option_limit) PyDict_Clear(known_options);
  const int64_t next = next_option++;
  const py::object made = owned(PyLong_FromLongLong(next));
  if (PyDict_SetItem(known_options, key.ptr(), made.ptr()) != 0) throw py::error_already_set();
  return next;
}

bool read_tensor(PyObject *object, at::Tensor &tensor, bool optional) {
  if (optional && object == Py_None) return true;
  if (!THPVariable_CheckExact(object)) return false;
  tensor = THPVariable_Unpack(object);
  return true;
}

bool read_gamma(PyObject *object, double &gamma) {
  if (PyFloat_CheckExact(object)) {
    gamma = PyFloat_AS_DOUBLE(object);
    return true;
  }
  if (!PyLong_CheckExact(object)) return false;
  gamma = PyLong_AsDouble(object);
  if (gamma != -1 || !PyErr_Occurred()) return true;
  PyErr_Clear();
  return false;
}

bool read_reduction(PyObject *object, Reduction &reduction) {
  if (!PyUnicode_Check(object)) return false;
  for (const Reduction one : {Reduction::none, Reduction::mean, Reduction::sum}) {
    if (PyUnicode_CompareWithASCIIString(object, name_of(one)) != 0) continue;
    reduction = one;
    return true;
  }
  return false;
}

template <class Struct>
bool copy(PyObject *address, Struct &result) {
  const void *const data = PyLong_AsVoidPtr(address);
  if (!data) throw py::error_already_set();
  size_t size = 0;
  std::memcpy(&size, data, sizeof size);  // every struct begins with its own size
  if (size != sizeof result) return false;
  std::memcpy(&result, data, sizeof result);
  return true;
}

bool copy(PyObject *addresses, Plan &plan) {
  if (!PyTuple_Check(addresses) || PyTuple_GET_SIZE(addresses) != 3) return false;
  return copy(PyTuple_GET_ITEM(addresses, 0), plan.problem) && copy(PyTuple_GET_ITEM(addresses, 1), plan.exec) &&
         copy(PyTuple_GET_ITEM(addresses, 2), plan.sizes);
}

// A call of a new kind: Python checks the arguments, raises what is to be said of them, and makes the plans, with the
// GPU of x as the current one (_kernels.plan).
std::shared_ptr<const Call> new_call(PyObject *const *args, at::ScalarType type) {
  const py::object found = owned(PyObject_Vectorcall(find_call, args, 7, nullptr));
  if (found.is_none()) return nullptr;
  auto call = std::make_shared<Call>();
  const py::object training = found.attr("training").attr("structs"),
                   inference = found.attr("inference").attr("structs");
  if (!copy(training.ptr(), call->training) || !copy(inference.ptr(), call->inference)) return nullptr;
  call->value_type = type == at::kDouble ? at::kDouble : at::kFloat;
  call->gamma = found.attr("gamma").cast<double>();
  call->options = found.attr("options").cast<std::string>();
  return call;
}

// soft_dtw(x, y, x_lengths, y_lengths, gamma, metric, rules, reduction)
PyObject *soft_dtw(PyObject *, PyObject *const *args, Py_ssize_t count) {
  HANDLE_TH_ERRORS
  at::Tensor x, y, x_lengths, y_lengths;
  double gamma = 0;
  Reduction reduction = Reduction::none;
  if (count != 8 || !is_alone() || !read_tensor(args[0], x, false) || !read_tensor(args[1], y, false) ||
      !read_tensor(args[2], x_lengths, true) || !read_tensor(args[3], y_lengths, true) || !read_gamma(args[4], gamma) ||
      !read_reduction(args[7], reduction))
    Py_RETURN_NONE;
  const Inputs in{x, y, x_lengths, y_lengths};
  const int64_t options = number_of(args[5], args[6]);
  Key key;
  if (options < 0 || !make_key(in, gamma, options, key)) Py_RETURN_NONE;
  std::shared_ptr<const Call> call = table.find(key);
  if (!call) {
    call = new_call(args, x.scalar_type());
    if (!call) Py_RETURN_NONE;
    table.add(key, call);
  }
  at::Tensor result;
  {
    const py::gil_scoped_release unlocked;
    result = soft_dtw(call, in, reduction);
  }
  if (!result.defined()) Py_RETURN_NONE;
  return THPVariable_Wrap(std::move(result));
  END_HANDLE_TH_ERRORS
}

template <class Function>
void set(Function &function, PyObject *functions, const char *name) {
  PyObject *const address = PyDict_GetItemString(functions, name);
  void *const value = address ? PyLong_AsVoidPtr(address) : nullptr;
  if (!value) throw py::key_error(name);
  std::memcpy(&function, &value, sizeof value);  // of a function in a void *, as POSIX has it
}

// connect(functions, current_cuda_stream, find_call, gradients)
PyObject *connect(PyObject *, PyObject *args) {
  HANDLE_TH_ERRORS
  PyObject *functions = nullptr, *stream = nullptr, *calls = nullptr, *gradients = nullptr;
  if (!PyArg_ParseTuple(args, "O!OOO", &PyDict_Type, &functions, &stream, &calls, &gradients)) return nullptr;
  set(core.buffers_init, functions, "buffers_init");
  set(core.forward, functions, "forward");
  set(core.backward, functions, "backward");
  set(core.value_and_gradients, functions, "value_and_gradients");
  set(core.are_products, functions, "are_products");
  void *const address = PyLong_AsVoidPtr(stream);
  if (PyErr_Occurred()) return nullptr;
  std::memcpy(&current_cuda_stream, &address, sizeof address);
  known_options = owned(PyDict_New()).release().ptr();
  find_call = Py_NewRef(calls);
  python_gradients = Py_NewRef(gradients);
  Py_RETURN_NONE;
  END_HANDLE_TH_ERRORS
}

PyMethodDef methods[] = {
    {"soft_dtw", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&soft_dtw)), METH_FASTCALL,
     "The reduced values, or None where this is not the way: _direct.soft_dtw."},
    {"connect", &connect, METH_VARARGS,
     "Tells where the core's functions are, and PyTorch's that says which stream is current (0: none), and what in "
     "Python makes a call, and gradients."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "libsdtw.torch._native", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

}  // namespace
}  // namespace sdtw_torch

PyMODINIT_FUNC PyInit__native() {
  PyObject *const module = PyModule_Create(&sdtw_torch::definition);
#ifdef Py_GIL_DISABLED
  if (module) PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
#endif
  return module;
}
