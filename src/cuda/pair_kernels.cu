// Kernels that work pair by pair, before and after backward's sweeps: initial values, resets and midlines before;
// `side` or wide sums into the gradients after. Each element is written by one thread, so results do not depend on the
// order of blocks. Midlines are computed here, not by forward, because only backward needs them.
#include <algorithm>

#include "cuda/launch.h"
#include "cuda/sweep/midline.cuh"

namespace sdtw::cuda {
namespace {

constexpr int block_bits = 8, block = 1 << block_bits;

struct MidlineSums {
  ExtendedDouble of_warp[block / warp];
  int first, last;
};

// Writes the Midline of a strip: at the boundary to the next strip of its sweep, where the other sweep comes to meet it
// (below a strip of the upper half, above one of the lower half), Z of the pair and the columns in which the
// probability of crossing is not negligible. Columns are counted as the strip's half meets them. By a block.
template <class Cell, bool banded>
__device__ void find_midline(const Args &a, const Pair &pair, int strip) {
  constexpr std::bool_constant<banded> corridor{};
  MidlineSums &sums = ptx::shared_object<MidlineSums>();
  const MidlineRows rows(corridor, a, pair, strip, strip >= upper_half(strips_of(pair)), Cell::words(a.format));
  ExtendedDouble sum = nothing();
  Step<Cell> step;
  for (int column = rows.of_own.first + threadIdx.x; column < rows.of_own.end; column += block) {
    step.load(corridor, rows, pair, column, a.format);
    sum = sum_of(sum, step.product());
  }
  sum = sum_of_warp(sum);
  if (lane_id() == 0) sums.of_warp[threadIdx.x / warp] = sum;
  if (threadIdx.x == 0) sums.first = pair.m - 1, sums.last = 0;
  __syncthreads();
  sum = sums.of_warp[0];
  for (int i = 1; i < block / warp; i++) sum = sum_of(sum, sums.of_warp[i]);
  Midline all{sum.m, sum.e, pair.m - 1, 0};
  for (int column = rows.of_own.first + threadIdx.x; column < rows.of_own.end; column += block) {
    step.load(corridor, rows, pair, column, a.format);
    if (is_live(step.probability(all))) all.first = min(all.first, column), all.last = column;
  }
  if (all.first <= all.last) {
    atomicMin(&sums.first, all.first);
    atomicMax(&sums.last, all.last);
  }
  __syncthreads();
  if (threadIdx.x == 0) *midline_into(a, pair, strip) = {all.m, all.e, min(sums.first, sums.last), sums.last};
  __syncthreads();
}

// The midlines of all pairs. The blocks of `layers` grid layers share the strips of a pair.
template <bool banded>
__device__ void find_midline(const Args &a, int layers) {
  for (int64_t b = blockIdx.y; b < a.batch; b += gridDim.y) {
    const int status = a.status[b];
    const Pair pair = read_pair(a, b);
    if (strips_of(pair) < 2 || status != status_finite) continue;
    const Engine engine = engine_of(a, pair);
    const int first = blockIdx.z * gridDim.x + blockIdx.x, step = layers * gridDim.x;
    const int begin = a.full_sweeps ? 0 : upper_half(strips_of(pair)) - 1;
    for (int strip = begin + first; strip < min(begin + midlines_of(a), strips_of(pair)); strip += step) {
      if (engine == Engine::of_double)
        find_midline<DoubleCell, banded>(a, pair, strip);
      else if (engine == Engine::of_long)
        find_midline<LongCell, banded>(a, pair, strip);
      else
        find_midline<FloatCell, banded>(a, pair, strip);
    }
  }
}

// Initial values of an output of one pair: 0, or NaN everywhere if the pair's value is NaN. If grad_value is not
// finite, what is within the pair's lengths gets NaN and the padding 0. `thread` is one of the `threads` that have this
// pair.
template <class Real>
__device__ void fill(const Args &a, const Output &to, int64_t b, int thread, int threads) {
  const Real nan = static_cast<Real>(__longlong_as_double(0x7ff8000000000000ll));
  const int status = a.status[b];
  const bool finite = status == status_finite;
  const bool spoilt = finite && a.grad_value && !isfinite(static_cast<const Real *>(a.grad_value)[b]);
  const Real value = status == status_not_a_number ? nan : 0;
  int rows = 0, columns = 0;
  if (spoilt) {
    rows = static_cast<int>(read_length(to.lengths, b, to.rows, a.long_lengths));
    columns = static_cast<int>(read_length(to.column_lengths, b, to.columns, a.long_lengths));
  }
  Real *data = static_cast<Real *>(to.out.data) + b * to.out.stride[0];
  const int64_t size = static_cast<int64_t>(to.rows) * to.columns;
  constexpr int at_once = sizeof(uint4) / sizeof(Real);
  if (!spoilt && to.out.stride[2] == 1 && to.out.stride[1] == to.columns && size % at_once == 0 &&
      reinterpret_cast<uintptr_t>(data) % sizeof(uint4) == 0) {
    Real values[at_once];
    for (Real &v : values) v = value;
    uint4 bits;
    memcpy(&bits, values, sizeof bits);
    for (int64_t i = thread; i < size / at_once; i += threads) reinterpret_cast<uint4 *>(data)[i] = bits;
  } else {
    for (int64_t i = thread; i < size; i += threads) {
      const int64_t row = i / to.columns, column = i - row * to.columns;
      data[row * to.out.stride[1] + column * to.out.stride[2]] = row < rows && column < columns ? nan : value;
    }
  }
}

// A part of the workspace, which the blocks fill with the same 32 bits all over.
struct Region {
  uint4 *data;
  size_t size;

