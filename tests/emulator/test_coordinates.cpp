// What costs are made of where float64 is slow, without a kernel: coordinates in integers and numbers of two floats,
// held against long double.
#include <cmath>
#include <random>

#include "catch.h"
#include "cuda/costs/coordinates.cuh"
#include "cuda/general/cell.cuh"
#include "cuda/general/cost_sums.cuh"

using namespace sdtw::cuda;

namespace {

std::mt19937_64 &random_bits() {
  static std::mt19937_64 bits(5);
  return bits;
}
double uniform(double least, double most) { return std::uniform_real_distribution<double>(least, most)(random_bits()); }
// Of either sign, with an exponent from that range.
float spread(double least, double most) {
  return static_cast<float>(std::exp2(uniform(least, most)) * (random_bits()() % 2 ? 1 : -1));
}
long double value_of(const TwoFloats &v) { return static_cast<long double>(v.high) + v.low; }
long double value_of(IntegerCoordinates::Number v) {
  return std::ldexp(static_cast<long double>(v.whole), -16) + std::ldexp(static_cast<long double>(v.rest), -47);
}
// t of a cost. The last digit of q = 2^-f - 1 and the error of its polynomial are 2^-22 of f.
constexpr long double of_q = 0x1p-22L;
long double value_of(const FloatCost &cost) { return cost.n - std::log2(1 + static_cast<long double>(cost.q)); }

// The largest |t - exact| over a bound of it, of many costs of D features that are up to so large.
template <int D, bool large>
long double worst_cost(double reach) {
  long double worst = 0;
  for (int i = 0; i < 20000; i++) {
    const double scale = std::exp2(uniform(-30, 30)), size = std::exp2(uniform(-20, std::log2(reach))) / std::sqrt(D);
    const Root root(scale);
    const auto draw = [&](double around) { return static_cast<float>(around + uniform(-size, size) / root.whole); };
    const double offset = random_bits()() % 2 ? uniform(-8, 8) * size / root.whole : 0;
    IntegerCoordinates::Number x[1][D], y[D];
    long double exact = 0;
    for (int f = 0; f < D; f++) {
      const float origin = draw(offset), of_x = draw(offset), of_y = random_bits()() % 8 ? draw(offset) : of_x;
      float unused;
      x[0][f] = IntegerCoordinates::of(of_x, origin, IntegerCoordinates::unit(root), unused);
      y[f] = IntegerCoordinates::of(of_y, origin, IntegerCoordinates::unit(root), unused);
      const long double difference = static_cast<long double>(of_x) - of_y;
      exact += difference * difference * scale;
    }
    FloatCost cost[1];
    large ? IntegerCoordinates::large_costs<1, D>(x, y, 1, cost) : IntegerCoordinates::costs<1, D>(x, y, 1, cost);
    // Coordinates are off by 2^-41 and 2^-46 of themselves, and t by units of 2^-32.
    const long double of_points = 2 * std::sqrt(exact * D) * (0x1p-41L + 0x1p-45L * reach);
    const long double bound = of_points + (2 + D) * 0x1p-32L + of_q * std::fabs(exact - std::rint(exact));
    worst = std::max(worst, std::fabs(value_of(cost[0]) - exact) / bound);
  }
  return worst;
}

}  // namespace

TEST_CASE("Integer coordinates are right to 2^-41 and 2^-46 of themselves") {
  for (int i = 0; i < 100000; i++) {
    const Root root(std::exp2(uniform(-40, 40)));
    const float origin = static_cast<float>(spread(-20, 0) / root.whole);
    const float v = origin + static_cast<float>(spread(-40, 14.9) / root.whole);
    float size;
    const IntegerCoordinates::Number number = IntegerCoordinates::of(v, origin, IntegerCoordinates::unit(root), size);
    const long double exact = (static_cast<long double>(v) - origin) * static_cast<long double>(root.whole);
    INFO("v " << v << " origin " << origin << " root " << root.whole);
    REQUIRE(std::fabs(value_of(number) - exact) <= 0x1p-41L + 0x1p-46L * std::fabs(exact));
    REQUIRE(std::abs(number.rest) <= 1 << 30);
    REQUIRE(size == Approx(static_cast<double>(exact)).epsilon(1e-6));
  }
}

TEST_CASE("Costs of integer coordinates") {
  CHECK(worst_cost<1, false>(1 << 9) <= 1);
  CHECK(worst_cost<2, false>(1 << 9) <= 1);
  CHECK(worst_cost<8, false>(1 << 9) <= 1);
  CHECK(worst_cost<1, true>(1 << 14) <= 1);
  CHECK(worst_cost<4, true>(1 << 14) <= 1);
}

