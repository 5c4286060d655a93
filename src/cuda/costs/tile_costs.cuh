// Costs of many features, which four warps of the block compute for the one that sweeps: 16 columns of a strip at a
// time, into a ring in shared memory, [step][row]: a cost lies where the step is in which the row's lane meets it.
// Steps in which a lane is left of the first column or beyond the last get costs, too, which may be any but no NaN.
#pragma once

#include "cuda/costs/inline_costs.cuh"
#include "cuda/pipeline/barrier.cuh"

namespace sdtw::cuda {

constexpr int producers = producers_of_tiles;  // warps; each has 32 rows of the strip
constexpr int chunk_columns = 16;              // computed at a time
constexpr int column_pitch = K * warp + 8;  // no bank conflicts where lanes write or read K rows of different columns

// Where a step, or one of the last 32 before the first, lies in a ring of so many columns: of a power of two, or of one
// of these numbers.
__device__ __forceinline__ int place_in_ring(int step, int columns) {
  switch (columns) {
    case 48: return static_cast<int>(static_cast<unsigned>(step + 48) % 48);
    case 80: return static_cast<int>(static_cast<unsigned>(step + 80) % 80);
    case 96: return static_cast<int>(static_cast<unsigned>(step + 96) % 96);
    case 160: return static_cast<int>(static_cast<unsigned>(step + 160) % 160);
    default: return step & (columns - 1);
  }
}

// To tell a function which type is meant, without a value of it.
template <class T>
struct Type {
  using type = T;
};

// The rows of the strip that a thread of the producers computes costs of.
struct RowsOfProducer {
  const Args &a;
  int m;   // columns of their pair
  int at;  // the first of them

  __device__ __forceinline__ int lane() const { return at / K & (a.lanes - 1); }
  // Of the columns whose costs are computed, for all producers the same.
  __device__ __forceinline__ int end() const { return a.lanes == warp ? m : a.m; }
};

// Forward: what the sweeping warp and the producers of its block tell each other. Chunks are counted over all tasks.
struct WorkItem {
  int64_t task;  // none: there is nothing more to do
  int first_chunk, chunks;
};
struct ForwardPipeline {
  static constexpr int gates = 8;
  Barrier full[gates], empty[gates];
  Barrier announced[2];
  WorkItem items[2];

  __device__ __forceinline__ void init() {
    for (int i = 0; i < gates; i++) full[i].init(producers), empty[i].init(1);
    announced[0].init(1), announced[1].init(1);
  }
  __device__ __forceinline__ void wait_full(int chunk) const { full[chunk % gates].wait(chunk / gates); }
  __device__ __forceinline__ void fill(int chunk) { full[chunk % gates].arrive(); }
  // Until the block of steps that begins with a chunk has been swept.
  __device__ __forceinline__ void wait_swept(int chunk) const {
    if (chunk >= 0) empty[chunk % gates].wait(chunk / gates);
  }
  __device__ __forceinline__ void leave(int chunk) { empty[chunk % gates].arrive(); }

  __device__ __forceinline__ void announce(int count, const WorkItem &job) {
    if (lane_id() == 0) items[count % 2] = job;
    announced[count % 2].arrive();
  }
  __device__ __forceinline__ WorkItem receive(int count) const {
    announced[count % 2].wait(count / 2);
    return items[count % 2];
  }
};

// Numbers of one column, moved as one.
template <class T, int count>
struct alignas(sizeof(T) * count) Few {
  T v[count];
};

// What a ring holds of a cost, [columns][column_pitch] each. Rows: of a lane, of which producers may write some only.

// The sum of squares itself, for the double engine.
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

// For the float engine costs are summed up in fixed point (TensorCosts): t + 1/2 on top of this, where s bits of the
// fraction are left out, so that a double has 32 - s of them.
__device__ __forceinline__ double zero_of_sums(int left_out) {
  return __hiloint2double((1023 + 20 + left_out) << 20 | 1 << 19, 0);  // 1.5 2^(20 + s)
}
// That sum as its integer and its fraction, in units of 2^-32.
struct Parts {
  int n;
  unsigned fraction;
};
struct PartsOfSums {
  using Value = Parts;
  int left_out;

