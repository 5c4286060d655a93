// The extension module libsdtw._core: sdtw.h with addresses as integers, strides as tuples and statuses as exceptions.
// It knows no framework; libsdtw.numpy, libsdtw.torch and their siblings are written on it.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "arrays.h"
#include "errors.h"
#include "kept.h"
#include "names.h"
#include "sdtw.h"

namespace py = pybind11;
using sdtw_python::check;
using sdtw_python::compute;
using sdtw_python::get_sizes;
using sdtw_python::pointer;

namespace sdtw_python {
namespace {

// Workspace that the caller left to the binding: memory of the host for this call, given as address 0.
class Workspace {
 public:
  Workspace(sdtw_buffers &buffers, bool on_host) {
    if (!on_host || buffers.workspace || buffers.workspace_bytes == 0) return;
    constexpr size_t line = 64;
    memory_.reset(new (std::nothrow) unsigned char[buffers.workspace_bytes + line]);
    if (!memory_) throw std::bad_alloc();
    const auto address = reinterpret_cast<uintptr_t>(memory_.get());
    buffers.workspace = memory_.get() + (line - address % line) % line;
  }

 private:
  std::unique_ptr<unsigned char[]> memory_;
};

}  // namespace

void compute(Compute function, const sdtw_problem &problem, sdtw_buffers &buffers, const sdtw_exec &exec) {
  const Workspace workspace(buffers, exec.device == SDTW_CPU);
  sdtw_status status;
  {
    const py::gil_scoped_release unlocked;
    status = function(&problem, &buffers, &exec);
  }
  check(status);
}

sdtw_sizes get_sizes(const sdtw_problem &problem, const sdtw_exec &exec) {
  sdtw_sizes sizes;
  check(sdtw_sizes_init(&sizes, sizeof sizes));
  check(sdtw_get_sizes(&problem, &exec, &sizes));
  return sizes;
}

}  // namespace sdtw_python

