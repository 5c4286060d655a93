// The cells of the general engine with gamma = 0: the minimum, with R itself in double. What cells of both kinds have
// is described in cell.cuh.
#pragma once

#include "cuda/general/cell.cuh"

namespace sdtw::cuda::general {

// gamma = 0: R is the least of its three candidates; ties go to the diagonal, the vertical, the horizontal step. Of
// unit steps the least of the three neighbours, and then the cost.
template <Rule rule>
struct Hard {
  using Real = double;
  struct Z {
    double r;
  };
  static constexpr bool wide = true, soft = false, penalised = false, several = false;
  static constexpr bool weighted = rule != Rule::unit;
  static constexpr int cost_planes = 1, together = 8;

  static __device__ __forceinline__ double infinity() { return __longlong_as_double(0x7ff0000000000000ll); }
  static __device__ __forceinline__ Z forbidden() { return {infinity()}; }
  static __device__ __forceinline__ void renormalise(Z &) {}
  static __host__ __device__ __forceinline__ constexpr int words(Format) { return 1; }

  struct Units {
    __device__ __forceinline__ Units(const Args &, double) {}
  };

  struct Costs {
    Rows<double> d;

    __device__ __forceinline__ void load(double *planes, int, int u) { d = *rows_at<double>(planes, u); }
    __device__ __forceinline__ void store(double *planes, int, int u) const { *rows_at<double>(planes, u) = d; }
    template <int rows>
    __device__ __forceinline__ int set(const double (&cost)[K], const bool (&admitted)[K], int begin, int,
                                       const Units &) {
      int flags = 0;
#pragma unroll
      for (int k = begin; k < begin + rows; k++) {
        const bool forbid = !admitted[k] || cost[k] == infinity();
        const bool bad = !forbid && !(fabs(cost[k]) < infinity());
        d.v[k] = forbid || bad ? infinity() : cost[k];
        flags |= bad ? not_a_number : 0;
      }
      return flags;
    }
  };

  struct Steps {
    double weight[transitions], penalty[transitions];

    __device__ __forceinline__ explicit Steps(const Args &a) {
#pragma unroll
      for (int way = 0; way < transitions; way++) weight[way] = a.weight[way], penalty[way] = a.penalty[way];
    }
    // Taken back exactly so.
    __device__ __forceinline__ Z before_first() const { return {weighted ? -penalty[diagonal] : 0}; }
  };

  // chosen: the step that the best path to the cell ends with.
  static __device__ __forceinline__ Z best(const Costs &c, int k, const Steps &steps, const Z &d, const Z &v,
                                           const Z &h, int &chosen) {
    const double cost = c.d.v[k];
    const bool forbid = weighted && cost == infinity();
    double td = d.r, tv = v.r, th = h.r;
    if constexpr (weighted) {
      const double at = forbid ? 0 : cost;
      // Penalties first: that of the first cell has been taken back.
      td = fma(steps.weight[diagonal], at, d.r + steps.penalty[diagonal]);
      tv = fma(steps.weight[vertical], at, v.r + steps.penalty[vertical]);
      th = fma(steps.weight[horizontal], at, h.r + steps.penalty[horizontal]);
    }
    // The vertical neighbour is the last to be known.
    const bool beside = th < td;
    const double side = beside ? th : td;
    const bool down = (tv < side) | (beside & (tv <= side));
    const double best = down ? tv : side;
    chosen = down ? vertical : beside ? horizontal : diagonal;
    return {forbid ? infinity() : weighted ? best : best + cost};
  }
  template <bool with_terms>
  static __device__ __forceinline__ Z next(const Costs &c, int k, const Steps &steps, const Z &d, const Z &v,
                                           const Z &h, double (&p)[transitions]) {
    int chosen;
    const Z z = best(c, k, steps, d, v, h, chosen);
    if constexpr (with_terms)
#pragma unroll
      for (int way = 0; way < transitions; way++) p[way] = __hiloint2double(way == chosen ? 0x3ff00000 : 0, 0);
    return z;
  }
  static __device__ __forceinline__ void normalise(double (&)[transitions]) {}

  static __device__ __forceinline__ void store(Word *p, Format, const Z &z) {
    store_relaxed(p, ~DoubleCell::pack(z.r));
  }
  static __device__ __forceinline__ Z unpack(Word first, Word, Format) { return {__longlong_as_double(~first)}; }
  static __device__ __forceinline__ Z from_above(const Z &z) { return {__shfl_up_sync(all_lanes, z.r, 1)}; }
  static __device__ __forceinline__ Z of_lane(const Z &z, int lane) { return {__shfl_sync(all_lanes, z.r, lane)}; }
  static __device__ __forceinline__ Z choose(bool first, const Z &a, const Z &b) { return {first ? a.r : b.r}; }
  static __device__ __forceinline__ bool reachable(const Z &z) { return z.r < infinity(); }
  static __device__ __forceinline__ double value(const Z &z) { return z.r; }
};

}  // namespace sdtw::cuda::general
