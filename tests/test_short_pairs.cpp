// Short pairs, of which CUDA has kernels (src/cuda/short_pairs/).
#include "backend.h"
#include "family.h"

using namespace test;

namespace {

// As if there were many pairs, of which a block with fewer warps has one.
struct FewerWarps : CudaLimits {
  FewerWarps() { sdtw::cuda::limits.few_short_pairs = 0; }
};

void check_sizes() {
  for (const char *steps : {" n=1 m=1", " n=1 m=64", " n=64 m=1", " n=31 m=33", " n=32 m=32", " n=33 m=31",
                            " n=33 m=33", " n=63 m=64", " n=64 m=64", " n=65 m=64", " n=20 m=65", " n=8 m=9"})
    for (const char *features : {" d=1", " d=4", " d=15", " d=16", " d=17", " d=63", " d=64", " d=65", " d=132"})
      check_line(std::string("dtype=f32 B=2") + steps + features + " gamma=1");
}

constexpr const char *half_types[] = {"dtype=f16", "dtype=bf16"};
constexpr const char *other_metrics[] = {"metric=euclidean ", "metric=cosine ", "metric=cityblock "};

// Calls check with lines of each other metric.
template <class Check>
void with_metrics(const Check &check) {
  for (const std::string metric : other_metrics) check(metric);
}

}  // namespace

TEST_CASE("short pairs of any sizes", "[short]") { check_sizes(); }

TEST_CASE("short pairs of any sizes, if there are many", "[short]") {
  const FewerWarps fewer;
  check_sizes();
}

TEST_CASE("few pairs of up to 128 steps", "[short]") {
  for (const char *steps : {" n=128 m=128", " n=127 m=97", " n=65 m=128", " n=126 m=3", " n=1 m=128", " n=99 m=66"})
    for (const char *features : {" B=2 d=1", " B=1 d=18", " B=1 d=64"})
      check_line(std::string("dtype=f32") + steps + features + " gamma=1");
  check_line("dtype=f32 B=140 n=3 m=66 d=66 gamma=1 lengths=0");  // more than a GPU has at a time
}

TEST_CASE("short pairs of other lengths, strides and upstream gradients", "[short]") {
  for (const char *steps : {" n=20 m=64", " n=64 m=20", " n=50 m=60", " n=80 m=90"})
    for (const char *more : {" lengths=0", " lengths=0 layout=mixed grad=random", " lengths=1 bits=32 state=no",
                             " spoil=nan", " spoil=infs", " spoil=length"})
      check_line(std::string("dtype=f32 B=7 d=21 gamma=0.3") + steps + more);
}

TEST_CASE("short pairs of half types", "[short]") {
  for (const char *type : half_types) {
    for (const char *more : {" d=5 gamma=1", " d=16 gamma=0.7 layout=mixed", " d=63 gamma=2 lengths=0 grad=random",
                             " d=64 gamma=9 state=no", " d=133 gamma=9", " d=20 gamma=1 spoil=nan", " d=12 gamma=1e-6"})
      check_line(type + std::string(" B=7 n=40 m=50") + more);
    check_line(type + std::string(" B=3 n=110 m=100 d=27 gamma=3 lengths=0 grad=random"));
  }
}

// By each engine: exponents of an int, of two digits, and of a double.
TEST_CASE("short pairs of any costs", "[short]") {
  for (const char *gamma : {" gamma=100", " gamma=1e-2", " gamma=1e-4", " gamma=1e-6", " gamma=1e-9", " gamma=1e-15"})
    for (const char *data : {"noise", "equal", "constant", "spikes", "offset", "padded", "uneven", "periodic"})
      for (const char *steps : {" n=40 m=50", " n=70 m=90"})
        check_line(std::string("dtype=f32 B=3 d=12 data=") + data + gamma + steps);
}

// Gradients are differences of sums: of these, where all points of a pair are the same, exactly 0 is due.
TEST_CASE("short pairs of equal constants", "[short]") {
  check_line("dtype=f32 B=7 n=33 m=33 d=63 gamma=0.000136402 data=periodic seed=9001027408");
}

