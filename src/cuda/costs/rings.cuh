// The formats of costs in the rings in shared memory through which producer warps pass them to the warps that sweep
// (tile_costs.cuh): what a ring holds of a cost, in arrays [columns][column_pitch].
// load gives the K rows of a sweeping lane; store writes K or K / 2 rows of a lane. `Left` is what a ring holds of a
// lane's costs in one step. `Units` makes of a sum what store takes; half: of the last digit that is left of a sum's
// fraction, in units of 2^-32, which is added to sums so that they are rounded; 0 if all digits are.
#pragma once

#include "cuda/pair.cuh"

namespace sdtw::cuda {

// Rows of a ring slot. The 8 beyond the strip's 128 avoid bank conflicts where lanes access K rows of different slots.
constexpr int column_pitch = K * warp + 8;

// Values of a few rows in one column, stored as one.
template <class T, int count>
struct alignas(sizeof(T) * count) Few {
  T v[count];
};

// DoubleRing: t itself, for DoubleCell.
struct DoubleRing {
  static constexpr size_t bytes_of_cost = sizeof(double);
  using Left = Rows<double>;

  unsigned char *data;
  int columns;

  __device__ __forceinline__ double *at(int slot, int row) const {
    return reinterpret_cast<double *>(data) + slot * column_pitch + row;
  }
  __device__ __forceinline__ Left load(int slot, int u, int row) const {
    return *reinterpret_cast<const Left *>(at(slot + u, row));
  }
};

// For FloatCell costs are summed up in fixed point (TensorCosts): t + 1/2 is added to this number. left_out, s: how
// many bits of the fraction give way to a larger integer part, so that the double has 32 - s fraction bits.
__device__ __forceinline__ double zero_of_sums(int left_out) {
  return __hiloint2double((1023 + 20 + left_out) << 20 | 1 << 19, 0);  // 1.5 2^(20 + s)
}
// Such a sum as the integer and the fraction of t + 1/2, the fraction in units of 2^-32.
struct Parts {
  int n;
  unsigned fraction;
};
// Splits sums into Parts, of which a ring keeps so many bits of the fraction.
template <int kept>
struct PartsOfSums {
  using Value = Parts;
  int left_out;

  __device__ __forceinline__ PartsOfSums(const Args &, int64_t, int of_fraction) : left_out(of_fraction) {}
  __device__ __forceinline__ unsigned half() const { return left_out < 32 - kept ? (1u << (32 - kept)) >> 1 : 0; }
  __device__ __forceinline__ Parts of(double sum) const {
    const auto low = static_cast<unsigned>(__double2loint(sum)), high = static_cast<unsigned>(__double2hiint(sum));
    const unsigned of_zero = static_cast<unsigned>((1023 + 20 + left_out) << 20 | 1 << 19) << left_out;
    return {static_cast<int>(__funnelshift_l(low, high, left_out) - of_zero), low << left_out};
  }
  // sum: t + 1/2 in units of 2^-(32 - left_out).
  __device__ __forceinline__ Parts of(long long sum) const {
    const auto low = static_cast<unsigned>(sum);
    return {static_cast<int>(__funnelshift_l(low, static_cast<unsigned>(sum >> 32), left_out)), low << left_out};
  }
  // t + 1/2 just below 1, which is a cost that keeps m small: see put_outside in TensorCosts.
  __device__ __forceinline__ Parts almost_1() const { return {0, ~255u}; }
};

// SplitRing: n and q = 2^-f - 1 of t = n + f, as FloatCell needs them. The producers take half of the sweep's work this
// way, for 8 bytes a cost. Used by forward.
struct SplitRing {
  static constexpr bool fixed = true;  // the sums that it takes are in fixed point
  static constexpr size_t bytes_of_cost = sizeof(float) + sizeof(int);
  using Units = PartsOfSums<32>;
  struct Left {
    Rows<float> q;
    Rows<int> n;
  };

  unsigned char *data;
  int columns;

