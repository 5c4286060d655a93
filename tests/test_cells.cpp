// The range of m that src/core/cell.h and src/cuda/sweep/cell.cuh state, and the arithmetic of one cell at its ends.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "catch.h"
#include "core/cell.h"
#include "core/packed.h"
#include "cpu/kernels.h"
#include "cpu/simd_baseline.h"

using namespace sdtw;

namespace {

struct Range {
  double least, most;
};
constexpr Range renormalised{1, 2};

// What a sweep makes of m in `steps` steps of `rows` rows a lane from [1, 2] at the beginning, before it is brought
// back to that: with equal exponents and f = -1/2 everywhere at most, and with f = 1/2 and the least neighbour alone at
// least. bits: what a cell's costs and penalties move m by. top: of the row above, which enters with every step. Skewed
// lanes are one step behind the lane above; lanes of pairs are by themselves, which is one lane here.
struct Growth {
  // Of all cells, and of what the last lane's last row hands on: with the next step, so what the last step of the
  // sweep leaves has been brought back.
  Range all = renormalised, handed_on = renormalised;

  Growth(int rows, int steps, bool skewed, int lanes, Range top = renormalised, double bits = 0.5) {
    struct Lane {
      std::vector<Range> row;
      Range above = renormalised;
    };
    std::vector<Lane> lane(skewed ? lanes : 1, Lane{std::vector<Range>(rows, renormalised)});
    for (int s = 0; s < steps; ++s)
      for (size_t l = lane.size(); l-- > 0;) {  // the last first: the lane above is as the step before has left it
        Range up = l == 0 ? top : lane[l - 1].row.back(), diagonal = lane[l].above;
        lane[l].above = up;
        for (Range &cell : lane[l].row) {
          const Range left = cell;
          cell = {std::min(up.least, std::min(left.least, diagonal.least)) * std::exp2(-bits),
                  (up.most + left.most + diagonal.most) * std::exp2(bits)};
          diagonal = left;
          up = cell;
          include(all, cell);
        }
        if (l + 1 == lane.size() && s + 1 < steps) include(handed_on, lane[l].row.back());
      }
  }
  static void include(Range &range, const Range &cell) {
    range.least = std::min(range.least, cell.least);
    range.most = std::max(range.most, cell.most);
  }
};

bool within(const Range &range, double least_bits, double most_bits) {
  return std::log2(range.least) >= least_bits - 1e-12 && std::log2(range.most) <= most_bits;
}

using Single = cpu::baseline::Vec<float>;
using Double = cpu::baseline::Vec<double>;

template <class V>
core::Scaled<V> cell(double m, double e) {
  using E = typename V::ScalarExponent;
  typename V::Scalar ms[V::width];
  E es[V::width];
  std::fill(ms, ms + V::width, static_cast<typename V::Scalar>(m));
  std::fill(es, es + V::width, static_cast<E>(e));
  return {V::load(ms), V::load(es)};
}
template <class V>
typename V::Split split(double n, double f) {
  const auto both = cell<V>(f, n);
  return {both.e, both.m};
}

// Sums of three cells in either form, which are to be the same; the first lane.
template <class V>
std::array<double, 2> sum(const core::Scaled<V> &up, const core::Scaled<V> &left, const core::Scaled<V> &diagonal) {
  core::Terms<V> terms;
  const auto bare = core::sum_of<V>(up, left, diagonal), whole = core::sum_of<V>(up, left, diagonal, &terms);
  CHECK(std::memcmp(&bare.sum, &whole.sum, sizeof bare.sum) == 0);
  const auto p = core::probabilities<V>(terms);
  CHECK(double(V::first(p.up)) + double(V::first(p.left)) + double(V::first(p.diagonal)) ==
        Approx(1).epsilon(4 * std::numeric_limits<typename V::Scalar>::epsilon()));
  return {double(V::first(bare.sum)), double(V::first(bare.x))};
}

template <class V>
void check_sums() {
  const double forbidden = core::Exponent<typename V::Scalar>::forbidden;
  const double limit = core::Exponent<typename V::Scalar>::limit, least = core::least_m, most = core::most_m;
  using Pair = std::array<double, 2>;
  // Behind as many costs as there may be, on either side: exponents do not wrap.
  for (const double e : {0., 1., -1., limit, -limit}) {
    const auto none = cell<V>(1, forbidden - limit), one = cell<V>(1.25, e);
    CHECK(sum<V>(one, none, none) == Pair{1.25, e});
    CHECK(sum<V>(none, one, none) == Pair{1.25, e});
    CHECK(sum<V>(none, none, one) == Pair{1.25, e});
    CHECK(sum<V>(none, none, none) == Pair{3, forbidden - limit});
    for (const double m : {least, most})
      CHECK(sum<V>(cell<V>(m, e), none, one) == Pair{static_cast<typename V::Scalar>(m + 1.25), e});
  }
  CHECK(sum<V>(cell<V>(least, limit), cell<V>(most, -limit), cell<V>(least, limit)) == Pair{2 * least, limit});
  // A term's power of two is exact to the last one that shows, and is no rubbish where it has none.
  const double bits = std::numeric_limits<typename V::Scalar>::digits;
  CHECK(sum<V>(cell<V>(1, 0), cell<V>(1, 1 - bits), cell<V>(1, forbidden)) == Pair{1 + std::exp2(1 - bits), 0});
  for (const double apart : {126., 127., 128., 129., 1022., 1023., 1024., 1025., 2048., 65536.})
    for (const double m : {least, 1., most})
      CHECK(sum<V>(cell<V>(1, 0), cell<V>(m, -apart), cell<V>(m, -apart)) == Pair{1, 0});
}

// Cells with costs t = n + f: m is the sum times 2^-f, and what it is off by is relative to f.
template <class V>
void check_enter() {
  const double epsilon = std::numeric_limits<typename V::Scalar>::epsilon(), limit = 1 << 21;
  const double of_q = (sizeof epsilon == sizeof(typename V::Scalar) ? 4 : 1.5) * epsilon;  // measured: 3.6 and 1.3
  for (const double m : {core::least_m, 1., 1.9375, core::most_m})
    for (const double f : {0., 0x1p-40, -0x1p-40, 0x1p-20, -0x1p-20, 0.01, -0.01, 0.25, 0.5, -0.5})
      for (const double n : {0., 1., -1., limit, -limit}) {
        const core::Sum<V> of{cell<V>(m, 0).m, cell<V>(1, -7).e};
        const auto z = core::enter<V>(of, core::step_factor<V>(split<V>(n, f)));
        const double fraction = double(V::first(split<V>(n, f).fraction)), got = double(V::first(z.m));
        CHECK(double(V::first(z.e)) == -7 - n);
        CHECK(std::abs(got / m - std::exp2(-fraction)) <= epsilon);
        if (fraction == 0) CHECK(got == m);
        const auto q = static_cast<double>(std::expm1(-fraction * std::log(2.0L)));
        CHECK(std::abs(double(V::first(core::exp2_minus_1<V>(split<V>(n, f).fraction))) - q) <= of_q * std::abs(q));
      }
}

// One tile of the strips' kernel, f = -1/2 and n = 0 everywhere, from the largest m that may be carried and a row above
// of `top`. Returns the largest m that the last row is handed on with.
float hand_on(const cpu::Kernels<float> &kernels, float top) {
  constexpr int steps = cpu::max_steps;
  const int width = kernels.width, rows = kernels.strips.rows;
  const float largest = std::nextafter(2.f, 0.f);
  std::vector<float> cost(steps * rows * 2 * width), m(cpu::strip_rows + width, largest), row(steps + width, top);
  std::vector<int32_t> e(m.size(), 0), row_e(row.size(), 0);
  for (int i = 0; i < steps * rows; ++i) std::fill_n(cost.begin() + (2 * i + 1) * width, width, -0.5f);
  cpu::LaneState<float> state{m.data(), e.data(), m.data() + cpu::strip_rows, e.data() + cpu::strip_rows};
  kernels.strips.sweep[cpu::double_cost](
      {steps, cost.data(), 1, 0, state, row.data() + width, row_e.data() + width, nullptr});
  for (const float carried : m) CHECK((carried >= 1 && carried < 2));
  return *std::max_element(row.begin(), row.begin() + steps);
}

}  // namespace

