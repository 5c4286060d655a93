// src/overlap.h against a list of every byte of both arrays, and a call whose outputs lie in each other's gaps.
#include <set>

#include "check.h"
#include "overlap.h"

using namespace test;

namespace {

std::set<uintptr_t> bytes_of(const sdtw::Extent &a) {
  std::set<uintptr_t> bytes;
  const auto &s = a.strides;
  for (uintptr_t i = 0; i <= s[0].count; ++i)
    for (uintptr_t j = 0; j <= s[1].count; ++j)
      for (uintptr_t k = 0; k <= s[2].count; ++k)
        for (size_t byte = 0; byte < a.element; ++byte)
          bytes.insert(a.begin + i * s[0].bytes + j * s[1].bytes + k * s[2].bytes + byte);
  return bytes;
}

sdtw::Extent draw_extent(Random &random) {
  sdtw::Extent a;
  a.element = static_cast<size_t>(1) << random.integer(0, 3);
  a.begin = 1000 + static_cast<uintptr_t>(random.integer(0, 100)) * 4;
  a.end = a.begin + a.element;
  for (sdtw::Stride &step : a.strides) {
    step = {static_cast<uintptr_t>(random.integer(0, 30)) * 4, static_cast<uintptr_t>(random.integer(0, 5))};
    a.end += step.bytes * step.count;
  }
  return a;
}

}  // namespace

TEST_CASE("arrays share memory where they have a byte in common", "[overlap][cpu]") {
  Random random(6000);
  int shared = 0, apart = 0;
  for (int draw = 0; draw < 4000; ++draw) {
    const sdtw::Extent a = draw_extent(random), b = draw_extent(random);
    const std::set<uintptr_t> of_a = bytes_of(a), of_b = bytes_of(b);
    const bool expected = std::any_of(of_a.begin(), of_a.end(), [&](uintptr_t byte) { return of_b.count(byte) > 0; });
    INFO("draw " << draw);
    CHECK(sdtw::Overlap::exists(a, b) == expected);
    CHECK(sdtw::Overlap::exists(b, a) == expected);
    if (a.begin < b.end && b.begin < a.end) ++(expected ? shared : apart);
  }
  INFO(shared << " share memory, " << apart << " lie in each other's gaps");
  CHECK(std::min(shared, apart) > 200);
}

TEST_CASE("large arrays that interleave are told apart", "[overlap][cpu]") {
  constexpr uintptr_t base = uintptr_t(1) << 40;
  const auto rows = [&](uintptr_t offset, uintptr_t step, uintptr_t count, uintptr_t pitch, uintptr_t of_rows) {
    sdtw::Extent a;
    a.element = 4;
    a.begin = base + offset;
    a.strides[0] = {step, count - 1};
    a.strides[1] = {pitch, of_rows - 1};
    a.end = a.begin + 4 + step * (count - 1) + pitch * (of_rows - 1);
    return a;
  };
  // Z[:, 0::2] and Z[:, 1::2] of rows of even and odd length, and with one element more.
  for (const uintptr_t length : {1000000, 1000001}) {
    const sdtw::Extent even = rows(0, 8, (length + 1) / 2, 4 * length, 100000);
    CHECK_FALSE(sdtw::Overlap::exists(even, rows(4, 8, length / 2, 4 * length, 100000)));
    CHECK_FALSE(sdtw::Overlap::exists(rows(4, 8, length / 2, 4 * length, 100000), even));
    CHECK(sdtw::Overlap::exists(even, rows(8, 8, length / 2, 4 * length, 100000)));
  }
  CHECK(sdtw::Overlap::exists(rows(0, 8, 500001, 4000004, 9), rows(4, 8, 500001, 4000004, 9)));
}

TEST_CASE("gradients may interleave, and strides of one element be anything", "[overlap][cpu]") {
  constexpr int64_t batch = 6, rows = 5, n = 3, m = 2;
  Case c = random_case(6100, SDTW_SQEUCLIDEAN, batch, n, m, 1, 1);
  const Result expected = run(c);
  Session session(c);
  session.forward();
  // Z is [batch][rows]; the gradients are Z[:, 0::2] and Z[:, 1::2].
  std::vector<float> z(batch * rows, -1);
  sdtw_buffers &b = session.buffers();
  sdtw_sizes sizes;
  sdtw_sizes_init(&sizes, sizeof sizes);
  REQUIRE(sdtw_get_sizes(&c.problem, &c.exec, &sizes) == SDTW_STATUS_OK);
  std::vector<std::max_align_t> workspace(sizes.backward / sizeof(std::max_align_t) + 1);
  b.workspace = workspace.data();
  b.workspace_bytes = sizes.backward;
  for (const int64_t anything : {int64_t(0), INT64_MAX, INT64_MIN, int64_t(-1)}) {
    b.x.stride[2] = b.y.stride[2] = anything;  // of the one feature
    b.grad_x = {z.data(), {rows, 2, anything}};
    b.grad_y = {z.data() + 1, {rows, 2, anything}};
    INFO(sdtw_last_error());
    REQUIRE(sdtw_backward(&c.problem, &b, &c.exec) == SDTW_STATUS_OK);
    for (int64_t pair = 0; pair < batch; ++pair)
      for (int64_t row = 0; row < rows; ++row) {
        const auto &gradient = row % 2 ? expected.grad_y : expected.grad_x;
        CHECK(double(z[pair * rows + row]) == gradient[pair * (row % 2 ? m : n) + row / 2]);
      }
  }
  b.grad_y.data = z.data() + 2;
  CHECK(sdtw_backward(&c.problem, &b, &c.exec) == SDTW_STATUS_INVALID_ARGUMENT);
  CHECK(std::string(sdtw_last_error()).find("buffers.grad_y overlaps buffers.grad_x") != std::string::npos);
}

TEST_CASE("strides of one pair, one row, one column be anything", "[overlap][cpu]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const Size &size : {Size{1, 70}, Size{70, 1}, Size{1, 1}, Size{70, 80}}) {
      const Case c = random_case(6200, metric, 1, size.n, size.m, 1, 1);
      const Result expected = run(c);
      Session session(c);
      sdtw_buffers &b = session.buffers();
      for (const int64_t anything : {INT64_MAX, INT64_MIN}) {
        const auto spoil = [&](auto &array, int64_t rows, int64_t columns) {
          array.stride[0] = anything;
          if (rows == 1) array.stride[1] = anything;
          if (columns == 1) array.stride[2] = anything;
        };
        spoil(b.x, size.n, c.fused() ? 1 : size.m);
        if (c.fused()) spoil(b.y, size.m, 1);
        INFO(describe(c));
        CHECK(same(session.forward(), expected.value));
        CHECK(same(session.alignment(), expected.alignment));
      }
    }
}