  __device__ __forceinline__ PartsOfSums(const Args &, int64_t, int of_fraction) : left_out(of_fraction) {}
  __device__ __forceinline__ Parts of(double sum) const {
    const auto low = static_cast<unsigned>(__double2loint(sum)), high = static_cast<unsigned>(__double2hiint(sum));
    const unsigned of_zero = static_cast<unsigned>((1023 + 20 + left_out) << 20 | 1 << 19) << left_out;
    return {static_cast<int>(__funnelshift_l(low, high, left_out) - of_zero), low << left_out};
  }
  __device__ __forceinline__ Parts almost_1() const { return {0, ~255u}; }
};

// t = n + f as integer and fraction, for the float engine: q = 2^-f - 1, and n.
struct SplitRing {
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
  // Of so many rows.
  template <int rows>
  __device__ __forceinline__ void store(int slot, int row, const Parts (&cost)[rows]) const {
    Few<float, rows> weights;
    Few<int, rows> wholes;
#pragma unroll
    for (int i = 0; i < rows; i++) weights.v[i] = exp2_minus_1(centred(cost[i].fraction)), wholes.v[i] = cost[i].n;
    *reinterpret_cast<Few<float, rows> *>(q_at(slot, row)) = weights;
    *reinterpret_cast<Few<int, rows> *>(n_at(slot, row)) = wholes;
  }
  __device__ __forceinline__ void convert(const Left &left, int, FloatCell::Cost (&cost)[K]) const {
#pragma unroll
    for (int k = 0; k < K; k++) cost[k] = {left.q.v[k], left.n.v[k]};
  }
};

// The bytes that a selector names, of the four of a and then the four of b; the sign of one where its number has 8
// added.
template <unsigned selector>
__device__ __forceinline__ unsigned permute(unsigned a, unsigned b) {
  unsigned bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(selector));
  return bytes;
}

// The same in three quarters of the room, for who takes the fraction apart later: 24 bits of f and the low 8 of n in
// one word, the other 16 of n, |n| < 2^23, in half a word. What stands of n below f adds less than 2^-24 to it, and
// nothing where costs are so small that it would show.
struct PackedRing {
  static constexpr size_t bytes_of_cost = sizeof(unsigned) + sizeof(short);
  static constexpr double rounding = 0x1p-25;  // of t, which is cut off behind 24 bits
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
    for (int i = 0; i < rows; i += 2) highs.v[i / 2] = permute<0x6521>(n[i], n[i + 1]);
    *reinterpret_cast<Few<unsigned, rows> *>(word_at(slot, row)) = words;
    *reinterpret_cast<Few<unsigned, rows / 2> *>(high_at(slot, row)) = highs;
  }
  __device__ __forceinline__ void convert(const Left &left, int, FloatCell::Cost (&cost)[K]) const {
#pragma unroll
    for (int k = 0; k < K; k++) {
      const unsigned word = left.word.v[k], high = k < 2 ? left.high.x : left.high.y;
      const float f = static_cast<float>(static_cast<int>(word)) * 0x1p-32f;
      // The low byte of the word below the two of the half, whose sign goes on above them.
      const unsigned n = k % 2 == 0 ? permute<0xd540>(word, high) : permute<0xf760>(word, high);
      cost[k] = {exp2_minus_1(f), static_cast<int>(n)};
    }
  }
};

// t + 1/2 itself in one word, with as many bits of fraction as the pair's bound leaves. That is enough for backward,
// whose cells begin at checkpoints again, of pairs whose costs are not too large; half the room of a SplitRing.
struct WordRing {
  static constexpr size_t bytes_of_cost = sizeof(int);
  static constexpr double rounding = 0;
  using Left = Rows<int>;
  struct Units {
    using Value = int;
    int bits, shift;  // of the fraction; and of those there are in a sum, those beyond

