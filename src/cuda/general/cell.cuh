// The cells of the general engine with gamma > 0: softmin with Z = exp(-R / gamma) of a float and an int or of two
// doubles, as in sweep/cell.cuh. Steps may have penalties, by which Z of a neighbour is multiplied, and may differ in
// weight: then each of the three transitions into a cell has a cost of its own, or, if a diagonal step weighs twice as
// much as the two others, has the cell's once or twice: c (v + h + c d), where c is 2^-t. Those of gamma = 0 are in
// hard_cell.cuh.
//
// Words of stored cells are never 0, which is what a word is that has not been written: those of a row that a strip
// hands on are looked at until they are there.
//
// Costs wait for the sweep in planes in shared memory, [steps][pitch] each: a lane's four rows lie side by side. A
// forbidden cell is one of which the cost is +infinity, or one outside of the band or of the pair.
#pragma once

#include "cuda/costs/two_floats.cuh"
#include "cuda/general/args.h"
#include "cuda/pair.cuh"

namespace sdtw::cuda::general {

constexpr int strip_rows = K * warp;
constexpr int pitch = strip_rows + K;  // of a step in a plane: so that columns,
                                       // too, are read without bank conflicts

// Shares of a sum that are not more than this are those of forbidden cells, of which derivatives are anything.
// FloatCell leaves them 2^-70 at most (sweep/cell.cuh).
template <class Real>
constexpr Real least_share = sizeof(Real) == sizeof(float) ? Real(0x1p-60) : Real(0x1p-900);

// A lane's rows of a plane in step u.
template <class T>
__device__ __forceinline__ Rows<T> *rows_at(void *plane, int u) {
  return reinterpret_cast<Rows<T> *>(static_cast<T *>(plane) + u * pitch + lane_id() * K);
}

// t = D log2(e) / gamma of a transition as n + f, |f| <= 1/2; q = 2^-f - 1.
template <class Base, Rule rule>
struct Soft {
  using Real = typename Base::Real;
  using Integer = std::conditional_t<Base::wide, double, int>;
  using Z = typename Base::Z;
  static constexpr bool wide = Base::wide, soft = true, penalised = rule == Rule::penalised;
  static constexpr bool doubled = rule == Rule::doubled;
  static constexpr bool several = rule == Rule::weighted;  // costs of a cell, and penalties are part of them
  static constexpr bool weighted = doubled || several;
  static constexpr int ways = several ? transitions : 1, cost_planes = 2 * ways;
  // Steps between two renormalisations. With penalties, and with a cost twice, m may lose another half of a bit in each
  // cell (sweep/cell.cuh): in 4 steps it stays in [2^-16, 2^22].
  static constexpr int together = penalised || doubled ? 4 : 8;

  // n of a forbidden cell. A renormalisation takes exponents of cells whose m is less than 1 below that of a forbidden
  // one, by some 2^5: less n they stay in the range of an int all the same.
  static constexpr int forbidding = -core::Exponent<float>::forbidden - (1 << 10);

  static __device__ __forceinline__ Z forbidden() { return {1, core::Exponent<Real>::forbidden}; }
  static __device__ __forceinline__ Z one() { return Base::one(); }
  static __device__ __forceinline__ void renormalise(Z &z) { Base::renormalise(z); }
  static __host__ __device__ __forceinline__ constexpr int words(Format format) {
    return wide && format == two_words ? 2 : 1;
  }

  // What costs are multiplied with and what is added to make them t of a step, and the limit of |t| beyond which the
  // pair is rejected.
  struct Units {
    double factor[ways], penalty[ways], limit;
    struct {
      TwoFloats factor, penalty;
    } of_floats[ways];
    float float_limit;  // of costs of two floats, none where digits below a float's range may count

