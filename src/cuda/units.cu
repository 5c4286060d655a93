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

// What `rounded` of a pair is relative to.
struct Origin {
  double scale = 0;     // of x_0: 1 / |x_0|, or 0 if that is of no use
  bool turned = false;  // whether x_0 and y_0 are more than 120 degrees apart

  Origin() = default;
  __device__ __forceinline__ Origin(const Lanes &lanes, int features, const PointsOf &x, const PointsOf &y) {
    double xx = 0, xy = 0, yy = 0;
    for (int f = at_once * lanes.rank; f < features; f += at_once * lanes.count) {
      const Four of_x = x.at(0, f), of_y = y.at(0, f);
#pragma unroll
      for (int i = 0; i < at_once; i++) {
        const double here = of_x.v[i], there = of_y.v[i];
        xx = fma(here, here, xx), xy = fma(here, there, xy), yy = fma(there, there, yy);
      }
    }
    xx = lanes.sum(xx), xy = lanes.sum(xy), yy = lanes.sum(yy);
    const bool usable = xx > 0 && isfinite(xx);
    scale = usable ? 1 / sqrt(xx) : 0;
    turned = usable && xy < 0 && 4 * xy * xy > xx * yy;
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
    const PointsOf x(u.points[0], b, features), y(u.points[1], b, features);
    const PointsOf own(u.points[which], b, features);
    const int length = length_of(side, b);
    float *const rounded = u.rounded[which];
    const Origin origin = rounded && length > 0 ? Origin(lanes, features, x, y) : Origin();
    const double sign = origin.turned && which == 1 ? -1 : 1;
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
        double unit[at_once];
        struct alignas(16) {
          TwoFloats v[at_once];
        } parts;
#pragma unroll
        for (int i = 0; i < at_once; i++) {
          unit[i] = here.v[i] * inverse;
          parts.v[i].high = static_cast<float>(unit[i]);
          parts.v[i].low = static_cast<float>(unit[i] - parts.v[i].high);
        }
        const int64_t point = b * side.rows + row;
        *reinterpret_cast<decltype(parts) *>(u.units[which] + point * u.unit_features + f) = parts;
        if (!rounded) continue;
        const Four of_x = x.at(0, f);
        Four to;
#pragma unroll
        for (int i = 0; i < at_once; i++)
          to.v[i] = norm == 0 ? INFINITY
                              : static_cast<float>(sign * unit[i] - (origin.scale > 0 ? of_x.v[i] * origin.scale : 0));
        *reinterpret_cast<Four *>(rounded + point * u.unit_features + f) = to;
      }
      if (lanes.rank > 0) return;
      if (u.norms[which]) u.norms[which][b * side.rows + row] = origin.turned && which == 0 ? -norm : norm;
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
        const TwoFloats *const units = u.units[which] + at;
#pragma unroll
        for (int i = 0; i < at_once; i++) {
          unit[i] = static_cast<double>(units[i].high) + static_cast<double>(units[i].low);
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
