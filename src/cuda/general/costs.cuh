// Fills a tile with costs, by the warps of a block that do so: the sums over features in double, by differences, which
// cancel nowhere, or of float points from products. Of differences a thread has four rows and a share of the columns of
// the tile. Where there are many features it has more of the columns but only some of the features, since what it loads
// from shared memory serves more cells then, and threads add up each other's sums in the end.
#pragma once

#include <cfloat>

#include "cuda/general/cost_sums.cuh"
#include "cuda/general/products.cuh"
#include "cuda/general/resident_points.cuh"

namespace sdtw::cuda::general {

// Where the planes of a tile lie in shared memory: those of costs, which
// transitions take the place of; the metric's slope (euclidean only, in
// backward); the costs' derivatives along the tangents.
template <class Cell, bool tangents, int T>
struct Planes {
  using Real = typename Cell::Real;
  static constexpr int size = T * pitch;
  Real *base, *slope, *along;

  __device__ __forceinline__ Real *plane(int i) const { return base + i * size; }
};

// Walk: the tiles in the order in which they are filled, by so many warps. resident: from points of which all features
// are in shared memory.
template <class Cell, bool tangents, int T, bool with_slope, class Walk, int warps, bool resident = false>
struct Fill {
  using Real = typename Cell::Real;
  using Sum = SumOf<Cell, resident>;
  static constexpr int threads = warps * warp;
  // Warps that sum up the same columns of a tile, each a part of the features, where there are many.
  static constexpr int S = T > warps ? T / warps : 1, most = T < 4 ? T : 4;
  static constexpr bool fits = with_slope || T > warps || resident;  // what they give each other, in the tile
  // At gamma = 0 costs have the same bits in forward and backward, so that the best path is the same.
  static constexpr bool alone = tangents || !Cell::soft || T < warps || !fits || S >= most;
  static constexpr int groups = alone ? 1 : most / S, together = S * groups;
  static constexpr int step_groups = T / together;
  static constexpr int rows_together = S > 2 && warps > 4 ? 1 : K;  // as there are registers for
  // What they give each other, in the memory of the tile: each its sums of the columns that others complete.
  static constexpr size_t exchange_bytes = (groups - 1) * S * K * threads * sizeof(Sum);
  using Points =
      std::conditional_t<resident, ResidentPoints<Walk, T, threads>, Feed<Walk, T, threads, tangents, with_slope>>;
  // Costs may come from products, where the host says so: never where float64 is slow. A warp multiplies rows of eight
  // lanes, two of each.
  static constexpr bool multiplies = Cell::soft && !Cell::wide && !tangents && warps == 2 * warp / 8;

  const Args &a;
  const Task &s;
  const Block &block;
  Points feed;

  // rows: x of the strip in shared memory, as GradientPoints has it, or null.
  __device__ __forceinline__ Fill(const Args &args, const Task &task, const Block &of, unsigned char *memory, int slots,
                                  int thread, const Walk &first, const unsigned char *rows = nullptr)
      : a(args), s(task), block(of), feed(args, task, memory, slots, thread, first, rows) {}

  static __device__ __forceinline__ void meet() { meet_at(filling, threads); }
  // The first of a thread's own steps; there are none from T on.
  static __device__ __forceinline__ int first_of(int thread) {
    const int number = thread / warp;
    if constexpr (T < warps) return number;
    return number % step_groups * together + number / step_groups * S;
  }

  // Costs that are given.
  __device__ __forceinline__ void look_up(int first_step, int thread, Sums<S, Sum> &sums, Sums<S, Sum> &along) const {
    const int u0 = first_of(thread);
    if (u0 >= T) return;
#pragma unroll
    for (int i = 0; i < S; i++)
#pragma unroll
      for (int k = 0; k < K; k++) {
        const int row = lane_id() * K + k, column = first_step + u0 + i - lane_id();
        if (column < block.first[row] || column >= block.end[row]) continue;
        using Given = std::conditional_t<std::is_same_v<Sum, double>, double, float>;
        const auto of = [&](const Series &series) {
          return element<Given>(series.data,
                                s.index.pair * series.stride[0] + s.row_of(row) * series.stride[1] +
                                    s.column_of(column) * series.stride[2],
                                series.dtype);
        };
        sums.v[i][k] = Sum{of(a.x)};
        if constexpr (tangents)  // of a forbidden cell it may be anything, as of log p at p = 0
          along.v[i][k] = Sum{isinf(of(a.x)) ? Given{0} : of(a.tangent_x)};
      }
  }

