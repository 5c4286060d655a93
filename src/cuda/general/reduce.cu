// All pairs: gradients of a wave's pairs are added up to those of their series. Each element is written by one thread
// of a block, whose warps' sums are added in a fixed order.
#include "cuda/general/elements.cuh"

namespace sdtw::cuda::general {
namespace {

// Of a series' pair in the wave: which one it is, and what its gradient is multiplied with.
struct Partner {
  int64_t pair;
  double factor;
};
struct Reduction {
  Partner partners[threads];
  double sums[threads / warp][warp];
};

// The pair that a series has with another, by their numbers: x and y of it.
__device__ __forceinline__ core::PairIndex pair_with(int64_t own, int64_t other, bool of_x) {
  return of_x ? core::PairIndex{0, own, other} : core::PairIndex{0, other, own};
}
__device__ __forceinline__ int64_t number_in_wave(const PairsOfWave &wave, const core::PairIndex &p) {
  return (wave.symmetric ? core::number_in_triangle(p.x, p.y, wave.batch_x) : p.x * wave.batch_y + p.y) - wave.first;
}
__device__ __forceinline__ Partner partner_of(const PairsOfWave &wave, int64_t own, int64_t other, bool of_x) {
  const core::PairIndex p = pair_with(own, other, of_x);
  const int64_t pair = number_in_wave(wave, p);
  const int status = wave.status[pair];
  double factor = grad_of(wave.grad_value, wave.f64_values, p.x * wave.batch_y + p.y);
  if (wave.symmetric && p.x != p.y) factor += grad_of(wave.grad_value, wave.f64_values, p.y * wave.batch_y + p.x);
  if (status == status_unreachable) factor = 0;  // whose gradient is 0, and stays so if grad_value is infinite
  if (status == status_not_a_number) factor = __longlong_as_double(0x7ff8000000000000ll);
  return {pair, factor};
}
// With which series [begin, end) one has pairs in the wave.
struct Partners {
  int64_t begin, end;
  __device__ __forceinline__ Partners(const PairsOfWave &wave, int64_t own, bool of_x) {
    const auto number = [&](int64_t other) { return number_in_wave(wave, pair_with(own, other, of_x)); };
    if (of_x) {
      const int64_t first = wave.symmetric ? own : 0, skipped = -number(first);
      begin = first + max(skipped, int64_t{0}), end = min(wave.batch_y, first + skipped + wave.pairs);
    } else {
      begin = wave.first_x, end = (wave.symmetric ? min(wave.last_x, own) : wave.last_x) + 1;
      if (begin < end && number(begin) < 0) begin++;
      if (begin < end && number(end - 1) >= wave.pairs) end--;
    }
  }
};

// Sums up for each element of a series what the wave's pairs have for it. A lane has an element; the warps of a block
// share the pairs, a stretch of each 256 for each warp, and their sums are added in the order of warps.
template <class Real>
__global__ void __launch_bounds__(threads)
    reduce_kernel(const __grid_constant__ PairsOfWave wave, const Real *of_pairs, Target to, int64_t elements,
                  int columns, bool of_x, bool adds) {
  Reduction &shared = ptx::shared_object<Reduction>();
  const int own_warp = threadIdx.x / warp;
  for (int64_t own = blockIdx.y; own < (of_x ? wave.batch_x : wave.batch_y); own += gridDim.y) {
    const Partners partners(wave, own, of_x);
    if (partners.begin >= partners.end) continue;
    for (int64_t group = blockIdx.x * warp; group < elements; group += gridDim.x * warp) {
      const Real *const from = of_pairs + min(group + lane_id(), elements - 1);
      double sum = 0;
      for (int64_t first = partners.begin; first < partners.end; first += threads) {
        __syncthreads();
        if (first + threadIdx.x < partners.end)
          shared.partners[threadIdx.x] = partner_of(wave, own, first + threadIdx.x, of_x);
        __syncthreads();
        const int count = static_cast<int>(min(int64_t{threads}, partners.end - first));
        const int stop = min((own_warp + 1) * warp, count);
        constexpr int at_once = 8;  // loads that are under way
        for (int i = own_warp * warp; i < stop; i += at_once) {
          Real element[at_once];
#pragma unroll
          for (int k = 0; k < at_once; k++) element[k] = from[shared.partners[min(i + k, stop - 1)].pair * elements];
#pragma unroll
          for (int k = 0; k < at_once; k++)
            if (i + k < stop) sum = fma(shared.partners[i + k].factor, static_cast<double>(element[k]), sum);
        }
      }
      shared.sums[own_warp][lane_id()] = sum;
      __syncthreads();
      if (own_warp > 0 || group + lane_id() >= elements) continue;
      for (int i = 1; i < threads / warp; i++) sum += shared.sums[i][lane_id()];
      const int64_t element = group + lane_id(), place = place_in(to, own, element / columns, element % columns);
      put_element(to.data, place, to.dtype, adds ? element_of(to, place) + sum : sum);
    }
  }
}

}  // namespace

void launch_reduce(PairsOfWave wave, const Target &of_pairs, const Target &to, bool of_x, bool adds,
                   cudaStream_t stream) {
  const auto x_of = [&](int64_t pair) {
    return wave.symmetric ? core::pair_of_triangle(pair, wave.batch_x).x : pair / wave.batch_y;
  };
  wave.first_x = x_of(wave.first), wave.last_x = x_of(wave.first + wave.pairs - 1);
  const int64_t elements = of_pairs.stride[0], columns = of_pairs.stride[1],
                series = of_x ? wave.batch_x : wave.batch_y;
  constexpr int64_t most = 132 * 32;
  const int64_t x = std::min((elements + warp - 1) / warp, most);
  const dim3 grid(static_cast<unsigned>(x), static_cast<unsigned>(std::min(series, std::max<int64_t>(most / x, 1))));
  const auto launch = [&](auto kernel, auto *from) {
    launch_kernel(false, kernel, grid, threads, 0, stream, wave, from, to, elements, static_cast<int>(columns), of_x,
                  adds);
  };
  if (of_pairs.dtype == SDTW_F64)
    launch(reduce_kernel<double>, static_cast<const double *>(of_pairs.data));
  else
    launch(reduce_kernel<float>, static_cast<const float *>(of_pairs.data));
}

}  // namespace sdtw::cuda::general
