// Every operation of an instruction set's vectors against plain C++, lane by lane. Included by simd_*.cpp, which are
// compiled for the instruction set: nothing here may be shared with other files.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "simd/simd.h"

namespace {

// Numbers without a pattern, and the special ones.
template <class T>
class Numbers {
 public:
  T next() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    const double uniform = double(state_ >> 11) * 0x1p-53;
    const auto kind = state_ >> 3 & 15;
    if (kind == 0) return 0;
    if (kind == 1) return T(uniform < 0.5 ? 1 : -1);
    return T((uniform - 0.5) * std::ldexp(1.0, int(state_ >> 7 & 31) - 16));
  }
  T positive() { return std::abs(next()) + T(0x1p-20); }
  int below(int bound) { return next(), int((state_ >> 33) % uint64_t(bound)); }

 private:
  uint64_t state_ = 12345;
};

// fused: fma and fnma round once.
template <class V, bool fused>
class Check {
  using T = typename V::Scalar;
  using E = typename V::ScalarExponent;
  static constexpr int W = V::width;
  struct Lanes {
    T v[W];
    typename V::Real vector() const { return V::load(v); }
  };
  struct Exponents {
    E v[W];
    typename V::Exponent vector() const { return V::load(v); }
  };

 public:
  explicit Check(test::Failures &failures) : failures_(failures) {}

  void run() {
    for (int round = 0; round < 200; ++round) {
      arithmetic();
      exponents();
      splitting();
      moving();
      watching();
      if constexpr (sizeof(T) == 8) converting();
      if (round == 0) storing<sdtw::core::Half>("Half"), storing<sdtw::core::BFloat16>("BFloat16");
    }
  }

 private:
  static Lanes lanes(typename V::Real a) {
    Lanes result;
    V::store(result.v, a);
    return result;
  }
  template <class F>
  void expect(const char *what, typename V::Real got, const F &wanted) {
    const Lanes lanes_got = lanes(got);
    for (int l = 0; l < W; ++l) same(what, l, lanes_got.v[l], T(wanted(l)));
  }
  template <class F>
  void expect_exponents(const char *what, typename V::Exponent got, const F &wanted) {
    Exponents found;
    V::store(found.v, got);
    for (int l = 0; l < W; ++l) same(what, l, found.v[l], E(wanted(l)));
  }
  template <class U>
  void same(const char *what, int lane, U got, U wanted) {
    if (got == wanted || (got != got && wanted != wanted)) return;
    if (failures_.size() < 20)
      failures_.push_back(std::string(what) + ", lane " + std::to_string(lane) + ": " + std::to_string(got) +
                          " where " + std::to_string(wanted) + " is right");
  }
  Lanes draw() {
    Lanes result;
    for (T &v : result.v) v = numbers_.next();
    return result;
  }
  Lanes draw_mantissas() {
    Lanes result;
    for (T &v : result.v) v = 1 + T(numbers_.below(1 << 20)) * T(0x1p-20);
    return result;
  }
  Exponents draw_exponents(int spread) {
    Exponents result;
    for (E &e : result.v) e = E(numbers_.below(2 * spread) - spread);
    return result;
  }
  static T multiply_add(T a, T b, T c) {
    if (fused) return std::fma(a, b, c);
    const T product = a * b;
    return product + c;
  }

  void arithmetic() {
    const Lanes a = draw(), b = draw(), c = draw();
    const auto x = a.vector(), y = b.vector(), z = c.vector();
    expect("load and store", x, [&](int l) { return a.v[l]; });
    expect("set1", V::set1(a.v[1]), [&](int) { return a.v[1]; });
    expect("add", V::add(x, y), [&](int l) { return a.v[l] + b.v[l]; });
    expect("sub", V::sub(x, y), [&](int l) { return a.v[l] - b.v[l]; });
    expect("mul", V::mul(x, y), [&](int l) { return a.v[l] * b.v[l]; });
    Lanes divisor;
    for (T &v : divisor.v) v = numbers_.positive();
    expect("div", V::div(x, divisor.vector()), [&](int l) { return a.v[l] / divisor.v[l]; });
    expect("larger", V::larger(x, y), [&](int l) { return std::max(a.v[l], b.v[l]); });
    expect("at_least", V::at_least(x, c.v[0]), [&](int l) { return a.v[l] >= c.v[0] ? a.v[l] : 0; });
    expect("fma", V::fma(x, y, z), [&](int l) { return multiply_add(a.v[l], b.v[l], c.v[l]); });
    expect("fnma", V::fnma(x, y, z), [&](int l) { return multiply_add(-a.v[l], b.v[l], c.v[l]); });
    same("first", 0, V::first(x), a.v[0]);
    Lanes none{};
    expect("abs", V::abs(x), [&](int l) { return std::abs(a.v[l]); });
    expect("sqrt", V::sqrt(V::abs(x)), [&](int l) { return std::sqrt(std::abs(a.v[l])); });
    expect("where_positive", V::where_positive(y, x), [&](int l) { return b.v[l] > 0 ? a.v[l] : 0; });
    expect("with_sign", V::with_sign(x, y), [&](int l) { return b.v[l] > 0 ? a.v[l] : b.v[l] < 0 ? -a.v[l] : 0; });
    for (T &v : none.v) v = 0;
    same("any_nonzero of none", 0, int(V::any_nonzero(none.vector())), 0);
    none.v[numbers_.below(W)] = (numbers_.below(2) ? 1 : -1) * numbers_.positive();
    same("any_nonzero of one", 0, int(V::any_nonzero(none.vector())), 1);
    expect("at_most", V::where(V::at_most(x, y), x, z), [&](int l) { return a.v[l] <= b.v[l] ? a.v[l] : c.v[l]; });
    if constexpr (sizeof(T) == 8) expect("smaller", V::smaller(x, y), [&](int l) { return std::min(a.v[l], b.v[l]); });
  }

