// What is done pair by pair before the sweeps: bounds of the costs, and the gradients' initial values.
#include "launch.h"
#include "pair.cuh"

namespace sdtw::cuda {
namespace {

constexpr int block = 256;
constexpr int max_centre = 4096;  // features that have a centre; the others' is 0

// Mean of a few x_i and y_j: any point gives bounds that hold, one amid the data gives bounds that are close.
__device__ void find_centre(const Args &a, const Pair &pair, float *centre) {
  constexpr int samples = 8;
  for (int f = threadIdx.x; f < a.features && f < max_centre; f += block) {
    float sum = 0;
    for (int i = 0; i < samples; i++) {
      const int64_t row = static_cast<int64_t>(pair.n) * i / samples,
                    column = static_cast<int64_t>(pair.m) * i / samples;
      sum += load<float>(a.x.data, pair.index * a.x.stride[0] + row * a.x.stride[1] + f * a.x.stride[2], false);
      sum += load<float>(a.y.data, pair.index * a.y.stride[0] + column * a.y.stride[1] + f * a.y.stride[2], false);
    }
    centre[f] = sum / (2 * samples);
  }
  __syncthreads();
}

// Largest squared distance of a series' points from the centre. A NaN is the largest of all: as bits, which is how
// they are compared, it is.
__device__ int farthest(const sdtw_in &series, int64_t pair, int size, int features, const float *centre) {
  int lanes = 1;
  while (lanes < features && lanes < warp) lanes *= 2;
  const int groups = block / lanes, lane = threadIdx.x % lanes;
  int largest = 0;
  // All lanes of a warp take part in its shuffles, so a group past the end repeats the last point.
  for (int first = blockIdx.x * groups; first < size; first += gridDim.x * groups) {
    const int64_t i = min(first + static_cast<int>(threadIdx.x) / lanes, size - 1);
    const int64_t at = pair * series.stride[0] + i * series.stride[1];
    float sum = 0;
    for (int f = lane; f < features; f += lanes) {
      const float c = f < max_centre ? centre[f] : 0;
      const float difference = load<float>(series.data, at + f * series.stride[2], false) - c;
      sum = fmaf(difference, difference, sum);
    }
    for (int step = lanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(all_lanes, sum, step);
    largest = max(largest, __float_as_int(sum) & 0x7fffffff);
  }
  for (int step = warp / 2; step > 0; step /= 2) largest = max(largest, __shfl_xor_sync(all_lanes, largest, step));
  return largest;
}

__global__ void __launch_bounds__(block) bounds_kernel(const __grid_constant__ Args a) {
  __shared__ float centre[max_centre];
  for (int64_t b = blockIdx.y; b < a.batch; b += gridDim.y) {
    const Pair pair = read_pair(a, b);
    if (pair.kind != Kind::regular) continue;
    __syncthreads();
    find_centre(a, pair, centre);
    const int x = farthest(a.x, b, pair.n, a.features, centre);
    const int y = farthest(a.y, b, pair.m, a.features, centre);
    if (threadIdx.x % warp == 0) {
      atomicMax(a.bounds + 2 * b, x);
      atomicMax(a.bounds + 2 * b + 1, y);
    }
  }
}

// Rows of the pairs that the wide engine computes again look unwritten.
__global__ void __launch_bounds__(block) reset_kernel(const __grid_constant__ Args a) {
  if (a.control->any_wide != 1) return;
  const int64_t size = static_cast<int64_t>(a.strips - 1) * a.m * a.words;
  for (int64_t b = blockIdx.y; b < a.batch; b += gridDim.y) {
    const bool cancelled = a.status[b] == status_cancelled;
    if (!cancelled && !(a.precomputed && a.bounds[2 * b] == given_back)) continue;
    Word *rows = (cancelled ? a.again : a.rows) + b * size;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * block + threadIdx.x; i < size; i += gridDim.x * block)
      rows[i] = ~Word(0);
  }
}

// Zero; NaN where the pair's value is, and where grad_value is not finite.
template <class Real>
__global__ void fill_kernel(const __grid_constant__ Args a, sdtw_out out, int rows, int columns, const void *lengths,
                            bool scaled) {
  const Real nan = static_cast<Real>(__longlong_as_double(0x7ff8000000000000ll));
  const int64_t all_rows = a.batch * rows;
  for (int64_t r = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y; r < all_rows;
       r += static_cast<int64_t>(gridDim.x) * blockDim.y) {
    const int64_t b = r / rows, row = r - b * rows;
    const int status = a.status[b];
    Real value = status == status_not_a_number ? nan : 0;
    if (scaled && (status == status_finite || status == status_cancelled) && a.grad_value &&
        row < read_length(lengths, b, rows, a.long_lengths) && !isfinite(static_cast<const Real *>(a.grad_value)[b]))
      value = nan;
    const int64_t at = b * out.stride[0] + row * out.stride[1];
    for (int column = threadIdx.x; column < columns; column += blockDim.x)
      static_cast<Real *>(out.data)[at + column * out.stride[2]] = value;
  }
}

}  // namespace

void launch_bounds(const Args &a, cudaStream_t stream) {
  const int64_t work = (static_cast<int64_t>(a.n) + a.m) * a.features;
  const unsigned chunks = static_cast<unsigned>(work / (16 * block) < 1    ? 1
                                                : work / (16 * block) > 64 ? 64
                                                                           : work / (16 * block));
  const dim3 grid(chunks, static_cast<unsigned>(a.batch < 65535 ? a.batch : 65535));
  bounds_kernel<<<grid, block, 0, stream>>>(a);
  check_launch();
}

void launch_reset(const Args &a, cudaStream_t stream) {
  if (a.strips == 1) return;
  const dim3 grid(8, static_cast<unsigned>(a.batch < 1024 ? a.batch : 1024));
  reset_kernel<<<grid, block, 0, stream>>>(a);
  check_launch();
}

void launch_fill(const Args &a, const sdtw_out &out, int rows, int columns, const void *lengths, bool scaled,
                 cudaStream_t stream) {
  unsigned width = 1;
  while (static_cast<int>(width) < columns && width < block) width *= 2;
  const dim3 threads(width, block / width);
  const int64_t blocks = (a.batch * rows + threads.y - 1) / threads.y;
  const unsigned grid = static_cast<unsigned>(blocks < (1 << 20) ? blocks : 1 << 20);
  if (a.f64)
    fill_kernel<double><<<grid, threads, 0, stream>>>(a, out, rows, columns, lengths, scaled);
  else
    fill_kernel<float><<<grid, threads, 0, stream>>>(a, out, rows, columns, lengths, scaled);
  check_launch();
}

}  // namespace sdtw::cuda