    __device__ __forceinline__ Units(const Args &a, double of_pair)
        : limit(of_pair), float_limit(static_cast<float>(of_pair)) {
#pragma unroll
      for (int way = 0; way < ways; way++) {
        factor[way] = rule == Rule::unit ? a.scale : a.weight[doubled ? vertical : way] * a.scale,
        penalty[way] = a.penalty[way];
        of_floats[way] = {TwoFloats::of(factor[way]), TwoFloats::of(penalty[way])};
        const float size = fabsf(of_floats[way].factor.high);
        if (factor[way] != 0 && !(size > 0x1p-100f && size < 0x1p40f)) float_limit = -1;
      }
    }
  };

  struct Costs {
    Rows<Real> q[ways];
    Rows<Integer> n[ways];

    __device__ __forceinline__ void load(Real *planes, int steps, int u) {
#pragma unroll
      for (int way = 0; way < ways; way++) {
        q[way] = *rows_at<Real>(planes + 2 * way * steps * pitch, u);
        n[way] = *rows_at<Integer>(planes + (2 * way + 1) * steps * pitch, u);
      }
    }
    __device__ __forceinline__ void store(Real *planes, int steps, int u) const {
#pragma unroll
      for (int way = 0; way < ways; way++) {
        *rows_at<Real>(planes + 2 * way * steps * pitch, u) = q[way];
        *rows_at<Integer>(planes + (2 * way + 1) * steps * pitch, u) = n[way];
      }
    }
    // The costs of `rows` rows from `begin` on, or forbidden where a row does not admit the column. first: the row
    // whose cell is the pair's first, which is entered without a penalty, or none of them. Returns flags of the pair.
    // What is rare is in a branch for all rows at once, so that the compiler may go through the rows side by side.
    template <int rows>
    __device__ __forceinline__ int set(const double (&cost)[K], const bool (&admitted)[K], int begin, int first,
                                       const Units &units) {
      constexpr double round = 6755399441055744.0;  // 1.5 2^52: adding it leaves an integer in the low word
      int flags = 0;
      bool forbid[rows];
      double t[ways][rows];
      bool odd = false;
#pragma unroll
      for (int i = 0; i < rows; i++) {
        const int k = begin + i;
        forbid[i] = !admitted[k];
#pragma unroll
        for (int way = 0; way < ways; way++) {
          if constexpr (several)
            t[way][i] = fma(cost[k], units.factor[way], k == first ? 0.0 : units.penalty[way]);
          else
            t[way][i] = cost[k] * units.factor[way];
          odd |= !(fabs(t[way][i]) <= units.limit);
        }
      }
      if (odd) {
#pragma unroll
        for (int i = 0; i < rows; i++) {
          if (cost[begin + i] == __longlong_as_double(0x7ff0000000000000ll)) forbid[i] = true;
#pragma unroll
          for (int way = 0; way < ways; way++) {
            if (fabs(t[way][i]) <= units.limit) continue;
            if (!forbid[i]) flags |= !(fabs(t[way][i]) < core::largest_wide_cost) ? not_a_number : rejected;
            t[way][i] = 0;
          }
        }
      }
#pragma unroll
      for (int i = 0; i < rows; i++)
#pragma unroll
        for (int way = 0; way < ways; way++) {
          const double sum = t[way][i] + round, whole = wide ? rint(t[way][i]) : sum - round;
          const Real f = exp2_minus_1(static_cast<Real>(t[way][i] - whole));
          q[way].v[begin + i] = forbid[i] ? 0 : f;
          if constexpr (wide)
            n[way].v[begin + i] = forbid[i] ? -Base::forbidden_e : whole;
          else
            n[way].v[begin + i] = forbid[i] ? forbidding : __double2loint(sum);
        }
      return flags;
    }
    // The same of costs of two floats. What is odd is left to the double engine.
    template <int rows>
    __device__ __forceinline__ int set(const TwoFloats (&cost)[K], const bool (&admitted)[K], int begin, int first,
                                       const Units &units) {
      constexpr float round = 12582912.0f;  // 1.5 2^23, as above: t is below 2^22
      int flags = 0;
#pragma unroll
      for (int k = begin; k < begin + rows; k++) {
#pragma unroll
        for (int way = 0; way < ways; way++) {
          TwoFloats t = product(cost[k], units.of_floats[way].factor);
          if constexpr (several)
            if (k != first) add(t, units.of_floats[way].penalty);
          const bool odd = !(fabsf(t.high) <= units.float_limit);
          if (odd && admitted[k]) flags |= rejected;
          if (odd) t = {};
          // Of large t low may be a sixteenth, and the nearest integer another.
          const float near = t.high + round, rest = (t.high - (near - round)) + t.low;
          const float more = (rest + round) - round;
          q[way].v[k] = admitted[k] ? exp2_minus_1(rest - more) : 0;
          n[way].v[k] = admitted[k] ? __float_as_int(near + more) - __float_as_int(round) : forbidding;
        }
      }
      return flags;
    }
  };

