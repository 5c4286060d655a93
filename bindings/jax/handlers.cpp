#include "handlers.h"

#include <algorithm>
#include <exception>
#include <new>

namespace sdtw_jax {
namespace {

constexpr size_t line = 64;  // state and workspace begin at lines of the cache

size_t whole_lines(size_t bytes) { return (bytes + line - 1) / line * line; }

bool differentiates(const Results &results) { return results.tangent_x || results.tangent_y; }

// Whether a forward leaves state for what comes behind it.
bool keeps_state(const Results &results) {
  return (results.grad_x || results.grad_y || results.alignment) && !differentiates(results);
}

sdtw_exec exec_for(sdtw_exec exec, const Results &results) {
  if (!keeps_state(results)) exec.flags |= SDTW_NO_STATE;
  return exec;
}

}  // namespace

size_t Memory::bytes() const { return whole_lines(state) + whole_lines(workspace); }

Memory memory_for(const sdtw_problem &problem, const sdtw_exec &exec, const Results &results) {
  const sdtw_exec used = exec_for(exec, results);
  sdtw_sizes sizes;
  check(core.sizes_init(&sizes, sizeof sizes));
  check(core.get_sizes(&problem, &used, &sizes));
  if (differentiates(results)) return {0, sizes.jvp};
  size_t workspace = sizes.forward;
  if (results.grad_x || results.grad_y) workspace = std::max(workspace, sizes.backward);
  if (results.alignment) workspace = std::max(workspace, sizes.alignment);
  return {sizes.state, workspace};
}

void compute(const Operands &operands, const Results &results, const sdtw_problem &problem, const sdtw_exec &exec,
             int64_t first, void *memory) {
  const sdtw_exec used = exec_for(exec, results);
  const Memory needs = memory_for(problem, exec, results);
  const Arrays arrays(operands, problem, first);
  sdtw_buffers buffers = arrays.inputs();
  buffers.state = needs.state ? memory : nullptr;
  buffers.state_bytes = needs.state;
  buffers.workspace = static_cast<char *>(memory) + whole_lines(needs.state);
  buffers.workspace_bytes = needs.workspace;
  if (differentiates(results)) {
    if (results.tangent_x) buffers.tangent_x = arrays.in(*results.tangent_x);
    if (results.tangent_y) buffers.tangent_y = arrays.in(*results.tangent_y);
    if (results.grad_x) buffers.grad_x_tangent = arrays.out(*results.grad_x);
    if (results.grad_y) buffers.grad_y_tangent = arrays.out(*results.grad_y);
    check(core.jvp(&problem, &buffers, &used));
    return;
  }
  buffers.value = arrays.values(*results.value);
  if (results.upstream) buffers.grad_value = arrays.values(*results.upstream);
  check(core.forward(&problem, &buffers, &used));
  if (results.grad_x) buffers.grad_x = arrays.out(*results.grad_x);
  if (results.grad_y) buffers.grad_y = arrays.out(*results.grad_y);
  if (results.grad_x || results.grad_y) check(core.backward(&problem, &buffers, &used));
  if (results.alignment) {
    buffers.alignment = arrays.out(*results.alignment);
    check(core.alignment(&problem, &buffers, &used));
  }
}

ffi::Error guarded(const std::function<void()> &run) {
  try {
    run();
    return ffi::Error::Success();
  } catch (const Failure &failure) {
    return failure.error();
  } catch (const std::bad_alloc &) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted, "libsdtw: no memory for state and workspace");
  } catch (const std::exception &error) {
    return ffi::Error(ffi::ErrorCode::kInternal, std::string("libsdtw: ") + error.what());
  }
}

}  // namespace sdtw_jax
