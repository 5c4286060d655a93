// Kernels of the general engine that work on whole series: normalised points before the sweeps, and what becomes of the
// sums of gradients after them. Each element is written by one thread, which adds in a fixed order.
#include "cuda/general/elements.cuh"

namespace sdtw::cuda::general {
namespace {

unsigned grid_for(int64_t work) {
  return static_cast<unsigned>(std::min<int64_t>(std::max<int64_t>((work + threads - 1) / threads, 1), 132 * 32));
}

// The grid of each_element: its y goes through the series, its x through the elements of one, a few for each thread.
dim3 grid_for(int64_t series, int64_t elements) {
  constexpr int64_t each = 4, most = 132 * 32, most_y = 65535;
  const int64_t x = std::min(std::max<int64_t>((elements + each * threads - 1) / (each * threads), 1), most);
  const int64_t y = std::min({std::max<int64_t>(series, 1), std::max<int64_t>(most / x, 1), most_y});
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y));
}
// A grid that is large enough for each of the sides, which its z goes through.
template <class Work, class GridOf>
dim3 grid_for(const OfSides<Work> &sides, const GridOf &grid_of) {
  dim3 grid(1, 1, static_cast<unsigned>(sides.count));
  for (int i = 0; i < sides.count; i++) {
    const dim3 own = grid_of(sides.of[i]);
    if (own.x * own.y > grid.x * grid.y) grid.x = own.x, grid.y = own.y;
  }
  return grid;
}
// Calls of_series(b)(row, column) for all elements of `count` series. A thread divides twice, not for each element.
template <class OfSeries>
__device__ __forceinline__ void each_element(int64_t count, int rows, int columns, const OfSeries &of_series) {
  const unsigned first = blockIdx.x * threads + threadIdx.x, step = gridDim.x * threads;
  const int rows_on = static_cast<int>(step / columns), columns_on = static_cast<int>(step % columns);
  for (int64_t b = blockIdx.y; b < count; b += gridDim.y) {
    const auto at = of_series(b);
    int column = static_cast<int>(first % columns);
    for (int64_t row = first / columns; row < rows;) {
      at(row, column);
      row += rows_on, column += columns_on;
      if (column >= columns) column -= columns, row++;
    }
  }
}

// What divides a point, whose features some lanes share: its norm is largest times root, or root if largest is 0 or
// NaN.
struct Norm {
  double largest, root;

  template <class Of>
  __device__ __forceinline__ Norm(const Lanes &lanes, int features, const Of &of) : largest(0) {
    for (int f = lanes.rank; f < features; f += lanes.count) largest = fmax(largest, fabs(of(f)));
    largest = lanes.max(largest);
    double sum = 0;  // of squares, relative to the largest, so that none overflows; NaN is not lost in it
    for (int f = lanes.rank; f < features; f += lanes.count) {
      const double v = largest > 0 ? of(f) / largest : of(f);
      sum = fma(v, v, sum);
    }
    root = sqrt(lanes.sum(sum));
  }
  __device__ __forceinline__ bool is_zero() const { return largest == 0 && root == 0; }
  __device__ __forceinline__ double value() const { return is_zero() ? 0 : largest > 0 ? largest * root : root; }
  __device__ __forceinline__ double unit(double v) const {
    return is_zero() ? 0 : largest > 0 ? v / largest / root : v / root;
  }
};

__global__ void __launch_bounds__(threads) normalise_kernel(const __grid_constant__ OfSides<Normalisation> sides) {
  const Normalisation &own = sides.of[blockIdx.z];
  const Side &side = own.side;
  const Series &points = own.points, &tangents = own.tangents;
  const Normalised &to = own.to;
  const Lanes lanes(side.features);
  for (int64_t i = lanes.number(); i < side.batch * side.rows; i += lanes.all()) {
    const int64_t b = i / side.rows, row = i % side.rows;
    if (row >= length_of(side, b)) continue;
    const auto of = [&](const Series &series, int f) {
      return element<double>(series.data, b * series.stride[0] + row * series.stride[1] + f * series.stride[2],
                             series.dtype);
    };
    const Norm norm(lanes, side.features, [&](int f) { return of(points, f); });
    const bool zero = norm.is_zero();
    double *out = to.points + i * (side.features + 2);
    const auto unit = [&](int f) { return norm.unit(of(points, f)); };
    for (int f = lanes.rank; f < side.features; f += lanes.count) out[f] = unit(f);
    if (lanes.rank == 0) {
      for (int f = 0; f < 2; f++) out[side.features + f] = zero && f == to.marker ? 1 : 0;
      to.norms[i] = norm.value();
    }
    if (!to.directions) continue;
    double product = 0;
    if (tangents.data)
      for (int f = lanes.rank; f < side.features; f += lanes.count) product = fma(unit(f), of(tangents, f), product);
    product = lanes.sum(product);
    double *direction = to.directions + i * (side.features + 2);
    for (int f = lanes.rank; f < side.features + 2; f += lanes.count)
      direction[f] =
          f >= side.features || zero || !tangents.data ? 0 : (of(tangents, f) - unit(f) * product) / norm.value();
  }
}

