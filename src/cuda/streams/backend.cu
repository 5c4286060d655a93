// A call of the streams: its arguments, how the pairs are cut into tasks, and the three kernels, of which the others
// end at once unless the first has left pairs to them.
#include <utility>

#include "core/numbers.h"
#include "cuda/core_calls.h"
#include "cuda/launch.h"
#include "cuda/streams/backend.h"
#include "cuda/streams/exact.cuh"

namespace sdtw::cuda::streams {
namespace {

template <class T>
T *at(void *base, size_t offset) {
  return reinterpret_cast<T *>(static_cast<unsigned char *>(base) + offset);
}

// A batch in which x, or y, is the same in all pairs.
bool is_one(const sdtw_in &series, const void *lengths, const Problem &p) {
  return !p.all_pairs && p.batch > 1 && series.stride[0] == 0 && !lengths;
}

int log2_of(int64_t power) { return 63 - __builtin_clzll(static_cast<unsigned long long>(power)); }

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
  a.scale = p.gamma > 0 ? core::log2_e / p.gamma : 0;
  a.root = Root(a.scale);
  a.exchanged = swapped;
  if (is_banded(p)) {
    a.band.kind = p.band, a.band.radius = p.band_radius;
    // Beyond this no series ends, of which one has up to 2^16 steps.
    a.reach = p.band == SDTW_BAND_ITAKURA ? 0 : static_cast<int>(std::min(p.band_radius, double(1 << 20)));
  }
  a.warps = static_cast<int>(s.warps), a.lane_bits = log2_of(s.lanes);
  a.value = static_cast<float *>(b.value);
  a.control = at<Control>(b.workspace, s.control);
  a.rows = s.exact_warps > 0 ? at<Word>(b.workspace, s.rows) : nullptr;
  return a;
}

// How many y a task has. All groups take their tasks at about the same times, so what counts is how often they take
// one, the last time all together, and the steps of each: those of its pairs, and about a hundred for x to be loaded
// and for the first column to reach the last lane.
template <class Rows>
void cut(Args &a) {
  a.range = a.ranges = 1, a.tasks = a.batch_y;
  if (!a.every_pair) return;
  constexpr int64_t most_turns = 64, most_columns = int64_t{1} << 28, of_task = 100, of_warp = 48;
  const int64_t resident = Kernels<Rows>::resident(a), columns = columns_of_item(a.m), share = a.symmetric ? 2 : 1;
  double least = HUGE_VAL;
  for (int64_t turns = 1; turns <= most_turns; turns++) {
    const int64_t even = ceil_div(a.batch_x * a.batch_y, share * turns * resident);
    const int64_t range =
        std::clamp<int64_t>(even, 1, std::max<int64_t>(1, std::min(a.batch_y, most_columns / columns)));
    const int64_t ranges = ceil_div(a.batch_y, range), taken = ceil_div(a.batch_x * ranges, share * resident);
    const double steps =
        static_cast<double>(taken) * static_cast<double>(range * columns + of_task + of_warp * (a.warps - 1));
    if (steps < least) least = steps, a.range = range, a.ranges = ranges;
  }
  a.tasks = a.batch_x * a.ranges;
}

template <class Rows>
void run(Args &a, cudaStream_t stream) {
  cut<Rows>(a);
  Kernels<Rows>::launch(a, stream);
}

template <template <int, bool> class Rows, bool banded>
void run_banded(Args &a, cudaStream_t stream) {
  if (a.features <= 1) return run<Rows<1, banded>>(a, stream);
  if (a.features <= 2) return run<Rows<2, banded>>(a, stream);
  a.features <= 4 ? run<Rows<4, banded>>(a, stream) : run<Rows<8, banded>>(a, stream);
}
template <template <int, bool> class Rows>
void run_of(Args &a, cudaStream_t stream) {
  a.band.kind == SDTW_BAND_NONE ? run_banded<Rows, false>(a, stream) : run_banded<Rows, true>(a, stream);
}

// The same pairs with x and y in each other's place.
Args transposed(Args a) {
  std::swap(a.x, a.y), std::swap(a.x_len, a.y_len), std::swap(a.n, a.m);
  a.exchanged = !a.exchanged;
  if (!a.every_pair) return a;
  std::swap(a.batch_x, a.batch_y), std::swap(a.value_stride[0], a.value_stride[1]);
  return a;
}

// What the first kernel has left and another can stream: pairs of large costs, or at gamma = 0 those that are the
// longer way round, which there are only where lengths are given.
void launch_again(Args a, cudaStream_t stream) {
  if (a.scale > 0) return run_of<LongRows>(a, stream);
  if (!a.x_len && !a.y_len) return;
  a = transposed(a);
  run_of<TransposedRows>(a, stream);
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
  // Corridors of several strips take the core kernels less time, as their strips begin where the corridor does.
  if (p.gamma > 0 && s.warps > 1 && plan.cuda.corridor && has_corridors()) return false;
  return s.fit && (s.always || is_one(buffers.x, buffers.x_len, p));
}

void forward(const sdtw::Plan &plan, const Buffers &buffers) {
  const cudaStream_t stream = plan.exec.stream;
  Args a = make_args(plan, buffers);
  check(cudaMemsetAsync(a.control, 0, sizeof(Control), stream), "cudaMemsetAsync");
  a.scale > 0 ? run_of<SoftRows>(a, stream) : run_of<HardRows>(a, stream);
  launch_again(a, stream);
  launch_exact(a, plan.cuda.streams.exact_warps, stream);
}

}  // namespace sdtw::cuda::streams
