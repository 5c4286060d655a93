// The forward and the adjoint sweep over one tile, for any vector type. Forward waits for its arithmetic, the adjoint
// for one cell after the other: what divides the terms of a cell by their sum is the adjoint. Included by kernels_*.cpp
// inside its namespace.

// What lies above the first rows of all lanes in step s. last: of the lanes' last rows, as the step before has left
// them: where lanes are skewed, each is what lies above the next lane, and what leaves the last one is kept.
template <class V, bool skew, class T>
inline __attribute__((always_inline)) core::Scaled<V> row_above(const Sweep<T> &a, const core::Scaled<V> &last,
                                                                int64_t s) {
  constexpr int W = V::width;
  if constexpr (skew) {
    const core::Scaled<V> next{V::rotate_up(last.m), V::rotate_up(last.e)};
    a.row_m[s - W] = V::first(next.m);
    a.row_e[s - W] = V::first(next.e);
    return {V::insert_first(next.m, a.row_m + s), V::insert_first(next.e, a.row_e + s)};
  } else {
    return {V::load(a.row_m + s * W), V::load(a.row_e + s * W)};
  }
}
// Where they are not, keeps the last rows for those below.
template <class V, class T>
inline __attribute__((always_inline)) void hand_down(const Sweep<T> &a, core::Scaled<V> last, int64_t s) {
  V::normalize(last.m, last.e);
  V::store(a.row_m + s * V::width, last.m);
  V::store(a.row_e + s * V::width, last.e);
}

// K rows a lane, skewed (strips) or not (lanes), from costs of any form, with or without keeping how
// cells were entered. masked: cell (s, k, l) is admissible for first[k W + l] <= at + s < end[k W + l].
template <class T, int K, bool skew, CostForm form, bool save, bool masked>
inline __attribute__((always_inline)) void sweep_tile(const Sweep<T> a, [[maybe_unused]] int64_t at = 0,
                                                      [[maybe_unused]] const typename Sweep<T>::E *first = nullptr,
                                                      [[maybe_unused]] const typename Sweep<T>::E *end = nullptr) {
  using V = Vec<T>;
  using Cell = core::Scaled<V>;
  constexpr int W = V::width;
  // m grows by up to 2^2.1 a cell and a step takes a path through K cells: every 16 or so it is brought back to [1, 2).
  constexpr int64_t period = skew ? (K < 16 ? 16 / K : 1) : 8;

  Cell row[K], above{V::load(a.state.above_m), V::load(a.state.above_e)};
  each_row<K>([&](int k) __attribute__((always_inline)) {
    row[k] = {V::load(a.state.m + k * W), V::load(a.state.e + k * W)};
  });
  [[maybe_unused]] const auto scale = V::set1(a.scale), scale_low = V::set1(a.scale_low);
  const auto factor_of = [&](int64_t s, int k) __attribute__((always_inline)) {
    if constexpr (form == point_cost) {
      const auto d = V::sub(V::load(a.y + (skew ? -s : s * W)), V::load(a.x + k * W));
      return core::step_factor<V>(V::split(V::mul(d, d), scale, scale_low));
    } else if constexpr (form == double_cost) {
      const T *t = a.cost + (s * K + k) * 2 * W;
      return core::step_factor<V>(typename V::Split{V::load(reinterpret_cast<const int32_t *>(t)), V::load(t + W)});
    } else {
      return core::step_factor<V>(V::split(V::load(a.cost + (s * K + k) * W), scale, scale_low));
    }
  };
  // What costs do is made ready a step ahead, between cells that wait for each other: processors look little further
  // than from one such cell to the next.
  core::StepFactor<V> factor[K];
  each_row<K>([&](int k) __attribute__((always_inline)) { factor[k] = factor_of(0, k); });
  for (int64_t s = 0; s < a.steps; ++s) {
    const int64_t next = std::min(s + 1, a.steps - 1);
    Cell up = row_above<V, skew>(a, row[K - 1], s);
    Cell diagonal = above;
    above = up;
    each_row<K>([&](int k) __attribute__((always_inline)) {
      core::Terms<V> terms;
      const auto sum = core::sum_of<V>(up, row[k], diagonal, save ? &terms : nullptr);
      [[maybe_unused]] typename V::Mask inside;
      if constexpr (masked)
        inside = V::within(V::whole(static_cast<typename V::ScalarExponent>(at + s)), V::load(first + k * W),
                           V::load(end + k * W));
      if constexpr (save) {
        if constexpr (masked) {
          const auto none = V::set1(0);
          terms = {V::where(inside, terms.up, none), V::where(inside, terms.left, none),
                   V::where(inside, terms.diagonal, none)};
        }
        T *out = a.entries + (s * K + k) * 3 * W;
        V::store(out, terms.up);
        V::store(out + W, terms.left);
        V::store(out + 2 * W, terms.diagonal);
      }
      diagonal = row[k];
      row[k] = core::enter<V>(sum, factor[k]);
      factor[k] = factor_of(next, k);
      if constexpr (masked) {
        row[k].m = V::where(inside, row[k].m, V::set1(1));
        row[k].e = V::where(inside, row[k].e, V::whole(core::Exponent<T>::forbidden));
      }
      up = row[k];
    });
    if constexpr (!skew) hand_down<V>(a, up, s);
    if (s % period == period - 1) {
      each_row<K>([&](int k) __attribute__((always_inline)) { V::normalize(row[k].m, row[k].e); });
      if constexpr (skew) V::normalize(above.m, above.e);
    }
  }
  if constexpr (skew) V::normalize(above.m, above.e);
  V::store(a.state.above_m, above.m);
  V::store(a.state.above_e, above.e);
  each_row<K>([&](int k) __attribute__((always_inline)) {
    V::normalize(row[k].m, row[k].e);
    V::store(a.state.m + k * W, row[k].m);
    V::store(a.state.e + k * W, row[k].e);
  });
}