  // shares: x is that of `rows`.
  template <class In, bool shares, int count>
  __device__ __forceinline__ void add(int features, int u0, int part, int parts, Sums<count, Sum> &sums,
                                      [[maybe_unused]] Sums<S, Sum> &along) const {
    const auto p = feed.template points<In>(0);
    const bool absolute = a.metric == SDTW_CITYBLOCK;
    decltype(p.y) of_y[count];
#pragma unroll
    for (int i = 0; i < count; i++) of_y[i] = p.y + feed.place_of_column(u0 - lane_id() + warp - 1 + i);
    if constexpr (shares) {
      const auto *of_x = p.x + lane_id() * K;
      absolute ? add_terms<true, pitch, 1, Points::y_pitch>(of_x, of_y, part, parts, features, sums)
               : add_terms<false, pitch, 1, Points::y_pitch>(of_x, of_y, part, parts, features, sums);
    } else {
      const auto *of_x = p.x + lane_id();
      absolute
          ? add_terms<true, Points::x_pitch, rows_apart, Points::y_pitch>(of_x, of_y, part, parts, features, sums)
          : add_terms<false, Points::x_pitch, rows_apart, Points::y_pitch>(of_x, of_y, part, parts, features, sums);
    }
    if constexpr (tangents) {
      const auto d = feed.template points<In>(1);
      absolute ? add_along<true, T>(p, d, features, u0, along) : add_along<false, T>(p, d, features, u0, along);
    }
  }
  template <int count>
  __device__ __forceinline__ void sum_up(int u0, int part, int parts, Sums<count, Sum> &sums, Sums<S, Sum> &along) {
    sums.clear();
#pragma unroll 1
    for (int from = 0; from < a.cost_features; from += feed.together()) {
      feed.take(meet);
      if (u0 >= T) continue;
      const int features = min(feed.together(), a.cost_features - from);
      if constexpr (resident)
        add<float, false>(features, u0, part, parts, sums, along);
      else
        with_sharing([&](auto shares) {
          a.x.dtype == SDTW_F64 ? add<double, shares.value>(features, u0, part, parts, sums, along)
                                : add<float, shares.value>(features, u0, part, parts, sums, along);
        });
    }
  }
  // Calls visit with whether x is that of `rows`.
  template <class Visit>
  __device__ __forceinline__ void with_sharing(const Visit &visit) const {
    if constexpr (Points::may_share)
      if (feed.shares()) return visit(std::true_type{});
    visit(std::false_type{});
  }

