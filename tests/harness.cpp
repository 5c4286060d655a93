#include "harness.h"

#include "backend.h"

namespace test {

void require_ok(sdtw_status status, const char *function) {
  if (status == SDTW_STATUS_UNSUPPORTED) throw Unsupported(sdtw_last_error());
  if (status != SDTW_STATUS_OK)
    throw std::runtime_error(std::string(function) + ": " + sdtw_status_string(status) + ": " + sdtw_last_error());
}

namespace {

template <class Binding>
void bind(Binding &binding, const Array &array) {
  binding.data = array.data();
  std::copy(array.strides().begin(), array.strides().end(), binding.stride);
}

// As long as it lives, this thread's calls have the kernels that the case asks for.
struct ChosenKernels {
  const CudaLimits usual;

  explicit ChosenKernels(const Case &c) {
    sdtw::cuda::Limits &limits = sdtw::cuda::limits;
    limits.has_short_pairs = !c.core_kernels;
    limits.prefers_warps = c.warp_kernels, limits.prefers_inline_costs = c.inline_costs;
  }
};

}  // namespace

Session::Session(const Case &c)
    : case_(c),
      memory_(memory_of(c.exec.device)),
      x_("x", memory_, c.problem.dtype, c.shape_x(), c.layout_x, 0xff),
      y_("y", memory_, c.problem.dtype, c.shape_y(), c.layout_y, 0xff),
      value_("value", memory_, value_type(c), {c.batch(), 1, 1}, Layout{}, c.poison),
      grad_value_("grad_value", memory_, value_type(c), {c.batch(), 1, 1}, Layout{}, 0xff) {
  sdtw_sizes_init(&sizes_, sizeof sizes_);
  const ChosenKernels kernels(c);
  require_ok(sdtw_get_sizes(&c.problem, &c.exec, &sizes_), "sdtw_get_sizes");
  sdtw_buffers_init(&buffers_, sizeof buffers_);
  x_.upload(c.x);
  bind(buffers_.x, x_);
  if (c.has_y()) {
    y_.upload(c.y);
    bind(buffers_.y, y_);
  }
  x_len_ = upload_lengths(c.x_len);
  if (!c.symmetric()) y_len_ = upload_lengths(c.y_len);
  buffers_.x_len = x_len_ ? x_len_->data() : nullptr;
  buffers_.y_len = y_len_ ? y_len_->data() : nullptr;
  if (!c.grad_value.empty()) {
    grad_value_.upload(c.grad_value);
    buffers_.grad_value = grad_value_.data();
  }
  if (!(c.exec.flags & SDTW_NO_STATE)) {
    state_ = std::make_unique<Block>(memory_, sizes_.state, c.poison);
    buffers_.state = state_->data();
    buffers_.state_bytes = state_->bytes();
  }
}

std::vector<double> Session::forward() {
  buffers_.value = value_.data();
  call(sdtw_forward, "sdtw_forward", &sdtw_sizes::forward, case_.exec);
  if (state_ && case_.checks_memory) {
    state_->download();
    state_->check_guards("state");
    state_after_forward_.assign(state_->image(), state_->image() + state_->bytes());
  }
  return value_.download();
}

void Session::backward(Result &result) {
  const Case &c = case_;
  const bool want_grad_y = c.want_grad_y && c.has_y();
  Array grad_x("grad_x", memory_, c.problem.dtype, c.shape_x(), c.layout_grad_x, c.poison);
  Array grad_y("grad_y", memory_, c.problem.dtype, c.shape_y(), c.layout_grad_y, c.poison);
  if (c.want_grad_x) bind(buffers_.grad_x, grad_x);
  if (want_grad_y) bind(buffers_.grad_y, grad_y);
  result.backward_value = call_with_value(sdtw_backward, "sdtw_backward", &sdtw_sizes::backward);
  buffers_.grad_x = buffers_.grad_y = {};
  check_state();
  if (c.want_grad_x) result.grad_x = grad_x.download();
  if (want_grad_y) result.grad_y = grad_y.download();
}

std::vector<double> Session::alignment(std::vector<double> *value) {
  Array alignment("alignment", memory_, case_.problem.dtype, case_.shape_alignment(), case_.layout_alignment,
                  case_.poison);
  bind(buffers_.alignment, alignment);
  const auto written = call_with_value(sdtw_alignment, "sdtw_alignment", &sdtw_sizes::alignment);
  if (value) *value = written;
  check_state();
  return alignment.download();
}

void Session::jvp(Result &result) {
  const Case &c = case_;
  const sdtw_dtype dtype = c.problem.dtype;
  const bool want_grad_y = c.want_grad_y && c.has_y();
  Array tangent_x("tangent_x", memory_, dtype, c.shape_x(), c.layout_x, 0xff);
  Array tangent_y("tangent_y", memory_, dtype, c.shape_y(), c.layout_y, 0xff);
  Array value_tangent("value_tangent", memory_, value_type(c), {c.batch(), 1, 1}, Layout{}, c.poison);
  Array grad_x("grad_x_tangent", memory_, dtype, c.shape_x(), c.layout_grad_x, c.poison);
  Array grad_y("grad_y_tangent", memory_, dtype, c.shape_y(), c.layout_grad_y, c.poison);
  const bool along_x = !c.tangent_x.empty(), along_y = !c.tangent_y.empty() && c.has_y();
  if (along_x) tangent_x.upload(c.tangent_x), bind(buffers_.tangent_x, tangent_x);
  if (along_y) tangent_y.upload(c.tangent_y), bind(buffers_.tangent_y, tangent_y);
  buffers_.value_tangent = value_tangent.data();
  if (c.want_grad_x) bind(buffers_.grad_x_tangent, grad_x);
  if (want_grad_y) bind(buffers_.grad_y_tangent, grad_y);
  result.jvp_value = call_with_value(sdtw_jvp, "sdtw_jvp", &sdtw_sizes::jvp);
  if (along_x) tangent_x.check_unchanged();
  if (along_y) tangent_y.check_unchanged();
  check_state();
  result.value_tangent = value_tangent.download();
  if (c.want_grad_x) result.grad_x_tangent = grad_x.download();
  if (want_grad_y) result.grad_y_tangent = grad_y.download();
}

std::unique_ptr<Block> Session::upload_lengths(const std::vector<int64_t> &lengths) {
  if (lengths.empty()) return nullptr;
  const bool wide = case_.problem.length_bits == 64;
  auto block = std::make_unique<Block>(memory_, lengths.size() * (wide ? 8 : 4), 0xff);
  for (size_t b = 0; b < lengths.size(); ++b) {
    const int32_t narrow = static_cast<int32_t>(lengths[b]);
    if (wide)
      std::memcpy(block->image() + 8 * b, &lengths[b], 8);
    else
      std::memcpy(block->image() + 4 * b, &narrow, 4);
  }
  block->upload();
  return block;
}

std::vector<double> Session::call_with_value(Function function, const char *name, size_t sdtw_sizes::*bytes) {
  sdtw_exec exec = case_.exec;
  if (state_ && bytes != &sdtw_sizes::jvp) exec.flags &= ~uint32_t{SDTW_WITH_VALUE};
  if (!(exec.flags & SDTW_WITH_VALUE)) return call(function, name, bytes, exec), std::vector<double>{};
  Array value("value", memory_, value_type(case_), {case_.batch(), 1, 1}, Layout{}, case_.poison);
  buffers_.value = value.data();
  call(function, name, bytes, exec);
  buffers_.value = value_.data();
  return value.download();
}

void Session::call(Function function, const char *name, size_t sdtw_sizes::*bytes, const sdtw_exec &exec) {
  const ChosenKernels kernels(case_);
  require_ok(sdtw_get_sizes(&case_.problem, &exec, &sizes_), "sdtw_get_sizes");
  Block workspace(memory_, sizes_.*bytes, case_.poison);
  buffers_.workspace = workspace.data();
  buffers_.workspace_bytes = workspace.bytes();
  hide_padding();
  const sdtw_status status = function(&case_.problem, &buffers_, &exec);
  x_.reveal();
  y_.reveal();
  require_ok(status, name);
  if (!case_.checks_memory) return;
  workspace.check_guards("workspace");
  x_.check_unchanged();
  if (case_.has_y()) y_.check_unchanged();
  if (!case_.grad_value.empty()) grad_value_.check_unchanged();
}

void Session::hide_padding() {
  const Case &c = case_;
  if (c.exec.device != SDTW_CPU) return;
  const int64_t n = c.problem.n, m = c.problem.m, columns = c.shape_x()[2];
  // Of lengths out of range, which make a pair's results NaN, nothing is hidden.
  const auto steps = [](const std::vector<int64_t> &lengths, int64_t series, int64_t padded) {
    return lengths.empty() || lengths[series] > padded ? padded : lengths[series];
  };
  x_.hide_unread([&](int64_t s, int64_t i) {
    return i >= steps(c.x_len, s, n) ? 0 : c.fused() ? columns : steps(c.y_len, s, m);
  });
  if (c.has_y()) y_.hide_unread([&](int64_t s, int64_t j) { return j < steps(c.y_len, s, m) ? columns : 0; });
}

void Session::check_state() {
  if (!state_ || !case_.checks_memory) return;
  state_->download();
  if (!std::equal(state_after_forward_.begin(), state_after_forward_.end(), state_->image()))
    throw std::runtime_error("the state was written");
}

Result compute(const Case &c) {
  Session session(c);
  Result result;
  result.value = session.forward();
  if ((c.exec.flags & SDTW_NO_STATE) && !c.recompute) return result;
  if (c.want_grad_x || (c.want_grad_y && c.has_y())) session.backward(result);
  if (c.want_alignment) result.alignment = session.alignment(&result.alignment_value);
  if (!c.tangent_x.empty() || !c.tangent_y.empty()) session.jvp(result);
  // On a GPU, and of tangents, other kernels compute what is the same but for rounding: judge.h.
  for (const std::vector<double> *value : {&result.backward_value, &result.alignment_value})
    if (c.exec.device == SDTW_CPU && !value->empty() && !same(*value, result.value))
      throw std::runtime_error("the values beside gradients or alignments are not sdtw_forward's, of " + describe(c));
  return result;
}

}  // namespace test
