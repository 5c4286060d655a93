// The handlers of CUDA. What a call does on the device follows from its shapes and attributes alone, and it reads
// nothing from the host's side, so that XLA may record it into a command buffer. Hence gamma is an attribute here (the
// front end scales the inputs where it is an operand), and state and workspace are a result of each call: XLA's own
// scratch memory is free again before the device is done with a recorded call.
#include "handlers.h"

namespace sdtw_jax {
namespace {

using Any = ffi::AnyBuffer;
using Result = ffi::Result<ffi::AnyBuffer>;
using Stream = CUstream_st *;

ffi::Error run(Stream stream, const Operands &operands, const Results &results, const Any &memory) {
  return guarded([&] {
    const sdtw_problem problem = make_problem(operands);
    if (problem.batch_x == 0) return;
    sdtw_exec exec;
    check(core.exec_init(&exec, sizeof exec));
    exec.device = SDTW_CUDA;
    exec.stream = stream;
    if (memory_for(problem, exec, results).bytes() > memory.element_count())
      throw Failure("libsdtw: the result for state and workspace is too small");
    compute(operands, results, problem, exec, 0, memory.untyped_data());
  });
}

ffi::Error value(Stream stream, Any x, Any y, Any x_len, Any y_len, Any gamma, Result value, Result memory,
                 ffi::Dictionary options) {
  Results results;
  results.value = &*value;
  return run(stream, {x, y, x_len, y_len, gamma, options}, results, *memory);
}

ffi::Error gradients(Stream stream, Any x, Any y, Any x_len, Any y_len, Any gamma, Any upstream, Result value,
                     Result grad_x, Result grad_y, Result memory, ffi::Dictionary options) {
  Results results;
  results.upstream = wanted(upstream);
  results.value = &*value;
  results.grad_x = wanted(*grad_x);
  results.grad_y = wanted(*grad_y);
  return run(stream, {x, y, x_len, y_len, gamma, options}, results, *memory);
}

ffi::Error alignment(Stream stream, Any x, Any y, Any x_len, Any y_len, Any gamma, Result value, Result alignment,
                     Result memory, ffi::Dictionary options) {
  Results results;
  results.value = &*value;
  results.alignment = &*alignment;
  return run(stream, {x, y, x_len, y_len, gamma, options}, results, *memory);
}

ffi::Error tangents(Stream stream, Any x, Any y, Any x_len, Any y_len, Any gamma, Any tangent_x, Any tangent_y,
                    Result grad_x, Result grad_y, Result memory, ffi::Dictionary options) {
  Results results;
  results.tangent_x = wanted(tangent_x);
  results.tangent_y = wanted(tangent_y);
  results.grad_x = wanted(*grad_x);
  results.grad_y = wanted(*grad_y);
  return run(stream, {x, y, x_len, y_len, gamma, options}, results, *memory);
}

auto operands() {
  return ffi::Ffi::Bind().Ctx<ffi::PlatformStream<Stream>>().Arg<Any>().Arg<Any>().Arg<Any>().Arg<Any>().Arg<Any>();
}

}  // namespace
}  // namespace sdtw_jax

using Any = xla::ffi::AnyBuffer;
using Traits = xla::ffi::Traits;

extern "C" {
SDTW_JAX_API XLA_FFI_Error *sdtw_jax_cuda_value(XLA_FFI_CallFrame *);
SDTW_JAX_API XLA_FFI_Error *sdtw_jax_cuda_gradients(XLA_FFI_CallFrame *);
SDTW_JAX_API XLA_FFI_Error *sdtw_jax_cuda_alignment(XLA_FFI_CallFrame *);
SDTW_JAX_API XLA_FFI_Error *sdtw_jax_cuda_tangents(XLA_FFI_CallFrame *);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(sdtw_jax_cuda_value, sdtw_jax::value, sdtw_jax::operands().Ret<Any>().Ret<Any>().Attrs(),
                              {Traits::kCmdBufferCompatible});
XLA_FFI_DEFINE_HANDLER_SYMBOL(sdtw_jax_cuda_gradients, sdtw_jax::gradients,
                              sdtw_jax::operands().Arg<Any>().Ret<Any>().Ret<Any>().Ret<Any>().Ret<Any>().Attrs(),
                              {Traits::kCmdBufferCompatible});
XLA_FFI_DEFINE_HANDLER_SYMBOL(sdtw_jax_cuda_alignment, sdtw_jax::alignment,
                              sdtw_jax::operands().Ret<Any>().Ret<Any>().Ret<Any>().Attrs(),
                              {Traits::kCmdBufferCompatible});
XLA_FFI_DEFINE_HANDLER_SYMBOL(sdtw_jax_cuda_tangents, sdtw_jax::tangents,
                              sdtw_jax::operands().Arg<Any>().Arg<Any>().Ret<Any>().Ret<Any>().Ret<Any>().Attrs(),
                              {Traits::kCmdBufferCompatible});
