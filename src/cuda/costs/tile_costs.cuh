// Costs of many features: four producer warps of a block compute them for the warps that sweep, 16 columns of a strip
// at a time, into a ring in shared memory, [step][row]. This file has the ring's formats, forward's hand-over between
// the warps, and the producers of DoubleCell; tensor_costs.cuh has those of FloatCell.
// Invariant: a cost lies in the ring slot of the step in which its row's lane meets it, so the sweeping warp reads K
// rows of one slot in each lane. Steps in which a lane is left of the first column or beyond the last have costs, too,
// which may be any number but no NaN.
// Trade-off: the sweeping warp only reads, but shared memory and four warps are taken. Series of up to four features
// and given costs do without (inline_costs.cuh, given_costs.cuh).
#pragma once

#include "cuda/costs/inline_costs.cuh"
#include "cuda/pipeline/barrier.cuh"

namespace sdtw::cuda {

constexpr int producers = producers_of_tiles;  // warps, each of which has 32 rows of the strip
constexpr int chunk_columns = 16;              // columns that are computed at a time: a chunk
// Rows of a ring slot. The 8 beyond the strip's 128 avoid bank conflicts where lanes access K rows of different slots.
constexpr int column_pitch = K * warp + 8;

// The slot of a step, -32 or more, in a ring of so many columns: a power of two, or one of the numbers below, by which
// the compiler divides without a division.
__device__ __forceinline__ int place_in_ring(int step, int columns) {
  switch (columns) {
    case 48: return static_cast<int>(static_cast<unsigned>(step + 48) % 48);
    case 80: return static_cast<int>(static_cast<unsigned>(step + 80) % 80);
    case 96: return static_cast<int>(static_cast<unsigned>(step + 96) % 96);
    case 160: return static_cast<int>(static_cast<unsigned>(step + 160) % 160);
    default: return step & (columns - 1);
  }
}

// Names a type to a generic lambda without a value of the type.
template <class T>
struct Type {
  using type = T;
};

// The rows of the strip whose costs a producer thread computes.
struct RowsOfProducer {
  const Args &a;
  int m;   // columns of the rows' pair
  int at;  // the first of the rows, among the 128 of the strip

  // The sweeping lane that has these rows, among the lanes of its pair.
  __device__ __forceinline__ int lane() const { return at / K & (a.lanes - 1); }
  // The end of the columns whose costs are computed: the same for all producers, also where their pairs differ.
  __device__ __forceinline__ int end() const { return a.lanes == warp ? m : a.m; }
};

// Forward: a task as the sweeping warp announces it to the producers of its block.
struct WorkItem {
  int64_t task;  // none: there are no more tasks
  // The number of the task's first chunk, counted over all tasks of the block; and its chunks, one for each 16 steps.
  int first_chunk, chunks;
};
// Forward: how the sweeping warp and the producers of its block hand over chunks, in shared memory. The sweeping warp
// announces a task before it sweeps the one before, so that the producers go on without a pause.
// Invariant: producers overwrite ring slots only when the blocks of steps that read these have been swept (wait_swept),
// and the sweeping warp begins a block only when all producers have written the block's chunk (wait_full).
struct ForwardPipeline {
  // Barriers that chunks use in turn, by their number. A ring has at most 4 chunks, so uses of a barrier never overlap.
  static constexpr int slots = 8;
  // full: the producers have written a chunk. empty: the block of steps that begins with a chunk has been swept.
  Barrier full[slots], empty[slots];
  Barrier announced[2];  // the item of this number, modulo 2, has been written
  WorkItem items[2];     // the last two tasks that were announced

  __device__ __forceinline__ void init() {
    for (int i = 0; i < slots; i++) full[i].init(producers), empty[i].init(1);
    announced[0].init(1), announced[1].init(1);
  }
  __device__ __forceinline__ void retire() {
    for (int i = 0; i < slots; i++) full[i].retire(), empty[i].retire();
    announced[0].retire(), announced[1].retire();
  }
  __device__ __forceinline__ void wait_full(int chunk) const { full[chunk % slots].wait(chunk / slots); }
  __device__ __forceinline__ void fill(int chunk) { full[chunk % slots].arrive(); }
  // Waits until the block of steps that begins with a chunk has been swept. There are none with negative numbers.
  __device__ __forceinline__ void wait_swept(int chunk) const {
    if (chunk >= 0) empty[chunk % slots].wait(chunk / slots);
  }
  __device__ __forceinline__ void leave(int chunk) { empty[chunk % slots].arrive(); }

