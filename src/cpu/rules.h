// What a pair's cells are computed by: its steps, its band, soft minimum or minimum, as the sweeps of strips want them.
#pragma once

#include "core/band.h"
#include "cpu/cells.h"
#include "cpu/engine.h"
#include "cpu/pair.h"

namespace sdtw::cpu {

// Steps of a sweep over a strip of rows: where it begins and ends, and which of its cells the band admits.
struct Corridor {
  int64_t begin, end;                           // of the sweep
  int64_t open_first, open_end;                 // no cell of the steps between is masked
  int64_t first[strip_rows], last[strip_rows];  // admissible steps of row [k W + l] are first <= s < last; if banded
  bool broken;                                  // a row has no cell at all: no path goes through
};

inline StepShape shape_of(const Problem &p) { return core::shape_of(p.step_weight, p.step_penalty); }

template <class T>
class PairRule {
 public:
  using E = typename core::Exponent<T>::type;
  const bool hard;  // gamma = 0
  const bool unit;  // weights 1 and penalties 0
  const bool banded;
  bool weighted;  // weights other than 1
  const StepShape shape;
  double split_weight;  // which split costs come scaled with
  StepRule<T> steps;
  core::Band band;
  int ties;  // of hard_sweep, where steps are kept

  // transposed: p's rows are the caller's y.
  PairRule(const Problem &p, bool transposed, int64_t n, int64_t m)
      : hard(p.gamma == 0),
        unit(p.has_unit_steps()),
        banded(p.band != SDTW_BAND_NONE),
        shape(shape_of(p)),
        steps{},
        band{p.band, p.band_radius, n, m},
        ties(transposed ? 2 : 1) {
    const core::Steps given = steps_of(p);
    const double *const w = given.weight, *const penalty = given.penalty;
    weighted = w[0] != 1 || w[1] != 1 || w[2] != 1;
    split_weight = shape == any_weights ? given.largest_weight() : w[core::vertical];
    const double per_gamma = bits_of_cost(p);
    for (int k = 0; k <= diagonal_rest; ++k) {
      const double weight = k == diagonal_rest ? w[core::diagonal] - w[core::vertical] : w[k];
      const auto halves = [](double v, T &high, T &low) { high = T(v), low = T(v - double(high)); };
      halves(weight * per_gamma, steps.scale[k], steps.scale_low[k]);
      halves(split_weight > 0 ? weight / split_weight : 1, steps.ratio[k], steps.ratio_low[k]);
    }
    for (int k = 0; k < core::step_count; ++k) {
      const double bits = penalty[k] * per_gamma, integer = std::nearbyint(bits);
      steps.penalty[k] = E(std::clamp(integer, -core::Exponent<T>::limit, core::Exponent<T>::limit));
      steps.excess[k] = std::abs(bits) < 1e15 ? T(std::expm1((integer - bits) * core::ln_2)) : T(0);
      steps.weight[k] = T(w[k]);
      steps.hard_weight[k] = w[k];
      steps.hard_penalty[k] = kept_hard(penalty[k]);
    }
    steps.inverse_gamma = hard ? T(0) : T(1 / p.gamma);
  }

  // As a cell of T keeps it: the border's corner has the diagonal's, and the first step is to take it back exactly.
  static double kept_hard(double penalty) {
    T m;
    E e;
    put_hard(penalty, &m, &e);
    return get_hard(&m, &e);
  }

  static core::Steps steps_of(const Problem &p) {
    core::Steps s{};
    for (int k = 0; k < core::step_count; ++k) s.weight[k] = p.step_weight[k], s.penalty[k] = p.step_penalty[k];
    return s;
  }

  bool core_cells() const { return unit && !hard; }  // where nothing is masked
  // Whether the corridor has both ends of every path.
  bool may_reach() const { return !banded || (band.admits(0, 0) && band.admits(band.n - 1, band.m - 1)); }