  // The exponent e less n. That of a forbidden cell goes no lower.
  static __device__ __forceinline__ int less(int e, int n) {
    return __viaddmax_s32(e, -n, core::Exponent<float>::forbidden);
  }
  static __device__ __forceinline__ double less(double e, double n) {
    const double v = e - n;
    return v < core::Exponent<double>::forbidden ? core::Exponent<double>::forbidden : v;
  }
  static __device__ __forceinline__ int largest(int a, int b, int c) { return __vimax3_s32(a, b, c); }
  static __device__ __forceinline__ double largest(double a, double b, double c) {
    return DoubleCell::larger(DoubleCell::larger(a, b), c);
  }

  // 2^-penalty of each step as factor 2^-shift, the factor in [2^-1/2, 2^1/2].
  struct Steps {
    Real factor[transitions];
    Integer shift[transitions];

    __device__ __forceinline__ explicit Steps(const Args &a) {
      if constexpr (penalised) {
#pragma unroll
        for (int way = 0; way < transitions; way++) {
          // Pairs are rejected long before a penalty leaves the range of an exponent.
          const double penalty = fmin(fmax(a.penalty[way], -0x1p27), 0x1p27), whole = rint(penalty);
          factor[way] = static_cast<Real>(1 + exp2_minus_1(penalty - whole)), shift[way] = static_cast<int>(whole);
        }
      }
    }
    // The neighbour of a pair's first cell, which is entered without a penalty.
    __device__ __forceinline__ Z before_first() const {
      if constexpr (penalised)
        return {1 / factor[diagonal], shift[diagonal]};
      else
        return one();
    }
  };

  // z with a cost of row k added to R.
  static __device__ __forceinline__ Z with_cost(const Costs &c, int k, const Z &z, int way) {
    return {fma(z.m, c.q[way].v[k], z.m), less(z.e, c.n[way].v[k])};
  }
  // m 2^(e - x) of a neighbour, times 2^-penalty; e has its shift already.
  static __device__ __forceinline__ Real term(const Z &z, Integer x, const Steps &steps, int way) {
    if constexpr (penalised)
      return z.m *
             __uint_as_float(__float_as_uint(steps.factor[way]) + (static_cast<unsigned>(Base::shift(z, x)) << 23));
    else
      return Base::term(z, x);
  }
  // The cell of row k from its neighbours; if with_terms, p is the three terms of its sum.
  template <bool with_terms>
  static __device__ __forceinline__ Z next(const Costs &c, int k, const Steps &steps, Z d, Z v, Z h,
                                           Real (&p)[transitions]) {
    if constexpr (doubled) d = with_cost(c, k, d, 0);
    if constexpr (several) {
      d.e = less(d.e, c.n[diagonal].v[k]), v.e = less(v.e, c.n[vertical].v[k]), h.e = less(h.e, c.n[horizontal].v[k]);
    }
    // No exponent goes below that of a forbidden cell, of which the cost would else take it out of the range of an int.
    if constexpr (penalised) {
      d.e = less(d.e, steps.shift[diagonal]), v.e = less(v.e, steps.shift[vertical]);
      h.e = less(h.e, steps.shift[horizontal]);
    }
    const Integer x = largest(d.e, h.e, v.e);
    Real td = term(d, x, steps, diagonal), th = term(h, x, steps, horizontal), tv = term(v, x, steps, vertical);
    if constexpr (several) {
      td = fma(td, c.q[diagonal].v[k], td), th = fma(th, c.q[horizontal].v[k], th);
      tv = fma(tv, c.q[vertical].v[k], tv);
    }
    if constexpr (with_terms) p[diagonal] = td, p[vertical] = tv, p[horizontal] = th;
    const Real s = td + th + tv;
    if constexpr (several)
      return {s, x};
    else
      return with_cost(c, k, {s, x}, 0);
  }
  // The sum of two cells; p: their terms.
  static __device__ __forceinline__ Z sum(const Z &first, const Z &second, Real (&p)[2]) {
    const Integer x = first.e > second.e ? first.e : second.e;
    p[0] = Base::term(first, x), p[1] = Base::term(second, x);
    return {p[0] + p[1], x};
  }
  // In the sweep from the end, of weighted steps: what a cell gets from the three that follow it, which have the costs
  // of the steps into them in them, and the same with the cost of a step into this one.
  static __device__ __forceinline__ Z gather(const Z &d, const Z &v, const Z &h, Real (&p)[transitions]) {
    const Integer x = largest(d.e, h.e, v.e);
    p[diagonal] = Base::term(d, x), p[vertical] = Base::term(v, x), p[horizontal] = Base::term(h, x);
    return {p[diagonal] + p[horizontal] + p[vertical], x};
  }
  static __device__ __forceinline__ Z enter(const Costs &c, int k, const Z &z, int way) {
    if constexpr (doubled) {
      const Z once = with_cost(c, k, z, 0);
      return way == diagonal ? with_cost(c, k, once, 0) : once;
    } else {
      return with_cost(c, k, z, way);
    }
  }
  // Makes probabilities of terms.
  static __device__ __forceinline__ void normalise(Real (&p)[transitions]) { cuda::normalise(p); }

