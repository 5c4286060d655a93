// Tasks, and the series y that go through a warp's lanes. A task is an x and some of the y that it makes pairs with. A
// stream is the lanes of a warp, or all warps of a block, that have the rows of one x: 8, 16 or 32 lanes, 32 in each of
// several warps. What is said of a stream is the same in all of its lanes.
//
// The columns of a stream are those of the task's series, one behind the other, and before each a column that separates
// it from what comes before: an item is a separator and a series. Items have at least 17 columns, so that in a block of
// 16 steps one series ends at most: short series have columns before the separator, which are outside of all series and
// are computed with any finite y.
#pragma once

#include "cuda/streams/points.cuh"

namespace sdtw::cuda::streams {

static_assert(least_columns > block_steps);

// What values of pairs are that are left to the exact kernel: a NaN that no computation makes.
constexpr unsigned mark = 0xffedb9c3u;

__device__ __forceinline__ int length_of(const void *lengths, int64_t series, int padded, bool long_lengths) {
  const int64_t length = read_length(lengths, series, padded, long_lengths);
  return length >= 0 && length <= padded ? static_cast<int>(length) : -1;
}
__device__ __forceinline__ int length_of_x(const Args &a, int64_t i) {
  return length_of(a.x_len, i, a.n, a.long_lengths);
}
__device__ __forceinline__ int length_of_y(const Args &a, int64_t j) {
  return length_of(a.y_len, j, a.m, a.long_lengths);
}

// Stores the value of x_i with y_j, and of symmetric pairs that of x_j with x_i.
__device__ __forceinline__ void put_bits(const Args &a, int64_t i, int64_t j, unsigned bits) {
  unsigned *const to = reinterpret_cast<unsigned *>(a.value);
  to[i * a.value_stride[0] + j * a.value_stride[1]] = bits;
  if (a.symmetric) to[j * a.value_stride[0] + i * a.value_stride[1]] = bits;
}
__device__ __forceinline__ void put_value(const Args &a, int64_t i, int64_t j, double value) {
  put_bits(a, i, j, __float_as_uint(static_cast<float>(value)));
}
__device__ __forceinline__ void leave_pair(const Args &a, int64_t i, int64_t j) {
  put_bits(a, i, j, mark);
  a.control->left = 1;
}

// What becomes of a pair whose value is known. bad: it has points that Rows cannot take. pulse: of its x.
template <class Rows>
__device__ __forceinline__ void settle(const Args &a, int64_t i, int64_t j, int n, int m, bool bad, float pulse,
                                       double value) {
  if (bad || Rows::is_rough(n, m, value, pulse))
    leave_pair(a, i, j);
  else
    put_value(a, i, j, value);
}

// A lane's view of its stream's task.
struct Task {
  int64_t x, first, end;  // the series x, and the range of y
  int n;                  // rows; 0 if there are none, and then no y is swept
  int lane, lanes;        // the lane's number among those of the stream's lanes in its warp, and how many these are
  int warp_of_end, end_lane, end_row;  // where the last row is
  bool halved, backward;               // a half of the columns is swept: the first ones, or the others from the last on