__global__ void __launch_bounds__(threads) fill_kernel(const __grid_constant__ OfSides<Zeros> fills) {
  const Zeros &f = fills.of[blockIdx.z];
  const double nan = __longlong_as_double(0x7ff8000000000000ll);
  each_element(f.count, f.rows, f.columns, [&](int64_t b) {
    const double value = f.status && f.status[b] == status_not_a_number ? nan : 0.0;
    int n = 0, m = 0;
    if (f.grad_value && f.status[b] == status_finite && !isfinite(grad_of(f.grad_value, f.f64_values, b)))
      n = length_of(f.x, b), m = length_of(f.y, b);
    return [&f, b, value, nan, n, m](int64_t row, int column) {
      put_element(f.to.data, place_in(f.to, b, row, column), f.to.dtype, row < n && column < m ? nan : value);
    };
  });
}

// What a point's gradient is multiplied with, and whether it is something else altogether.
struct Factor {
  double g;
  bool fixed;
  double value;
};
__device__ __forceinline__ Factor factor_of(const Finish &f, int64_t b, int64_t row) {
  const double nan = __longlong_as_double(0x7ff8000000000000ll);
  const int status = f.status ? f.status[b] : status_finite;
  if (status != status_finite) return {0, true, status == status_not_a_number ? nan : 0};
  if (!f.status) return {1, false, 0};  // sums over pairs: 0 beyond the lengths, or NaN if a pair's value is
  if (row >= length_of(f.side, b)) return {0, true, 0};
  const double g = grad_of(f.grad_value, f.f64_values, b);
  if (!isfinite(g)) return {0, true, nan};
  return {g, false, 0};
}

__global__ void __launch_bounds__(threads) finish_kernel(const __grid_constant__ OfSides<Finish> finishes) {
  const Finish &f = finishes.of[blockIdx.z];
  const Target &from = f.turns.data ? f.turns : f.sums;
  each_element(f.count, f.side.rows, f.side.features, [&](int64_t b) {
    const Factor inside = factor_of(f, b, 0), beyond = factor_of(f, b, f.side.rows);
    const int length = f.status ? length_of(f.side, b) : f.side.rows;
    return [&f, &from, b, inside, beyond, length](int64_t row, int column) {
      const Factor factor = row < length ? inside : beyond;
      // Summed up in place where the array is the caller's: read before it is written.
      const double v = factor.fixed ? factor.value : factor.g * element_of(from, place_in(from, b, row, column));
      put_element(f.to.data, place_in(f.to, b, row, column), f.to.dtype, v);
    };
  });
}

