// Gradients of many features, for any vector type: vectors go along a time step's features, and only cells that have E
// are visited. Of many features costs are large and paths few. Included by kernels_*.cpp inside its namespace.

template <class T, class Source>
void load_row(const void *from, T *to, int64_t count) {
  using V = Vec<T>;
  const auto *source = static_cast<const Source *>(from);
  int64_t i = 0;
  for (; i + V::width <= count; i += V::width) V::store(to + i, V::load(source + i));
  for (; i < count; ++i) to[i] = static_cast<T>(source[i]);
}

template <class T, class Target>
void store_row(const T *from, T factor, void *to, int64_t count) {
  using V = Vec<T>;
  auto *target = static_cast<Target *>(to);
  int64_t i = 0;
  for (; i + V::width <= count; i += V::width) V::store(target + i, V::mul(V::load(from + i), V::set1(factor)));
  for (; i < count; ++i) target[i] = static_cast<Target>(from[i] * factor);
}

// What cells of R rows of one lane, r + k, add in F vectors of features from f on. live: in which steps any has E.
template <class T, int K, bool sign, int R, int F>
inline void row_gradient_of_lane(const RowTile<T> &a, int lane, int r, uint64_t live, int64_t f) {
  using V = Vec<T>;
  constexpr int W = V::width;
  const int64_t at_x = (lane * K + r) * a.features + f;
  const T *const x = a.x + at_x;
  typename V::Real grad_x[F][R];
  for (int g = 0; g < F; ++g)
    for (int k = 0; k < R; ++k) grad_x[g][k] = V::set1(0);
  for (; live; live &= live - 1) {
    const int s = __builtin_ctzll(live);
    const int64_t at_y = (a.first_step + s - lane) * a.features + f;
    typename V::Real e[R];
    for (int k = 0; k < R; ++k) e[k] = V::set1(a.alignment[(s * K + r + k) * W + lane]);
    for (int g = 0; g < F; ++g) {
      const auto column = V::load(a.y + at_y + g * W);
      typename V::Real sum;
      for (int k = 0; k < R; ++k) {
        const auto difference = V::sub(column, V::load(x + k * a.features + g * W));
        if constexpr (sign) {
          const auto term = V::with_sign(e[k], difference);
          grad_x[g][k] = V::add(term, grad_x[g][k]);
          sum = k == 0 ? term : V::add(term, sum);
        } else {
          const auto of_live = V::where_live(e[k], difference);
          grad_x[g][k] = V::fma(e[k], of_live, grad_x[g][k]);
          sum = k == 0 ? V::mul(e[k], of_live) : V::fma(e[k], of_live, sum);
        }
      }
      add_to<V>(a.grad_y + at_y + g * W, a.rest_y + at_y + g * W, sum);
    }
  }
  for (int g = 0; g < F; ++g)
    for (int k = 0; k < R; ++k) {
      const int64_t at = at_x + k * a.features + g * W;
      add_to<V>(a.grad_x + at, a.rest_x + at, grad_x[g][k]);
    }
}

// As metric_gradient.
template <class T, int K, bool sign>
void row_gradient(const RowTile<T> &a) {
  using V = Vec<T>;
  constexpr int W = V::width, R = K < 4 ? K : 4;
  static_assert(max_steps <= 64);
  for (int r = 0; r < K; r += R) {
    uint64_t live[W] = {};
    for (int64_t s = 0; s < a.steps; ++s) {
      const T *e = a.alignment + (s * K + r) * W;
      auto largest = V::abs(V::load(e));
      for (int k = 1; k < R; ++k) largest = V::larger(largest, V::abs(V::load(e + k * W)));
      if (!V::any_nonzero(largest)) continue;
      T each[W];
      V::store(each, largest);
      const int64_t column = a.first_step + s;
      for (int l = 0; l < W; ++l) live[l] |= uint64_t(each[l] != 0 && column >= l && column - l < a.columns) << s;
    }
    for (int l = 0; l < W; ++l) {
      if (!live[l]) continue;
      int64_t f = 0;
      for (; f + 2 * W <= a.features; f += 2 * W) row_gradient_of_lane<T, K, sign, R, 2>(a, l, r, live[l], f);
      if (f < a.features) row_gradient_of_lane<T, K, sign, R, 1>(a, l, r, live[l], f);
    }
  }
}