  // Columns that are swept of a series of m.
  template <class Rows>
  __device__ __forceinline__ int columns_of(int m) const {
    return Rows::has_halves && halved ? (m + !backward) / 2 : m;
  }
  template <class Rows>
  __device__ __forceinline__ bool is_backward() const {
    return Rows::has_halves && backward;
  }
};
template <class Rows>
__device__ __forceinline__ Task make_task(const Args &a, int64_t number, bool halved, bool backward) {
  Task t{};
  t.halved = halved, t.backward = backward;
  t.lanes = 1 << a.lane_bits, t.lane = lane_id() & (t.lanes - 1);
  if (number >= a.tasks) return t;
  if (a.every_pair) {
    t.x = number / a.ranges;
    t.first = number % a.ranges * a.range;
    t.end = min(t.first + a.range, a.batch_y);
    if (a.symmetric) t.first = max(t.first, t.x);
  } else {
    t.x = t.first = number, t.end = number + 1;
  }
  t.n = length_of_x(a, t.x);
  constexpr int K = Rows::K;
  const int last = max(t.n, 1) - 1;
  t.warp_of_end = last / (K * warp), t.end_lane = last % (K * warp) / K, t.end_row = last % K;
  return t;
}

// The rows of a column of a pair of n rows and m columns that its band admits, packed. They are the caller's columns of
// a row where the pair is the other way round.
__device__ __forceinline__ unsigned admitted_rows(const Args &a, int n, int m, int column) {
  if (a.band.kind == SDTW_BAND_NONE) return packed_rows(0, n);
  if (a.band.kind == SDTW_BAND_ITAKURA) {
    core::Band band = a.band;
    band.n = a.exchanged ? m : n, band.m = a.exchanged ? n : m;
    const core::Interval rows = a.exchanged ? band.columns(column) : band.rows(column);
    return rows.first < rows.end ? packed_rows(static_cast<int>(rows.first), static_cast<int>(rows.end)) : 0;
  }
  const core::Diagonals<int> of(n, m, a.reach, a.band.kind == SDTW_BAND_SAKOE_CHIBA);
  const int first = min(max(column - of.most, 0), n), end = min(max(column - of.least + 1, 0), n);
  return packed_rows(first, end);
}

// The same of column `of` of the `columns` that a task sweeps of series j, in its rows.
template <class Rows>
__device__ __forceinline__ unsigned admitted_rows(const Args &a, const Task &t, int64_t j, int columns, int of) {
  if (!Rows::has_halves || !t.halved) return admitted_rows(a, t.n, columns, of);
  const int m = length_of_y(a, j);
  const unsigned rows = admitted_rows(a, t.n, m, t.backward ? m - 1 - of : of);
  return t.backward ? packed_rows(t.n - static_cast<int>(rows >> 16), t.n - static_cast<int>(rows & 0xffffu)) : rows;
}

// Whether the pair of the task's x and series j, of m columns, is to be swept.
template <class Rows>
__device__ __forceinline__ bool is_wanted(const Args &a, const Task &t, int64_t j, int m) {
  if (m <= 0 || !Rows::again) return m > 0;
  return __float_as_uint(a.value[t.x * a.value_stride[0] + j * a.value_stride[1]]) == mark;
}

// Goes through the series of a task that are to be swept.
template <class Rows>
struct Items {
  int64_t item;
  int m;  // its columns that are swept; 0: there is none left

  __device__ __forceinline__ void find(const Args &a, const Task &t, int64_t from) {
    if constexpr (!Rows::again) {
      for (item = from; item < t.end; item++)
        if ((m = t.template columns_of<Rows>(length_of_y(a, item))) > 0) return;
    } else {  // there may be few: each lane of the stream looks at another one
      const int first_lane = lane_id() - t.lane;
      const unsigned lanes = all_lanes >> (warp - t.lanes) << first_lane;
      for (item = from; item < t.end; item += t.lanes) {
        const int64_t own = item + t.lane;
        const bool wanted = own < t.end && is_wanted<Rows>(a, t, own, length_of_y(a, own));
        const unsigned found = __ballot_sync(lanes, wanted) >> first_lane;
        if (found == 0) continue;
        item += __ffs(static_cast<int>(found)) - 1, m = t.template columns_of<Rows>(length_of_y(a, item));
        return;
      }
    }
    m = 0;
  }
};

// Values of a task's pairs that need no sweep: all of them if x has no rows. Returns how many columns the task's items
// have together, of halves those of the larger one. writes: whether this warp is to store the values.
template <class Rows>
__device__ __forceinline__ int settle_trivial(const Args &a, const Task &t, bool writes) {
  const double nan = __longlong_as_double(0x7ff8000000000000ll);
  int columns = 0;
  for (int64_t j = t.first + t.lane; j < t.end; j += t.lanes) {
    const int m = length_of_y(a, j);
    if (t.n > 0 && m > 0)
      columns += is_wanted<Rows>(a, t, j, m) ? columns_of_item(Rows::has_halves && t.halved ? (m + 1) / 2 : m) : 0;
    else if (writes && !Rows::again)
      put_value(a, t.x, j, t.n < 0 || m < 0 ? nan : t.n == m ? 0 : infinity);
  }
  return lanes_sum(columns, t.lanes);
}
template <class Rows>
__device__ __forceinline__ void leave_all(const Args &a, const Task &t) {
  for (int64_t j = t.first + t.lane; j < t.end; j += t.lanes)
    if (is_wanted<Rows>(a, t, j, length_of_y(a, j))) leave_pair(a, t.x, j);
}

// What a stream has in shared memory.
template <class Rows>
struct Ring {
  using Z = typename Rows::Z;
  using Point = typename Rows::Point;
  static constexpr int cells =
      64;  // of a row: steps are taken in blocks of 16, and a warp is three behind the one above