  __device__ __forceinline__ float *q_at(int slot, int row) const {
    return reinterpret_cast<float *>(data) + slot * column_pitch + row;
  }
  __device__ __forceinline__ int *n_at(int slot, int row) const {
    return reinterpret_cast<int *>(data) + (columns + slot) * column_pitch + row;
  }
  __device__ __forceinline__ Left load(int slot, int u, int row) const {
    return {*reinterpret_cast<const Rows<float> *>(q_at(slot + u, row)),
            *reinterpret_cast<const Rows<int> *>(n_at(slot + u, row))};
  }
  // rows: how many rows of a lane are written.
  template <int rows>
  __device__ __forceinline__ void store(int slot, int row, const Parts (&cost)[rows]) const {
    Few<float, rows> weights;
    Few<int, rows> wholes;
#pragma unroll
    for (int i = 0; i < rows; i++) weights.v[i] = exp2_minus_1(centred(cost[i].fraction)), wholes.v[i] = cost[i].n;
    *reinterpret_cast<Few<float, rows> *>(q_at(slot, row)) = weights;
    *reinterpret_cast<Few<int, rows> *>(n_at(slot, row)) = wholes;
  }
  __device__ __forceinline__ void convert(const Left &left, int, FloatCost (&cost)[K]) const {
#pragma unroll
    for (int k = 0; k < K; k++) cost[k] = {left.q.v[k], left.n.v[k]};
  }
};

// LongRing: the same of sums in float64 as they are, for LongCell: of any t below 2^31.
struct LongRing : SplitRing {
  static constexpr bool fixed = false;
  struct Units {
    using Value = FloatCost;

    __device__ __forceinline__ Units(const Args &, int64_t, int) {}
    __device__ __forceinline__ FloatCost of(double sum) const { return split_large(sum); }
    __device__ __forceinline__ FloatCost almost_1() const { return {-0.292f, 0}; }  // q of t just below 1/2
  };
  template <int rows>
  __device__ __forceinline__ void store(int slot, int row, const FloatCost (&cost)[rows]) const {
    Few<float, rows> weights;
    Few<int, rows> wholes;
#pragma unroll
    for (int i = 0; i < rows; i++) weights.v[i] = cost[i].q, wholes.v[i] = cost[i].n;
    *reinterpret_cast<Few<float, rows> *>(q_at(slot, row)) = weights;
    *reinterpret_cast<Few<int, rows> *>(n_at(slot, row)) = wholes;
  }
};

// PackedRing: f and n in 6 bytes, three quarters of a SplitRing; the sweeping warp computes 2^-f - 1. A word has 24
// bits of f above the low 8 bits of n, and half a word has the other 16 bits of n, |n| < 2^23. The reader does not mask
// the bits of n below f: they add less than 2^-24 to f, and nothing where costs are so small that it would show.
struct PackedRing {
  static constexpr bool fixed = true;
  static constexpr size_t bytes_of_cost = sizeof(unsigned) + sizeof(short);
  using Units = PartsOfSums<24>;
  struct Left {
    Rows<unsigned> word;
    uint2 high;
  };

  unsigned char *data;
  int columns;

