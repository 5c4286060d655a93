// The metrics of series, tile by tile, for any vector type: costs, their slopes, gradients, and costs' derivatives
// along tangents. core/metric.h says what each metric is. Included by kernels_*.cpp inside its namespace.

// A sum with a term more. Some processors multiply and add in other units than they add or compare in, which are busy
// with what the term is made of.
template <class V>
inline __attribute__((always_inline)) typename V::Real also(typename V::Real term, typename V::Real sum) {
  return V::fma(term, V::set1(1), sum);
}

// A metric's sum over features, and its cost: the functor's term and finish in vectors, but that a square and the sum
// are rounded at once. Cosine's are sqeuclidean's, of series that are packed for it.
template <class V, class Metric>
inline __attribute__((always_inline)) typename V::Real add_term(Metric, typename V::Real difference,
                                                                typename V::Real sum) {
  if constexpr (std::is_same_v<Metric, core::CityBlock>)
    return also<V>(V::abs(difference), sum);
  else
    return V::fma(difference, difference, sum);
}
template <class V, class Metric>
inline __attribute__((always_inline)) typename V::Real finish(Metric, typename V::Real sum) {
  if constexpr (std::is_same_v<Metric, core::Euclidean>)
    return V::sqrt(sum);
  else
    return sum;
}

// out(s, k, sum) for every step and row of a tile, the sum being that of the metric's terms over features [begin, end):
// of the exact difference, in blocks of B steps by R rows that stay in registers.
template <class Metric, class T, int K, class Out>
inline void metric_sums(const FusedTile<T> &a, int64_t begin, int64_t end, Out out) {
  using V = Vec<T>;
  constexpr int R = K < 4 ? K : 4, B = V::block_steps;
  const auto block = [&](int64_t s, int r, auto steps) __attribute__((always_inline)) {
    constexpr int S = decltype(steps)::value;
    typename V::Real sum[S][R];
    for (int b = 0; b < S; ++b)
      for (int k = 0; k < R; ++k) sum[b][k] = V::set1(0);
    const T *x = a.x + r * a.x_row + begin * a.x_feature, *y = a.y + s * a.y_step + begin * a.y_feature;
    for (int64_t f = begin; f < end; ++f, x += a.x_feature, y += a.y_feature) {
      typename V::Real row[R];
      for (int k = 0; k < R; ++k) row[k] = V::load(x + k * a.x_row);
      for (int b = 0; b < S; ++b) {
        const auto column = V::load(y + b * a.y_step);
        for (int k = 0; k < R; ++k) {
          sum[b][k] = add_term<V>(Metric{}, V::sub(row[k], column), sum[b][k]);
        }
      }
    }
    for (int b = 0; b < S; ++b)
      for (int k = 0; k < R; ++k) out(s + b, r + k, sum[b][k]);
  };
  for (int r = 0; r < K; r += R) {
    int64_t s = 0;
    for (; s + B <= a.steps; s += B) block(s, r, Int<B>{});
    for (; s < a.steps; ++s) block(s, r, Int<1>{});
  }
}

// Costs as they are. Features are summed a few at a time, and then these sums: the rounding errors of a sum grow with
// the square root of the number of its terms, and are all of one sign where the terms are alike.
template <class Metric, class T, int K>
void metric_cost(const FusedTile<T> &a) {
  using V = Vec<T>;
  constexpr int64_t few = sizeof(T) == 4 ? 16 : 32;
  const auto at = [&](int64_t s, int k) { return a.cost + (s * K + k) * V::width; };
  if (a.features <= few)
    return metric_sums<Metric, T, K>(
        a, 0, a.features, [&](int64_t s, int k, auto sum) __attribute__((always_inline)) {
          V::store(at(s, k), finish<V>(Metric{}, sum));
        });
  const int64_t last = (a.features - 1) / few * few;
  metric_sums<Metric, T, K>(
      a, 0, few, [&](int64_t s, int k, auto sum) __attribute__((always_inline)) { V::store(at(s, k), sum); });
  for (int64_t begin = few; begin < last; begin += few)
    metric_sums<Metric, T, K>(
        a, begin, begin + few, [&](int64_t s, int k, auto sum) __attribute__((always_inline)) {
          V::store(at(s, k), V::add(V::load(at(s, k)), sum));
        });
  metric_sums<Metric, T, K>(
      a, last, a.features, [&](int64_t s, int k, auto sum) __attribute__((always_inline)) {
        V::store(at(s, k), finish<V>(Metric{}, V::add(V::load(at(s, k)), sum)));
      });
}

