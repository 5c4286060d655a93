// DifferenceCosts: sums of squared differences in float64, for DoubleCell: nothing cancels in them. Where their ring
// does not fit the GPU's shared memory, DirectCosts is used.
#pragma once

#include "cuda/costs/tile_costs.cuh"

namespace sdtw::cuda {

struct DifferenceCosts : TileReader<DoubleRing> {
  static constexpr int resident = 1;
  static constexpr int unrolled = 2;
  static constexpr int forward_columns = 64;
  __device__ __forceinline__ void begin(const Args &, const StripView &) const {}
  __device__ __forceinline__ void costs(int u, DoubleCell::Cost (&cost)[K]) const {
    const Rows<double> t = left(u);
#pragma unroll
    for (int k = 0; k < K; k++) cost[k] = DoubleCell::split(t.v[k]);
  }

  // Scratch: of each producer warp 16 points of y and its 32 rows of x, some features at a time, as float64. The pitch
  // avoids bank conflicts among threads that read a row each.
  static constexpr int at_once = 8, x_pitch = at_once + 1, own_scratch = chunk_columns * at_once + warp * x_pitch;
  __host__ __device__ static size_t scratch_bytes(const Args &) { return producers * own_scratch * sizeof(double); }
  static __device__ __forceinline__ void init(unsigned char *) {}
  static __device__ __forceinline__ void retire(unsigned char *) {}
  template <class Work>
  static __device__ __forceinline__ void choose(const Args &, Work work) {
    work(Type<Producer>{});
  }
  // A thread has one row. A warp's threads load its points of x and y together, so that they read whole lines, and pass
  // them to each other. What comes next is asked for before the warp computes: the next features, or the first ones of
  // the next chunk.
  struct Producer : RowsOfProducer {
    static constexpr int nothing = 1 << 30;  // no column
    // A thread loads one feature of each point, and the warp so many points at once.
    static constexpr int points_at_once = warp / at_once;

    DoubleRing ring;
    DoubleCell::Scale scale;
    double *points, *rows;   // the warp's scratch: [column][at_once]; [row][x_pitch]
    int shift;               // in which slot, before it is wrapped, the thread's row has column 0
    int n, first_row, sign;  // rows of the pair; the first of the warp's; from a row to the next
    int64_t x, y, step;      // offsets of the pair's x and of column 0; from a column of y to the next
    int asked;               // the first column of the chunk whose first features have been asked for
    double of_x[warp / points_at_once], of_y[chunk_columns / points_at_once];  // what the thread has asked for

    // s: the view of sweeping lane strip_lane = 8 warp + lane / 4. The thread has that lane's row lane % 4.
    __device__ __forceinline__ Producer(const Args &args, const StripView &s, int strip_lane, const DoubleRing &to,
                                        unsigned char *scratch, int shift_steps, int &)
        : RowsOfProducer{args, s.pair.m, strip_lane * K + lane_id() % 4},
          ring(to),
          scale(args.scale),
          points(reinterpret_cast<double *>(scratch) + strip_lane / 8 * own_scratch),
          rows(points + chunk_columns * at_once),
          shift(shift_steps + s.lane),
          n(s.pair.n),
          first_row(s.row_of(0) - s.sign() * (lane_id() / 4 * K)),
          sign(s.sign()),
          asked(nothing) {
      x = x_of(a, s.pair.index) * a.x.stride[0];
      y = y_of(a, s.pair.index) * a.y.stride[0] + s.first_column() * a.y.stride[1];
      step = s.sign() * a.y.stride[1];
    }

    __device__ __forceinline__ void put_outside(int from, int to) const {
      for (int column = from; column < to; column++) put(place_in_ring(column + shift, ring.columns), 0);
    }
    __device__ __forceinline__ void put(int slot, double t) const { *ring.at(slot, at) = t; }

    // Asks for features from `first` on; those beyond the last are 0.
    __device__ __forceinline__ void ask(int column, int first) {
      if (a.f64)
        ask_for(static_cast<const double *>(a.x.data), static_cast<const double *>(a.y.data), column, first);
      else
        ask_for(static_cast<const float *>(a.x.data), static_cast<const float *>(a.y.data), column, first);
    }
    template <class T>
    __device__ __forceinline__ void ask_for(const T *xs, const T *ys, int column, int first) {
      const int feature = first + lane_id() % at_once;
      const bool exists = feature < a.features;
      xs += x + feature * a.x.stride[2], ys += y + feature * a.y.stride[2];
#pragma unroll
      for (int i = 0; i < warp / points_at_once; i++)
        of_x[i] = exists ? __ldg(xs + clamp(first_row + sign * point(i), n) * a.x.stride[1]) : T(0);
#pragma unroll
      for (int i = 0; i < chunk_columns / points_at_once; i++)
        of_y[i] = exists ? __ldg(ys + clamp(column + point(i), m) * step) : T(0);
    }
    // The i-th of the points that the thread loads.
    static __device__ __forceinline__ int point(int i) { return i * points_at_once + lane_id() / at_once; }
    __device__ __forceinline__ void produce(int column, int next) {
      double sum[chunk_columns] = {};
      if (asked != column) ask(column, 0);
#pragma unroll 1
      for (int first = 0; first < a.features; first += at_once) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < warp / points_at_once; i++) rows[point(i) * x_pitch + lane_id() % at_once] = of_x[i];
#pragma unroll
        for (int i = 0; i < chunk_columns / points_at_once; i++) points[i * warp + lane_id()] = of_y[i];
        __syncwarp();
        double here[at_once];
#pragma unroll
        for (int f = 0; f < at_once; f++) here[f] = rows[lane_id() * x_pitch + f];
        const bool goes_on = first + at_once < a.features;
        ask(goes_on ? column : next, goes_on ? first + at_once : 0);
#pragma unroll
        for (int f = 0; f < at_once; f += 2) {
          if (first + f >= a.features) break;
#pragma unroll
          for (int c = 0; c < chunk_columns; c++) {
            const auto there = *reinterpret_cast<const Few<double, 2> *>(points + c * at_once + f);
            const double difference = here[f] - there.v[0], another = here[f + 1] - there.v[1];
            sum[c] = fma(another, another, fma(difference, difference, sum[c]));
          }
        }
      }
      asked = next;
      const int place = place_in_ring(column + shift, ring.columns);
#pragma unroll
      for (int c = 0; c < chunk_columns; c++) {
        const int slot = place + c;
        put(slot < ring.columns ? slot : slot - ring.columns, DoubleCell::prepare(sum[c], scale));
      }
    }
  };
};

}  // namespace sdtw::cuda
