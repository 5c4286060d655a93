// Validates sdtw_problem and sdtw_exec: each field is checked once, here, and named in the message when it is wrong.
#include "problem.h"

#include <cinttypes>
#include <cmath>
#include <utility>

#include "core/steps.h"
#include "names.h"

namespace sdtw {
namespace {

// What is appended to a struct must change its size, so none may end in padding.
static_assert(offsetof(sdtw_problem, reserved) + sizeof(sdtw_problem::reserved) == sizeof(sdtw_problem));
static_assert(offsetof(sdtw_exec, stream) + sizeof(void *) == sizeof(sdtw_exec));

template <size_t count>
void require_enum(const char *field, int32_t value, const names::Name (&rows)[count]) {
  if (value >= 0 && static_cast<size_t>(value) < count) return;
  std::string choices;
  for (const names::Name &row : rows)
    choices += (choices.empty() ? "" : ", ") + std::string(row.constant) + " (" + std::to_string(row.value) + ")";
  invalid("%s is %" PRId32 ": it must be one of %s", field, value, choices.c_str());
}

void require_flags(const char *field, uint32_t value, uint32_t known, const char *names) {
  if (value & ~known) invalid("%s is 0x%" PRIx32 ": it may be made of %s", field, value, names);
}

void require_at_least(const char *field, int64_t value, int64_t least) {
  if (value < least) invalid("%s is %" PRId64 ": it must be at least %" PRId64, field, value, least);
}

void require_size(const char *field, int64_t value, int64_t least) {
  require_at_least(field, value, least);
  if (value > largest_size)
    invalid("%s is %" PRId64 ": it must be at most %" PRId64 ", less than 2^30", field, value, largest_size);
}

void require_finite(const char *field, double value, double least, const char *what) {
  if (!std::isfinite(value) || value < least) invalid("%s is %g: it must be %s", field, value, what);
}

// The product of three sizes, each at least 0: a number of elements, which is to fit the address space.
int64_t product(int64_t a, int64_t b, int64_t c, const char *what) {
  constexpr int64_t most = PTRDIFF_MAX / 8;
  int64_t result;
  if (a == 0 || b == 0 || c == 0) return 0;
  if (__builtin_mul_overflow(a, b, &result) || __builtin_mul_overflow(result, c, &result) || result > most)
    invalid("%s is %" PRId64 " * %" PRId64 " * %" PRId64 ": as many elements must fit the address space", what, a, b,
            c);
  return result;
}

void validate_sizes(const sdtw_problem &p) {
  require_at_least("problem.batch_x", p.batch_x, 0);
  require_at_least("problem.batch_y", p.batch_y, 0);
  const bool all_pairs = p.flags & SDTW_ALL_PAIRS;
  if (!all_pairs && p.batch_x != p.batch_y)
    invalid("problem.batch_y is %" PRId64 ": without SDTW_ALL_PAIRS it must be problem.batch_x, %" PRId64, p.batch_y,
            p.batch_x);

  // An empty batch has no shape to speak of.
  const int64_t batch = all_pairs ? product(p.batch_x, p.batch_y, 1, "problem.batch_x * problem.batch_y") : p.batch_x;
  const int64_t least = batch > 0 ? 1 : 0;
  require_size("problem.n", p.n, least);
  require_size("problem.m", p.m, least);
  if (p.metric == SDTW_PRECOMPUTED) {
    if (p.features != 0) invalid("problem.features is %" PRId64 ": with SDTW_PRECOMPUTED it must be 0", p.features);
  } else {
    require_size("problem.features", p.features, least);
    product(p.batch_x, p.n, p.features, "problem.batch_x * problem.n * problem.features");
    product(p.batch_y, p.m, p.features, "problem.batch_y * problem.m * problem.features");
  }
  product(batch, p.n, p.m, "problem: pairs * n * m");
}

void validate_steps(const sdtw_problem &p) {
  static constexpr const char *weights[] = {"problem.step_weight[0]", "problem.step_weight[1]",
                                            "problem.step_weight[2]"};
  static constexpr const char *penalties[] = {"problem.step_penalty[0]", "problem.step_penalty[1]",
                                              "problem.step_penalty[2]"};
  for (int k = 0; k < 3; k++) require_finite(weights[k], p.step_weight[k], 0, "finite and >= 0");
  for (int k = 0; k < 3; k++) require_finite(penalties[k], p.step_penalty[k], -HUGE_VAL, "finite");
}

void validate_symmetry(const sdtw_problem &p) {
  if (!(p.flags & SDTW_SYMMETRIC)) return;
  if (!(p.flags & SDTW_ALL_PAIRS))
    invalid("problem.flags is 0x%" PRIx32 ": SDTW_SYMMETRIC goes with SDTW_ALL_PAIRS", p.flags);
  if (p.metric == SDTW_PRECOMPUTED)
    invalid("problem.flags is 0x%" PRIx32 ": with SDTW_PRECOMPUTED it must not have SDTW_SYMMETRIC", p.flags);
  if (p.batch_y != p.batch_x)
    invalid("problem.batch_y is %" PRId64 ": with SDTW_SYMMETRIC it must be problem.batch_x, %" PRId64, p.batch_y,
            p.batch_x);
  if (p.m != p.n) invalid("problem.m is %" PRId64 ": with SDTW_SYMMETRIC it must be problem.n, %" PRId64, p.m, p.n);
  if (p.step_weight[1] != p.step_weight[2])
    invalid("problem.step_weight[2] is %g: with SDTW_SYMMETRIC it must be problem.step_weight[1], %g", p.step_weight[2],
            p.step_weight[1]);
  if (p.step_penalty[1] != p.step_penalty[2])
    invalid("problem.step_penalty[2] is %g: with SDTW_SYMMETRIC it must be problem.step_penalty[1], %g",
            p.step_penalty[2], p.step_penalty[1]);
}

void validate_band(const sdtw_problem &p) {
  require_enum("problem.band", p.band, names::bands);
  if (p.band == SDTW_BAND_ITAKURA)
    require_finite("problem.band_radius", p.band_radius, 1, "finite and >= 1, the maximum slope of SDTW_BAND_ITAKURA");
  else if (p.band != SDTW_BAND_NONE)
    require_finite("problem.band_radius", p.band_radius, 0, "finite and >= 0");
}

void validate_gamma(double gamma) {
  if (gamma != 0 && !(gamma >= least_gamma && std::isfinite(gamma)))
    invalid("problem.gamma is %g: it must be 0, or finite and at least %g", gamma, least_gamma);
}

}  // namespace

void require_device_name(sdtw_device device, const char *field) { require_enum(field, device, names::devices); }

const char *isa_name(sdtw_cpu_isa isa) { return names::isas[isa].constant; }

Problem validate(const sdtw_problem *problem) {
  require_struct(problem, "problem");
  const sdtw_problem &p = *problem;
  require_enum("problem.metric", p.metric, names::metrics);
  require_enum("problem.dtype", p.dtype, names::dtypes);
  require_flags("problem.flags", p.flags, SDTW_ALL_PAIRS | SDTW_SYMMETRIC,
                "SDTW_ALL_PAIRS (0x1) and SDTW_SYMMETRIC (0x2)");
  validate_sizes(p);
  validate_symmetry(p);
  validate_gamma(p.gamma);
  validate_band(p);
  validate_steps(p);
  if (p.length_bits != 32 && p.length_bits != 64)
    invalid("problem.length_bits is %" PRId32 ": it must be 32 or 64", p.length_bits);
  if (p.reserved != 0) invalid("problem.reserved is %" PRId32 ": it must be 0", p.reserved);

  Problem result{};
  result.metric = p.metric;
  result.dtype = p.dtype;
  result.all_pairs = p.flags & SDTW_ALL_PAIRS;
  result.symmetric = p.flags & SDTW_SYMMETRIC;
  result.batch_x = p.batch_x;
  result.batch_y = p.batch_y;
  result.batch = result.all_pairs ? p.batch_x * p.batch_y : p.batch_x;
  result.n = p.n;
  result.m = p.m;
  result.features = p.features;
  result.gamma = p.gamma;
  result.band = p.band;
  result.band_radius = p.band_radius;
  for (int k = 0; k < 3; k++) {
    result.step_weight[k] = p.step_weight[k];
    result.step_penalty[k] = p.step_penalty[k];
  }
  result.length_bits = p.length_bits;
  return result;
}

Exec validate(const sdtw_exec *exec) {
  require_struct(exec, "exec");
  const sdtw_exec &e = *exec;
  require_device_name(e.device, "exec.device");
  require_flags("exec.flags", e.flags, SDTW_DETERMINISTIC | SDTW_NO_STATE | SDTW_WITH_VALUE,
                "SDTW_DETERMINISTIC (0x1), SDTW_NO_STATE (0x2) and SDTW_WITH_VALUE (0x4)");
  if (e.num_threads < 0 || e.num_threads > 4096)
    invalid("exec.num_threads is %" PRId32 ": it must be from 0 to 4096", e.num_threads);
  require_enum("exec.cpu_isa", e.cpu_isa, names::isas);

  Exec result{};
  result.device = e.device;
  result.no_state = e.flags & SDTW_NO_STATE;
  result.with_value = e.flags & SDTW_WITH_VALUE;
  result.num_threads = e.num_threads;
  result.cpu_isa = e.cpu_isa;
  result.stream = e.stream;
  return result;
}

Problem transpose(const Problem &problem) {
  Problem result = problem;
  std::swap(result.n, result.m);
  std::swap(result.batch_x, result.batch_y);
  std::swap(result.step_weight[core::vertical], result.step_weight[core::horizontal]);
  std::swap(result.step_penalty[core::vertical], result.step_penalty[core::horizontal]);
  return result;
}

Buffers transpose(const Problem &problem, const Buffers &buffers) {
  Buffers b = buffers;
  const auto turn = [](auto &matrix) { std::swap(matrix.stride[1], matrix.stride[2]); };
  std::swap(b.x_len, b.y_len);
  turn(b.alignment);
  if (problem.fused()) {
    std::swap(b.x, b.y);
    std::swap(b.grad_x, b.grad_y);
    std::swap(b.tangent_x, b.tangent_y);
    std::swap(b.grad_x_tangent, b.grad_y_tangent);
  } else {
    turn(b.x), turn(b.grad_x);
    turn(b.tangent_x), turn(b.grad_x_tangent);
  }
  return b;
}

}  // namespace sdtw
