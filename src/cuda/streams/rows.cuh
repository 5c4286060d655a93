// A lane's rows in a stream: cells of the column that it has swept last, and one step to the next column. SoftRows and
// LongRows are the cells of the float and of the long engine; those of gamma = 0 (hard_rows.cuh) have R itself. With
// `again` only pairs that an earlier kernel has left are computed.
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
                        exists = Distance::exists, has_pulse = false, has_halves = false;
  static_assert(banded || !is_long, "forbidden cells are a band's, or FloatCell's");
  static constexpr int K = cuda::K, features = D, unrolled = block_steps;
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
  Distance distance;

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
  // How far features of x and y may be apart in a pair whose shortest paths have up to so many cells: sums of costs
  // have room for them, and exponents stay in their range.
  static __device__ __forceinline__ float reach(const Args &a, float steps) {
    const float most = is_long ? long_cost_limit(Costs::inlined) : cost_limit(Costs::inlined);
    return Distance::reach(fminf(most, limit_of_path(range(a), steps)), D);
  }

  static __device__ __forceinline__ bool has_band(const Args &a) { return banded && a.band.kind != SDTW_BAND_NONE; }

  // Before the first pair comes a separator as well, and any finite cells will do.
  __device__ __forceinline__ void start(const Args &a, int upper, bool lowest) {
    distance.start(a);
#pragma unroll
    for (int k = 0; k < K; k++) strip.z[k] = corner();
    strip.above = corner(), strip.upper = upper, strip.lowest = lowest;
  }
  // at: y of the lane's column in step 0, of feature 0; those of the next feature are `pitch` further.
  __device__ __forceinline__ Ahead look(const Point *at, int pitch, int u) const {
    Ahead a{};
    if constexpr (is_long)
      distance.template large_costs<K, D>(x, at + u, pitch, a.cost);
    else
      distance.template costs<K, D>(x, at + u, pitch, a.cost);
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
  // Whether a pair is left to others by its lengths, or by what it has come to, beside an x of that pulse (HardRows).
  static __device__ __forceinline__ bool is_rough(int, int, double, float) { return false; }
};
template <int D, bool banded>
using SoftRows = ScaledRows<D, FloatCell, Squares, banded>;
template <int D, bool banded>
using LongRows = ScaledRows<D, LongCell, Squares, banded>;
template <int D, bool banded>
using SoftCityblockRows = ScaledRows<D, FloatCell, Distances<Roots::none>, banded>;
template <int D, bool banded>
using SoftEuclideanRows = ScaledRows<D, FloatCell, Distances<D == 1 ? Roots::none : Roots::all>, banded>;
template <int D, bool banded>
using LongDistanceRows = ScaledRows<D, LongCell, Distances<D == 1 ? Roots::none : Roots::asked>, banded>;

}  // namespace sdtw::cuda::streams
