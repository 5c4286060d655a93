// Features of points as gradients are made of them: how the lanes of a warp share them, what is summed up over other
// points, and how they are loaded and added to.
#pragma once

#include "cuda/costs/two_floats.cuh"
#include "cuda/sweep/strip.cuh"

namespace sdtw::cuda {

// Consecutive features of a point that one lane has: 16 bytes, or of a unit point twice as many.
template <class Real>
struct Point {
  static constexpr int size = 16 / sizeof(Real);
  Real v[size];
};
struct alignas(16) UnitPoint {
  TwoFloats v[Point<float>::size];
};

// What is summed up for a point over others: E times the differences from them, which are taken as they are, since the
// usual split into sums of E and of E y cancels where x is near y.
template <class Real, class Element>
struct PointSum {
  using Other = Point<Real>;
  static constexpr int size = Point<Real>::size;
  static constexpr bool of_differences = true;
  Real v[size]{};

  __device__ __forceinline__ void add(Real e, const Other &here, const Other &other) {
#pragma unroll
    for (int i = 0; i < size; i++) v[i] = fma(e, here.v[i] - other.v[i], v[i]);
  }
  __device__ __forceinline__ Real value(int i) const { return v[i]; }
};
// Of unit points, which are projected in the end (units.h), E times the opposites of others, with all digits of these.
template <>
struct PointSum<float, TwoFloats> {
  using Other = UnitPoint;
  static constexpr int size = Point<float>::size;
  static constexpr bool of_differences = false;
  double large[size]{};     // of the first floats
  TwoFloats small[size]{};  // of the second ones; where float64 is slow, of both

  __device__ __forceinline__ void add(float e, const Other &, const Other &other) {
#pragma unroll
    for (int i = 0; i < size; i++) {
      if constexpr (avoids_float64) {
        cuda::add(small[i], product(other.v[i], e));
      } else {
        large[i] = fma(static_cast<double>(e), static_cast<double>(other.v[i].high), large[i]);
        small[i].low = fmaf(e, other.v[i].low, small[i].low);
      }
    }
  }
  __device__ __forceinline__ double value(int i) const {
    return -(avoids_float64 ? whole_of(small[i]) : large[i] + static_cast<double>(small[i].low));
  }
};
// How a warp's lanes share points: each point is given to as few lanes as hold its features, so that the warp works on
// as many points at once as possible. Arithmetic takes little time here, and loads take long.
template <class Real>
struct LaneShare {
  int bits = 0;     // log2 of the lanes of a point
  int lane, point;  // the lane's number among those of its point; which of the warp's points this is

  __device__ __forceinline__ explicit LaneShare(int of_all) {
    while (features() < of_all && lanes() < warp) bits++;
    lane = lane_id() & (lanes() - 1), point = lane_id() >> bits;
  }
  __device__ __forceinline__ int lanes() const { return 1 << bits; }
  __device__ __forceinline__ int points() const { return warp >> bits; }
  // How many features the lanes of a point hold at once.
  __device__ __forceinline__ int features() const { return Point<Real>::size << bits; }
};

// How the features of a point lie in memory. at_once: those of a Point can be accessed by 16 bytes. together:
// contiguous float32, four or more. strided: anything else.
enum Layout { strided, together, at_once };
// Element: of the series.
template <class Real, class Element, class Series>
__device__ __forceinline__ Layout layout_of(const Series &series, int features) {
  if (sizeof(Real) != sizeof(Element) || series.stride[2] != 1 || features < Point<Real>::size) return strided;
  if (is_by_16_bytes<Point<Real>::size>(series, features)) return at_once;
  return sizeof(Real) == 8 ? strided : together;
}
// The layout that is valid for both arrays.
__device__ __forceinline__ Layout common(Layout a, Layout b) { return a < b ? a : b; }

// Steps through a series or its gradient, in bytes, in the order in which the task meets the points. Addresses are
// advanced from point to point, not computed anew: each load would otherwise wait for the kernel's arguments again.
struct Points {
  int64_t next, feature;  // from a point, a feature to the next