  void exponents() {
    const Lanes m = draw_mantissas(), other = draw_mantissas();
    const Exponents e = draw_exponents(60), f = draw_exponents(60);
    Exponents most;
    for (int l = 0; l < W; ++l) most.v[l] = std::max(e.v[l], f.v[l]);
    expect_exponents("max", V::max(e.vector(), f.vector()), [&](int l) { return most.v[l]; });
    expect_exponents("sub", V::sub(e.vector(), f.vector()), [&](int l) { return e.v[l] - f.v[l]; });
    const auto base = V::base(V::max(e.vector(), f.vector()));
    const auto scaled = [&](int l) { return std::ldexp(m.v[l], int(e.v[l] - most.v[l])); };
    expect("scale", V::scale(m.vector(), e.vector(), base), scaled);
    expect("add_scaled", V::add_scaled(other.vector(), m.vector(), e.vector(), base),
           [&](int l) { return other.v[l] + scaled(l); });
    const auto x = draw(), y = draw();
    const E first = E(-20), end = E(25);
    const auto inside = V::within(e.vector(), V::whole(first), V::whole(end));
    expect("within, where", V::where(inside, x.vector(), y.vector()),
           [&](int l) { return e.v[l] >= first && e.v[l] < end ? x.v[l] : y.v[l]; });
    expect_exponents("whole", V::whole(E(7)), [](int) { return E(7); });
    if constexpr (sizeof(T) == 4) {
      expect("real_of", V::real_of(e.vector()), [&](int l) { return T(e.v[l]); });
      expect_exponents("where", V::where(inside, e.vector(), f.vector()),
                       [&](int l) { return e.v[l] >= first && e.v[l] < end ? e.v[l] : f.v[l]; });
    }

    Exponents forbidden;
    for (E &v : forbidden.v) v = sdtw::core::Exponent<T>::forbidden;
    expect("scale of a forbidden cell", V::scale(m.vector(), forbidden.vector(), base), [&](int) { return T(0); });

    Lanes wide = draw_mantissas();
    for (T &v : wide.v) v = std::ldexp(v, numbers_.below(40) - 20);
    auto mantissa = wide.vector();
    auto exponent = e.vector();
    V::normalize(mantissa, exponent);
    expect("normalize: m", mantissa, [&](int l) { return std::ldexp(wide.v[l], -std::ilogb(wide.v[l])); });
    expect_exponents("normalize: e", exponent, [&](int l) { return e.v[l] + E(std::ilogb(wide.v[l])); });
  }

  // integer + fraction is the product, to the rounding of the fraction.
  void splitting() {
    const Lanes cost = draw();
    const double wide = 1.4426950408889634 / std::abs(double(numbers_.positive()) + 0.01);
    const T high = T(wide), low = T(wide - double(high));
    const auto split = V::split(cost.vector(), V::set1(high), V::set1(low));
    const Lanes fraction = lanes(split.fraction);
    Exponents integer;
    V::store(integer.v, split.integer);
    for (int l = 0; l < W; ++l) {
      const long double t = (long double)cost.v[l] * (sizeof(T) == 4 ? (long double)wide : (long double)high);
      if (std::abs(t) > 0x1p21) continue;
      const double error = double((long double)integer.v[l] + (long double)fraction.v[l] - t);
      same("split: whole", l, double(integer.v[l]), std::rint(double(integer.v[l])));
      // Without a fused multiply-add the product itself is rounded, and a double's fraction is held to 1/2.
      const double product = std::numeric_limits<T>::epsilon() * (1 + std::abs(double(t)));
      const double rounding = fused && sizeof(T) == 4 ? double(std::numeric_limits<T>::epsilon()) : product;
      same("split: sum", l, std::abs(error) <= rounding, true);
      same("split: fraction", l, std::abs(double(fraction.v[l])) <= 0.5 + product, true);
    }
  }

