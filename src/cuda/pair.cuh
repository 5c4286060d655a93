// Pairs, tasks and engines: the lengths of a pair, which engine computes it, what a lane knows of its task (StripView),
// and where a strip's rows and checkpoints lie.
// A pair belongs to exactly one engine. In a float32 problem this is FloatCell, unless costs may leave the range that
// FloatCell has room for: then it is LongCell, whose cells take nearly twice as many instructions. If LongCell has no
// room, either, or the pair is thin (core::is_thin) and has state, it is DoubleCell, which is much slower but takes
// anything. In a float64 problem DoubleCell computes all pairs. For Costs::tensor the engine is known before the
// sweeps, from bounds of the costs; otherwise FloatCell tries every pair and rejects some when their costs have been
// seen.
#pragma once

#include <climits>

#include "cuda/corridor.cuh"
#include "cuda/sweep/cell.cuh"
#include "cuda/sweep/double_cell.cuh"
#include "plan.h"

namespace sdtw::cuda {

constexpr int K = rows_per_lane;

// One value for each of a lane's K rows, loaded and stored as one.
template <class Real>
struct alignas(16) Rows {
  Real v[K];
};

// regular: has cells. empty: n = m = 0. unreachable: either n or m is 0. invalid: a length is out of range.
enum class LengthCase { regular, empty, unreachable, invalid };

struct Pair {
  int64_t index;  // in the batch, or the wave
  int n, m;       // its own rows and columns; 0 if invalid
  LengthCase lengths;
};

__device__ __forceinline__ int64_t read_length(const void *lengths, int64_t b, int padded, bool long_lengths) {
  if (!lengths) return padded;
  return long_lengths ? static_cast<const int64_t *>(lengths)[b] : static_cast<const int32_t *>(lengths)[b];
}

// The series of a pair, read where they are needed, so that nobody has to hold them.
__device__ __forceinline__ int64_t x_of(const Args &a, int64_t b) { return a.series ? a.series[b].x : b; }
__device__ __forceinline__ int64_t y_of(const Args &a, int64_t b) { return a.series ? a.series[b].y : b; }

__device__ __forceinline__ Pair read_pair(const Args &a, int64_t b) {
  const int64_t n = a.x_len ? read_length(a.x_len, x_of(a, b), a.n, a.long_lengths) : a.n;
  const int64_t m = a.y_len ? read_length(a.y_len, y_of(a, b), a.m, a.long_lengths) : a.m;
  const bool valid = n >= 0 && n <= a.n && m >= 0 && m <= a.m;
  if (!valid) return {b, 0, 0, LengthCase::invalid};
  const LengthCase lengths = n && m ? LengthCase::regular : n || m ? LengthCase::unreachable : LengthCase::empty;
  return {b, static_cast<int>(n), static_cast<int>(m), lengths};
}

// The largest |t|, t = D log2(e) / gamma, that FloatCell's costs have room for, by where they come from. inlined: up to
// 2^20 the sum with fixed_point (cell.cuh) keeps the exponent of fixed_point; bounds, which are rounded, stay off it.
// tensor: n of a PackedRing has 24 bits with its sign. Bounds are at most twice too large.
__host__ __device__ __forceinline__ constexpr float cost_limit(Costs costs) {
  return costs == Costs::given     ? static_cast<float>(core::float_cost_limit)
         : costs == Costs::inlined ? (1 << 20) - 16
                                   : 1 << 22;
}
// Cells of the shortest paths of a pair. Rows are those of whole strips, and lanes are up to 31 columns beyond the
// last.
__device__ __forceinline__ float steps_of_path(int n, int m) {
  constexpr int rows = K * warp;
  return static_cast<float>(max((n + rows - 1) / rows * rows, m + warp));
}
// The largest |t| with which exponents stay within `range` below 0 along a path of so many cells.
__device__ __forceinline__ float limit_of_path(float range, float steps) { return 0.999f * range / steps - 5; }
// The largest |t| of LongCell's costs: n is an int, and differences of integer coordinates are below 2^15.
__device__ __forceinline__ constexpr float long_cost_limit(Costs costs) {
  return costs == Costs::inlined && avoids_float64 ? 0.99f * 0x1p30f : 0.99f * 0x1p31f;
}
// The largest |t| that FloatCell may meet in a pair, so that exponents stay in their range, and its costs in theirs: in
// forward they have no less room than in backward.
// Z of a cell is at least that of any one path to it, and there is one of as many cells as the cell's row or its
// column has a number, which takes an exponent down by t + 1/2 and half a bit of m in each. Z is at most the number of
// paths, less than 3^(n + m) and so than 2^(4 steps), as costs of series are not negative: it is of forbidden cells,
// too, which stay behind by the more. A corridor admits such paths to each of its cells. Given costs may be negative,
// so that the longest path takes an exponent up: to 2^29, from which forbidden cells are 2^31 away.
__device__ __forceinline__ float float_limit(const Args &a, const Pair &pair) {
  const float range = a.costs == Costs::given ? 0.98f * (1 << 29) / (static_cast<float>(pair.n) + pair.m)
                                              : limit_of_path(ShortExponent::range, steps_of_path(pair.n, pair.m));
  return fminf(range, cost_limit(a.backward_costs));
}
// The same for LongCell. To given costs it leaves 2^36.
__device__ __forceinline__ float long_limit(const Args &a, const Pair &pair) {
  const float range = a.costs == Costs::given ? 0.98f * 0x1p36f / (static_cast<float>(pair.n) + pair.m)
                                              : limit_of_path(LongExponent::range, steps_of_path(pair.n, pair.m));
  return fminf(range, long_cost_limit(a.backward_costs));
}

// A bound of D log2(e) / gamma between two points whose squared distances from a common point are at most x and y.
__device__ __forceinline__ float bound_of(float x, float y, double scale) {
  const float reach = sqrtf(x) + sqrtf(y);
  return reach * reach * static_cast<float>(scale);
}

// Bounds of a pair, as bits of floats: [0] the largest squared distance of an x_i from x_0, [1] that of a y_j from x_0,
// [2] |x_0|^2. Where none are computed beforehand, [0] is `accepted`, as a reset leaves it, or a bound of the costs
// that forward has met if FloatCell has no room for these, or `rejected` if the pair is thin.
constexpr int rejected = 0x7fc00000, accepted = -1;

__host__ __device__ __forceinline__ bool has_bounds(const Args &a) { return !a.f64 && a.costs == Costs::tensor; }
// Whether blocks of backward have warps that compute costs. Where they do, LongCell has kernels of its own.
__host__ __device__ __forceinline__ bool has_producers(const Args &a) {
  return !a.f64 && a.backward_costs == Costs::tensor;
}

__device__ __forceinline__ float cost_bound(const Args &a, int64_t pair) {
  const int *bounds = a.bounds + bounds_per_pair * pair;
  return bound_of(__int_as_float(bounds[0]), __int_as_float(bounds[1]), a.scale);
}
// A bound of all partial sums in fixed point on the way to t, for FloatCell. That of TensorCosts is larger than
// cost_bound because x in their products <x, y - x_0> is not relative to the first point, as that of SliceCosts is.
__device__ __forceinline__ float sum_bound(const Args &a, int64_t pair) {
  if (a.slices) return cost_bound(a, pair);
  const int *bounds = a.bounds + bounds_per_pair * pair;
  const float offset = sqrtf(__int_as_float(bounds[2])) * sqrtf(__int_as_float(bounds[1]));
  return cost_bound(a, pair) + 4.001f * static_cast<float>(a.scale) * offset;
}
// How many of the 32 fraction bits of such a sum are given to its integer part, which has 20 bits and a sign without
// them. Up to most_shift leave the fraction precise enough; LongCell's costs are larger, of SliceCosts up to 2^31.
constexpr int most_shift = 8, most_shift_of_long = 12;
template <int most = most_shift>
__device__ __forceinline__ int fraction_shift(const Args &a, int64_t pair) {
  const int exponent = (__float_as_int(sum_bound(a, pair)) >> 23) - 127;
  return min(max(exponent - 18, 0), most);
}

// The largest t of pairs whose costs backward keeps in a WordRing, with a fraction of 17 bits or more: of two ways that
// part for 64 steps, between two checkpoints, its rounding changes the odds by 3.4e-4 if all errors have the same sign.
constexpr float most_in_word = 1 << 14;
// The fraction bits of a WordRing's words for a pair, beside the integer part of t + 1/2, which is not negative. There
// are never more than the sums of TensorCosts have.
__device__ __forceinline__ int fraction_bits(const Args &a, int64_t pair) {
  const int exponent = (__float_as_int(cost_bound(a, pair) + 1) >> 23) - 127;
  return min(31 - min(max(exponent, 0), 14), 32 - fraction_shift(a, pair));  // of a pair without bounds anything
}

// What the points of a pair add to its costs, first those of the rows and then those of the columns: see TensorCosts.
__device__ __forceinline__ double *norms_of(const Args &a, int64_t pair) {
  return a.norms + pair * (static_cast<int64_t>(a.n) + a.m);
}

enum class Engine { of_float, of_long, of_double };

// Whether a pair of a float32 problem is DoubleCell's by its lengths. Values alone, of which forward keeps no state,
// have room for what thin pairs are off by.
__device__ __forceinline__ bool is_left_to_double(const Args &a, const Pair &pair) {
  return a.saved && core::is_thin(pair.n, pair.m);
}

// The engine that computes a pair. Without bounds this is known when FloatCell's forward is done: until then it says
// what the pair's strips have met so far.
__device__ __forceinline__ Engine engine_of(const Args &a, const Pair &pair) {
  if (a.f64) return Engine::of_double;
  if (!has_bounds(a)) {
    const int met = a.bounds[bounds_per_pair * pair.index];
    if (met == accepted) return Engine::of_float;
    return __int_as_float(met) <= long_limit(a, pair) ? Engine::of_long : Engine::of_double;
  }
  if (is_left_to_double(a, pair)) return Engine::of_double;
  constexpr float most_fixed = 1 << (19 + most_shift);
  const float cost = cost_bound(a, pair.index);
  if (cost <= float_limit(a, pair) && sum_bound(a, pair.index) < most_fixed) return Engine::of_float;  // false for NaN
  return a.has_long && cost <= long_limit(a, pair) ? Engine::of_long : Engine::of_double;
}

// Whether forward takes a single kernel, in which the warp that swept a pair with FloatCell also sweeps it with
// another engine if need be: for pairs of one strip and few features. That saves a launch and the reset of counters.
__host__ __device__ __forceinline__ bool has_warp_fallback(const Args &a) {
  return !a.f64 && a.costs == Costs::inlined && a.strips == 1 && !a.banded;
}

// The engine of a kind of cell.
template <class Cell>
constexpr Engine own_engine = Cell::wide                       ? Engine::of_double
                              : std::is_same_v<Cell, LongCell> ? Engine::of_long
                                                               : Engine::of_float;

// Backward, where bounds are known: whether a WordRing has room for the pair's costs.
__device__ __forceinline__ bool fits_words(const Args &a, const Pair &pair) {
  return cost_bound(a, pair.index) <= most_in_word;
}

// Leaves a pair that FloatCell has tried to the kernel that follows. bound: of its costs, or `rejected`.
__device__ __forceinline__ void reject_pair(const Args &a, int64_t pair, int bound) {
  atomicMax(a.bounds + bounds_per_pair * pair, bound);
  a.control->any_double = 1;
}

// What a lane knows of its task. A task is a strip of 32 K rows of one pair, or, where fewer lanes are enough for a
// pair, several pairs side by side.
// The lower half of a pair's strips (the smaller half if their number is odd) is swept by the same code from the end of
// all paths: a reversed task meets strips, rows and columns in the opposite order, and "first", "last", "above" and
// "where paths begin" always mean that order. If the last rows of a pair do not fill a lane, the reversed task meets
// the spare rows of this lane, which lie beyond the pair, first.
struct StripView {
  Pair pair;      // the lane's pair
  int64_t task;   // its number
  int lane;       // the lane's number among the pair's lanes
  int lanes;      // lanes of a pair: Args::lanes
  int strip;      // the strip's number in the pair, counted from the top in both halves
  int order;      // the strip's number in the order in which the pair's strips are taken up: even ones are top-down
  bool reversed;  // whether the strip is swept bottom-up
  bool first;     // whether it is the first strip of its sweep, where paths begin
  bool kept;      // forward: whether it is a strip of the sweep's own half, of which checkpoints are kept
  bool inner;     // backward: whether E enters it at a midline, not from the strip taken up before
  bool whole;     // whether it is the only strip of the pair, where paths end, too
  bool joins;     // whether it is the last of the two halves' strips to be taken up: forward then sums up Z of the pair
  int row;        // the first row that the task meets, in the caller's order; if reversed maybe beyond the pair's last
  bool active;    // whether this kernel computes anything of the pair
  int end_lane;   // the last of the lanes that have rows of the pair
  int end;        // steps after which that lane has met the last column; 0 unless active
  int begin;  // the first step of the whole task, before which the corridor has no cell: a multiple of a tile's steps
  int steps;  // the end of its steps: the maximum of `end` over the warp, or less if the corridor ends before
  int opens, closes;  // if there is a corridor: it admits the lane's row k in steps [opens + k, closes + k)