namespace {

using Array = std::pair<uintptr_t, std::array<int64_t, 3>>;  // address, strides in elements
using Memory = std::pair<uintptr_t, size_t>;                 // address, bytes

template <class View>  // sdtw_in or sdtw_out
View view(const std::optional<Array> &array) {
  View result{};
  if (!array) return result;
  result.data = pointer(array->first);
  for (int i = 0; i < 3; ++i) result.stride[i] = array->second[i];
  return result;
}

using Steps = std::array<double, 3>;  // of a diagonal, a vertical and a horizontal step

// batch_y: with flags of all pairs.
sdtw_problem make_problem(int32_t metric, int32_t dtype, int64_t batch, int64_t n, int64_t m, int64_t features,
                          double gamma, int32_t length_bits, uint32_t flags, std::optional<int64_t> batch_y,
                          int32_t band, double band_radius, const Steps &step_weight, const Steps &step_penalty) {
  sdtw_problem problem;
  check(sdtw_problem_init(&problem, sizeof problem));
  problem.metric = metric;
  problem.dtype = dtype;
  problem.flags = flags;
  problem.batch_x = batch;
  problem.batch_y = batch_y.value_or(batch);
  problem.band = band;
  problem.band_radius = band_radius;
  std::copy(step_weight.begin(), step_weight.end(), problem.step_weight);
  std::copy(step_penalty.begin(), step_penalty.end(), problem.step_penalty);
  problem.n = n;
  problem.m = m;
  problem.features = features;
  problem.gamma = gamma;
  problem.length_bits = length_bits;
  return problem;
}

sdtw_exec make_exec(int32_t device, int32_t num_threads, uintptr_t stream, bool no_state, bool deterministic,
                    bool with_value) {
  sdtw_exec exec;
  check(sdtw_exec_init(&exec, sizeof exec));
  exec.device = device;
  exec.num_threads = num_threads;
  exec.stream = static_cast<CUstream_st *>(pointer(stream));
  if (no_state) exec.flags |= SDTW_NO_STATE;
  if (deterministic) exec.flags |= SDTW_DETERMINISTIC;
  if (with_value) exec.flags |= SDTW_WITH_VALUE;
  return exec;
}

// What all computations read and need.
sdtw_buffers make_buffers(const Array &x, const std::optional<Array> &y, uintptr_t x_len, uintptr_t y_len,
                          const std::optional<Memory> &state, const Memory &workspace) {
  sdtw_buffers buffers;
  check(sdtw_buffers_init(&buffers, sizeof buffers));
  buffers.x = view<sdtw_in>(x);
  buffers.y = view<sdtw_in>(y);
  buffers.x_len = pointer(x_len);
  buffers.y_len = pointer(y_len);
  if (state) {
    buffers.state = pointer(state->first);
    buffers.state_bytes = state->second;
  }
  buffers.workspace = pointer(workspace.first);
  buffers.workspace_bytes = workspace.second;
  return buffers;
}

void forward(const sdtw_problem &problem, const sdtw_exec &exec, const Array &x, const std::optional<Array> &y,
             uintptr_t x_len, uintptr_t y_len, uintptr_t value, const std::optional<Memory> &state,
             const Memory &workspace) {
  sdtw_buffers buffers = make_buffers(x, y, x_len, y_len, state, workspace);
  buffers.value = pointer(value);
  compute(sdtw_forward, problem, buffers, exec);
}

void backward(const sdtw_problem &problem, const sdtw_exec &exec, const Array &x, const std::optional<Array> &y,
              uintptr_t x_len, uintptr_t y_len, uintptr_t grad_value, const std::optional<Array> &grad_x,
              const std::optional<Array> &grad_y, const std::optional<Memory> &state, const Memory &workspace,
              uintptr_t value) {
  sdtw_buffers buffers = make_buffers(x, y, x_len, y_len, state, workspace);
  buffers.value = pointer(value);
  buffers.grad_value = pointer(grad_value);
  buffers.grad_x = view<sdtw_out>(grad_x);
  buffers.grad_y = view<sdtw_out>(grad_y);
  compute(sdtw_backward, problem, buffers, exec);
}

void alignment(const sdtw_problem &problem, const sdtw_exec &exec, const Array &x, const std::optional<Array> &y,
               uintptr_t x_len, uintptr_t y_len, const Array &alignment, const std::optional<Memory> &state,
               const Memory &workspace, uintptr_t value) {
  sdtw_buffers buffers = make_buffers(x, y, x_len, y_len, state, workspace);
  buffers.value = pointer(value);
  buffers.alignment = view<sdtw_out>(alignment);
  compute(sdtw_alignment, problem, buffers, exec);
}

void jvp(const sdtw_problem &problem, const sdtw_exec &exec, const Array &x, const std::optional<Array> &y,
         uintptr_t x_len, uintptr_t y_len, const std::optional<Array> &tangent_x, const std::optional<Array> &tangent_y,
         uintptr_t grad_value, uintptr_t value_tangent, const std::optional<Array> &grad_x_tangent,
         const std::optional<Array> &grad_y_tangent, const Memory &workspace, uintptr_t value) {
  sdtw_buffers buffers = make_buffers(x, y, x_len, y_len, {}, workspace);
  buffers.value = pointer(value);
  buffers.tangent_x = view<sdtw_in>(tangent_x);
  buffers.tangent_y = view<sdtw_in>(tangent_y);
  buffers.grad_value = pointer(grad_value);
  buffers.value_tangent = pointer(value_tangent);
  buffers.grad_x_tangent = view<sdtw_out>(grad_x_tangent);
  buffers.grad_y_tangent = view<sdtw_out>(grad_y_tangent);
  compute(sdtw_jvp, problem, buffers, exec);
}

std::string describe(const sdtw_problem &problem, const sdtw_exec &exec) {
  std::array<char, 4096> text;
  check(sdtw_describe(&problem, &exec, text.data(), text.size()));
  return text.data();
}

// A list of names.h as a dictionary.
template <size_t count>
py::dict values(const sdtw::names::Name (&rows)[count]) {
  py::dict result;
  for (const sdtw::names::Name &row : rows) result[row.word] = row.value;
  return result;
}

template <class Function>
uintptr_t address(Function *function) {
  return reinterpret_cast<uintptr_t>(function);
}

py::dict functions() {
  py::dict result;
  result["problem_init"] = address(&sdtw_problem_init);
  result["exec_init"] = address(&sdtw_exec_init);
  result["buffers_init"] = address(&sdtw_buffers_init);
  result["sizes_init"] = address(&sdtw_sizes_init);
  result["get_sizes"] = address(&sdtw_get_sizes);
  result["forward"] = address(&sdtw_forward);
  result["backward"] = address(&sdtw_backward);
  result["alignment"] = address(&sdtw_alignment);
  result["jvp"] = address(&sdtw_jvp);
  result["status_string"] = address(&sdtw_status_string);
  result["last_error"] = address(&sdtw_last_error);
  return result;
}

py::dict kept_functions() {
  py::dict result;
  result["value_and_gradients"] = address(&sdtw_python::kept::value_and_gradients);
  result["are_products"] = address(&sdtw_python::kept::are_products);
  return result;
}

void define_constants(py::module_ &module) {
  module.attr("METRICS") = values(sdtw::names::metrics);
  py::dict dtypes;
  for (const sdtw::names::Name &row : sdtw::names::dtypes) {
    std::string name = row.word;
    dtypes[py::str(name.replace(name.find('f'), 1, "float"))] = row.value;  // as NumPy has it: bfloat16 for bf16
  }
  module.attr("DTYPES") = dtypes;
  module.attr("BANDS") = values(sdtw::names::bands);
  module.attr("ALL_PAIRS") = uint32_t{SDTW_ALL_PAIRS};
  module.attr("SYMMETRIC") = uint32_t{SDTW_SYMMETRIC};
  module.attr("DEVICES") = values(sdtw::names::devices);
}

void define_structs(py::module_ &module) {
  py::class_<sdtw_problem>(module, "Problem", "What to compute: sdtw_problem.")
      .def(py::init(&make_problem), py::arg("metric"), py::arg("dtype"), py::arg("batch"), py::arg("n"), py::arg("m"),
           py::arg("features"), py::arg("gamma"), py::arg("length_bits") = 64, py::arg("flags") = 0,
           py::arg("batch_y") = py::none(), py::arg("band") = int32_t{SDTW_BAND_NONE}, py::arg("band_radius") = 0.0,
           py::arg("step_weight") = Steps{1, 1, 1}, py::arg("step_penalty") = Steps{0, 0, 0});
  py::class_<sdtw_exec>(module, "Exec", "Where and how to compute it: sdtw_exec.")
      .def(py::init(&make_exec), py::arg("device") = int32_t{SDTW_CPU}, py::arg("num_threads") = 0,
           py::arg("stream") = 0, py::arg("no_state") = false, py::arg("deterministic") = false,
           py::arg("with_value") = false);
  py::class_<sdtw_sizes>(module, "Sizes", "Bytes of state and of each call's workspace: sdtw_sizes.")
      .def_readonly("state", &sdtw_sizes::state)
      .def_readonly("forward", &sdtw_sizes::forward)
      .def_readonly("backward", &sdtw_sizes::backward)
      .def_readonly("jvp", &sdtw_sizes::jvp)
      .def_readonly("alignment", &sdtw_sizes::alignment);
}

}  // namespace