// Split costs for the float engine, tile[s][k] being [2][W], W integers and W fractions: computed in float64 from
// widened series, each vector of T being two of double.
template <class Metric, class T, int K>
void metric_double(const FusedTile<T> &a) {
  using V = Vec<double>;
  constexpr int W = Vec<T>::width, H = V::width;
  FusedTile<double> half{};
  half.steps = a.steps;
  half.features = a.features;
  half.x_feature = a.x_feature;
  half.x_row = a.x_row;
  half.y_feature = a.y_feature;
  half.y_step = a.y_step;
  const auto scale = V::set1(a.scale);
  for (int h = 0; h < W; h += H) {
    half.x = a.wide_x + h;
    half.y = a.wide_y + h;
    metric_sums<Metric, double, K>(
        half, 0, a.features, [&](int64_t s, int k, auto sum) __attribute__((always_inline)) {
          T *t = a.cost + (s * K + k) * 2 * W + h;
          V::store_split(V::mul(finish<V>(Metric{}, sum), scale), reinterpret_cast<int32_t *>(t), t + W);
        });
  }
}

// The same from what each point has of its own and a sum of products, which is half of the arithmetic, and what cancels
// cancels in float64. Sqeuclidean as |x|^2 + |y|^2 - 2 <x, y> of points relative to a centre of the pair, everything
// scaled; cityblock likewise as the sum of 2 max(x, y) - x - y; cosine as 1 - 2 <x, y> of points of norm 1 / sqrt(2).
template <class Metric, class T, int K>
void metric_products(const FusedTile<T> &a) {
  using V = Vec<double>;
  constexpr bool cosine = std::is_same_v<Metric, core::Cosine>;
  [[maybe_unused]] const auto scale = V::set1(-2 * a.scale);
  constexpr int W = Vec<T>::width, H = V::width, R = K < 4 ? K : 4, B = V::block_steps == 4 ? 6 : V::block_steps;
  const auto block = [&](int64_t s, int r, int h, auto steps) __attribute__((always_inline)) {
    constexpr int S = decltype(steps)::value;
    typename V::Real sum[S][R];
    [[maybe_unused]] const double *const norm_x = a.norm_x + r * W + h, *const norm_y = a.norm_y + s * a.norm_step + h;
    unrolled<S * R>([&](int i) __attribute__((always_inline)) {
      if constexpr (cosine)
        sum[i / R][i % R] = V::set1(-.5);
      else
        sum[i / R][i % R] = V::add(V::load(norm_x + i % R * W), V::load(norm_y + i / R * a.norm_step));
    });
    const double *x = a.wide_x + r * a.x_row + h, *y = a.wide_y + s * a.y_step + h;
    for (int64_t f = 0; f < a.features; ++f, x += a.x_feature, y += a.y_feature) {
      typename V::Real row[R];
      for (int k = 0; k < R; ++k) row[k] = V::load(x + k * a.x_row);
      for (int b = 0; b < S; ++b) {
        const auto column = V::load(y + b * a.y_step);
        for (int k = 0; k < R; ++k) {
          if constexpr (std::is_same_v<Metric, core::CityBlock>)
            sum[b][k] = also<V>(V::larger(row[k], column), sum[b][k]);
          else
            sum[b][k] = V::fma(row[k], column, sum[b][k]);
        }
      }
    }
    T *const to = a.cost + (s * K + r) * 2 * W + h;
    unrolled<S * R>([&](int i) __attribute__((always_inline)) {
      T *const t = to + (i / R * K + i % R) * 2 * W;
      const auto cost = sum[i / R][i % R];
      V::store_split(cosine ? V::mul(cost, scale) : cost, reinterpret_cast<int32_t *>(t), t + W);
    });
  };
  for (int h = 0; h < W; h += H)
    for (int r = 0; r < K; r += R) {
      int64_t s = 0;
      for (; s + B <= a.steps; s += B) block(s, r, h, Int<B>{});
      if constexpr (B > 4)
        for (; s + 4 <= a.steps; s += 4) block(s, r, h, Int<4>{});
      for (; s < a.steps; ++s) block(s, r, h, Int<1>{});
    }
}

// E times the slope of a metric whose slope is the reciprocal of its cost, and 0 where that is 0. The costs are still
// in a tile of their own, as they are or split.
template <class T, int K, bool split>
void reciprocal_slopes(const FusedTile<T> &a) {
  using V = Vec<T>;
  constexpr int W = V::width;
  const auto scale = V::set1(static_cast<T>(split ? a.scale : 1));
  for (int64_t i = 0; i < a.steps * K; ++i) {
    const auto e = V::load(a.alignment + i * W);
    if (!V::any_nonzero(e)) continue;
    typename V::Real cost;
    if constexpr (split) {
      const T *t = a.cost + i * 2 * W;
      cost = V::add(V::real_of(V::load(reinterpret_cast<const int32_t *>(t))), V::load(t + W));
    } else {
      cost = V::load(a.cost + i * W);
    }
    V::store(a.alignment + i * W, V::where_positive(cost, V::div(V::mul(e, scale), cost)));
  }
}

