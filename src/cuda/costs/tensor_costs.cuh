// TensorCosts: costs of many features for FloatCell, by the float64 matrix instructions (mma) of data-centre GPUs.
// D = |x - o|^2 + |y - o|^2 + 2 <o, y - o> - 2 <x, y - o>, where o is the first point of x, so that an offset that all
// points share does not cancel. All but the last product are norms that bounds_kernel has computed (bounds.cu).
// For a LongRing D = |x - o|^2 + |y - o|^2 - 2 <x - o, y - o>, so that an offset takes no digits from sums that have
// few to spare, and producers compute the norms as they load points, as there may be other norms for FloatCell then.
// Of unit points (cosine) D = 1 - <u, v>, which is 1 as it should be where either is 0.
// Invariant: all partial sums stay within the range of their fixed-point format; pairs whose bounds do not promise that
// (sum_bound in pair.cuh) are DoubleCell's, which sums up differences instead. Trade-off: where a GPU is slow in
// float64, these costs dominate the time.
#pragma once

#include "cuda/costs/matrix_costs.cuh"
#include "cuda/costs/matrix_product.cuh"

namespace sdtw::cuda {

// Of more features x comes through shared memory a piece at a time, where there is room for PieceCosts: so there is for
// costs that have a place for so many.
constexpr int most_whole_features = 128;

// For a LongRing t is summed up as it is. Else it is summed up in fixed point, as with fixed_point (cell.cuh): on top
// of 1.5 2^(20 + s), so that the double has 32 - s bits of the fraction. s is the least that leaves room for all
// partial sums (fraction_shift in pair.cuh): 0 while they are below 2^19, and 8 at most.
//
// Held: the type in which x waits in shared memory. As double, x need not be converted at each use but takes more room.
// As int, unit points have 30 bits of fraction.
// chunk: features that are in shared memory at a time. If there are more, x is loaded anew for every 16 columns.
// Ring: the format of costs in the ring. columns: columns of the ring in forward.
// together: halves of a thread's rows, 1 or 2, that are computed at once: of both, y is loaded once, but their sums
// take more registers. Element: of the points, float or TwoFloats.
template <class Held, int chunk, class Ring_, int columns = 64, int together = 1, class Element = float>
struct TensorCosts : MatrixCosts<Ring_> {
  using Ring = Ring_;
  static constexpr bool of_units = std::is_same_v<Element, TwoFloats>;
  static constexpr bool has_norms = Ring::fixed && !of_units;            // in memory
  static constexpr int resident = std::is_same_v<Held, double> ? 1 : 2;  // as there is room for x
  static constexpr int at_once = chunk;
  static constexpr int forward_columns = columns;
  // Steps that forward unrolls. Where the sweeping warp computes 2^-f - 1, too, the code of a whole block of steps does
  // not fit the instruction cache beside that of the producers.
  static constexpr int unrolled = std::is_base_of_v<SplitRing, Ring> ? block_steps : block_steps / 2;

  // Scratch in shared memory: the norms of the strip's rows, and x; and for 16 columns of every pair of the task y,
  // relative to o and scaled by -2 log2(e) / gamma, and the columns' norms. x lies in pairs of rows, feature by
  // feature. The pitches avoid bank conflicts among lanes that load together.
  static constexpr int x_pitch = 2 * chunk + 8, y_pitch = chunk + 2;
  static constexpr size_t rows_bytes = K * warp * sizeof(double) + K * warp / 2 * x_pitch * sizeof(Held);
  // y of a pair, and for a LongRing behind its 16 columns o as another; then norms.
  static constexpr int points_of_y = chunk_columns + !Ring::fixed;
  static constexpr size_t pair_bytes = sizeof(double) * (points_of_y * y_pitch + chunk_columns);
  static constexpr size_t barriers_bytes = sizeof(ProducerBarriers);
  __host__ __device__ static size_t scratch_bytes(const Args &a) {
    return barriers_bytes + rows_bytes + (warp >> a.lane_bits) * pair_bytes;
  }

