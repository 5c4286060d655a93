// The CPU backend's entry points.
#include "backend.h"

#include "cpu/call_backward.h"
#include "cpu/call_forward.h"

namespace sdtw::cpu {
namespace {

// The arrays as the plan takes rows and columns.
Buffers oriented(const sdtw::Plan &plan, Buffers b) {
  if (plan.problem.symmetric) {
    b.y = b.x;
    b.y_len = b.x_len;
    b.tangent_y = b.tangent_x;
  }
  return plan.cpu.transposed ? transpose(plan.problem, b) : b;
}

// Calls run(an element of the problem's type).
template <class Run>
void for_dtype(const Problem &problem, Run &&run) {
  switch (problem.dtype) {
    case SDTW_F64: return run(double{});
    case SDTW_F16: return run(core::Half{});
    case SDTW_BF16: return run(core::BFloat16{});
    default: return run(float{});
  }
}

Wanted gradient_of(const Problem &problem) { return problem.fused() ? Wanted::gradients : Wanted::cost_gradient; }

void run_backward(const sdtw::Plan &plan, const Buffers &b, Wanted wanted) {
  sdtw_cpu_isa isa = plan.cpu.isa;
  if (b.state) {
    StateHeader header;
    std::memcpy(&header, b.state, sizeof header);
    if (!header.matches(plan) || header.isa == SDTW_CPU_ISA_AUTO || !has_isa(header.isa))
      invalid("buffers.state was not written by sdtw_forward for this problem on the CPU");
    isa = header.isa;
  }
  for_dtype(plan.problem, [&](auto element) {
    TypedCall<decltype(element)> call(plan, b, Need::backward(wanted == Wanted::gradients, !b.state), isa);
    if (b.state) call.require_state();
    call.backward(wanted);
  });
}

}  // namespace

void forward(const sdtw::Plan &plan, const Buffers &given) {
  const Buffers b = oriented(plan, given);
  for_dtype(plan.problem,
            [&](auto element) { TypedCall<decltype(element)>(plan, b, Need::forward(), plan.cpu.isa).forward(); });
}

void backward(const sdtw::Plan &plan, const Buffers &given) {
  const Buffers b = oriented(plan, given);
  run_backward(plan, b, gradient_of(plan.problem));
}

void alignment(const sdtw::Plan &plan, const Buffers &given) {
  const Buffers b = oriented(plan, given);
  run_backward(plan, b, Wanted::alignment);
}

void jvp(const sdtw::Plan &given_plan, const Buffers &given) {
  const sdtw::Plan plan = tangent_plan(given_plan);
  Buffers b = given;
  b.grad_x = b.grad_x_tangent;
  b.grad_y = b.grad_y_tangent;
  b = oriented(plan, b);
  const Wanted wanted = gradient_of(plan.problem);
  for_dtype(plan.problem, [&](auto element) {
    TypedCall<decltype(element)>(plan, b, Need::jvp(wanted == Wanted::gradients), plan.cpu.isa).backward(wanted);
  });
}

}  // namespace sdtw::cpu