  __device__ __forceinline__ int sign() const { return reversed ? -1 : 1; }
  __device__ __forceinline__ int row_of(int k) const { return row + sign() * (lane * K + k); }
  __device__ __forceinline__ int first_column() const { return reversed ? pair.m - 1 : 0; }
  // The column, in the caller's order, that the sweep of one of the task's pairs meets as its column c.
  __device__ __forceinline__ int column_of(const Pair &of, int c) const { return reversed ? of.m - 1 - c : c; }
  // If reversed: how many rows of the first lane lie beyond the pair's last row.
  __device__ __forceinline__ int spare() const { return row + 1 - pair.n; }
  __device__ __forceinline__ bool is_end() const { return whole && lane == end_lane; }
  __device__ __forceinline__ int end_row() const { return pair.n - 1 - row - end_lane * K; }
  // Whether the corridor forbids the lane any cell in steps [from, to).
  __device__ __forceinline__ bool is_edge(int from, int to) const { return from < opens + K - 1 || to > closes; }
};

// The first step of a task, by a constant where there is no corridor.
template <bool banded>
__device__ __forceinline__ int begin_of(const StripView &s) {
  return banded ? s.begin : 0;
}

// Whether features of a series can be loaded and added to by 16 bytes, which are so many of them: of a float32 series
// as float4.
template <int together, class Series>
__host__ __device__ __forceinline__ bool is_by_16_bytes(const Series &series, int features) {
  return series.stride[2] == 1 && (features | series.stride[1] | series.stride[0]) % together == 0 &&
         reinterpret_cast<uintptr_t>(series.data) % 16 == 0;
}
template <class Series>
__host__ __device__ __forceinline__ bool is_vec4(const Series &series, int features) {
  return is_by_16_bytes<4>(series, features);
}
__host__ __device__ __forceinline__ bool are_vec4(const Args &a) {
  return is_vec4(a.x, a.features) && is_vec4(a.y, a.features);
}

// The format in which Cell reads what forward has left of a lane's pair.
template <class Cell>
__device__ __forceinline__ Format format_for(const Args &a, const StripView &s) {
  if constexpr (std::is_same_v<Cell, LongCell>)
    if (s.active && engine_of(a, s.pair) == Engine::of_float) return float_word;
  return a.format;
}

// The valid index nearest to i in an array of that size.
__device__ __forceinline__ int clamp(int i, int size) { return min(max(i, 0), size - 1); }

// The maximum over the lanes of a pair.
__device__ __forceinline__ int pair_max(int v, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) v = max(v, __shfl_xor_sync(all_lanes, v, step));
  return v;
}