  // Calls `work` with the type of producer that suits the problem. whole: x of all features lies in shared memory.
  template <class Work>
  static __device__ __forceinline__ void choose(const Args &a, Work work) {
    if (a.features <= chunk)
      work(Type<Producer<true>>{});
    else if constexpr (chunk < most_whole_features)
      work(Type<Producer<false>>{});
  }
  template <bool whole>
  struct Producer : MatrixProducer<Ring, chunk, Element> {
    using Base = MatrixProducer<Ring, chunk, Element>;
    using Base::a, Base::m, Base::at, Base::n, Base::first_row, Base::sign, Base::xs, Base::ys, Base::y_step;
    using Base::barriers, Base::nothing, Base::lanes_each, Base::points;
    using Base::column_of, Base::feature, Base::first_own, Base::own_columns, Base::point;

    // So many points of x a lane loads at once.
    static constexpr int together_of_x = 4;
    // So many points of y a lane asks for ahead: all of its share, except with several pairs in a warp.
    static constexpr int staged = (chunk_columns / producers + points - 1) / points;

    double *base;  // norms of the thread's rows, on top of zero_of_sums + 1/2
    Held *x;       // the warp's rows, as matrices take them: rows 0 and 1 of all its sweeping lanes, then 2 and 3
    double *y;     // 16 columns of the warp's pair
    const double *norms;             // norms of the columns, at the task's first column
    int fetched;                     // first column of the chunk of y that has been asked for, or nothing
    Rows<Element> incoming[staged];  // the warp's share of that chunk
    double incoming_norm;            // of the column that the lane looks after
    Element origin[4];               // the lane's features of o
    bool vec4;                       // x and y can be loaded four features at a time
    typename Ring::Units units;

    // As MatrixProducer's.
    __device__ __forceinline__ Producer(const Args &args, const StripView &s, int strip_lane, const Ring &to,
                                        unsigned char *memory, int shift_steps, int &count)
        : Base(args, s, strip_lane, to, memory, shift_steps, count),
          fetched(nothing),
          vec4(of_units || are_vec4(args)),
          units(a, s.pair.index, left_out_of(s)) {
      const int lane = lane_id();
      double *scratch = reinterpret_cast<double *>(&barriers + 1);
      base = scratch + strip_lane * K;
      x = reinterpret_cast<Held *>(scratch + K * warp) + (strip_lane - lane / 4) * (K / 2 * x_pitch);
      y = reinterpret_cast<double *>(reinterpret_cast<unsigned char *>(scratch) + rows_bytes +
                                     (strip_lane >> a.lane_bits) * pair_bytes);
      Base::seek(s);
      if constexpr (Ring::fixed) {
        const int left_out = left_out_of(s);
        const double zero = zero_of_sums(left_out) + (0.5 + units.half() * 0x1p-32);
        double norm = a.scale;
        if constexpr (has_norms) {
          const double *x_norms = norms_of(a, s.pair.index);
          norms = x_norms + a.n + s.first_column();
          norm = x_norms[clamp(s.row_of(lane % 4), n)];
        }
        __syncwarp();
        base[lane % 4] = zero + norm;
      }
      __syncwarp();
      if (whole) load_x(0);
      __syncwarp();
    }

    // The shift s of sums, see above, of the pair of a sweeping lane.
    __device__ __forceinline__ int left_out_of(const StripView &s) const {
      return Ring::fixed && s.active ? fraction_shift(a, s.pair.index) : 0;
    }
    __device__ __forceinline__ double *y_norms() const { return y + points_of_y * y_pitch; }