template <class T, int K, bool skew, CostForm form, bool save>
void sweep(const Sweep<T> &a) {
  sweep_tile<T, K, skew, form, save, false>(a);
}
// Within bands: of lanes, and of a strip.
template <class T, int K, CostForm form, bool save>
void sweep_band(const LaneSweep<T> &a) {
  sweep_tile<T, K, false, form, save, true>(a.of, a.column, a.first, a.end);
}
template <class T, int K, CostForm form, bool save>
void sweep_corridor(const RuleSweep<T> &a) {
  sweep_tile<T, K, true, form, save, true>(a.of, 0, a.first, a.end);
}

// What the rows below all lanes' last ones have passed up for step s. above: what the first rows have, one step
// further.
template <class V, bool skew, class T>
inline __attribute__((always_inline)) typename V::Real row_below(const AdjointSweep<T> &a,
                                                                 [[maybe_unused]] typename V::Real above, int64_t s) {
  constexpr int W = V::width;
  if constexpr (skew) {
    a.row[s + 1] = V::first(above);
    return V::insert_last(V::rotate_down(above), a.row + s - W + 1);
  } else {
    return V::load(a.row + s * W);
  }
}

// What is written is 0 where E is negligible, so that gradients do not depend on which cells are visited for the sake
// of their neighbours.
template <class T, int K, bool skew>
void adjoint(const AdjointSweep<T> &a) {
  using V = Vec<T>;
  constexpr int W = V::width;
  typename V::Real left[K], diagonal[K], above = V::load(a.above);
  each_row<K>([&](int k) __attribute__((always_inline)) {
    left[k] = V::load(a.left + k * W);
    diagonal[k] = V::load(a.diagonal + k * W);
  });
  for (int64_t s = a.steps - 1; s >= 0; --s) {
    auto below = row_below<V, skew>(a, above, s);
    each_row<K>([&](int i) __attribute__((always_inline)) {
      const int k = K - 1 - i;
      const T *entries = a.entries + (s * K + k) * 3 * W;
      const core::Terms<V> terms{V::load(entries), V::load(entries + W), V::load(entries + 2 * W)};
      const auto p = core::probabilities<V>(terms);
      const auto e = V::add(below, left[k]);
      V::store(a.alignment + (s * K + k) * W, V::at_least(e, static_cast<T>(core::negligible_alignment)));
      if constexpr (skew)  // rows wait for each other: one product is all that does
        below = V::fma(p.up, below, V::fma(p.up, left[k], diagonal[k]));
      else
        below = V::fma(p.up, e, diagonal[k]);
      left[k] = V::mul(p.left, e);
      diagonal[k] = V::mul(p.diagonal, e);
    });
    if constexpr (skew)
      above = below;
    else
      V::store(a.row + s * W, below);
  }
  V::store(a.above, above);
  each_row<K>([&](int k) __attribute__((always_inline)) {
    V::store(a.left + k * W, left[k]);
    V::store(a.diagonal + k * W, diagonal[k]);
  });
}

