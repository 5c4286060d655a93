// The sweeps at gamma = 0 over a tile, for any vector type: R itself, in double whatever the costs are in, as
// sums of thousands of floats would lose what decides between paths. Included by kernels_*.cpp inside its namespace.
//
// Where cells are floats, a vector of T is two of double; what is kept between tiles is as put_hard has it.

template <class T>
struct HardCells {
  using E = typename core::Exponent<T>::type;
  using D = Vec<double>;
  using Real = typename D::Real;
  static constexpr int W = Vec<T>::width, H = W / D::width;
  static constexpr bool parts = sizeof(T) == 4;
  struct Cells {
    Real at[H];
  };

  static inline __attribute__((always_inline)) Cells load(const T *m, const E *e) {
    Cells r;
    for (int h = 0; h < H; ++h) {
      r.at[h] = D::load(m + h * D::width);
      if constexpr (parts) r.at[h] = D::add(r.at[h], D::load(reinterpret_cast<const float *>(e) + h * D::width));
    }
    return r;
  }
  static inline __attribute__((always_inline)) void store(const Cells &r, T *m, E *e) {
    for (int h = 0; h < H; ++h) {
      D::store(m + h * D::width, r.at[h]);
      if constexpr (parts) {
        const auto high = D::load(m + h * D::width), least = D::set1(3e38), none = D::set1(0);
        const auto finite = D::at_most(r.at[h], least);  // the rest of infinity is not infinity less infinity
        D::store(reinterpret_cast<float *>(e) + h * D::width, D::where(finite, D::sub(r.at[h], high), none));
      } else {
        D::store(e + h * D::width, D::set1(0));
      }
    }
  }
  // Lane l takes lane l - 1; what leaves the last goes to *out, and the first takes in.
  static inline __attribute__((always_inline)) Cells rotate_up(const Cells &r, double in, double *out) {
    Cells result;
    for (int h = 0; h < H; ++h) {
      const auto turned = D::rotate_up(r.at[h]);
      result.at[h] = D::insert_first(turned, &in);
      in = D::first(turned);
    }
    *out = in;
    return result;
  }
  static inline __attribute__((always_inline)) Real cost(const T *tile, int h) { return D::load(tile + h * D::width); }
};

// What steps add to R.
template <class D>
struct HardSteps {
  using Real = typename D::Real;
  Real weight[core::step_count], penalty[core::step_count];

  template <class T>
  explicit HardSteps(const StepRule<T> &rule) {
    for (int i = 0; i < core::step_count; ++i) {
      weight[i] = D::set1(rule.hard_weight[i]);
      penalty[i] = D::set1(rule.hard_penalty[i]);
    }
  }
  inline __attribute__((always_inline)) void add(Real cost, Real &by_up, Real &by_left, Real &by_diagonal) const {
    by_up = D::fma(weight[core::vertical], cost, D::add(by_up, penalty[core::vertical]));
    by_left = D::fma(weight[core::horizontal], cost, D::add(by_left, penalty[core::horizontal]));
    by_diagonal = D::fma(weight[core::diagonal], cost, D::add(by_diagonal, penalty[core::diagonal]));
  }
};

// steps: 0 not kept; 1, 2: a.entries is 0 where the best step into a cell is diagonal, else 1 where it is vertical
// and 2 where it is horizontal; of equal ones the diagonal, and then the vertical (1) or the horizontal (2).
template <class T, int K, bool unit, bool masked, int steps>
void hard_sweep(const RuleSweep<T> &given) {
  using Cells = HardCells<T>;
  using D = typename Cells::D;
  constexpr int W = Cells::W, H = Cells::H;
  constexpr bool parts = Cells::parts;
  const auto infinite = D::set1(std::numeric_limits<double>::infinity());
  const Sweep<T> &a = given.of;

  typename Cells::Cells row[K], above = Cells::load(a.state.above_m, a.state.above_e);
  for (int k = 0; k < K; ++k) row[k] = Cells::load(a.state.m + k * W, a.state.e + k * W);
  [[maybe_unused]] const HardSteps<D> to_cell(*given.rule);
  for (int64_t s = 0; s < a.steps; ++s) {
    double passed;
    auto up = Cells::rotate_up(row[K - 1], get_hard(a.row_m + s, a.row_e + s), &passed);
    put_hard(passed, a.row_m + s - W, a.row_e + s - W);
    auto diagonal = above;
    above = up;
    for (int k = 0; k < K; ++k) {
      const T *cost = a.cost + (s * K + k) * W;
      typename Cells::Cells cell;
      for (int h = 0; h < H; ++h) {
        const auto d = Cells::cost(cost, h);
        auto by_up = up.at[h], by_left = row[k].at[h], by_diagonal = diagonal.at[h];
        if constexpr (!unit) to_cell.add(d, by_up, by_left, by_diagonal);
        // up is the last to be known.
        auto best = D::smaller(D::smaller(by_diagonal, by_left), by_up);
        if constexpr (steps != 0) {
          const auto by_side = steps == 1 ? D::where(D::at_most(by_up, by_left), D::set1(1), D::set1(2))
                                          : D::where(D::at_most(by_left, by_up), D::set1(2), D::set1(1));
          const auto side = D::smaller(by_up, by_left);
          D::store(a.entries + (s * K + k) * W + h * D::width,
                   D::where(D::at_most(by_diagonal, side), D::set1(0), by_side));
        }
        if constexpr (unit) best = D::add(best, d);
        if constexpr (masked) {
          const int64_t at = k * W + h * D::width;
          const auto first = D::load(given.wide_first + at), end = D::load(given.wide_end + at);
          best = D::where(D::within(D::set1(double(s)), first, end), best, infinite);
        }
        // A cost of +infinity forbids the cell, even where its weight is 0. Only double cells meet one.
        if constexpr (!parts)
          best = D::where(D::at_most(d, D::set1(std::numeric_limits<double>::max())), best, infinite);
        cell.at[h] = best;
      }
      diagonal = row[k];
      row[k] = cell;
      up = cell;
    }
  }
  Cells::store(above, a.state.above_m, a.state.above_e);
  for (int k = 0; k < K; ++k) Cells::store(row[k], a.state.m + k * W, a.state.e + k * W);
}