    // Calls `load` with whether it can load four features at a time. It is asked once for as many loads as are under
    // way together, since a producer of each kind would be a fifth of the code of a kernel more.
    template <class Load>
    __device__ __forceinline__ void load_by(Load load) const {
      if (of_units || vec4)
        load(std::true_type{});
      else if constexpr (!of_units)
        load(std::false_type{});
    }
    static constexpr double unit_of_held = std::is_same_v<Held, int> ? 0x1p-30 : 1;
    static __device__ __forceinline__ Held held_of(float v) { return v; }
    static __device__ __forceinline__ Held held_of(const TwoFloats &v) {
      if constexpr (std::is_same_v<Held, int>)
        return __double2int_rn(whole_of(v) / unit_of_held);
      else
        return whole_of(v);
    }
    // A feature relative to that of o. Unit points are as they are: nothing is subtracted from their products but 1.
    static __device__ __forceinline__ double relative(float v, float to) {
      return static_cast<double>(v) - static_cast<double>(to);
    }
    static __device__ __forceinline__ double relative(const TwoFloats &v, const TwoFloats &) { return whole_of(v); }

    // Loads features [f0, f0 + chunk) of the warp's rows into shared memory, and the lane's features of o.
    __device__ __forceinline__ void load_x(int f0) {
      const int f = f0 + feature();
      const int64_t along = Base::feature_of_x();
      const Element *from = xs + f0 * along;
      if constexpr (!of_units) {
        Rows<Element> first;
        load_by([&](auto four) { first = this->template quad<decltype(four)::value>(from, along, f); });
#pragma unroll
        for (int i = 0; i < 4; i++) origin[i] = first.v[i];
      }
#pragma unroll 1
      for (int r = point(); r < warp; r += together_of_x * points) {
        Rows<Element> points_of_x[together_of_x];
        load_by([&](auto four) {
#pragma unroll
          for (int i = 0; i < together_of_x; i++) {
            const int row = clamp(first_row + sign * (r + i * points), n);
            points_of_x[i] = this->template quad<decltype(four)::value>(from + row * Base::along_x(), along, f);
          }
        });
#pragma unroll
        for (int i = 0; i < together_of_x; i++) put_x(r + i * points, f0, points_of_x[i]);
      }
    }
    // Puts the lane's features of row r of the warp into shared memory.
    __device__ __forceinline__ void put_x(int r, int f0, const Rows<Element> &point) const {
      Held *to = x + (r % K / 2 * (warp / K) + r / K) * x_pitch + 2 * feature() + r % 2;
#pragma unroll
      for (int i = 0; i < 4; i++) to[2 * i] = held_of(point.v[i]);
      if constexpr (!Ring::fixed) {
        double norm = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
          const double difference = static_cast<double>(point.v[i]) - static_cast<double>(origin[i]);
          norm = fma(difference, difference, norm);
        }
        add_norm(base + (r - lane_id() / 4 * K), f0, norm, true);
      }
    }
    // Without norms in memory: adds up those of points as they are loaded, of the lanes' features from f0 on.
    __device__ __forceinline__ void add_norm(double *to, int f0, double of_features, bool exists) const {
      of_features = lanes_sum(of_features, lanes_each);
      if (exists && feature() == 0) *to = a.scale * of_features + (f0 > 0 ? *to : 0);
    }