TEST_CASE("m stays in the range that the CPU backend states", "[cells]") {
  for (const int width : {4, 8, 16}) {
    const int rows = cpu::strip_rows / width, steps = rows < 16 ? 16 / rows : 1;
    const Growth first(rows, steps, true, width), next(rows, steps, true, width, first.handed_on);
    INFO(rows << " rows a lane: 2^" << std::log2(first.all.most) << ", then 2^" << std::log2(next.all.most));
    CHECK(within(first.all, -8, 15.8));
    CHECK(within(next.all, -14, 24.2));
    // What comes from the row above has been brought back before it leaves: nothing grows from strip to strip.
    CHECK(next.handed_on.most == first.handed_on.most);
    CHECK(next.handed_on.least == first.handed_on.least);
  }
  for (const int width : {4, 8, 16}) {  // of penalties and other weights (cpu/rule_sweeps.h)
    const int rows = cpu::strip_rows / width, steps = rows < 8 ? 8 / rows : 1;
    const Growth first(rows, steps, true, width, renormalised, 1);
    const Growth next(rows, steps, true, width, first.handed_on, 1);
    CHECK(within(next.all, -16, 19.4));
    CHECK(next.handed_on.most == first.handed_on.most);
    CHECK(next.handed_on.least == first.handed_on.least);
  }
  CHECK(within(Growth(cpu::lane_rows, 4, false, 1, renormalised, 1).all, -7, 15.4));
  const Growth lanes(cpu::lane_rows, 8, false, 1);
  INFO("lanes of pairs: 2^" << std::log2(lanes.all.most));
  CHECK(within(lanes.all, -5.5, 17.5));
  CHECK(lanes.all.most > 0x1p17);  // the comment's number is no larger than it must be
}