  __device__ __forceinline__ void announce(int count, const WorkItem &item) {
    if (lane_id() == 0) items[count % 2] = item;
    announced[count % 2].arrive();
  }
  __device__ __forceinline__ WorkItem receive(int count) const {
    announced[count % 2].wait(count / 2);
    return items[count % 2];
  }
};

// Values of a few rows in one column, stored as one.
template <class T, int count>
struct alignas(sizeof(T) * count) Few {
  T v[count];
};

// The formats of a ring: what it holds of a cost, in arrays [columns][column_pitch]. load gives the K rows of a
// sweeping lane; store writes K or K / 2 rows of a lane. `Left` is what a ring holds of a lane's costs in one step.

// DoubleRing: the sum of squares itself, for DoubleCell.
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
// Splits sums into Parts.
struct PartsOfSums {
  using Value = Parts;
  int left_out;

  __device__ __forceinline__ PartsOfSums(const Args &, int64_t, int of_fraction) : left_out(of_fraction) {}
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
  static constexpr double rounding = 0;
  using Units = PartsOfSums;
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
  static constexpr double rounding = 0x1p-25;  // added to t, whose fraction is cut off behind 24 bits
  using Units = PartsOfSums;
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
  static constexpr size_t bytes_of_cost = sizeof(int);
  static constexpr double rounding = 0;
  using Left = Rows<int>;
  struct Units {
    using Value = int;
    int bits, shift;  // fraction bits of a word; and how many more a sum has, which are shifted out

    __device__ __forceinline__ Units(const Args &a, int64_t pair, int left_out)
        : bits(fraction_bits(a, pair)), shift(32 - left_out - bits) {}
    // zero_of_sums has no bits among the 32 that are taken: its lowest is bit 51 of the double, and at most 32 - 16
    // bits are shifted out.
    __device__ __forceinline__ int of(double sum) const {
      return static_cast<int>(__funnelshift_r(static_cast<unsigned>(__double2loint(sum)),
                                              static_cast<unsigned>(__double2hiint(sum)), shift));
    }
    __device__ __forceinline__ int of(long long sum) const {
      return static_cast<int>(__funnelshift_r(static_cast<unsigned>(sum), static_cast<unsigned>(sum >> 32), shift));
    }
    __device__ __forceinline__ int almost_1() const { return (1 << bits) - 1; }
  };

  unsigned char *data;
  int columns;

  __device__ __forceinline__ int *at(int slot, int row) const {
    return reinterpret_cast<int *>(data) + slot * column_pitch + row;
  }
  __device__ __forceinline__ Left load(int slot, int u, int row) const {
    return *reinterpret_cast<const Left *>(at(slot + u, row));
  }
  template <int rows>
  __device__ __forceinline__ void store(int slot, int row, const int (&cost)[rows]) const {
    Few<int, rows> words;
#pragma unroll
    for (int i = 0; i < rows; i++) words.v[i] = cost[i];
    *reinterpret_cast<Few<int, rows> *>(at(slot, row)) = words;
  }
  __device__ __forceinline__ void convert(const Left &left, int bits, FloatCost (&cost)[K]) const {
#pragma unroll
    for (int k = 0; k < K; k++) {
      const unsigned fraction = static_cast<unsigned>(left.v[k]) << (32 - bits);
      const float f = __uint_as_float(__funnelshift_r(fraction, 0x7f, 9)) - 1.5f;  // 1.f - 1.5, of 23 fraction bits
      cost[k] = {exp2_minus_1(f), left.v[k] >> bits};
    }
  }
};

// The sweeping warp's side: it waits for chunks and reads the costs of a step from the ring.
template <class Ring_>
struct TileReader {
  using Ring = Ring_;
  using Left = typename Ring::Left;
  static constexpr bool cooperative = true;
  // Backward has two kernels for FloatCell. The second takes pairs whose costs are too large for a WordRing.
  static constexpr bool of_words = std::is_same_v<Ring, WordRing>;
  static constexpr int warps = 1 + producers;  // of a block of forward
  __host__ __device__ static size_t ring_bytes(int columns) { return Ring::bytes_of_cost * columns * column_pitch; }

