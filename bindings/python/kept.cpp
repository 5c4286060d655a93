// Gradients that are kept: whether they may be multiplied.
#include "kept.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace sdtw_python::kept {
namespace {

template <class Number>
constexpr Number largest = std::numeric_limits<Number>::max();

// Upstream gradients of which products are good: what float32 gradients for 1 lose below their least number is, times
// these, less than the least normal number.
constexpr int most_upstream = 1 << 24;

template <class Number>
bool all_within(Number most, const void *data, int64_t count) {
  const auto *const numbers = static_cast<const Number *>(data);
  bool result = true;  // without leaving the loop, so that it takes vectors
  for (int64_t i = 0; i < count; ++i) result &= std::abs(numbers[i]) <= most;
  return result;
}

template <class Number>
void mark(const sdtw_out &kept, int64_t count) {
  if (kept.data && !all_within(largest<Number>, kept.data, count))
    *static_cast<Number *>(kept.data) = std::numeric_limits<Number>::quiet_NaN();
}

template <class Number>
bool is_marked(const sdtw_out &kept) {
  return kept.data && std::isnan(*static_cast<const Number *>(kept.data));
}

// Whether gradients are finite where values are: as derivatives of squares, or as sums of numbers up to 1 over one
// series. Those of the cosine are divided by lengths of vectors; heavier steps multiply gradients of costs of next to
// nothing; and under a gamma beyond the range of values costs beyond it weigh nothing.
bool follow_values(const sdtw_problem &problem) {
  const bool are_light = *std::max_element(problem.step_weight, problem.step_weight + 3) <= 1;
  return problem.metric != SDTW_COSINE && are_light && problem.gamma <= largest<float>;
}

template <class Number>
void mark(const sdtw_problem &problem, const sdtw_buffers &buffers) {
  if (follow_values(problem) && all_within(largest<Number>, buffers.value, problem.batch_x)) return;
  mark<Number>(buffers.grad_x, problem.batch_x * problem.n * problem.features);
  mark<Number>(buffers.grad_y, problem.batch_x * problem.m * problem.features);
}

template <class Number>
bool are_products(const sdtw_problem &problem, const sdtw_buffers &buffers) {
  return all_within(Number(most_upstream), buffers.grad_value, problem.batch_x) && !is_marked<Number>(buffers.grad_x) &&
         !is_marked<Number>(buffers.grad_y);
}

}  // namespace

sdtw_status value_and_gradients(const sdtw_problem *problem, const sdtw_buffers *buffers, const sdtw_exec *exec) {
  const sdtw_status status = sdtw_backward(problem, buffers, exec);
  if (status != SDTW_STATUS_OK || problem->batch_x == 0) return status;
  problem->dtype == SDTW_F64 ? mark<double>(*problem, *buffers) : mark<float>(*problem, *buffers);
  return status;
}

bool are_products(const sdtw_problem *problem, const sdtw_buffers *buffers) {
  if (problem->batch_x == 0) return true;
  return problem->dtype == SDTW_F64 ? are_products<double>(*problem, *buffers)
                                    : are_products<float>(*problem, *buffers);
}

}  // namespace sdtw_python::kept