// With u the normalised point, s the sum over it and P = 1 - u u^T, the gradient is P s / |x|; its
// derivative along a tangent that turns u by u' and s by s' is
// (P s' - u' <u, s> - u <u', s>) / |x| - <u, x'> P s / |x|^2.
__global__ void __launch_bounds__(threads) finish_cosine_kernel(const __grid_constant__ OfSides<Finish> finishes) {
  const Finish &f = finishes.of[blockIdx.z];
  const Series &tangents = f.tangents;
  const int columns = f.side.features;
  const Lanes lanes(columns);
  for (int64_t i = lanes.number(); i < f.count * f.side.rows; i += lanes.all()) {
    const int64_t b = i / f.side.rows, row = i % f.side.rows;
    const Factor factor = factor_of(f, b, row);
    const double norm = factor.fixed || row >= length_of(f.side, b) ? 0 : f.normalised.norms[i];
    // Of a point that is NaN or infinite sums over pairs are NaN, unless a band keeps it from all of their paths.
    if (factor.fixed || norm == 0 || !isfinite(norm)) {
      const auto value = [&](int k) {  // of sums over pairs 0 or NaN
        const double sum = factor.fixed ? factor.value : element_of(f.sums, place_in(f.sums, b, row, k));
        return factor.fixed || isnan(sum) ? sum : 0.0;
      };
      for (int k = lanes.rank; k < columns; k += lanes.count)
        put_element(f.to.data, place_in(f.to, b, row, k), f.to.dtype, value(k));
      continue;
    }
    const double *u = f.normalised.points + i * (columns + 2);
    const double *du = f.turns.data ? f.normalised.directions + i * (columns + 2) : nullptr;
    const auto sum = [&](int k) { return element_of(f.sums, place_in(f.sums, b, row, k)); };
    const auto turn = [&](int k) { return element_of(f.turns, place_in(f.turns, b, row, k)); };
    double us = 0, ut = 0, dus = 0, ux = 0;
    for (int k = lanes.rank; k < columns; k += lanes.count) {
      us = fma(u[k], sum(k), us);
      if (!du) continue;
      ut = fma(u[k], turn(k), ut), dus = fma(du[k], sum(k), dus);
      if (tangents.data)
        ux = fma(
            u[k],
            element<double>(tangents.data, b * tangents.stride[0] + row * tangents.stride[1] + k * tangents.stride[2],
                            tangents.dtype),
            ux);
    }
    us = lanes.sum(us), ut = lanes.sum(ut), dus = lanes.sum(dus), ux = lanes.sum(ux);
    for (int k = lanes.rank; k < columns; k += lanes.count) {
      const double projected = sum(k) - u[k] * us;
      const double v =
          du ? (turn(k) - u[k] * ut - du[k] * us - u[k] * dus - ux / norm * projected) / norm : projected / norm;
      put_element(f.to.data, place_in(f.to, b, row, k), f.to.dtype, factor.g * v);
    }
  }
}

// The number of the computed pair (x, y) in the order in which pairs are computed.
__device__ __forceinline__ int64_t number_of_pair(const Args &a, int64_t x, int64_t y) {
  return a.symmetric ? core::number_in_triangle(x, y, a.batch_x) : x * a.batch_y + y;
}

__global__ void __launch_bounds__(threads) fill_symmetric_kernel(const __grid_constant__ Args a) {
  each_element(a.batch_x * a.batch_y, a.n, a.m, [&](int64_t pair) {
    const int64_t x = pair / a.batch_y, y = pair % a.batch_y;
    const int64_t local = number_of_pair(a, min(x, y), max(x, y)) - a.first;
    const bool there = local >= 0 && local < a.pairs;
    const double value =
        there && a.status[local] == status_not_a_number ? __longlong_as_double(0x7ff8000000000000ll) : 0.0;
    return [&a, pair, there, value](int64_t row, int column) {
      if (there) put_element(a.dense.data, place_in(a.dense, pair, row, column), a.dense.dtype, value);
    };
  });
}

// Numbers that are loaded and stored as one, or two.
template <class T>
struct alignas(16) Eight {
  static constexpr int count = 8;
  T v[count];
};
__device__ __forceinline__ float widened(float v) { return v; }
__device__ __forceinline__ float widened(__half v) { return __half2float(v); }
__device__ __forceinline__ float widened(__nv_bfloat16 v) { return __bfloat162float(v); }
__device__ __forceinline__ void round_to(float &to, float v) { to = v; }
__device__ __forceinline__ void round_to(__half &to, float v) { to = __float2half_rn(v); }
__device__ __forceinline__ void round_to(__nv_bfloat16 &to, float v) { to = __float2bfloat16_rn(v); }