    // Loads part i of the warp's share of 16 columns of y, features [f0, f0 + chunk). has: whether there is such a
    // part. fetch: loads all parts into registers, and the norms.
    template <bool four>
    __device__ __forceinline__ Rows<Element> y_quad(int first, int f0, int i) const {
      const int column = first + first_own() + point() + points * i;
      const int64_t along = Base::feature_of_y();
      return Base::template quad<four>(ys + f0 * along + clamp(column, m) * y_step, along, f0 + feature());
    }
    __device__ __forceinline__ bool has(int i) const { return points * i < own_columns() && has_share(); }
    __device__ __forceinline__ bool has_share() const { return points <= producers || point() < own_columns(); }
    // For shuffles: whether any lane has such a part.
    __device__ __forceinline__ bool takes_part(int i) const {
      return Ring::fixed ? has(i) : points * i < own_columns();
    }
    __device__ __forceinline__ void fetch(int first, int f0) {
      fetched = first;
      load_by([&](auto four) {
#pragma unroll
        for (int i = 0; i < staged; i++)
          if (has(i)) incoming[i] = this->template y_quad<decltype(four)::value>(first, f0, i);
      });
      if constexpr (has_norms)
        if (lane_id() < own_columns()) incoming_norm = norms[sign * clamp(first + first_own() + lane_id(), m)];
    }
    // Where a feature of a column lies. Of 16 features a lane of the matrix instruction needs every fourth: these four
    // lie together. In columns 4 to 7 and 12 to 15 the two halves of the four are exchanged.
    static __device__ __forceinline__ int place(int column, int f) {
      return column * y_pitch + (f & -16) + f % 4 * 4 + (f % 16 / 4 ^ (column >> 1 & 2));
    }
    __device__ __forceinline__ void put(int i, int f0, const Rows<Element> &quad) const {
      const double factor = (of_units ? -unit_of_held : -2) * a.scale;
      const int column = first_own() + point() + points * i;
      double *to = y + place(column, feature());
      [[maybe_unused]] double norm = 0;  // |y - o|^2
#pragma unroll
      for (int f = 0; f < 4; f++) {  // places are 4 apart
        const double difference = relative(quad.v[f], origin[f]);
        if (Ring::fixed || has_share()) to[4 * f] = factor * difference;
        if constexpr (!Ring::fixed) norm = fma(difference, difference, norm);
      }
      if constexpr (!Ring::fixed) add_norm(y_norms() + column, f0, norm, has_share());
    }
    // Puts the warp's share, relative to o and scaled, into shared memory. Parts beyond `staged` are loaded only here.
    __device__ __forceinline__ void convert(int first, int f0) const {
      if constexpr (!Ring::fixed) {
        double *const to = y + place(chunk_columns, feature());
        if (first_own() == 0 && point() == 0)
#pragma unroll
          for (int f = 0; f < 4; f++) to[4 * f] = origin[f];
      }
#pragma unroll
      for (int i = 0; i < staged; i++)
        if (takes_part(i)) put(i, f0, incoming[i]);
#pragma unroll 1
      for (int i = staged; has(i); i++)
        load_by([&](auto four) { this->put(i, f0, this->template y_quad<decltype(four)::value>(first, f0, i)); });
      if constexpr (has_norms)
        if (lane_id() < own_columns()) y_norms()[first_own() + lane_id()] = incoming_norm;
    }

    __device__ __forceinline__ void put_outside(int from, int to) const { Base::put_outside(from, to, units); }
    // Computes the costs of 16 columns into the ring, by all producers together. next: the first of the 16 columns that
    // will probably be computed next.
    __device__ __forceinline__ void produce(int first, int next) {
      if constexpr (whole) {
        if (fetched != first) fetch(first, 0);
        share_y(first, 0, next);
#pragma unroll 1
        for (int half = 0; half < 2; half += together) {
          double sum[together][2][4];
          begin(half, sum);
          multiply(half, a.features, sum);
          put(first, half, sum);
        }
        barriers.read.arrive();
      } else {
        double sum[2 / together][together][2][4];
#pragma unroll 1
        for (int f0 = 0; f0 < a.features; f0 += chunk) {
          __syncwarp();
          load_x(f0);
          __syncwarp();
          fetch(first, f0);
          share_y(first, f0, next);
#pragma unroll
          for (int i = 0; i < 2 / together; i++) {
            if (f0 == 0) begin(i * together, sum[i]);
            multiply(i * together, min(chunk, a.features - f0), sum[i]);
          }
          if (Ring::fixed || f0 + chunk < a.features) barriers.read.arrive();
        }
#pragma unroll
        for (int i = 0; i < 2 / together; i++) put(first, i * together, sum[i]);
        if (!Ring::fixed) barriers.read.arrive();  // norms have been read as well
      }
    }

