// Any strides: every layout of every array gives, bit for bit, what contiguous arrays give.
#include "check.h"

using namespace test;

namespace {

// Sizes and batches that reach both ways of filling vectors, with lengths on the second.
std::vector<Case> bases(sdtw_metric metric) {
  std::vector<Case> result;
  for (const int64_t batch : {2, 19}) {
    Random random(4000 + static_cast<uint64_t>(batch));
    Case c = make_case(metric, batch, 35, 67, 3, 1);
    fill(c, random);
    if (batch > 2) with_lengths(c, random);
    result.push_back(c);
  }
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
