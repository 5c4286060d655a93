// The points of packed series, for any vector type: how far they reach, and as costs from products take them. Included
// by kernels_*.cpp inside its namespace.

// Runs body(from, vectors) for all points of a block, 4 or 1 vectors of them at a time.
template <class V, class Body>
inline __attribute__((always_inline)) void each_group(int64_t count, Body body) {
  int64_t i = 0;
  for (; i + 4 * V::width <= count; i += 4 * V::width) body(i, Int<4>{});
  for (; i < count; i += V::width) body(i, Int<1>{});
}

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
  for (int64_t block = 0; block < a.blocks; ++block)
    each_group<V>(a.count, [&](int64_t from, auto vectors) { group(block, from, vectors); });
  V::store(largest, most);
  V::store(poison, spoilt);
}

// Points relative to the centre, times a factor, and their squared norms, or the sums of their coordinates, times
// another: what metric_products takes.
template <class T, bool sums>
void centred(const PointBlocks<T> &a, double factor, double of_norm, double *wide, double *norm) {
  using V = Vec<double>;
  constexpr int H = V::width;
  const auto by = V::set1(factor), by_norm = V::set1(of_norm);
  for (int64_t block = 0; block < a.blocks; ++block)
    each_group<V>(
        a.count, [&](int64_t from, auto vectors) __attribute__((always_inline)) {
          constexpr int U = decltype(vectors)::value;
          typename V::Real sum[U];
          for (int u = 0; u < U; ++u) sum[u] = V::set1(0);
          const T *data = a.data + block * a.block + from, *centre = a.centre + (a.lanes ? from : 0);
          double *out = wide + block * a.block + from;
          for (int64_t f = 0; f < a.features; ++f, data += a.stride, out += a.stride, centre += a.lanes ? a.stride : 1)
            for (int u = 0; u < U; ++u) {
              const auto of = a.lanes ? V::load(centre + u * H) : V::set1(static_cast<double>(*centre));
              const auto d = V::sub(V::load(data + u * H), of);
              sum[u] = sums ? V::add(d, sum[u]) : V::fma(d, d, sum[u]);
              V::store(out + u * H, V::mul(d, by));
            }
          for (int u = 0; u < U; ++u) V::store(norm + block * a.count + from + u * H, V::mul(sum[u], by_norm));
        });
}

// Points of norm 1 / sqrt(2) in place of a block's; whether any has norm 0 (cpu/cosine.h).
template <class T>
bool normalise(const CosineBlock<T> &a, int64_t features) {
  using V = Vec<double>;
  const auto one = V::set1(1), none = V::set1(0);
  auto zeros = none;
  each_group<V>(
      a.count, [&](int64_t from, auto vectors) __attribute__((always_inline)) {
        constexpr int U = decltype(vectors)::value;
        const auto point = [&](int64_t f, int u) { return V::load(a.points + f * a.stride + from + u * V::width); };
        typename V::Real scale[U], sum[U], factor[U];
        for (int u = 0; u < U; ++u) scale[u] = one, sum[u] = none;
        if constexpr (sizeof(T) == 8) {  // by powers of two that keep the squares within a double's range
          for (int64_t f = 0; f < features; ++f)
            for (int u = 0; u < U; ++u) sum[u] = V::larger(V::abs(point(f, u)), sum[u]);
          for (int u = 0; u < U; ++u) {
            scale[u] = V::where(V::at_most(V::set1(1e140), sum[u]), V::set1(0x1p-600), one);
            scale[u] = V::where(V::at_most(sum[u], V::set1(1e-140)), V::set1(0x1p600), scale[u]);
            sum[u] = none;
          }
        }
        for (int64_t f = 0; f < features; ++f)
          for (int u = 0; u < U; ++u) {
            const auto v = V::mul(point(f, u), scale[u]);
            sum[u] = V::fma(v, v, sum[u]);
          }
        for (int u = 0; u < U; ++u) {
          factor[u] = V::where_positive(sum[u], V::div(V::set1(half_root), V::sqrt(sum[u])));
          zeros = V::larger(V::sub(one, V::where_positive(sum[u], one)), zeros);
          const auto largest = V::set1(std::numeric_limits<double>::max());
          V::store(a.inverse + from + u * V::width, V::smaller(V::mul(factor[u], scale[u]), largest));
        }
        for (int64_t f = 0; f < features; ++f)
          for (int u = 0; u < U; ++u) {
            const int64_t at = f * a.stride + from + u * V::width;
            const auto v = V::mul(V::mul(point(f, u), scale[u]), factor[u]);
            a.wide ? V::store(a.wide + at, v) : V::store(a.points + at, v);
          }
      });
  return V::any_nonzero(zeros);
}

// From the derivative with respect to these points to that with respect to the caller's, which may take its place.
template <class T>
void project(const CosineBlock<T> &a, int64_t features, const double *sums, T *gradient) {
  using V = Vec<double>;
  each_group<V>(
      a.count, [&](int64_t from, auto vectors) __attribute__((always_inline)) {
        constexpr int U = decltype(vectors)::value;
        const auto point = [&](int64_t at) { return a.wide ? V::load(a.wide + at) : V::load(a.points + at); };
        typename V::Real twice[U];
        for (int u = 0; u < U; ++u) twice[u] = V::set1(0);
        for (int64_t f = 0; f < features; ++f)
          for (int u = 0; u < U; ++u) {
            const int64_t at = f * a.stride + from + u * V::width;
            twice[u] = V::fma(point(at), V::load(sums + at), twice[u]);
          }
        for (int u = 0; u < U; ++u) twice[u] = V::add(twice[u], twice[u]);
        for (int64_t f = 0; f < features; ++f)
          for (int u = 0; u < U; ++u) {
            const int64_t at = f * a.stride + from + u * V::width;
            const auto across = V::fnma(point(at), twice[u], V::load(sums + at));
            V::store(gradient + at, V::mul(V::load(a.inverse + from + u * V::width), across));
          }
      });
}