  unsigned *admitted;  // with a band, of each column: [columns + 16], as y
  Point *y;            // [features][columns + 16]: the first 16 columns twice, so that those of 16 steps are contiguous
  int columns;         // a power of two: those of the steps of all warps, and of the next block
  Z *rows;   // [warps][cells]: the row above each warp; column c lies in slot (c + 31) % cells, which is that of the
             // step in which the lowest lane of the warp above has it
  int *bad;  // [cells]: whether a series has points that Rows cannot take, by the item's number in the task
  float *pulse;  // of x

  static __host__ __device__ __forceinline__ size_t bytes(int columns, int warps) {
    return static_cast<size_t>(Rows::features) * (columns + block_steps) * sizeof(Point) +
           static_cast<size_t>(warps) * cells * sizeof(Z) + cells * sizeof(int) + 4 * sizeof(float) +
           (Rows::banded ? static_cast<size_t>(columns + block_steps) * sizeof(unsigned) : 0);
  }
  __device__ __forceinline__ void place(unsigned char *memory, int of_columns, int warps) {
    columns = of_columns;
    y = reinterpret_cast<Point *>(memory);
    rows = reinterpret_cast<Z *>(y + Rows::features * pitch());
    bad = reinterpret_cast<int *>(rows + warps * cells);
    pulse = reinterpret_cast<float *>(bad + cells);
    if (Rows::banded) admitted = reinterpret_cast<unsigned *>(pulse + 4);
  }
  __device__ __forceinline__ int pitch() const { return columns + block_steps; }
  __device__ __forceinline__ void put(int column, int feature, Point v) const {
    const int slot = column & (columns - 1);
    Point *to = y + feature * pitch() + slot;
    to[0] = v;
    if (slot < block_steps) to[columns] = v;
  }
  __device__ __forceinline__ void admit(int column, unsigned rows_of_column) const {
    const int slot = column & (columns - 1);
    admitted[slot] = rows_of_column;
    if (slot < block_steps) admitted[slot + columns] = rows_of_column;
  }
  __device__ __forceinline__ const Point *from(int column) const { return y + (column & (columns - 1)); }
  __device__ __forceinline__ const unsigned *admitted_from(int column) const {
    return admitted + (column & (columns - 1));
  }
};
// Columns of the ring: those of 31 steps before a block, of the block, of the next one, and of three more for each warp
// but the first.
__host__ __device__ __forceinline__ constexpr int ring_columns_of(int warps) {
  return warps > 4 ? 512 : warps > 2 ? 256 : 64 * warps;
}

// Puts columns into the ring, a block of 16 at a time: in the stream's first warp. `ask` loads what `stage` stores a
// block of steps later.
template <class Rows>
struct Feeder {
  static constexpr int D = Rows::features, most = 2;  // columns of a lane, if a stream has 8 lanes only
  using Point = typename Rows::Point;
  enum Kind { outside, regular, separator };

