// A lane's rows in a stream: cells of the column that it has swept last, and one step to the next column. SoftRows and
// LongRows are the cells of the float and of the long engine; HardRows and TransposedRows have R itself. With `again`
// only pairs that an earlier kernel has left are computed.
//
// Series may have fewer features than D: the others are 0.
//
// With a band cells that it does not admit are forbidden, by what the ring has of each column, and so are all of a
// column that separates pairs. Kernels that know of no band have no instructions for it.
//
// Before each pair a column that separates it from others goes through all lanes: its cells are forbidden, and these
// are the left neighbours of the pair. One such column must not make the next pair's cells any other than if they were
// the first.
#pragma once

#include "cuda/costs/inline_costs.cuh"
#include "cuda/streams/distances.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda::streams {

constexpr double infinity = __builtin_huge_val();

// Blocks that registers must leave room for: of four warps that have an x each (resident), and of all warps of one x
// (resident_of_several).
template <int D>
constexpr int by_features(int one, int two, int four, int eight) {
  return D == 1 ? one : D == 2 ? two : D == 4 ? four : eight;
}

// Rows of a stream, of which there are less than 2^15: [first, end), in half a word each. 0: none.
__device__ __forceinline__ constexpr unsigned packed_rows(int first, int end) {
  return static_cast<unsigned>(end) << 16 | static_cast<unsigned>(first);
}
// Which of a lane's rows are among them: bit k is row k.
template <int K>
struct LaneGate {
  unsigned rows = 0;

  LaneGate() = default;
  __device__ __forceinline__ LaneGate(unsigned packed, int first_row) {
    const int from = __viaddmin_s32_relu(static_cast<int>(packed & 0xffffu), -first_row, K);
    const int to = __viaddmin_s32_relu(static_cast<int>(packed >> 16), -first_row, K);
    rows = (all_lanes << from) & ~(all_lanes << to);
  }
  __device__ __forceinline__ bool admits(int k) const { return rows >> k & 1; }
};

// gamma > 0, with FloatCell: SoftRows. Those of LongCell, for pairs whose costs SoftRows cannot take: LongRows.
//
// Before each pair comes a column that separates it from the one before, and its cells are forbidden. There is one such
// column between two pairs, and the cells behind it are cells of the next pair again: exponents do not add up.
template <int D, class Cell, class Distance, bool is_banded>
struct ScaledRows {
  static constexpr bool soft = true, is_long = std::is_same_v<Cell, LongCell>, again = is_long, banded = is_banded,
                        exists = Distance::exists;
  static_assert(banded || !is_long, "forbidden cells are a band's, or FloatCell's");
  static constexpr int K = cuda::K, features = D;
  static constexpr int resident = by_features<D>(5, 4, 3, 2) - is_banded,
                       resident_of_several = by_features<D>(2, 2, 2, 1);
  using Point = typename Distance::Number;
  using Size = typename Distance::Size;
  using Origin = typename Distance::Origin;
  using Z = typename Cell::Z;
  struct Ahead {  // what a step needs and does not depend on the step before
    FloatCost cost[K];
    LaneGate<K> gate;
  };

  Strip<Cell> strip;
  Point x[K][D];

  static __device__ __forceinline__ Point point(float v, Origin origin, const Args &a, Size &size) {
    return Distance::point(v, origin, a, size);
  }
  static __device__ __forceinline__ Z forbidden() { return Cell::forbidden(); }
  static __device__ __forceinline__ Z corner() { return Cell::one(); }

  // The y of a column that separates pairs. Where no band forbids its cells, its costs take the exponent of any cell of
  // a pair to less than all that a pair may have (range).
  static __device__ __forceinline__ Point separator(int feature) {
    if constexpr (banded)
      return {};  // any will do
    else
      return Distance::separator(feature);
  }

  // How far below 0 the exponents of a pair may be, which stay above those of forbidden cells (float_limit, long_limit
  // in pair.cuh). A parallelogram may admit cells that no path comes to, so that with a band those of forbidden cells
  // have to have room for such sums as well.
  static constexpr float range_of_banded = is_long ? 0x1p36f : 0x1p29f - (1 << 22);
  static __device__ __forceinline__ float range(const Args &a) {
    if constexpr (is_long)
      return has_band(a) ? range_of_banded : LongExponent::range;
    else if constexpr (banded)
      return range_of_banded;
    else
      return Distance::separator_bits - (1 << 22);
  }
  // The largest |x| + |y| of a pair whose shortest paths have up to so many cells: sums of costs have room for them,
  // and exponents stay in their range.
  static __device__ __forceinline__ float reach(const Args &a, float steps) {
    const float most = is_long ? long_cost_limit(Costs::inlined) : cost_limit(Costs::inlined);
    return Distance::reach(fminf(most, limit_of_path(range(a), steps)), D);
  }

