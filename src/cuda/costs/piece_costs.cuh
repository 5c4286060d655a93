// PieceCosts: costs of more features than shared memory has room for of a strip's x, for FloatCell. They are the sums
// of TensorCosts, of the same products in the same fixed point, but points go through shared memory a piece of features
// at a time: x as it is, by asynchronous copies, each warp its own rows, a piece or two ahead; y relative to o and
// scaled, in float64, shared by the producers as in TensorCosts.
// Invariant: while a piece is multiplied the next one of y is shared, also across chunks of columns and across tasks.
// So of all that has been shared, the last piece has not been multiplied when `produce` begins. It is that of the
// columns that were expected to come next; if others do it is skipped. Trade-off: x is read again for every 16 columns,
// from L2 or memory: 512 d bytes, beside 16 d cycles of a multiprocessor for matrix instructions. Up to 128 features
// TensorCosts have x in shared memory.
#pragma once

#include <cuda_pipeline.h>

#include "cuda/costs/tensor_costs.cuh"

namespace sdtw::cuda {

// stages: pieces of x that shared memory has room for, one of which is being multiplied.
template <class Ring_, int stages>
struct PieceCosts : MatrixCosts<Ring_> {
  using Ring = Ring_;
  static_assert(Ring::fixed && stages >= 2);
  static constexpr int resident = 2;
  static constexpr int forward_columns = 48;
  static constexpr int unrolled = block_steps / 2;

  // Scratch in shared memory: x, for each warp `stages` pieces of its 32 rows; y, for each pair of the task two pieces
  // of 16 columns, with their norms behind them. Places are exchanged so that lanes that load together have no bank
  // conflicts.
  static constexpr int piece = 32, step = 16;  // features; those of one matrix instruction
  static constexpr int x_size = warp * piece, y_size = chunk_columns * (piece + 1);
  static constexpr size_t warp_bytes = sizeof(float) * stages * x_size, pair_bytes = sizeof(double) * 2 * y_size;
  static constexpr size_t barriers_bytes = sizeof(ProducerBarriers);
  __host__ __device__ static size_t scratch_bytes(const Args &a) {
    return barriers_bytes + producers * warp_bytes + (warp >> a.lane_bits) * pair_bytes;
  }

  // vec4: x and y can be loaded four features at a time.
  template <class Work>
  static __device__ __forceinline__ void choose(const Args &a, Work work) {
    if (are_vec4(a))
      work(Type<Producer<true>>{});
    else
      work(Type<Producer<false>>{});
  }
  template <bool vec4>
  struct Producer : MatrixProducer<Ring, piece> {
    using Base = MatrixProducer<Ring, piece>;
    using Base::a, Base::m, Base::n, Base::first_row, Base::sign, Base::xs, Base::ys, Base::y_step;
    using Base::barriers, Base::chunks, Base::nothing, Base::points;
    using Base::column_of, Base::feature, Base::first_own, Base::own_columns, Base::point;

    double base[K];        // norms of the thread's rows, on top of zero_of_sums + 1/2
    const double *norms;   // of the columns, at the task's first column
    float *x;              // pieces of the warp's rows
    double *y;             // two pieces of 16 columns of the warp's pair
    int stage, asking;     // stages of x: of the next piece to be multiplied, and of that to be asked for
    int asked;             // the first feature of the latter
    int expected;          // first column of the chunk whose first piece of y has been shared, or nothing
    Rows<float> incoming;  // the first of the lane's share of the piece of y behind that
    Rows<float> origin;    // the same features of o
    double incoming_norm;  // of the column that the lane looks after
    typename Ring::Units units;

    // As MatrixProducer's.
    __device__ __forceinline__ Producer(const Args &args, const StripView &s, int strip_lane, const Ring &to,
                                        unsigned char *memory, int shift_steps, int &count)
        : Base(args, s, strip_lane, to, memory, shift_steps, count),
          stage(0),
          asking(0),
          asked(0),
          expected(nothing),
          units(args, s.pair.index, left_out_of(s)) {
      unsigned char *const scratch = memory + barriers_bytes;
      x = reinterpret_cast<float *>(scratch + Base::number() * warp_bytes);
      y = reinterpret_cast<double *>(scratch + producers * warp_bytes + (strip_lane >> a.lane_bits) * pair_bytes);
      Base::seek(s);
      const double *const x_norms = norms_of(a, s.pair.index);
      norms = x_norms + a.n + s.first_column();
      const int left_out = left_out_of(s);
      const double zero = zero_of_sums(left_out) + (0.5 + units.half() * 0x1p-32);
#pragma unroll
      for (int k = 0; k < K; k++) base[k] = zero + x_norms[clamp(s.row_of(k), n)];
      if (chunks == 0) finish_piece();  // as if a piece had been shared, which will be skipped
      __pipeline_wait_prior(0);         // what the task before has asked for and not used
      __syncwarp();
#pragma unroll 1
      for (int i = 0; i < stages - 1; i++) ask();
    }
    // The shift s of sums: see TensorCosts.
    __device__ __forceinline__ int left_out_of(const StripView &s) const {
      return s.active ? fraction_shift(a, s.pair.index) : 0;
    }

