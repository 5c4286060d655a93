// Constants of the extended-exponent arithmetic that host and device share.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __FAST_MATH__
#error "libsdtw cannot be compiled with -ffast-math or -Ofast: NaN, infinities and the order of sums mean something"
#endif

#ifdef __CUDACC__
#define SDTW_HOST_DEVICE __host__ __device__
#else
#define SDTW_HOST_DEVICE
#endif

namespace sdtw::core {

constexpr double log2_e = 1.44269504088896340736;
constexpr double ln_2 = 0.693147180559945309417;

// 2^-f = 1 + f (c[0] + c[1] f + ...) on [-1/2, 1/2]: minimax in the relative error, 2.5e-9 and 1.8e-17.
template <class T>
struct Exp2Minus;
template <>
struct Exp2Minus<float> {
  static constexpr int degree = 6;
  static constexpr float c[degree] = {-0.69314720670283259577f,  0.24022650922288758071f,   -0.055503272266703020589f,
                                      0.0096180566785246380754f, -0.001340042817761583794f, 0.00015461444698569129083f};
};
template <>
struct Exp2Minus<double> {
  static constexpr int degree = 11;
  static constexpr double c[degree] = {
      -0.69314718055994569675,   0.24022650695910098007,   -0.055504108664790394552,    0.0096181291076070023796,
      -0.0013333558153439964747, 0.0001540353044157213033, -0.000015252727385193868197, 1.3215442675329822143e-6,
      -1.0180647659234138888e-7, 7.0725704128144235096e-9, -4.078071929588336665e-10};
};

// The exponent type, the exponent of a forbidden cell (Z = 0), and the largest |e| of any other cell.
template <class T>
struct Exponent;
template <>
struct Exponent<float> {
  using type = int32_t;
  static constexpr type forbidden = -(1 << 30);
  static constexpr double limit = 1 << 29;
};
template <>
struct Exponent<double> {  // an integer held in a double: exact to 2^53, and with a range that no sum of costs leaves
  using type = double;
  static constexpr type forbidden = -1e300;
  static constexpr double limit = 1e299;
};

// A finite cost of which |D| log2(e) / gamma is larger makes its pair NaN: exponents of the float64 engine could not
// hold the sums of such costs. float32 costs stay below it for every gamma that is allowed.
constexpr double largest_wide_cost = 1e289;

// Beyond these log2(e) / gamma is no float that costs could be multiplied by: everything is computed in float64.
SDTW_HOST_DEVICE inline bool is_float_scale(double scale) { return scale > 1e-30 && scale < 1e30; }

// A float32 cost matrix has its split t = n + f exact up to here; larger costs are the float64 engine's.
constexpr double float_cost_limit = 1 << 21;

// Costs of series computed in float32 carry a relative error of 2^-24 or, of many features, a few times that, and the
// errors along competing paths add up to a gradient error of 4e-8 to 1e-7 times sqrt(t (n + m)), t the largest
// D log2(e) / gamma; in short series, whose paths differ in few cells, to one of 1e-7 times t. Beside a short series
// likely paths stay apart for as many steps as the long one has times more, and so do their errors: what is limited is
// t (n + m) max(n, m) / min(n, m). Up to this product and this t costs are computed in float32, beyond either in
// float64 (cpu/tiles.h). City block distances have many paths of equal costs, which may lie far apart. Measured:
// docs/numerics.md.
constexpr double plain_cost_limit = 170000, plain_cityblock_limit = 10000;
inline double plain_cost_step(double features) { return std::fmin(128, 240 / std::sqrt(features)); }

// Up to this t costs of many features may be had from products of points, or the like, which cancel: of the 2^-53 of
// the norms that float64 leaves, few times over, 2^-31 of a bit is left.
constexpr double product_cost_step = 1 << 20;

// A pair of so many steps beside so few that rounding errors of float32 cells go one way all along, as nearly all paths
// go straight on.
SDTW_HOST_DEVICE inline bool is_slender(int64_t n, int64_t m) { return n > m ? n > 100 * m : m > 100 * n; }

// One of so many steps that these errors would show in its gradients: it is the float64 engine's. They grow with the
// length, up to 4096 steps to 6e-6, measured for zeros beside two steps and for equal costs beside 3 and 10, and beside
// a 400th of the steps or more up to 16384 steps to 1e-5; at 100 000 steps they are 3e-5 to 1e-4.
SDTW_HOST_DEVICE inline bool is_thin(int64_t n, int64_t m) {
  const int64_t longer = n > m ? n : m, shorter = n > m ? m : n;
  return longer > 4096 && longer > (longer > 16384 ? 100 : 400) * shorter;
}

// E below this is treated as 0 wherever that saves a tile, or a part of one. E is a probability, so this is relative to
// the upstream gradient, which is multiplied in at the end. sdtw.h documents it.
constexpr double negligible_alignment = 1e-12;

// The E that a tile is worth sweeping for on CPUs. What is dropped where less enters is missing from all E from there
// to the first cell, and adds up over the tiles of a strip and over strips: with 1e-12 E[0,0] of nearly equal costs is
// 1 - 6.6e-14 n, which float64 shows. There tiles are swept for a hundredth of what counts as 0 where it is written, in
// up to 8% more time where points have one or two features and E is diffuse, and none otherwise.
constexpr double least_inflow(bool is_float64) { return (is_float64 ? 1e-2 : 1) * negligible_alignment; }

}  // namespace sdtw::core
