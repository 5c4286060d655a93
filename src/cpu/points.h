// The points of packed series, for any vector type: how far they reach, and as costs from products take them. Included
// by kernels_*.cpp inside its namespace.

// body(at, centre) for every feature of a group of V::width U points; start and end of a group are told apart.
template <class T, class V, int U, class Start, class Each, class End>
inline __attribute__((always_inline)) void each_point(const PointBlocks<T> &a, int64_t block, int64_t from, Start start,
                                                      Each each, End end) {
  start();
  const T *data = a.data + block * a.block + from, *centre = a.centre + (a.lanes ? from : 0);
  for (int64_t f = 0; f < a.features; ++f, data += a.stride, centre += a.lanes ? a.stride : 1)
    for (int u = 0; u < U; ++u)
      each(u, V::load(data + u * V::width), a.lanes ? V::load(centre + u * V::width) : V::set1(*centre));
  end();
}

// The largest distance of a point from the centre, squared unless it is absolute, lane by lane; poison: NaN once a sum
// is not finite.
template <class T, bool absolute>
void reach(const PointBlocks<T> &a, T *largest, T *poison) {
  using V = Vec<T>;
  auto most = V::set1(0), spoilt = V::set1(0);
  const auto group = [&](int64_t block, int64_t from, auto vectors) __attribute__((always_inline)) {
    constexpr int U = decltype(vectors)::value;
    typename V::Real sum[U];
    each_point<T, V, U>(
        a, block, from,
        [&]() __attribute__((always_inline)) {
          for (int u = 0; u < U; ++u) sum[u] = V::set1(0);
        },
        [&](int u, auto point, auto centre) __attribute__((always_inline)) {
          const auto d = V::sub(point, centre);
          sum[u] = V::add(absolute ? V::abs(d) : V::mul(d, d), sum[u]);
        },
        [&]() __attribute__((always_inline)) {
          for (int u = 0; u < U; ++u) {
            most = V::larger(sum[u], most);
            spoilt = V::fma(V::set1(0), sum[u], spoilt);
          }
        });
  };
  for (int64_t block = 0; block < a.blocks; ++block) {
    int64_t i = 0;
    for (; i + 4 * V::width <= a.count; i += 4 * V::width) group(block, i, Int<4>{});
    for (; i < a.count; i += V::width) group(block, i, Int<1>{});
  }
  V::store(largest, most);
  V::store(poison, spoilt);
}

// Points relative to the centre, times a factor, and their squared norms times another: what metric_products takes.
template <class T>
void centred(const PointBlocks<T> &a, double factor, double of_norm, double *wide, double *norm) {
  using V = Vec<double>;
  constexpr int H = V::width;
  const auto by = V::set1(factor), by_norm = V::set1(of_norm);
  for (int64_t block = 0; block < a.blocks; ++block)
    for (int64_t i = 0; i < a.count; i += H) {
      const T *data = a.data + block * a.block + i, *centre = a.centre + (a.lanes ? i : 0);
      double *out = wide + block * a.block + i;
      auto sum = V::set1(0);
      for (int64_t f = 0; f < a.features; ++f, data += a.stride, out += a.stride, centre += a.lanes ? a.stride : 1) {
        const auto d = V::sub(V::load(data), a.lanes ? V::load(centre) : V::set1(static_cast<double>(*centre)));
        sum = V::fma(d, d, sum);
        V::store(out, V::mul(d, by));
      }
      V::store(norm + block * a.count + i, V::mul(sum, by_norm));
    }
}