    __device__ __forceinline__ void share_y(int first, int f0, int next) {
      Base::begin_sharing();
      convert(first, f0);
      Base::end_sharing(next);
      if (whole) fetch(next, 0);
      Base::wait_for_shares();
    }

    // Stores costs from the thread's sums of `halves` halves of its rows, from half `half` on, in the ring.
    template <int halves>
    __device__ __forceinline__ void put(int first, int half, const double (&sum)[halves][2][4]) const {
      Base::template store<2 * halves>(first, half * (K / 2), [&](int j, int odd, auto &cost) {
#pragma unroll
        for (int k = 0; k < 2 * halves; k++) {
          double t = sum[k / 2][j][2 * (k % 2) + odd];
          if constexpr (!Ring::fixed) t += base[half * (K / 2) + k] + y_norms()[column_of(j, odd)];
          cost[k] = units.of(t);
        }
      });
    }

    // Begins the sums of some halves of the thread's rows with the norms of rows and columns, if these are known before
    // all features have been loaded.
    template <int halves>
    __device__ __forceinline__ void begin(int half, double (&sum)[halves][2][4]) const {
#pragma unroll
      for (int h = 0; h < halves; h++) {
        if constexpr (!Ring::fixed) {
#pragma unroll
          for (int e = 0; e < 8; e++) sum[h][e / 4][e % 4] = 0;
          continue;
        }
        const double2 of_rows = *reinterpret_cast<const double2 *>(base + (half + h) * (K / 2));
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
          for (int odd = 0; odd < 2; odd++) {
            const double of_column = has_norms ? y_norms()[column_of(j, odd)] : 0;
            sum[h][j][odd] = of_rows.x + of_column, sum[h][j][2 + odd] = of_rows.y + of_column;
          }
      }
    }

    // Adds the products of `features` features. The first 8 rows of a matrix are rows 0 (or 2) of 8 sweeping lanes, and
    // the other 8 are rows 1 (or 3) of the same lanes.
    template <int halves>
    __device__ __forceinline__ void multiply(int half, int features, double (&sum)[halves][2][4]) const {
      struct alignas(2 * sizeof(Held)) Two {
        Held v[2];
      };
      const int g = lane_id() / 4, own = lane_id() % 4, column = (g & 1) * 4 + g / 2;
      const double *b_column[2] = {y + place(column, own), y + place(column, own + 8)};
      const Held *a_rows = x + (half * (warp / K) + g) * x_pitch + 2 * own;
#pragma unroll 1
      for (int f = 0; f < features; f += 16) {
        double b[2][4];
#pragma unroll
        for (int j = 0; j < 2; j++)
#pragma unroll
          for (int part = 0; part < 2; part++) {
            const double2 v = *reinterpret_cast<const double2 *>(b_column[part] + 8 * j * y_pitch + f);
            b[j][2 * part] = v.x, b[j][2 * part + 1] = v.y;
          }
#pragma unroll
        for (int h = 0; h < halves; h++) {
          double rows[8];
#pragma unroll
          for (int e = 0; e < 4; e++) {
            const Two two = *reinterpret_cast<const Two *>(a_rows + h * (warp / K) * x_pitch + 2 * (f + 4 * e));
            rows[2 * e] = two.v[0], rows[2 * e + 1] = two.v[1];
          }
          if constexpr (!Ring::fixed) {
            const double2 *const o = reinterpret_cast<const double2 *>(y + place(chunk_columns, own) + f);
            const double2 early = o[0], late = o[1];
            rows[0] -= early.x, rows[1] -= early.x, rows[2] -= early.y, rows[3] -= early.y;
            rows[4] -= late.x, rows[5] -= late.x, rows[6] -= late.y, rows[7] -= late.y;
          }
#pragma unroll
          for (int j = 0; j < 2; j++) multiply_add(sum[h][j], rows, b[j]);
        }
      }
    }
  };
};

}  // namespace sdtw::cuda