  __device__ __forceinline__ void fill(unsigned bits, size_t own, size_t blocks) const {
    for (size_t i = own * block + threadIdx.x; i < size; i += blocks * block)
      data[i] = make_uint4(bits, bits, bits, bits);
  }
};

// The first kernel of backward and alignment. Of pairs of several strips all grid layers but the last compute midlines;
// the last layer resets the workspace and writes the outputs' initial values. A block has 2^pair_bits threads for a
// pair.
template <class Real, Extent extent>
__global__ void __launch_bounds__(block) prepare_kernel(const __grid_constant__ Args a, Output first, Output second,
                                                        Region ones, Region zeros, int pair_bits) {
  let_next_kernel_in();
  wait_for_kernel_before();
  const int layers = gridDim.z - 1;
  if constexpr (is_several<extent>)
    if (blockIdx.z < layers) return find_midline<extent == Extent::corridor>(a, layers);
  const size_t blocks = static_cast<size_t>(gridDim.x) * gridDim.y, own = blockIdx.y * gridDim.x + blockIdx.x;
  ones.fill(~0u, own, blocks);
  zeros.fill(0, own, blocks);
  const int pairs = block >> pair_bits, threads = gridDim.x << pair_bits;
  const int thread = (blockIdx.x << pair_bits) + (threadIdx.x & ((1 << pair_bits) - 1));
  for (int64_t b = static_cast<int64_t>(blockIdx.y) * pairs + (threadIdx.x >> pair_bits); b < a.batch;
       b += static_cast<int64_t>(gridDim.y) * pairs) {
    if (first.out.data) fill<Real>(a, first, b, thread, threads);
    if (second.out.data) fill<Real>(a, second, b, thread, threads);
  }
}

// Columns of grad_y of which `side` has a part. There are none if the pair has a single strip or no finite value, or if
// more columns overlap than `side` has room for: then the strips have all added to grad_y itself, in turn.
__device__ __forceinline__ MidlineOverlap columns_separate(const Args &a, const Pair &pair) {
  if (!a.side.data || strips_of(pair) < 2 || a.status[pair.index] != status_finite) return MidlineOverlap{0, -1};
  const MidlineOverlap overlap(a, pair);
  return overlap.size() > a.lower_grad_y_columns ? MidlineOverlap{0, -1} : overlap;
}

// Adds `side` to grad_y.
template <class Real>
__global__ void __launch_bounds__(block) add_side_kernel(const __grid_constant__ Args a) {
  wait_for_kernel_before();
  for (int64_t b = blockIdx.y; b < a.batch; b += gridDim.y) {
    const MidlineOverlap overlap = columns_separate(a, read_pair(a, b));
    const Real *from = static_cast<const Real *>(a.side.data) + b * a.side.stride[0];
    Real *to = static_cast<Real *>(a.grad_y.data) + b * a.grad_y.stride[0] + overlap.first * a.grad_y.stride[1];
    const int64_t size = static_cast<int64_t>(overlap.size()) * a.features;
    for (int64_t i = blockIdx.x * block + threadIdx.x; i < size; i += gridDim.x * block)
      to[i / a.features * a.grad_y.stride[1] + i % a.features * a.grad_y.stride[2]] += from[i];
  }
}

// Writes both gradients from their sums in double. For grad_y these are the sum of the columns and what `side` has.
__global__ void __launch_bounds__(block)
    round_sums_kernel(const __grid_constant__ Args a, Output grad_x, Output grad_y) {
  wait_for_kernel_before();
  for (int64_t b = blockIdx.y; b < a.batch; b += gridDim.y) {
    const Pair pair = read_pair(a, b);
    if (a.status[b] != status_finite) continue;
    const MidlineOverlap overlap = columns_separate(a, pair);
    const auto round = [&](const sdtw_out &sums, const Output &to, int points, bool of_y) {
      if (!to.out.data) return;
      const double *from = static_cast<const double *>(sums.data) + b * sums.stride[0];
      const double *side = static_cast<const double *>(a.side.data) + b * a.side.stride[0];
      for (int64_t i = blockIdx.x * block + threadIdx.x; i < static_cast<int64_t>(points) * a.features;
           i += gridDim.x * block) {
        const int64_t point = i / a.features, feature = i % a.features;
        const bool has_more = of_y && point >= overlap.first && point <= overlap.last;
        const double sum = from[i] + (has_more ? side[(point - overlap.first) * a.features + feature] : 0);
        static_cast<float *>(
            to.out.data)[b * to.out.stride[0] + point * to.out.stride[1] + feature * to.out.stride[2]] =
            static_cast<float>(sum);
      }
    };
    round(a.grad_x, grad_x, pair.n, false);
    round(a.grad_y, grad_y, pair.m, true);
  }
}

// A grid of (blocks for a pair, pairs): a block for every `each` of the `size` elements of a pair, 256 at most.
dim3 grid_of(const Args &a, int64_t size, int64_t each) {
  const int64_t blocks = std::clamp<int64_t>(size / each, 1, 256);
  return dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(std::min<int64_t>(a.batch, 65535)));
}

}  // namespace