// Steps lo <= s < hi of a tile.
struct Run {
  int64_t lo, hi;
};

// Runs of steps in which any of R rows of lanes has a weight that is not 0, last first. Gaps of up to 4 steps are taken
// along: a run costs about as much to begin.
template <class T, int K, int R>
int live_runs(const T *alignment, int64_t steps, int r, Run *runs) {
  using V = Vec<T>;
  constexpr int W = V::width;
  int count = 0;
  for (int64_t s = steps - 1; s >= 0; --s) {
    const T *e = alignment + (s * K + r) * W;
    auto largest = V::abs(V::load(e));
    for (int k = 1; k < R; ++k) largest = V::larger(largest, V::abs(V::load(e + k * W)));
    if (!V::any_nonzero(largest)) continue;
    if (count > 0 && runs[count - 1].lo - s <= 5)
      runs[count - 1].lo = s;
    else
      runs[count++] = {s, s + 1};
  }
  return count;
}

// Adds to a sum that many tiles add to, whose float32 rounding errors would add up where its terms are alike: what is
// lost is kept beside it (Kahan 1965).
template <class V>
inline __attribute__((always_inline)) void add_to(typename V::Scalar *sum, typename V::Scalar *rest,
                                                  typename V::Real term) {
  const auto before = V::load(sum);
  if constexpr (sizeof(typename V::Scalar) == 8) return V::store(sum, V::add(before, term));
  const auto with_rest = V::add(term, V::load(rest)), after = V::add(before, with_rest);
  V::store(sum, after);
  V::store(rest, V::sub(with_rest, V::sub(after, before)));
}

// What a gradient is a sum of, times E: of differences y - x, or of their signs; or, of x, of y and, of y, of -x, which
// are as good where multiples of a point itself are projected out of its gradient.
enum class Direction { difference, sign, point };

// grad_x[k] += sum_s E d, grad_y[s] += sum_k E d over one run, d being the direction: the caller multiplies by what
// the slope has in common, g and, for x, -1. F features at a time share the loads of E. In a skewed tile a column moves
// one lane down each step, and what leaves the first lane lies behind what has left it before. E may be floats that lie
// in vectors of their own width, where the rest is double.
// both: not of the rows alone.
template <class T, class OfE, int K, bool skew, Direction direction, bool both, int R, int F>
void gradient_run(const FusedTile<T> &a, const OfE *alignment, int r, int64_t f, Run run) {
  using V = Vec<T>;
  constexpr int W = Vec<OfE>::width, own = V::width;
  [[maybe_unused]] constexpr T zero = 0;
  // Strides that a mapping always has are constants, so that features need no addresses of their own.
  constexpr int64_t x_feature = skew ? strip_rows : W;
  const int64_t x_row = skew ? W : a.x_row, y_feature = skew ? a.y_feature : W, y_step = skew ? -1 : a.y_step;
  const int64_t at_x = f * x_feature + r * x_row, at_y = f * y_feature;
  const T *x[R], *y = a.y + at_y + (run.hi - 1) * y_step;
  unrolled<R>([&](int k) __attribute__((always_inline)) { x[k] = a.x + at_x + k * x_row; });
  alignment += ((run.hi - 1) * K + r) * W;
  [[maybe_unused]] T *grad_y = both ? a.grad_y + at_y + (run.hi - 1) * y_step : nullptr;
  typename V::Real grad_x[F][R], sum[F];
  [[maybe_unused]] T left[F][max_steps + 2 * own];
  unrolled<F * R>([&](int i) __attribute__((always_inline)) { grad_x[i / R][i % R] = V::set1(0); });
  unrolled<F>([&](int g) __attribute__((always_inline)) { sum[g] = V::set1(0); });
  const int64_t steps = run.hi - run.lo;
  for (int64_t s = 0; s < steps; ++s, alignment -= K * W, y -= y_step) {
    typename V::Real e[R];
    unrolled<R>([&](int k) __attribute__((always_inline)) { e[k] = V::load(alignment + k * W); });
    unrolled<F>([&](int g) __attribute__((always_inline)) {
      const auto column = V::load(y + g * y_feature);
      [[maybe_unused]] typename V::Real step;  // of this column: summed apart, so that steps do not wait for each other
      unrolled<R>([&](int i) __attribute__((always_inline)) {
        const int k = R - 1 - i;
        const auto point = V::load(x[k] + g * x_feature);
        if constexpr (direction == Direction::point) {
          grad_x[g][k] = V::fma(e[k], column, grad_x[g][k]);
          if constexpr (both) step = V::fnma(e[k], point, k == R - 1 ? V::set1(0) : step);
          return;
        }
        const auto difference = V::sub(column, point);
        if constexpr (direction == Direction::sign) {
          const auto term = V::with_sign(e[k], difference);
          grad_x[g][k] = V::add(term, grad_x[g][k]);
          if constexpr (both) step = k == R - 1 ? term : V::add(term, step);
        } else {
          const auto live = V::where_live(e[k], difference);
          grad_x[g][k] = V::fma(e[k], live, grad_x[g][k]);
          if constexpr (both) step = k == R - 1 ? V::mul(e[k], live) : V::fma(e[k], live, step);
        }
      });
      if constexpr (both && !skew) {
        T *const at = grad_y + g * y_feature;
        V::store(at, V::add(V::load(at), step));  // rows of lanes are few
      } else if constexpr (both) {
        sum[g] = V::add(sum[g], step);
        V::store(left[g] + s, sum[g]);
        sum[g] = V::insert_last(V::rotate_down(sum[g]), &zero);
      }
    });
    if constexpr (both && !skew) grad_y -= y_step;
  }
  for (int g = 0; g < F; ++g) {
    if constexpr (both && skew) {  // columns from the last step's on, y_step being -1
      const int64_t at = at_y + g * y_feature + (run.hi - 1) * y_step, count = steps - 1 + own;
      V::store(left[g] + count, V::set1(0));
      for (int64_t i = 0; i < count; i += own) add_to<V>(a.grad_y + at + i, a.rest_y + at + i, V::load(left[g] + i));
    }
  }
  T *const to = a.grad_x + at_x, *const rest = a.rest_x + at_x;
  unrolled<F * R>([&](int i) __attribute__((always_inline)) {
    const int64_t at = i / R * x_feature + i % R * x_row;
    add_to<V>(to + at, rest + at, grad_x[i / R][i % R]);
  });
}