TEST_CASE("m stays in the range that the CUDA backend states", "[cells]") {
  const Growth warp(4, 8, true, 32);
  INFO("2^" << std::log2(warp.all.least) << " to 2^" << std::log2(warp.all.most));
  CHECK(within(warp.all, -16, 29.3));
  CHECK(warp.all.most > 0x1p29);
  CHECK(warp.all.least < 0x1p-15);
}

TEST_CASE("the strips' kernel hands on what the recursion says", "[cells]") {
  const cpu::Kernels<float> &kernels = cpu::isa_baseline().kernels<float>();
  const int rows = kernels.strips.rows, steps = 16 / rows;
  const Growth expected(rows, steps, true, kernels.width);
  const float first = hand_on(kernels, std::nextafter(2.f, 0.f)), next = hand_on(kernels, first);
  CHECK(first <= expected.handed_on.most);
  CHECK(first >= 0.99 * expected.handed_on.most);
  CHECK(next <= expected.handed_on.most);
}

TEST_CASE("sums of cells whose exponents are as far apart as may be", "[cells]") {
  check_sums<Single>();
  check_sums<Double>();
}

TEST_CASE("a cell is off by what is relative to its fraction", "[cells]") {
  check_enter<Single>();
  check_enter<Double>();
}

TEST_CASE("a word keeps the exponent of two doubles, and the digits that it says of m", "[cells]") {
  const auto kept = [](double m, double e) {
    const uint64_t word = core::pack({m, e});
    CHECK(~word != 0);  // the mark of a word that has not been written
    return core::unpack(word);
  };
  for (int bits = 0; bits < 53; ++bits) {
    const double largest = std::ldexp(1, bits), of_exponent = std::ldexp(1, bits - 53);
    const double allowed = bits < 39 ? 0x1p-24 : of_exponent / 16 * 2;  // of |e| up to 2^(bits + 1)
    for (const double e : {largest - 1, largest, largest + 1, std::floor(largest * 1.4142135)})
      for (const double sign : {-1, 1})
        for (const double m : {0.00037, 0.75, 1.0, 1.0000001, 1.3, 1.99999999, 1 + 0x1p-30, 2 - 0x1p-52, 3e7}) {
          CAPTURE(bits, e, sign, m);
          const core::WideZ z = kept(m, sign * e);
          CHECK((z.m >= 1 && z.m <= 2));
          const double shift = z.e - sign * e;  // exact
          CHECK(std::abs(std::ldexp(z.m, static_cast<int>(shift)) / m - 1) <= allowed);
        }
  }
  for (const double e : {0x1p53, -0x1p53, 0x1p77, -1e300}) {
    const core::WideZ z = kept(1, e);
    CHECK(z.m == 1);
    CHECK(z.e == e);
  }
  const core::WideZ nan = kept(std::numeric_limits<double>::quiet_NaN(), -3);
  CHECK(std::isnan(nan.m));
  CHECK(nan.e == 0);
}