    __device__ __forceinline__ Units(const Args &a, int64_t pair, int left_out)
        : bits(fraction_bits(a, pair)), shift(32 - left_out - bits) {}
    // What a sum lies on top of has no bits among these 32: its lowest is bit 51 of a double, and there are at most
    // 32 - 16 to be shifted out.
    __device__ __forceinline__ int of(double sum) const {
      return static_cast<int>(__funnelshift_r(static_cast<unsigned>(__double2loint(sum)),
                                              static_cast<unsigned>(__double2hiint(sum)), shift));
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
  __device__ __forceinline__ void convert(const Left &left, int bits, FloatCell::Cost (&cost)[K]) const {
#pragma unroll
    for (int k = 0; k < K; k++) {
      const unsigned fraction = static_cast<unsigned>(left.v[k]) << (32 - bits);
      const float f = __uint_as_float(__funnelshift_r(fraction, 0x7f, 9)) - 1.5f;  // 23 bits of it
      cost[k] = {exp2_minus_1(f), left.v[k] >> bits};
    }
  }
};

// What the sweeping warp reads of costs.
template <class Ring_>
struct TileReader {
  using Ring = Ring_;
  using Left = typename Ring::Left;
  static constexpr bool cooperative = true;
  static constexpr int warps = 1 + producers;  // of a block of forward
  __host__ __device__ static size_t ring_bytes(int columns) { return Ring::bytes_of_cost * columns * column_pitch; }

  Ring ring;                  // its columns are a multiple of the steps that are read from one that is sought
  int shift;                  // where in it step 0 lies
  int slot;                   // that of the step that was sought
  ForwardPipeline *pipeline;  // forward
  int next_chunk;             // to be waited for

  // Forward: a block of steps is done with; the columns of the next are there.
  __device__ __forceinline__ void enter(int first) {
    if (first > 0) pipeline->leave(next_chunk - 1);
    pipeline->wait_full(next_chunk++);
  }
  __device__ __forceinline__ void stage(int) const {}

  // Steps are counted from `first` on, a multiple of as many as are read from there.
  __device__ __forceinline__ void seek(int first) { slot = place_in_ring(first + shift, ring.columns); }
  // What the producers have left of the costs of a step.
  __device__ __forceinline__ Left left(int u) const { return ring.load(slot, u, K * lane_id()); }
};

// Sums of squared differences in float64, for the double engine: nothing cancels in them.
struct DifferenceCosts : TileReader<DoubleRing>, TakesAll {
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
  __device__ __forceinline__ bool exceeded(const Args &, const StripView &) const { return false; }

  __host__ __device__ static size_t scratch_bytes(const Args &) { return 0; }
  static __device__ __forceinline__ void init(unsigned char *) {}
  template <class Work>
  static __device__ __forceinline__ void choose(const Args &, Work work) {
    work(Type<Producer>{});
  }
  struct Producer : RowsOfProducer {
    DoubleRing ring;
    int shift;           // how far from the beginning the thread's rows have column 0
    int64_t x, y, step;  // of y, to the next column

    // s: the view of lane 8 warp + lane / 4; the thread has row lane % 4 of it.
    __device__ __forceinline__ Producer(const Args &args, const StripView &s, int strip_lane, const DoubleRing &to,
                                        unsigned char *, int shift_steps, int &)
        : RowsOfProducer{args, s.pair.m, strip_lane * K + lane_id() % 4}, ring(to), shift(shift_steps + s.lane) {
      const int k = lane_id() % 4;
      x = s.pair.index * a.x.stride[0] + static_cast<int64_t>(clamp(s.row_of(k), s.pair.n)) * a.x.stride[1];
      y = s.pair.index * a.y.stride[0] + s.first_column() * a.y.stride[1];
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
