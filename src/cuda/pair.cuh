// A pair, the view that a lane has of its rows, and which engine computes it.
#pragma once

#include "cuda/sweep/cell.cuh"
#include "plan.h"

namespace sdtw::cuda {

constexpr int K = rows_per_lane;

// K values of a lane, moved as one.
template <class Real>
struct alignas(16) Rows {
  Real v[K];
};

enum class Kind { regular, empty, unreachable, invalid };

struct Pair {
  int64_t index;
  int n, m;
  Kind kind;
};

__device__ __forceinline__ int64_t read_length(const void *lengths, int64_t b, int padded, bool long_lengths) {
  if (!lengths) return padded;
  return long_lengths ? static_cast<const int64_t *>(lengths)[b] : static_cast<const int32_t *>(lengths)[b];
}

__device__ __forceinline__ Pair read_pair(const Args &a, int64_t b) {
  const int64_t n = read_length(a.x_len, b, a.n, a.long_lengths), m = read_length(a.y_len, b, a.m, a.long_lengths);
  const bool valid = n >= 0 && n <= a.n && m >= 0 && m <= a.m;
  if (!valid) return {b, 0, 0, Kind::invalid};
  const Kind kind = n && m ? Kind::regular : n || m ? Kind::unreachable : Kind::empty;
  return {b, static_cast<int>(n), static_cast<int>(m), kind};
}

// The largest |t| that the sources of the float engine's costs have room for. inlined: costs up to 2^19 leave
// fixed_point (cell.cuh) its exponent. tensor: n of a PackedRing has 24 bits with its sign, and bounds are twice too
// large at most.
__host__ __device__ __forceinline__ constexpr float cost_limit(Costs costs) {
  return costs == Costs::given     ? static_cast<float>(core::float_cost_limit)
         : costs == Costs::inlined ? 1 << 19
                                   : 1 << 22;
}
// The largest |t| that the float engine may meet in a pair, its exponents having to stay within their range.
__device__ __forceinline__ float float_limit(const Args &a, const Pair &pair) {
  const float range = static_cast<float>(core::Exponent<float>::limit) / (static_cast<float>(pair.n) + pair.m);
  return fminf(range, cost_limit(a.costs));
}

// A bound of D log2(e) / gamma between points whose distances from some point are at most the square roots of these.
__device__ __forceinline__ float bound_of(float x, float y, double scale) {
  const float reach = sqrtf(x) + sqrtf(y);
  return reach * reach * static_cast<float>(scale);
}

// bounds of a pair: the largest squared distances of an x_i and of a y_j from the first x, and the square of that, as
// bits of floats. Where none were computed beforehand they are -1, and rejected comes to stand there if forward met a
// cost that is too large, or the pair is thin.
constexpr int rejected = 0x7fc00000, accepted = -1;

__host__ __device__ __forceinline__ bool has_bounds(const Args &a) { return !a.f64 && a.costs == Costs::tensor; }

__device__ __forceinline__ float cost_bound(const Args &a, int64_t pair) {
  const int *bounds = a.bounds + bounds_per_pair * pair;
  return bound_of(__int_as_float(bounds[0]), __int_as_float(bounds[1]), a.scale);
}
// What TensorCosts adds up on the way to t is no more than this: x in its products is not relative to the first point.
__device__ __forceinline__ float sum_bound(const Args &a, int64_t pair) {
  const int *bounds = a.bounds + bounds_per_pair * pair;
  const float offset = sqrtf(__int_as_float(bounds[2])) * sqrtf(__int_as_float(bounds[1]));
  return cost_bound(a, pair) + 4.001f * static_cast<float>(a.scale) * offset;
}
// How many of 32 bits of the fraction give way to the integer part of such sums, which has 20 and a sign of its own; up
// to most_shift of them leave enough.
constexpr int most_shift = 8;
__device__ __forceinline__ int fraction_shift(const Args &a, int64_t pair) {
  const int exponent = (__float_as_int(sum_bound(a, pair)) >> 23) - 127;
  return min(max(exponent - 18, 0), most_shift);
}

// The largest t of pairs that backward has in words, of which 16 bits or more are left for the fraction then: what that
// rounds adds up along the paths of 64 steps, between two checkpoints, to 1e-5.
constexpr float most_in_word = 1 << 14;
// The bits of fraction that words have for a pair's costs, which are t + 1/2 and a sign: as many as sums have at most.
__device__ __forceinline__ int fraction_bits(const Args &a, int64_t pair) {
  const int exponent = (__float_as_int(cost_bound(a, pair) + 1) >> 23) - 127;
  return min(30 - min(exponent, 14), 32 - fraction_shift(a, pair));
}

// Of a pair, what its rows and then its columns add to costs: see TensorCosts. [batch][n + m]
__device__ __forceinline__ double *norms_of(const Args &a, int64_t pair) {
  return a.norms + pair * (static_cast<int64_t>(a.n) + a.m);
}

// Whether the float engine computes this pair of a float32 problem; while it is at it, whether it should try.
__device__ __forceinline__ bool is_float(const Args &a, const Pair &pair) {
  if (!has_bounds(a)) return a.bounds[bounds_per_pair * pair.index] != rejected;
  constexpr float most_sum = 1 << (19 + most_shift);
  return cost_bound(a, pair.index) <= float_limit(a, pair) && sum_bound(a, pair.index) < most_sum &&  // false for NaN
         !core::is_thin(pair.n, pair.m);
}

// Whether forward of a pair is one warp's business: what the float engine cannot do of it the same warp does by
// another.
__host__ __device__ __forceinline__ bool has_warp_fallback(const Args &a) {
  return !a.f64 && a.costs == Costs::inlined && a.strips == 1;
}

template <class Cell>
__device__ __forceinline__ bool is_mine(const Args &a, const Pair &pair) {
  return Cell::wide ? a.f64 || !is_float(a, pair) : is_float(a, pair);
}

__device__ __forceinline__ void reject_pair(const Args &a, int64_t pair) {
  a.bounds[bounds_per_pair * pair] = rejected;
  a.control->any_double = 1;
}

// What a lane knows of its task. A task is a strip of 32 K rows of one pair, or, where fewer lanes are enough for a
// pair, several pairs side by side. Of several strips the lower half, the smaller one if their number is odd, is swept
// from the end of all paths: such a reversed task meets strips, rows and columns in the opposite order, and whatever is
// said of rows, columns and where paths begin is said in that order. Where the pair's last rows do not fill a lane, it
// has some beyond them, and these come first.
struct StripView {
  Pair pair;
  int64_t task;
  int lane;   // among the pair's lanes
  int lanes;  // of a pair
  int strip;  // of the pair, from the top
  int order;  // of the strip among the pair's
  bool reversed;
  bool first;    // strip of its half, where paths begin
  bool kept;     // forward: of the half, not of the other one
  bool inner;    // backward: E enters it where the two sweeps have met, not from the strip before
  bool whole;    // the only strip of the pair, where paths end, too
  bool joins;    // the last of the pair to be taken up
  int row;       // the strip's first
  bool active;   // whether there is anything to do for the pair
  int end_lane;  // that has the last row
  int end;       // steps after which that lane has met the last column; 0 unless active
  int steps;     // of the whole task

