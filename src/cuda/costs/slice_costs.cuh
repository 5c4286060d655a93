// SliceCosts: costs of many features in integers, by the int8 matrix instructions (mma) that GPUs have from 7.5 on, and
// without float64, which most GPUs have at a 32nd or a 64th of the speed of float32.
//
// D = |u|^2 + |v|^2 - 2 <u, v>, where u = x_i - o, v = y_j - o, and o is the first point of x, so that an offset that
// all points share does not cancel. Producers cut points into digits as they load them (digits.cuh):
//
//   u = 2^-ex (a_0 + a_1 2^-8 + ... + a_4 2^-32),   v = 2^-ey (b_0 + b_1 2^-8 + ... + b_4 2^-32)
//
// with an exponent for each point, so that an outlier takes nobody else's digits, and digits in [-128, 127], whose
// errors have zero mean. Digits of neighbouring features are multiplied by one instruction, and the products a_i b_j of
// the same i + j are summed up in one int; all this is exact. Sums are joined in 64 bits, multiplied by log2(e) / gamma
// of 31 digits, and shifted to units of 2^-32; the norms are those of the points as they are cut, from bounds_kernel
// (bounds.cu), so that the distance of a point from itself is 0, and otherwise that of points that are off by
// half of a last digit.
//
// LongCell, whose costs are up to 2^9 times as large, has six digits, and producers compute the norms as they load
// points, as those in memory are FloatCell's.
//
// Two things are lost. Points are cut behind five digits, that is at 2^-39 of their largest coordinate or finer: t
// changes by 2^-40 sqrt(t T) or so, T being the largest t of the pair, and hardly ever at all, since a float32 that is
// not much smaller than the largest one has no more than four digits. And products of i + j > 5 are left out, by which
// t is off by 2^-44 T, in either direction, or, where features or cells are alike, in one. Of six digits it is 2^-48
// and i + j > 6, so 2^-52 T. Invariant: sums of products of 32 features fit an int, and so do two of them of which one
// is times 256: 5 x 32 x 2^14 x 256 < 2^31; and 64 bits hold t up to 2^31 with as many bits of fraction as leave room
// for it, 32 up to 2^19 (fraction_shift in pair.cuh). Trade-off: on GPUs for data centres, whose float64 is half as
// fast as float32, TensorCosts take two thirds of the time or less: 19 products or 26, and the instructions that join
// them, against one. Elsewhere these are many times faster.
//
// Of unit points (cosine) D = 1 - <u, v>: all have the same exponent, since no coordinate is more than 1, and half of
// that 1 is what each adds to costs.
#pragma once

#include "cuda/costs/digits.cuh"
#include "cuda/costs/matrix_costs.cuh"

namespace sdtw::cuda {

// Digits of y lie in shared memory, a piece of 32 features at a time; so do those of x, of all features if there is
// room (Args::x_whole). Else x is cut anew for every 16 columns. Ring: the format of costs in the ring. Element: of the
// points, float or TwoFloats.
template <class Ring_, class Element = float, class Digits = FiveDigits>
struct SliceCosts : MatrixCosts<Ring_> {
  using Ring = Ring_;
  static constexpr int digits = Digits::count;
  static constexpr bool has_norms = std::is_same_v<Digits, FiveDigits>;  // in memory
  static constexpr int most_left_out = has_norms ? most_shift : most_shift_of_long;
  static constexpr bool of_units = std::is_same_v<Element, TwoFloats>;
  static constexpr int resident = 2;
  static constexpr int forward_columns = 0;  // Args::cost_columns
  static constexpr int unrolled = block_steps / 2;

  // Scratch in shared memory, as matrix instructions take it, 128 words for each digit of 32 features: x of 16 rows, a
  // half of a warp's, lane by lane and four words each; y of 16 columns of every pair of the task, and what the columns
  // are known by (PointWord). Norms that are not in memory lie there, too: of the strip's rows, and of the columns.
  static constexpr int piece = 32, matrix = 4 * warp, group = digits * matrix;
  static constexpr size_t group_bytes = sizeof(unsigned) * group;
  __host__ __device__ static int groups(const Args &a) { return a.x_whole ? (a.features + piece - 1) / piece : 1; }
  static constexpr size_t words_bytes = chunk_columns * sizeof(PointWord);
  static constexpr size_t pair_bytes = group_bytes + words_bytes * (has_norms ? 1 : 2);
  static constexpr size_t barriers_bytes = sizeof(ProducerBarriers);
  static constexpr size_t norms_bytes = has_norms ? 0 : K * warp * sizeof(long long);
  __host__ __device__ static size_t scratch_bytes(const Args &a) {
    return barriers_bytes + norms_bytes + producers * 2 * group_bytes * groups(a) + (warp >> a.lane_bits) * pair_bytes;
  }

