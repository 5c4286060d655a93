// Derivatives of R along the tangents: they grow along a path, and what probabilities change by are differences of
// neighbours, so floats do not do, whatever the cell. They are doubles, or, of float problems where float64 is slow,
// sums of two floats.
#pragma once

#include "cuda/general/numbers.cuh"
#include "cuda/room.h"

namespace sdtw::cuda::general {

template <class Cell>
using Derivative = std::conditional_t<avoids_float64 && !Cell::wide, TwoFloats, double>;

// v + weight change.
__device__ __forceinline__ double plus(double v, double weight, double change) { return fma(weight, change, v); }
__device__ __forceinline__ TwoFloats plus(const TwoFloats &v, float weight, float change) {
  TwoFloats sum = v;
  add(sum, product(TwoFloats{change, 0}, weight));
  return normalised(sum);
}
// The share of `to` in what lies between.
__device__ __forceinline__ double between(double from, double to, double share) { return fma(share, to - from, from); }
__device__ __forceinline__ TwoFloats between(const TwoFloats &from, const TwoFloats &to, float share) {
  TwoFloats sum = from;
  add(sum, product(difference(to, from), share));
  return normalised(sum);
}
// a - b, rounded.
template <class Real>
__device__ __forceinline__ Real rounded_difference(double a, double b) {
  return static_cast<Real>(a - b);
}
template <class Real>
__device__ __forceinline__ Real rounded_difference(const TwoFloats &a, const TwoFloats &b) {
  const TwoFloats d = difference(a, b);
  return d.high + d.low;
}

// The probabilities of a cell's transitions, p, as weights of a mean of derivatives. Rounding must not add a part of
// the neighbours' derivatives themselves, which are large.
template <class Cell, class Of = Derivative<Cell>>
struct Shares;

// Of floats the likeliest is what the others leave, so that they add up to 1.
template <class Cell>
struct Shares<Cell, double> {
  using Real = typename Cell::Real;
  double of[transitions];

  __device__ __forceinline__ explicit Shares(const Real (&p)[transitions]) {
#pragma unroll
    for (int way = 0; way < transitions; way++) of[way] = p[way] > least_share<Real> ? static_cast<double>(p[way]) : 0;
    if constexpr (!Cell::wide) {
      const bool diagonally = p[diagonal] >= p[horizontal] && p[diagonal] >= p[vertical];
      const bool along = !diagonally && p[horizontal] > p[vertical];
      const double left =
          1 - (diagonally ? of[horizontal] : of[diagonal]) - (along || diagonally ? of[vertical] : of[horizontal]);
      of[vertical] = along || diagonally ? of[vertical] : left;
      of[diagonal] = diagonally ? left : of[diagonal], of[horizontal] = along ? left : of[horizontal];
    }
  }
  __device__ __forceinline__ double weight(const double (&weights)[transitions]) const {
    return fma(weights[diagonal], of[diagonal],
               fma(weights[vertical], of[vertical], weights[horizontal] * of[horizontal]));
  }
  // The vertical neighbour's derivative is the last to be known. In double derivatives may be infinite, even of cells
  // from which no path comes. more: what is added.
  __device__ __forceinline__ double mean(const double (&dots)[transitions], double more) const {
    const auto with = [&](int way, double sum) {
      return Cell::wide && of[way] == 0 ? sum : fma(of[way], dots[way], sum);
    };
    return with(vertical, with(diagonal, with(horizontal, more)));
  }
};

// The derivative of the likeliest neighbour, and what the others differ from it.
template <class Cell>
struct Shares<Cell, TwoFloats> {
  float of[transitions];
  bool diagonally, along;

  __device__ __forceinline__ explicit Shares(const float (&p)[transitions])
      : diagonally(p[diagonal] >= p[horizontal] && p[diagonal] >= p[vertical]),
        along(!diagonally && p[horizontal] > p[vertical]) {
#pragma unroll
    for (int way = 0; way < transitions; way++) of[way] = p[way] > least_share<float> ? p[way] : 0;
  }
  __device__ __forceinline__ float weight(const float (&weights)[transitions]) const {
    return fmaf(weights[diagonal], of[diagonal],
                fmaf(weights[vertical], of[vertical], weights[horizontal] * of[horizontal]));
  }
  __device__ __forceinline__ TwoFloats mean(const TwoFloats (&dots)[transitions], float more) const {
    const TwoFloats likeliest = diagonally ? dots[diagonal] : along ? dots[horizontal] : dots[vertical];
    TwoFloats sum = likeliest;
    add(sum, {more, 0});
#pragma unroll
    for (const int way : {horizontal, diagonal, vertical})
      if (of[way] > 0) add(sum, product(difference(dots[way], likeliest), of[way]));
    return normalised(sum);
  }
};

}  // namespace sdtw::cuda::general
