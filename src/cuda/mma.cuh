// Costs of many features by the float64 matrix instructions of data-centre GPUs: as fast there as float32 arithmetic is
// on the differences, and exact enough for any gamma.
#pragma once

#include "source.cuh"

namespace sdtw::cuda {

// c += a b with an 8 x 4 matrix a, element [lane / 4][lane % 4] in each lane, a 4 x 8 matrix b, [lane % 4][lane / 4],
// and an 8 x 8 matrix c, [lane / 4][lane % 4 * 2 and the next].
__device__ __forceinline__ void multiply_add(double (&c)[2], double a, double b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
      : "+d"(c[0]), "+d"(c[1])
      : "d"(a), "d"(b));
#else
  const int lane = threadIdx.x % warp;
#pragma unroll
  for (int k = 0; k < 4; k++) {
    const double row = __shfl_sync(all_lanes, a, lane / 4 * 4 + k);
    c[0] = fma(row, __shfl_sync(all_lanes, b, lane % 4 * 8 + k), c[0]);
    c[1] = fma(row, __shfl_sync(all_lanes, b, lane % 4 * 8 + 4 + k), c[1]);
  }
#endif
}

// D = |x|^2 + |y|^2 - 2 <x, y>, both series taken relative to the first point of x, so that no common offset cancels.
// Warp w of the first four has the strip's lanes 8 w to 8 w + 7, whose columns in 32 steps are 39: five matrices of 8.
template <int K>
struct MmaSource : TileSource<Fast, K, Fast::Cost> {
  static constexpr int resident = 1;
  static constexpr int chunk = 64;         // features at a time
  static constexpr int pitch = chunk + 4;  // in doubles: the four rows of a half-warp's accesses meet no bank twice
  static constexpr int rows = K * warp, columns = 2 * warp;
  static constexpr int workers = 4, lanes_each = 8, matrices = 5;

  // x and y relative to the first x, |x|^2 and |y|^2, and y of the next block as it comes from memory.
  static __host__ __device__ size_t scratch_bytes(const Args &, int, bool) {
    return sizeof(double) * (pitch + 1) * (rows + columns) + sizeof(float) * chunk * columns;
  }

  struct Scratch {
    double *x, *y, *x_norm, *y_norm;
    float *ahead;
    __device__ explicit Scratch(unsigned char *memory)
        : x(reinterpret_cast<double *>(memory)),
          y(x + rows * pitch),
          x_norm(y + columns * pitch),
          y_norm(x_norm + rows),
          ahead(reinterpret_cast<float *>(y_norm + columns)) {}
  };

  // continued: the call before, for the block before, has left x and fetched y, being told so by its next >= 0.
  template <class Meet>
  __device__ static void stage(const Args &a, const StripView &s, int step, int steps, unsigned char *to,
                               unsigned char *memory, int thread, int threads, bool continued, bool, int next,
                               Meet meet) {
    const Scratch scratch(memory);
    const bool whole = a.features <= chunk;
    const int lane = thread % warp, worker = thread / warp, workers_all = threads / warp;
    const auto x_row = [&](int r) { return clamp(s.row + r, s.pair.n); };
    const auto y_row = [&](int r) { return clamp(step + r - (warp - 1), s.pair.m); };
    double sum[K][matrices][2] = {};
    for (int f0 = 0; f0 < a.features; f0 += chunk) {
      const bool fetched = continued && whole;
      if (fetched) __pipeline_wait_prior(0);
      meet();
      if (!fetched) {
        const auto from_x = [&](int r, int f) { return element(a.x, s.pair.index, x_row(r), f0 + f); };
        const auto from_y = [&](int r, int f) { return element(a.y, s.pair.index, y_row(r), f0 + f); };
        centre(a, s, f0, scratch.x, scratch.x_norm, rows, worker, workers_all, lane, from_x);
        centre(a, s, f0, scratch.y, scratch.y_norm, columns, worker, workers_all, lane, from_y);
      } else {
        const auto from_ahead = [&](int r, int f) { return scratch.ahead[r * chunk + f]; };
        centre(a, s, f0, scratch.y, scratch.y_norm, columns, worker, workers_all, lane, from_ahead);
      }
      meet();
      if (whole && next >= 0) fetch_ahead(a, s, next, scratch.ahead, worker, workers_all, lane);
      if (worker < workers) multiply(scratch, min(chunk, a.features - f0), worker, lane, sum);
    }
    if (worker < workers)
      finish(scratch, Fast::Scale(a.scale), worker, lane, steps, sum, reinterpret_cast<Fast::Cost *>(to));
  }