  template <class Work>
  static __device__ __forceinline__ void choose(const Args &, Work work) {
    work(Type<Producer>{});
  }
  struct Producer : MatrixProducer<Ring, piece, Element> {
    using Base = MatrixProducer<Ring, piece, Element>;
    using Base::a, Base::m, Base::n, Base::first_row, Base::sign, Base::xs, Base::ys, Base::y_step;
    using Base::barriers, Base::nothing, Base::points;
    using Base::column_of, Base::feature, Base::first_own, Base::own_columns, Base::point;

    long long *norms;             // of the thread's rows, where they are not in memory
    unsigned *x, *y;              // digits of the warp's rows, and of 16 columns of its pair
    const PointWord *of_rows;     // what rows are known by
    const PointWord *of_columns;  // and columns, at the task's first column
    PointWord own_rows[K];        // of_rows of the thread's rows
    bool vec4;                    // x and y can be loaded four features at a time
    int fetched;                  // first column of the chunk of y that has been asked for, or nothing
    Rows<Element> incoming;       // the first of the lane's share of a piece of that chunk
    PointWord incoming_word;      // of the column that the lane looks after
    Rows<Element> origin;         // the lane's features of o
    int left_out;                 // bits of the fraction that sums have no room for (fraction_shift)
    SliceScale scale;             // log2(e) / gamma
    typename Ring::Units units;

    // As MatrixProducer's.
    __device__ __forceinline__ Producer(const Args &args, const StripView &s, int strip_lane, const Ring &to,
                                        unsigned char *memory, int shift_steps, int &count)
        : Base(args, s, strip_lane, to, memory, shift_steps, count),
          norms(nullptr),
          vec4(of_units || are_vec4(args)),
          fetched(nothing),
          left_out(s.active ? fraction_shift<most_left_out>(args, s.pair.index) : 0),
          scale(args.scale),
          units(args, s.pair.index, left_out) {
      unsigned char *scratch = memory + barriers_bytes;
      if constexpr (!has_norms) norms = reinterpret_cast<long long *>(scratch) + strip_lane * K;
      scratch += norms_bytes;
      x = reinterpret_cast<unsigned *>(scratch + Base::number() * 2 * group_bytes * groups(a));
      y = reinterpret_cast<unsigned *>(scratch + producers * 2 * group_bytes * groups(a) +
                                       (strip_lane >> a.lane_bits) * pair_bytes);
      Base::seek(s);
      if constexpr (!of_units) {
        of_rows = words_of_points(a, s.pair.index);
        of_columns = of_rows + a.n + s.first_column();
      }
#pragma unroll
      for (int k = 0; k < K; k++) own_rows[k] = word_of_row(clamp(s.row_of(k), n));
      if (a.x_whole) load_x(0, a.features);
    }

    __device__ __forceinline__ PointWord word_of_unit() const { return point_word(a.scale / 2, 6); }
    __device__ __forceinline__ PointWord word_of_row(int row) const {
      if constexpr (of_units) return word_of_unit();
      return of_rows[row];
    }
    __device__ __forceinline__ PointWord word_of_column(int column) const {
      if constexpr (of_units) return word_of_unit();
      return of_columns[sign * clamp(column, m)];
    }

    __device__ __forceinline__ PointWord *y_words() const { return reinterpret_cast<PointWord *>(y + group); }
    __device__ __forceinline__ long long *y_norms() const { return y_words() + chunk_columns; }

    // Loads the lane's four features of the piece from f0 on. Beyond the last feature they are 0. In one kernel, where
    // vec4 is not known when it is compiled.
    __device__ __forceinline__ Rows<Element> quad(const Element *from, int64_t stride, int f0) const {
      Rows<Element> q{};
      const int f = f0 + feature();
      from += f0 * stride;
      if (vec4) {
        if (f < a.features) q = Base::four(from);
      } else if constexpr (!of_units) {
#pragma unroll
        for (int i = 0; i < 4; i++, from += stride)
          if (f + i < a.features) q.v[i] = __ldg(from);
      }
      return q;
    }
    __device__ __forceinline__ Rows<Element> x_quad(int row, int f0) const {
      return quad(xs + row * Base::along_x(), Base::feature_of_x(), f0);
    }
    __device__ __forceinline__ void load_origin(int f0) {
      if constexpr (!of_units) origin = x_quad(0, f0);
    }
    static __device__ __forceinline__ int word() { return lane_id() % Base::lanes_each; }

