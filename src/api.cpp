// The entry points of sdtw.h, and the one place where exceptions become a status and a message.
#include <algorithm>
#include <cstring>
#include <exception>
#include <new>

#include "backend.h"
#include "plan.h"
#include "problem.h"

namespace sdtw {
namespace {

thread_local char last_error[512] = "";

sdtw_status remember(sdtw_status status, const char *message) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", message);
  return status;
}

// Runs body; nothing that it throws gets past here.
template <class Body>
sdtw_status guarded(Body &&body) noexcept {
  try {
    body();
    return SDTW_STATUS_OK;
  } catch (const Error &error) {
    return remember(error.status, error.message.c_str());
  } catch (const std::bad_alloc &) {
    return remember(SDTW_STATUS_INTERNAL, "out of host memory");
  } catch (const std::exception &error) {
    return remember(SDTW_STATUS_INTERNAL, error.what());
  } catch (...) {
    return remember(SDTW_STATUS_INTERNAL, "unknown exception");
  }
}

// Fills *object with defaults once the pointer and the size are known to be good.
template <class Struct>
sdtw_status initialise(Struct *object, const char *name, size_t struct_size, const Struct &defaults) noexcept {
  return guarded([&] {
    require_pointer(object, name);
    require_struct_size<Struct>(struct_size, name);
    std::memcpy(object, &defaults, struct_size);
    object->struct_size = struct_size;
  });
}

// why: behind the number of bytes that are needed.
void require_room(const char *name, const void *data, size_t bytes, size_t needed, const char *why) {
  if (bytes < needed)
    fail(SDTW_STATUS_BUFFER_TOO_SMALL, "buffers.%s_bytes is %zu: this problem needs %zu%s", name, bytes, needed, why);
  if (!data && needed) invalid("buffers.%s is NULL: it must point to %zu bytes", name, needed);
}

void require_room(const Plan &plan, const Buffers &buffers, size_t workspace) {
  if (buffers.state) require_room("state", buffers.state, buffers.state_bytes, plan.sizes().state, "");
  require_room("workspace", buffers.workspace, buffers.workspace_bytes, workspace,
               plan.exec.no_state ? " without state" : "");
}

Plan plan_for(const Problem &problem, const Exec &exec) {
  if (exec.device == SDTW_CPU && !cpu::has_isa(exec.cpu_isa))
    fail(SDTW_STATUS_UNSUPPORTED, "exec.cpu_isa is %s: this processor or this build does not have it",
         isa_name(exec.cpu_isa));
  return make_plan(problem, exec);
}

// One computing call: validate, plan, check the room, run.
struct Operation {
  Call call;
  size_t sdtw_sizes::*workspace;
  void (*on_cpu)(const Plan &, const Buffers &);
  void (*on_cuda)(const Plan &, const Buffers &);
};

constexpr Operation forward_operation{Call::forward, &sdtw_sizes::forward, cpu::forward, cuda::forward};
constexpr Operation backward_operation{Call::backward, &sdtw_sizes::backward, cpu::backward, cuda::backward};
constexpr Operation alignment_operation{Call::alignment, &sdtw_sizes::alignment, cpu::alignment, cuda::alignment};
constexpr Operation jvp_operation{Call::jvp, &sdtw_sizes::jvp, cpu::jvp, cuda::jvp};

sdtw_status run(const Operation &operation, const sdtw_problem *caller_problem, const sdtw_buffers *caller_buffers,
                const sdtw_exec *caller_exec) noexcept {
  return guarded([&] {
    const Problem problem = validate(caller_problem);
    Exec exec = validate(caller_exec);
    const Buffers buffers = validate(problem, exec, caller_buffers, operation.call);
    if (problem.batch == 0) return;
    if (!buffers.state) exec.no_state = true;  // a null pointer says the same as the flag
    Plan plan = plan_for(problem, exec);
    require_room(plan, buffers, plan.sizes().*operation.workspace);
    if (exec.device == SDTW_CUDA) {
      cuda::require_device();
      cuda::choose_kernels(plan, operation.call);
      operation.on_cuda(plan, buffers);
    } else {
      operation.on_cpu(plan, buffers);
    }
  });
}

constexpr const char *status_names[] = {
    "SDTW_STATUS_OK",          "SDTW_STATUS_INVALID_ARGUMENT", "SDTW_STATUS_INVALID_STRUCT",
    "SDTW_STATUS_UNSUPPORTED", "SDTW_STATUS_BUFFER_TOO_SMALL", "SDTW_STATUS_NOT_BUILT",
    "SDTW_STATUS_NO_DEVICE",   "SDTW_STATUS_CUDA_ERROR",       "SDTW_STATUS_INTERNAL",
};

#if defined(__clang__)
#define SDTW_COMPILER "clang " __clang_version__
#else
#define SDTW_COMPILER "gcc " __VERSION__
#endif

std::string describe_build() {
  std::string text = "libsdtw " + std::to_string(SDTW_VERSION / 10000) + "." +
                     std::to_string(SDTW_VERSION / 100 % 100) + "." + std::to_string(SDTW_VERSION % 100) +
                     ", " SDTW_COMPILER ", cpu (baseline";
#if defined(SDTW_HAVE_AVX2)
  text += ", avx2";
#endif
#if defined(SDTW_HAVE_AVX512)
  text += ", avx512";
#endif
#if defined(SDTW_HAVE_NEON)
  text += ", neon";
#endif
  return text + "), " + cuda::build_info();
}

}  // namespace
}  // namespace sdtw

