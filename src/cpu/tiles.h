// Cost tiles: squared Euclidean costs, their gradient, and moves between tiles and the caller's matrices, for any
// vector type. Included by kernels_*.cpp inside its namespace.

// out(s, k, sum) for every step and row of a tile, sum = sum_f (x_f[k] - y_f[s])^2 over features [begin, end): the
// exact difference, in blocks of B steps by R rows that stay in registers.
template <class T, int K, class Out>
inline void sqeuclidean_sums(const FusedTile<T> &a, int64_t begin, int64_t end, Out out) {
  using V = Vec<T>;
  constexpr int R = K < 4 ? K : 4, B = sizeof(typename V::Real) == 64 ? 4 : 3;
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
          const auto difference = V::sub(row[k], column);
          sum[b][k] = V::fma(difference, difference, sum[b][k]);
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

// Costs as they are. Features are summed a few at a time, and then these sums: the rounding errors of a float32 sum
// grow with the square root of the number of its terms, and are all of one sign where the terms are alike.
template <class T, int K>
void sqeuclidean_cost(const FusedTile<T> &a) {
  using V = Vec<T>;
  constexpr int64_t few = sizeof(T) == 4 ? 16 : INT64_MAX;
  const auto at = [&](int64_t s, int k) { return a.cost + (s * K + k) * V::width; };
  int64_t end = std::min(few, a.features);
  sqeuclidean_sums<T, K>(
      a, 0, end, [&](int64_t s, int k, auto sum) __attribute__((always_inline)) { V::store(at(s, k), sum); });
  for (int64_t begin = end; begin < a.features; begin = end) {
    end = std::min(begin + few, a.features);
    sqeuclidean_sums<T, K>(
        a, begin, end, [&](int64_t s, int k, auto sum) __attribute__((always_inline)) {
          V::store(at(s, k), V::add(V::load(at(s, k)), sum));
        });
  }
}

// Split costs for the float engine, tile[s][k] being [2][W], W integers and W fractions: computed in float64 from
// widened series, each vector of T being two of double.
template <class T, int K>
void sqeuclidean_double(const FusedTile<T> &a) {
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
    sqeuclidean_sums<double, K>(
        half, 0, a.features, [&](int64_t s, int k, auto sum) __attribute__((always_inline)) {
          T *t = a.cost + (s * K + k) * 2 * W + h;
          V::store_split(V::mul(sum, scale), reinterpret_cast<int32_t *>(t), t + W);
        });
  }
}

// Steps lo <= s < hi of a tile.
struct Run {
  int64_t lo, hi;
};

