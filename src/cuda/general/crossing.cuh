// Where E (Cuturi and Blondel 2017, Algorithm 2) enters a strip from the one below, of which nothing has been swept
// yet. Forward has left Z of all paths to each cell of the strip's last row, and of all paths from the row below to the
// pair's end. The product of the two, where one cell can follow the other, over Z of the pair is the probability that a
// path takes this step: E of the strip's last row but for its own horizontal steps. sweep/midline.cuh is the same for
// the core kernels.
//
// Invariant: every path takes exactly one such step, so the probabilities add up to 1, whatever rounding errors the
// two sweeps have gathered.
#pragma once

#include "cuda/general/derivative.cuh"
#include "cuda/general/task.cuh"
#include "cuda/sweep/midline.cuh"

namespace sdtw::cuda::general {

// A stored cell. Words that are 0 stand for none.
template <class Cell, bool tangents>
struct Stored {
  Word word[2] = {}, dot = 0;

  __device__ __forceinline__ void load(const Args &a, const Word *at) {
    word[0] = __ldg(at), word[1] = ~Word(0);
    if (Cell::words(a.format) == 2) word[1] = __ldg(at + 1);
    if constexpr (tangents) dot = __ldg(at + a.words - 1);
  }
  __device__ __forceinline__ bool is_there() const { return word[0] != 0; }
  __device__ __forceinline__ ExtendedDouble z(Format format) const {
    const typename Cell::Z z = Cell::unpack(word[0], word[1], format);
    return {static_cast<double>(z.m), static_cast<double>(z.e)};
  }
  __device__ __forceinline__ double derivative() const {
    Derivative<Cell> v;
    general::take(dot, v);
    return whole_of(v);
  }
};

// The steps out of a strip's last row in a column: the vertical one, then the diagonal one. Where steps differ in
// weight the sweep from the end has left both together, in the place of the vertical one.
template <class Cell, bool tangents>
struct Crossing {
  static constexpr int count = Cell::weighted ? 1 : 2;
  Stored<Cell, tangents> above, below[count];

  // There is none in columns outside of the band.
  __device__ __forceinline__ void load(const Args &a, const Task &s, int column) {
    *this = {};
    const core::Interval upper = s.band.columns(s.row + strip_rows - 1), lower = s.band.columns(s.row + strip_rows);
    if (column < upper.first || column >= upper.end) return;
    const int64_t row = row_at(a, s, s.strip);
    above.load(a, a.rows + (row + column - upper.first) * a.words);
#pragma unroll
    for (int step = 0; step < count; step++) {
      const int64_t at = column + step, place = lower.end - 1 - at;  // counted from the end
      if (place >= 0 && at >= lower.first - (Cell::weighted ? 1 : 0))
        below[step].load(a, a.rows_below + (row + place) * a.words);
    }
  }

