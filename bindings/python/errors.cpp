// The exception classes: SdtwError and one subclass for each status.
#include "errors.h"

#include <array>
#include <string>

namespace py = pybind11;

namespace sdtw_python {
namespace {

struct ErrorClass {
  sdtw_status status;
  const char *name;
  PyObject *&base;  // the built-in exception that the class is besides SdtwError
  const char *doc;
};

const std::array<ErrorClass, 8> error_classes{{
    {SDTW_STATUS_INVALID_ARGUMENT, "InvalidArgumentError", PyExc_ValueError,
     "An argument has a value, shape or type that it may not have; the message says which and what it may be."},
    {SDTW_STATUS_INVALID_STRUCT, "InvalidStructError", PyExc_ValueError,
     "A struct of another version of the library than the one that is loaded."},
    {SDTW_STATUS_UNSUPPORTED, "UnsupportedError", PyExc_NotImplementedError,
     "A valid request that this version does not implement."},
    {SDTW_STATUS_BUFFER_TOO_SMALL, "BufferTooSmallError", PyExc_ValueError,
     "State or workspace holds fewer bytes than get_sizes asks for."},
    {SDTW_STATUS_NOT_BUILT, "NotBuiltError", PyExc_RuntimeError, "The library was built without this backend."},
    {SDTW_STATUS_NO_DEVICE, "NoDeviceError", PyExc_RuntimeError, "No driver, no GPU, or no code for this GPU."},
    {SDTW_STATUS_CUDA_ERROR, "CudaError", PyExc_RuntimeError, "The CUDA runtime refused."},
    {SDTW_STATUS_INTERNAL, "InternalError", PyExc_RuntimeError, "A fault of the library's own: please report it."},
}};

// By status; SdtwError itself at 0. They live as long as the process.
std::array<PyObject *, error_classes.size() + 1> classes{};

PyObject *define(py::module_ &module, const char *name, const py::object &bases, sdtw_status status, const char *doc) {
  py::dict members;
  members["status"] = status;
  PyObject *type = PyErr_NewExceptionWithDoc((std::string("libsdtw.") + name).c_str(), doc, bases.ptr(), members.ptr());
  if (!type) throw py::error_already_set();
  module.attr(name) = py::handle(type);
  return type;
}

}  // namespace

void define_errors(py::module_ &module) {
  classes[0] = define(module, "SdtwError", py::reinterpret_borrow<py::object>(PyExc_RuntimeError), SDTW_STATUS_INTERNAL,
                      "Base of every exception of libsdtw; `status` is the sdtw_status of sdtw.h.");
  for (const ErrorClass &error : error_classes) {
    const py::handle root(classes[0]);
    py::tuple bases = py::make_tuple(root);
    if (error.base != PyExc_RuntimeError) bases = py::make_tuple(root, py::handle(error.base));
    classes.at(error.status) = define(module, error.name, bases, error.status, error.doc);
  }
}

void check(sdtw_status status) {
  if (status == SDTW_STATUS_OK) return;
  const bool known = status > 0 && status < static_cast<sdtw_status>(classes.size());
  PyErr_SetString(classes[known ? status : 0], sdtw_last_error());
  throw py::error_already_set();
}

void raise_invalid(const std::string &message) {
  PyErr_SetString(classes[SDTW_STATUS_INVALID_ARGUMENT], message.c_str());
  throw py::error_already_set();
}

}  // namespace sdtw_python