 private:
  __device__ __forceinline__ static float element(const sdtw_in &series, int64_t pair, int64_t i, int f) {
    return load<float>(series.data, pair * series.stride[0] + i * series.stride[1] + f * series.stride[2], false);
  }

  // Rows of a series relative to the first x, zero beyond the last feature, and their squared norms. A warp takes a row
  // at a time, a lane two features.
  template <class From>
  __device__ __forceinline__ static void centre(const Args &a, const StripView &s, int f0, double *to, double *norms,
                                                int count, int worker, int workers_all, int lane, From from) {
    const bool has[2] = {f0 + lane < a.features, f0 + lane + warp < a.features};
    float origin[2];
#pragma unroll
    for (int j = 0; j < 2; j++) origin[j] = has[j] ? element(a.x, s.pair.index, 0, f0 + lane + j * warp) : 0;
#pragma unroll 4
    for (int r = worker; r < count; r += workers_all) {
      double norm = 0;
#pragma unroll
      for (int j = 0; j < 2; j++) {
        const float value = has[j] ? from(r, lane + j * warp) : 0;
        const double v = static_cast<double>(value) - static_cast<double>(origin[j]);
        to[r * pitch + lane + j * warp] = v;
        norm = fma(v, v, norm);
      }
#pragma unroll
      for (int other = warp / 2; other > 0; other /= 2) norm += __shfl_xor_sync(all_lanes, norm, other);
      if (lane == 0) norms[r] = f0 == 0 ? norm : norms[r] + norm;
    }
  }

  __device__ __forceinline__ static void fetch_ahead(const Args &a, const StripView &s, int step, float *to, int worker,
                                                     int workers_all, int lane) {
    const int64_t base = s.pair.index * a.y.stride[0];
    for (int f = lane; f < a.features; f += warp)
#pragma unroll 4
      for (int r = worker; r < columns; r += workers_all) {
        const int64_t row = clamp(step + r - (warp - 1), s.pair.m);
        fetch(to + r * chunk + f, a.y.data, base + row * a.y.stride[1] + f * a.y.stride[2], false);
      }
    __pipeline_commit();
  }

  __device__ __forceinline__ static void multiply(const Scratch &scratch, int features, int worker, int lane,
                                                  double (&sum)[K][matrices][2]) {
    const double *x = scratch.x + (worker * lanes_each * K + lane / 4) * pitch + lane % 4;
    const double *y = scratch.y + ((workers - 1 - worker) * lanes_each + lane / 4) * pitch + lane % 4;
#pragma unroll 2
    for (int f = 0; f < features; f += 4) {
      double b[matrices];
#pragma unroll
      for (int j = 0; j < matrices; j++) b[j] = y[j * 8 * pitch + f];
#pragma unroll
      for (int i = 0; i < K; i++) {
        const double row = x[i * 8 * pitch + f];
#pragma unroll
        for (int j = 0; j < matrices; j++) multiply_add(sum[i][j], row, b[j]);
      }
    }
  }

  __device__ __forceinline__ static void finish(const Scratch &scratch, const Fast::Scale &scale, int worker, int lane,
                                                int steps, const double (&sum)[K][matrices][2], Fast::Cost *tile) {
#pragma unroll
    for (int i = 0; i < K; i++) {
      const int r = worker * lanes_each * K + i * 8 + lane / 4;
      Fast::Cost *row = tile + (r % K * warp + r / K) * (steps + 1);
#pragma unroll
      for (int j = 0; j < matrices; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
          const int c = j * 8 + lane % 4 * 2 + h, u = c - (lanes_each - 1) + r / K - worker * lanes_each;
          const double norms = scratch.x_norm[r] + scratch.y_norm[(workers - 1 - worker) * lanes_each + c];
          if (u >= 0 && u < steps) row[u] = Fast::split(norms - 2 * sum[i][j][h], scale);
        }
    }
  }
};

}  // namespace sdtw::cuda