  // Calls visit with Z of the pair's paths that take a step, and with the derivative of their R along the tangents.
  template <class Visit>
  __device__ __forceinline__ void each(const Args &a, Visit visit) const {
    if (!above.is_there()) return;
    const ExtendedDouble to = above.z(a.format);
    const typename Cell::Steps steps(a);
#pragma unroll
    for (int step = 0; step < count; step++) {
      if (!below[step].is_there()) continue;
      ExtendedDouble z = below[step].z(a.format);
      z = {to.m * z.m, to.e + z.e};
      if constexpr (Cell::penalised) {
        const int way = step == 0 ? vertical : diagonal;
        z = {z.m * static_cast<double>(steps.factor[way]), z.e - steps.shift[way]};
      }
      visit(z, tangents ? above.derivative() + below[step].derivative() : 0.0);
    }
  }
  __device__ __forceinline__ static double probability(const ExtendedDouble &z, const Entrance &all) {
    return z.m * power_of_two(z.e - all.e) / all.m;
  }
  // E that goes down here; with tangents its derivative, too.
  template <class Real, int values>
  __device__ __forceinline__ void inflow(const Args &a, const Entrance &all, Real (&to)[values]) const {
    double sum[values] = {};
    each(a, [&](const ExtendedDouble &z, double dot) {
      const double p = probability(z, all);
      sum[0] += p;
      if constexpr (tangents)
        if (p > least_share<double>) sum[1] -= p * (a.inverse_gamma * (dot - all.dot));
    });
#pragma unroll
    for (int i = 0; i < values; i++) to[i] = static_cast<Real>(sum[i]);
  }
};

// Below this E counts as 0; its derivative may be so many times as large.
template <bool tangents, class Real>
__device__ __forceinline__ bool has_weight(Real e) {
  return tangents ? !(e < Real(core::negligible_alignment * 1e-6)) : is_live(e);
}

constexpr int entrance_threads = 256;
struct EntranceSums {
  ExtendedDouble of_warp[entrance_threads / warp];
  double dots[entrance_threads / warp];
  int first, last;
};

// Writes the Entrance of a strip from the one below. By a block.
template <class Cell, bool tangents>
__device__ void find_entrance(const Args &a, const Task &s) {
  EntranceSums &sums = ptx::shared_object<EntranceSums>();
  const auto each_column = [&](auto visit) {
    for (int column = threadIdx.x; column < s.m; column += entrance_threads) {
      Crossing<Cell, tangents> crossing;
      crossing.load(a, s, column);
      visit(column, crossing);
    }
  };
  ExtendedDouble sum = nothing();
  each_column([&](int, const Crossing<Cell, tangents> &crossing) {
    crossing.each(a, [&](const ExtendedDouble &z, double) { sum = sum_of(sum, z); });
  });
  sum = sum_of_warp(sum);
  __syncthreads();  // nobody reads what was there before
  if (lane_id() == 0) sums.of_warp[threadIdx.x / warp] = sum;
  if (threadIdx.x == 0) sums.first = INT_MAX, sums.last = -1;
  __syncthreads();
  sum = sums.of_warp[0];
  for (int i = 1; i < entrance_threads / warp; i++) sum = sum_of(sum, sums.of_warp[i]);
  const Entrance all{sum.m, sum.e, 0, 0, 0};
  double dot = 0;
  int first = INT_MAX, last = -1;
  each_column([&](int column, const Crossing<Cell, tangents> &crossing) {
    double e = 0;
    crossing.each(a, [&](const ExtendedDouble &z, double of_paths) {
      const double p = Crossing<Cell, tangents>::probability(z, all);
      e += p;
      if (p > least_share<double>) dot = fma(p, of_paths, dot);
    });
    if (has_weight<tangents>(e)) first = min(first, column), last = column;
  });
  dot = warp_sum(dot);
  if (lane_id() == 0) sums.dots[threadIdx.x / warp] = dot;
  if (last >= 0) atomicMin(&sums.first, first), atomicMax(&sums.last, last);
  __syncthreads();
  if (threadIdx.x > 0) return;
  dot = 0;
  for (int i = 0; i < entrance_threads / warp; i++) dot += sums.dots[i];
  a.entrances[s.local * a.strips + s.strip] = {all.m, all.e, dot, sums.first, sums.last};
}

// gamma = 0: from the pair's end up, where the best path has come from.
__device__ __forceinline__ void follow_path(const Args &a, const Task &s) {
  int column = 0;
  for (int strip = s.strips - 1; strip > 0; strip--) {
    const int64_t first = strip == s.strips - 1 ? 0 : s.band.columns((strip + 1) * strip_rows - 1).first;
    const int64_t place = row_at(a, s, strip) + (strip == s.strips - 1 ? 0 : column - first);
    column = a.crossings[place];
    a.entrances[s.local * a.strips + strip - 1] = {1, 0, 0, column, column};
  }
}

// Backward takes the pair.
template <class Cell>
__device__ __forceinline__ bool goes_back(const Args &a, const Task &s) {
  return s.kind == LengthCase::regular && a.status[s.local] == status_finite &&
         ((a.flags[s.local] & rejected) != 0) == (Cell::wide && !a.primary);
}

// A block for each pair and each strip but the last.
template <class Cell, bool tangents>
__global__ void __launch_bounds__(entrance_threads) general_entrance_kernel(const __grid_constant__ Args a) {
  if (!a.primary && *a.any_double == 0) return;
  for (int64_t pair = blockIdx.x; pair < a.pairs; pair += gridDim.x)
    for (int64_t strip = blockIdx.y; strip < a.strips - 1; strip += gridDim.y) {
      const Task s = make_task(a, strip * a.pairs + pair, false);
      if (s.strip >= s.strips - 1 || !goes_back<Cell>(a, s)) continue;
      if constexpr (Cell::soft) {
        find_entrance<Cell, tangents>(a, s);
      } else {
        if (s.strip == 0 && threadIdx.x == 0) follow_path(a, s);
      }
    }
}

}  // namespace sdtw::cuda::general