// The larger of two numbers, or NaN if one of them is.
__device__ __forceinline__ float larger(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float most;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(most) : "f"(a), "f"(b));
  return most;
#else
  return a >= b || a != a ? a : b;
#endif
}

__device__ __forceinline__ int strips_of(const Pair &pair) { return (pair.n + K * warp - 1) / (K * warp); }

// The order of a task's strip in its pair. Tasks go through the strips of order 0 of all pairs, then order 1, ...
__device__ __forceinline__ int order_of(const Args &a, int64_t task) {
  return a.lanes == warp ? static_cast<int>(task / a.batch) : 0;
}

// The pair of a lane: that of the task's strip, or the lane's own where pairs lie side by side.
__device__ __forceinline__ Pair pair_of(const Args &a, int64_t task, int lane) {
  const int64_t b = a.lanes == warp ? task % a.batch : task * (warp >> a.lane_bits) + (lane >> a.lane_bits);
  return b < a.batch ? read_pair(a, b) : Pair{a.batch - 1, 0, 0, LengthCase::invalid};
}

// How many of a pair's strips are the upper half, which is swept top-down.
__device__ __forceinline__ int upper_half(int strips) { return (strips + 1) / halves; }

// Tasks of forward. With full_sweeps each sweep goes through all strips but its last, whose row no strip would take
// over.
__host__ __device__ __forceinline__ int64_t forward_tasks(const Args &a) {
  return a.full_sweeps ? a.batch * halves * (a.strips - 1) : a.tasks;
}
// The strips of a pair that E enters at a midline: the two in the middle, or all with full_sweeps.
__host__ __device__ __forceinline__ int midlines_of(const Args &a) { return a.full_sweeps ? a.strips : halves; }
__device__ __forceinline__ Midline *midline_into(const Args &a, const Pair &pair, int strip) {
  const int first = a.full_sweeps ? 0 : upper_half(strips_of(pair)) - 1;
  return a.midlines + pair.index * midlines_of(a) + (strip - first);
}