    // Where matrices of half of the warp's rows lie, of the piece from f0 on.
    __device__ __forceinline__ unsigned *rows_at(int half, int f0) const {
      return x + (half * groups(a) + (a.x_whole ? f0 / piece : 0)) * group;
    }
    // Cuts features [f0, end) of the warp's rows into digits. Rows 0 and 1 of the 8 sweeping lanes are the first
    // matrices, rows 2 and 3 the others, and in these the first 8 rows are those of even number.
    __device__ __forceinline__ void load_x(int f0, int end) {
      __syncwarp();
#pragma unroll 1
      for (; f0 < end; f0 += piece) {
        load_origin(f0);
#pragma unroll 2
        for (int r = point(); r < warp; r += points) {
          const int row = clamp(first_row + sign * r, n);
          unsigned *const to = rows_at(r % K / 2, f0) + r / K * 16 + word() % 4 * 4 + word() / 4 * 2 + r % 2;
          store<true>(to, norms + (r - lane_id() / 4 * K), f0, x_quad(row, f0), word_of_row(row));
        }
      }
      __syncwarp();
    }
    // Stores digits of the lane's four features of a point, and adds to its norm what they add: rounded down of x, as
    // products are, and to the nearest of y, so that costs are not all off to one side.
    static __device__ __forceinline__ TwoFloats relative(float v, float to) { return difference(v, to); }
    static __device__ __forceinline__ TwoFloats relative(const TwoFloats &v, const TwoFloats &) { return v; }
    template <bool of_x>
    __device__ __forceinline__ void store(unsigned *to, [[maybe_unused]] long long *norm, [[maybe_unused]] int f0,
                                          const Rows<Element> &of_point, PointWord known) const {
      const float up = power_of_2(exponent_of(known) + 8);
      const auto cut_of = [&](int i) { return typename Digits::Cut(relative(of_point.v[i], origin.v[i]), up); };
      const typename Digits::Cut cut[4] = {cut_of(0), cut_of(1), cut_of(2), cut_of(3)};
      unsigned planes[digits];
      Digits::pack(cut, planes);
#pragma unroll
      for (int i = 0; i < digits; i++) to[i * matrix] = planes[i];
      if constexpr (!has_norms) {
        unsigned long long squares = (cut[0].square() + cut[1].square()) + (cut[2].square() + cut[3].square());
        squares = lanes_sum(squares, Base::lanes_each);  // of 32 features, each up to 2^56
        constexpr int of_square = 42 - 1;                // units of squares and of the mantissa's product
        const int by = 2 * exponent_of(known) + of_square - scale.exponent - (32 - left_out);
        const auto mantissa = static_cast<unsigned long long>(scale.mantissa) << 33;
        const auto product = static_cast<long long>(__umul64hi(squares, mantissa));
        const long long half = of_x ? 0 : 1ll << (min(max(by, 1), 63) - 1);
        const long long more = ptx::shift_right(product + half, by);
        if (feature() == 0) *norm = more + (f0 > 0 ? *norm : 0);
      }
    }

    // Loads part i of the warp's share of a piece of 16 columns of y. fetch: loads the first part into registers, what
    // belongs to it of o, and the columns' words.
    __device__ __forceinline__ Rows<Element> y_quad(int first, int f0, int i) const {
      const int column = first + first_own() + point() + points * i;
      return quad(ys + clamp(column, m) * y_step, Base::feature_of_y(), f0);
    }
    __device__ __forceinline__ void fetch(int first, int f0) {
      fetched = first;
      incoming = y_quad(first, f0, 0);
      load_origin(f0);
      if (lane_id() < own_columns()) incoming_word = word_of_column(first + first_own() + lane_id());
    }
    // The columns of matrices are those of column_of. The two matrices' words of a lane lie side by side, exchanged for
    // every other pair of columns.
    __device__ __forceinline__ void put(int i, int f0, const Rows<Element> &quad) const {
      const int column = first_own() + point() + points * i, c = column % 4 * 2 + column / 4 % 2;
      unsigned *const to = y + c * 16 + word() % 4 * 4 + word() / 4 + 2 * (column / 8 ^ c / 2 % 2);
      store<false>(to, y_norms() + column, f0, quad, y_words()[column]);
    }
    // Puts the warp's share, relative to o, into shared memory. Parts beyond the first are loaded only here.
    __device__ __forceinline__ void convert(int first, int f0) const {
      if (lane_id() < own_columns()) y_words()[first_own() + lane_id()] = incoming_word;
      __syncwarp();
      put(0, f0, incoming);
#pragma unroll 1
      for (int i = 1; points * i < own_columns(); i++) put(i, f0, y_quad(first, f0, i));
    }