  // size: bytes of an element.
  template <class Series>
  __device__ __forceinline__ Points(const StripView &s, const Series &of, int64_t size)
      : next(s.sign() * of.stride[1] * size), feature(of.stride[2] * size) {}
};
// The lane's features of points, from feature `from` on. Where features are contiguous, the last lane that has any has
// the last four of the point, of which some belong to the lane before: so a lane can always load four. wide_sums: see
// has_wide_sums.
template <class Real, class Element, Layout layout, bool wide_sums>
struct Features {
  static constexpr int size = Point<Real>::size;
  using Sum = PointSum<Real, Element>;
  using Loaded = typename Sum::Other;
  static constexpr bool of_units = !Sum::of_differences;
  static_assert(!of_units || (layout == at_once && wide_sums), "the only arrays of unit points");

  int first, skipped, count;  // the lane's own are [first + skipped, first + count)

  // lane: the lane's number among those of its point.
  __device__ __forceinline__ Features(const Args &a, int lane, int from) {
    const int feature = from + size * lane;
    first = layout == strided ? feature : min(feature, a.features - size);
    skipped = feature - first;
    count = layout == strided ? a.features - feature : size;
  }
  // Bytes from a feature of a series to the next; and from a sum to the next.
  __device__ __forceinline__ int64_t along(const Points &points) const {
    return layout == strided || of_units ? points.feature : sizeof(Real);
  }
  __device__ __forceinline__ int64_t along_sums(const Points &points) const {
    return wide_sums ? points.feature : along(points);
  }
  __device__ __forceinline__ int64_t offset(const Points &points) const { return first * along(points); }
  __device__ __forceinline__ int64_t offset_of_sums(const Points &points) const { return first * along_sums(points); }
  // Loads the lane's features of the point at `at`: zeros if the point does not exist.
  __device__ __forceinline__ Loaded load(const char *at, int64_t along, bool exists) const {
    Loaded p{};
    if (!exists) return p;
    if constexpr (of_units) {
      const auto *const halves = reinterpret_cast<const float4 *>(at);
      const float4 first = __ldg(halves), second = __ldg(halves + 1);
      p = {{{first.x, first.y}, {first.z, first.w}, {second.x, second.y}, {second.z, second.w}}};
    } else if constexpr (layout == at_once) {
      p = __builtin_bit_cast(Point<Real>, __ldg(reinterpret_cast<const float4 *>(at)));
    } else {
#pragma unroll
      for (int i = 0; i < size; i++)
        if (layout == together || i < count)
          p.v[i] = static_cast<Real>(__ldg(reinterpret_cast<const Element *>(at + i * along)));
    }
    return p;
  }
  // Adds g sum to the lane's sums at `at`, by atomics whose results are not used, so the warp does not wait for them.
  template <class Of>
  __device__ __forceinline__ void add(char *at, int64_t along, Real g, const Of &sum) const {
    if (skipped >= size) return;
    if constexpr (wide_sums) {
#pragma unroll
      for (int i = 0; i < size; i++, at += along)
        if (layout == at_once || (i >= skipped && i < count))
          atomicAdd(reinterpret_cast<double *>(at), static_cast<double>(g) * static_cast<double>(sum.value(i)));
      return;
    } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
      constexpr bool one_addition = layout == at_once;
      if constexpr (one_addition)
        atomicAdd(reinterpret_cast<float4 *>(at),
                  make_float4(g * sum.value(0), g * sum.value(1), g * sum.value(2), g * sum.value(3)));
#else
      constexpr bool one_addition = false;
#endif
#pragma unroll
      for (int i = one_addition ? size : 0; i < size; i++, at += along) {
        if (layout == strided && i >= count) continue;
        // Adding 0 takes less time than a branch.
        const Real own = layout == together && i < skipped ? 0 : g * sum.value(i);
        atomicAdd(reinterpret_cast<float *>(at), static_cast<float>(own));
      }
    }
  }
};

}  // namespace sdtw::cuda