  __device__ __forceinline__ unsigned *word_at(int slot, int row) const {
    return reinterpret_cast<unsigned *>(data) + slot * column_pitch + row;
  }
  __device__ __forceinline__ short *high_at(int slot, int row) const {
    return reinterpret_cast<short *>(data) + (2 * columns + slot) * column_pitch + row;
  }
  __device__ __forceinline__ Left load(int slot, int u, int row) const {
    return {*reinterpret_cast<const Rows<unsigned> *>(word_at(slot + u, row)),
            *reinterpret_cast<const uint2 *>(high_at(slot + u, row))};
  }
  template <int rows>
  __device__ __forceinline__ void store(int slot, int row, const Parts (&cost)[rows]) const {
    Few<unsigned, rows> words;
    Few<unsigned, rows / 2> highs;
    unsigned n[rows];
#pragma unroll
    for (int i = 0; i < rows; i++) {
      n[i] = static_cast<unsigned>(cost[i].n);
      words.v[i] = ((cost[i].fraction ^ 0x80000000u) & 0xffffff00u) | (n[i] & 0xffu);
    }
#pragma unroll
    for (int i = 0; i < rows; i += 2) highs.v[i / 2] = ptx::permute<0x6521>(n[i], n[i + 1]);
    *reinterpret_cast<Few<unsigned, rows> *>(word_at(slot, row)) = words;
    *reinterpret_cast<Few<unsigned, rows / 2> *>(high_at(slot, row)) = highs;
  }
  __device__ __forceinline__ void convert(const Left &left, int, FloatCost (&cost)[K]) const {
#pragma unroll
    for (int k = 0; k < K; k++) {
      const unsigned word = left.word.v[k], high = k < 2 ? left.high.x : left.high.y;
      const float f = static_cast<float>(static_cast<int>(word)) * 0x1p-32f;
      // n: the low byte of the word, above it the two bytes of the half word, and above these the sign.
      const unsigned n = k % 2 == 0 ? ptx::permute<0xd540>(word, high) : ptx::permute<0xf760>(word, high);
      cost[k] = {exp2_minus_1(f), static_cast<int>(n)};
    }
  }
};

// WordRing: t + 1/2 in one word, with as many fraction bits as the bound of the pair's costs leaves; half the room of a
// SplitRing. That is precise enough for backward, whose cells begin anew at checkpoints, of pairs whose costs are not
// too large (most_in_word in pair.cuh). Forward, whose cells go on through the whole pair, does not use it.
struct WordRing {
  static constexpr bool fixed = true;
  static constexpr size_t bytes_of_cost = sizeof(unsigned);
  static constexpr int most_bits = 23;  // that the reader takes of a fraction
  using Left = Rows<unsigned>;
  struct Units {
    using Value = unsigned;
    int bits, shift;  // fraction bits of a word; and how many more a sum has, which are shifted out

    __device__ __forceinline__ Units(const Args &a, int64_t pair, int left_out)
        : bits(fraction_bits(a, pair)), shift(32 - left_out - bits) {}
    __device__ __forceinline__ unsigned half() const { return 1u << (31 - min(bits, most_bits)); }
    // zero_of_sums has no bits among the 32 that are taken: its lowest is bit 51 of the double, and at most 32 - 17
    // bits are shifted out.
    __device__ __forceinline__ unsigned of(double sum) const {
      return __funnelshift_r(static_cast<unsigned>(__double2loint(sum)), static_cast<unsigned>(__double2hiint(sum)),
                             shift);
    }
    __device__ __forceinline__ unsigned of(long long sum) const {
      return __funnelshift_r(static_cast<unsigned>(sum), static_cast<unsigned>(sum >> 32), shift);
    }
    __device__ __forceinline__ unsigned almost_1() const { return (1u << bits) - 1; }
  };

  unsigned char *data;
  int columns;

  __device__ __forceinline__ unsigned *at(int slot, int row) const {
    return reinterpret_cast<unsigned *>(data) + slot * column_pitch + row;
  }
  __device__ __forceinline__ Left load(int slot, int u, int row) const {
    return *reinterpret_cast<const Left *>(at(slot + u, row));
  }
  template <int rows>
  __device__ __forceinline__ void store(int slot, int row, const unsigned (&cost)[rows]) const {
    Few<unsigned, rows> words;
#pragma unroll
    for (int i = 0; i < rows; i++) words.v[i] = cost[i];
    *reinterpret_cast<Few<unsigned, rows> *>(at(slot, row)) = words;
  }
  __device__ __forceinline__ void convert(const Left &left, int bits, FloatCost (&cost)[K]) const {
#pragma unroll
    for (int k = 0; k < K; k++) {
      const unsigned fraction = left.v[k] << (32 - bits);
      const float f = __uint_as_float(__funnelshift_r(fraction, 0x7f, 32 - most_bits)) - 1.5f;  // 1.f - 1.5
      cost[k] = {exp2_minus_1(f), static_cast<int>(left.v[k] >> bits)};
    }
  }
};

}  // namespace sdtw::cuda