  // The squares of the thread's cells from products, or from differences where products do not do.
  __device__ __forceinline__ void sum_products(double *memory, int first_step, int thread, Sums<S> &sums) {
    const bool centred = a.metric != SDTW_COSINE;
    const int number = thread / warp, origin = place_of_row(s.reversed ? s.spare() : 0);
    using Part = Products<T>;
    Part part(number % 4, number / 4);
#pragma unroll 1
    for (int from = 0; from < a.cost_features; from += feed.together()) {
      feed.take(meet);
      const auto p = feed.template points<float>(0);
      decltype(p.y) of_y[Part::matrices];
#pragma unroll
      for (int j = 0; j < Part::matrices; j++) of_y[j] = p.y + feed.place_of_column(part.column(j));
      if constexpr (resident)
        part.template add<4, Points::x_pitch, Points::y_pitch>(p.x, of_y, feed.origin, a.cost_features);
      else
        with_sharing([&](auto shares) {
          constexpr int x_pitch = shares.value ? pitch : Points::x_pitch, apart = shares.value ? 1 : rows_apart;
          part.template add<features_of_slot<T> / 4, x_pitch, apart, Points::y_pitch>(
              p.x, of_y, centred ? p.x + origin : nullptr, min(feed.together(), a.cost_features - from));
        });
    }
    if constexpr (resident)
      part.take_norms(feed.row_norms, [&](int i) { return feed.column_norms[feed.place_of_column(i)]; });
    else
      part.take_norms(!centred);
    part.put(a, memory);
    meet();
    const int u0 = first_of(thread);
    const auto take = [&] {
      bool all = true;
#pragma unroll
      for (int i = 0; i < S; i++)
#pragma unroll
        for (int k = 0; k < K; k++) {
          const double sum = u0 < T ? *Part::at(memory, k, u0 + i, lane_id()) : 0;
          sums.v[i][k] = sum, all &= sum == sum;
        }
      return all;
    };
    if (!__all_sync(all_lanes, take()) && centred) {
      take_differences(memory, first_step, u0);
      take();
    }
    meet();  // then the memory is free
  }
  // Takes differences in the warp's cells that have none: by all lanes together where these are few cells.
  __device__ __forceinline__ void take_differences(double *memory, int first_step, int u0) const {
    constexpr int few = 4;
    const auto sum = [&](int i, int j, int from, int apart) {
      const int64_t of_x = s.index.x * a.x.stride[0] + s.row_of(i) * a.x.stride[1];
      const int64_t of_y = s.index.y * a.y.stride[0] + s.column_of(j) * a.y.stride[1];
      double v = 0;
#pragma unroll 4
      for (int f = from; f < a.cost_features; f += apart) {
        const double difference = element<double>(a.x.data, of_x + f * a.x.stride[2], a.x.dtype) -
                                  element<double>(a.y.data, of_y + f * a.y.stride[2], a.y.dtype);
        v = fma(difference, difference, v);
      }
      return v;
    };
#pragma unroll 1
    for (int at = 0; at < S * K && u0 < T; at++) {
      const int row = lane_id() * K + at % K, u = u0 + at / K, column = first_step + u - lane_id();
      double &own = *Products<T>::at(memory, at % K, u, lane_id());
      const bool lacks = !(own == own) && column >= block.first[row] && column < block.end[row];
      unsigned lanes = __ballot_sync(all_lanes, lacks);
      if (__popc(lanes) > few) {
        if (lacks) own = sum(row, column, 0, 1);
        continue;
      }
      for (; lanes; lanes &= lanes - 1) {
        const int lane = __ffs(lanes) - 1;
        const double v =
            warp_sum(sum(__shfl_sync(all_lanes, row, lane), __shfl_sync(all_lanes, column, lane), lane_id(), warp));
        if (lane_id() == lane) own = v;
      }
    }
  }
  // Every group has sums of its own features over all columns that the groups have together, and gets the whole sums of
  // its own columns. The order of additions is that of the groups.
  __device__ __forceinline__ void combine(const Sums<together, Sum> &parts, int thread, Sum *memory,
                                          Sums<S, Sum> &sums) const {
    constexpr int size = S * K;
    const int number = thread / warp, group = number / step_groups;
    const auto slot = [&](int from, int to) {  // what group `from` leaves for group `to`
      const int place = to < from ? to : to - 1;
      return memory + ((number % step_groups + from * step_groups) * (groups - 1) + place) * size * warp + lane_id();
    };
#pragma unroll
    for (int to = 0; to < groups; to++) {
      if (to == group) continue;
      Sum *there = slot(group, to);
#pragma unroll
      for (int i = 0; i < S; i++)
#pragma unroll
        for (int k = 0; k < K; k++) there[(i * K + k) * warp] = parts.v[to * S + i][k];
    }
    meet();
    sums.clear();
#pragma unroll
    for (int from = 0; from < groups; from++) {
      const Sum *here = slot(from, group);
#pragma unroll
      for (int i = 0; i < S; i++)
#pragma unroll
        for (int k = 0; k < K; k++) {
          Sum own{};
#pragma unroll
          for (int g = 0; g < groups; g++) own = g == group ? parts.v[g * S + i][k] : own;
          add_to(sums.v[i][k], from == group ? own : here[(i * K + k) * warp]);
        }
    }
    meet();  // then the memory is free
  }