  static __device__ __forceinline__ bool has_band(const Args &a) { return banded && a.band.kind != SDTW_BAND_NONE; }

  // Before the first pair comes a separator as well, and any finite cells will do.
  __device__ __forceinline__ void start(int upper, bool lowest) {
#pragma unroll
    for (int k = 0; k < K; k++) strip.z[k] = corner();
    strip.above = corner(), strip.upper = upper, strip.lowest = lowest;
  }
  // at: y of the lane's column in step 0, of feature 0; those of the next feature are `pitch` further.
  __device__ __forceinline__ Ahead look(const Point *at, int pitch, int u) const {
    Ahead a{};
    if constexpr (is_long)
      Distance::template large_costs<K, D>(x, at + u, pitch, a.cost);
    else
      Distance::template costs<K, D>(x, at + u, pitch, a.cost);
    return a;
  }
  template <class Meanwhile>
  __device__ __forceinline__ void step(const Ahead &a, const Z &top, Meanwhile meanwhile) {
    strip.template step<false, banded>(a.cost, top, meanwhile, nullptr, a.gate);
  }
  // Forbids the cells of the lane's rows in the column that it has swept last.
  __device__ __forceinline__ void forbid() {
#pragma unroll
    for (int k = 0; k < K; k++) strip.z[k] = forbidden();
  }
  // What the lane gets from the one above next time, the cell above its rows in that column; and whether it hands on
  // what is above the first row, not its own last row.
  __device__ __forceinline__ void set_above(const Z &z) { strip.above = z; }
  __device__ __forceinline__ void set_lowest(bool lowest) { strip.lowest = lowest; }
  __device__ __forceinline__ void renormalise() { strip.renormalise(); }
  static __device__ __forceinline__ void renormalise(Z &z) { Cell::renormalise(z); }
  __device__ __forceinline__ Z row(int k) const { return strip.z[k]; }
  static __device__ __forceinline__ double value(const Z &z, const Args &a) {
    if (has_band(a) && Cell::exponent(z) < -2 * range_of_banded) return infinity;
    return -(Cell::exponent(z) + log2(static_cast<double>(z.m))) / a.scale;
  }
  // Whether a pair is left to others by its lengths, or by what it has come to.
  static __device__ __forceinline__ bool is_rough(int, int, double) { return false; }
  // Whether a pair that has been left is for these rows.
  static __device__ __forceinline__ bool takes(int, int) { return true; }
};
template <int D, bool banded>
using SoftRows = ScaledRows<D, FloatCell, Squares, banded>;
template <int D, bool banded>
using LongRows = ScaledRows<D, LongCell, Squares, banded>;
template <int D, bool banded>
using SoftCityblockRows = ScaledRows<D, FloatCell, Distances<SDTW_CITYBLOCK>, banded>;
template <int D, bool banded>
using LongCityblockRows = ScaledRows<D, LongCell, Distances<SDTW_CITYBLOCK>, banded>;
template <int D, bool banded>
using SoftEuclideanRows = ScaledRows<D, FloatCell, Distances<SDTW_EUCLIDEAN>, banded>;
template <int D, bool banded>
using LongEuclideanRows = ScaledRows<D, LongCell, Distances<SDTW_EUCLIDEAN>, banded>;

// gamma = 0: R in float32, as b + r. The base b is the lane's own, and the same for all of its rows. In each step it
// becomes the least R that the lane has or gets from above, but for the digits behind its 16th. So sums are rounded
// relative to what R grows by within a lane, not to R itself, and rounding adds up to no more than that of the costs
// does, however long a path is. What comes from above is relative to that lane's base: a difference of bases is exact
// unless one of them is hundreds of times the other, and then it is the larger R that is rounded. As no r is negative
// their order is that of their bits.
//
// Pairs with more than twice as many columns as rows are left by HardRows, and then computed with x and y in each
// other's place, by TransposedRows.
template <int D, sdtw_metric metric, bool transposed, bool is_banded>
struct BasedRows {
  static constexpr bool soft = false, again = transposed, banded = is_banded, exists = true;
  static constexpr int K = hard_rows_per_lane, features = D;
  static constexpr int resident = by_features<D>(6, 5, 4, 3) - is_banded,
                       resident_of_several = by_features<D>(2, 2, 2, 1);
  using Point = float;
  using Size = float;
  using Origin = float;
  struct Z {
    float r, b;
  };
  struct Ahead {
    float y[D];
    LaneGate<K> gate;
  };

