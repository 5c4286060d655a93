// The points of a short pair in shared memory, 16 features at a time: those of x, and behind them those of y. Floats as
// asynchronous copies bring them, and doubles as matrix instructions take them.
#pragma once

#include <cuda_pipeline.h>

#include "cuda/short_pairs/block.cuh"

namespace sdtw::cuda::short_pairs {

// Points of both series, as many as a pair may have, and features that are there at once.
template <int R>
struct Points {
  static constexpr int of_x = R * warp, count = of_x + most_columns, features = 16;
};

// The points as they are given, in three pieces of memory that take turns: copies to two are under way while the third
// is used. The pitch avoids bank conflicts among lanes that load four features of a point each.
template <int R>
struct StagedPoints {
  using P = Points<R>;
  static constexpr int stages = 3, pitch = P::features + 4, size = P::count * pitch;
  static constexpr int bytes = stages * size * sizeof(float);

  // Calls work(first feature, points), by all threads of the block, with the features in turn. Features beyond the last
  // are 0, and so are points that the pair does not have. All threads are done with one call before the next begins.
  template <class Work>
  static __device__ __forceinline__ void each(const Args &a, const Pair &pair, float *memory, const Work &work) {
    const bool by_16_bytes = is_vec4(a.x, a.features) && is_vec4(a.y, a.features);
    constexpr int ahead = (stages - 1) * P::features;
#pragma unroll 1
    for (int first = -ahead; first < a.features; first += P::features) {
      if (first >= 0) {
        __pipeline_wait_prior(stages - 2);
        __syncthreads();
      }
      if (const int next = first + ahead; next < a.features) {
        float *const to = memory + next / P::features % stages * size;
        by_16_bytes ? copy<4>(a, pair, next, to) : copy<1>(a, pair, next, to);
      }
      __pipeline_commit();
      if (first >= 0) work(first, memory + first / P::features % stages * size);
    }
    __syncthreads();
  }

 private:
  // together: features that are copied at once.
  template <int together>
  static __device__ __forceinline__ void copy(const Args &a, const Pair &pair, int first, float *to) {
    copy<together, P::of_x>(a.x, x_of(a, pair.index), pair.n, first, a.features, to);
    copy<together, most_columns>(a.y, y_of(a, pair.index), pair.m, first, a.features, to + P::of_x * pitch);
  }
  template <int together, int points>
  static __device__ __forceinline__ void copy(const sdtw_in &series, int64_t index, int size, int first, int features,
                                              float *to) {
    constexpr int of_point = P::features / together, at_once = threads / of_point;
    const int f = static_cast<int>(threadIdx.x) % of_point * together, point = static_cast<int>(threadIdx.x) / of_point;
    const float *from = static_cast<const float *>(series.data) + index * series.stride[0] + point * series.stride[1] +
                        (first + f) * series.stride[2];
    const int64_t step = at_once * series.stride[1];
    const int left = first + f < features ? size - point : 0;  // copies are for points that there are
    to += point * pitch + f;
#pragma unroll
    for (int i = 0; i < points / at_once; i++, from += step) {
      constexpr size_t bytes = together * sizeof(float);
      __pipeline_memcpy_async(to + i * at_once * pitch, from, bytes, i * at_once < left ? 0 : bytes);
    }
  }
};

// The points less the first one of x, so that an offset that all points share does not cancel in sums of products.
// Points that the pair does not have are 0.
template <int R>
struct CentredPoints {
  using P = Points<R>;
  using Staged = StagedPoints<R>;
  // Of 16 features a lane of a matrix instruction needs every fourth: these four lie together. The pitch avoids bank
  // conflicts among lanes that load for a matrix instruction, or store a point each.
  static constexpr int pitch = P::features + 2, bytes = P::count * pitch * sizeof(double);
  static __device__ __forceinline__ constexpr int feature_at(int place) { return place % 4 * 4 + place / 4; }

  // As StagedPoints, which has `memory`. Adds the squares of the point whose number is the thread's to `norm`.
  template <class Work>
  static __device__ __forceinline__ void each(const Args &a, const Pair &pair, float *memory, double *points,
                                              double &norm, const Work &work) {
    const int own = threadIdx.x;
    const int given = (own < P::of_x ? own < pair.n : own - P::of_x < pair.m) ? own : 0;
    Staged::each(a, pair, memory, [&](int, const float *staged) {
      if (own < P::count) {
        float of_point[P::features], origin[P::features];
#pragma unroll
        for (int f = 0; f < P::features; f += 4) {
          const auto load = [&](int point, float *to) {
            const auto four = *reinterpret_cast<const Few<float, 4> *>(staged + point * Staged::pitch + f);
#pragma unroll
            for (int i = 0; i < 4; i++) to[f + i] = four.v[i];
          };
          load(given, of_point), load(0, origin);
        }
        double squares[2] = {};
#pragma unroll
        for (int place = 0; place < P::features; place += 2) {
          Few<double, 2> two;
#pragma unroll
          for (int i = 0; i < 2; i++) {
            const int f = feature_at(place + i);
            two.v[i] = static_cast<double>(of_point[f]) - static_cast<double>(origin[f]);
            squares[i] = fma(two.v[i], two.v[i], squares[i]);
          }
          *reinterpret_cast<Few<double, 2> *>(points + own * pitch + place) = two;
        }
        norm += squares[0] + squares[1];
      }
      __syncthreads();
      work();
    });
  }
};

}  // namespace sdtw::cuda::short_pairs