void launch_prepare(const Args &a, const Output &first, const Output &second, void *ones, size_t bytes_of_ones,
                    void *zeros, size_t bytes_of_zeros, cudaStream_t stream) {
  const auto size = [](const Output &o) { return o.out.data ? static_cast<int64_t>(o.rows) * o.columns : 0; };
  const auto zeros_of_pair = static_cast<int64_t>(bytes_of_zeros / sizeof(float)) / std::max<int64_t>(a.batch, 1);
  const int64_t most = std::max({size(first), size(second), zeros_of_pair});
  constexpr int each = 16;  // elements of a thread
  dim3 grid = grid_of(a, most, each * block);
  if (a.strips > 1) grid.z = std::min<unsigned>(1 + (midlines_of(a) + grid.x - 1) / grid.x, 65535);
  // Of many short pairs several share a block: 4000 of 60 numbers each take 6 us instead of 26.
  constexpr int64_t enough = 256;  // blocks
  int pair_bits = block_bits;
  while (a.strips == 1 && 1 << pair_bits > warp && each << (pair_bits - 1) >= most &&
         a.batch >> (block_bits - pair_bits) > enough)
    pair_bits--;
  const int64_t pairs = block >> pair_bits;
  grid.y = static_cast<unsigned>(std::min<int64_t>((a.batch + pairs - 1) / pairs, 65535));
  const auto of_one = a.f64 ? prepare_kernel<double, Extent::one_strip> : prepare_kernel<float, Extent::one_strip>;
  const auto of_strips = a.f64 ? prepare_kernel<double, Extent::strips> : prepare_kernel<float, Extent::strips>;
  const auto of_several = a.banded ? prepare_kernel<float, Extent::corridor> : of_strips;
  const auto kernel = a.strips == 1 ? of_one : of_several;
  const auto region = [](void *data, size_t bytes) {
    return Region{static_cast<uint4 *>(data), bytes / sizeof(uint4)};
  };
  launch_kernel(false, kernel, grid, block, 0, stream, a, first, second, region(ones, bytes_of_ones),
                region(zeros, bytes_of_zeros), pair_bits);
}

int compiled_for() {
  cudaFuncAttributes compiled{};
  const cudaError_t error = cudaFuncGetAttributes(&compiled, round_sums_kernel);
  if (error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
      error == cudaErrorUnsupportedPtxVersion) {
    cudaGetLastError();
    fail(SDTW_STATUS_NO_DEVICE, "no code for this GPU, which CMAKE_CUDA_ARCHITECTURES chooses: %s",
         cudaGetErrorString(error));
  }
  check(error, "cudaFuncGetAttributes");
  return compiled.ptxVersion;
}

void launch_add_side(const Args &a, cudaStream_t stream) {
  const dim3 grid = grid_of(a, static_cast<int64_t>(a.lower_grad_y_columns) * a.features, 16 * block);
  launch_kernel(false, a.f64 || a.wide_sums ? add_side_kernel<double> : add_side_kernel<float>, grid, block, 0, stream,
                a);
}

void launch_round_sums(const Args &a, const Output &grad_x, const Output &grad_y, cudaStream_t stream) {
  const dim3 grid = grid_of(a, static_cast<int64_t>(std::max(a.n, a.m)) * a.features, 16 * block);
  launch_kernel(false, round_sums_kernel, grid, block, 0, stream, a, grad_x, grad_y);
}

}  // namespace sdtw::cuda
