// A lane's rows in a stream at gamma = 0 (see rows.cuh): HardRows, and for the pairs that they leave DoubleRows.
#pragma once

#include "cuda/streams/rows.cuh"

namespace sdtw::cuda::streams {

// What both have in common: Z are the cells.
template <int D, bool is_banded>
struct MinPlusRows {
  static constexpr bool soft = false, banded = is_banded, exists = true;
  static constexpr int K = hard_rows_per_lane, features = D;
  using Point = float;
  using Size = float;
  using Origin = float;
  struct Ahead {
    float y[D];
    LaneGate<K> gate;
  };

  static __device__ __forceinline__ Point point(float v, Origin, const Args &, Size &size) { return size = v; }
  static __device__ __forceinline__ float infinite() { return __int_as_float(0x7f800000); }
  static __device__ __forceinline__ float separator(int) { return banded ? 0 : infinite(); }
  static __device__ __forceinline__ Ahead look(const float *at, int pitch, int u) {
    Ahead a;
#pragma unroll
    for (int f = 0; f < D; f++) a.y[f] = at[f * pitch + u];
    return a;
  }
};

// R in float32, as b + r. The base b is the lane's own, and the same for all of its rows. In each step it becomes the
// least R that the lane has or gets from above, but for the digits behind its 16th. So sums are rounded relative to
// what R grows by within a lane, not to R itself, and rounding adds up to no more than that of the costs does, however
// long a path is. What comes from above is relative to that lane's base: a difference of bases is exact unless one of
// them is hundreds of times the other, and then it is the larger R that is rounded. As no r is negative their order is
// that of their bits.
//
// That is not so where a path stays within a lane, beside rows of which R is far less than its own: behind a pulse of
// x, a few rows that are far from all of y, R is larger by what the pulse costs, and each cost that is added to it is
// rounded to its digits. Such pairs, and those of which y is more than four times as long as x, are left to DoubleRows.
template <int D, sdtw_metric metric, bool is_banded>
struct BasedRows : MinPlusRows<D, is_banded> {
  using Common = MinPlusRows<D, is_banded>;
  using Common::banded, Common::infinite, Common::K;
  using typename Common::Ahead;
  static constexpr bool again = false, has_pulse = true, has_halves = true;
  static constexpr int unrolled = block_steps;
  static constexpr int resident = by_features<D>(6, 5, 4, 3) - is_banded,
                       resident_of_several = by_features<D>(2, 2, 2, 1);
  struct Z {
    float r, b;
  };

  float z[K], above, b;
  int upper;
  bool lowest;
  float x[K][D];

  static __device__ __forceinline__ Z forbidden() { return {infinite(), 0}; }
  static __device__ __forceinline__ Z corner() { return {0, 0}; }
  // Of |x| and of |y|: sums of the squares of such differences along the longest paths stay within a float's range.
  static __device__ __forceinline__ float reach(const Args &, float) { return 1e16f; }

  __device__ __forceinline__ void start(const Args &, int upper_lane, bool is_lowest) {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = 0;
    above = b = 0, upper = upper_lane, lowest = is_lowest;
  }
  // Without the digits behind the 16th.
  static __device__ __forceinline__ float coarse(float v) { return __uint_as_float(__float_as_uint(v) & 0xffffff00u); }
  static __device__ __forceinline__ float least(float a, float b) {
    return __int_as_float(min(__float_as_int(a), __float_as_int(b)));
  }
  static __device__ __forceinline__ float least(float a, float b, float c) {
    return __int_as_float(__vimin3_s32(__float_as_int(a), __float_as_int(b), __float_as_int(c)));
  }
  // r, and the cost of two points. Costs of several features are added up beforehand: they do not wait for r, which is
  // the cell above. More than four are added up in two halves, so that a cost is rounded less often.
  static __device__ __forceinline__ float with_cost(float r, const float (&x)[D], const float (&y)[D]) {
    constexpr bool squares = metric != SDTW_CITYBLOCK, at_once = D == 1;
    constexpr int half = D > 4 ? D / 2 : D;
    const auto plus = [](float sum, float v) { return squares ? fmaf(v, v, sum) : sum + fabsf(v); };
    if constexpr (at_once) {
      return plus(r, x[0] - y[0]);
    } else {
      float sums[2];
#pragma unroll
      for (int f = 0; f < D; f++) {
        const float difference = x[f] - y[f];
        float &sum = sums[f / half];
        sum = f % half != 0 ? plus(sum, difference) : squares ? difference * difference : fabsf(difference);
      }
      const float cost = half < D ? sums[0] + sums[1] : sums[0];
      return r + (metric == SDTW_EUCLIDEAN ? sqrtf(cost) : cost);
    }
  }
  template <class Meanwhile>
  __device__ __forceinline__ void step(const Ahead &a, const Z &top, Meanwhile meanwhile) {
    const float from_above = __shfl_sync(all_lanes, lowest ? top.r : z[K - 1], upper);
    float low = least(above, z[0], z[1]);
#pragma unroll
    for (int k = 2; k < K; k += 2) low = least(low, z[k], z[k + 1]);
    const float base_above = __shfl_sync(all_lanes, lowest ? top.b : b, upper);
    meanwhile();
    // Of a column of infinities nothing is left: the least is then what comes from above. With a band that may be
    // infinite as well.
    float base = least(coarse(b + low), coarse(base_above + from_above));
    if (banded && base == infinite()) base = b;
    const float shift = base - b;
    float up = from_above + (base_above - base), corner = above - shift;
    b = base, above = up;
#pragma unroll
    for (int k = 0; k < K; k++) {
      const float left = z[k] - shift;
      const float best = least(corner, left, up);
      up = with_cost(best, x[k], a.y);
      if (banded && !a.gate.admits(k)) up = infinite();
      z[k] = up;
      corner = left;
    }
  }
  // As of ScaledRows.
  __device__ __forceinline__ void forbid() {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = infinite();
  }
  __device__ __forceinline__ void set_above(const Z &cell) { above = cell.r, b = cell.b; }
  __device__ __forceinline__ void set_lowest(bool is_lowest) { lowest = is_lowest; }
  __device__ __forceinline__ void renormalise() {}
  static __device__ __forceinline__ void renormalise(Z &) {}
  __device__ __forceinline__ Z row(int k) const { return {z[k], b}; }
  static __device__ __forceinline__ double value(const Z &z, const Args &) {
    return static_cast<double>(z.b) + static_cast<double>(z.r);
  }

