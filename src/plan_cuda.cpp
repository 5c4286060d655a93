// The plan of the CUDA backend: strip height, checkpoints, and where everything lies in state and workspace.
#include <algorithm>
#include <climits>
#include <cstdio>

#include "backend.h"

namespace sdtw::cuda {
namespace {

constexpr int64_t warp = 32;
constexpr size_t control_bytes = 64;

// A checkpoint every 64 steps lets backward recompute one tile at a time. Long series take fewer: checkpoints are most
// of the state, and a few more steps per live tile are nothing beside forward.
int64_t choose_interval(const Problem &p) {
  const int64_t cells = p.n * p.m;
  return cells <= int64_t{1} << 24 ? 64 : cells <= int64_t{1} << 28 ? 128 : 512;
}

}  // namespace

sdtw::Plan make_plan(const Problem &problem, const Exec &exec) {
  sdtw::Plan result{problem, exec, {}, {}};
  Plan &plan = result.cuda;
  plan.strips = ceil_div(problem.n, rows_per_lane * warp);
  plan.interval = choose_interval(problem);
  plan.checkpoints = ceil_div(problem.m + warp - 1, plan.interval) - 1;
  plan.words = problem.dtype == SDTW_F64 ? 2 : 1;

  const size_t batch = problem.batch, strips = plan.strips, word = sizeof(uint64_t);
  const size_t row_cells = checked_mul(checked_mul(batch, strips - 1), problem.m);
  Arena run;
  plan.control = run.add(1, control_bytes);
  plan.bounds = run.add(batch, 2 * sizeof(int));
  plan.rows = run.add(row_cells, plan.words * word);
  plan.reset_bytes = run.bytes();
  plan.status = run.add(batch, sizeof(int));
  plan.forward_bytes = run.bytes();

  Arena state = run;
  const size_t saved_cells = (rows_per_lane + 1) * warp;
  plan.saved =
      state.add(checked_mul(checked_mul(batch, strips), checked_mul(plan.checkpoints, saved_cells)), plan.words * word);
  plan.state_bytes = state.bytes();

  Arena back;
  plan.back_control = back.add(1, control_bytes);
  plan.messages = back.add(row_cells, problem.dtype == SDTW_F64 ? sizeof(double) : sizeof(float));
  plan.progress = back.add(checked_mul(batch, strips), sizeof(int));
  plan.backward_bytes = plan.alignment_bytes = back.bytes();
  if (problem.n > INT_MAX / 2 || problem.m > INT_MAX / 2 || problem.features > INT_MAX / 2)
    fail(SDTW_STATUS_UNSUPPORTED, "problem: n, m and features must be below 2^30 on SDTW_CUDA in this version");
  return result;
}

std::string describe(const sdtw::Plan &plan) {
  char text[256];
  std::snprintf(text, sizeof text,
                "cuda: strips of %lld rows, %lld a pair, a warp each; %lld checkpoints a strip, one every %lld steps",
                static_cast<long long>(rows_per_lane * warp), static_cast<long long>(plan.cuda.strips),
                static_cast<long long>(plan.cuda.checkpoints), static_cast<long long>(plan.cuda.interval));
  return text;
}

}  // namespace sdtw::cuda
