// One computation through the C API, whatever the backend: a Case goes in, a Result comes out.
//
// Every buffer is guarded, outputs, state and workspace are poisoned before each call, and the harness throws when a
// call fails, writes where it must not, or changes an input. It uses no Catch2 macro, so that threads may call it.
#pragma once

#include <memory>
#include <sstream>

#include "array.h"
#include "backends.h"

namespace test {

struct Case {
  sdtw_problem problem;
  sdtw_exec exec;
  std::vector<double> x, y;           // contiguous; values that dtype can hold; SDTW_PRECOMPUTED: x is the cost
  std::vector<double> grad_value;     // empty: absent
  std::vector<int64_t> x_len, y_len;  // empty: absent
  Layout layout_x, layout_y, layout_grad_x, layout_grad_y, layout_alignment;
  unsigned char poison = 0xff;  // as a float or double: NaN
  bool want_grad_x = true, want_grad_y = true, want_alignment = true;
  bool checks_memory = true;  // guards, inputs and state, after every call: most of a small problem's time on a GPU

  bool fused() const { return problem.metric != SDTW_PRECOMPUTED; }
  int64_t batch() const { return problem.batch_x; }
  Shape shape_x() const { return {batch(), problem.n, fused() ? problem.features : problem.m}; }
  Shape shape_y() const { return {batch(), problem.m, problem.features}; }
  Shape shape_alignment() const { return {batch(), problem.n, problem.m}; }
  int64_t length_x(int64_t b) const { return x_len.empty() ? problem.n : x_len[b]; }
  int64_t length_y(int64_t b) const { return y_len.empty() ? problem.m : y_len[b]; }
};

struct Result {
  std::vector<double> value, grad_x, grad_y, alignment;  // contiguous
};

inline Case make_case(sdtw_metric metric, int64_t batch, int64_t n, int64_t m, int64_t features, double gamma) {
  Case c{};
  sdtw_problem_init(&c.problem, sizeof c.problem);
  sdtw_exec_init(&c.exec, sizeof c.exec);
  c.problem.metric = metric;
  c.problem.batch_x = c.problem.batch_y = batch;
  c.problem.n = n;
  c.problem.m = m;
  c.problem.features = metric == SDTW_PRECOMPUTED ? 0 : features;
  c.problem.gamma = gamma;
  c.exec.device = options().device;
  c.exec.num_threads = 1;
  return c;
}

inline std::string describe(const Case &c) {
  const sdtw_problem &p = c.problem;
  std::ostringstream text;
  text << (c.fused() ? "sqeuclidean" : "precomputed") << (p.dtype == SDTW_F64 ? " f64" : " f32") << " B" << p.batch_x
       << " n" << p.n << " m" << p.m << " d" << p.features << " gamma " << p.gamma << " threads " << c.exec.num_threads
       << " isa " << c.exec.cpu_isa << (c.exec.device == SDTW_CUDA ? " cuda" : " cpu");
  if (!c.x_len.empty() || !c.y_len.empty()) text << " lengths int" << p.length_bits;
  text << " x " << c.layout_x.name << " y " << c.layout_y.name << " grad_x " << c.layout_grad_x.name << " grad_y "
       << c.layout_grad_y.name << " alignment " << c.layout_alignment.name;
  return text.str();
}

// The same case on every backend, in both dtypes. Inputs must be values that float32 can hold.
inline std::vector<Case> variants(const Case &base) {
  std::vector<Case> result;
  for (const Backend &backend : backends())
    for (const sdtw_dtype dtype : {SDTW_F32, SDTW_F64}) {
      result.push_back(base);
      result.back().problem.dtype = dtype;
      result.back().exec.device = backend.device;
      result.back().exec.cpu_isa = backend.isa;
    }
  return result;
}

inline void require_ok(sdtw_status status, const char *function) {
  if (status != SDTW_STATUS_OK)
    throw std::runtime_error(std::string(function) + ": " + sdtw_status_string(status) + ": " + sdtw_last_error());
}

// The buffers of a Case, and its calls one by one. Refers to the case: exec may change between calls, the rest may not.
class Session {
 public:
  explicit Session(const Case &c)
      : case_(c),
        memory_(memory_of(c.exec.device)),
        x_("x", memory_, c.problem.dtype, c.shape_x(), c.layout_x, 0xff),
        y_("y", memory_, c.problem.dtype, c.fused() ? c.shape_y() : Shape{0, 0, 0}, c.layout_y, 0xff),
        value_("value", memory_, value_dtype(), {c.batch(), 1, 1}, Layout{}, c.poison),
        grad_value_("grad_value", memory_, value_dtype(), {c.batch(), 1, 1}, Layout{}, 0xff) {
    sdtw_sizes_init(&sizes_, sizeof sizes_);
    require_ok(sdtw_get_sizes(&c.problem, &c.exec, &sizes_), "sdtw_get_sizes");
    sdtw_buffers_init(&buffers_, sizeof buffers_);
    x_.upload(c.x);
    bind(buffers_.x, x_);
    if (c.fused()) {
      y_.upload(c.y);
      bind(buffers_.y, y_);
    }
    x_len_ = upload_lengths(c.x_len);
    y_len_ = upload_lengths(c.y_len);
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

  sdtw_buffers &buffers() { return buffers_; }  // for arrays that are not the harness's own

  std::vector<double> forward() {
    buffers_.value = value_.data();
    call(sdtw_forward, "sdtw_forward", &sdtw_sizes::forward);
    if (state_ && case_.checks_memory) {
      state_->download();
      state_->check_guards("state");
      state_after_forward_.assign(state_->image(), state_->image() + state_->bytes());
    }
    return value_.download();
  }

  void backward(Result &result) {
    const Case &c = case_;
    const bool want_grad_y = c.want_grad_y && c.fused();
    Array grad_x("grad_x", memory_, c.problem.dtype, c.shape_x(), c.layout_grad_x, c.poison);
    Array grad_y("grad_y", memory_, c.problem.dtype, c.fused() ? c.shape_y() : Shape{0, 0, 0}, c.layout_grad_y,
                 c.poison);
    if (c.want_grad_x) bind(buffers_.grad_x, grad_x);
    if (want_grad_y) bind(buffers_.grad_y, grad_y);
    call(sdtw_backward, "sdtw_backward", &sdtw_sizes::backward);
    buffers_.grad_x = buffers_.grad_y = {};
    check_state();
    if (c.want_grad_x) result.grad_x = grad_x.download();
    if (want_grad_y) result.grad_y = grad_y.download();
  }

  std::vector<double> alignment() {
    Array alignment("alignment", memory_, case_.problem.dtype, case_.shape_alignment(), case_.layout_alignment,
                    case_.poison);
    bind(buffers_.alignment, alignment);
    call(sdtw_alignment, "sdtw_alignment", &sdtw_sizes::alignment);
    check_state();
    return alignment.download();
  }

 private:
  sdtw_dtype value_dtype() const { return case_.problem.dtype == SDTW_F64 ? SDTW_F64 : SDTW_F32; }

  template <class Binding>
  static void bind(Binding &binding, const Array &array) {
    binding.data = array.data();
    std::copy(array.strides().begin(), array.strides().end(), binding.stride);
  }

  std::unique_ptr<Block> upload_lengths(const std::vector<int64_t> &lengths) {
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

  template <class Function>
  void call(Function function, const char *name, size_t sdtw_sizes::*bytes) {
    require_ok(sdtw_get_sizes(&case_.problem, &case_.exec, &sizes_), "sdtw_get_sizes");
    Block workspace(memory_, sizes_.*bytes, case_.poison);
    buffers_.workspace = workspace.data();
    buffers_.workspace_bytes = workspace.bytes();
    hide_padding();
    const sdtw_status status = function(&case_.problem, &buffers_, &case_.exec);
    x_.reveal();
    y_.reveal();
    require_ok(status, name);
    if (!case_.checks_memory) return;
    workspace.check_guards("workspace");
    x_.check_unchanged();
    if (case_.fused()) y_.check_unchanged();
    if (!case_.grad_value.empty()) grad_value_.check_unchanged();
  }

  // Rows and columns past a pair's lengths are never read.
  void hide_padding() {
    const Case &c = case_;
    if (c.exec.device != SDTW_CPU) return;
    const int64_t n = c.problem.n, m = c.problem.m, columns = c.shape_x()[2];
    const auto within = [](int64_t index, int64_t length, int64_t padded) { return index < length || length > padded; };
    x_.hide_unread([&](size_t k) {
      const int64_t b = static_cast<int64_t>(k) / columns / n, i = static_cast<int64_t>(k) / columns % n;
      return within(i, c.length_x(b), n) && (c.fused() || within(static_cast<int64_t>(k) % columns, c.length_y(b), m));
    });
    if (!c.fused()) return;
    y_.hide_unread([&](size_t k) {
      const int64_t b = static_cast<int64_t>(k) / columns / m, j = static_cast<int64_t>(k) / columns % m;
      return within(j, c.length_y(b), m);
    });
  }

  // Backward and alignment only read the state.
  void check_state() {
    if (!state_ || !case_.checks_memory) return;
    state_->download();
    if (!std::equal(state_after_forward_.begin(), state_after_forward_.end(), state_->image()))
      throw std::runtime_error("the state was written");
  }

  const Case &case_;
  Memory &memory_;
  sdtw_sizes sizes_{};
  sdtw_buffers buffers_{};
  Array x_, y_, value_, grad_value_;
  std::unique_ptr<Block> x_len_, y_len_, state_;
  std::vector<unsigned char> state_after_forward_;
};

// Forward and whatever else the case wants. Most tests call run (run.h), which looks at alignments, too.
inline Result compute(const Case &c) {
  Session session(c);
  Result result;
  result.value = session.forward();
  if (c.exec.flags & SDTW_NO_STATE) return result;
  if (c.want_grad_x || (c.want_grad_y && c.fused())) session.backward(result);
  if (c.want_alignment) result.alignment = session.alignment();
  return result;
}

}  // namespace test