// Runs of steps in which any of R rows of lanes has an E that is not 0, last first. Gaps of up to 4 steps are taken
// along: a run costs about as much to begin.
template <class T, int K, int R>
int live_runs(const FusedTile<T> &a, int r, Run *runs) {
  using V = Vec<T>;
  constexpr int W = V::width;
  int count = 0;
  for (int64_t s = a.steps - 1; s >= 0; --s) {
    const T *e = a.alignment + (s * K + r) * W;
    auto largest = V::load(e);
    for (int k = 1; k < R; ++k) largest = V::larger(largest, V::load(e + k * W));
    if (!V::any_positive(largest)) continue;
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

// grad_x[k] += sum_s E (y - x), grad_y[s] += sum_k E (y - x) over one run: the caller multiplies by -2 g and 2 g (d/dx
// of (x - y)^2). F features at a time share the loads of E. In a skewed tile a column moves one lane down each step,
// and what leaves the first lane lies behind what has left it before.
template <class T, int K, bool skew, int R, int F>
void sqeuclidean_gradient_run(const FusedTile<T> &a, int r, int64_t f, Run run) {
  using V = Vec<T>;
  constexpr int W = V::width;
  constexpr T zero = 0;
  const int64_t at_x = f * a.x_feature + r * a.x_row, at_y = f * a.y_feature;
  const T *x = a.x + at_x, *y = a.y + at_y;
  typename V::Real grad_x[F][R], sum[F];
  [[maybe_unused]] T left[F][max_steps + 2 * W];
  for (int g = 0; g < F; ++g) {
    for (int k = 0; k < R; ++k) grad_x[g][k] = V::set1(0);
    sum[g] = V::set1(0);
  }
  for (int64_t s = run.hi - 1; s >= run.lo; --s) {
    typename V::Real e[R];
    for (int k = 0; k < R; ++k) e[k] = V::load(a.alignment + (s * K + r + k) * W);
    for (int g = 0; g < F; ++g) {
      const auto column = V::load(y + g * a.y_feature + s * a.y_step);
      typename V::Real step;  // of this column: summed apart, so that steps do not wait for each other
      for (int k = R - 1; k >= 0; --k) {
        const auto difference = V::where_live(e[k], V::sub(column, V::load(x + g * a.x_feature + k * a.x_row)));
        grad_x[g][k] = V::fma(e[k], difference, grad_x[g][k]);
        step = k == R - 1 ? V::mul(e[k], difference) : V::fma(e[k], difference, step);
      }
      if constexpr (!skew) {
        T *const at = a.grad_y + at_y + g * a.y_feature + s * a.y_step;
        V::store(at, V::add(V::load(at), step));  // rows of lanes are few
      } else {
        sum[g] = V::add(sum[g], step);
        V::store(left[g] + (run.hi - 1 - s), sum[g]);
        sum[g] = V::insert_last(V::rotate_down(sum[g]), &zero);
      }
    }
  }
  for (int g = 0; g < F; ++g) {
    if constexpr (skew) {  // columns from the last step's on, y_step being -1
      const int64_t at = at_y + g * a.y_feature + (run.hi - 1) * a.y_step, count = run.hi - run.lo - 1 + W;
      V::store(left[g] + count, V::set1(0));
      for (int64_t i = 0; i < count; i += W) add_to<V>(a.grad_y + at + i, a.rest_y + at + i, V::load(left[g] + i));
    }
    for (int k = 0; k < R; ++k) {
      const int64_t at = at_x + g * a.x_feature + k * a.x_row;
      add_to<V>(a.grad_x + at, a.rest_x + at, grad_x[g][k]);
    }
  }
}

template <class T, int K, bool skew>
void sqeuclidean_gradient(const FusedTile<T> &a) {
  constexpr int R = K < 4 ? K : 4;
  Run runs[max_steps];
  for (int r = K - R; r >= 0; r -= R) {
    const int count = live_runs<T, K, R>(a, r, runs);
    for (int i = 0; i < count; ++i) {
      int64_t f = 0;
      for (; f + 2 <= a.features; f += 2) sqeuclidean_gradient_run<T, K, skew, R, 2>(a, r, f, runs[i]);
      if (f < a.features) sqeuclidean_gradient_run<T, K, skew, R, 1>(a, r, f, runs[i]);
    }
  }
}

// Whether any cost of a tile but +infinity is not below the limit.
template <class T, int K>
int any_too_large(const MatrixTile &a, const T *tile) {
  using V = Vec<double>;
  auto watch = V::watch_none();
  if constexpr (sizeof(T) == 8)
    for (int64_t i = 0; i < a.steps * K; ++i)
      watch = V::watch(watch, V::unless_infinite(V::load(tile + i * V::width)), V::set1(a.limit));
  return V::verdict(watch, a.limit);
}

template <class T, int K, class Source>
int load_matrix(const MatrixTile &a, T *tile) {
  using V = Vec<T>;
  constexpr int W = V::width;
  auto watch = V::watch_none();
  const auto limit = V::set1(static_cast<T>(a.limit));
  // W rows of the matrix at a time, along all of the tile: rows are often a power of two apart and share cache sets.
  for (int k = 0; k < K; ++k)
    for (int64_t s = 0; s < a.steps; s += W) {
      const int64_t first = a.first_step + s, count = a.steps - s < W ? a.steps - s : W;
      typename V::Real block[W];
      for (int l = 0; l < W; ++l) {
        const Source *source = static_cast<const Source *>(a.source) + l * a.lane_stride + k * a.row_stride;
        const int64_t last = a.last[k * W + l];
        if (a.step_stride == 1 && a.first[l] <= first && first + W <= last) {
          // A tile ahead: rows are too many streams, and too far apart, for the processor to see them coming.
          __builtin_prefetch(source + first + 64);
          block[l] = V::load(source + first);
        } else {
          T some[W] = {};
          for (int64_t i = 0; i < count; ++i)
            if (a.first[l] <= first + i && first + i < last)
              some[i] = static_cast<T>(source[(first + i) * a.step_stride]);
          block[l] = V::load(some);
        }
        watch = V::watch(watch, block[l], limit);
      }
      V::transpose(block);
      for (int64_t i = 0; i < count; ++i) V::store(tile + ((s + i) * K + k) * W, block[i]);
    }
  const int large = V::verdict(watch, static_cast<T>(a.limit));
  if constexpr (sizeof(T) == 4) return large;
  // Forbidden cells are told from what is too large only where there is either: most matrices have neither.
  return large && any_too_large<T, K>(a, tile);
}

template <class T, int K, class Target>
void store_matrix(const MatrixTile &a, const T *tile, const T *factor) {
  using V = Vec<T>;
  constexpr int W = V::width;
  const auto scale = V::load(factor);
  for (int k = 0; k < K; ++k)
    for (int64_t s = 0; s < a.steps; s += W) {
      const int64_t first = a.first_step + s, count = a.steps - s < W ? a.steps - s : W;
      typename V::Real block[W];
      for (int64_t i = 0; i < W; ++i)
        block[i] = i < count ? V::mul(V::load(tile + ((s + i) * K + k) * W), scale) : V::set1(0);
      V::transpose(block);
      for (int l = 0; l < W; ++l) {
        Target *target = static_cast<Target *>(a.target) + l * a.lane_stride + k * a.row_stride;
        const int64_t last = a.last[k * W + l];
        if (a.step_stride == 1 && a.first[l] <= first && first + W <= last && count == W) {
          V::store(target + first, block[l]);
        } else {
          T some[W];
          V::store(some, block[l]);
          for (int64_t i = 0; i < count; ++i)
            if (a.first[l] <= first + i && first + i < last)
              target[(first + i) * a.step_stride] = static_cast<Target>(some[i]);
        }
      }
    }
}