  float z[K], above, b;
  int upper;
  bool lowest;
  float x[K][D];

  static __device__ __forceinline__ Point point(float v, Origin, const Args &, Size &size) {
    size = fabsf(v);
    return v;
  }
  static __device__ __forceinline__ float infinite() { return __int_as_float(0x7f800000); }
  static __device__ __forceinline__ Z forbidden() { return {infinite(), 0}; }
  static __device__ __forceinline__ Z corner() { return {0, 0}; }
  static __device__ __forceinline__ float separator(int) { return banded ? 0 : infinite(); }
  // Of |x| and of |y|: sums of the squares of such differences along the longest paths stay within a float's range.
  static __device__ __forceinline__ float reach(const Args &, float) { return 1e16f; }

  __device__ __forceinline__ void start(int upper_lane, bool is_lowest) {
#pragma unroll
    for (int k = 0; k < K; k++) z[k] = 0;
    above = b = 0, upper = upper_lane, lowest = is_lowest;
  }
  __device__ __forceinline__ Ahead look(const float *at, int pitch, int u) const {
    Ahead a;
#pragma unroll
    for (int f = 0; f < D; f++) a.y[f] = at[f * pitch + u];
    return a;
  }
  // Without the digits behind the 16th.
  static __device__ __forceinline__ float coarse(float v) { return __uint_as_float(__float_as_uint(v) & 0xffffff00u); }
  static __device__ __forceinline__ float least(float a, float b) {
    return __int_as_float(min(__float_as_int(a), __float_as_int(b)));
  }
  static __device__ __forceinline__ float least(float a, float b, float c) {
    return __int_as_float(__vimin3_s32(__float_as_int(a), __float_as_int(b), __float_as_int(c)));
  }
  // r, and the cost of a row and a column. Costs of several features are added up beforehand: they do not wait for r,
  // which is the cell above.
  static __device__ __forceinline__ float with_cost(float r, const float (&x)[D], const float (&y)[D]) {
    constexpr bool squares = metric != SDTW_CITYBLOCK, at_once = D == 1 && metric != SDTW_EUCLIDEAN;
    const auto plus = [](float sum, float v) { return squares ? fmaf(v, v, sum) : sum + fabsf(v); };
    float difference = x[0] - y[0], cost = at_once ? r : squares ? difference * difference : fabsf(difference);
#pragma unroll
    for (int f = 1; f < D; f++) {
      if (f > 1) cost = plus(cost, difference);
      difference = x[f] - y[f];
    }
    if (D > 1 || at_once) cost = plus(cost, difference);
    if (metric == SDTW_EUCLIDEAN) cost = sqrtf(cost);
    return at_once ? cost : r + cost;
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
  // Where a path stays within a lane for long, beside rows of which R is far less than its own, rounding shows: with 4
  // times as many columns as rows errors were up to 6e-7 of values whose costs have a few outliers, with twice as many
  // below 4e-7. And of squares below 1e-38 float32 has not all digits, or none, which shows in their roots.
  static __device__ __forceinline__ bool is_rough(int n, int m, double value) {
    if (is_wide(n, m)) return true;
    return metric == SDTW_EUCLIDEAN ? value < 1e-12 : value > 0 && value < 1e-25;
  }
  static __device__ __forceinline__ bool is_wide(int n, int m) { return m > 2 * n; }
  static __device__ __forceinline__ bool takes(int n, int m) { return is_wide(m, n); }
};
template <int D, bool banded>
using HardRows = BasedRows<D, SDTW_SQEUCLIDEAN, false, banded>;
template <int D, bool banded>
using TransposedRows = BasedRows<D, SDTW_SQEUCLIDEAN, true, banded>;
template <int D, bool banded>
using HardCityblockRows = BasedRows<D, SDTW_CITYBLOCK, false, banded>;
template <int D, bool banded>
using HardEuclideanRows = BasedRows<D, SDTW_EUCLIDEAN, false, banded>;

}  // namespace sdtw::cuda::streams
