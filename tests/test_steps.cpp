// Step weights and penalties.
#include "family.h"

using namespace test;

TEST_CASE("weights and penalties in many shapes are the oracle's", "[steps]") {
  uint64_t seed = 0;
  for (const char *rule : {"weights=2,1,1", "weights=1,1,1 penalties=0,2,2", "weights=1,0.5,2 penalties=0.25,-0.5,1",
                           "weights=0,1,2", "weights=1,1,0 penalties=0,0,3"})
    for (const Size &size : {Size{1, 1}, {1, 9}, {12, 1}, {16, 16}, {33, 40}, {129, 100}, {30, 130}}) {
      std::ostringstream line;
      ++seed;
      line << "dtype=" << every_type[seed % 2] << " metric=" << metric_names[seed % std::size(metric_names)]
           << " B=" << 1 + 8 * (seed % 3) << " n=" << size.n << " m=" << size.m << (seed % 5 ? " d=2" : "")
           << " gamma=" << (seed % 3 ? 0.5 : 5) << " " << rule << " grad=random seed=" << seed;
      check_line(line.str());
    }
}

TEST_CASE("weights and penalties with lengths, in every type", "[steps]") {
  for (const char *metric : {"sqeuclidean", "cityblock", "precomputed"})
    for (const char *shape : {" B=5 n=40 m=52", " B=40 n=14 m=11"})
      check_line(std::string("metric=") + metric + shape +
                 " gamma=0.3 weights=2,1,0.5 penalties=0,0.5,1 lengths=0 layout=mixed grad=random");
}

TEST_CASE("penalties of many bits, of the diagonal step as well", "[steps]") {
  for (const char *penalties : {"0.125,1,1", "0,4,16", "-0.5,0.25,-2"})
    for (const char *shape : {"n=6 m=6 d=1", "n=1 m=17 d=1", "n=150 m=97 d=2", "n=20 m=17 d=9"})
      for (const char *gamma : {"0.001", "0.07"})
        check_line(std::string("metric=cityblock dtype=f32 B=2 ") + shape + " gamma=" + gamma +
                   " penalties=" + penalties);
}

// Where y is x resampled, hundreds of steps of one kind cost only their penalty: rounded to a float32 factor it had
// left values off by 1.25 times what is allowed.
TEST_CASE("errors of penalties' factors do not add up", "[steps]") {
  for (const char *gamma : {"1", "5", "19.3854", "20", "30", "50"})
    for (const char *shape : {"n=102 m=496", "n=496 m=102", "n=300 m=310"})
      check_line(std::string("metric=cityblock dtype=f32 B=2 d=34 penalties=0.125,-0.25,-0.25 data=equal scale=18.5 ") +
                 shape + " gamma=" + gamma + " seed=701126256");
}

// The usual weights, which have kernels of their own on GPUs: strips one behind the other, products, every metric.
TEST_CASE("a diagonal step of twice the weight of the others is the oracle's", "[steps]") {
  for (const char *rule :
       {"n=300 m=280 d=2", "n=70 m=150 d=64", "n=140 m=60 d=20 metric=cosine",
        "n=257 m=200 d=1 metric=euclidean gamma=30", "n=129 m=260 d=3 metric=cityblock lengths=0",
        "n=40 m=33 metric=precomputed", "n=200 m=210 d=2 pairs=all", "n=300 m=300 d=2 band=sakoe_chiba:20",
        "n=150 m=150 d=2 band=itakura:2 lengths=0", "n=5 m=700 d=1 data=equal", "n=300 m=290 d=2 gamma=0.0001",
        "n=80 m=90 d=3 data=spikes gamma=0.01"})
    for (const char *weights : {"2,1,1", "0.5,0.25,0.25", "3,1.5,1.5", "1.3,1,1"})
      check_line(std::string("dtype=f32 B=2 ") + rule + " weights=" + weights + " grad=random seed=7");
  check_line("dtype=f32 B=2 n=300 m=280 d=2 weights=2,1,1 penalties=0,0.5,0.5 seed=8");
}

