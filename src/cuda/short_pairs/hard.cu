// The kernels for gamma = 0, and their launches.
#include "cuda/short_pairs/hard.cuh"
#include "cuda/short_pairs/kernel.cuh"

namespace sdtw::cuda::short_pairs {
namespace {

template <bool gradients, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks) hard_pairs_kernel(const __grid_constant__ Args a) {
  if constexpr (avoids_float64) return __trap();  // choose_kernels asks for none there
  const Planes<Shape::R> planes = planes_of<Shape::R>(a);
  const HardCells<Shape::R> cells{planes};
  const auto sweep = [&](const Pair &pair) {
    find_admitted<Shape>(a, pair);
    int most = 0;  // of the costs, as bits, of which NaN has the largest
    const auto put = [&](int row, int column, double d) {
      const bool is_in = admits<Shape>(a, row, column);
      cells.put_cost(Planes<Shape::R>::place(row, column), is_in ? d : cells.infinity());
      if (is_in) most = max(most, __float_as_int(static_cast<float>(d)) & 0x7fffffff);
    };
    if (is_cityblock<Shape>(a))
      each_difference<Shape, Terms::absolute>(a, pair, planes.data, put);
    else
      each_difference<Shape, Terms::squares>(a, pair, planes.data, put);
    const float bound = max_of_block(__int_as_float(most));
    if (sweep_of_warp() != 0) return;
    const double value =
        bound == bound ? cells.template sweep<gradients, Shape::has_steps>(a, pair) : static_cast<double>(bound);
    if (lane_id() != 0) return;
    shared_bound() = bound;
    shared_status() = bound != bound             ? status_not_a_number
                      : value < cells.infinity() ? status_finite
                                                 : status_unreachable;
    if (a.value) store(a.value, pair.index, false, value);
  };
  each_pair<gradients>(a, sweep, [&](const Pair &pair, float factor) {
    if constexpr (gradients) {
      const float most = shared_bound();  // of distances, not of what squares have room for
      const float unit = is_euclidean<Shape>(a) ? Kept<Shape>::unit_of(most * most) : 1;
      mark_path<Shape>(a, pair, cells, unit);
      const Kept<Shape> kept(planes, planes.data, unit);  // of which E along a path needs no more
      if (a.dense.data)
        store_alignment(a, pair, planes);
      else
        Gradients<Shape>::store(a, pair, planes, kept, factor_of_metric<Shape>(a, unit) * factor);
    }
  });
}

template <bool gradients, class Shape>
void launch(const Args &a, cudaStream_t stream) {
  const size_t planes = (gradients ? 3 : 2) * Planes<Shape::R>::size_for(a.m) * sizeof(float);
  const size_t shared =
      std::max({planes, static_cast<size_t>(StagedPoints<Shape>::bytes), gradients ? Gradients<Shape>::bytes(a.m) : 0});
  launch_pairs<Shape, hard_pairs_kernel<gradients, Shape>>(a, shared, stream);
}

}  // namespace

void launch_hard(const Args &a, const ShortPairs &its, bool gradients, cudaStream_t stream) {
  const auto run = [&](auto shape) {
    gradients ? launch<true, decltype(shape)>(a, stream) : launch<false, decltype(shape)>(a, stream);
  };
  its.steps == Steps::unit ? with_general_shape<Steps::unit>(its, run) : with_general_shape<Steps::weighted>(its, run);
}

}  // namespace sdtw::cuda::short_pairs
