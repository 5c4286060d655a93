// Values alone of many pairs of short series of few features, of which CUDA has kernels (src/cuda/streams/).
#include "family.h"

using namespace test;

namespace {

Case values_alone(Case c) {
  c.exec.flags |= SDTW_NO_STATE;
  c.recompute = false;
  return c;
}

// Holds the values of a line against the oracle, on every backend.
void check_values(const std::string &line, const std::string &metric = "sqeuclidean") {
  std::optional<Reference<double>> ref;
  for (const Case &c : on_backends("metric=" + metric + " " + line)) {
    if (!ref) ref = reference<double>(c);
    const std::vector<std::string> faults = judge(c, run(values_alone(c)), *ref);
    INFO("sdtw_differential --problem '" << describe(c) << "'" << (faults.empty() ? "" : faults[0]));
    CHECK(faults.empty());
  }
}

constexpr const char *gammas[] = {" gamma=0", " gamma=0.5"};

}  // namespace

TEST_CASE("values of all pairs of any lengths", "[many]") {
  for (const char *gamma : gammas) {
    for (const char *shape :
         {" B=1x6 n=1 m=1 d=1", " B=2x3 n=1 m=40 d=1", " B=3x2 n=40 m=1 d=2", " B=2x9 n=127 m=128 d=1",
          " B=3x3 n=128 m=129 d=2", " B=2x2 n=129 m=127 d=1", " B=2x3 n=257 m=20 d=2", " B=1x2 n=1023 m=17 d=1",
          " B=2x1 n=1024 m=16 d=1", " B=1x1 n=1025 m=15 d=1", " B=3x4 n=70 m=50 d=3", " B=2x3 n=140 m=30 d=4",
          " B=2x5 n=30 m=40 d=5", " B=2x2 n=300 m=20 d=8", " B=2x2 n=60 m=20 d=9",
          " B=9 n=33 m=33 d=2 pairs=symmetric"})
      for (const char *lengths : {"", " lengths=0"})
        check_values(std::string("dtype=f32") + shape + gamma + lengths +
                     (std::string(shape).find("pairs=") == std::string::npos ? " pairs=all" : ""));
    check_values(std::string("dtype=f32 B=2x70 n=50 m=60 d=1 pairs=all lengths=0 layout=mixed bits=32") + gamma);
    check_values(std::string("dtype=f32 B=3x90 n=20 m=9 d=1 pairs=all lengths=0") + gamma);
    for (const char *dtype : {"f16", "bf16"})
      check_values(std::string("dtype=") + dtype + " B=3x4 n=70 m=50 d=2 pairs=all lengths=1" + gamma);
  }
}

TEST_CASE("values of a batch at gamma = 0", "[many]") {
  for (const char *shape :
       {" B=70 n=20 m=30", " B=5 n=130 m=64", " B=2 n=600 m=500", " B=1 n=2048 m=9", " B=1 n=9 m=2049", " B=3 n=1 m=1"})
    for (const char *more : {" d=1", " d=2 lengths=0 layout=mixed"})
      check_values(std::string("dtype=f32 gamma=0") + shape + more);
}

// Halves of the columns, of one column or of none, of series of a warp's rows to those of eight, by what each kernel
// allows; and pairs that the first kernel leaves, in whole batches and among others.
TEST_CASE("values at gamma = 0 of pairs that are swept from both ends", "[many]") {
  for (const char *shape : {" B=1 n=129 m=1", " B=2 n=256 m=2", " B=1 n=200 m=3", " B=2 n=257 m=31", " B=3 n=500 m=33",
                            " B=2 n=513 m=64", " B=1 n=700 m=65", " B=2 n=1024 m=97", " B=1 n=1025 m=128",
                            " B=1 n=1792 m=40", " B=1 n=1793 m=40", " B=1 n=2048 m=35", " B=2 n=90 m=400"})
    for (const char *more : {" d=1", " d=2 lengths=0", " d=3 layout=mixed", " d=8 lengths=1 data=spikes"})
      check_values(std::string("dtype=f32 gamma=0") + shape + more);
  for (const char *metric : {"sqeuclidean", "cityblock", "euclidean"})
    for (const char *band : {"", " band=sakoe_chiba:30", " band=absolute:90", " band=itakura:2"})
      for (const char *more : {" d=1 lengths=1 data=spikes", " d=2 spoil=nan", " d=4 data=pulses", " d=7 data=walls"})
        check_values("dtype=f32 gamma=0 B=4 n=300 m=260" + std::string(more) + band, metric);
}

