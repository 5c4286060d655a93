// The cells of the general engine with gamma = 0: the minimum, with R itself. What cells of both kinds have is
// described in cell.cuh.
#pragma once

#include <cfloat>

#include "cuda/general/numbers.cuh"
#include "cuda/room.h"

namespace sdtw::cuda::general {

// R, and costs, in double. `forbidden` is R of a forbidden cell, and the cost of a cell that is none of the pair's.
struct HardDoubles {
  using Number = double;
  static constexpr bool is_exact = true;  // sums of costs have as many digits as anybody asks for
  static __device__ __forceinline__ double forbidden() { return __longlong_as_double(0x7ff0000000000000ll); }
  static __device__ __forceinline__ bool is_forbidden(double v) { return !(v < forbidden()); }
  static __device__ __forceinline__ double of(double v) { return v; }
  static __device__ __forceinline__ bool less(double a, double b) { return a < b; }
  static __device__ __forceinline__ bool at_most(double a, double b) { return a <= b; }
  static __device__ __forceinline__ double sum(double a, double b) { return a + b; }
  static __device__ __forceinline__ double step(double weight, double cost, double r, double penalty) {
    return fma(weight, cost, r + penalty);
  }
};

// In two floats, where float64 is slow: costs of a float's range, so that no path comes near R of forbidden cells. Of
// what is less than `least` they have not all digits.
struct HardFloats {
  using Number = TwoFloats;
  static constexpr bool is_exact = false;
  static constexpr float least = 1e-18f, beyond = 1e37f;
  static __device__ __forceinline__ TwoFloats forbidden() { return {1e38f, 0}; }
  static __device__ __forceinline__ bool is_forbidden(const TwoFloats &v) { return v.high > beyond; }
  static __device__ __forceinline__ TwoFloats of(double v) { return TwoFloats::of(v); }
  static __device__ __forceinline__ bool less(const TwoFloats &a, const TwoFloats &b) {
    return a.high < b.high || (a.high == b.high && a.low < b.low);
  }
  static __device__ __forceinline__ bool at_most(const TwoFloats &a, const TwoFloats &b) { return !less(b, a); }
  static __device__ __forceinline__ TwoFloats sum(const TwoFloats &a, const TwoFloats &b) {
    TwoFloats v = a;
    add(v, b);
    return normalised(v);
  }
  static __device__ __forceinline__ TwoFloats step(const TwoFloats &weight, const TwoFloats &cost, const TwoFloats &r,
                                                   const TwoFloats &penalty) {
    return sum(sum(r, penalty), normalised(product(weight, cost)));
  }
};

// gamma = 0: R is the least of its three candidates; ties go to the diagonal, the vertical, the horizontal step. Of
// unit steps the least of the three neighbours, and then the cost. Real: of E, float in float problems, of which pairs
// with costs beyond a float's range are left to double.
template <Rule rule, class Real_>
struct Hard {
  using Real = Real_;
  static constexpr bool wide = std::is_same_v<Real, double>, soft = false, penalised = false, several = false;
  using R = std::conditional_t<avoids_float64 && !wide, HardFloats, HardDoubles>;
  using Number = typename R::Number;
  struct Z {
    Number r;
  };
  static constexpr bool weighted = rule != Rule::unit;
  static constexpr int cost_planes = sizeof(Number) / sizeof(Real), together = 8;

  static __device__ __forceinline__ Z forbidden() { return {R::forbidden()}; }
  static __device__ __forceinline__ void renormalise(Z &) {}
  static __host__ __device__ __forceinline__ constexpr int words(Format) { return 1; }

  // The limit of |cost|. A float problem's pair with a larger one is rejected: gradients, what distances are divided
  // by, and sums in two floats, are to have room in a float. All of them are where weights have none.
  static __device__ __forceinline__ double limit(const Args &a, int n, int m) {
    if constexpr (wide) return DBL_MAX;
    if (a.least_weight < 0) return -1;
    double weight = 1, penalty = 0;
    for (int way = 0; way < transitions; way++)
      weight = fmax(weight, a.weight[way]), penalty = fmax(penalty, fabs(a.penalty[way]));
    const double most = (R::is_exact ? 1e36 : 1e34 / (static_cast<double>(n) + m)) / weight;
    if (!R::is_exact && penalty > most) return -1;
    return a.metric == SDTW_EUCLIDEAN ? fmin(most, 1e12) : most;
  }
  struct Units {
    double limit;
    float float_limit;
    __device__ __forceinline__ Units(const Args &, double of_pair)
        : limit(of_pair), float_limit(static_cast<float>(of_pair)) {}
  };

  struct Costs {
    Rows<Number> d;

