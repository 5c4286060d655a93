// The handlers of the CPU. They read gamma, and take state and workspace from the heap for the time of a call: how much
// that is depends on the threads of the machine that runs the program.
#include <cstdlib>
#include <memory>
#include <new>

#include "handlers.h"

namespace sdtw_jax {
namespace {

struct Free {
  void operator()(void *memory) const { std::free(memory); }
};

ffi::Error run(const Operands &operands, const Results &results) {
  return guarded([&] {
    sdtw_problem problem = make_problem(operands);
    const int64_t pairs = problem.batch_x;
    if (pairs == 0) return;
    sdtw_exec exec;
    check(core.exec_init(&exec, sizeof exec));
    const GammaOperand gamma(operands.gamma, pairs);
    // Pairs in a row that have the same gamma are one call.
    for (int64_t first = 0, end; first < pairs; first = end) {
      problem.gamma = gamma[first];
      for (end = gamma.is_one() ? pairs : first + 1; end < pairs && gamma[end] == problem.gamma;) ++end;
      problem.batch_x = problem.batch_y = end - first;
      const size_t bytes = memory_for(problem, exec, results).bytes();
      const std::unique_ptr<void, Free> memory(std::aligned_alloc(64, bytes));
      if (!memory && bytes) throw std::bad_alloc();
      compute(operands, results, problem, exec, first, memory.get());
    }
  });
}

using Any = ffi::AnyBuffer;
using Result = ffi::Result<ffi::AnyBuffer>;

ffi::Error value(Any x, Any y, Any x_len, Any y_len, Any gamma, Result value, ffi::Dictionary options) {
  Results results;
  results.value = &*value;
  return run({x, y, x_len, y_len, gamma, options}, results);
}

ffi::Error gradients(Any x, Any y, Any x_len, Any y_len, Any gamma, Any upstream, Result value, Result grad_x,
                     Result grad_y, ffi::Dictionary options) {
  Results results;
  results.upstream = wanted(upstream);
  results.value = &*value;
  results.grad_x = wanted(*grad_x);
  results.grad_y = wanted(*grad_y);
  return run({x, y, x_len, y_len, gamma, options}, results);
}

ffi::Error alignment(Any x, Any y, Any x_len, Any y_len, Any gamma, Result value, Result alignment,
                     ffi::Dictionary options) {
  Results results;
  results.value = &*value;
  results.alignment = &*alignment;
  return run({x, y, x_len, y_len, gamma, options}, results);
}

ffi::Error tangents(Any x, Any y, Any x_len, Any y_len, Any gamma, Any tangent_x, Any tangent_y, Result grad_x,
                    Result grad_y, ffi::Dictionary options) {
  Results results;
  results.tangent_x = wanted(tangent_x);
  results.tangent_y = wanted(tangent_y);
  results.grad_x = wanted(*grad_x);
  results.grad_y = wanted(*grad_y);
  return run({x, y, x_len, y_len, gamma, options}, results);
}

auto operands() { return ffi::Ffi::Bind().Arg<Any>().Arg<Any>().Arg<Any>().Arg<Any>().Arg<Any>(); }

}  // namespace
}  // namespace sdtw_jax

using Any = xla::ffi::AnyBuffer;

extern "C" {
SDTW_JAX_API XLA_FFI_Error *sdtw_jax_cpu_value(XLA_FFI_CallFrame *);
SDTW_JAX_API XLA_FFI_Error *sdtw_jax_cpu_gradients(XLA_FFI_CallFrame *);
SDTW_JAX_API XLA_FFI_Error *sdtw_jax_cpu_alignment(XLA_FFI_CallFrame *);
SDTW_JAX_API XLA_FFI_Error *sdtw_jax_cpu_tangents(XLA_FFI_CallFrame *);
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(sdtw_jax_cpu_value, sdtw_jax::value, sdtw_jax::operands().Ret<Any>().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(sdtw_jax_cpu_gradients, sdtw_jax::gradients,
                              sdtw_jax::operands().Arg<Any>().Ret<Any>().Ret<Any>().Ret<Any>().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(sdtw_jax_cpu_alignment, sdtw_jax::alignment,
                              sdtw_jax::operands().Ret<Any>().Ret<Any>().Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(sdtw_jax_cpu_tangents, sdtw_jax::tangents,
                              sdtw_jax::operands().Arg<Any>().Arg<Any>().Ret<Any>().Ret<Any>().Attrs());