// first: the lane of vectors of E that is the first one of those of T.
template <class T, class OfE, int K, bool skew, Direction direction, bool both>
void gradient_of_tile(const FusedTile<T> &a, const OfE *alignment, int first) {
  constexpr int R = K < 4 ? K : 4;
  Run runs[max_steps];
  for (int r = K - R; r >= 0; r -= R) {
    const int count = live_runs<OfE, K, R>(alignment, a.steps, r, runs);
    for (int i = 0; i < count; ++i) {
      const auto add = [&](int64_t f, auto features) __attribute__((always_inline)) {
        gradient_run<T, OfE, K, skew, direction, both, R, decltype(features)::value>(a, alignment + first, r, f,
                                                                                     runs[i]);
      };
      int64_t f = 0;
      if constexpr (Vec<T>::block_steps == 4)
        for (; f + 4 <= a.features; f += 4) add(f, Int<4>{});
      for (; f + 2 <= a.features; f += 2) add(f, Int<2>{});
      if (f < a.features) add(f, Int<1>{});
    }
  }
}

template <class T, int K, bool skew, Direction direction>
void metric_gradient(const FusedTile<T> &a) {
  (a.grad_y ? gradient_of_tile<T, T, K, skew, direction, true>
            : gradient_of_tile<T, T, K, skew, direction, false>)(a, a.alignment, 0);
}

// Of the cosine, for float cells, in double, a half of each vector of E at a time. Points that match are often nearly
// parallel, and then less of them is left by the projection than float points have digits.
template <int K, bool skew>
void cosine_gradient(const FusedTile<float> &a) {
  constexpr int W = Vec<float>::width, H = Vec<double>::width;
  FusedTile<double> half{};
  half.steps = a.steps, half.features = a.features;
  half.x_feature = a.x_feature, half.x_row = a.x_row, half.y_feature = a.y_feature, half.y_step = a.y_step;
  for (int h = 0; h < W; h += H) {
    half.x = a.wide_x + h, half.y = a.wide_y + h;
    half.grad_x = half.rest_x = a.wide_grad_x + h;
    half.grad_y = half.rest_y = a.wide_grad_y ? a.wide_grad_y + h : nullptr;
    (half.grad_y ? gradient_of_tile<double, float, K, skew, Direction::point, true>
                 : gradient_of_tile<double, float, K, skew, Direction::point, false>)(half, a.alignment, h);
  }
}
