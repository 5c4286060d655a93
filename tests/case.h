// What a test computes, whatever the backend: a Case goes in, a Result comes out (harness.h).
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <sstream>

#include "array.h"
#include "backends.h"
#include "names.h"

namespace test {

struct Case {
  sdtw_problem problem;
  sdtw_exec exec;
  std::vector<double> x, y;                  // contiguous; values that dtype can hold; SDTW_PRECOMPUTED: x is the cost
  std::vector<double> grad_value;            // empty: absent
  std::vector<int64_t> x_len, y_len;         // empty: absent
  std::vector<double> tangent_x, tangent_y;  // like x and y; empty: absent; without either there is no sdtw_jvp
  Layout layout_x, layout_y, layout_grad_x, layout_grad_y, layout_alignment;  // tangents have those of x, y and grads
  unsigned char poison = 0xff;                                                // as a float or double: NaN
  bool want_grad_x = true, want_grad_y = true, want_alignment = true;
  bool checks_memory = true;  // guards, inputs and state, after every call: most of a small problem's time on a GPU
  bool recompute = false;     // with SDTW_NO_STATE: backward and alignment, too
  bool core_kernels = false;  // CUDA: also where there are kernels for short pairs
  bool warp_kernels = false;  // CUDA: of these, those by warps of which each goes through strips by itself, if it can
  bool inline_costs = false;  // CUDA: of these, those whose forward has costs by the warps that sweep, if it can
  std::string data;           // how the data were made, as problem.h writes it

  bool fused() const { return problem.metric != SDTW_PRECOMPUTED; }
  bool all_pairs() const { return problem.flags & SDTW_ALL_PAIRS; }
  bool symmetric() const { return problem.flags & SDTW_SYMMETRIC; }
  bool has_y() const { return fused() && !symmetric(); }
  bool unit_steps() const {
    for (int k = 0; k < 3; ++k)
      if (problem.step_weight[k] != 1 || problem.step_penalty[k] != 0) return false;
    return true;
  }
  int64_t batch() const { return all_pairs() ? problem.batch_x * problem.batch_y : problem.batch_x; }  // pairs
  // Which series a pair is of; a matrix of given costs is one's own.
  int64_t index_x(int64_t b) const { return fused() && all_pairs() ? b / problem.batch_y : b; }
  int64_t index_y(int64_t b) const { return fused() && all_pairs() ? b % problem.batch_y : b; }
  int64_t series_x() const { return fused() ? problem.batch_x : batch(); }
  int64_t series_y() const { return fused() ? problem.batch_y : batch(); }
  Shape shape_x() const { return {series_x(), problem.n, fused() ? problem.features : problem.m}; }
  Shape shape_y() const { return has_y() ? Shape{series_y(), problem.m, problem.features} : Shape{0, 0, 0}; }
  Shape shape_alignment() const { return {batch(), problem.n, problem.m}; }
  int64_t length_x(int64_t b) const { return x_len.empty() ? problem.n : x_len[index_x(b)]; }
  int64_t length_y(int64_t b) const {
    const std::vector<int64_t> &lengths = symmetric() ? x_len : y_len;
    return lengths.empty() ? problem.m : lengths[index_y(b)];
  }
};

struct Result {
  std::vector<double> value, grad_x, grad_y, alignment;                              // contiguous
  std::vector<double> value_tangent = {}, grad_x_tangent = {}, grad_y_tangent = {};  // where there are tangents
  std::vector<double> backward_value = {}, alignment_value = {}, jvp_value = {};     // of SDTW_WITH_VALUE
};

// The type of values and of their gradients.
inline sdtw_dtype value_type(const Case &c) { return c.problem.dtype == SDTW_F64 ? SDTW_F64 : SDTW_F32; }

// Whether two arrays are the same bit for bit, any NaN being equal to any other.
bool same(const std::vector<double> &a, const std::vector<double> &b);

Case make_case(sdtw_metric metric, int64_t batch, int64_t n, int64_t m, int64_t features, double gamma);

// Names as the grammar of problem.h has them, in the order of sdtw.h's enumerations.
template <size_t count>
constexpr std::array<const char *, count> words_of(const sdtw::names::Name (&rows)[count]) {
  std::array<const char *, count> result{};
  for (size_t k = 0; k < count; ++k) result[k] = rows[k].word;
  return result;
}
inline constexpr auto metric_names = words_of(sdtw::names::metrics);
inline constexpr auto dtype_names = words_of(sdtw::names::dtypes);
inline constexpr auto band_names = words_of(sdtw::names::bands);
inline constexpr auto isa_names = words_of(sdtw::names::isas);
inline constexpr auto device_names = words_of(sdtw::names::devices);

// Without given costs.
std::vector<sdtw_metric> metrics_of_series();

// One line that problem.h reads again: all of the problem, and of the data what made them.
std::string describe(const Case &c);

// Whether CUDA's kernels for short pairs compute it, unless rules of another kind forbid that.
bool may_be_short(const Case &c);
// Whether warps that sweep forward have its costs themselves, on a GPU.
bool sweeps_with_costs(const Case &c);
// Where they may compute the last one, the same again by the core kernels.
void add_core(std::vector<Case> &cases);

// The same case on every backend, in both dtypes. Inputs must be values that float32 can hold.
std::vector<Case> variants(const Case &base);

}  // namespace test
