// Gradients of many features where E is in many cells, as at large gamma and of cosine: as products of matrices, by the
// same warps and from the same half tiles as point_gradients.cuh has them,
//   sum_j E_ij (x_i - y_j) = x_i sum_j E_ij - sum_j E_ij y_j,
// in float64, of pairs whose points are not so alike that what does not cancel would show (is_dense). Of unit points
// only the second sum is wanted (PointSum).
#pragma once

#include "cuda/costs/matrix_product.cuh"
#include "cuda/gradients/point_gradients.cuh"

namespace sdtw::cuda {

// Of float32 series, or unit points. A warp has 16 points of one series, of which a lane has two, and of the other as
// many as there can be cells of them in half a tile. row, part: the lane's place in products (matrix_product.cuh). Of
// 32 features a lane has four that follow each other, one in each of four products.
template <Layout layout, bool wide_sums, class Element>
struct DenseGradients {
  using Own = Features<float, Element, layout, wide_sums>;
  using Loaded = typename Own::Loaded;
  static constexpr int products = Point<float>::size, together = 8 * products, half_steps = max_tile_steps / 2;
  struct alignas(8) Two {
    float v[2];
  };
  struct Total {  // of a lane's features of a point
    using Number = std::conditional_t<Own::of_units, double, float>;
    Number v[products];

    __device__ __forceinline__ Number value(int i) const { return v[i]; }
  };

  const Args &a;
  const StripView &s;
  const Gradients<float> &of;
  const SweptHalf<float> &half;
  unsigned live;  // bits of the steps in which this lane's rows have any E
  const typename Gradients<float>::Facts facts;
  int row, part;
  double sum[products][4], weight[2];  // of E times the other points, and of E, of the lane's points

