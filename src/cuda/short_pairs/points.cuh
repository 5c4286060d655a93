// The points of a short pair in shared memory, 16 features at a time: those of x, and behind them those of y. Floats as
// asynchronous copies bring them, or half types become, and doubles as matrix instructions take them.
#pragma once

#include <cuda_pipeline.h>

#include "cuda/short_pairs/metrics.cuh"

namespace sdtw::cuda::short_pairs {

// Points of both series, as many as a pair may have, and features that are there at once.
template <class Shape>
struct Points {
  static constexpr int of_x = Shape::rows, of_y = Shape::columns, count = of_x + of_y, features = 16;
};

// The points as they are given, or as float32 of a half type, in three pieces of memory that take turns: copies to two
// are under way while the third is used. The pitch avoids bank conflicts among lanes that load four features of a point
// each.
template <class Shape>
struct StagedPoints {
  using P = Points<Shape>;
  static constexpr int stages = 3, pitch = P::features + 4, size = P::count * pitch;
  static constexpr int bytes = stages * size * sizeof(float);

  // Calls work(first feature, points), by all threads of the block, with the features in turn. Features beyond the last
  // are 0, and so are points that the pair does not have. All threads are done with one call before the next begins.
  template <class Work>
  static __device__ __forceinline__ void each(const Args &a, const Pair &pair, float *memory, const Work &work) {
    const bool by_four = are_vec4(a);
    constexpr int ahead = (stages - 1) * P::features;
#pragma unroll 1
    for (int first = -ahead; first < a.features; first += P::features) {
      if (first >= 0) {
        __pipeline_wait_prior(stages - 2);
        __syncthreads();
      }
      if (const int next = first + ahead; next < a.features) {
        float *const to = memory + next / P::features % stages * size;
        by_four ? copy<4>(a, pair, next, to) : copy<1>(a, pair, next, to);
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
    copy<together, P::of_x>(a, a.x, x_of(a, pair.index), pair.n, first, to);
    copy<together, P::of_y>(a, a.y, y_of(a, pair.index), pair.m, first, to + P::of_x * pitch);
  }
  template <int together, int points>
  static __device__ __forceinline__ void copy(const Args &a, const sdtw_in &series, int64_t index, int size, int first,
                                              float *to) {
    constexpr int of_point = P::features / together, at_once = Shape::threads / of_point, count = points / at_once;
    const int f = static_cast<int>(threadIdx.x) % of_point * together, point = static_cast<int>(threadIdx.x) / of_point;
    const int64_t place = index * series.stride[0] + point * series.stride[1] + (first + f) * series.stride[2];
    const int64_t step = at_once * series.stride[1];
    const int left = first + f < a.features ? size - point : 0;  // copies are for points that there are
    to += point * pitch + f;
    if (a.dtype == SDTW_F32) {
      const float *from = static_cast<const float *>(series.data) + place;
#pragma unroll
      for (int i = 0; i < count; i++, from += step) {
        constexpr size_t bytes = together * sizeof(float);
        __pipeline_memcpy_async(to + i * at_once * pitch, from, bytes, i * at_once < left ? 0 : bytes);
      }
    } else {
      const unsigned short *from = static_cast<const unsigned short *>(series.data) + place;
      Few<unsigned short, together> given[count] = {};
#pragma unroll
      for (int i = 0; i < count; i++, from += step)
        if (i * at_once < left) given[i] = *reinterpret_cast<const Few<unsigned short, together> *>(from);
#pragma unroll
      for (int i = 0; i < count; i++) {
        Few<float, together> number;
#pragma unroll
        for (int k = 0; k < together; k++) number.v[k] = half_type_number(given[i].v[k], a.dtype);
        *reinterpret_cast<Few<float, together> *>(to + i * at_once * pitch) = number;
      }
    }
  }
};

// The points less the first one of x, so that an offset that all points share does not cancel in sums of products.
// Those of cosine are as they are. Points that the pair does not have are 0.
template <class Shape>
struct CentredPoints {
  using P = Points<Shape>;
  using Staged = StagedPoints<Shape>;
  // Of 16 features a lane of a matrix instruction needs every fourth: these four lie together. The pitch avoids bank
  // conflicts among lanes that load for a matrix instruction, or store a point each.
  static constexpr int pitch = P::features + 2, bytes = P::count * pitch * sizeof(double);

  // As StagedPoints, which has `memory`. In the end `points` has their squared norms instead, of cosine their inverse
  // norms.
  template <class Work>
  static __device__ __forceinline__ void each(const Args &a, const Pair &pair, float *memory, double *points,
                                              const Work &work) {
    static_assert(P::count <= Shape::threads, "a thread has a point");
    constexpr int fours = P::features / 4;
    const int own = threadIdx.x;
    const int given = (own < P::of_x ? own < pair.n : own - P::of_x < pair.m) ? own : 0;
    double norm = 0;
    Staged::each(a, pair, memory, [&](int, const float *staged) {
      if (own < P::count) {
        Few<float, 4> of_point[fours], origin[fours];
#pragma unroll
        for (int four = 0; four < fours; four++) {
          const auto load = [&](int point) {
            return *reinterpret_cast<const Few<float, 4> *>(staged + point * Staged::pitch + 4 * four);
          };
          of_point[four] = load(given), origin[four] = load(0);
          if (is_cosine<Shape>(a)) origin[four] = {};
        }
        double squares[2] = {};
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
          for (int four = 0; four < fours; four += 2) {
            Few<double, 2> two;
#pragma unroll
            for (int i = 0; i < 2; i++) {
              two.v[i] = static_cast<double>(of_point[four + i].v[k]) - static_cast<double>(origin[four + i].v[k]);
              squares[i] = fma(two.v[i], two.v[i], squares[i]);
            }
            *reinterpret_cast<Few<double, 2> *>(points + own * pitch + k * fours + four) = two;
          }
        norm += squares[0] + squares[1];
      }
      __syncthreads();
      work();
    });
    if (own < P::count) points[own] = is_cosine<Shape>(a) ? inverse_norm(norm) : norm;
    __syncthreads();
  }
};

}  // namespace sdtw::cuda::short_pairs
