// Cost tiles: squared Euclidean costs, their gradient, and moves between tiles and the caller's matrices, for any vector
// type. Included by kernels_*.cpp inside its namespace.

// cost[s][k] = sum_f (x_f[k] - y_f[s])^2: the exact difference, in blocks of B steps by R rows that stay in registers.
template <class T, int K>
void sqeuclidean_cost(const FusedTile<T> &a) {
  using V = Vec<T>;
  constexpr int W = V::width;
  constexpr int R = K < 4 ? K : 4, B = sizeof(typename V::Real) == 64 ? 4 : 2;
  const auto block = [&](int64_t s, int r, auto steps) __attribute__((always_inline)) {
    constexpr int S = decltype(steps)::value;
    typename V::Real sum[S][R];
    for (int b = 0; b < S; ++b)
      for (int k = 0; k < R; ++k) sum[b][k] = V::set1(0);
    const T *x = a.x + r * a.x_row, *y = a.y + s * a.y_step;
    for (int64_t f = 0; f < a.features; ++f, x += a.x_feature, y += a.y_feature) {
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
      for (int k = 0; k < R; ++k) V::store(a.cost + ((s + b) * K + r + k) * W, sum[b][k]);
  };
  for (int r = 0; r < K; r += R) {
    int64_t s = 0;
    for (; s + B <= a.steps; s += B) block(s, r, Int<B>{});
    for (; s < a.steps; ++s) block(s, r, Int<1>{});
  }
}

// grad_x[k] += sum_s E (x - y), grad_y[s] += sum_k E (x - y), in descending order of rows and of columns: the caller
// multiplies by 2 g and -2 g (d/dx of (x - y)^2). In a skewed tile a column moves one lane down each step.
template <class T, int K, bool skew>
void sqeuclidean_gradient(const FusedTile<T> &a) {
  using V = Vec<T>;
  constexpr int W = V::width;
  constexpr int R = K < 4 ? K : 4;
  for (int64_t f = 0; f < a.features; ++f) {
    const T *y = a.y + f * a.y_feature;
    T *grad_y = a.grad_y + f * a.y_feature;
    for (int r = K - R; r >= 0; r -= R) {
      typename V::Real x[R], grad_x[R];
      for (int k = 0; k < R; ++k) {
        const int64_t at = f * a.x_feature + (r + k) * a.x_row;
        x[k] = V::load(a.x + at);
        grad_x[k] = V::load(a.grad_x + at);
      }
      auto sum = V::load(grad_y + (a.steps - 1) * a.y_step);
      for (int64_t s = a.steps - 1; s >= 0; --s) {
        if constexpr (!skew) sum = V::load(grad_y + s * a.y_step);
        const auto column = V::load(y + s * a.y_step);
        for (int k = R - 1; k >= 0; --k) {
          const auto e = V::load(a.alignment + (s * K + r + k) * W);
          const auto difference = V::where_live(e, V::sub(x[k], column));
          grad_x[k] = V::fma(e, difference, grad_x[k]);
          sum = V::fma(e, difference, sum);
        }
        if constexpr (!skew) {
          V::store(grad_y + s * a.y_step, sum);
        } else if (s > 0) {
          grad_y[s * a.y_step] = V::first(sum);
          sum = V::insert_last(V::rotate_down(sum), grad_y + (s - 1) * a.y_step + W - 1);
        } else {
          V::store(grad_y, sum);
        }
      }
      for (int k = 0; k < R; ++k) V::store(a.grad_x + f * a.x_feature + (r + k) * a.x_row, grad_x[k]);
    }
  }
}

template <class T, int K, class Source>
int load_matrix(const MatrixTile &a, T *tile) {
  using V = Vec<T>;
  constexpr int W = V::width;
  auto watch = V::watch_none();
  for (int64_t s = 0; s < a.steps; s += W) {
    const int64_t first = a.first_step + s, count = a.steps - s < W ? a.steps - s : W;
    for (int k = 0; k < K; ++k) {
      typename V::Real block[W];
      for (int l = 0; l < W; ++l) {
        const Source *source = static_cast<const Source *>(a.source) + l * a.lane_stride + k * a.row_stride;
        const int64_t last = a.last[k * W + l];
        if (a.step_stride == 1 && a.first[l] <= first && first + W <= last) {
          block[l] = V::load(source + first);
        } else {
          T some[W] = {};
          for (int64_t i = 0; i < count; ++i)
            if (a.first[l] <= first + i && first + i < last)
              some[i] = static_cast<T>(source[(first + i) * a.step_stride]);
          block[l] = V::load(some);
        }
        watch = V::watch(watch, block[l]);
      }
      V::transpose(block);
      for (int64_t i = 0; i < count; ++i) V::store(tile + ((s + i) * K + k) * W, block[i]);
    }
  }
  return V::verdict(watch, static_cast<T>(a.limit));
}

template <class T, int K, class Target>
void store_matrix(const MatrixTile &a, const T *tile, const T *factor) {
  using V = Vec<T>;
  constexpr int W = V::width;
  const auto scale = V::load(factor);
  for (int64_t s = 0; s < a.steps; s += W) {
    const int64_t first = a.first_step + s, count = a.steps - s < W ? a.steps - s : W;
    for (int k = 0; k < K; ++k) {
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
}