    __device__ __forceinline__ void put_outside(int from, int to) const { Base::put_outside(from, to, units); }
    // Computes the costs of 16 columns into the ring, by all producers together. next: the first of the 16 columns that
    // will probably be computed next.
    __device__ __forceinline__ void produce(int first, int next) {
      if (fetched != first) fetch(first, 0);
      long long sum[2][2][4] = {};
#pragma unroll 1
      for (int f0 = 0; f0 < a.features; f0 += piece) {
        if (!a.x_whole) load_x(f0, f0 + 1);
        const bool last = f0 + piece >= a.features;
        share_y(first, f0, last ? next : first, last ? 0 : f0 + piece);
#pragma unroll
        for (int half = 0; half < 2; half++) add(half, f0, sum[half]);
        if (has_norms || !last) barriers.read.arrive();
      }
#pragma unroll
      for (int half = 0; half < 2; half++) put(first, half, sum[half]);
      if (!has_norms) barriers.read.arrive();
    }

    __device__ __forceinline__ void share_y(int first, int f0, int next, int next_f0) {
      Base::begin_sharing();
      convert(first, f0);
      Base::end_sharing(next);
      fetch(next, next_f0);
      Base::wait_for_shares();
    }

    __device__ __forceinline__ long long norm_of_row(int half, int k) const {
      if constexpr (has_norms)
        return norm_of(half ? own_rows[2 + k] : own_rows[k], left_out);
      else
        return norms[half * 2 + k];
    }
    // Those in memory from there: y of the next chunk may be in shared memory already.
    __device__ __forceinline__ long long norm_of_column(int first, int column) const {
      if constexpr (has_norms)
        return norm_of(word_of_column(first + column), left_out);
      else
        return y_norms()[column];
    }
    // Stores costs from the thread's sums of products, of half of its rows, in the ring.
    __device__ __forceinline__ void put(int first, int half, const long long (&sum)[2][4]) const {
      const long long rounding = ((1u << 31) + units.half()) >> left_out;
      const long long row[2] = {norm_of_row(half, 0) + rounding, norm_of_row(half, 1) + rounding};
      Base::template store<K / 2>(first, half * (K / 2), [&](int j, int odd, auto &cost) {
        const long long of_column = norm_of_column(first, column_of(j, odd));
#pragma unroll
        for (int k = 0; k < K / 2; k++) cost[k] = units.of(row[k] + of_column - sum[j][2 * k + odd]);
      });
    }

    // Adds the products of a piece's features to the sums of half of the thread's rows.
    __device__ __forceinline__ void add(int half, int f0, long long (&sum)[2][4]) const {
      int of_weight[weights][2][4] = {};
      multiply(half, f0, of_weight);
      const int row_exponent[2] = {exponent_of(half ? own_rows[2] : own_rows[0]),
                                   exponent_of(half ? own_rows[3] : own_rows[1])};
#pragma unroll
      for (int j = 0; j < 2; j++)
#pragma unroll
        for (int odd = 0; odd < 2; odd++) {
          constexpr int of_product = of_units ? 6 : 5;  // <u, v> or twice that
          const int by = exponent_of(y_words()[column_of(j, odd)]) + of_product + left_out - scale.exponent;
#pragma unroll
          for (int k = 0; k < 2; k++) {
            const int e = 2 * k + odd;
            const auto weight = [&](int w) { return of_weight[w][j][e]; };
            int lowest = weight(4) * 256 + weight(5);
            if constexpr (digits > 5) lowest += weight(6) >> 8;
            const long long lower = static_cast<long long>(weight(2) * 256 + weight(3)) * 65536 + lowest;
            const int high = static_cast<int>(lower >> 32) + (weight(0) * 256 + weight(1));
            const long long product =
                static_cast<long long>(high) * scale.mantissa + __umulhi(static_cast<unsigned>(lower), scale.mantissa);
            sum[j][e] += ptx::shift_right(product, row_exponent[k] + by);
          }
        }
    }

    // Sums of products of digits, by the sum of the digits' places.
    static constexpr int weights = digits + 1;
    __device__ __forceinline__ void multiply(int half, int f0, int (&sum)[weights][2][4]) const {
      const unsigned *rows = rows_at(half, f0) + 4 * lane_id(), *columns = y + 4 * lane_id();
      const int swapped = 2 * (lane_id() / 8 % 2);
      uint4 row[digits];
#pragma unroll
      for (int i = 0; i < digits; i++) row[i] = *reinterpret_cast<const uint4 *>(rows + i * matrix);
#pragma unroll
      for (int i = 0; i < digits; i++) {
        const uint2 column[2] = {*reinterpret_cast<const uint2 *>(columns + i * matrix + swapped),
                                 *reinterpret_cast<const uint2 *>(columns + i * matrix + (2 - swapped))};
#pragma unroll
        for (int other = 0; other < digits && other + i < weights; other++)
#pragma unroll
          for (int j = 0; j < 2; j++) ptx::multiply_add(sum[i + other][j], row[other], column[j]);
      }
    }
  };
};

}  // namespace sdtw::cuda
