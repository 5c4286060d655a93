// What costs by matrix instructions have in common, TensorCosts of float64 and SliceCosts of digits: how warps that
// sweep read them, and how producer warps load points and share y with each other. A producer warp has 32 rows of the
// strip, and each of its threads computes costs of the K rows of one sweeping lane.
#pragma once

#include "cuda/costs/tile_costs.cuh"
#include "cuda/costs/two_floats.cuh"

namespace sdtw::cuda {

// Barriers among the producers, at the beginning of their scratch. ready: a piece of y is in shared memory. read: all
// producers have read it.
struct ProducerBarriers {
  Barrier ready, read;

  static __device__ __forceinline__ ProducerBarriers &in(unsigned char *scratch) {
    return *reinterpret_cast<ProducerBarriers *>(scratch);
  }
};

template <class Ring_>
struct MatrixCosts : TileReader<Ring_> {
  using Ring = Ring_;
  using Reader = TileReader<Ring>;

  int bits;  // fraction bits of a WordRing's words
  __device__ __forceinline__ void begin(const Args &a, const StripView &s) {
    if constexpr (std::is_same_v<Ring, WordRing>) bits = s.active ? fraction_bits(a, s.pair.index) : 1;
  }
  using Left = typename Reader::Left;
  __device__ __forceinline__ void costs(int u, FloatCost (&cost)[K]) const { convert(Reader::left(u), cost); }
  __device__ __forceinline__ void convert(const Left &left, FloatCost (&cost)[K]) const {
    this->ring.convert(left, bits, cost);
  }

  static __device__ __forceinline__ void init(unsigned char *scratch) {
    ProducerBarriers::in(scratch).ready.init(producers), ProducerBarriers::in(scratch).read.init(producers);
  }
  static __device__ __forceinline__ void retire(unsigned char *scratch) {
    ProducerBarriers::in(scratch).ready.retire(), ProducerBarriers::in(scratch).read.retire();
  }
};

// at_once: features of a point that a warp loads at once. Element: of the points that costs are made of, float or, of
// unit points, TwoFloats.
template <class Ring, int at_once, class Element = float>
struct MatrixProducer : RowsOfProducer {
  static constexpr bool of_units = std::is_same_v<Element, TwoFloats>;
  static constexpr int nothing = 1 << 30;  // no column
  // To load points, lanes_each lanes have four features each of a point, and a warp loads `points` points at once.
  static constexpr int lanes_each = at_once / 4, points = warp / lanes_each;

  Ring ring;
  int shift;               // in which slot, before it is wrapped, the thread's rows have column 0
  const Element *xs, *ys;  // the features that the lane loads, in their arrays; ys at the task's first column
  int64_t y_step;          // from a column of the task to the next
  int sign;                // of steps along rows and columns: -1 if the task is reversed
  ProducerBarriers &barriers;
  int &chunks;       // how many pieces of y have been shared, over all tasks
  int n, first_row;  // rows of the pair; the first of the warp's

  // s: the view of sweeping lane strip_lane, whose rows the thread has. shift_steps: the slot of step 0, not wrapped.
  __device__ __forceinline__ MatrixProducer(const Args &args, const StripView &s, int strip_lane, const Ring &to,
                                            unsigned char *scratch, int shift_steps, int &count)
      : RowsOfProducer{args, s.pair.m, strip_lane * K},
        ring(to),
        shift(shift_steps + s.lane),
        barriers(ProducerBarriers::in(scratch)),
        chunks(count) {}
  // Finds the points of the task.
  __device__ __forceinline__ void seek(const StripView &s) {
    n = s.pair.n, sign = s.sign(), first_row = s.row_of(0) - sign * (lane_id() / 4 * K);
    if constexpr (of_units) {
      const int64_t points = a.features;
      xs = a.unit_x + s.pair.index * a.n * points + feature();
      ys = a.unit_y + (s.pair.index * a.m + s.first_column()) * points + feature();
    } else {
      xs = static_cast<const float *>(a.x.data) + x_of(a, s.pair.index) * a.x.stride[0] + feature() * a.x.stride[2];
      ys = static_cast<const float *>(a.y.data) + y_of(a, s.pair.index) * a.y.stride[0] +
           s.first_column() * a.y.stride[1] + feature() * a.y.stride[2];
    }
    y_step = sign * (of_units ? a.features : a.y.stride[1]);
  }
  // From a point of x to the next; and from a feature to the next.
  __device__ __forceinline__ int64_t along_x() const { return of_units ? a.features : a.x.stride[1]; }
  __device__ __forceinline__ int64_t feature_of_x() const { return of_units ? 1 : a.x.stride[2]; }
  __device__ __forceinline__ int64_t feature_of_y() const { return of_units ? 1 : a.y.stride[2]; }