  __device__ __forceinline__ DenseGradients(const Gradients<float> &gradients, const SweptHalf<float> &swept,
                                            unsigned of_lane)
      : a(gradients.a),
        s(gradients.s),
        of(gradients),
        half(swept),
        live(of_lane),
        facts(gradients.facts_of[0]),
        row(lane_id() / 4),
        part(lane_id() % 4) {}

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int product = 0; product < products; product++)
#pragma unroll
      for (int i = 0; i < 4; i++) sum[product][i] = 0;
    weight[0] = weight[1] = 0;
  }
  __device__ __forceinline__ bool has_column(int column) const {
    return static_cast<unsigned>(column) < static_cast<unsigned>(s.pair.m);
  }
  // Whether there is any E in a step of the half tile, which may be none of it, of a lane that has it in `steps`.
  static __device__ __forceinline__ bool has_step(unsigned steps, int u) {
    return static_cast<unsigned>(u) < static_cast<unsigned>(half_steps) && (steps >> u & 1) != 0;
  }
  // Points of x, by the row, and of y, by the column.
  __device__ __forceinline__ Loaded x_at(const Own &own, int i) const {
    return own.load(facts.x + i * of.x.next + own.offset(of.x), own.along(of.x), of.exists(i, facts.rows));
  }
  __device__ __forceinline__ Loaded y_at(const Own &own, int column) const {
    return own.load(facts.y + column * of.y.next + own.offset(of.y), own.along(of.y), has_column(column));
  }

  // Adds E times other points. e: of the lane's two points and each of the others.
  template <int parts>
  __device__ __forceinline__ void add(const float (&e)[parts][2], const Loaded (&points)[parts]) {
    double of_e[2 * parts];
#pragma unroll
    for (int i = 0; i < parts; i++)
#pragma unroll
      for (int j = 0; j < 2; j++) {
        of_e[2 * i + j] = static_cast<double>(e[i][j]);
        weight[j] += of_e[2 * i + j];
      }
#pragma unroll
    for (int product = 0; product < products; product++) {
      double of_points[parts];
#pragma unroll
      for (int i = 0; i < parts; i++) of_points[i] = whole_of(points[i].v[product]);
      multiply_add<parts>(sum[product], of_e, of_points);
    }
  }
  // Adds what has been summed up to the gradients of the lane's two points, of which it has features in two columns of
  // the products, from feature f on. here: loads a point; to: where its gradient's sums are, if it has any.
  template <class Here, class To>
  __device__ __forceinline__ void give(int f, const Points &sums, const Here &here, const To &to) {
    const Own own[2] = {Own(a, 2 * part, f), Own(a, 2 * part + 1, f)};
    Loaded points[2][2]{};
#pragma unroll
    for (int i = 0; i < 2 && !Own::of_units; i++)
#pragma unroll
      for (int j = 0; j < 2; j++) points[i][j] = here(own[j], i);
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
      for (int step = 1; step < 4; step *= 2) weight[i] += __shfl_xor_sync(all_lanes, weight[i], step);
      char *const at = weight[i] > 0 ? to(i) : nullptr;
      if (!at) continue;
#pragma unroll
      for (int j = 0; j < 2; j++) {
        Total total;
#pragma unroll
        for (int product = 0; product < products; product++)
          total.v[product] = static_cast<typename Total::Number>(
              fma(weight[i], whole_of(points[i][j].v[product]), -sum[product][2 * i + j]));
        own[j].add(at + own[j].offset_of_sums(sums), own[j].along_sums(sums), facts.factor, total);
      }
    }
  }

  // To grad_x, of every other lane, as point_gradients.cuh has it: four lanes at a time, which meet up to 22 columns.
  template <int workers>
  __device__ __forceinline__ void to_x() {
    constexpr int lanes = 4;
    static_assert(half_steps + (lanes - 1) * workers <= 24, "a product has no more columns");
#pragma unroll 1
    for (int first = of.worker; first < warp; first += lanes * workers) {
      const int lane = first + row / 2 * workers, of_lane = row % 2 * 2, own_row = lane * K + of_lane;
      const unsigned steps = __shfl_sync(all_lanes, live, lane);
      if (!__any_sync(all_lanes, steps != 0)) continue;
      const int column = part - first - (lanes - 1) * workers;  // the lane's first, from the first step's on
#pragma unroll 1
      for (int f = 0; f < a.features; f += together) {
        const Own own(a, row, f);
        clear();
        const auto add_columns = [&](auto parts, int from) {
          Loaded points[parts.value];
          float e[parts.value][2];
#pragma unroll
          for (int i = 0; i < parts.value; i++) points[i] = y_at(own, half.step + column + 4 * (from + i));
#pragma unroll
          for (int i = 0; i < parts.value; i++) {
            const int u = column + 4 * (from + i) + lane;
            Two of_rows{};
            if (has_step(steps, u)) of_rows = *reinterpret_cast<const Two *>(half.of_lane(u, lane)->v + of_lane);
            e[i][0] = of_rows.v[0], e[i][1] = of_rows.v[1];
          }
          add<parts.value>(e, points);
        };
        add_columns(std::integral_constant<int, 4>{}, 0);
        add_columns(std::integral_constant<int, 2>{}, 4);
        give(
            f, of.out, [&](const Own &given, int i) { return x_at(given, own_row + i); },
            [&](int i) { return of.exists(own_row + i, facts.rows) ? of.out.at(0, own_row + i) : nullptr; });
      }
    }
  }

  // To grad_y, of 16 columns that follow each other: up to half a tile's last one, or 16 or 32 before. All warps have
  // finished a half tile before any begins the next (SparseGradients), so that it does not matter who adds to which.
  // Sums of columns [separate, separate_end) of the pair are added to `side`.
  template <int workers>
  __device__ __forceinline__ void to_y(int separate, int separate_end) {
    const int groups = (a.features + together - 1) / together;
#pragma unroll 1
    for (int task = of.worker; task < 3 * groups; task += workers) {
      const int number = task / groups, f = (task - number * groups) * together;
      const int back = half_steps * (number == 0 ? 1 : number == 1 ? 0 : 2);  // what takes longest comes first
      const int column = row - back;                                          // the lane's first, likewise
      const int begin = max(back - half_steps, 0), end = min(back + half_steps, warp);
      const Own own(a, row, f);
      clear();
#pragma unroll 1
      for (int lane = begin + part; lane < end; lane += 4) {
        const unsigned steps = __shfl_sync(all_lanes, live, lane);
        Loaded points[K];
        float e[K][2];
#pragma unroll
        for (int k = 0; k < K; k++) points[k] = x_at(own, lane * K + k);
#pragma unroll
        for (int j = 0; j < 2; j++) {
          const int u = column + 8 * j + lane;
          Rows<float> of_rows{};
          if (has_step(steps, u)) of_rows = *half.of_lane(u, lane);
#pragma unroll
          for (int k = 0; k < K; k++) e[k][j] = of_rows.v[k];
        }
        add<K>(e, points);
      }
      give(
          f, of.out, [&](const Own &given, int i) { return y_at(given, half.step + column + 8 * i); },
          [&](int i) -> char * {
            const int own_column = half.step + column + 8 * i, j = s.column_of(s.pair, own_column);
            if (!has_column(own_column)) return nullptr;
            if (j < separate || j >= separate_end) return of.out.at(0, own_column);
            return SumsOfPairs(a, s, a.side, j - separate, sum_size(a)).first;
          });
    }
  }
};

// Whether E of a pair is in so many cells that products take less time: by the columns that have any in the pair's
// middle. So that what cancels in them is 1e-13 of what points differ by, or less, points lie no further from 0 than a
// thousand times as far as from the first point of x. Of unit points nothing cancels.
__device__ __forceinline__ bool is_dense(const Args &a, int64_t pair, int middle_columns) {
  constexpr int least_features = 25, least_columns = 96;
  if (avoids_float64 || a.features < least_features || a.tile_steps < max_tile_steps || !has_bounds(a)) return false;
  if (middle_columns < least_columns) return false;
  const int *bounds = a.bounds + bounds_per_pair * pair;
  const float from_first = __int_as_float(max(bounds[0], bounds[1])), from_zero = __int_as_float(bounds[2]);
  return from_first > 0 && from_zero <= 0x1p20f * from_first;
}

}  // namespace sdtw::cuda