    // Asks for the next piece of the warp's rows. In place of features beyond the last come others of the same point:
    // those of y are 0.
    __device__ __forceinline__ void ask() {
      if constexpr (vec4)
        copy<Rows<float>, warp / points>(point(), feature(), min(asked + feature(), a.features - 4));
      else
        copy<float, warp>(0, lane_id(), min(asked + lane_id(), a.features - 1));
      __pipeline_commit();
      asking = after(asking);
      asked = asked + piece < a.features ? asked + piece : 0;
    }
    // Copies a Unit of `rows` rows that follow each other, the part-th of the warp, to `place` of the piece, from
    // feature f on. Rows beyond the pair are the last one before: so addresses only advance.
    template <class Unit, int rows>
    __device__ __forceinline__ void copy(int part, int place, int f) {
      float *const to = x + asking * x_size + part * rows * piece;
      const int first = first_row + sign * part * rows;
      const int64_t next = sign * a.x.stride[1];
      const float *from = xs + clamp(first, n) * a.x.stride[1] + (f - feature()) * a.x.stride[2];
      int lower = sign > 0 ? first : first - 1;  // of the row and the next
#pragma unroll
      for (int r = 0; r < rows; r++, lower += sign) {
        __pipeline_memcpy_async(to + r * piece + (place ^ exchange(r / K)), from, sizeof(Unit));
        if (static_cast<unsigned>(lower) < static_cast<unsigned>(n - 1)) from += next;
      }
    }
    static __device__ __forceinline__ int after(int of) { return of + 1 < stages ? of + 1 : 0; }
    // Halves of the 32 features are exchanged in the rows of every other sweeping lane.
    static __device__ __forceinline__ int exchange(int lane) { return lane % 2 * step; }

    __device__ __forceinline__ Rows<float> quad(const float *from, int64_t stride, int f0) const {
      return Base::template quad<vec4>(from + f0 * stride, stride, f0 + feature());
    }
    // Loads part i of the warp's share of a piece of 16 columns of y. fetch: loads the first part into registers, what
    // belongs to it of o, and before the first piece the columns' norms.
    __device__ __forceinline__ Rows<float> y_quad(int first, int f0, int i) const {
      const int column = first + first_own() + point() + points * i;
      return quad(ys + clamp(column, m) * y_step, a.y.stride[2], f0);
    }
    __device__ __forceinline__ void fetch(int first, int f0) {
      incoming = y_quad(first, f0, 0);
      origin = quad(xs, a.x.stride[2], f0);
      if (f0 == 0 && lane_id() < own_columns()) incoming_norm = norms[sign * clamp(first + first_own() + lane_id(), m)];
    }
    __device__ __forceinline__ double *piece_of_y(int number) const { return y + (number & 1) * y_size; }
    // Puts a part, relative to o and scaled, where all producers find it. In columns 4 to 7 and 12 to 15 the halves of
    // four features are exchanged.
    __device__ __forceinline__ void put(int i, const Rows<float> &quad) const {
      const double factor = -2 * a.scale;
      const int column = first_own() + point() + points * i, late = column >> 1 & 2;
      double *const to = piece_of_y(chunks) + column * piece + feature();
      double v[4];
#pragma unroll
      for (int f = 0; f < 4; f++) v[f] = factor * (static_cast<double>(quad.v[f]) - static_cast<double>(origin.v[f]));
      *reinterpret_cast<double2 *>(to + late) = double2{v[0], v[1]};
      *reinterpret_cast<double2 *>(to + (2 - late)) = double2{v[2], v[3]};
    }
    // Shares the piece of y that has been fetched. Parts beyond the first are loaded only here.
    __device__ __forceinline__ void share_late(int first, int f0) const {
#pragma unroll 1
      for (int i = 1; points * i < own_columns(); i++) put(i, y_quad(first, f0, i));
    }
    __device__ __forceinline__ void share() const {
      put(0, incoming);
      if (lane_id() < own_columns())
        piece_of_y(chunks)[chunk_columns * piece + first_own() + lane_id()] = incoming_norm;
    }
    // The warp has read one piece of y and shared the next.
    __device__ __forceinline__ void finish_piece() {
      barriers.ready.arrive();
      chunks++;
    }
    __device__ __forceinline__ void wait_for_piece() const { barriers.ready.wait(chunks - 1); }
    // Shares the first piece of a chunk that was not expected, in place of that which has been shared.
    __device__ __forceinline__ void begin_anew(int first) {
      fetch(first, 0);
      wait_for_piece();
      share_late(first, 0);
      share();
      finish_piece();
      fetch(first, piece);
    }

