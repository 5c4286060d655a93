// Sweeps over a tile by rules other than the core's, for any vector type. Included by kernels_*.cpp inside its
// namespace, after sweeps.h, whose order of cells these have.

// Applied to m (1 + excess) rather than 1 + excess to m: see core/cell.h on what excess is rounded by.
template <class V>
inline __attribute__((always_inline)) core::Scaled<V> apply(const core::Scaled<V> &z,
                                                            const core::StepFactor<V> &factor) {
  return {V::fma(z.m, factor.excess, z.m), V::sub(z.e, factor.integer)};
}

// ratio (n + f), split again. n is exact as a number: engine_for sees to it that it is below 2^22.
template <class V>
inline __attribute__((always_inline)) typename V::Split weigh(const typename V::Split &t, typename V::Real ratio,
                                                              typename V::Real ratio_low) {
  const auto whole = V::split(V::real_of(t.integer), ratio, ratio_low);
  const auto rest = V::split(V::fma(t.fraction, ratio, whole.fraction), V::set1(1), V::set1(0));
  return {V::sub(whole.integer, V::sub(V::whole(0), rest.integer)), rest.fraction};
}

// The three predecessors of a cell with the cost of their steps.
template <class V>
struct Entered {
  core::Scaled<V> up, left, diagonal;
};

// The derivatives along tangents of a cell's R, and of the probabilities by which it is entered.
template <class V>
struct CellTangents {
  typename V::Real dot;
  core::Transition<V> entered;
};
// before: those of its predecessors' R. cost: that of its own, which steps have times their weights.
//
// The three alternatives are seen relative to the likeliest: differences of neighbours are what the derivatives of
// probabilities are made of, and what an unlikely one is must cancel nothing. Where no path comes from it may be
// infinite.
template <class V>
inline __attribute__((always_inline)) CellTangents<V> cell_tangents(const core::Transition<V> &p,
                                                                    const core::Transition<V> &before,
                                                                    typename V::Real cost,
                                                                    const core::Transition<V> &weight,
                                                                    typename V::Real by_gamma) {
  const auto likely = V::set1(0.5);
  auto likeliest = V::where(V::at_most(likely, p.left), before.left, before.diagonal);
  likeliest = V::where(V::at_most(likely, p.up), before.up, likeliest);
  const auto by_up = V::where_positive(p.up, V::fma(weight.up, cost, V::sub(before.up, likeliest)));
  const auto by_left = V::where_positive(p.left, V::fma(weight.left, cost, V::sub(before.left, likeliest)));
  const auto by_diagonal =
      V::where_positive(p.diagonal, V::fma(weight.diagonal, cost, V::sub(before.diagonal, likeliest)));
  const auto mean = V::fma(p.up, by_up, V::fma(p.left, by_left, V::mul(p.diagonal, by_diagonal)));
  return {V::add(likeliest, mean),
          {V::mul(V::mul(p.up, by_gamma), V::sub(mean, by_up)), V::mul(V::mul(p.left, by_gamma), V::sub(mean, by_left)),
           V::mul(V::mul(p.diagonal, by_gamma), V::sub(mean, by_diagonal))}};
}

