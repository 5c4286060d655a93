// Short pairs of many features, of which CUDA has kernels (src/cuda/short_pairs/).
#include "family.h"

using namespace test;

TEST_CASE("short pairs of any sizes", "[short]") {
  for (const char *steps : {" n=1 m=1", " n=1 m=64", " n=64 m=1", " n=31 m=33", " n=32 m=32", " n=33 m=31",
                            " n=33 m=33", " n=63 m=64", " n=64 m=64", " n=65 m=64", " n=20 m=65", " n=8 m=9"})
    for (const char *features : {" d=5", " d=15", " d=16", " d=17", " d=63", " d=64", " d=65", " d=132"})
      check_line(std::string("dtype=f32 B=2") + steps + features + " gamma=1");
}

TEST_CASE("short pairs of other lengths, strides and upstream gradients", "[short]") {
  for (const char *steps : {" n=20 m=64", " n=64 m=20", " n=50 m=60"})
    for (const char *more : {" lengths=0", " lengths=0 layout=mixed grad=random", " lengths=1 bits=32 state=no",
                             " spoil=nan", " spoil=infs", " spoil=length"})
      check_line(std::string("dtype=f32 B=7 d=21 gamma=0.3") + steps + more);
}

// By each engine: exponents of an int, of two digits, and of a double.
TEST_CASE("short pairs of any costs", "[short]") {
  for (const char *gamma : {" gamma=100", " gamma=1e-2", " gamma=1e-4", " gamma=1e-6", " gamma=1e-9", " gamma=1e-15"})
    for (const char *data : {"noise", "equal", "constant", "spikes", "offset", "padded", "uneven", "periodic"})
      check_line(std::string("dtype=f32 B=3 n=40 m=50 d=12 data=") + data + gamma);
}

// Gradients are differences of sums: of these, where all points of a pair are the same, exactly 0 is due.
TEST_CASE("short pairs of equal constants", "[short]") {
  check_line("dtype=f32 B=7 n=33 m=33 d=63 gamma=0.000136402 data=periodic seed=9001027408");
}

TEST_CASE("more short pairs than a GPU has at a time", "[short]") {
  check_line("dtype=f32 B=1000 n=9 m=12 d=9 gamma=0.5 lengths=0");
  check_line("dtype=f32 B=1100 n=33 m=34 d=40 gamma=2");
}