  // Along a path that is where R is larger than the least of its lane by P, each column is rounded to 2^-25 P, for as
  // many columns as it stays there: m, or fewer if a column costs much. Where costs differ, rounding does too, and what
  // it adds up to grows as the root of their number. Of 112 000 pairs made for this, up to four times as wide as high,
  // of pulses, spikes and steps of any size and width in noise, walks, waves and constants, by every metric, 1671 were
  // off by more than 4e-7, up to 4e-5. Of those that are not left 13 were, by 1.0e-6 at most, 12 of them more than
  // twice as wide as high, and most of steps between levels of which some are 1e5 times as far apart as others. Of
  // pairs wider still more were. Of squares below 1e-38 float32 has not all digits, or none, which shows in their
  // roots.
  static __device__ __forceinline__ bool is_rough(int n, int m, double value, float pulse) {
    const auto columns = static_cast<float>(m);
    // As large as can be without pairs of noise among those that are left, of which single features have outliers.
    constexpr float of_squares = D == 1 ? 0.15f : D == 2 ? 0.4f : D == 4 ? 0.6f : 1.2f, of_others = D == 1 ? 0.5f : 2;
    constexpr float share = metric == SDTW_SQEUCLIDEAN ? of_squares : of_others;
    if (m > 4 * n || value < (pulse < 0 ? -pulse * columns : share * pulse * sqrtf(columns))) return true;
    return metric == SDTW_EUCLIDEAN ? value < 1e-12 : value > 0 && value < 1e-25;
  }
};
template <int D, bool banded>
using HardRows = BasedRows<D, SDTW_SQEUCLIDEAN, banded>;
template <int D, bool banded>
using HardCityblockRows = BasedRows<D, SDTW_CITYBLOCK, banded>;
template <int D, bool banded>
using HardEuclideanRows = BasedRows<D, D == 1 ? SDTW_CITYBLOCK : SDTW_EUCLIDEAN, banded>;

// R in double, of any metric.
template <int D, bool is_banded>
struct DoubleRows : MinPlusRows<D, is_banded> {
  using Common = MinPlusRows<D, is_banded>;
  using Common::K;
  using typename Common::Ahead;
  static constexpr bool again = true, has_pulse = false, has_halves = true;
  static constexpr int unrolled = 1;  // steps: the code of more does not fit into the instructions' cache
  static constexpr int resident = by_features<D>(4, 3, 2, 2), resident_of_several = 1;
  using Z = double;

  double z[K], above;
  int upper;
  bool lowest;
  sdtw_metric metric;
  float x[K][D];

  static __device__ __forceinline__ Z forbidden() { return infinity; }
  static __device__ __forceinline__ Z corner() { return 0; }
  // All numbers.
  static __device__ __forceinline__ float reach(const Args &, float) { return 3.4028234e38f; }

  __device__ __forceinline__ void start(const Args &a, int upper_lane, bool is_lowest) {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = 0;
    above = 0, upper = upper_lane, lowest = is_lowest, metric = a.metric;
  }
  __device__ __forceinline__ double cost(const float (&x)[D], const float (&y)[D]) const {
    double sum = 0;
#pragma unroll
    for (int f = 0; f < D; f++) {
      const double difference = x[f] - y[f];  // in float, as no more than a cost's last digit is in it
      sum = metric == SDTW_CITYBLOCK ? sum + fabs(difference) : fma(difference, difference, sum);
    }
    return metric == SDTW_EUCLIDEAN ? sqrt(sum) : sum;
  }
  static __device__ __forceinline__ double least(double a, double b) { return a < b ? a : b; }
  template <class Meanwhile>
  __device__ __forceinline__ void step(const Ahead &a, const Z &top, Meanwhile meanwhile) {
    double up = __shfl_sync(all_lanes, lowest ? top : z[K - 1], upper), corner = above;
    meanwhile();
    above = up;
#pragma unroll
    for (int k = 0; k < K; k++) {
      const double left = z[k];
      up = least(least(corner, left), up) + cost(x[k], a.y);
      if (!a.gate.admits(k)) up = infinity;
      z[k] = up;
      corner = left;
    }
  }
  __device__ __forceinline__ void forbid() {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = infinity;
  }
  __device__ __forceinline__ void set_above(const Z &cell) { above = cell; }
  __device__ __forceinline__ void renormalise() {}
  static __device__ __forceinline__ void renormalise(Z &) {}
  __device__ __forceinline__ Z row(int k) const { return z[k]; }
  static __device__ __forceinline__ double value(const Z &z, const Args &) { return z; }
  static __device__ __forceinline__ bool is_rough(int, int, double, float) { return false; }
};

}  // namespace sdtw::cuda::streams
