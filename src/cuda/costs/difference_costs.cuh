// DifferenceCosts: sums of squared differences in float64, for DoubleCell: nothing cancels in them. Where their ring
// does not fit the GPU's shared memory, DirectCosts is used.
#pragma once

#include "cuda/costs/tile_costs.cuh"

namespace sdtw::cuda {

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
