// All pairs by the core kernels, or by those for short pairs: a wave of pairs at a time is a batch to them, with a list
// of which x and which y each pair is made of (Args::series). Values go where they belong, of symmetric pairs to two
// places. Gradients of the pairs of a wave lie in the workspace, and are added to those of their series in the order of
// pairs, in double, so that they do not depend on which blocks finish first.
#include "backend.h"
#include "core/pairs.h"
#include "cuda/core_calls.h"
#include "cuda/general/series.h"
#include "cuda/launch.h"
#include "cuda/short_pairs/backend.h"

namespace sdtw::cuda {
namespace {

constexpr int threads = 256;

struct List {
  SeriesOfPair *to;
  int64_t first, pairs;  // of all that are computed
  int64_t batch_x, batch_y;
  bool symmetric;
  bool swapped;  // x and y change places
};

// Calls f(k) for k < count, by all threads of a grid.
template <class F>
__device__ __forceinline__ void each(int64_t count, const F &f) {
  for (int64_t k = blockIdx.x * int64_t{threads} + threadIdx.x; k < count; k += gridDim.x * int64_t{threads}) f(k);
}
dim3 grid_of(int64_t count) {
  constexpr int64_t most = 1024;
  return dim3(static_cast<unsigned>(std::clamp<int64_t>((count + threads - 1) / threads, 1, most)));
}

__global__ void __launch_bounds__(threads) list_kernel(List list) {
  each(list.pairs, [&](int64_t k) {
    const core::PairIndex pair = list.symmetric ? core::pair_of_triangle(list.first + k, list.batch_x)
                                                : core::pair_index(list.first + k, true, list.batch_y);
    list.to[k] = list.swapped ? SeriesOfPair{pair.y, pair.x} : SeriesOfPair{pair.x, pair.y};
  });
}

// Values of symmetric pairs, to (x, y) and to (y, x).
template <class Real>
__global__ void __launch_bounds__(threads)
    mirror_kernel(const SeriesOfPair *series, int64_t pairs, int64_t batch, const Real *from, Real *to) {
  each(pairs, [&](int64_t k) {
    const SeriesOfPair pair = series[k];
    to[pair.x * batch + pair.y] = to[pair.y * batch + pair.x] = from[k];
  });
}

// One call.
class AllPairs {
 public:
  AllPairs(const sdtw::Plan &whole, const Buffers &given, const PairWaves &its)
      : plan(whole), p(whole.problem), b(given), waves(its) {}

  void forward() const {
    each_wave(plan.exec, [&](sdtw::Plan &part, int64_t first, const SeriesOfPair *series) {
      Buffers wave = of_wave();
      wave.value = values(first);
      part.cuda.short_pairs.fit ? short_pairs::forward(part, wave, series) : core_forward(part, wave, series);
      mirror(series, part.problem.batch);
    });
  }

  void backward() const {
    const bool of_x = b.grad_x.data, of_y = p.symmetric ? of_x : b.grad_y.data != nullptr;
    const bool sums_x = of_x && sums_up(), sums_y = of_y && sums_up() && !p.symmetric;
    if (sums_x) clear(0);
    if (sums_y) clear(1);
    each_wave(with_state(plan.exec), [&](sdtw::Plan &part, int64_t first, const SeriesOfPair *series) {
      const int64_t pairs = part.problem.batch;
      Buffers wave = of_wave();
      wave.state = workspace<void>(waves.state), wave.value = values(first);
      wave.grad_value = nullptr;  // it is multiplied with what is added to the series
      wave.grad_x = of_x ? gradients(0) : sdtw_out{}, wave.grad_y = of_y ? gradients(1) : sdtw_out{};
      if (part.cuda.short_pairs.fit) {
        short_pairs::backward(part, wave, series);
      } else {
        core_forward(part, wave, series);
        choose_core_kernels(part, Call::backward);
        core_backward(part, wave, series);
      }
      mirror(series, pairs);
      const int *status = at<int>(wave.state, part.cuda.status);
      const general::PairsOfWave of{p.symmetric, p.batch_x, p.batch_y,    first,
                                    pairs,       status,    b.grad_value, p.dtype == SDTW_F64};
      if (of_x) add(of, wave.grad_x, 0);
      if (of_y) add(of, wave.grad_y, 1);
    });
    if (sums_x) finish(0);
    if (sums_y) finish(1);
  }

 private:
  const sdtw::Plan &plan;
  const Problem &p;
  const Buffers &b;
  const PairWaves &waves;

  cudaStream_t stream() const { return plan.exec.stream; }
  int64_t value_size() const { return static_cast<int64_t>(p.value_size()); }
  template <class T>
  T *workspace(size_t offset) const {
    return at<T>(b.workspace, offset);
  }

