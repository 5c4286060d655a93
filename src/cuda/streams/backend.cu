// A call of the streams: its arguments, how the pairs are cut into tasks, and the three kernels, of which the others
// end at once unless the first has left pairs to them.
#include "core/numbers.h"
#include "cuda/core_calls.h"
#include "cuda/launch.h"
#include "cuda/streams/backend.h"
#include "cuda/streams/exact.cuh"

namespace sdtw::cuda::streams {
namespace {

// A batch in which x, or y, is the same in all pairs.
bool is_one(const sdtw_in &series, const void *lengths, const Problem &p) {
  return !p.all_pairs && p.batch > 1 && series.stride[0] == 0 && !lengths;
}

int log2_of(int64_t power) { return 63 - __builtin_clzll(static_cast<unsigned long long>(power)); }

// How turns are taken of the pairs, by streams of the fewest lanes that have room for them; by none (lanes are 0) where
// there is no such corridor, or where that takes no fewer steps than if all rows had a lane.
TurnsOfPair make_turns(const Args &a, int K) {
  if (a.band.kind == SDTW_BAND_NONE || a.band.kind == SDTW_BAND_ITAKURA || !a.every_pair || a.x_len || a.y_len)
    return {};
  const core::Diagonals<int> of(a.n, a.m, a.reach, a.band.kind == SDTW_BAND_SAKOE_CHIBA);
  if (a.m - a.n < of.least || a.m - a.n > of.most) return {};  // no path comes to the end
  TurnsOfPair t{};
  t.least = of.least, t.width = of.most - of.least + 1;
  t.lanes = std::max(least_lanes_of_turns(a.features), static_cast<int>(ceil_div(t.width + K, K + 1)));
  t.of_pair = static_cast<int>(ceil_div(std::max({a.n, a.m, block_steps}), K));
  t.end_turn = (a.n - 1) / K, t.end_row = (a.n - 1) % K, t.end_step = a.m - 1 - t.end_turn * K - t.least;
  if (t.lanes > warp) return {};
  const int64_t steps = int64_t{t.of_pair} * (K + 1) / (warp / t.lanes);
  const int64_t steps_else = int64_t{columns_of_item(a.m)} * (a.warps << a.lane_bits) / warp;
  return steps < steps_else ? t : TurnsOfPair{};
}

Args make_args(const sdtw::Plan &plan, const Buffers &b) {
  const Problem &p = plan.problem;
  const Streams &s = plan.cuda.streams;
  const auto series = [&](const sdtw_in &in) {
    return general::Series{in.data, {in.stride[0], in.stride[1], in.stride[2]}, p.dtype};
  };
  Args a{};
  const bool swapped = s.swapped;
  const sdtw_in &x = swapped ? b.y : b.x, &y = p.symmetric || swapped ? b.x : b.y;
  a.x = series(x), a.y = series(y);
  a.x_len = swapped ? b.y_len : b.x_len, a.y_len = p.symmetric || swapped ? b.x_len : b.y_len;
  a.long_lengths = p.length_bits == 64;
  const bool one_x = is_one(x, a.x_len, p);
  a.every_pair = p.all_pairs || one_x, a.symmetric = p.symmetric;
  a.batch_x = one_x ? 1 : swapped ? p.batch_y : p.batch_x, a.batch_y = swapped ? p.batch_x : p.batch_y;
  a.n = static_cast<int>(swapped ? p.m : p.n), a.m = static_cast<int>(swapped ? p.n : p.m);
  a.features = static_cast<int>(p.features);
  if (p.all_pairs)
    a.value_stride[swapped ? 1 : 0] = p.batch_y, a.value_stride[swapped ? 0 : 1] = 1;
  else
    a.value_stride[1] = 1;
  a.metric = p.metric;
  a.scale = p.gamma > 0 ? core::log2_e / p.gamma : 0;
  a.root = Root(a.scale);
  a.exchanged = swapped;
  if (is_banded(p)) {
    a.band.kind = p.band, a.band.radius = p.band_radius;
    // Beyond this no series ends, of which one has up to 2^16 steps.
    a.reach = p.band == SDTW_BAND_ITAKURA ? 0 : static_cast<int>(std::min(p.band_radius, double(1 << 20)));
  }
  a.warps = static_cast<int>(s.warps), a.lane_bits = log2_of(s.lanes);
  a.turns = make_turns(a, p.gamma > 0 ? rows_per_lane : hard_rows_per_lane);
  a.value = static_cast<float *>(b.value);
  a.control = at<Control>(b.workspace, s.control);
  a.rows = s.exact_warps > 0 ? at<Word>(b.workspace, s.rows) : nullptr;
  return a;
}

// How many y a task has, of those that take tasks: `resident` at once, each with `together` pairs at a time, which take
// `of_pairs` steps, beside `of_task` steps for a task. All take their tasks at about the same times, so what counts is
// how often they take one, the last time all together, and the steps of each.
void cut(Args &a, int64_t resident, int64_t together, int64_t of_pairs, int64_t of_task) {
  constexpr int64_t most_times = 64, most_columns = int64_t{1} << 28;
  const int64_t share = a.symmetric ? 2 : 1, most = std::max<int64_t>(1, most_columns / of_pairs);
  double least = HUGE_VAL;
  for (int64_t times = 1; times <= most_times; times++) {
    const int64_t even = ceil_div(a.batch_x * a.batch_y, share * times * resident);
    const int64_t rounds =
        std::max<int64_t>(1, std::min({ceil_div(even, together), ceil_div(a.batch_y, together), most}));
    const int64_t ranges = ceil_div(a.batch_y, rounds * together),
                  taken = ceil_div(a.batch_x * ranges, share * resident);
    const double steps = static_cast<double>(taken) * static_cast<double>(rounds * of_pairs + of_task);
    if (steps < least) least = steps, a.range = rounds * together, a.ranges = ranges;
  }
  a.tasks = a.batch_x * a.ranges;
}

template <class Rows>
void run(Args &a, cudaStream_t stream) {
  a.halves = false;
  constexpr int64_t of_task = 100, of_warp = 48;  // steps: for x to be loaded, and for a column to reach the last lane
  const int64_t resident_of_turns = a.turns.lanes > 0 ? Kernels<Rows>::resident_of_turns(a) : 0;
  if (resident_of_turns > 0) {
    const int64_t lanes = a.turns.lanes, streams = warps_alone * (warp / lanes), of_turn = Rows::K + 1;
    cut(a, resident_of_turns, streams, a.turns.of_pair * of_turn, of_task + lanes * of_turn);
    return Kernels<Rows>::launch_turns(a, stream);
  }
  a.range = a.ranges = 1, a.tasks = a.batch_y;
  const int64_t of_warps = of_task + of_warp * (a.warps - 1);
  if (a.every_pair) cut(a, Kernels<Rows>::resident(a), 1, columns_of_item(a.m), of_warps);
  if (Rows::has_halves && !a.every_pair && a.lane_bits == 5 && a.warps <= most_of_half<Rows>) {
    const auto steps = [&](int columns) {
      return ceil_div(a.tasks, Kernels<Rows>::resident(a)) * (columns_of_item(columns) + of_warps);
    };
    const int64_t of_whole = steps(a.m);
    a.halves = true;  // whose resident blocks are counted, and of what has been left: as a rule that is few pairs
    a.halves = Rows::again || steps((a.m + 1) / 2) < of_whole;
  }
  if (Rows::again && !Rows::soft && a.every_pair) {  // most of what is left may be of a few x
    constexpr int columns = 1024;
    a.range = std::clamp<int64_t>(columns / columns_of_item(a.m), 1, a.range);
    a.ranges = ceil_div(a.batch_y, a.range), a.tasks = a.batch_x * a.ranges;
  }
  Kernels<Rows>::launch(a, stream);
}

template <template <int, bool> class Rows, bool banded>
void run_of(Args &a, cudaStream_t stream) {
  if (a.features <= 1) return run<Rows<1, banded>>(a, stream);
  if (a.features <= 2) return run<Rows<2, banded>>(a, stream);
  a.features <= 4 ? run<Rows<4, banded>>(a, stream) : run<Rows<8, banded>>(a, stream);
}

void launch_first(Args &a, cudaStream_t stream) {
  const bool banded = a.band.kind != SDTW_BAND_NONE, is_cityblock = a.metric == SDTW_CITYBLOCK;
  if (a.scale > 0 && a.metric == SDTW_SQEUCLIDEAN)
    return banded ? run_of<SoftRows, true>(a, stream) : run_of<SoftRows, false>(a, stream);
  if (a.scale > 0)
    return is_cityblock ? run_of<SoftCityblockRows, true>(a, stream) : run_of<SoftEuclideanRows, true>(a, stream);
  if (a.metric == SDTW_SQEUCLIDEAN)
    return banded ? run_of<HardRows, true>(a, stream) : run_of<HardRows, false>(a, stream);
  is_cityblock ? run_of<HardCityblockRows, true>(a, stream) : run_of<HardEuclideanRows, true>(a, stream);
}

// What the first kernel has left and another can stream: pairs of large costs, or at gamma = 0 those of which sums in
// float32 are not to be trusted.
void launch_again(Args a, cudaStream_t stream) {
  if (a.scale > 0 && a.metric == SDTW_SQEUCLIDEAN) return run_of<LongRows, true>(a, stream);
  if (a.scale > 0) return run_of<LongDistanceRows, true>(a, stream);
  run_of<DoubleRows, true>(a, stream);
}

void launch_exact(const Args &a, int64_t warps, cudaStream_t stream) {
  const int64_t enough = int64_t{8} * current_device().multiprocessors;
  const int64_t pairs = a.every_pair ? a.batch_x * a.batch_y : a.batch_y;
  const int64_t blocks = std::min(ceil_div<int64_t>(pairs, exact_warps), warps > 0 ? warps / exact_warps : enough);
  launch_kernel(true, a.scale > 0 ? exact_kernel<ExactSoft> : exact_kernel<ExactHard>,
                dim3(static_cast<unsigned>(std::max<int64_t>(blocks, 1))), exact_warps * warp, 0, stream, a);
}

}  // namespace

bool suits(const sdtw::Plan &plan, const Buffers &buffers) {
  const Problem &p = plan.problem;
  const Streams &s = plan.cuda.streams;
  if (!s.fit || !(s.always || is_one(buffers.x, buffers.x_len, p))) return false;
  // Corridors of several strips take the core kernels less time, as their strips begin where the corridor does, but if
  // lanes take turns.
  const bool is_of_core = p.gamma > 0 && s.warps > 1 && plan.cuda.corridor && has_corridors();
  return !is_of_core || make_args(plan, buffers).turns.lanes > 0;
}

void forward(const sdtw::Plan &plan, const Buffers &buffers) {
  const cudaStream_t stream = plan.exec.stream;
  Args a = make_args(plan, buffers);
  check(cudaMemsetAsync(a.control, 0, sizeof(Control), stream), "cudaMemsetAsync");
  launch_first(a, stream);
  launch_again(a, stream);
  launch_exact(a, plan.cuda.streams.exact_warps, stream);
}

}  // namespace sdtw::cuda::streams