  // The costs given, or the metric's, of the thread's cells.
  __device__ __forceinline__ void measure(Sum *memory, int first_step, int thread, Sums<S, Sum> &sums,
                                          Sums<S, Sum> &along) {
    if constexpr (tangents) along.clear();
    if (!a.fused) {
      sums.clear();
      return look_up(first_step, thread, sums, along);
    }
    if constexpr (multiplies && std::is_same_v<Sum, double>) {
      if (a.products) {
        sum_products(memory, first_step, thread, sums);
        return finish(sums, along);
      }
    }
    if constexpr (groups > 1) {
      if (a.cost_features > at_once) {
        Sums<together, Sum> parts;
        const int number = thread / warp;
        sum_up(number % step_groups * together, number / step_groups, groups, parts, along);
        combine(parts, thread, memory, sums);
        return finish(sums, along);
      }
    }
    sum_up(first_of(thread), 0, 1, sums, along);
    finish(sums, along);
  }
  __device__ __forceinline__ void finish(Sums<S, Sum> &sums, Sums<S, Sum> &along) const {
    const auto each = [&](const auto &cell) {
#pragma unroll
      for (int i = 0; i < S; i++)
#pragma unroll
        for (int k = 0; k < K; k++) cell(sums.v[i][k], along.v[i][k]);
    };
    if (a.metric == SDTW_EUCLIDEAN) {
#pragma unroll
      for (int i = 0; i < S; i++) take_roots<Cell, rows_together>(sums.v[i]);
      if constexpr (tangents) each([](Sum &sum, Sum &change) { change = times_slope(change, sum); });
    } else if (a.metric == SDTW_COSINE)
      each([](Sum &sum, Sum &) { halve(sum); });
    else if (tangents && a.metric == SDTW_SQEUCLIDEAN)
      each([](Sum &, Sum &change) { add_to(change, change); });
  }
  static __device__ __forceinline__ double times_slope(double change, double cost) {
    return change * core::Euclidean::slope(cost);
  }
  static __device__ __forceinline__ TwoFloats times_slope(const TwoFloats &change, const TwoFloats &cost) {
    return product(change, slope_of(cost));
  }

  // Finite where the cost is so small that its reciprocal is not.
  static __device__ __forceinline__ Real slope_of(const Sum &cost) {
    if constexpr (Cell::wide) return fmin(core::Euclidean::slope(cost), DBL_MAX);
    const auto rounded = rounded_of<float>(cost);
    const float up = rounded < 1e-20f ? 0x1p60f : rounded > 1e20f ? 0x1p-60f : 1.0f;  // reciprocals are normal floats
    return rounded > 0 ? fminf(reciprocal(rounded * up) * up, 3e38f) : 0.0f;
  }

