// One pair of the batch: its lengths, its strips, and which engine computes it.
#pragma once

#include "cell.cuh"

namespace sdtw::cuda {

enum class Kind { regular, empty, unreachable, invalid };

struct Pair {
  int64_t index;
  int n, m;
  Kind kind;
};

__device__ inline int64_t read_length(const void *lengths, int64_t b, int padded, bool long_lengths) {
  if (!lengths) return padded;
  return long_lengths ? static_cast<const int64_t *>(lengths)[b] : static_cast<const int32_t *>(lengths)[b];
}

__device__ inline Pair read_pair(const Args &a, int64_t b) {
  const int64_t n = read_length(a.x_len, b, a.n, a.long_lengths), m = read_length(a.y_len, b, a.m, a.long_lengths);
  const bool valid = n >= 0 && n <= a.n && m >= 0 && m <= a.m;
  if (!valid) return {b, 0, 0, Kind::invalid};
  const Kind kind = n && m ? Kind::regular : n || m ? Kind::unreachable : Kind::empty;
  return {b, static_cast<int>(n), static_cast<int>(m), kind};
}

// The largest |t| that the fast engine may meet in a pair, its exponents having to stay within their range.
__device__ inline float fast_limit(const Args &a, const Pair &pair) {
  const float range = static_cast<float>(core::Exponent<float>::limit) / (static_cast<float>(pair.n) + pair.m);
  return fminf(range, static_cast<float>(core::float_cost_limit));
}

// Fused: a bound of every t of the pair. bounds are the largest squared distances of an x_i and of a y_j from some
// point, as bits of floats, so that D <= (their roots' sum)^2.
__device__ inline float cost_bound(const Args &a, const Pair &pair) {
  const int *bounds = a.bounds + 2 * pair.index;
  const float reach = sqrtf(__int_as_float(bounds[0])) + sqrtf(__int_as_float(bounds[1]));
  return reach * reach * static_cast<float>(a.scale);
}

// Up to this t (n + m) float32 sums of 16 features or more, taken in groups of 8, keep gradients within 2e-5: at 1.4e6
// (n = m = 1024, 64 features, gamma 1, smooth) the error was 3.3e-5, and it grows with the square root.
constexpr float grouped_limit = 400000;

// Whether the fast engine may have its costs computed in float32 too.
__device__ inline bool is_plain(const Args &a, const Pair &pair) {
  const float limit = a.features >= 16 ? grouped_limit : static_cast<float>(core::plain_cost_limit);
  return cost_bound(a, pair) * (static_cast<float>(pair.n) + pair.m) <= limit;
}

// The fast engine's value has an absolute error of about gamma 2^-24 sqrt(path length). Where costs and entropy cancel
// so far that this shows, the wide engine computes the value again.
__device__ inline double cancellation(const Args &a, const Pair &pair) {
  return 0.5 / (a.scale * core::ln_2) * sqrt(static_cast<double>(pair.n) + pair.m);
}

constexpr int given_back = 0x7fc00000;  // in bounds[0] of given costs: one was more than the fast engine can take

// Whether the fast engine computes this pair of a float32 problem.
__device__ inline bool is_fast(const Args &a, const Pair &pair) {
  if (a.precomputed) return a.bounds[2 * pair.index] != given_back;
  return cost_bound(a, pair) <= fast_limit(a, pair);  // false for NaN
}

template <class Cell>
__device__ inline bool is_mine(const Args &a, const Pair &pair) {
  return Cell::wide ? a.f64 || !is_fast(a, pair) : is_fast(a, pair);
}

// A strip as the block that has its ticket sees it.
struct StripView {
  Pair pair;
  int index;  // of the strip in the pair
  int row;    // its first
  bool last;
  int end_lane;  // that has the last row
  int steps;     // after which that lane has met the last column
};

template <int K>
__device__ inline StripView strip_view(const Pair &pair, int index) {
  StripView s{pair, index, index * K * warp, false, warp - 1, 0};
  s.last = pair.n - s.row <= K * warp;
  if (s.last) s.end_lane = (pair.n - 1 - s.row) / K;
  s.steps = pair.m + s.end_lane;
  return s;
}

__device__ inline const Word *row_above(const Args &a, const StripView &s) {
  return a.rows + (s.pair.index * (a.strips - 1) + s.index - 1) * a.m * a.words;
}

// The block's next task, or -1. Tickets are taken in an order in which a task waits for earlier ones only.
__device__ inline int64_t take_ticket(Word *counter, int64_t tasks) {
  __shared__ int64_t ticket;
  __syncthreads();  // the one before has been read
  if (threadIdx.x == 0) ticket = static_cast<int64_t>(atomicAdd(counter, Word(1)) + 1);
  __syncthreads();
  return ticket < tasks ? ticket : -1;
}

}  // namespace sdtw::cuda
