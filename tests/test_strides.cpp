// Any strides: every layout of every array gives, bit for bit, what contiguous arrays give.
#include <cstdlib>

#include "check.h"

using namespace test;

namespace {

// Sizes and batches that reach both ways of filling vectors, with lengths on the second, and so many features that
// vectors go along them.
std::vector<Case> bases(sdtw_metric metric) {
  std::vector<Case> result;
  const auto add = [&](int64_t batch, int64_t features) {
    Random random(4000 + static_cast<uint64_t>(batch));
    Case c = make_case(metric, batch, 35, 67, features, 1);
    fill(c, random);
    if (batch > 2) with_lengths(c, random);
    result.push_back(c);
  };
  add(2, 3), add(19, 3);
  if (metric != SDTW_PRECOMPUTED) add(2, 17);
  return result;
}

// Makes the values of an input what a layout that repeats them can hold.
void repeat(std::vector<double> &values, const Shape &shape, const Layout &layout) {
  if (!layout.repeats) return;
  const Strides strides = layout.strides(shape);
  for (int64_t a = 0; a < shape[0]; ++a)
    for (int64_t b = 0; b < shape[1]; ++b)
      for (int64_t c = 0; c < shape[2]; ++c) {
        const int64_t source[3] = {strides[0] ? a : 0, strides[1] ? b : 0, strides[2] ? c : 0};
        values[(a * shape[1] + b) * shape[2] + c] = values[(source[0] * shape[1] + source[1]) * shape[2] + source[2]];
      }
}

void check_input_layout(Case base, const Layout &layout) {
  repeat(base.x, base.shape_x(), layout);
  if (base.fused()) repeat(base.y, base.shape_y(), layout);
  for (Case c : variants(base)) {
    const Result expected = run(c);
    c.layout_x = layout;
    if (c.fused()) {
      INFO(describe(c));
      CHECK(same(run(c), expected));
      c.layout_y = layout;
    }
    INFO(describe(c));
    CHECK(same(run(c), expected));
    c.layout_x = Layout{};
    INFO(describe(c));
    CHECK(same(run(c), expected));
  }
}

}  // namespace

TEST_CASE("inputs in any layout", "[strides]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const Case &base : bases(metric)) {
      for (const Layout &layout : distinct_layouts) check_input_layout(base, layout);
      for (const Layout &layout : repeating_layouts) check_input_layout(base, layout);
    }
}

TEST_CASE("outputs in any layout, gaps untouched", "[strides]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const Case &base : bases(metric))
      for (Case c : variants(base)) {
        const Result expected = run(c);
        for (const Layout &layout : distinct_layouts) {
          c.layout_grad_x = c.layout_grad_y = c.layout_alignment = layout;
          INFO(describe(c));
          CHECK(same(run(c), expected));
        }
      }
}

TEST_CASE("layouts of inputs and outputs at once", "[strides]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const Case &base : bases(metric)) {
      const size_t count = std::size(distinct_layouts);
      for (Case c : variants(base)) {
        const Result expected = run(c);
        for (size_t k = 0; k < count; ++k) {
          c.layout_x = distinct_layouts[k];
          c.layout_y = distinct_layouts[(k + 1) % count];
          c.layout_grad_x = distinct_layouts[(k + 2) % count];
          c.layout_grad_y = distinct_layouts[(k + 3) % count];
          c.layout_alignment = distinct_layouts[(k + 4) % count];
          INFO(describe(c));
          CHECK(same(run(c), expected));
        }
      }
    }
}

TEST_CASE("strides of more than 2^31 elements", "[strides]") {
  constexpr int64_t n = 20, m = 30, far = (int64_t(1) << 31) + 64;
  constexpr size_t bytes = (far + 1024) * sizeof(float);
  Memory &memory = memory_of(options().device);
  float *const x = static_cast<float *>(memory.allocate(bytes));
  float *const grad_x = static_cast<float *>(memory.allocate(bytes));
  if (x == nullptr || grad_x == nullptr) {
    WARN("skipped: this machine lends no 16 GiB of addresses");
    memory.release(x, bytes);
    memory.release(grad_x, bytes);
    return;
  }
  const Case base = random_case(4100, SDTW_SQEUCLIDEAN, 2, n, m, 1, 1);
  for (Case c : variants(base)) {
    if (c.problem.dtype != SDTW_F32) continue;
    const Result expected = run(c);
    Session session(c);
    for (int64_t b = 0; b < 2; ++b)  // the second series first
      memory.upload(x + (1 - b) * far, std::vector<float>(&c.x[b * n], &c.x[b * n] + n).data(), n * sizeof(float));
    session.buffers().x = {x + far, {-far, 1, 1}};
    session.forward();
    Result result;
    c.want_grad_x = false;
    session.buffers().grad_x = {grad_x, {far, 1, 1}};
    session.backward(result);
    bool equal = same(result.grad_y, expected.grad_y);
    for (int64_t b = 0; b < 2; ++b) {
      std::vector<float> gradient(n);
      memory.download(gradient.data(), grad_x + b * far, n * sizeof(float));
      equal &= std::equal(gradient.begin(), gradient.end(), &expected.grad_x[b * n]);
    }
    INFO(describe(c));
    CHECK(equal);
  }
  memory.release(x, bytes);
  memory.release(grad_x, bytes);
}

// Else gaps and padding might be read unseen: suites are compiled without the sanitizer, which for a while had left
// nothing hidden.
TEST_CASE("AddressSanitizer sees what is hidden, where it is to", "[strides]") {
  if (std::getenv("SDTW_TESTS_SANITIZED") != nullptr) CHECK(has_address_sanitizer());
}