  // The warp's number among the producers.
  __device__ __forceinline__ int number() const { return at / (8 * K); }
  // The warp's share of 16 columns of y: how many, and the first of them.
  __device__ __forceinline__ int own_columns() const { return chunk_columns / producers * (warp >> a.lane_bits); }
  __device__ __forceinline__ int first_own() const { return number() * own_columns() % chunk_columns; }
  // Which of a point's features, and of the points that the warp loads at once, are the lane's.
  static __device__ __forceinline__ int feature() { return lane_id() % lanes_each * 4; }
  static __device__ __forceinline__ int point() { return lane_id() / lanes_each; }

  static __device__ __forceinline__ Rows<float> four(const float *from) {
    return __builtin_bit_cast(Rows<float>, __ldg(reinterpret_cast<const float4 *>(from)));
  }
  static __device__ __forceinline__ Rows<TwoFloats> four(const TwoFloats *from) {
    const auto *const halves_of = reinterpret_cast<const float4 *>(from);
    const float4 first = __ldg(halves_of), second = __ldg(halves_of + 1);
    return {{{first.x, first.y}, {first.z, first.w}, {second.x, second.y}, {second.z, second.w}}};
  }
  // Loads four features from feature f on, which lie at `from`; vec4: at once. Those beyond the last are 0.
  template <bool vec4>
  __device__ __forceinline__ Rows<Element> quad(const Element *from, int64_t stride, int f) const {
    static_assert(vec4 || !of_units, "unit points have no gaps");
    Rows<Element> q{};
    if constexpr (vec4) {
      if (f < a.features) q = four(from);
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++, from += stride)
        if (f + i < a.features) q.v[i] = __ldg(from);
    }
    return q;
  }

  // How warps share a piece of y: begin_sharing; the warp puts its share where all producers find it; end_sharing; it
  // asks for its share of the piece that comes next; wait_for_shares, of all producers.
  __device__ __forceinline__ void begin_sharing() const { barriers.read.wait(chunks - 1); }
  __device__ __forceinline__ void end_sharing(int &next) const {
    barriers.ready.arrive();
    ptx::hide(next);  // so that its addresses take no registers outside the loop
  }
  __device__ __forceinline__ void wait_for_shares() const { barriers.ready.wait(chunks++); }

  // The column, of 16, of a thread's sums. Column c of matrix j is column 8 j + c / 2, or 8 j + c / 2 + 4 if c is
  // odd, so that storing costs has no bank conflicts.
  static __device__ __forceinline__ int column_of(int j, int odd) { return 8 * j + lane_id() % 4 + 4 * odd; }

  // Stores costs of some of the thread's rows, from `row` on, of 16 columns. of(j, odd, cost) gives those of a column.
  template <int rows, class Of>
  __device__ __forceinline__ void store(int first, int row, const Of &of) const {
    const int place = place_in_ring(first + shift, ring.columns);
#pragma unroll
    for (int j = 0; j < 2; j++)
#pragma unroll
      for (int odd = 0; odd < 2; odd++) {
        int slot = place + column_of(j, odd);
        if (slot >= ring.columns) slot -= ring.columns;
        typename Ring::Units::Value cost[rows];
        of(j, odd, cost);
        ring.store(slot, at + row, cost);
      }
  }
  // Costs for columns that the pair does not have. Any would do, but the smaller m of forbidden cells stays, the less
  // of it gets into the sums of the first column: t just below 1/2 makes m shrink the most.
  template <class Units>
  __device__ __forceinline__ void put_outside(int from, int to, const Units &units) const {
    for (int column = from + lane_id() % 4; column < to; column += 4)
      ring.template store<K>(place_in_ring(column + shift, ring.columns), at,
                             {units.almost_1(), units.almost_1(), units.almost_1(), units.almost_1()});
  }
};

}  // namespace sdtw::cuda