// The same where lanes hold pairs. steps: 0 not kept; 1, 2: a.entries as the soft minimum's, of which the best step's
// is 1.
template <class T, int K, bool unit, bool masked, int steps>
void hard_lanes(const LaneSweep<T> &given) {
  using Cells = HardCells<T>;
  using D = typename Cells::D;
  constexpr int W = Cells::W, H = Cells::H;
  const Sweep<T> &a = given.of;
  [[maybe_unused]] const auto infinite = D::set1(std::numeric_limits<double>::infinity());
  const auto none = D::set1(0), one = D::set1(1);
  [[maybe_unused]] const HardSteps<D> to_cell(*given.rule);

  typename Cells::Cells row[K], above = Cells::load(a.state.above_m, a.state.above_e);
  for (int k = 0; k < K; ++k) row[k] = Cells::load(a.state.m + k * W, a.state.e + k * W);
  for (int64_t s = 0; s < a.steps; ++s) {
    auto up = Cells::load(a.row_m + s * W, a.row_e + s * W);
    auto diagonal = above;
    above = up;
    for (int k = 0; k < K; ++k) {
      const T *const cost = a.cost + (s * K + k) * W;
      [[maybe_unused]] T *out = nullptr;
      if constexpr (steps != 0) out = a.entries + (s * K + k) * 3 * W;
      typename Cells::Cells cell;
      for (int h = 0; h < H; ++h) {
        const auto d = Cells::cost(cost, h);
        auto by_up = up.at[h], by_left = row[k].at[h], by_diagonal = diagonal.at[h];
        if constexpr (!unit) to_cell.add(d, by_up, by_left, by_diagonal);
        const auto side = D::smaller(by_up, by_left);
        if constexpr (steps != 0) {
          const auto straight = D::at_most(by_diagonal, side);
          const auto first = steps == 1 ? D::at_most(by_up, by_left) : D::at_most(by_left, by_up);
          const auto by_first = D::where(straight, none, D::where(first, one, none));
          const auto by_second = D::where(straight, none, D::where(first, none, one));
          D::store(out + h * D::width, steps == 1 ? by_first : by_second);
          D::store(out + W + h * D::width, steps == 1 ? by_second : by_first);
          D::store(out + 2 * W + h * D::width, D::where(straight, one, none));
        }
        cell.at[h] = D::smaller(by_diagonal, side);
        if constexpr (unit) cell.at[h] = D::add(cell.at[h], d);
        // A cost of +infinity forbids the cell, even where another is -infinity. Only double cells meet one.
        if constexpr (!Cells::parts)
          cell.at[h] = D::where(D::at_most(d, D::set1(std::numeric_limits<double>::max())), cell.at[h], infinite);
        if constexpr (masked) {
          const int64_t at = k * W + h * D::width;
          const auto inside = D::within(D::set1(double(given.column + s)), D::load(given.wide_first + at),
                                        D::load(given.wide_end + at));
          cell.at[h] = D::where(inside, cell.at[h], infinite);
        }
      }
      diagonal = row[k];
      row[k] = up = cell;
    }
    Cells::store(up, a.row_m + s * W, a.row_e + s * W);
  }
  Cells::store(above, a.state.above_m, a.state.above_e);
  for (int k = 0; k < K; ++k) Cells::store(row[k], a.state.m + k * W, a.state.e + k * W);
}