  // Steps of the sweep over rows from `top` on: lane l is at column s - l. last_step: where it ends. W lanes, K rows
  // each.
  Corridor corridor(int64_t top, int64_t last_step, int W, int K) const {
    Corridor c;
    c.begin = first_swept(band, top);
    c.end = last_step;
    c.open_first = c.begin;
    c.open_end = c.end;
    c.broken = false;
    if (!banded) return c;
    for (int l = 0; l < W; ++l)
      for (int k = 0; k < K; ++k) {
        const int64_t row = top + l * K + k;
        int64_t &first = c.first[k * W + l], &last = c.last[k * W + l];
        first = c.begin, last = c.end;
        if (row >= band.n) continue;
        const core::Interval columns = band.columns(row);
        c.broken |= columns.end <= columns.first;
        // Columns that the pair does not have need no mask.
        if (columns.first > 0) c.open_first = std::max(c.open_first, first = columns.first + l);
        if (columns.end < band.m) c.open_end = std::min(c.open_end, last = columns.end + l);
      }
    return c;
  }
  static bool masked(const Corridor &c, int64_t first_step, int64_t count) {
    return first_step < c.open_first || first_step + count > c.open_end;
  }

  // Border cells and what the minimum keeps instead of Z.
  void forbid(T *m, E *e, int64_t count) const { fill_forbidden(m, e, count, hard); }
  // The corner of the border, from where the first cell is entered by a diagonal step without a penalty.
  void start(T *m, E *e) const {
    if (hard) return put_hard(-steps.hard_penalty[core::diagonal], m, e);
    *m = T(1 / (1 + double(steps.excess[core::diagonal])));
    *e = steps.penalty[core::diagonal];
  }
  // R in units of gamma; at gamma = 0 as it is.
  double value(const T *m, const E *e) const {
    if (!hard) return value_of(*m, *e);
    return get_hard(m, e);
  }

  // Likewise with derivatives of R, where tangents of costs are given: a's tangent, dot and what follows.
  void sweep_tangent(const RuleKernels<T> &kernels, RuleSweep<T> a, const Corridor &c, int64_t first_step,
                     CostForm form, bool save) const {
    a.rule = &steps;
    E first[strip_rows], end[strip_rows];
    double wide_first[strip_rows], wide_end[strip_rows];
    set_mask(a, c, first_step, first, end, wide_first, wide_end);
    kernels.tangent[form][shape][save](a);
  }

  // Sweeps a tile of steps from first_step on.
  void sweep(const RuleKernels<T> &kernels, const Sweep<T> &of, const Corridor &c, int64_t first_step, CostForm form,
             bool save) const {
    RuleSweep<T> a{};
    a.of = of;
    a.rule = &steps;
    E first[strip_rows], end[strip_rows];
    double wide_first[strip_rows], wide_end[strip_rows];
    const bool mask = banded && masked(c, first_step, of.steps);
    if (mask) set_mask(a, c, first_step, first, end, wide_first, wide_end);
    if (hard)
      kernels.hard[!unit][mask][save ? ties : 0](a);
    else if (unit && mask)
      kernels.core[form][save](a);
    else
      kernels.soft[form][shape][save][mask](a);
  }

 private:
  void set_mask(RuleSweep<T> &a, const Corridor &c, int64_t first_step, E *first, E *end, double *wide_first,
                double *wide_end) const {
    const int64_t count = a.of.steps;
    const auto set = [&](auto *lowest, auto *highest) {
      using Number = std::remove_pointer_t<decltype(lowest)>;
      for (int i = 0; i < strip_rows; ++i) {
        lowest[i] = Number(banded ? std::clamp<int64_t>(c.first[i] - first_step, 0, count) : 0);
        highest[i] = Number(banded ? std::clamp<int64_t>(c.last[i] - first_step, 0, count) : count);
      }
    };
    hard ? set(wide_first, wide_end) : set(first, end);
    a.first = first, a.end = end, a.wide_first = wide_first, a.wide_end = wide_end;
  }
};

}  // namespace sdtw::cpu
