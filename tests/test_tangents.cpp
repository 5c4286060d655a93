// Directional derivatives: of values and of gradients, along tangents of the inputs.
#include "family.h"

using namespace test;

TEST_CASE("tangents of every metric are the oracle's", "[tangents]") {
  for (const char *metric : metric_names)
    for (const char *shape : {" B=2 n=40 m=33", " B=20 n=9 m=14", " B=1 n=1 m=20", " B=1 n=130 m=100"})
      for (const char *more : {" tangents=x", " tangents=xy lengths=0 grad=random layout=mixed"}) {
        const std::string features = std::string(metric) == "precomputed" ? "" : " d=3";
        check_line(std::string("metric=") + metric + shape + features + " gamma=0.5" + more);
      }
}

TEST_CASE("tangents of bands, steps, gamma = 0 and pairs are the oracle's", "[tangents]") {
  for (const char *rule : {" band=sakoe_chiba:4", " band=itakura:2", " weights=2,1,0.5 penalties=0,0.5,1", " pairs=all",
                           " pairs=symmetric", " state=no", " gamma=0.01", " gamma=100"})
    for (const char *metric : {"sqeuclidean", "euclidean"}) {
      const std::string line = std::string("metric=") + metric + " B=3 n=30 m=30 d=2 tangents=xy grad=random" + rule;
      check_line(line + " dtype=f32");
      check_line(line + " dtype=f64");
    }
  check_line("metric=sqeuclidean B=3 n=30 m=28 d=2 tangents=xy gamma=0 data=integers");
}

TEST_CASE("the value's tangent is the gradient's product with the tangents", "[tangents]") {
  for (const char *metric : metric_names)
    each_result(std::string("dtype=f64 metric=") + metric + (std::string(metric) == "precomputed" ? "" : " d=2") +
                    " n=50 m=40 gamma=0.3 tangents=xy",
                [](const Case &c, const Result &r) {
                  if (r.value_tangent.empty()) return;
                  const double expected = dot(r.grad_x, c.tangent_x) + dot(r.grad_y, c.tangent_y);
                  CHECK(near(r.value_tangent[0], expected, 1e-9 * (1 + std::abs(expected))));
                });
}

// <u, H v> = <v, H u>: second derivatives do not care about order. So jvp is its own transpose.
TEST_CASE("the Hessian is symmetric", "[tangents]") {
  for (const char *metric : metric_names)
    for (const char *rule : {" gamma=0.3", " gamma=0.05 band=sakoe_chiba:6", " weights=2,1,0.5"})
      each_result(std::string("dtype=f64 metric=") + metric + (std::string(metric) == "precomputed" ? "" : " d=2") +
                      " n=50 m=40 tangents=xy" + rule,
                  [](const Case &c, const Result &along_v) {
                    if (along_v.value_tangent.empty()) return;
                    Case other = c;
                    Random random(77);
                    for (auto *tangent : {&other.tangent_x, &other.tangent_y})
                      for (double &v : *tangent) v = random.normal();
                    const Result along_u = run(other);
                    const double there =
                        dot(c.tangent_x, along_u.grad_x_tangent) + dot(c.tangent_y, along_u.grad_y_tangent);
                    const double here =
                        dot(other.tangent_x, along_v.grad_x_tangent) + dot(other.tangent_y, along_v.grad_y_tangent);
                    CHECK(near(here, there, 1e-8 * (1 + std::abs(there))));
                  });
}

TEST_CASE("tangents are differences of gradients", "[tangents]") {
  each_result("dtype=f64 metric=cityblock B=2 n=30 m=20 d=3 gamma=2 tangents=xy", [](const Case &c, const Result &r) {
    if (r.value_tangent.empty()) return;
    constexpr double step = 1e-6;
    const auto at = [&](double by) {
      Case moved = c;
      for (size_t k = 0; k < c.x.size(); ++k) moved.x[k] += by * c.tangent_x[k];
      for (size_t k = 0; k < c.y.size(); ++k) moved.y[k] += by * c.tangent_y[k];
      moved.tangent_x.clear(), moved.tangent_y.clear();
      return run(moved);
    };
    const Result above = at(step), below = at(-step);
    for (size_t k = 0; k < r.grad_x.size(); ++k)
      CHECK(near((above.grad_x[k] - below.grad_x[k]) / (2 * step), r.grad_x_tangent[k], 1e-6));
    for (size_t b = 0; b < r.value.size(); ++b)
      CHECK(near((above.value[b] - below.value[b]) / (2 * step), r.value_tangent[b], 1e-6));
  });
}

TEST_CASE("pairs without a path or a value have tangents to match", "[tangents]") {
  for (const char *how : {" spoil=nan", " spoil=length", " lengths=0", " band=absolute:2 lengths=0"})
    for (const char *metric : {"sqeuclidean", "cosine"})
      check_line(std::string("metric=") + metric + " dtype=f32 B=6 n=20 m=16 d=2 tangents=xy" + how);
}

// The inverses of such norms squared are no doubles: derivatives of y's gradient had been NaN, or lacked a term.
TEST_CASE("on CPUs derivatives of the cosine's gradients do not see how long points are", "[tangents][cpu]") {
  each_result("dtype=f64 metric=cosine B=2 n=20 m=30 d=3 tangents=xy", [](const Case &c, const Result &here) {
    for (const bool along_y : {false, true})
      for (const double by : {0x1p-700, 0x1p700}) {
        Case plain = c, far = c;
        for (double &v : far.y) v *= by;
        for (double &v : far.tangent_y) v *= by;
        if (!along_y) plain.tangent_y.clear(), far.tangent_y.clear();
        const Result expected = along_y ? here : run(plain);
        Result result = run(far);
        for (double &g : result.grad_y_tangent) g *= by;
        CHECK(close(result.grad_x_tangent, expected.grad_x_tangent, 1e-12));
        CHECK(close(result.grad_y_tangent, expected.grad_y_tangent, 1e-12));
      }
  });
}

// Away from the path costs change by more than a double holds, times a probability of 0.
TEST_CASE("infinite derivatives of cells that no path visits count for nothing", "[tangents]") {
  each_result("dtype=f64 metric=sqeuclidean n=40 m=40 d=1 gamma=1e-3 tangents=x", [](const Case &c, const Result &) {
    Case far = c;
    for (size_t i = 0; i < far.x.size(); ++i) far.x[i] = far.y[i] = 1000 * static_cast<double>(i);
    far.tangent_x.assign(far.x.size(), 1e306);
    const Result r = run(far);
    if (r.value_tangent.empty()) return;
    CHECK(r.value[0] == 0);
    CHECK(r.value_tangent[0] == 0);
  });
}

TEST_CASE("tangents of costs that forbid a cell count for nothing, whatever they are", "[tangents]") {
  for (const char *type : {"f32", "f64"})
    each_result(std::string("metric=precomputed n=40 m=36 B=2 tangents=x dtype=") + type,
                [](const Case &c, const Result &) {
                  Case none = c, any = c;
                  for (size_t k = 0; k < c.x.size(); k += 7) {
                    if (k % 1440 == 0 || k % 1440 == 1439) continue;  // corners
                    none.x[k] = any.x[k] = INFINITY;
                    none.tangent_x[k] = 0;
                    any.tangent_x[k] = k % 2 ? NAN : INFINITY;
                  }
                  const Result expected = run(none), result = run(any);
                  if (result.value_tangent.empty()) return;
                  CHECK(result.value_tangent == expected.value_tangent);
                  CHECK(result.grad_x_tangent == expected.grad_x_tangent);
                });
}