  void moving() {
    const Lanes a = draw(), b = draw();
    const Exponents e = draw_exponents(1000);
    const auto x = a.vector();
    expect("rotate_up", V::rotate_up(x), [&](int l) { return a.v[(l + W - 1) % W]; });
    expect("rotate_down", V::rotate_down(x), [&](int l) { return a.v[(l + 1) % W]; });
    expect("insert_first", V::insert_first(x, b.v), [&](int l) { return l == 0 ? b.v[0] : a.v[l]; });
    expect("insert_last", V::insert_last(x, b.v), [&](int l) { return l == W - 1 ? b.v[0] : a.v[l]; });
    expect_exponents("rotate_up", V::rotate_up(e.vector()), [&](int l) { return e.v[(l + W - 1) % W]; });
    const E value = E(77);
    expect_exponents("insert_first", V::insert_first(e.vector(), &value),
                     [&](int l) { return l == 0 ? value : e.v[l]; });
    same("first", 0, V::first(e.vector()), e.v[0]);
    Lanes matrix[W];
    typename V::Real rows[W];
    for (int l = 0; l < W; ++l) matrix[l] = draw(), rows[l] = matrix[l].vector();
    V::transpose(rows);
    for (int k = 0; k < W; ++k) expect("transpose", rows[k], [&](int l) { return matrix[l].v[k]; });
  }

  void watching() {
    constexpr T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    const T limit = 100;
    const auto verdict = [&](T odd) {
      Lanes some = draw();
      for (T &v : some.v) v = std::min<T>(std::max<T>(v, -99), 99);
      some.v[numbers_.below(W)] = odd;
      auto watch = V::watch(V::watch_none(), some.vector(), V::set1(limit));
      watch = V::watch(watch, V::set1(1), V::set1(limit));  // what has been seen stays seen
      return V::verdict(watch, limit) != 0;
    };
    for (const T odd : {T(99), T(-99)}) same("verdict of small ones", 0, int(verdict(odd)), 0);
    for (const T odd : {T(101), T(-101), infinity, -infinity, nan}) same("verdict", 0, int(verdict(odd)), 1);
    Lanes weight = draw(), value = draw();
    for (int l = 0; l < W; ++l) weight.v[l] = numbers_.below(2) ? T(0) : numbers_.positive();
    if (sizeof(T) == 8) value.v[0] = infinity, weight.v[0] = 0;
    const Lanes live = lanes(V::where_live(weight.vector(), value.vector()));
    for (int l = 0; l < W; ++l)
      same("where_live", l, weight.v[l] * live.v[l], weight.v[l] == 0 ? 0 : weight.v[l] * value.v[l]);
  }

  // All numbers of 16 bits, and floats between them, against core/half.h's own conversions, which round to nearest
  // even.
  template <class Short>
  void storing(const char *name) {
    Short some[W], back[W];
    for (uint32_t first = 0; first < 0x10000; first += W) {
      for (int l = 0; l < W; ++l) {
        some[l].bits = static_cast<uint16_t>(first + static_cast<uint32_t>(l));
      }
      const Lanes loaded = lanes(V::load(some));
      Lanes between;
      for (int l = 0; l < W; ++l) {
        same(name, l, loaded.v[l], T(float(some[l])));
        between.v[l] = T(float(some[l]) * (1 + float(numbers_.below(64)) * 0x1p-12f));
      }
      V::store(back, between.vector());
      for (int l = 0; l < W; ++l) same(name, l, float(back[l]), float(Short(float(between.v[l]))));
    }
  }

  // What float64's vectors have besides.
  void converting() {
    if constexpr (sizeof(T) == 8) {
      float narrow[W], back[W];
      for (float &v : narrow) v = float(numbers_.next());
      const auto wide = V::load(narrow);
      expect("load of float", wide, [&](int l) { return double(narrow[l]); });
      const Lanes a = draw();
      V::store(back, a.vector());
      for (int l = 0; l < W; ++l) same("store to float", l, back[l], float(a.v[l]));
      int32_t integer[W];
      V::store_split(a.vector(), integer, back);
      for (int l = 0; l < W; ++l) {
        same("store_split: integer", l, double(integer[l]), std::nearbyint(a.v[l]));
        same("store_split: fraction", l, back[l], float(a.v[l] - std::nearbyint(a.v[l])));
      }
      Lanes some = draw();
      some.v[numbers_.below(W)] = std::numeric_limits<double>::infinity();
      expect("unless_infinite", V::unless_infinite(some.vector()),
             [&](int l) { return std::isinf(some.v[l]) ? 0 : some.v[l]; });
    }
  }

  Numbers<T> numbers_;
  test::Failures &failures_;
};

template <template <class> class Vec, bool fused>
test::Failures check_vectors() {
  test::Failures failures;
  Check<Vec<float>, fused>(failures).run();
  Check<Vec<double>, fused>(failures).run();
  return failures;
}

}  // namespace