  Items<Rows> now, next;
  int column, size;             // of `now`: the block's first column; its columns
  int64_t now_from;             // where its series begins
  int number;                   // of `now` among the items of the task
  float now_limit, next_limit;  // how far from the middle of x y may be
  float reach, middle;          // of x
  Origin<Rows> origin;
  float ahead[most][D];
  Kind kind[most];
  int item_of[most];
  float limit_of[most];
  unsigned admitted[most];

  __device__ __forceinline__ void begin(const Args &a, const Task &t, const Origin<Rows> &first,
                                        const Span<Rows> &of_x) {
    origin = first, reach = of_x.reach(), middle = of_x.middle(), column = number = 0;
    now.find(a, t, t.first);
    take_up(a, t);
  }
  __device__ __forceinline__ void take_up(const Args &a, const Task &t) {
    if (now.m == 0) {
      size = 1 << 30, next = now;
      return;
    }
    size = columns_of_item(now.m), now_from = now.item * a.y.stride[0];
    if (t.template is_backward<Rows>()) now_from += (length_of_y(a, now.item) - 1) * a.y.stride[1];
    next.find(a, t, now.item + 1);
    now_limit = most_of_y<Rows>(a, reach, t.n, now.m), next_limit = most_of_y<Rows>(a, reach, t.n, next.m);
  }

  __device__ __forceinline__ void ask(const Args &a, const Task &t) {
    const int lead = size - now.m;                                       // columns before the series
    const bool within = column >= lead && column + block_steps <= size;  // all of the block's columns are its own
#pragma unroll
    for (int i = 0; i < most; i++) {
      const int c = column + t.lane + i * t.lanes;
      if (t.lane + i * t.lanes >= block_steps) break;
      kind[i] = regular, item_of[i] = number, limit_of[i] = now_limit;
      int of = c - lead, m = now.m;  // column of a series of m columns
      int64_t series = now.item, from = now_from;
      if (!within) {
        if (c >= size) {
          series = next.item, from = series * a.y.stride[0], m = next.m, of = c - size - (columns_of_item(m) - m);
          item_of[i] = number + 1, limit_of[i] = next_limit;
        }
        kind[i] = m == 0 || of < -1 ? outside : of < 0 ? separator : regular;
      }
      if (kind[i] == regular)
        load_features(a, a.y, from + of * (t.template is_backward<Rows>() ? -a.y.stride[1] : a.y.stride[1]), ahead[i]);
      if (Rows::banded) admitted[i] = kind[i] == regular ? admitted_rows<Rows>(a, t, series, m, of) : 0;
    }
    column += block_steps;
    if (column < size) return;
    column -= size, now = next, number++;
    take_up(a, t);
  }

  // first: of the block that was asked for.
  __device__ __forceinline__ void stage(const Args &a, const Task &t, const Ring<Rows> &ring, int first) const {
#pragma unroll
    for (int i = 0; i < most; i++) {
      const int place = t.lane + i * t.lanes, c = first + place;
      if (place >= block_steps) break;
#pragma unroll
      for (int f = 0; f < D; f++) {
        Point v = kind[i] == separator ? Rows::separator(f) : Point{};
        if (kind[i] == regular) {
          typename Rows::Size size;
          v = Rows::point(ahead[i][f], origin.v[f], a, size);
          if (!(fabsf(static_cast<float>(size) - middle) <= limit_of[i]))
            v = {}, ring.bad[item_of[i] % Ring<Rows>::cells] = 1;
        }
        ring.put(c, f, v);
      }
      if (Rows::banded) ring.admit(c, admitted[i]);
      ring.rows[(c + warp - 1) % Ring<Rows>::cells] = kind[i] == separator ? Rows::corner() : Rows::forbidden();
    }
  }
};

}  // namespace sdtw::cuda::streams
