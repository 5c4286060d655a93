// All pairs, symmetric ones, and calls without state.
#include "family.h"
#include "plan.h"
#include "skips.h"

using namespace test;

namespace {

// The same pairs as a batch, each series as often as it takes.
Case as_batch(const Case &c) {
  Case each = c;
  const sdtw_problem &p = c.problem;
  each.problem.flags = 0;
  each.problem.batch_x = each.problem.batch_y = c.batch();
  each.x.clear(), each.y.clear(), each.x_len.clear(), each.y_len.clear();
  const std::vector<double> &y = c.symmetric() ? c.x : c.y;
  const int64_t step_x = p.n * p.features, step_y = p.m * p.features;
  for (int64_t b = 0; b < c.batch(); ++b) {
    each.x.insert(each.x.end(), c.x.begin() + c.index_x(b) * step_x, c.x.begin() + (c.index_x(b) + 1) * step_x);
    each.y.insert(each.y.end(), y.begin() + c.index_y(b) * step_y, y.begin() + (c.index_y(b) + 1) * step_y);
    if (!c.x_len.empty()) each.x_len.push_back(c.length_x(b)), each.y_len.push_back(c.length_y(b));
  }
  return each;
}

// Gradients of the batch's series, summed up for those that they are copies of.
std::vector<double> summed(const Case &c, const std::vector<double> &each, bool of_x) {
  const int64_t series = of_x ? c.series_x() : c.series_y(), step = static_cast<int64_t>(each.size()) / c.batch();
  std::vector<double> result(series * step);
  for (int64_t b = 0; b < c.batch(); ++b)
    for (int64_t k = 0; k < step; ++k) result[(of_x ? c.index_x(b) : c.index_y(b)) * step + k] += each[b * step + k];
  return result;
}

constexpr const char *shapes[] = {" B=3x4 n=40 m=33 d=3", " B=7x5 n=12 m=17 d=2", " B=1x6 n=30 m=20 d=1",
                                  " B=5x1 n=20 m=70 d=9"};

}  // namespace

TEST_CASE("all pairs are the oracle's", "[pairs]") {
  for (const char *metric : {"sqeuclidean", "euclidean", "cosine"})
    for (const char *shape : shapes)
      for (const char *more : {"", " lengths=0 grad=random layout=mixed"})
        check_line(std::string("metric=") + metric + shape + " pairs=all gamma=0.5" + more);
  for (const char *more : {"", " state=no"})
    check_line(std::string("metric=precomputed B=3x4 n=20 m=30 pairs=all gamma=0.5 lengths=1 grad=random") + more);
}

TEST_CASE("all pairs are a batch of every x with every y", "[pairs]") {
  for (const char *shape : shapes)
    each_result(std::string(shape) + " pairs=all gamma=0.5 lengths=1", [](const Case &c, const Result &here) {
      if (is_half(c.problem.dtype)) return;  // whose sums are of rounded numbers here
      const Case each = as_batch(c);
      Result there = run(each);
      there.grad_x = summed(c, there.grad_x, true);
      there.grad_y = summed(c, there.grad_y, false);
      CHECK(close(c, here, there));
    });
}

TEST_CASE("symmetric pairs are all pairs of x with itself", "[pairs]") {
  for (const char *metric : {"sqeuclidean", "euclidean"})
    for (const char *more : {" B=5 n=33", " B=9 n=12 lengths=0", " B=6 n=20 grad=random gamma=0",
                             " B=4 n=30 weights=1,2,2 band=sakoe_chiba:5"})
      each_result(std::string("metric=") + metric + " d=2 pairs=symmetric" + more,
                  [](const Case &c, const Result &here) {
                    Case both = c;
                    both.problem.flags = SDTW_ALL_PAIRS;
                    both.y = c.x, both.y_len = c.x_len;
                    Result there = run(both);
                    for (size_t k = 0; k < there.grad_x.size(); ++k) there.grad_x[k] += there.grad_y[k];
                    CHECK(close(here.value, there.value, between(c)));
                    CHECK(close(here.grad_x, there.grad_x, 2 * between(c)));
                    CHECK(close(here.alignment, there.alignment, between(c)));
                    const int64_t series = c.series_x();
                    for (int64_t i = 0; i < series; ++i)
                      for (int64_t j = 0; j < i; ++j) CHECK(here.value[i * series + j] == here.value[j * series + i]);
                  });
}

TEST_CASE("symmetric pairs are the oracle's", "[pairs]") {
  for (const sdtw_metric metric : metrics_of_series())
    for (const char *more : {" B=5 n=33 d=3", " B=9 n=12 d=1 lengths=0 grad=random", " B=1 n=20 d=2",
                             " B=6 n=20 d=2 gamma=0 data=integers"})
      check_line(std::string("metric=") + metric_names[metric] + " pairs=symmetric" + more);
}

TEST_CASE("a series that is no good spoils what it is in alone", "[pairs]") {
  for (const char *how : {"nan", "length"})
    for (const char *pairs : {" B=4x3 pairs=all", " B=4 pairs=symmetric"})
      check_line(std::string("dtype=f32 n=20 m=20 d=2 gamma=0.5 spoil=") + how + pairs);
}

TEST_CASE("without state everything is as with it", "[pairs]") {
  for (const char *metric : {"sqeuclidean", "cityblock", "precomputed"})
    for (const char *shape : {" B=3 n=70 m=64", " B=40 n=12 m=17", " B=1 n=300 m=200"})
      for (const char *more : {"", " lengths=0 grad=random layout=mixed", " band=sakoe_chiba:5", " weights=2,1,1"})
        each_result(std::string("metric=") + metric + shape + " gamma=0.5 state=no" + more,
                    [](const Case &c, const Result &here) {
                      Case with = c;
                      with.exec.flags = 0;
                      const Result there = run(with);
                      CHECK(close(here.value, there.value, between(c)));
                      if (here.alignment.empty()) return;  // refused, and counted
                      CHECK(close(c, here, there));
                    });
  check_line("B=5x6 n=33 m=20 d=2 pairs=all state=no gamma=0.5 grad=random");
  check_line("B=6 n=33 m=33 d=2 pairs=symmetric state=no gamma=0.5 grad=random");
}