// The soft minimum. What all steps cost alike is taken off after the sum, all else before it. skew: of strips, or else
// of lanes, as in sweep_tile; a mask counts steps from `at` on.
template <class T, int K, bool skew, StepShape shape, bool split, bool save, bool masked, bool tangent>
inline __attribute__((always_inline)) void rule_tile(const RuleSweep<T> &given, int64_t at) {
  using V = Vec<T>;
  using Cell = core::Scaled<V>;
  using Real = typename V::Real;
  constexpr int W = V::width;
  static_assert(skew || !tangent);
  // A penalty moves m by another half bit: 8 cells of a path, or K, before it is brought back to [1, 2).
  constexpr int64_t period = !skew ? 8 - K : K < 8 ? 8 / K : 1;
  constexpr bool penalties = shape == one_weight || shape == any_weights;
  constexpr int P = tangent ? 6 : 3;
  const Sweep<T> &a = given.of;
  const StepRule<T> &rule = *given.rule;

  Cell row[K], above{V::load(a.state.above_m), V::load(a.state.above_e)};
  for (int k = 0; k < K; ++k) row[k] = {V::load(a.state.m + k * W), V::load(a.state.e + k * W)};
  [[maybe_unused]] Real dot[K], above_dot{};
  if constexpr (tangent) {
    above_dot = V::load(given.above_dot);
    for (int k = 0; k < K; ++k) dot[k] = V::load(given.dot + k * W);
  }
  const auto constant = [](T v) { return V::set1(v); };
  core::StepFactor<V> penalty[core::step_count];
  for (int i = 0; i < core::step_count; ++i) penalty[i] = {constant(rule.excess[i]), V::whole(rule.penalty[i])};
  [[maybe_unused]] const core::Transition<V> weight{constant(rule.weight[core::vertical]),
                                                    constant(rule.weight[core::horizontal]),
                                                    constant(rule.weight[core::diagonal])};
  [[maybe_unused]] const auto by_gamma = constant(rule.inverse_gamma);
  const auto cost_of = [&](int64_t s, int k, int step) __attribute__((always_inline)) {
    if constexpr (split) {
      const T *t = a.cost + (s * K + k) * 2 * W;
      const typename V::Split whole{V::load(reinterpret_cast<const int32_t *>(t)), V::load(t + W)};
      if (shape == one_weight || (shape != any_weights && step == core::vertical))
        return whole;
      else
        return weigh<V>(whole, constant(rule.ratio[step]), constant(rule.ratio_low[step]));
    } else {
      return V::split(V::load(a.cost + (s * K + k) * W), constant(rule.scale[step]), constant(rule.scale_low[step]));
    }
  };

  for (int64_t s = 0; s < a.steps; ++s) {
    Cell up = row_above<V, skew>(a, row[K - 1], s);
    Cell diagonal = above;
    above = up;
    [[maybe_unused]] Real up_dot, diagonal_dot;
    if constexpr (tangent) {
      const auto last_dot = V::rotate_up(dot[K - 1]);
      given.row_dot[s - W] = V::first(last_dot);
      up_dot = V::insert_first(last_dot, given.row_dot + s);
      diagonal_dot = above_dot;
      above_dot = up_dot;
    }
    const auto cell_of_row = [&](int k) __attribute__((always_inline)) {
      Entered<V> in{up, row[k], diagonal};
      [[maybe_unused]] core::StepFactor<V> alike;
      // Penalties first: beside what the border's corner has to take that of the first cell back, a cost may vanish.
      if constexpr (penalties) {
        in.diagonal = apply<V>(in.diagonal, penalty[core::diagonal]);
        in.up = apply<V>(in.up, penalty[core::vertical]);
        in.left = apply<V>(in.left, penalty[core::horizontal]);
      }
      if constexpr (shape == any_weights) {
        in.diagonal = apply<V>(in.diagonal, core::step_factor<V>(cost_of(s, k, core::diagonal)));
        in.up = apply<V>(in.up, core::step_factor<V>(cost_of(s, k, core::vertical)));
        in.left = apply<V>(in.left, core::step_factor<V>(cost_of(s, k, core::horizontal)));
      } else {
        alike = core::step_factor<V>(cost_of(s, k, core::vertical));
        if constexpr (shape == doubled_diagonal) in.diagonal = apply<V>(in.diagonal, alike);
        if constexpr (shape == heavier_diagonal)
          in.diagonal = apply<V>(in.diagonal, core::step_factor<V>(cost_of(s, k, diagonal_rest)));
      }
      core::Terms<V> terms;
      const auto sum = core::sum_of<V>(in.up, in.left, in.diagonal, save || tangent ? &terms : nullptr);
      Cell cell{sum.sum, sum.x};
      if constexpr (shape != any_weights) cell = core::enter<V>(sum, alike);
      [[maybe_unused]] typename V::Mask inside;
      if constexpr (masked) {
        inside = V::within(V::whole(static_cast<typename V::ScalarExponent>(at + s)), V::load(given.first + k * W),
                           V::load(given.end + k * W));
        cell.m = V::where(inside, cell.m, V::set1(1));
        cell.e = V::where(inside, cell.e, V::whole(core::Exponent<T>::forbidden));
      }
      if constexpr (save || tangent) {
        auto p = core::probabilities<V>(terms);
        if constexpr (masked) {
          const auto none = V::set1(0);
          p = {V::where(inside, p.up, none), V::where(inside, p.left, none), V::where(inside, p.diagonal, none)};
        }
        [[maybe_unused]] T *out = nullptr;
        if constexpr (save) {
          out = a.entries + (s * K + k) * P * W;
          V::store(out, p.up);
          V::store(out + W, p.left);
          V::store(out + 2 * W, p.diagonal);
        }
        if constexpr (tangent) {
          const auto along = cell_tangents<V>(p, {up_dot, dot[k], diagonal_dot},
                                              V::load(given.tangent + (s * K + k) * W), weight, by_gamma);
          if constexpr (save) {
            V::store(out + 3 * W, along.entered.up);
            V::store(out + 4 * W, along.entered.left);
            V::store(out + 5 * W, along.entered.diagonal);
          }
          diagonal_dot = dot[k];
          dot[k] = along.dot;
          if constexpr (masked) dot[k] = V::where(inside, dot[k], V::set1(0));
          up_dot = dot[k];
        }
      }
      diagonal = row[k];
      row[k] = cell;
      up = cell;
    };
    if constexpr (skew)  // written out they are twice the code, and no faster
      for (int k = 0; k < K; ++k) cell_of_row(k);
    else
      unrolled<K>(cell_of_row);
    if constexpr (!skew) hand_down<V>(a, up, s);
    if (s % period == period - 1) {
      for (int k = 0; k < K; ++k) V::normalize(row[k].m, row[k].e);
      if constexpr (skew) V::normalize(above.m, above.e);
    }
  }
  if constexpr (skew) V::normalize(above.m, above.e);
  V::store(a.state.above_m, above.m);
  V::store(a.state.above_e, above.e);
  for (int k = 0; k < K; ++k) {
    V::normalize(row[k].m, row[k].e);
    V::store(a.state.m + k * W, row[k].m);
    V::store(a.state.e + k * W, row[k].e);
  }
  if constexpr (tangent) {
    V::store(given.above_dot, above_dot);
    for (int k = 0; k < K; ++k) V::store(given.dot + k * W, dot[k]);
  }
}