  Ring ring;                  // its columns are a multiple of the steps that are read after one seek
  int shift;                  // how many slots after slot 0 step 0 lies, before it is wrapped
  int slot;                   // the slot of the step that was sought
  ForwardPipeline *pipeline;  // forward
  int next_chunk;             // forward: the next chunk to wait for

  // Forward: leaves the block of steps before to the producers, and waits for the chunk of the block that begins.
  __device__ __forceinline__ void enter(int first) {
    if (first > 0) pipeline->leave(next_chunk - 1);
    pipeline->wait_full(next_chunk++);
  }
  __device__ __forceinline__ void stage(int) const {}

  // Steps u are counted from `first` on, which is a multiple of the number of steps that are read from there.
  __device__ __forceinline__ void seek(int first) { slot = place_in_ring(first + shift, ring.columns); }
  // The costs of a step, as the ring holds them.
  __device__ __forceinline__ Left left(int u) const { return ring.load(slot, u, K * lane_id()); }
};

// DifferenceCosts: sums of squared differences in float64, for DoubleCell: nothing cancels in them. Where their ring
// does not fit the GPU's shared memory, DirectCosts is used.
struct DifferenceCosts : TileReader<DoubleRing> {
  static constexpr int resident = 1;
  static constexpr int unrolled = 8;
  static constexpr int forward_columns = 64;
  DoubleCell::Scale scale{0};
  __device__ __forceinline__ void begin(const Args &a, const StripView &s) { scale = DoubleCell::Scale(a.scale); }
  __device__ __forceinline__ void costs(int u, DoubleCell::Cost (&cost)[K]) const {
    const Rows<double> distances = left(u);
#pragma unroll
    for (int k = 0; k < K; k++) cost[k] = DoubleCell::split(distances.v[k], scale);
  }

  __host__ __device__ static size_t scratch_bytes(const Args &) { return 0; }
  static __device__ __forceinline__ void init(unsigned char *) {}
  static __device__ __forceinline__ void retire(unsigned char *) {}
  template <class Work>
  static __device__ __forceinline__ void choose(const Args &, Work work) {
    work(Type<Producer>{});
  }
  struct Producer : RowsOfProducer {
    DoubleRing ring;
    int shift;           // in which slot, before it is wrapped, the thread's row has column 0
    int64_t x, y, step;  // offsets of the thread's row and of column 0; from a column of y to the next

    // s: the view of sweeping lane strip_lane = 8 warp + lane / 4. The thread has that lane's row lane % 4.
    __device__ __forceinline__ Producer(const Args &args, const StripView &s, int strip_lane, const DoubleRing &to,
                                        unsigned char *, int shift_steps, int &)
        : RowsOfProducer{args, s.pair.m, strip_lane * K + lane_id() % 4}, ring(to), shift(shift_steps + s.lane) {
      const int k = lane_id() % 4;
      x = x_of(a, s.pair.index) * a.x.stride[0] + static_cast<int64_t>(clamp(s.row_of(k), s.pair.n)) * a.x.stride[1];
      y = y_of(a, s.pair.index) * a.y.stride[0] + s.first_column() * a.y.stride[1];
      step = s.sign() * a.y.stride[1];
    }

    __device__ __forceinline__ void put_outside(int from, int to) const {
      for (int column = from; column < to; column++) put(column, 0);
    }
    __device__ __forceinline__ void produce(int column, int) {
      double sum[chunk_columns] = {};
      for (int f = 0; f < a.features; f++) {
        const double from = load<double>(a.x.data, x + f * a.x.stride[2], a.f64);
#pragma unroll
        for (int c = 0; c < chunk_columns; c++) {
          const int64_t point = y + clamp(column + c, m) * step + f * a.y.stride[2];
          const double difference = from - load<double>(a.y.data, point, a.f64);
          sum[c] = fma(difference, difference, sum[c]);
        }
      }
#pragma unroll
      for (int c = 0; c < chunk_columns; c++) put(column + c, sum[c]);
    }
    __device__ __forceinline__ void put(int column, double cost) const {
      *ring.at(place_in_ring(column + shift, ring.columns), at) = cost;
    }
  };
};

}  // namespace sdtw::cuda