namespace {

// Of one or two features and of more; of pairs that share a warp, have one of their own, or several.
constexpr const char *of_core[] = {" B=5x7 n=40 m=33 d=1",  " B=3x5 n=20 m=30 d=2",  " B=5x6 n=25 m=17 d=5",
                                   " B=3x3 n=60 m=40 d=19", " B=3x2 n=50 m=20 d=9",  " B=2x3 n=90 m=70 d=3",
                                   " B=2x3 n=140 m=50 d=1", " B=2x2 n=270 m=40 d=4", " B=1x9 n=30 m=300 d=8",
                                   " B=9x1 n=30 m=20 d=8"};
constexpr const char *of_core_symmetric[] = {" B=5 n=33 d=1", " B=6 n=20 d=3", " B=4 n=60 d=2",
                                             " B=3 n=50 d=9", " B=3 n=70 d=6", " B=3 n=140 d=2"};

// Waves of few pairs.
struct SmallWaves : CudaLimits {
  explicit SmallWaves(size_t bytes) { sdtw::cuda::limits.bytes_of_wave = bytes; }
};

}  // namespace

TEST_CASE("all pairs without state are the oracle's, in one wave and in several", "[pairs]") {
  for (const size_t bytes : {size_t{192} << 20, size_t{100000}, size_t{1}}) {
    const SmallWaves waves(bytes);
    for (const char *shape : of_core)
      check_line(std::string(shape) + " pairs=all state=no gamma=0.5 lengths=0 grad=random layout=mixed");
    for (const char *shape : of_core_symmetric)
      check_line(std::string(shape) + " pairs=symmetric state=no gamma=0.5 lengths=0 grad=random layout=mixed");
  }
  for (const char *more : {" gamma=0.001", " gamma=0.5 data=mixed", " gamma=0.5 lengths=1", " gamma=2 scale=100"}) {
    check_line(std::string("B=3x4 n=40 m=30 d=3 pairs=all state=no grad=random") + more);
    check_line(std::string("B=5 n=40 d=1 pairs=symmetric state=no grad=random") + more);
  }
}

// Where values alone have other kernels than values and gradients.
TEST_CASE("values of many pairs of few features are the oracle's", "[pairs]") {
  for (const char *features : {" d=4", " d=5", " d=6", " d=7", " d=8"})
    for (const char *shape : {"B=23x24 n=70 m=3 pairs=all", "B=33x32 n=34 m=3 pairs=all", "B=270 n=140 m=2"})
      check_line(std::string(shape) + features + " state=none gamma=0.5 dtype=f32 layout=mixed lengths=1");
  check_line("B=47x47 n=5 m=7 d=4 pairs=all state=none gamma=0.5 dtype=f32");
  check_line("B=23x24 n=70 m=5 d=6 pairs=all state=none gamma=0.01 dtype=f32 data=mixed spoil=nan");
}

TEST_CASE("without state, too, a series that is no good spoils what it is in alone", "[pairs]") {
  const SmallWaves waves(100000);
  for (const char *how : {"nan", "length", "inf"})
    for (const char *pairs : {" B=4x3 pairs=all", " B=4 pairs=symmetric"})
      for (const char *features : {" d=2", " d=5"})
        check_line(std::string("dtype=f32 n=20 m=20 gamma=0.5 state=no spoil=") + how + pairs + features);
}

TEST_CASE("values of all pairs do not depend on the waves, nor gradients on the run", "[pairs]") {
  for (const char *line : {"B=5x7 n=40 m=33 d=1 pairs=all state=no", "B=5x7 n=40 m=30 d=9 pairs=all state=no",
                           "B=6 n=50 m=50 d=3 pairs=symmetric state=no"})
    for (const Case &c : on_backends(line)) {
      const Result first = run(c), second = run(c);
      CHECK(first.value == second.value);
      CHECK(first.grad_x == second.grad_x);
      CHECK(first.grad_y == second.grad_y);
      const SmallWaves waves(50000);
      CHECK(run(c).value == first.value);
    }
}

TEST_CASE("workspace without state does not grow with the pairs", "[pairs]") {
  for (const Backend &backend : backends()) {
    const auto bytes = [&](int64_t batch) -> size_t {
      Case c = make_case(SDTW_SQEUCLIDEAN, batch, 128, 128, 3, 1);
      c.problem.flags = SDTW_ALL_PAIRS;
      c.exec.device = backend.device;
      c.exec.cpu_isa = backend.isa;
      c.exec.flags = SDTW_NO_STATE;
      sdtw_sizes sizes;
      sdtw_sizes_init(&sizes, sizeof sizes);
      const sdtw_status status = sdtw_get_sizes(&c.problem, &c.exec, &sizes);
      if (status == SDTW_STATUS_UNSUPPORTED) return skips().add(sdtw_last_error()), 0;
      CHECK(status == SDTW_STATUS_OK);
      CHECK(sizes.state == 0);
      return std::max({sizes.forward, sizes.backward, sizes.alignment});
    };
    INFO(backend.name);
    CHECK(bytes(256) <= size_t(256) << 20);
    // Beside what the series themselves take.
    CHECK(bytes(1000) <= bytes(256) + (size_t(64) << 20) + 1000 * 128 * 3 * 64);
  }
}