TEST_CASE("short pairs of other metrics", "[short]") {
  with_metrics([](const std::string &metric) {
    for (const char *steps :
         {" n=1 m=1", " n=1 m=64", " n=64 m=1", " n=31 m=33", " n=33 m=31", " n=64 m=64", " n=8 m=9"})
      for (const char *features : {" d=1", " d=3", " d=16", " d=33", " d=132"})
        check_line(metric + "dtype=f32 B=2 gamma=1" + steps + features);
    for (const char *steps : {" n=128 m=128", " n=127 m=97", " n=65 m=128", " n=126 m=3", " n=1 m=128", " n=99 m=66"})
      for (const char *features : {" B=2 d=1", " B=1 d=18", " B=1 d=64"})
        check_line(metric + "dtype=f32 gamma=1" + steps + features);
    for (const char *steps : {" n=20 m=64", " n=50 m=60", " n=80 m=90"})
      for (const char *more : {" lengths=0 layout=mixed grad=random", " lengths=1 bits=32 state=no", " spoil=nan",
                               " spoil=inf", " spoil=infs", " spoil=length", " scale=1e15"})
        check_line(metric + "dtype=f32 B=7 d=21 gamma=0.3" + steps + more);
    // Distances, or their squares, that are no floats, and those of which E divided by them is hardly one.
    for (const char *sizes : {" n=3 m=2 d=132", " n=40 m=33 d=90", " n=20 m=9 d=1", " n=70 m=75 d=30"})
      for (const char *scale : {" gamma=1e30 scale=3e37", " gamma=1e15 scale=1e20", " gamma=1e-35 scale=1e-35"})
        check_line(metric + "dtype=f32 B=2 seed=5 grad=random" + sizes + scale);
    for (const char *gamma : {" gamma=100", " gamma=1e-2", " gamma=1e-5", " gamma=1e-9"})
      for (const char *data : {"noise", "equal", "constant", "spikes", "offset", "padded", "steps"})
        for (const char *steps : {" n=40 m=50", " n=70 m=90"})
          check_line(metric + "dtype=f32 B=3 d=12 data=" + data + gamma + steps);
    for (const std::string type : half_types)
      for (const char *more : {" d=5 layout=mixed", " d=64 lengths=0 grad=random", " d=20 spoil=nan", " d=9 state=no"})
        for (const char *steps : {" n=40 m=50", " n=90 m=75"})
          check_line(metric + type + " B=4 gamma=0.7" + steps + more);
  });
}

// Beside so small a gamma a distance of parallel points is to be 0, or as good as 0.
TEST_CASE("short pairs of parallel points", "[short]") {
  for (const char *gamma : {" gamma=1e-6", " gamma=1e-8", " gamma=1e-9", " gamma=1e-15"})
    check_line("metric=cosine dtype=f32 B=133 n=6 m=6 d=2 data=integers seed=123564809 weights=0,1,1 grad=random" +
               std::string(gamma));
}

TEST_CASE("all pairs of short series of other metrics", "[short]") {
  with_metrics([](const std::string &metric) {
    for (const char *more : {" B=3x5 n=20 m=40 d=12 pairs=all", " B=4 n=33 m=33 d=20 pairs=symmetric lengths=0",
                             " B=2x3 n=70 m=100 d=5 pairs=all", " B=3 n=66 m=66 d=9 pairs=symmetric grad=random",
                             " B=3x4 n=50 m=12 d=1 pairs=all dtype=f16 grad=random layout=mixed"})
      check_line(metric + "gamma=0.3" + more);
  });
}

TEST_CASE("short pairs at gamma = 0", "[short]") {
  for (const std::string metric : {"metric=sqeuclidean ", "metric=euclidean ", "metric=cityblock "}) {
    for (const char *steps : {" n=1 m=1", " n=1 m=64", " n=64 m=1", " n=31 m=33", " n=33 m=31", " n=64 m=64",
                              " n=8 m=9", " n=128 m=128", " n=127 m=97", " n=66 m=3", " n=1 m=128"})
      for (const char *more : {" d=1 data=integers", " d=18", " d=64 lengths=0 grad=random layout=mixed"})
        check_line(metric + "dtype=f32 B=2 gamma=0" + steps + more);
    for (const char *data : {"equal", "constant", "spikes", "offset", "quantised", "padded", "steps"})
      for (const char *steps : {" n=40 m=50", " n=70 m=90"})
        check_line(metric + "dtype=f32 B=3 d=12 gamma=0 data=" + data + steps);
    for (const char *more : {" spoil=nan", " spoil=inf", " spoil=infs", " spoil=length", " scale=1e15", " dtype=f16",
                             " dtype=bf16 state=no", " dtype=f16 pairs=all"})
      check_line(metric + "B=3 n=40 m=50 d=21 gamma=0 lengths=1 bits=32" + more);
  }
  check_line("metric=euclidean dtype=f32 B=2 n=40 m=33 d=90 gamma=0 scale=3e37 grad=random");
}