PYBIND11_MODULE(_core, module, py::mod_gil_not_used()) {
  module.doc() =
      "sdtw.h for Python. Arrays are (address, (stride, stride, stride)) with strides in elements, memory is\n"
      "(address, bytes), an absent array is None or address 0; workspace at\n"
      "address 0 is allocated for the call, on the CPU. What they point to must outlive the call.";
  sdtw_python::define_errors(module);
  define_constants(module);
  define_structs(module);
  sdtw_python::define_tensors(module);

  module.def("functions", &functions,
             "Addresses of functions of sdtw.h by their names without sdtw_: for libraries in C beside this module.");
  module.def("kept_functions", &kept_functions, "Addresses of the functions of kept.h, likewise.");
  module.def("version", &sdtw_version, "SDTW_VERSION of the library: major * 10000 + minor * 100 + patch.");
  module.def("build_info", &sdtw_build_info, "Version, compiler, backends and instruction sets, in one line.");
  module.def(
      "device_available", [](int32_t device) { check(sdtw_device_available(device)); }, py::arg("device"),
      "Returns if the device can be used now, and otherwise raises what sdtw_device_available says.");
  module.def("get_sizes", &get_sizes, py::arg("problem"), py::arg("exec"), "Bytes that the calls need.");
  module.def("describe", &describe, py::arg("problem"), py::arg("exec"), "The plan that a call would use, as text.");
  module.def("forward", &forward, py::arg("problem"), py::arg("exec"), py::arg("x"), py::arg("y"), py::arg("x_len"),
             py::arg("y_len"), py::arg("value"), py::arg("state"), py::arg("workspace"), "sdtw_forward.");
  module.def("backward", &backward, py::arg("problem"), py::arg("exec"), py::arg("x"), py::arg("y"), py::arg("x_len"),
             py::arg("y_len"), py::arg("grad_value"), py::arg("grad_x"), py::arg("grad_y"), py::arg("state"),
             py::arg("workspace"), py::arg("value") = 0, "sdtw_backward.");
  module.def("alignment", &alignment, py::arg("problem"), py::arg("exec"), py::arg("x"), py::arg("y"), py::arg("x_len"),
             py::arg("y_len"), py::arg("alignment"), py::arg("state"), py::arg("workspace"), py::arg("value") = 0,
             "sdtw_alignment.");
  module.def("jvp", &jvp, py::arg("problem"), py::arg("exec"), py::arg("x"), py::arg("y"), py::arg("x_len"),
             py::arg("y_len"), py::arg("tangent_x"), py::arg("tangent_y"), py::arg("grad_value"),
             py::arg("value_tangent"), py::arg("grad_x_tangent"), py::arg("grad_y_tangent"), py::arg("workspace"),
             py::arg("value") = 0, "sdtw_jvp.");
}