// Sums of float32 costs are rounded, but not as often as there are costs.
TEST_CASE("values at gamma = 0 are precise for every kind of data", "[many]") {
  for (const char *shape : {" B=2x3 n=128 m=128 d=1", " B=3x2 n=40 m=100 d=2", " B=4x2 n=255 m=11 d=1",
                            " B=2x2 n=6 m=131 d=2", " B=2x1 n=300 m=290 d=1"})
    for (size_t kind = 0; kind < static_cast<size_t>(Data::count); ++kind)
      for (const char *dtype : {"f32", "bf16"})
        check_values(std::string("dtype=") + dtype + shape + " gamma=0 pairs=all data=" + data_names[kind]);
}

// Behind a step that is far from all of the other series R is large, and what it grows by is small: as it is beside
// rows of which R is far less. What float32 loses there adds up along the path.
TEST_CASE("values at gamma = 0 of series with spikes and pulses are precise", "[many]") {
  for (const char *line :
       {"dtype=bf16 B=17 n=349 m=349 d=3 data=spikes seed=1124", "dtype=f16 B=17 n=481 m=481 d=8 data=spikes seed=1172",
        "dtype=f32 B=4x5 n=146 m=277 d=4 data=pulses seed=200073 pairs=all",
        "dtype=f16 B=17 n=357 m=357 d=4 data=pulses seed=200264",
        "dtype=bf16 B=4x5 n=159 m=161 d=8 data=pulses seed=201570 pairs=all",
        "dtype=f32 B=17 n=159 m=159 d=2 data=pulses seed=201874",
        "dtype=f32 B=3 n=290 m=179 d=3 data=pulses seed=202830", "dtype=f32 B=5 n=600 m=600 d=1 data=pulses seed=3",
        "dtype=f32 B=2 n=2000 m=900 d=2 data=pulses seed=4"})
    check_values(std::string(line) + " gamma=0");
  for (const char *metric : {"sqeuclidean", "cityblock", "euclidean"})
    for (const char *band : {"", " band=sakoe_chiba:20", " band=absolute:90"})
      for (const char *data : {"spikes", "pulses"})
        check_values("dtype=f32 B=3x5 n=260 m=260 d=2 pairs=all gamma=0 data=" + std::string(data) + band, metric);
}

TEST_CASE("values of many pairs of other metrics", "[many]") {
  for (const std::string gamma : {" gamma=0", " gamma=0.5", " gamma=1e-5"})
    for (const char *metric : {"cityblock", "euclidean"}) {
      for (size_t kind = 0; kind < static_cast<size_t>(Data::count); ++kind)
        for (const char *shape : {" B=2x3 n=128 m=120 d=1", " B=3x2 n=40 m=100 d=2", " B=2x1 n=300 m=290 d=8"})
          check_values("dtype=f32 pairs=all" + gamma + shape + " data=" + data_names[kind], metric);
      for (const char *more : {" scale=1e5", " scale=1e17", " scale=1e-15", " scale=1e-30", " spoil=nan", " spoil=inf",
                               " lengths=0", " lengths=1 layout=mixed bits=32", " band=sakoe_chiba:9",
                               " band=itakura:2 lengths=0", " band=absolute:4 lengths=0 spoil=nan"})
        for (const char *shape : {" B=3x40 n=20 m=30 d=3 pairs=all", " B=2x3 n=600 m=17 d=1 pairs=all",
                                  " B=12 n=60 m=60 d=5 pairs=symmetric", " B=9 n=150 m=140 d=2"})
          check_values("dtype=f32" + gamma + shape + more, metric);
      for (const char *dtype : {"f16", "bf16"})
        check_values("B=3x4 n=70 m=50 d=4 pairs=all" + gamma + " dtype=" + dtype, metric);
    }
}