// What a step costs by the way that it comes, from both ends of a pair.
TEST_CASE("short pairs with step weights and penalties", "[short]") {
  for (const std::string metric : {"metric=sqeuclidean ", "metric=euclidean ", "metric=cosine ", "metric=cityblock "}) {
    for (const char *rule : {" weights=2,1,1", " penalties=0,1,1", " weights=1,2,0.5 penalties=1,0,-1"}) {
      for (const char *steps : {" n=1 m=1", " n=1 m=2", " n=2 m=1", " n=1 m=64", " n=64 m=1", " n=31 m=33",
                                " n=64 m=64", " n=8 m=9", " n=128 m=127", " n=66 m=3"})
        check_line(metric + "dtype=f32 B=2 d=18 gamma=1 grad=random" + steps + rule);
      for (const char *gamma :
           {" gamma=100", " gamma=1e-2", " gamma=1e-4", " gamma=1e-6", " gamma=1e-9", " gamma=1e-15"})
        for (const char *data : {"noise", "constant", "spikes"})
          check_line(metric + "dtype=f32 B=2 n=40 m=50 d=5 data=" + data + gamma + rule);
    }
    for (const char *more : {" spoil=nan", " spoil=inf", " spoil=length", " scale=1e15", " dtype=f16",
                             " dtype=bf16 state=no", " dtype=f16 pairs=all", " weights=0,1,1", " weights=1,0,0"})
      check_line(metric + "B=3 n=40 m=50 d=21 gamma=0.3 lengths=1 bits=32 penalties=0,0.5,2 layout=mixed" + more);
  }
}

TEST_CASE("short pairs with step weights and penalties at gamma = 0", "[short]") {
  for (const std::string metric : {"metric=sqeuclidean ", "metric=euclidean ", "metric=cityblock "})
    for (const char *rule : {" weights=2,1,1", " penalties=0,1,1", " weights=0,2,0.5 penalties=1,0,-1"}) {
      for (const char *steps :
           {" n=1 m=1", " n=1 m=64", " n=64 m=1", " n=31 m=33", " n=64 m=64", " n=128 m=127", " n=66 m=3"})
        for (const char *more : {" d=1 data=integers", " d=18 lengths=0 grad=random layout=mixed"})
          check_line(metric + "dtype=f32 B=2 gamma=0" + steps + more + rule);
      for (const char *more : {" spoil=nan", " spoil=inf", " spoil=infs", " data=constant", " data=equal", " dtype=f16",
                               " dtype=bf16 pairs=all"})
        check_line(metric + "B=3 n=40 m=50 d=21 gamma=0 lengths=1 bits=32" + more + rule);
    }
}

// Cells that a band leaves out, which may be all; by each metric in turn.
TEST_CASE("short pairs within bands", "[short]") {
  constexpr const char *metrics[] = {"metric=sqeuclidean", "metric=euclidean", "metric=cosine", "metric=cityblock"};
  int turn = 0;
  const auto check = [&](const std::string &line) { check_line(metrics[turn++ % std::size(metrics)] + line); };
  for (const std::string band : {" band=sakoe_chiba:0", " band=sakoe_chiba:5.5", " band=absolute:3",
                                 " band=absolute:40", " band=itakura:1.2", " band=itakura:3"}) {
    for (const char *gamma : {" gamma=1", " gamma=0", " gamma=1e-5", " gamma=1e-9"}) {
      for (const char *steps : {" n=1 m=1", " n=1 m=20", " n=31 m=33", " n=64 m=64", " n=64 m=20", " n=20 m=64",
                                " n=128 m=128", " n=90 m=127", " n=41 m=43"})
        check(" dtype=f32 B=2 d=9 lengths=1 grad=random" + band + gamma + steps);
      for (const char *more : {" spoil=nan", " spoil=inf", " spoil=infs", " scale=1e15", " dtype=f16 layout=mixed",
                               " state=no pairs=all", " weights=2,1,1 penalties=0,1,-1"})
        check(" B=3 n=50 m=40 d=21 lengths=0" + band + gamma + more);
    }
  }
}

// Of a metric that is no square E is divided by distances, which may be 0, or of points one step of a float apart.
TEST_CASE("short pairs of coincident points", "[short]") {
  with_metrics([](const std::string &metric) {
    for (const char *features : {" d=1", " d=40"})
      for (const char *data : {"equal", "constant", "flat", "quantised"})
        for (const char *gamma : {" gamma=1", " gamma=1e-4"})
          for (const char *steps : {" n=30 m=30", " n=80 m=80"})
            check_line(metric + "dtype=f32 B=2 data=" + data + features + gamma + steps);
  });
}

TEST_CASE("more short pairs than a GPU has at a time", "[short]") {
  check_line("dtype=f32 B=700 n=9 m=12 d=9 gamma=0.5 lengths=0");
  check_line("dtype=f32 B=540 n=33 m=34 d=9 gamma=2");
}
