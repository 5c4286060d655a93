// Calls that must succeed: every instruction set against the others, the oracle, and what is true of every alignment.
#include "check_alignment.h"
#include "decode.h"
#include "error_limits.h"
#include "fuzz.h"

namespace test {
namespace {

constexpr double largest_float = std::numeric_limits<float>::max();

// The largest that a difference of two steps, or a given cost, can be.
double spread(const Case &c, int64_t b) {
  const auto largest = [](const std::vector<double> &series, int64_t from, int64_t count) {
    double result = 0;
    for (int64_t k = from; k < from + count; ++k) result = std::max(result, std::abs(series[k]));  // NaN is padding
    return result;
  };
  const int64_t step_x = c.problem.n * c.shape_x()[2], step_y = c.problem.m * c.problem.features;
  return largest(c.x, b * step_x, step_x) + (c.fused() ? largest(c.y, b * step_y, step_y) : 0);
}

[[noreturn]] void fail(const Case &c, int64_t b, const std::string &what) {
  std::ostringstream text;
  text << what << "; inputs up to " << spread(c, b) << ", upstream " << (c.grad_value.empty() ? 1 : c.grad_value[b])
       << "; pair " << b << " of lengths (" << c.length_x(b) << ", " << c.length_y(b) << ") of " << describe(c);
  throw std::runtime_error(text.str());
}

std::string number(const char *what, double error, double limit) {
  std::ostringstream text;
  text << what << " off by " << error << ", allowed " << limit;
  return text.str();
}

// The entry that is furthest off.
template <class Real>
std::string worst(const char *what, const std::vector<double> &actual, const std::vector<Real> &expected, int64_t from,
                  int64_t count) {
  int64_t at = from;
  for (int64_t k = from; !actual.empty() && k < from + count; ++k)
    if (distance(&actual[k], &expected[k], 1) > distance(&actual[at], &expected[at], 1)) at = k;
  std::ostringstream text;
  text.precision(17);
  if (!actual.empty() && count > 0)
    text << ", " << what << "[" << at - from << "] " << actual[at] << " for " << static_cast<double>(expected[at]);
  return text.str();
}

// The nearest number that dtype has: where it has none as large, an infinity.
bool rounds_to(const Case &c, double actual, double expected) {
  if (std::isnan(expected)) return std::isnan(actual);
  if (c.problem.dtype == SDTW_F64) return actual == expected || std::abs(actual - expected) <= 5e-324;
  if (std::abs(expected) > largest_float * (1 - 2e-7))
    return std::signbit(actual) == std::signbit(expected) && std::abs(actual) > largest_float * (1 - 4e-7);
  return std::abs(actual - expected) <= 0x1p-149;
}

// Rounding of the oracle's own arithmetic, and of R / gamma in doubles, shows where costs are huge in units of gamma.
double unavoidable(double in_gammas) { return std::isfinite(in_gammas) ? 0x1p-50 * in_gammas : 0; }

template <class Real>
void judge_pair(const Case &c, const Result &result, const Reference<Real> &ref, int64_t b) {
  const double scale = static_cast<double>(ref.scale[b]), expected = static_cast<double>(ref.value[b]);
  // A value beyond the range of doubles, rather than one that no path has.
  const int64_t first = b * c.problem.n * c.problem.m;
  const bool beyond = std::isinf(expected) && c.length_x(b) > 0 && c.length_y(b) > 0 && ref.alignment[first] != 0;
  const double most_value = std::numeric_limits<double>::max();
  Errors error = compare_pair(c, result, ref, b);
  Errors limit = limits(c, beyond ? most_value : std::isfinite(expected) ? expected : 0);
  const double more = unavoidable(static_cast<double>(ref.scale[b] / static_cast<Real>(c.problem.gamma)));
  limit.gradient += more, limit.alignment += more;
  if (!(error.value <= limit.value) && !rounds_to(c, result.value[b], expected))
    fail(c, b,
         number("value", error.value, limit.value) + " of " + std::to_string(scale) +
             worst("value", result.value, ref.value, b, 1));
  if (c.exec.flags & SDTW_NO_STATE) return;
  if (!(error.alignment <= limit.alignment))
    fail(c, b,
         number("alignment", error.alignment, limit.alignment) +
             worst("E", result.alignment, ref.alignment, b * c.problem.n * c.problem.m, c.problem.n * c.problem.m));
  if (const std::string wrong = check_alignment(c, result, b); !wrong.empty()) fail(c, b, wrong);
  // What IEEE arithmetic makes of an upstream gradient that is not finite depends on which E underflow; nor are
  // gradients of series, which have a factor of 2, those of the upper half of float32's last binade.
  const double most = c.problem.dtype == SDTW_F64 ? std::numeric_limits<double>::max() : largest_float;
  if (!c.grad_value.empty() && !(std::abs(c.grad_value[b]) <= most / 2)) return;
  const int64_t step_x = c.problem.n * c.shape_x()[2], step_y = c.fused() ? c.problem.m * c.problem.features : 0;
  const double largest =
      std::max(max_norm(ref.grad_x.data() + b * step_x, step_x), max_norm(ref.grad_y.data() + b * step_y, step_y));
  // Where E is below 1e-12 it may be 0, even if nothing larger makes a gradient: along a path of equal steps.
  const double skipped = 1e-12 * 64 * std::max(c.problem.n, c.problem.m) * (c.fused() ? 2 * spread(c, b) : 1) *
                         (c.grad_value.empty() ? 1 : std::abs(c.grad_value[b]));
  // Relative errors are of numbers that dtype has in full, and that the terms of sums do not exceed. Nor has it the
  // digits of E times a difference of denormals, whatever they are multiplied by in the end.
  const bool f64 = c.problem.dtype == SDTW_F64;
  const double least = f64 ? 1e-290 : 1e-30, most_in_full = f64 ? 1e300 : 1e35;
  if (largest != 0 && !(largest > least && largest < most_in_full && (!c.fused() || spread(c, b) > least))) return;
  if (!(error.gradient <= limit.gradient) && !(largest != 0 && error.gradient * largest <= skipped))
    fail(c, b,
         number("gradient", error.gradient, limit.gradient) +
             worst("grad_x", result.grad_x, ref.grad_x, b * step_x, step_x) +
             worst("grad_y", result.grad_y, ref.grad_y, b * step_y, step_y));
}

// All of them, or more often one: what one instruction set does wrong, other data find in another.
std::vector<Backend> chosen_backends(uint8_t by) {
  const std::vector<Backend> all = backends();
  return by % 4 == 0 ? all : std::vector<Backend>{all[by / 4 % all.size()]};
}

template <class Real>
void judge(Case &c, uint8_t again) {
  const Reference<Real> ref = reference<Real>(c);
  Result of_avx2;
  for (const Backend &backend : chosen_backends(again)) {
    c.exec.cpu_isa = backend.isa;
    const Result result = run(c);
    for (int64_t b = 0; b < c.batch(); ++b) judge_pair(c, result, ref, b);
    if (backend.isa == SDTW_CPU_ISA_AVX2) of_avx2 = result;
    // Exponents are whole numbers up to 2^53; beyond, where they are rounded depends on the width of vectors.
    const bool comparable = backend.isa == SDTW_CPU_ISA_AVX512 && !of_avx2.value.empty();
    for (int64_t b = 0; b < c.batch() && comparable; ++b)
      if (std::abs(result.value[b]) / c.problem.gamma < 0x1p52 && !same({result.value[b]}, {of_avx2.value[b]}))
        fail(c, b, "AVX2 and AVX-512 give different values" + worst("value", result.value, of_avx2.value, b, 1));
    if (again % 3 == static_cast<int>(backend.isa) % 3) {
      Case other = c;
      other.poison = static_cast<unsigned char>(c.poison ^ 0xc3);
      if (c.exec.device == SDTW_CPU) other.exec.num_threads = again >= 240 ? 3 : 1;
      if (!same(run(other), result)) fail(other, 0, "not the same bits with other threads and poison");
      other.exec.flags |= SDTW_NO_STATE;
      other.recompute = c.exec.device == SDTW_CPU;
      if (again % 2) other.exec.flags |= SDTW_WITH_VALUE;
      const Result without = run(other);
      for (int64_t b = 0; b < c.batch(); ++b) judge_pair(other, without, ref, b);
      if (other.recompute && has_exact_exponents(c) && !same_derivatives(without, result))
        fail(other, 0, "not the same bits without state");
    }
  }
}

}  // namespace

void fuzz_valid(Bytes &bytes) {
  const uint8_t again = bytes.byte();
  Case c = decode_case(bytes, options().device);
  if (options().table) std::fprintf(stderr, "%s\n", describe(c).c_str());
  if (c.problem.dtype == SDTW_F64)
    judge<long double>(c, again);
  else
    judge<double>(c, again);
}

}  // namespace test