// On CPUs pairs have a lane each: costs of every form, bands, tiles behind each other, the minimum, tangents beside.
TEST_CASE("weights and penalties of many short pairs are the oracle's", "[steps]") {
  const char *const rules[] = {"weights=2,1,1", "weights=1.5,0.5,0.5", "penalties=0.125,1,2",
                               "weights=0.5,0,2 penalties=-0.5,0.25,4"};
  uint64_t seed = 0;
  for (const char *problem :
       {"B=40 n=33 m=70 d=3", "B=40 n=5 m=7 d=1 dtype=f64", "B=33 n=66 m=40 d=2 band=sakoe_chiba:6 lengths=20",
        "B=40 n=20 m=300 d=2 metric=euclidean gamma=30", "B=35 n=40 m=33 metric=precomputed lengths=0",
        "B=35 n=16 m=7 metric=precomputed gamma=0.0005", "B=36 n=70 m=35 d=20 metric=cosine gamma=0.01",
        "B=33 n=40 m=40 d=4 metric=cityblock gamma=0.001", "B=9x7 n=34 m=50 d=2 pairs=all state=no",
        "B=34 n=40 m=50 d=2 dtype=f16 data=spikes gamma=0.01", "B=50 n=37 m=34 d=2 tangents=xy",
        "B=40 n=33 m=70 d=2 gamma=0", "B=40 n=35 m=34 d=1 gamma=0 band=itakura:2 lengths=9",
        "B=34 n=50 m=31 metric=precomputed gamma=0 dtype=f64"})
    for (const char *rule : rules)
      check_line(std::string(problem) + " " + rule + " grad=random seed=" + std::to_string(++seed));
}

TEST_CASE("weights of 2 are costs twice as large", "[steps]") {
  each_result("metric=precomputed B=3 n=40 m=33 gamma=0.5 weights=2,2,2", [](const Case &c, const Result &here) {
    Case twice = c;
    for (double &cost : twice.x) cost *= 2;
    std::fill(twice.problem.step_weight, twice.problem.step_weight + 3, 1.);
    Result there = run(twice);
    for (double &g : there.grad_x) g *= 2;
    CHECK(close(c, there, here));
  });
}

TEST_CASE("transposing swaps vertical and horizontal steps", "[steps]") {
  each_result("B=3 n=40 m=33 d=2 gamma=0.5 weights=1,2,0.5 penalties=0,0.5,1", [](const Case &c, const Result &here) {
    Case swapped = c;
    std::swap(swapped.x, swapped.y);
    std::swap(swapped.problem.n, swapped.problem.m);
    std::swap(swapped.problem.step_weight[1], swapped.problem.step_weight[2]);
    std::swap(swapped.problem.step_penalty[1], swapped.problem.step_penalty[2]);
    Result there = run(swapped);
    std::swap(there.grad_x, there.grad_y);
    there.alignment = transposed_pairs(there.alignment, c.batch(), c.problem.m, c.problem.n);
    CHECK(close(c, there, here));
  });
}

TEST_CASE("weights of any size leave gradients whole", "[steps]") {
  for (const char *shape : {" n=20 m=23 B=17", " n=150 m=140"}) {
    for (const char *problem : {
             "metric=sqeuclidean d=1 scale=1e12 weights=1e-26,1e-26,1e-26",
             "metric=precomputed d=0 scale=1e24 weights=1e-26,1e-26,1e-26",
             "metric=euclidean d=1 gamma=1e6 scale=1e18 weights=1e-8,1e-8,1e-8",
             "metric=euclidean d=1 gamma=1e28 scale=1e37 weights=1e-10,1e-10,1e-10",
             "metric=euclidean d=1 scale=1e-37 weights=100,100,100",
             "metric=euclidean d=2 gamma=0 scale=1e-36 weights=100,1,1",
             "metric=euclidean d=2 scale=1e-5 weights=1e5,1e5,1e4 tangents=xy",
         })
      check_line(std::string(problem) + shape);
  }
}

TEST_CASE("weights and penalties of any size, of short pairs", "[steps]") {
  for (const char *line : {
           "metric=cityblock d=2 B=2 n=2 m=64 gamma=0 weights=9e-13,9e-13,9e-13",
           "metric=euclidean d=2 B=2 n=2 m=64 gamma=1e-10 weights=9e-13,9e-13,9e-13",
           "metric=cosine d=2 B=2 n=2 m=64 gamma=1e-8 weights=9e-13,9e-13,9e-13",
           "metric=sqeuclidean d=4 B=2 n=20 m=31 weights=1e-4,1e-4,1e-3",
           "metric=euclidean d=3 B=2 n=20 m=20 gamma=0 weights=1e25,1e25,1e25 scale=1e-30",
           "metric=sqeuclidean d=4 B=2 n=9 m=31 gamma=1e24 scale=1e-10 weights=1e44,2e44,1e44",
           "metric=cosine dtype=f32 d=4 n=60 m=60 gamma=1 weights=1e12,1e12,1e12 data=equal",
           "metric=sqeuclidean d=4 n=10 m=10 gamma=1e-150 penalties=0,1e200,0",
       })
    check_line(line);
}