// Arrays without gaps, by all threads of a slice of the grid.
template <class In, class Out>
__device__ __forceinline__ void convert_dense(const In *from, Out *to, int64_t count) {
  constexpr int each = Eight<In>::count;
  const int64_t thread = (int64_t{blockIdx.y} * gridDim.x + blockIdx.x) * threads + threadIdx.x;
  const int64_t all = int64_t{gridDim.x} * gridDim.y * threads, eights = count / each;
#pragma unroll 2
  for (int64_t i = thread; i < eights; i += all) {
    const Eight<In> in = reinterpret_cast<const Eight<In> *>(from)[i];
    Eight<Out> out;
#pragma unroll
    for (int k = 0; k < each; k++) round_to(out.v[k], widened(in.v[k]));
    reinterpret_cast<Eight<Out> *>(to)[i] = out;
  }
  if (thread < count % each) round_to(to[eights * each + thread], widened(from[eights * each + thread]));
}
template <class Array>
__device__ __forceinline__ bool is_dense(const Array &array, const Side &side) {
  return array.stride[2] == 1 && array.stride[1] == side.features &&
         array.stride[0] == int64_t{side.rows} * side.features && reinterpret_cast<uintptr_t>(array.data) % 16 == 0;
}
// Calls visit with a number of one of the half types.
template <class Visit>
__device__ __forceinline__ void with_half(sdtw_dtype dtype, const Visit &visit) {
  if (dtype == SDTW_F16)
    visit(__half(0.0f));
  else
    visit(__nv_bfloat16(0.0f));
}

// Where there are no gaps rows beyond the lengths are converted as well.
__global__ void __launch_bounds__(threads) convert_kernel(const __grid_constant__ OfSides<Conversion> conversions) {
  const Conversion &c = conversions.of[blockIdx.z];
  const Side &side = c.side;
  if (c.from.dtype != c.to.dtype && is_dense(c.from, side) && is_dense(c.to, side)) {
    const int64_t count = side.batch * side.rows * side.features;
    if (c.from.dtype == SDTW_F32)
      with_half(c.to.dtype, [&](auto zero) {
        convert_dense(static_cast<const float *>(c.from.data), static_cast<decltype(zero) *>(c.to.data), count);
      });
    else
      with_half(c.from.dtype, [&](auto zero) {
        convert_dense(static_cast<const decltype(zero) *>(c.from.data), static_cast<float *>(c.to.data), count);
      });
    return;
  }
  each_element(side.batch, side.rows, c.features, [&](int64_t b) {
    const int length = length_of(side, b);
    return [&c, b, length](int64_t row, int column) {
      if (row >= length) return;
      const Series &from = c.from;
      const int64_t at = b * from.stride[0] + row * from.stride[1] + column * from.stride[2];
      const float v = column < c.side.features ? element<float>(from.data, at, from.dtype) : 0;
      put_element(c.to.data, place_in(c.to, b, row, column), c.to.dtype, v);
    };
  });
}

}  // namespace

void launch_normalise(const OfSides<Normalisation> &sides, cudaStream_t stream) {
  const dim3 grid = grid_for(sides, [](const Normalisation &n) {
    return dim3(grid_for(n.side.batch * n.side.rows * lanes_of_point(n.side.features)));
  });
  launch_kernel(false, normalise_kernel, grid, threads, 0, stream, sides);
}
void launch_fill(const OfSides<Zeros> &fills, cudaStream_t stream) {
  const dim3 grid = grid_for(fills, [](const Zeros &f) { return grid_for(f.count, int64_t{f.rows} * f.columns); });
  if (fills.count > 0) launch_kernel(false, fill_kernel, grid, threads, 0, stream, fills);
}
void launch_fill_symmetric(const Args &a, cudaStream_t stream) {
  launch_kernel(false, fill_symmetric_kernel, grid_for(a.batch_x * a.batch_y, int64_t{a.n} * a.m), threads, 0, stream,
                a);
}
void launch_finish(const OfSides<Finish> &finishes, cudaStream_t stream) {
  if (finishes.count == 0) return;
  const bool cosine = finishes.of[0].cosine;
  const dim3 grid = grid_for(finishes, [&](const Finish &f) {
    const int64_t points = f.count * f.side.rows;
    return cosine ? dim3(grid_for(points * lanes_of_point(f.side.features)))
                  : grid_for(f.count, int64_t{f.side.rows} * f.side.features);
  });
  launch_kernel(false, cosine ? finish_cosine_kernel : finish_kernel, grid, threads, 0, stream, finishes);
}
void launch_convert(const OfSides<Conversion> &conversions, cudaStream_t stream) {
  const dim3 grid = grid_for(
      conversions, [](const Conversion &c) { return grid_for(c.side.batch, int64_t{c.side.rows} * c.side.features); });
  if (conversions.count > 0) launch_kernel(false, convert_kernel, grid, threads, 0, stream, conversions);
}

}  // namespace sdtw::cuda::general
