#include "call.h"

#include <cstring>
#include <string_view>

namespace sdtw_jax {
namespace {

template <class T>
T option(const ffi::Dictionary &options, std::string_view name) {
  const auto value = options.get<T>(name);
  if (!value.has_value()) throw Failure("libsdtw: the call has no attribute " + std::string(name));
  return value.value();
}

sdtw_dtype dtype_of(const ffi::AnyBuffer &array) {
  switch (array.element_type()) {
    case ffi::DataType::F32: return SDTW_F32;
    case ffi::DataType::F64: return SDTW_F64;
    case ffi::DataType::F16: return SDTW_F16;
    case ffi::DataType::BF16: return SDTW_BF16;
    default: throw Failure("libsdtw: x has a type that is not of floating point");
  }
}

size_t bytes_of(sdtw_dtype dtype) { return dtype == SDTW_F64 ? 8 : dtype == SDTW_F32 ? 4 : 2; }

}  // namespace

void check(sdtw_status status) {
  if (status != SDTW_STATUS_OK)
    throw Failure(std::string("libsdtw: ") + core.status_string(status) + ": " + core.last_error());
}

sdtw_problem make_problem(const Operands &operands) {
  const auto x = operands.x.dimensions(), y = operands.y.dimensions();
  const auto &options = operands.options;
  sdtw_problem problem;
  check(core.problem_init(&problem, sizeof problem));
  problem.metric = option<int32_t>(options, "metric");
  const bool of_series = problem.metric != SDTW_PRECOMPUTED;
  if (x.size() != 3 || y.size() != (of_series ? 3u : 1u)) throw Failure("libsdtw: x or y has another rank than 3");
  problem.dtype = dtype_of(operands.x);
  problem.batch_x = problem.batch_y = x[0];
  problem.n = x[1];
  problem.m = of_series ? y[1] : x[2];
  problem.features = of_series ? x[2] : 0;
  problem.gamma = option<double>(options, "gamma");
  problem.band = option<int32_t>(options, "band");
  problem.band_radius = option<double>(options, "band_radius");
  const std::string steps[] = {"_0", "_1", "_2"};
  for (int k = 0; k < 3; ++k) {
    problem.step_weight[k] = option<double>(options, "step_weight" + steps[k]);
    problem.step_penalty[k] = option<double>(options, "step_penalty" + steps[k]);
  }
  const auto &lengths = operands.x_len.element_count() ? operands.x_len : operands.y_len;
  problem.length_bits = lengths.element_type() == ffi::DataType::S32 ? 32 : 64;
  return problem;
}

GammaOperand::GammaOperand(const ffi::AnyBuffer &gamma, int64_t pairs)
    : gamma_(gamma), one_(gamma.dimensions().size() == 0 || gamma.element_type() == ffi::DataType::U32) {
  const int64_t expected = gamma.element_type() == ffi::DataType::U32 ? 2 : one_ ? 1 : pairs;
  if (int64_t(gamma.element_count()) != expected) throw Failure("libsdtw: gamma is not one for each pair");
}

double GammaOperand::operator[](int64_t pair) const {
  const int64_t at = one_ ? 0 : pair;
  switch (gamma_.element_type()) {
    case ffi::DataType::F32: return static_cast<const float *>(gamma_.untyped_data())[at];
    case ffi::DataType::F64: return static_cast<const double *>(gamma_.untyped_data())[at];
    case ffi::DataType::U32: {
      double value;
      std::memcpy(&value, gamma_.untyped_data(), sizeof value);
      return value;
    }
    default: throw Failure("libsdtw: gamma is not of type float32 or float64");
  }
}

Arrays::Arrays(const Operands &operands, const sdtw_problem &problem, int64_t first)
    : operands_(operands),
      element_(bytes_of(problem.dtype)),
      value_(problem.dtype == SDTW_F64 ? 8 : 4),
      length_(size_t(problem.length_bits) / 8),
      first_(first) {}

template <class View>
View Arrays::view(const ffi::AnyBuffer &array) const {
  View result{};
  if (array.element_count() == 0) return result;
  const auto shape = array.dimensions();
  const int64_t pair = shape[1] * shape[2];
  result.data = static_cast<char *>(array.untyped_data()) + size_t(first_) * size_t(pair) * element_;
  result.stride[0] = pair;
  result.stride[1] = shape[2];
  result.stride[2] = 1;
  return result;
}

sdtw_in Arrays::in(const ffi::AnyBuffer &array) const { return view<sdtw_in>(array); }
sdtw_out Arrays::out(const ffi::AnyBuffer &array) const { return view<sdtw_out>(array); }

void *Arrays::values(const ffi::AnyBuffer &array) const {
  return static_cast<char *>(array.untyped_data()) + size_t(first_) * value_;
}

const void *Arrays::lengths(const ffi::AnyBuffer &array) const {
  if (array.element_count() == 0) return nullptr;
  return static_cast<const char *>(array.untyped_data()) + size_t(first_) * length_;
}

sdtw_buffers Arrays::inputs() const {
  sdtw_buffers buffers;
  check(core.buffers_init(&buffers, sizeof buffers));
  buffers.x = in(operands_.x);
  buffers.y = in(operands_.y);
  buffers.x_len = lengths(operands_.x_len);
  buffers.y_len = lengths(operands_.y_len);
  return buffers;
}

}  // namespace sdtw_jax
