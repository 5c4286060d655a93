// Per-pair lengths: of both widths, given for one side or both, empty, out of range, and with NaN in the padding.
#include "family.h"

using namespace test;

namespace {

// NaN in every element of x and y (or of the cost) past the pair's own lengths: those must never be read.
void poison_padding(Case &c) {
  const auto poison = [](std::vector<double> &values, const Shape &shape, int64_t b, int64_t rows, int64_t columns) {
    for (int64_t i = 0; i < shape[1]; ++i)
      for (int64_t k = 0; k < shape[2]; ++k)
        if (i >= rows || k >= columns) values[(b * shape[1] + i) * shape[2] + k] = NAN;
  };
  for (int64_t b = 0; b < c.batch(); ++b) {
    poison(c.x, c.shape_x(), b, c.length_x(b), c.fused() ? c.problem.features : c.length_y(b));
    if (c.fused()) poison(c.y, c.shape_y(), b, c.length_y(b), c.problem.features);
  }
}

}  // namespace

TEST_CASE("lengths of every shape give the oracle's results", "[lengths]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    each_shape(3000, 30000, [&](uint64_t seed, int64_t batch, int64_t n, int64_t m) {
      Random random(seed);
      Case base = make_case(metric, batch, n, m, 1 + static_cast<int64_t>(seed % 3), 1);
      with_lengths(fill(base, random), random, seed % 3 ? 1 : 0);
      base.problem.length_bits = seed % 2 ? 32 : 64;
      poison_padding(base);
      check_everywhere(base);
    });
}

TEST_CASE("either side may have lengths alone", "[lengths]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const int64_t batch : {5, 18}) {
      Random random(3100);
      Case both = make_case(metric, batch, 37, 70, 2, 1);
      with_lengths(fill(both, random), random);
      Case only_x = both, only_y = both;
      only_x.y_len.clear();
      only_y.x_len.clear();
      check_everywhere(only_x);
      check_everywhere(only_y);
    }
}

TEST_CASE("empty series: both give 0, one gives infinity, gradients are 0", "[lengths]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const int64_t batch : {4, 20}) {
      Random random(3200);
      Case base = make_case(metric, batch, 20, 30, 2, 1);
      fill(base, random);
      for (int64_t b = 0; b < batch; ++b) {
        base.x_len.push_back(b % 4 < 2 ? 0 : 20);
        base.y_len.push_back(b % 2 == 0 ? 0 : 30);
      }
      poison_padding(base);
      for (const Case &c : variants(base)) {
        const Result result = run(c);
        check(c, result, reference(c));
        INFO(describe(c));
        CHECK(result.value[0] == 0);
        CHECK(result.value[1] == INFINITY);
        CHECK(result.value[2] == INFINITY);
        CHECK(std::isfinite(result.value[3]));
      }
    }
}

TEST_CASE("lengths of 0, 1, 2 and nearly all in one batch", "[lengths]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const Size &size : {Size{40, 70}, Size{300, 130}, Size{129, 520}}) {
      Random random(3250);
      Case base = make_case(metric, 36, size.n, size.m, 2, 1);
      fill(base, random);
      for (const int64_t n : {int64_t(0), int64_t(1), int64_t(2), size.n / 2, size.n - 1, size.n})
        for (const int64_t m : {size.m, int64_t(0), size.m / 2, int64_t(2), size.m - 1, int64_t(1)}) {
          base.x_len.push_back(n);
          base.y_len.push_back(m);
        }
      poison_padding(base);
      check_everywhere(base);
    }
}

TEST_CASE("a length out of range makes its own pair NaN", "[lengths]") {
  const int64_t wild64[] = {-1, 21, INT64_MIN, INT64_MAX, int64_t(1) << 32, -(int64_t(1) << 32) + 5};
  const int64_t wild32[] = {-1, 21, INT32_MIN, INT32_MAX, 1 << 16, -12345};
  for (const int bits : {32, 64})
    for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
      for (const int64_t batch : {13, 33}) {
        Random random(3300);
        Case base = make_case(metric, batch, 20, 20, 2, 1);
        fill(base, random);
        base.problem.length_bits = bits;
        base.x_len.assign(batch, 20);
        base.y_len.assign(batch, 19);
        for (int64_t k = 0; k < 6; ++k) {
          base.x_len[2 * k] = (bits == 32 ? wild32 : wild64)[k];
          base.y_len[2 * k + (k % 2)] = (bits == 32 ? wild32 : wild64)[5 - k];
        }
        check_everywhere(base);
      }
}

TEST_CASE("a pair's result does not depend on its padding", "[lengths]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED})
    for (const Size &size : {Size{1, 1}, Size{17, 31}, Size{64, 65}, Size{130, 70}})
      for (const int64_t padding : {1, 40, 200}) {
        const Case tight = random_case(3400, metric, 1, size.n, size.m, 2, 1);
        Case padded = make_case(metric, 1, size.n + padding, size.m + 2 * padding, 2, 1);
        padded.x.assign(padded.shape_x()[1] * padded.shape_x()[2], NAN);
        if (padded.fused()) padded.y.assign(padded.shape_y()[1] * padded.shape_y()[2], NAN);
        const int64_t wide = padded.shape_x()[2], narrow = tight.shape_x()[2];
        for (int64_t i = 0; i < size.n; ++i)
          for (int64_t k = 0; k < narrow; ++k) padded.x[i * wide + k] = tight.x[i * narrow + k];
        std::copy(tight.y.begin(), tight.y.end(), padded.y.begin());
        padded.x_len = {size.n};
        padded.y_len = {size.m};
        std::vector<Case> cases = variants(tight);
        for (size_t i = 0, known = cases.size(); i < known; ++i) {
          if (cases[i].exec.device != SDTW_CUDA || !cases[i].fused()) continue;
          cases.push_back(cases[i]);
          cases.back().core_kernels = cases.back().inline_costs = true;
        }
        for (const Case &c : cases) {
          padded.problem.dtype = c.problem.dtype, padded.exec = c.exec;
          padded.core_kernels = c.core_kernels, padded.inline_costs = c.inline_costs;
          const Result alone = run(c), within = run(padded);
          Result part;  // of the result within the padding
          part.value = within.value;
          for (int64_t i = 0; i < size.n; ++i) {
            const auto row = within.alignment.begin() + i * padded.problem.m, of_x = within.grad_x.begin() + i * wide;
            part.alignment.insert(part.alignment.end(), row, row + size.m);
            part.grad_x.insert(part.grad_x.end(), of_x, of_x + narrow);
          }
          part.grad_y.assign(within.grad_y.begin(), within.grad_y.begin() + alone.grad_y.size());
          INFO(describe(padded) << " against n" << size.n << " m" << size.m);
          // By other kernels, or from costs made by other warps, which round otherwise.
          if (may_be_short(c) != may_be_short(padded) || sweeps_with_costs(c) != sweeps_with_costs(padded)) {
            CHECK(close(c, alone, part));
            continue;
          }
          CHECK(same(alone.value, part.value));
          CHECK(same(alone.alignment, part.alignment));
          CHECK(same(alone.grad_x, part.grad_x));
          CHECK(same(alone.grad_y, part.grad_y));
        }
      }
}

// Each engine leaves checkpoints of its own pairs alone, as far as these go.
TEST_CASE("pairs of several engines that share a warp", "[lengths]") {
  check_line("metric=sqeuclidean dtype=f32 B=530 n=13 m=97 d=5 gamma=0.3737 data=pulses seed=2713006637 lengths=1");
}