    __device__ __forceinline__ void put_outside(int from, int to) const { Base::put_outside(from, to, units); }
    // Computes the costs of 16 columns into the ring, by all producers together. next: the first of the 16 columns that
    // will probably be computed next.
    __device__ __forceinline__ void produce(int first, int next) {
      if (expected != first) begin_anew(first);
      expected = next;
      double sum[2][2][4];
      wait_for_piece();
      begin(piece_of_y(chunks - 1) + chunk_columns * piece, sum);
#pragma unroll 1
      for (int f0 = 0; f0 < a.features; f0 += piece) {
        const bool last = f0 + piece >= a.features, before_last = f0 + 2 * piece >= a.features;
        wait_for_piece();
        share_late(last ? next : first, last ? 0 : f0 + piece);
        __pipeline_wait_prior(stages - 2);
        __syncwarp();  // all lanes' copies have come, and all have read the piece before, whose stage is free
        // From here to the end there is no branch, so that all else is done between matrix instructions.
        multiply(0, sum);
        multiply(1, sum);
        stage = after(stage);
        ask();
        share();
        fetch(before_last ? next : first, last ? piece : before_last ? 0 : f0 + 2 * piece);
        finish_piece();
      }
      Base::template store<K>(first, 0, [&](int j, int odd, auto &cost) {
#pragma unroll
        for (int k = 0; k < K; k++) cost[k] = units.of(sum[k / 2][j][2 * (k % 2) + odd]);
      });
    }
    // Begins the sums with the norms of rows and columns.
    __device__ __forceinline__ void begin(const double *of_columns, double (&sum)[2][2][4]) const {
#pragma unroll
      for (int j = 0; j < 2; j++)
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
          const double of_column = of_columns[column_of(j, odd)];
#pragma unroll
          for (int k = 0; k < K; k++) sum[k / 2][j][2 * (k % 2) + odd] = base[k] + of_column;
        }
    }

    // Adds the products of the number-th 16 features of a piece, of which a lane has four that follow each other. The
    // first 8 rows of a matrix are rows 0 (or 2) of 8 sweeping lanes, and the other 8 are rows 1 (or 3) of the same
    // lanes.
    __device__ __forceinline__ void multiply(int number, double (&sum)[2][2][4]) const {
      const float *const rows = x + stage * x_size;
      const double *const columns = piece_of_y(chunks - 1);
      const int g = lane_id() / 4, own = lane_id() % 4 * 4 + number * step, column = (g & 1) * 4 + g / 2;
      const double *const from = columns + column * piece + own;
      double b[2][4];
#pragma unroll
      for (int j = 0; j < 2; j++)
#pragma unroll
        for (int part = 0; part < 2; part++) {
          const double2 v = *reinterpret_cast<const double2 *>(from + 8 * j * piece + (part == 0 ? g & 1 : ~g & 1) * 2);
          b[j][2 * part] = v.x, b[j][2 * part + 1] = v.y;
        }
#pragma unroll
      for (int h = 0; h < 2; h++) {
        double a_rows[8];
#pragma unroll
        for (int r = 0; r < 2; r++) {
          const auto v =
              *reinterpret_cast<const Rows<float> *>(rows + (g * K + 2 * h + r) * piece + (own ^ exchange(g)));
#pragma unroll
          for (int i = 0; i < 4; i++) a_rows[2 * i + r] = v.v[i];
        }
#pragma unroll
        for (int j = 0; j < 2; j++) multiply_add(sum[h][j], a_rows, b[j]);
      }
    }
  };
};

}  // namespace sdtw::cuda