TEST_CASE("costs that are too large or too small for float32 are computed in float64", "[many]") {
  for (const char *gamma : {" gamma=0", " gamma=1e-5", " gamma=1"})
    for (const char *scale : {" scale=1e4", " scale=1e17", " scale=1e-15"})
      check_values(std::string("dtype=f32 B=3x4 n=140 m=50 d=1 pairs=all") + gamma + scale);
}

// What CUDA's first kernel leaves a second one takes: costs of more than 2^20 bits, and at gamma = 0 series more than
// twice as long as the ones that have the rows; what that leaves, float64.
TEST_CASE("pairs of large costs and of unequal lengths among others", "[many]") {
  for (const char *more :
       {" gamma=1 scale=1000", " gamma=1e-3 scale=100 data=spikes", " gamma=1 scale=1000 data=mixed lengths=0",
        " gamma=1e-4 scale=1e3 data=walk lengths=1", " gamma=0.01 data=walk spoil=nan scale=300", " gamma=0 lengths=0",
        " gamma=0 lengths=0 data=walk scale=1e3 spoil=nan", " gamma=0 lengths=0 layout=mixed"})
    for (const char *shape :
         {" B=3x90 n=20 m=30 d=1 pairs=all", " B=2x9 n=300 m=40 d=2 pairs=all", " B=20 n=60 m=60 d=3 pairs=symmetric",
          " B=3x3 n=600 m=17 d=1 pairs=all", " B=4x2 n=9 m=2000 d=1 pairs=all", " B=30 n=40 m=70 d=1"})
      check_values(std::string("dtype=f32") + shape + more);
}

TEST_CASE("a series that is no good spoils what it is in alone, of values alone", "[many]") {
  for (const char *gamma : gammas)
    for (const char *how : {"nan", "length"})
      for (const char *pairs : {" B=4x7 n=30 m=25 pairs=all", " B=5 n=140 m=140 pairs=symmetric", " B=9 n=20 m=30"})
        check_values(std::string("dtype=f32 d=2 seed=5 spoil=") + how + gamma + pairs);
}

TEST_CASE("values of many pairs within a band", "[many]") {
  for (const char *gamma : gammas) {
    for (const char *band : {" band=sakoe_chiba:0", " band=sakoe_chiba:7", " band=absolute:20", " band=itakura:2"})
      for (const char *shape :
           {" B=2x9 n=128 m=128 pairs=all", " B=3x4 n=70 m=50 pairs=all", " B=1x70 n=30 m=33 pairs=all",
            " B=2x2 n=520 m=500 pairs=all", " B=1x1 n=1024 m=1000 pairs=all", " B=9 n=33 m=33 pairs=symmetric",
            " B=3 n=300 m=300 pairs=symmetric", " B=5 n=140 m=150", " B=2x3 n=1 m=40 pairs=all"})
        for (const char *more : {" d=1", " d=3 lengths=0"})
          check_values(std::string("dtype=f32") + shape + gamma + band + more);
    for (const char *more : {" d=1 dtype=f16", " d=2 dtype=bf16 lengths=1", " d=8 dtype=f32 layout=mixed"})
      check_values(std::string("B=3x4 n=140 m=130 pairs=all band=sakoe_chiba:12") + gamma + more);
  }
}

// Columns in which all of a warp's rows are forbidden lie beside others: at the edges of blocks of 16 steps, and where
// the rows of a block's warps begin.
TEST_CASE("values of long pairs within narrow bands", "[many]") {
  for (const char *gamma : gammas)
    for (int n = 253; n <= 262; ++n)
      for (const int radius : {0, 1, 15, 16, 17})
        for (const char *kind : {"sakoe_chiba", "absolute"}) {
          std::ostringstream line;
          line << "dtype=f32 d=1 pairs=all B=1x3 n=" << n << " m=" << n + 7 * (n % 3) - 5 << gamma << " band=" << kind
               << ":" << radius << " data=" << (n % 2 ? "noise" : "walls");
          check_values(line.str());
        }
}

