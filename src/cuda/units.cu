// Kernels around the core kernels' sweeps of cosine (units.h). Each element is written by one thread, which adds in a
// fixed order. The features of a point are shared by some lanes, four at a time each, and the lanes have several
// points.
#include "cuda/costs/two_floats.cuh"
#include "cuda/general/elements.cuh"
#include "cuda/units.h"

namespace sdtw::cuda {
namespace {

using general::grad_of;
using general::Lanes;
using general::lanes_of_point;
using general::length_of;
using general::place_in;
using general::Series;
using general::Side;
using general::threads;

constexpr int at_once = unit_features_at_once;

__device__ __forceinline__ double not_a_number() { return __longlong_as_double(0x7ff8000000000000ll); }

// Four features of a point; those beyond the last are 0.
struct alignas(16) Four {
  float v[at_once];
};
// Points of a pair's series: of 32 bits or fewer, whose squares a double has room for.
struct PointsOf {
  const Series &series;
  int64_t first;
  int features;
  bool by_16_bytes;

  __device__ __forceinline__ PointsOf(const Series &of, int64_t b, int of_point)
      : series(of),
        first(b * of.stride[0]),
        features(of_point),
        by_16_bytes(of.dtype == SDTW_F32 && is_vec4(of, of_point)) {}
  __device__ __forceinline__ Four at(int row, int f) const {
    Four four{};
    const int64_t point = first + row * series.stride[1];
    if (by_16_bytes) return *reinterpret_cast<const Four *>(static_cast<const float *>(series.data) + point + f);
    for (int i = 0; i < at_once && f + i < features; i++)
      four.v[i] = element<float>(series.data, point + (f + i) * series.stride[2], series.dtype);
    return four;
  }
};

// Calls visit with the rows of a pair's series that the lanes look after, a few each.
constexpr int rows_each = 4;
template <class Visit>
__device__ __forceinline__ void for_rows(const Lanes &lanes, int rows, const Visit &visit) {
  for (int row = static_cast<int>(lanes.number()); row < rows; row += static_cast<int>(lanes.all())) visit(row);
}
dim3 grid_of(const Units &u) {
  const int64_t rows = std::max(u.side[0].rows, u.side[1].rows), lanes = lanes_of_point(u.side[0].features);
  const int64_t x = (rows * lanes + rows_each * threads - 1) / (rows_each * threads);
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(std::min<int64_t>(u.side[0].batch, 65535)), 2);
}

// blockIdx.z: of x or of y.
__global__ void __launch_bounds__(threads) unit_kernel(const __grid_constant__ Units u) {
  const int which = blockIdx.z;
  const Side &side = u.side[which];
  const int features = side.features;
  const Lanes lanes(features);
  const int begin = at_once * lanes.rank, step = at_once * lanes.count;
  for (int64_t b = blockIdx.y; b < side.batch; b += gridDim.y) {
    const PointsOf own(u.points[which], b, features);
    const int length = length_of(side, b);
    // Where there is none the first has numbers, too: lanes without a pair look there.
    for_rows(lanes, max(length, 1), [&](int row) {
      double sum = 0;
      Four here{};
      for (int f = begin; f < features; f += step) {
        here = own.at(row, f);
#pragma unroll
        for (int i = 0; i < at_once; i++)
          sum = fma(static_cast<double>(here.v[i]), static_cast<double>(here.v[i]), sum);
      }
      const double norm = sqrt(lanes.sum(sum));
      const double inverse = !isfinite(norm) ? not_a_number() : norm > 0 ? 1 / norm : 0;
      for (int f = begin; f < u.unit_features; f += step) {
        if (features > step) here = own.at(row, f);
        struct alignas(16) {
          TwoFloats v[at_once];
        } parts;
#pragma unroll
        for (int i = 0; i < at_once; i++) {
          const double unit = here.v[i] * inverse;
          parts.v[i].high = static_cast<float>(unit);
          parts.v[i].low = static_cast<float>(unit - parts.v[i].high);
        }
        const int64_t point = b * side.rows + row;
        *reinterpret_cast<decltype(parts) *>(u.units[which] + point * u.unit_features + f) = parts;
      }
      if (lanes.rank > 0) return;
      if (u.norms[which]) u.norms[which][b * side.rows + row] = norm;
      if (!u.bounds || row >= length) return;
      // As though all points were at a distance of a little more than 1/2 from a common one: costs are at most 2.
      int *const bounds = u.bounds + bounds_per_pair * b;
      if (row == 0) {
        atomicMax(bounds + which, __float_as_int(0.501f));
        if (which == 0) bounds[2] = 0;
      }
      if (!isfinite(norm)) atomicMax(bounds + which, 0x7fc00000);
    });
  }
}

__global__ void __launch_bounds__(threads) unit_gradients_kernel(const __grid_constant__ UnitGradients g) {
  const int which = blockIdx.z;
  if (!g.sums[which]) return;
  const Units &u = g.of;
  const Side &side = u.side[which];
  const int features = side.features;
  const Lanes lanes(features);
  const int begin = at_once * lanes.rank, step = at_once * lanes.count;
  for (int64_t b = blockIdx.y; b < side.batch; b += gridDim.y) {
    const int status = g.status[b], length = status == status_finite ? length_of(side, b) : 0;
    const double factor = grad_of(g.grad_value, false, b);
    const double beyond = status == status_not_a_number ? not_a_number() : 0;
    for_rows(lanes, side.rows, [&](int row) {
      const int64_t point = b * side.rows + row;
      double unit[at_once], sum[at_once];
      const auto load = [&](int f) {
        const int64_t at = point * u.unit_features + f;
#pragma unroll
        for (int i = 0; i < at_once; i++) {
          unit[i] = whole_of(u.units[which][at + i]);
          sum[i] = g.sums[which][at + i];
        }
      };
      const double norm = row < length ? u.norms[which][point] : 0;
      double along = 0;
      if (norm != 0)
        for (int f = begin; f < features; f += step) {
          load(f);
#pragma unroll
          for (int i = 0; i < at_once; i++) along = fma(unit[i], sum[i], along);
        }
      along = lanes.sum(along);
      const double scale = norm != 0 ? factor / norm : 0;
      for (int f = begin; f < features; f += step) {
        if (norm != 0 && features > step) load(f);
        for (int i = 0; i < at_once && f + i < features; i++) {
          const double v = row >= length       ? beyond
                           : !isfinite(factor) ? not_a_number()
                           : norm != 0         ? (sum[i] - unit[i] * along) * scale
                                               : 0;
          put_element(g.to[which].data, place_in(g.to[which], b, row, f + i), g.to[which].dtype, v);
        }
      }
    });
  }
}

}  // namespace

void launch_units(const Units &units, cudaStream_t stream) {
  launch_kernel(false, unit_kernel, grid_of(units), threads, 0, stream, units);
}
void launch_unit_gradients(const UnitGradients &gradients, cudaStream_t stream) {
  launch_kernel(false, unit_gradients_kernel, grid_of(gradients.of), threads, 0, stream, gradients);
}

}  // namespace sdtw::cuda
