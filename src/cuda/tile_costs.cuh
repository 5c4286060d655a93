// Costs of many features, which four warps of the block compute for the one that sweeps: 16 columns of a strip at a
// time, into a ring in shared memory, [step][row]: a cost lies where the step is in which the row's lane meets it.
// Steps in which a lane is left of the first column or beyond the last get costs, too, which may be any but no NaN.
#pragma once

#include "gates.cuh"
#include "inline_costs.cuh"

namespace sdtw::cuda {

constexpr int producers = producers_of_tiles;  // warps; each has 32 rows of the strip
constexpr int chunk_columns = 16;              // computed at a time
constexpr int column_pitch = K * warp + 8;  // no bank conflicts where lanes write or read K rows of different columns

// Where a step, or one as many before the first, lies in a ring of so many columns: of a power of two, or of five
// tiles.
constexpr int ring_of_five = 5 * max_tile_steps;
__device__ __forceinline__ int place_in_ring(int step, int columns) {
  if (columns == ring_of_five) return static_cast<int>(static_cast<unsigned>(step + ring_of_five) % ring_of_five);
  return step & (columns - 1);
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
struct Job {
  int64_t task;  // none: there is nothing more to do
  bool rewriting;
  int first_chunk, chunks;
};
struct Relay {
  static constexpr int gates = 8;
  Gate full[gates], empty[gates];
  Gate announced[2];
  Job jobs[2];

  __device__ __forceinline__ void open() {
    for (int i = 0; i < gates; i++) full[i].open(producers), empty[i].open(1);
    announced[0].open(1), announced[1].open(1);
  }
  __device__ __forceinline__ void wait_full(int chunk) const { full[chunk % gates].wait(chunk / gates); }
  __device__ __forceinline__ void fill(int chunk) { full[chunk % gates].arrive(); }
  // Until the block of steps that begins with a chunk has been swept.
  __device__ __forceinline__ void wait_swept(int chunk) const {
    if (chunk >= 0) empty[chunk % gates].wait(chunk / gates);
  }
  __device__ __forceinline__ void leave(int chunk) { empty[chunk % gates].arrive(); }

  __device__ __forceinline__ void announce(int count, const Job &job) {
    if (lane_id() == 0) jobs[count % 2] = job;
    announced[count % 2].arrive();
  }
  __device__ __forceinline__ Job receive(int count) const {
    announced[count % 2].wait(count / 2);
    return jobs[count % 2];
  }
};

// What the sweeping warp reads of costs. Element: what the producers write, `planes` of them for a cost.
template <class Element_, int planes = 1>
struct TileReader {
  using Element = Element_;
  static constexpr bool cooperative = true;
  static constexpr int warps = 1 + producers;  // of a block of forward
  __host__ __device__ static size_t ring_bytes(int columns) {
    return sizeof(Element) * planes * columns * column_pitch;
  }

  const Element *ring;
  int columns;        // of the ring: a multiple of the steps that are read from one that is sought
  int shift;          // where in it step 0 lies
  const Element *at;  // that of the lane's rows in the step that was sought
  Relay *relay;       // forward
  int next_chunk;     // to be waited for

  // Forward: a block of steps is done with; the columns of the next are there.
  __device__ __forceinline__ void enter(int first) {
    if (first > 0) relay->leave(next_chunk - 1);
    relay->wait_full(next_chunk++);
  }
  __device__ __forceinline__ void stage(int) const {}

  // Steps are counted from `first` on, a multiple of as many as are read from there.
  __device__ __forceinline__ void seek(int first) {
    at = ring + place_in_ring(first + shift, columns) * column_pitch + K * lane_id();
  }
  // What the producers have left of the costs of a step.
  struct Left {
    Rows<Element> plane[planes];
  };
  __device__ __forceinline__ Left left(int u) const {
    Left all;
#pragma unroll
    for (int i = 0; i < planes; i++)
      all.plane[i] = *reinterpret_cast<const Rows<Element> *>(at + (i * columns + u) * column_pitch);
    return all;
  }
};

// Sums of squared differences in float64, for the wide engine: nothing cancels in them.
struct DifferenceCosts : TileReader<double> {
  static constexpr int resident = 1;
  static constexpr int unrolled = 8;
  Wide::Scale scale{0};
  __device__ __forceinline__ void begin(const Args &a, const View &s) { scale = Wide::Scale(a.scale); }
  __device__ __forceinline__ void costs(int u, Wide::Cost (&cost)[K]) const {
    const Rows<double> distances = left(u).plane[0];
#pragma unroll
    for (int k = 0; k < K; k++) cost[k] = Wide::split(distances.v[k], scale);
  }
  __device__ __forceinline__ bool exceeded(const Args &, const View &) const { return false; }

  __host__ __device__ static size_t scratch_bytes(const Args &) { return 0; }
  static __device__ __forceinline__ void open(unsigned char *) {}
  template <class Work>
  static __device__ __forceinline__ void choose(const Args &, Work work) {
    work(Type<Producer>{});
  }
  struct Producer : RowsOfProducer {
    double *ring;
    int ring_columns, shift;  // shift: how far from the beginning the thread's rows have column 0
    int64_t x, y, step;       // of y, to the next column

    // s: the view of lane 8 warp + lane / 4; the thread has row lane % 4 of it.
    __device__ __forceinline__ Producer(const Args &args, const View &s, int strip_lane, double *to, int columns,
                                        int shift_steps, int &)
        : RowsOfProducer{args, s.pair.m, strip_lane * K + lane_id() % 4},
          ring(to),
          ring_columns(columns),
          shift(shift_steps + s.lane) {
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
      ring[place_in_ring(column + shift, ring_columns) * column_pitch + at] = cost;
    }
  };
};

}  // namespace sdtw::cuda