  static __device__ __forceinline__ void store(Word *p, Format format, const Z &z) {
    if constexpr (!wide) {
      store_relaxed(p, ~Base::pack(z));
    } else if (format == two_words) {
      store_relaxed(p, ~Base::pack(z.m)), store_relaxed(p + 1, ~Base::pack(z.e));
    } else {
      store_relaxed(p, ~core::pack({z.m, z.e}));
    }
  }
  static __device__ __forceinline__ Z unpack(Word first, Word second, Format format) {
    return Base::unpack(~first, ~second, format);
  }
  static __device__ __forceinline__ Z from_above(const Z &z) {
    return {__shfl_up_sync(all_lanes, z.m, 1), __shfl_up_sync(all_lanes, z.e, 1)};
  }
  static __device__ __forceinline__ Z of_lane(const Z &z, int lane) { return Base::shuffle(z, lane); }
  static __device__ __forceinline__ Z choose(bool first, const Z &a, const Z &b) {
    return {first ? a.m : b.m, first ? a.e : b.e};
  }
  // Halfway between what limit_of leaves of a path and what costs that are less than 0 raise a forbidden cell to.
  static __device__ __forceinline__ bool reachable(const Z &z) {
    return z.e > (wide ? Integer(-1e299) : Integer(core::Exponent<float>::forbidden / 2));
  }
  // R, in units of gamma / log2(e).
  static __device__ __forceinline__ double value(const Z &z) {
    return -(log2(static_cast<double>(z.m)) + static_cast<double>(z.e));
  }
};

// The steps of a tile of forward, of which a block has two, in proportion to the warps that fill it, and of half a tile
// of backward, of which it has four. small: where a block has 64 KB of shared memory. resident: points have the room.
template <class Cell, bool small, int fill_warps, bool resident>
constexpr int forward_steps = (!Cell::soft                   ? 16
                               : Cell::wide && Cell::several ? 4
                               : Cell::wide || Cell::several ? 8
                                                             : 16) /
                              (small ? small_tiles : 1) * fill_warps / (resident ? 8 : 4);
template <class Cell, bool tangents, bool small>
constexpr int backward_steps = tile_steps(Cell::soft, Cell::wide, Cell::several, tangents) / 2 /
                               (small ? small_tiles : 1);

}  // namespace sdtw::cuda::general