  int64_t all() const { return p.symmetric ? core::pairs_of_triangle(p.batch_x) : p.batch; }
  // Calls compute(plan, first pair, list) for the waves in turn; the plan has forward's kernels.
  template <class OfWave>
  void each_wave(const Exec &exec, const OfWave &compute) const {
    SeriesOfPair *const series = workspace<SeriesOfPair>(waves.series);
    for (int64_t first = 0; first < all(); first += waves.pairs) {
      const int64_t pairs = std::min(waves.pairs, all() - first);
      sdtw::Plan part = make_plan_as_given(part_of(p, pairs), exec);
      choose_kernels(part, Call::forward);
      const bool swapped = part.cuda.short_pairs.fit && part.cuda.short_pairs.swapped;
      const List list{series, first, pairs, p.batch_x, p.batch_y, p.symmetric, swapped};
      launch_kernel(false, list_kernel, grid_of(pairs), threads, 0, stream(), list);
      compute(part, first, series);
    }
  }
  Buffers of_wave() const {
    Buffers wave = b;
    if (p.symmetric) wave.y = wave.x, wave.y_len = wave.x_len;
    wave.workspace = workspace<void>(waves.workspace);
    return wave;
  }
  // Where values of the wave from pair `first` on go: those of symmetric pairs, and those that nobody asks for, stay in
  // the workspace.
  void *values(int64_t first) const {
    return b.value && !p.symmetric ? at<void>(b.value, first * value_size()) : workspace<void>(waves.value);
  }
  void mirror(const SeriesOfPair *series, int64_t pairs) const {
    if (!b.value || !p.symmetric) return;
    p.dtype == SDTW_F64 ? mirror_as<double>(series, pairs) : mirror_as<float>(series, pairs);
  }
  template <class Real>
  void mirror_as(const SeriesOfPair *series, int64_t pairs) const {
    const Real *const from = workspace<Real>(waves.value);
    launch_kernel(false, mirror_kernel<Real>, grid_of(pairs), threads, 0, stream(), series, pairs, p.batch_x, from,
                  static_cast<Real *>(b.value));
  }

  // Of x and y: gradients of a wave's pairs, and sums of those of each series.
  general::Side side_of(int which) const {
    const int features = static_cast<int>(p.features);
    return which ? general::Side{p.batch_y, static_cast<int>(p.m), features, nullptr, false}
                 : general::Side{p.batch_x, static_cast<int>(p.n), features, nullptr, false};
  }
  sdtw_out place(size_t offset, int which) const {
    return {workspace<void>(offset), {(which ? p.m : p.n) * p.features, p.features, 1}};
  }
  sdtw_out gradients(int which) const { return place(which ? waves.grad_y : waves.grad_x, which); }
  static general::Target target(const sdtw_out &out, sdtw_dtype dtype) {
    return {out.data, {out.stride[0], out.stride[1], out.stride[2]}, dtype};
  }
  general::Target sums(int which) const { return target(place(which ? waves.sums_y : waves.sums_x, which), SDTW_F64); }
  // Whether what is added to a series comes in several parts, which the workspace has the sums of.
  bool sums_up() const { return p.symmetric || waves.pairs < all(); }
  general::Target output(int which) const { return target(which ? b.grad_y : b.grad_x, p.dtype); }
  void clear(int which) const {
    const general::Side side = side_of(which);
    const size_t bytes = side.batch * side.rows * static_cast<size_t>(side.features) * sizeof(double);
    check(cudaMemsetAsync(sums(which).data, 0, bytes, stream()), "cudaMemsetAsync");
  }
  // what: 0 for gradients of x, 1 for those of y, which of symmetric pairs are x's as well.
  void add(const general::PairsOfWave &wave, const sdtw_out &of_pairs, int what) const {
    const int which = p.symmetric ? 0 : what;
    launch_reduce(wave, target(of_pairs, p.dtype), sums_up() ? sums(which) : output(which), what == 0, sums_up(),
                  stream());
  }
  void finish(int which) const {
    general::Finish f{};
    f.side = side_of(which), f.count = f.side.batch;
    f.sums = sums(which), f.to = output(which);
    f.f64_values = p.dtype == SDTW_F64;
    general::launch_finish({1, {f}}, stream());
  }
};

}  // namespace

void pairs_forward(const sdtw::Plan &plan, const Buffers &buffers) {
  AllPairs(plan, buffers, plan.cuda.forward_pairs).forward();
}
void pairs_backward(const sdtw::Plan &plan, const Buffers &buffers) {
  AllPairs(plan, buffers, plan.cuda.backward_pairs).backward();
}

}  // namespace sdtw::cuda
