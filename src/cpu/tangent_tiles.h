// Derivatives along tangents, tile by tile, for any vector type: of costs, and of what gradients are made of.
// core/metric.h says what they are. Included by kernels_*.cpp inside its namespace, after metrics.h.

// The cost of a vector of cells that are still in the tile, as they are or split.
template <class T, bool split>
inline __attribute__((always_inline)) typename Vec<T>::Real kept_cost(const FusedTile<T> &a, int64_t vector) {
  using V = Vec<T>;
  constexpr int W = V::width;
  if constexpr (split) {
    const T *t = a.cost + vector * 2 * W;
    const auto bits = V::add(V::real_of(V::load(reinterpret_cast<const int32_t *>(t))), V::load(t + W));
    return V::mul(bits, V::set1(static_cast<T>(1 / a.scale)));
  } else {
    return V::load(a.cost + vector * W);
  }
}

// The costs' derivative along the tangents: the slope times the sum of direction times the tangents' difference.
template <class Metric, class T, int K, bool split>
void tangent_cost(const TangentTile<T> &a) {
  using V = Vec<T>;
  constexpr int W = V::width, R = K < 4 ? K : 4;
  const FusedTile<T> &of = a.of;
  for (int r = 0; r < K; r += R)
    for (int64_t s = 0; s < of.steps; ++s) {
      typename V::Real sum[R];
      for (int k = 0; k < R; ++k) sum[k] = V::set1(0);
      int64_t at_x = r * of.x_row, at_y = s * of.y_step;
      for (int64_t f = 0; f < of.features; ++f, at_x += of.x_feature, at_y += of.y_feature) {
        const auto y = V::load(of.y + at_y), y_dot = V::load(a.y + at_y);
        for (int k = 0; k < R; ++k) {
          const auto difference = V::sub(V::load(of.x + at_x + k * of.x_row), y);
          const auto dot = V::sub(V::load(a.x + at_x + k * of.x_row), y_dot);
          if constexpr (std::is_same_v<Metric, core::CityBlock>)
            sum[k] = V::add(V::with_sign(dot, difference), sum[k]);
          else
            sum[k] = V::fma(difference, dot, sum[k]);
        }
      }
      for (int k = 0; k < R; ++k) {
        const int64_t vector = s * K + r + k;
        if constexpr (std::is_same_v<Metric, core::Euclidean>) {
          const auto cost = kept_cost<T, split>(of, vector);
          sum[k] = V::where_positive(cost, V::div(sum[k], cost));
        } else if constexpr (!std::is_same_v<Metric, core::CityBlock>) {
          sum[k] = V::add(sum[k], sum[k]);
        }
        V::store(a.tangent + vector * W, sum[k]);
      }
    }
}

// For a slope that is the reciprocal of the cost.
template <class T, int K, bool split>
void reciprocal_tangent_slopes(const TangentTile<T> &a) {
  using V = Vec<T>;
  constexpr int W = V::width;
  for (int64_t i = 0; i < a.of.steps * K; ++i) {
    T *const e = a.of.alignment + i * W, *const e_dot = a.alignment_dot + i * W;
    const auto cost = kept_cost<T, split>(a.of, i), slope = V::div(V::set1(1), cost);
    const auto of_tangents = V::mul(V::load(e), slope);
    const auto of_points = V::mul(slope, V::fnma(of_tangents, V::load(a.tangent + i * W), V::load(e_dot)));
    V::store(e, V::where_positive(cost, of_tangents));
    V::store(e_dot, V::where_positive(cost, of_points));
  }
}