// Of series that all have the same lengths: more pairs than streams take at a time, fewer rows than a stream has lanes
// for, corridors that take all lanes of a warp or one more, symmetric pairs.
TEST_CASE("values of pairs of which lanes take the rows in turn", "[many]") {
  for (const char *gamma : gammas)
    for (const char *pairs :
         {" B=2x130 n=33 m=30 d=1 band=sakoe_chiba:2", " B=1x300 n=9 m=11 d=1 band=absolute:3",
          " B=3x40 n=1 m=1 d=2 band=sakoe_chiba:0", " B=1x50 n=17 m=16 d=5 band=sakoe_chiba:4",
          " B=2x5 n=300 m=290 d=1 band=sakoe_chiba:70", " B=2x3 n=300 m=300 d=1 band=sakoe_chiba:77",
          " B=2x3 n=300 m=300 d=3 band=sakoe_chiba:78", " B=1x3 n=320 m=321 d=1 band=sakoe_chiba:139",
          " B=1x3 n=320 m=320 d=1 band=sakoe_chiba:140", " B=1x3 n=320 m=320 d=1 band=absolute:141",
          " B=4x33 n=60 m=80 d=2 band=sakoe_chiba:0", " B=4x33 n=80 m=60 d=8 band=sakoe_chiba:0",
          " B=1x70 n=1024 m=1020 d=1 band=sakoe_chiba:9", " B=70 n=40 m=40 d=1 band=sakoe_chiba:4 pairs=symmetric"})
      for (const char *more : {" data=noise", " data=walls", " spoil=nan", " scale=300 data=mixed"})
        check_values(std::string("dtype=f32") + pairs + gamma + more +
                     (std::string(pairs).find("pairs=") == std::string::npos ? " pairs=all" : ""));
}

TEST_CASE("pairs within a band that the first kernels leave", "[many]") {
  for (const char *more :
       {" gamma=1 scale=1000", " gamma=1e-4 scale=1e3 data=walk lengths=1", " gamma=1e-5 scale=1e4",
        " gamma=0.01 data=walk spoil=nan scale=300", " gamma=0 lengths=0 data=walk scale=1e3 spoil=nan",
        " gamma=0 lengths=0 scale=1e17", " gamma=1 spoil=inf lengths=0"})
    for (const char *band : {" band=sakoe_chiba:5", " band=absolute:9", " band=itakura:1.5"})
      for (const char *shape : {" B=3x40 n=20 m=30 d=1 pairs=all", " B=2x5 n=300 m=240 d=2 pairs=all",
                                " B=12 n=60 m=60 d=3 pairs=symmetric", " B=4x2 n=9 m=900 d=1 pairs=all"})
        check_values(std::string("dtype=f32") + shape + more + band);
}

// Not on its place among other pairs, and not on the infinities, large numbers and lengths of these.
TEST_CASE("a value does not depend on other pairs", "[many]") {
  for (const char *gamma : gammas)
    each_result(
        std::string("metric=sqeuclidean dtype=f32 B=3x7 n=70 m=60 d=1 pairs=all lengths=1 state=no data=mixed") + gamma,
        [](const Case &c, const Result &) {
          Case all = values_alone(c);
          all.y[2 * 60 + 3] = std::numeric_limits<float>::infinity(), all.y[3 * 60] = 1e30f;
          const Result together = run(all);
          for (int64_t b = 0; b < c.batch(); ++b) {
            Case alone = all;
            const int64_t i = c.index_x(b), j = c.index_y(b);
            alone.problem.batch_x = alone.problem.batch_y = 1;
            alone.x.assign(all.x.begin() + i * 70, all.x.begin() + (i + 1) * 70);
            alone.y.assign(all.y.begin() + j * 60, all.y.begin() + (j + 1) * 60);
            alone.x_len = {all.x_len[i]}, alone.y_len = {all.y_len[j]};
            CHECK(same(run(alone).value, {together.value[b]}));
          }
        });
}
