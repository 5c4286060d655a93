// Dual numbers: a value and its derivative along one direction. The oracle, computed in them, gives exact directional
// derivatives of values and of gradients, with no formula of its own for either.
#pragma once

#include <cmath>

namespace oracle {

template <class Real>
struct Dual {
  Real v{}, d{};
  Dual() = default;
  Dual(Real value, Real derivative = 0) : v(value), d(derivative) {}

  Dual operator-() const { return {-v, -d}; }
  Dual &operator+=(const Dual &b) { return v += b.v, d += b.d, *this; }
  Dual &operator-=(const Dual &b) { return v -= b.v, d -= b.d, *this; }
  Dual &operator/=(const Dual &b) { return *this = *this / b; }
  friend Dual operator+(const Dual &a, const Dual &b) { return {a.v + b.v, a.d + b.d}; }
  friend Dual operator-(const Dual &a, const Dual &b) { return {a.v - b.v, a.d - b.d}; }
  friend Dual operator*(const Dual &a, const Dual &b) { return {a.v * b.v, a.d * b.v + a.v * b.d}; }
  friend Dual operator/(const Dual &a, const Dual &b) {
    const Real q = a.v / b.v;
    return {q, (a.d - q * b.d) / b.v};
  }
  friend bool operator<(const Dual &a, const Dual &b) { return a.v < b.v; }
  friend bool operator>(const Dual &a, const Dual &b) { return a.v > b.v; }
  friend Dual exp(const Dual &a) {
    const Real e = std::exp(a.v);
    return {e, e == 0 ? 0 : e * a.d};
  }
  friend Dual log(const Dual &a) { return {std::log(a.v), a.d / a.v}; }
  friend Dual sqrt(const Dual &a) {
    const Real root = std::sqrt(a.v);
    return {root, root == 0 ? 0 : a.d / (2 * root)};
  }
  friend Dual abs(const Dual &a) { return a.v < 0 ? -a : a.v == 0 ? Dual{0, 0} : a; }
};

// The value without its derivative, of either kind of number.
template <class Real>
Real value_of(const Dual<Real> &a) {
  return a.v;
}
inline double value_of(double a) { return a; }
inline long double value_of(long double a) { return a; }

}  // namespace oracle