template <class T, int K, StepShape shape, bool split, bool save, bool masked, bool tangent>
void strip_sweep(const RuleSweep<T> &a) {
  rule_tile<T, K, true, shape, split, save, masked, tangent>(a, 0);
}
template <class T, int K, StepShape shape, bool split, bool save>
void lane_sweep(const LaneSweep<T> &a) {
  RuleSweep<T> given{};
  given.of = a.of, given.rule = a.rule;
  given.first = a.first, given.end = a.end;
  rule_tile<T, K, false, shape, split, save, true, false>(given, a.column);
}

// The adjoint where what is wanted is E times the expected weight of the step into the cell, and its derivative along
// the tangents: the product rule in every line.
template <class T, int K, bool skew, bool tangent>
void rule_adjoint(const RuleAdjoint<T> &given) {
  using V = Vec<T>;
  using Real = typename V::Real;
  static_assert(skew || !tangent);
  constexpr int W = V::width, P = tangent ? 6 : 3;
  const AdjointSweep<T> &a = given.of;
  const auto by_up = V::set1(given.rule->weight[core::vertical]),
             by_left = V::set1(given.rule->weight[core::horizontal]);
  const auto by_diagonal = V::set1(given.rule->weight[core::diagonal]);
  Real left[K], diagonal[K], above = V::load(a.above);
  [[maybe_unused]] Real left_dot[K], diagonal_dot[K], above_dot{};
  for (int k = 0; k < K; ++k) {
    left[k] = V::load(a.left + k * W);
    diagonal[k] = V::load(a.diagonal + k * W);
    if constexpr (tangent) {
      left_dot[k] = V::load(given.left_dot + k * W);
      diagonal_dot[k] = V::load(given.diagonal_dot + k * W);
    }
  }
  if constexpr (tangent) above_dot = V::load(given.above_dot);
  for (int64_t s = a.steps - 1; s >= 0; --s) {
    Real below = row_below<V, skew>(a, above, s);
    [[maybe_unused]] Real below_dot;
    if constexpr (tangent) {
      given.row_dot[s + 1] = V::first(above_dot);
      below_dot = V::insert_last(V::rotate_down(above_dot), given.row_dot + s - W + 1);
    }
    for (int k = K - 1; k >= 0; --k) {
      const int64_t at = (s * K + k) * W;
      const T *p = a.entries + at * P;
      const auto up_p = V::load(p), left_p = V::load(p + W), diagonal_p = V::load(p + 2 * W);
      const auto e = V::add(below, left[k]);
      const auto weight = V::fma(by_up, up_p, V::fma(by_left, left_p, V::mul(by_diagonal, diagonal_p)));
      const auto seen = V::at_least(e, static_cast<T>(core::negligible_alignment));
      V::store(a.alignment + at, V::mul(seen, weight));
      if constexpr (tangent) {
        const auto up_d = V::load(p + 3 * W), left_d = V::load(p + 4 * W), diagonal_d = V::load(p + 5 * W);
        const auto e_dot = V::add(below_dot, left_dot[k]);
        const auto weight_dot = V::fma(by_up, up_d, V::fma(by_left, left_d, V::mul(by_diagonal, diagonal_d)));
        V::store(given.alignment_dot + at, V::where_positive(seen, V::fma(e_dot, weight, V::mul(seen, weight_dot))));
        below_dot = V::fma(up_p, e_dot, V::fma(up_d, e, diagonal_dot[k]));
        left_dot[k] = V::fma(left_p, e_dot, V::mul(left_d, e));
        diagonal_dot[k] = V::fma(diagonal_p, e_dot, V::mul(diagonal_d, e));
      }
      below = V::fma(up_p, e, diagonal[k]);
      left[k] = V::mul(left_p, e);
      diagonal[k] = V::mul(diagonal_p, e);
    }
    if constexpr (skew)
      above = below;
    else
      V::store(a.row + s * W, below);
    if constexpr (tangent) above_dot = below_dot;
  }
  V::store(a.above, above);
  if constexpr (tangent) V::store(given.above_dot, above_dot);
  for (int k = 0; k < K; ++k) {
    V::store(a.left + k * W, left[k]);
    V::store(a.diagonal + k * W, diagonal[k]);
    if constexpr (tangent) {
      V::store(given.left_dot + k * W, left_dot[k]);
      V::store(given.diagonal_dot + k * W, diagonal_dot[k]);
    }
  }
}