TEST_CASE("where other steps cost too much a path is the diagonal", "[steps]") {
  each_result("metric=precomputed B=3 n=40 m=40 gamma=0.01 penalties=0,5000,5000 data=integers",
              [](const Case &c, const Result &result) {
                for (int64_t b = 0; b < c.batch(); ++b) {
                  double sum = 0;
                  for (int64_t i = 0; i < 40; ++i) sum += c.x[(b * 40 + i) * 40 + i];
                  CHECK(near(result.value[b], sum, 1e-4));
                }
                for (int64_t k = 0; k < static_cast<int64_t>(result.alignment.size()); ++k)
                  if (std::abs(result.alignment[k] - (k / 40 % 40 == k % 40 ? 1 : 0)) > 1e-6) FAIL("cell " << k);
              });
}

// The gradient of a cost is the expected weight of the step into its cell; the alignment is the chance of any.
TEST_CASE("the alignment is a probability, the gradient is weighted", "[steps]") {
  each_result("metric=precomputed dtype=f64 B=2 n=12 m=10 gamma=1 weights=3,1,0.5", [](const Case &, const Result &r) {
    CHECK(near(r.alignment[0], 1, 1e-12));
    CHECK(near(r.grad_x[0], 3, 1e-12));
    for (size_t k = 0; k < r.alignment.size(); ++k) {
      CHECK(r.grad_x[k] >= 0.5 * r.alignment[k] - 1e-12);
      CHECK(r.grad_x[k] <= 3 * r.alignment[k] + 1e-12);
    }
  });
}

// With weights the first cell's cost was lost beside the penalty, which is taken back there.
TEST_CASE("a diagonal step forbidden by its penalty leaves the first cell's cost as it is", "[steps]") {
  for (const char *problem : {"metric=precomputed B=3 n=4 m=5", "metric=precomputed B=40 n=9 m=12 lengths=0",
                              "metric=cityblock B=2 n=20 m=70 d=2"})
    for (const char *weights : {"1,1,1", "1,2,1", "2,1,1", "1.5,1,1"})
      for (const char *penalties : {"1e17,0,0", "1e20,0.5,0", "1e250,0,0"})
        check_line(std::string(problem) + " dtype=f64 gamma=0.5 weights=" + weights + " penalties=" + penalties);
}

// At gamma = 0 cells of float32 problems have 48 bits: what they lose of a penalty is not to be the first cell's.
TEST_CASE("a diagonal step forbidden by a penalty of many digits leaves the first cell's cost as it is", "[steps]") {
  for (const char *problem : {"metric=precomputed B=3 n=4 m=5", "metric=precomputed B=40 n=9 m=12 lengths=0",
                              "metric=cityblock B=2 n=20 m=70 d=2"})
    for (const char *dtype : {"f32", "f16", "bf16"})
      for (const char *penalties : {"31415926535.8979,0,0", "3139451283556.514,0.5,0"})
        check_line(std::string(problem) + " dtype=" + dtype + " gamma=0 penalties=" + penalties);
}

// Neither exponents nor, at gamma = 0, sums have room for such steps: values had been infinite, or those of other ones.
TEST_CASE("on CPUs a step that costs more than can be held makes its pair NaN", "[steps][cpu]") {
  const char *const rules[] = {
      "weights=1e290,1,1",         "weights=2e300,1e300,1e300", "weights=1,1,1e280",    "weights=0.5,1e-300,1",
      "penalties=0,1e290,1e290",   "penalties=-1e300,0,0",      "penalties=0,0,-1e280", "weights=0,0,0",
      "weights=1e299,1e299,1e299", "weights=2e100,1e100,1e100"};
  for (const char *problem : {"metric=precomputed B=3 n=20 m=17", "metric=precomputed B=40 n=9 m=12 lengths=0",
                              "metric=cityblock B=3 n=20 m=70 d=2", "metric=sqeuclidean B=40 n=12 m=9 d=9",
                              "metric=precomputed B=3 n=40 m=33 band=sakoe_chiba:3", "metric=cosine B=2 n=70 m=9 d=3"})
    for (const char *rule : rules)
      for (const char *gamma : {" gamma=1", " gamma=1e-200", " gamma=0"})
        check_line(std::string(problem) + " dtype=f64 " + rule + gamma);
  check_line("metric=precomputed dtype=f32 B=3 n=20 m=17 gamma=1e-200 weights=1,1,1e100");
}

// Times log2(e) / gamma such weights are no float32 numbers: 0 times infinity had made pairs NaN.
TEST_CASE("on CPUs huge weights of costs that are 0, at a small gamma", "[steps][cpu]") {
  for (const char *problem :
       {"metric=precomputed B=3 n=7 m=9", "metric=sqeuclidean B=40 n=9 m=12 d=2", "metric=cityblock B=2 n=20 m=70 d=2"})
    for (const char *weights : {"1,1e30,2", "1e30,1e30,1e30", "2e30,1e30,1e30"})
      check_line(std::string(problem) + " dtype=f32 gamma=1e-10 scale=0 tangents=x weights=" + weights);
}