  __device__ __forceinline__ int sign() const { return reversed ? -1 : 1; }
  __device__ __forceinline__ int row_of(int k) const { return row + sign() * (lane * K + k); }
  __device__ __forceinline__ int first_column() const { return reversed ? pair.m - 1 : 0; }
  // In the caller's order, the one that the sweep meets as number c of a pair of the task.
  __device__ __forceinline__ int column_of(const Pair &of, int c) const { return reversed ? of.m - 1 - c : c; }
  // Rows of the first lane that are beyond the pair's.
  __device__ __forceinline__ int spare() const { return row + 1 - pair.n; }
  __device__ __forceinline__ bool is_end() const { return whole && lane == end_lane; }
  __device__ __forceinline__ int end_row() const { return pair.n - 1 - row - end_lane * K; }
};

// Whether the features of a float32 series can be moved four at a time.
template <class Series>
__host__ __device__ __forceinline__ bool is_vec4(const Series &series, int features) {
  return series.stride[2] == 1 && (features | series.stride[1] | series.stride[0]) % 4 == 0 &&
         reinterpret_cast<uintptr_t>(series.data) % 16 == 0;
}

// i, or the nearest index of an array of that size.
__device__ __forceinline__ int clamp(int i, int size) { return min(max(i, 0), size - 1); }

__device__ __forceinline__ int warp_max(int v) {
#pragma unroll
  for (int step = warp / 2; step > 0; step /= 2) v = max(v, __shfl_xor_sync(all_lanes, v, step));
  return v;
}
// Over the lanes of a pair.
__device__ __forceinline__ int pair_max(int v, int lanes) {
  for (int step = lanes / 2; step > 0; step /= 2) v = max(v, __shfl_xor_sync(all_lanes, v, step));
  return v;
}

__device__ __forceinline__ int strips_of(const Pair &pair) { return (pair.n + K * warp - 1) / (K * warp); }

// Tasks are the strips of the pairs, all pairs' first ones first.
__device__ __forceinline__ int order_of(const Args &a, int64_t task) {
  return a.lanes == warp ? static_cast<int>(task / a.batch) : 0;
}

// The pair of a lane: strips of a pair are `strip`-th, or pairs lie side by side.
__device__ __forceinline__ Pair pair_of(const Args &a, int64_t task, int lane) {
  const int64_t b = a.lanes == warp ? task % a.batch : task * (warp >> a.lane_bits) + (lane >> a.lane_bits);
  return b < a.batch ? read_pair(a, b) : Pair{a.batch - 1, 0, 0, Kind::invalid};
}

// Strips that are swept from the top.
__device__ __forceinline__ int upper_half(int strips) { return (strips + 1) / halves; }

// Strips of forward's sweeps.
__host__ __device__ __forceinline__ int64_t forward_tasks(const Args &a) {
  return a.full_sweeps ? a.batch * halves * (a.strips - 1) : a.tasks;
}
// How E enters strips: the two in the middle, or all if the sweeps go through. [batch][midlines_of(a)]
__host__ __device__ __forceinline__ int midlines_of(const Args &a) { return a.full_sweeps ? a.strips : halves; }
__device__ __forceinline__ Midline *midline_into(const Args &a, const Pair &pair, int strip) {
  const int first = a.full_sweeps ? 0 : upper_half(strips_of(pair)) - 1;
  return a.midlines + pair.index * midlines_of(a) + (strip - first);
}

// wanted(pair): whether it is to be computed. The halves take turns: forward takes a half's strips from the end where
// paths begin. Backward takes them from the middle, as E goes; or if it is known how E enters each of them as forward
// does: then strips add to grad_y from the end of their columns that the one before them has done with first.
// several: whether there may be more than one strip; code that knows of one only is shorter, and so faster.
enum Direction { inwards, outwards };
template <Direction direction, bool several, class Wanted>
__device__ __forceinline__ StripView make_strip_view(const Args &a, int64_t task, int lane, Wanted wanted) {
  StripView s{};
  s.pair = pair_of(a, task, lane);
  s.task = task, s.lane = lane & (a.lanes - 1), s.lanes = a.lanes;
  const int strips = several ? strips_of(s.pair) : 1, turn = several ? order_of(a, task) / halves : 0;
  s.order = several ? order_of(a, task) : 0;
  s.reversed = s.order % halves == 1;
  const int own = s.reversed ? strips - upper_half(strips) : upper_half(strips);  // strips of the half
  const int most = direction == inwards && a.full_sweeps && strips > 1 ? strips - 1 : own;
  s.active = s.pair.kind == Kind::regular && turn < most && wanted(s.pair);
  s.first = s.whole = true;
  if (s.active) {
    const int place = direction == outwards && !a.full_sweeps ? own - 1 - turn : turn;  // from where paths begin
    s.strip = several ? (s.reversed ? strips - 1 - place : place) : 0;
    if (several) s.first = s.strip == (s.reversed ? strips - 1 : 0), s.whole = strips == 1;
    s.kept = turn < own, s.inner = a.full_sweeps || turn == 0;
    s.joins = !s.whole && s.order == strips - 1;
    s.row = s.strip * K * warp;
    s.end_lane = min((s.pair.n - 1 - s.row) / K, s.lanes - 1);
    if (s.reversed) s.row += (s.end_lane + 1) * K - 1;
    s.end = s.pair.m + s.end_lane;
  } else {
    s.pair.n = s.pair.m = 1;  // whatever is loaded lies within the arrays
  }
  s.steps = warp_max(s.end);
  return s;
}

// The row that a strip hands on in a sweep, of a cell's words each.
__device__ __forceinline__ Word *row_of_strip(const Args &a, const Pair &pair, int strip, bool reversed, int words) {
  const int64_t sweep = a.full_sweeps ? pair.index * halves + reversed : pair.index;
  return a.rows + (sweep * a.strips + strip) * a.m * words;
}
// What a strip takes over; and what it hands on.
__device__ __forceinline__ const Word *row_above(const Args &a, const StripView &s, int words) {
  return row_of_strip(a, s.pair, s.strip - s.sign(), s.reversed, words);
}
__device__ __forceinline__ Word *row_below(const Args &a, const StripView &s, int words) {
  return row_of_strip(a, s.pair, s.strip, s.reversed, words);
}
// Of what tasks leave of themselves, `of_each` times in `where`: a warp's registers.
__device__ __forceinline__ Word *registers_of(const Args &a, const StripView &s, Word *where, int of_each, int number,
                                              int words) {
  const int64_t strip = a.lanes == warp ? s.pair.index * a.strips + s.strip : s.task;
  return where + (strip * of_each + number) * ((K + 1) * warp) * words;
}
__device__ __forceinline__ Word *checkpoint(const Args &a, const StripView &s, int number, int words) {
  return registers_of(a, s, a.saved, a.checkpoints, number, words);
}

// The next task, or -1. Tickets are taken in an order in which a task waits for earlier ones only.
__device__ __forceinline__ int64_t take_ticket(Word *counter, int64_t tasks) {
  Word ticket = 0;
  if (lane_id() == 0) ticket = atomicAdd(counter, Word(1)) + 1;
  ticket = __shfl_sync(all_lanes, ticket, 0);
  return ticket < static_cast<Word>(tasks) ? static_cast<int64_t>(ticket) : -1;
}

}  // namespace sdtw::cuda