using namespace sdtw;

extern "C" {

int32_t sdtw_version(void) { return SDTW_VERSION; }

const char *sdtw_build_info(void) {
  try {
    static const std::string text = describe_build();
    return text.c_str();
  } catch (...) {
    return "libsdtw";
  }
}

const char *sdtw_status_string(sdtw_status status) {
  const bool known = status >= 0 && static_cast<size_t>(status) < std::size(status_names);
  return known ? status_names[status] : "unknown status";
}

const char *sdtw_last_error(void) { return last_error; }

sdtw_status sdtw_device_available(sdtw_device device) {
  return guarded([&] {
    require_device_name(device, "device");
    if (device == SDTW_CUDA) cuda::require_device();
  });
}

sdtw_status sdtw_problem_init(sdtw_problem *problem, size_t struct_size) {
  sdtw_problem defaults{};
  defaults.metric = SDTW_SQEUCLIDEAN;
  defaults.dtype = SDTW_F32;
  defaults.gamma = 1;
  std::fill(std::begin(defaults.step_weight), std::end(defaults.step_weight), 1.0);
  defaults.length_bits = 64;
  return initialise(problem, "problem", struct_size, defaults);
}

sdtw_status sdtw_exec_init(sdtw_exec *exec, size_t struct_size) {
  return initialise(exec, "exec", struct_size, sdtw_exec{});
}

sdtw_status sdtw_buffers_init(sdtw_buffers *buffers, size_t struct_size) {
  return initialise(buffers, "buffers", struct_size, sdtw_buffers{});
}

sdtw_status sdtw_sizes_init(sdtw_sizes *sizes, size_t struct_size) {
  return initialise(sizes, "sizes", struct_size, sdtw_sizes{});
}

sdtw_status sdtw_get_sizes(const sdtw_problem *problem, const sdtw_exec *exec, sdtw_sizes *sizes) {
  return guarded([&] {
    const Problem p = validate(problem);
    const Exec e = validate(exec);
    require_struct(sizes, "sizes");
    sdtw_sizes result{};
    if (p.batch > 0) result = plan_for(p, e).sizes();
    result.struct_size = sizes->struct_size;
    std::memcpy(sizes, &result, sizes->struct_size);
  });
}

sdtw_status sdtw_describe(const sdtw_problem *problem, const sdtw_exec *exec, char *text, size_t capacity) {
  return guarded([&] {
    const Problem p = validate(problem);
    const Exec e = validate(exec);
    require_pointer(text, "text");
    if (capacity == 0) invalid("capacity is 0: it must be at least 1");
    std::string description = "nothing to do: the batch is empty";
    if (p.batch > 0) description = plan_for(p, e).describe();
    std::snprintf(text, capacity, "%s", description.c_str());
  });
}

sdtw_status sdtw_forward(const sdtw_problem *problem, const sdtw_buffers *buffers, const sdtw_exec *exec) {
  return run(forward_operation, problem, buffers, exec);
}

sdtw_status sdtw_backward(const sdtw_problem *problem, const sdtw_buffers *buffers, const sdtw_exec *exec) {
  return run(backward_operation, problem, buffers, exec);
}

sdtw_status sdtw_alignment(const sdtw_problem *problem, const sdtw_buffers *buffers, const sdtw_exec *exec) {
  return run(alignment_operation, problem, buffers, exec);
}

sdtw_status sdtw_jvp(const sdtw_problem *problem, const sdtw_buffers *buffers, const sdtw_exec *exec) {
  return run(jvp_operation, problem, buffers, exec);
}

}  // extern "C"