  // Whether floats do not hold a weight times the slope of a distance, which is less than 2^-60: of doubles by their
  // high words. In two floats squares of less than 2^-120 have lost digits, too.
  static __device__ __forceinline__ bool is_tiny(const Sum &distance) {
    if constexpr (Cell::wide)
      return false;
    else if constexpr (std::is_same_v<Sum, double>)
      return static_cast<unsigned>(__double2hiint(distance)) - 1 < 0x3c2fffff;
    else
      return distance.high > 0 && distance.high < 0x1p-60f;
  }
  // Whether floats hold what is made of a cost's derivative: of euclidean a weight times the square of its slope, too.
  __device__ __forceinline__ bool is_moderate(const Sum &cost, const Sum &change) const {
    const auto size = leading_of(cost), moved = fabs(leading_of(change));
    if (a.metric != SDTW_EUCLIDEAN) return moved < decltype(size)(1e12);
    return (size == 0 || size > decltype(size)(1e-12)) && moved < decltype(size)(1e6);
  }
  // The next of the tiles. thread: of those that fill.
  __device__ __forceinline__ void run(const Planes<Cell, tangents, T> &to, int first_step, int thread,
                                      const typename Cell::Units &units) {
    Sums<S, Sum> sums;
    Sums<S, Sum> along;
    measure(reinterpret_cast<Sum *>(to.base), first_step, thread, sums, along);
    const int u0 = first_of(thread);
    if (u0 >= T) return;
    int flags = 0;
    bool steep = false;
    const bool begins = !s.reversed && s.row == 0 && lane_id() == 0;
#pragma unroll
    for (int i = 0; i < S; i++) {
      typename Cell::Costs costs;
      const int column = first_step + u0 + i - lane_id();
      const Rows<int> first = *reinterpret_cast<const Rows<int> *>(block.first + lane_id() * K);
      const Rows<int> end = *reinterpret_cast<const Rows<int> *>(block.end + lane_id() * K);
      bool admitted[K];
      Rows<Real> slope{}, derivative{};
#pragma unroll
      for (int k = 0; k < K; k++) {
        admitted[k] = column >= first.v[k] && column < end.v[k];
        if constexpr (!std::is_same_v<Sum, double>)  // a cost that is given, not one that leaves the range of a float
          admitted[k] = admitted[k] && (a.fused || sums.v[i][k].high != INFINITY);
        if (a.metric == SDTW_EUCLIDEAN) {
          if constexpr (with_slope) slope.v[k] = admitted[k] ? slope_of(sums.v[i][k]) : Real(0);
          steep |= admitted[k] && is_tiny(sums.v[i][k]);
        }
        if constexpr (tangents) {
          const bool fits = Cell::wide || !admitted[k] || is_moderate(sums.v[i][k], along.v[i][k]);
          derivative.v[k] = admitted[k] && fits ? rounded_of<Real>(along.v[i][k]) : Real(0);
          steep |= !fits;
        }
      }
#pragma unroll
      for (int k = 0; k < K; k += rows_together)
        flags |= costs.template set<rows_together>(sums.v[i], admitted, k, column == 0 && begins ? 0 : K, units);
      costs.store(to.base, T, u0 + i);
      if constexpr (with_slope)
        if (a.metric == SDTW_EUCLIDEAN) *rows_at<Real>(to.slope, u0 + i) = slope;
      if constexpr (tangents) *rows_at<Real>(to.along, u0 + i) = derivative;
    }
    if (steep) flags |= rejected;
    flags = (__any_sync(all_lanes, flags & rejected) ? rejected : 0) |
            (__any_sync(all_lanes, flags & not_a_number) ? not_a_number : 0);
    if (flags && lane_id() == 0) raise(a, s, flags);
  }
};

// The limit of |D log2(e) / gamma| in a pair, at gamma = 0 of |D|.
template <class Cell>
__device__ __forceinline__ double limit_of(const Args &a, const Task &s) {
  if constexpr (!Cell::soft) return Cell::limit(a, s.n, s.m);
  if constexpr (Cell::wide) return core::largest_wide_cost;
  if (a.least_weight < 0 || !core::is_float_scale(a.scale)) return -1;  // nor is what derivatives are divided by
  // Of a step, of which many paths may make less by two bits, so that no path comes near forbidden cells.
  const double range = 0.98 * core::Exponent<float>::limit / (static_cast<double>(s.n) + s.m) - 2;
  double penalty = 0;  // costs of weighted cells have theirs in them
  if constexpr (Cell::penalised)
    for (int way = 0; way < transitions; way++) penalty = fmax(penalty, fabs(a.penalty[way]));
  // Of euclidean the step's weight times E is divided by the distance, which is to leave more than nothing
  // (general/gradients.cuh): distances up to 1e12 times the weight, in units of that weight.
  const double far = a.metric == SDTW_EUCLIDEAN ? 1e12 * a.least_weight * a.least_weight * a.scale : range;
  return fmin(fmin(range, far), core::float_cost_limit) - penalty;
}

}  // namespace sdtw::cuda::general