// The view that a lane has of a task. The halves take turns in the order of strips. inwards (forward): a half's strips
// are taken from the end of the pair at which the half's paths begin. outwards (backward): they are taken from the
// middle, as E goes. With full_sweeps it is known how E enters each strip, and backward takes strips as forward does:
// then a strip first adds to those columns of grad_y that the strip before it was done with first.
// wanted(pair): whether this kernel is to compute the pair.
enum Direction { inwards, outwards };
template <Direction direction, Extent extent, class Wanted>
__device__ __forceinline__ StripView make_strip_view(const Args &a, int64_t task, int lane, Wanted wanted) {
  constexpr bool several = is_several<extent>;
  StripView s{};
  s.pair = pair_of(a, task, lane);
  s.task = task, s.lane = lane & (a.lanes - 1), s.lanes = a.lanes;
  const int strips = several ? strips_of(s.pair) : 1, turn = several ? order_of(a, task) / halves : 0;
  s.order = several ? order_of(a, task) : 0;
  s.reversed = s.order % halves == 1;
  const int own = s.reversed ? strips - upper_half(strips) : upper_half(strips);  // strips of the half
  const int most = direction == inwards && a.full_sweeps && strips > 1 ? strips - 1 : own;
  s.active = s.pair.lengths == LengthCase::regular && turn < most && wanted(s.pair);
  s.first = s.whole = true;
  if (extent == Extent::corridor) s.opens = INT_MIN / 2, s.closes = INT_MAX;
  int steps = 0;
  if (s.active) {
    const int place = direction == outwards && !a.full_sweeps ? own - 1 - turn : turn;  // from where paths begin
    s.strip = several ? (s.reversed ? strips - 1 - place : place) : 0;
    if (several) s.first = s.strip == (s.reversed ? strips - 1 : 0), s.whole = strips == 1;
    s.kept = turn < own, s.inner = a.full_sweeps || turn == 0;
    s.joins = !s.whole && s.order == strips - 1;
    s.row = s.strip * K * warp;
    s.end_lane = min((s.pair.n - 1 - s.row) / K, s.lanes - 1);
    if (s.reversed) s.row += (s.end_lane + 1) * K - 1;
    steps = s.end = s.pair.m + s.end_lane;
    if constexpr (extent == Extent::corridor) {
      const Corridor corridor(a, s.pair.n, s.pair.m);
      const int first_row = s.reversed ? s.pair.n - 1 - s.row : s.row;  // as the sweep counts, from above 0 if reversed
      constexpr int each = K + 1;  // steps that a lane's first cell of the corridor is behind that of the lane above
      // E leaves the strip for the column before its first one, too.
      s.begin = max(first_row + corridor.least - 1, 0) & -max_tile_steps;
      s.opens = first_row + corridor.least + each * s.lane, s.closes = first_row + corridor.most + 1 + each * s.lane;
      steps = min(s.end, first_row + corridor.most + each * s.end_lane + K);
    }
  } else {
    s.pair.n = s.pair.m = 1;  // so that clamped indices lie within the arrays
  }
  s.steps = warp_max(steps);
  return s;
}