// What flows, as far as it lies in these values.
template <class T>
double total(const T *values, int64_t count) {
  using V = Vec<double>;
  constexpr int H = V::width, sums = 4;  // that do not wait for each other
  typename V::Real sum[sums];
  unrolled<sums>([&](int j) { sum[j] = V::set1(0); });
  int64_t i = 0;
  for (; i + sums * H <= count; i += sums * H)
    unrolled<sums>([&](int j) { sum[j] = V::add(sum[j], V::load(values + i + j * H)); });
  for (; i + H <= count; i += H) sum[0] = V::add(sum[0], V::load(values + i));
  double each[H];
  V::store(each, V::add(V::add(sum[0], sum[1]), V::add(sum[2], sum[3])));
  for (int half = H / 2; half > 0; half /= 2)
    for (int j = 0; j < half; ++j) each[j] += each[j + half];
  for (; i < count; ++i) each[0] += static_cast<double>(values[i]);
  return each[0];
}

template <class T>
void grow(T *values, int64_t count, T excess) {
  using V = Vec<T>;
  int64_t i = 0;
  for (; i + V::width <= count; i += V::width) {
    const auto v = V::load(values + i);
    V::store(values + i, V::fma(v, V::set1(excess), v));
  }
  for (; i < count; ++i) values[i] += values[i] * excess;
}

// Likewise where lanes are pairs.
template <class T>
void lane_largest(const T *values, int64_t count, T *largest) {
  using V = Vec<T>;
  auto most = V::load(largest);
  for (int64_t i = 0; i < count; ++i) most = V::larger(V::load(values + i * V::width), most);
  V::store(largest, most);
}

// In an order of its own for each lane, so that it does not depend on the width of vectors.
template <class T>
void lane_total(const T *values, int64_t count, double *sum) {
  using V = Vec<double>;
  constexpr int W = Vec<T>::width, parts = W / V::width;
  typename V::Real even[parts], odd[parts];
  const auto at = [&](int64_t i, int part) { return V::load(values + i * W + part * V::width); };
  unrolled<parts>([&](int part) { even[part] = V::load(sum + part * V::width), odd[part] = V::set1(0); });
  int64_t i = 0;
  for (; i + 2 <= count; i += 2)
    unrolled<parts>([&](int part) {
      even[part] = V::add(even[part], at(i, part));
      odd[part] = V::add(odd[part], at(i + 1, part));
    });
  if (i < count) unrolled<parts>([&](int part) { even[part] = V::add(even[part], at(i, part)); });
  unrolled<parts>([&](int part) { V::store(sum + part * V::width, V::add(even[part], odd[part])); });
}

template <class T>
void lane_grow(T *values, int64_t count, const T *excess) {
  using V = Vec<T>;
  const auto by = V::load(excess);
  for (int64_t i = 0; i < count; ++i) {
    const auto v = V::load(values + i * V::width);
    V::store(values + i * V::width, V::fma(v, by, v));
  }
}