TEST_CASE("The column between two pairs takes exponents below those of any pair, whatever the point beside it") {
  for (const float v : {-1023.f, -1.f, 0.f, 1e-3f, 1023.f}) {
    float unused;
    const IntegerCoordinates::Number x[1][2] = {{IntegerCoordinates::of(v, 0, {1, 0}, unused), {}}};
    const IntegerCoordinates::Number y[2] = {IntegerCoordinates::separator(0), IntegerCoordinates::separator(1)};
    FloatCost cost[1];
    IntegerCoordinates::costs<1, 2>(x, y, 1, cost);
    CHECK(cost[0].n >= IntegerCoordinates::separator_bits);
    CHECK(static_cast<long long>(cost[0].n) + IntegerCoordinates::separator_bits < 1ll << 31);
    CHECK(std::isfinite(cost[0].q));
  }
}

TEST_CASE("Numbers of two floats keep 44 bits") {
  constexpr long double unit = 0x1p-44L;
  for (int i = 0; i < 100000; i++) {
    const double number = spread(-30, 30) * uniform(1, 2);
    CHECK_FALSE(std::fabs(value_of(TwoFloats::of(number)) - number) > unit * std::fabs(number));
    const float a = spread(-20, 20), b = random_bits()() % 2 ? spread(-20, 20) : std::nextafter(a, 0.0f);
    CHECK_FALSE(value_of(difference(a, b)) != static_cast<long double>(a) - b);

    const TwoFloats v = TwoFloats::of(number), w = TwoFloats::of(uniform(-1, 1));
    CHECK_FALSE(std::fabs(value_of(product(v, w)) - value_of(v) * value_of(w)) >
                unit * std::fabs(value_of(v) * value_of(w)));
    CHECK_FALSE(std::fabs(value_of(square(v)) - value_of(v) * value_of(v)) > unit * value_of(v) * value_of(v));
    CHECK_FALSE(value_of(absolute(v)) != std::fabs(value_of(v)));
    TwoFloats sum = v;
    add(sum, w);
    CHECK_FALSE(std::fabs(value_of(sum) - value_of(v) - value_of(w)) >
                unit * (std::fabs(value_of(v)) + std::fabs(value_of(w))));
  }
  CHECK(TwoFloats::of(0.0).high == 0);
  CHECK(std::isinf(TwoFloats::of(1e300).high));
  CHECK(TwoFloats::of(-1e300).high < 0);
  CHECK(TwoFloats::of(1e-300).high == 0);
}

TEST_CASE("Roots of two floats") {
  using Cell = general::Soft<FloatCell, general::Rule::unit>;
  for (int i = 0; i < 25000; i++) {
    TwoFloats s[K];
    long double exact[K];
    for (int k = 0; k < K; k++) {
      s[k] = k == 0 ? TwoFloats{0, 0} : absolute(square(TwoFloats::of(static_cast<double>(spread(-50, 50)))));
      exact[k] = std::sqrt(value_of(s[k]));
    }
    general::take_roots<Cell, K>(s);
    for (int k = 0; k < K; k++) REQUIRE(std::fabs(value_of(s[k]) - exact[k]) <= 0x1p-42L * exact[k]);
  }
}

TEST_CASE("Costs of two floats as cells take them") {
  using Cell = general::Soft<FloatCell, general::Rule::unit>;
  general::Args of_call{};
  for (const double scale : {1.4426950408889634, 1e-6, 3e7}) {
    of_call.scale = scale;
    const Cell::Units units(of_call, 1 << 21);
    for (int i = 0; i < 20000; i++) {
      const double t = std::exp2(uniform(-30, 20.9));
      TwoFloats cost[K];
      for (int k = 0; k < K; k++) cost[k] = TwoFloats::of(t / scale * (1 + k * 1e-4));
      const bool admitted[K] = {true, true, true, false};
      Cell::Costs set;
      REQUIRE(set.set<K>(cost, admitted, 0, K, units) == 0);
      for (int k = 0; k < 3; k++) {
        const long double exact = value_of(cost[k]) * static_cast<long double>(scale);
        const FloatCost out{set.q[0].v[k], set.n[0].v[k]};
        REQUIRE(std::fabs(value_of(out) - exact) <=
                0x1p-44L * exact + of_q * std::fabs(exact - std::rint(exact)) + 1e-37L);
      }
      REQUIRE(set.n[0].v[3] == Cell::forbidding);
    }
  }
  // What floats have no room for is the double engine's.
  of_call.scale = 1e13;
  const Cell::Units none(of_call, 1 << 21);
  TwoFloats cost[K] = {};
  const bool admitted[K] = {true, true, true, true};
  Cell::Costs set;
  CHECK((set.set<K>(cost, admitted, 0, K, none) & general::rejected) != 0);
}