// The row that a strip hands on in one of the sweeps. words: of each cell.
__device__ __forceinline__ Word *row_of_strip(const Args &a, const Pair &pair, int strip, bool reversed, int words) {
  const int64_t sweep = a.full_sweeps ? pair.index * halves + reversed : pair.index;
  return a.rows + (sweep * a.strips + strip) * a.m * words;
}
// The row that a strip gets from the strip before it in its sweep, and the row that it hands on.
__device__ __forceinline__ const Word *row_above(const Args &a, const StripView &s, int words) {
  return row_of_strip(a, s.pair, s.strip - s.sign(), s.reversed, words);
}
__device__ __forceinline__ Word *row_below(const Args &a, const StripView &s, int words) {
  return row_of_strip(a, s.pair, s.strip, s.reversed, words);
}
// The columns that a corridor admits of the row that a strip hands on. All of them are written; of the row above a
// strip all columns are, from the strip's first step on, up to the end of these.
template <bool banded>
__device__ __forceinline__ Columns columns_of_strip(const Args &a, const Pair &pair, int strip, bool reversed) {
  return columns_of_strip<banded>(a, pair.n, pair.m, strip, reversed);
}
template <bool banded>
__device__ __forceinline__ int end_of_row_above(const Args &a, const StripView &s) {
  return columns_of_strip<banded>(a, s.pair, s.strip - s.sign(), s.reversed).end;
}
// The registers of a strip's warp as saved number `number` of its `of_each` in `where`. Strips are addressed by pair
// and strip, not by task, because forward and backward number tasks differently.
__device__ __forceinline__ Word *registers_of(const Args &a, const StripView &s, Word *where, int of_each, int number,
                                              int words) {
  const int64_t strip = a.lanes == warp ? s.pair.index * a.strips + s.strip : s.task;
  return where + (strip * of_each + number) * ((K + 1) * warp) * words;
}
__device__ __forceinline__ Word *checkpoint(const Args &a, const StripView &s, int number, int words) {
  return registers_of(a, s, a.saved, a.checkpoints, number, words);
}

// The next task for the warp, or -1. Tasks are numbered so that each waits for tasks with earlier tickets only, which
// are running or done: no warp waits for ever, whatever the number of resident blocks.
__device__ __forceinline__ int64_t take_ticket(Word *counter, int64_t tasks) {
  Word ticket = 0;
  if (lane_id() == 0) ticket = atomicAdd(counter, Word(1)) + 1;
  ticket = __shfl_sync(all_lanes, ticket, 0);
  return ticket < static_cast<Word>(tasks) ? static_cast<int64_t>(ticket) : -1;
}

}  // namespace sdtw::cuda
