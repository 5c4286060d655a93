// Moves between tiles and the caller's matrices, for any vector type. Included by kernels_*.cpp inside its namespace.

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

inline int64_t offset_of(const MatrixTile &a, int lane, int row) {
  return (a.lane_offset ? a.lane_offset[lane] : lane * a.lane_stride) + row * a.row_stride;
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
        const Source *source = static_cast<const Source *>(a.source) + offset_of(a, l, k);
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
        Target *target = static_cast<Target *>(a.target) + offset_of(a, l, k);
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