    // In two planes of floats halves of a number, as each step's transitions take the place of its own costs.
    __device__ __forceinline__ void load(Real *planes, int steps, int u) {
      if constexpr (cost_planes == 1) {
        d = *rows_at<Number>(planes, u);
      } else {
        const Rows<float> first = *rows_at<float>(planes, u), second = *rows_at<float>(planes + steps * pitch, u);
#pragma unroll
        for (int k = 0; k < K; k++) join(first.v[k], second.v[k], d.v[k]);
      }
    }
    __device__ __forceinline__ void store(Real *planes, int steps, int u) const {
      if constexpr (cost_planes == 1) {
        *rows_at<Number>(planes, u) = d;
      } else {
        Rows<float> first, second;
#pragma unroll
        for (int k = 0; k < K; k++) split(d.v[k], first.v[k], second.v[k]);
        *rows_at<float>(planes, u) = first, *rows_at<float>(planes + steps * pitch, u) = second;
      }
    }
    template <int rows>
    __device__ __forceinline__ int set(const double (&cost)[K], const bool (&admitted)[K], int begin, int,
                                       const Units &units) {
      const double infinity = HardDoubles::forbidden();
      int flags = 0;
#pragma unroll
      for (int k = begin; k < begin + rows; k++) {
        const bool forbid = !admitted[k] || cost[k] == infinity;
        const bool bad = !forbid && !(fabs(cost[k]) <= units.limit);
        d.v[k] = forbid || bad ? infinity : cost[k];
        flags |= bad ? (wide ? not_a_number : rejected) : 0;
      }
      return flags;
    }
    template <int rows>
    __device__ __forceinline__ int set(const TwoFloats (&cost)[K], const bool (&admitted)[K], int begin, int,
                                       const Units &units) {
      int flags = 0;
#pragma unroll
      for (int k = begin; k < begin + rows; k++) {
        const bool bad = admitted[k] && !(fabsf(cost[k].high) <= units.float_limit);
        d.v[k] = !admitted[k] || bad ? R::forbidden() : normalised(cost[k]);
        flags |= bad ? rejected : 0;
      }
      return flags;
    }
  };

  struct Steps {
    Number weight[transitions], penalty[transitions];

    __device__ __forceinline__ explicit Steps(const Args &a) {
#pragma unroll
      for (int way = 0; way < transitions; way++)
        weight[way] = R::of(a.weight[way]), penalty[way] = R::of(a.penalty[way]);
    }
    // Taken back exactly so.
    __device__ __forceinline__ Z before_first() const { return {weighted ? opposite(penalty[diagonal]) : Number{}}; }
  };

  // chosen: the step that the best path to the cell ends with.
  static __device__ __forceinline__ Z best(const Costs &c, int k, const Steps &steps, const Z &d, const Z &v,
                                           const Z &h, int &chosen) {
    const Number cost = c.d.v[k];
    const bool forbid = (weighted || !R::is_exact) && R::is_forbidden(cost);
    Number td = d.r, tv = v.r, th = h.r;
    if constexpr (weighted) {
      const Number at = forbid ? Number{} : cost;
      // Penalties first: that of the first cell has been taken back.
      td = R::step(steps.weight[diagonal], at, d.r, steps.penalty[diagonal]);
      tv = R::step(steps.weight[vertical], at, v.r, steps.penalty[vertical]);
      th = R::step(steps.weight[horizontal], at, h.r, steps.penalty[horizontal]);
    }
    // The vertical neighbour is the last to be known.
    const bool beside = R::less(th, td);
    const Number side = beside ? th : td;
    const bool down = R::less(tv, side) | (beside & R::at_most(tv, side));
    const Number best = down ? tv : side;
    chosen = down ? vertical : beside ? horizontal : diagonal;
    return {forbid ? R::forbidden() : weighted ? best : R::sum(best, cost)};
  }
  template <bool with_terms>
  static __device__ __forceinline__ Z next(const Costs &c, int k, const Steps &steps, const Z &d, const Z &v,
                                           const Z &h, Real (&p)[transitions]) {
    int chosen;
    const Z z = best(c, k, steps, d, v, h, chosen);
    if constexpr (with_terms)
#pragma unroll
      for (int way = 0; way < transitions; way++) p[way] = probability(way == chosen, Real{});
    return z;
  }
  // 1 or 0.
  static __device__ __forceinline__ double probability(bool is_1, double) {
    return __hiloint2double(is_1 ? 0x3ff00000 : 0, 0);
  }
  static __device__ __forceinline__ float probability(bool is_1, float) { return is_1 ? 1.0f : 0.0f; }
  static __device__ __forceinline__ void normalise(Real (&)[transitions]) {}

  static __device__ __forceinline__ void store(Word *p, Format, const Z &z) { store_relaxed(p, word_of(z.r)); }
  static __device__ __forceinline__ Z unpack(Word first, Word, Format) {
    Z z;
    take(first, z.r);
    return z;
  }
  static __device__ __forceinline__ Z from_above(const Z &z) { return {general::from_above(z.r)}; }
  static __device__ __forceinline__ Z of_lane(const Z &z, int lane) { return {general::of_lane(z.r, lane)}; }
  static __device__ __forceinline__ Z choose(bool first, const Z &a, const Z &b) { return {first ? a.r : b.r}; }
  static __device__ __forceinline__ bool reachable(const Z &z) { return !R::is_forbidden(z.r); }
  static __device__ __forceinline__ double value(const Z &z) { return whole_of(z.r); }
  // Whether costs may have digits that R has not: the pair is rejected.
  static __device__ __forceinline__ bool lacks_digits(const Z &z) {
    return !R::is_exact && fabs(whole_of(z.r)) < static_cast<double>(HardFloats::least);
  }
};

}  // namespace sdtw::cuda::general
