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

// Row k of all lanes: where each begins, and which steps it has. Where the matrix has steps side by side, a vector of
// them is moved at once if a lane, or at best every lane, has them all.
template <int W>
struct TileRows {
  int64_t at[W], first[W], end[W], all_first = INT64_MIN, all_end = INT64_MAX;
  const bool adjacent;
  TileRows(const MatrixTile &a, int k) : adjacent(a.step_stride == 1) {
    for (int l = 0; l < W; ++l) {
      at[l] = (a.lane_offset ? a.lane_offset[l] : l * a.lane_stride) + k * a.row_stride;
      all_first = std::max(all_first, first[l] = a.first[l]);
      all_end = std::min(all_end, end[l] = a.last[k * W + l]);
    }
  }
  bool all_have(int64_t s) const { return adjacent && all_first <= s && s + W <= all_end; }
  bool has(int l, int64_t s) const { return adjacent && first[l] <= s && s + W <= end[l]; }
};

// Where the block of W steps from `next` on begins: the last one goes over some steps again, rather than being a part.
template <int W>
int64_t whole_block(int64_t next, int64_t steps) {
  return steps < W ? next : std::min(next, steps - W);
}

template <class T, int K, class Source>
int load_matrix(const MatrixTile &a, T *tile) {
  using V = Vec<T>;
  constexpr int W = V::width;
  auto watch = V::watch_none();
  const auto limit = V::set1(static_cast<T>(a.limit));
  // W rows of the matrix at a time, along all of the tile: rows are often a power of two apart and share cache sets.
  for (int k = 0; k < K; ++k) {
    const TileRows<W> rows(a, k);
    for (int64_t next = 0; next < a.steps; next += W) {
      const int64_t s = whole_block<W>(next, a.steps), first = a.first_step + s,
                    count = std::min<int64_t>(W, a.steps - s);
      typename V::Real block[W];
      if (rows.all_have(first)) {
        const Source *const source = static_cast<const Source *>(a.source) + first;
        for (int l = 0; l < W; ++l) {
          // A tile ahead: rows are too many streams, and too far apart, for the processor to see them coming.
          __builtin_prefetch(source + rows.at[l] + 64);
          block[l] = V::load(source + rows.at[l]);
        }
      } else {
        for (int l = 0; l < W; ++l) {
          const Source *const source = static_cast<const Source *>(a.source) + rows.at[l];
          if (rows.has(l, first)) {
            block[l] = V::load(source + first);
            continue;
          }
          const int64_t from = std::max<int64_t>(0, rows.first[l] - first), to = std::min(count, rows.end[l] - first);
          T some[W] = {};
          for (int64_t i = from; i < to; ++i) some[i] = static_cast<T>(source[(first + i) * a.step_stride]);
          block[l] = V::load(some);
        }
      }
      for (int l = 0; l < W; ++l) watch = V::watch(watch, block[l], limit);
      V::transpose(block);
      T *const to = tile + (s * K + k) * W;
      if (count == W)
        for (int i = 0; i < W; ++i) V::store(to + i * K * W, block[i]);
      else
        for (int64_t i = 0; i < count; ++i) V::store(to + i * K * W, block[i]);
    }
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
  for (int k = 0; k < K; ++k) {
    const TileRows<W> rows(a, k);
    for (int64_t next = 0; next < a.steps; next += W) {
      const int64_t s = whole_block<W>(next, a.steps), first = a.first_step + s,
                    count = std::min<int64_t>(W, a.steps - s);
      const T *const of = tile + (s * K + k) * W;
      typename V::Real block[W];
      if (count == W)
        for (int i = 0; i < W; ++i) block[i] = V::mul(V::load(of + i * K * W), scale);
      else
        for (int64_t i = 0; i < W; ++i) block[i] = i < count ? V::mul(V::load(of + i * K * W), scale) : V::set1(0);
      V::transpose(block);
      if (count == W && rows.all_have(first)) {
        Target *const target = static_cast<Target *>(a.target) + first;
        for (int l = 0; l < W; ++l) V::store(target + rows.at[l], block[l]);
        continue;
      }
      for (int l = 0; l < W; ++l) {
        Target *const target = static_cast<Target *>(a.target) + rows.at[l];
        if (count == W && rows.has(l, first)) {
          V::store(target + first, block[l]);
          continue;
        }
        const int64_t from = std::max<int64_t>(0, rows.first[l] - first), to = std::min(count, rows.end[l] - first);
        T some[W];
        V::store(some, block[l]);
        for (int64_t i = from; i < to; ++i) target[(first + i) * a.step_stride] = static_cast<Target>(some[i]);
      }
    }
  }
}
