// The calls of the core kernels: each turns a plan and the caller's buffers into kernel arguments (Args) and puts the
// call's kernels on the caller's stream, in order. It decides nothing that depends on data: kernels find out on the
// device whether there is anything to do for them, so no call waits for the GPU, and all can be captured into graphs.
// In a float32 problem the kernels of FloatCell come first, then those of LongCell and of DoubleCell, which end at once
// unless FloatCell has left pairs to them. With has_warp_fallback forward is the FloatCell kernel alone.
#include <cmath>

#include "backend.h"
#include "core/numbers.h"
#include "cuda/core_calls.h"
#include "cuda/launch.h"
#include "cuda/pair.cuh"
#include "cuda/units.h"

namespace sdtw::cuda {

namespace {

// log2(e) / gamma. Of float problems cut off to the 31 digits that costs in integers have of it (digits.cuh), wherever
// there may be any: all costs of a problem are to have the same, as forward may have other ones than backward, which is
// a relative error of gamma of 2^-31.
double scale_of(const Problem &p) {
  const double scale = core::log2_e / p.gamma;
  if (p.dtype == SDTW_F64 || !prefers_slices()) return scale;
  int exponent = 0;
  const double mantissa = std::frexp(scale, &exponent);
  return std::ldexp(std::floor(std::ldexp(mantissa, 31)), exponent - 31);
}

// run: the buffer that forward runs on, which is the state, or the workspace if there is no state.
Args make_args(const sdtw::Plan &plan, const Buffers &buffers, void *run) {
  const Problem &p = plan.problem;
  Args a{};
  a.x = buffers.x, a.y = buffers.y;
  a.x_len = buffers.x_len, a.y_len = buffers.y_len;
  a.f64 = p.dtype == SDTW_F64;
  a.costs = plan.cuda.costs, a.backward_costs = plan.cuda.backward_costs;
  a.has_long = a.costs != Costs::tensor || current_device().room != room_of_64;
  a.long_lengths = p.length_bits == 64;
  a.batch = p.batch;
  a.n = static_cast<int>(p.n), a.m = static_cast<int>(p.m), a.features = static_cast<int>(features_of_core(p));
  a.banded = is_banded(p), a.radius = a.banded ? static_cast<int>(p.band_radius) : 0;
  a.scale = scale_of(p), a.root = Root(a.scale);
  a.lanes = static_cast<int>(plan.cuda.lanes);
  a.lane_bits = a.lanes == 32 ? 5 : a.lanes == 16 ? 4 : 3;
  a.tasks = plan.cuda.tasks;
  a.strips = static_cast<int>(plan.cuda.strips);
  a.full_sweeps = plan.cuda.full_sweeps;
  a.format = a.f64 ? two_words : one_word;
  a.interval = static_cast<int>(plan.cuda.interval);
  a.checkpoints = static_cast<int>(plan.cuda.checkpoints);
  a.control = at<Control>(run, plan.cuda.control);
  a.bounds = at<int>(run, plan.cuda.bounds);
  a.rows = at<Word>(run, plan.cuda.rows);
  a.status = at<int>(run, plan.cuda.status);
  a.norms = at<double>(run, plan.cuda.norms);
  a.units = plan.cuda.units;
  a.slices = has_bounds(a) && prefers_slices() && current_device().room & rooms_of_slices &&
             ForwardSweeps<FloatCell>::fits_slices(a) && BackwardSweeps<FloatCell>::fits_slices(a);
  return a;
}

// Cosine: from here on x and y are the unit points that launch_units is to make of the caller's series, at these places
// in the workspace, as float32: the first of each two floats.
Units take_units(Args &a, const sdtw::Plan &plan, const Buffers &buffers, const UnitPoints &places,
                 bool for_gradients) {
  const Problem &p = plan.problem;
  Units units{};
  units.unit_features = a.features;
  for (const int which : {0, 1}) {
    const int rows = which ? a.m : a.n;
    const sdtw_in &from = which ? buffers.y : buffers.x;
    units.side[which] = {p.batch, rows, static_cast<int>(p.features), which ? a.y_len : a.x_len, a.long_lengths};
    units.points[which] = {from.data, {from.stride[0], from.stride[1], from.stride[2]}, p.dtype};
    units.units[which] = at<TwoFloats>(buffers.workspace, places.points[which]);
    if (for_gradients) units.norms[which] = at<double>(buffers.workspace, places.norms[which]);
    (which ? a.y : a.x) = {units.units[which], {int64_t{2} * rows * a.features, int64_t{2} * a.features, 2}};
  }
  a.unit_x = units.units[0], a.unit_y = units.units[1];
  return units;
}

// Sets all bits to ones, which marks words that no kernel has written in this call.
void reset(void *data, size_t bytes, cudaStream_t stream) {
  check(cudaMemsetAsync(data, 0xff, bytes, stream), "cudaMemsetAsync");
}

// What backward and alignment share: outputs get their initial values, then E is swept and the epilogues add to them.
void sweep_back(const sdtw::Plan &plan, const Buffers &buffers, Args a, const Output &first, const Output &second) {
  const cudaStream_t stream = plan.exec.stream;
  a.saved = at<Word>(buffers.state, plan.cuda.saved);
  a.control = at<Control>(buffers.workspace, plan.cuda.back_control);
  a.left = at<Word>(buffers.workspace, plan.cuda.left);
  a.flows = at<Word>(buffers.workspace, plan.cuda.flows);
  a.midlines = at<Midline>(buffers.workspace, plan.cuda.midlines);
  a.progress = at<int>(buffers.workspace, plan.cuda.progress);
  a.snapshots = at<Word>(buffers.workspace, plan.cuda.snapshots);
  a.snapshots_each = static_cast<int>(plan.cuda.snapshots_each);
  const auto points = [&](size_t offset, int64_t of_pair) {
    return sdtw_out{at<void>(buffers.workspace, offset), {of_pair * a.features, a.features, 1}};
  };
  if (a.grad_y.data && a.strips > 1) {
    a.lower_grad_y_columns = static_cast<int>(plan.cuda.lower_grad_y_columns);
    a.side = points(plan.cuda.side, a.lower_grad_y_columns);
  }
  a.wide_sums = plan.cuda.wide_sums && !a.dense.data;
  if (a.wide_sums) {
    if (a.grad_x.data) a.grad_x = points(plan.cuda.sums_x, a.n);
    if (a.grad_y.data) a.grad_y = points(plan.cuda.sums_y, a.m);
  }
  launch_prepare(a, first, second, buffers.workspace, plan.cuda.midlines, at<void>(buffers.workspace, plan.cuda.sums_x),
                 a.dense.data ? 0 : plan.cuda.snapshots - plan.cuda.sums_x, stream);
  const Kernels &kernels = plan.cuda.kernels;
  if (kernels.of_floats.source != Source::none) BackwardSweeps<FloatCell>::launch(a, kernels.of_floats, {}, stream);
  if (kernels.of_large_costs.source != Source::none)
    BackwardSweeps<FloatCell>::launch(a, kernels.of_large_costs, {}, stream);
  if (kernels.of_longs.source != Source::none)
    BackwardSweeps<LongCell>::launch(a, kernels.of_longs, kernels.of_doubles, stream);
  else
    BackwardSweeps<DoubleCell>::launch(a, kernels.of_doubles, {}, stream);
  if (a.wide_sums && !a.units)
    launch_round_sums(a, first, second, stream);
  else if (a.side.data)
    launch_add_side(a, stream);
}

}  // namespace

void require_device() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) cudaGetLastError();  // an error of the caller's own stays
  if (error != cudaSuccess || count == 0)
    fail(SDTW_STATUS_NO_DEVICE, "no CUDA device: %s",
         error == cudaSuccess ? "there is none" : cudaGetErrorString(error));
  current_device();  // whether the library has code for it
}

void choose_core_kernels(sdtw::Plan &plan, Call call) {
  // In 64 KB producers have room for float64 alone, which such GPUs have little of.
  const bool needs_none = plan.cuda.backward_costs == Costs::inlined;
  if (needs_none && current_device().room == room_of_64) plan.cuda.costs = Costs::inlined;
  Args a = make_args(plan, Buffers{}, nullptr);
  Kernels kernels{};
  if (call == Call::forward) {
    if (!a.f64) kernels.of_floats = ForwardSweeps<FloatCell>::choose(a);
    if (has_warp_fallback(a)) {
    } else if (!a.f64 && a.has_long) {
      kernels.of_longs = ForwardSweeps<LongCell>::choose(a);
    } else {
      kernels.of_doubles = ForwardSweeps<DoubleCell>::choose(a);
    }
  } else {
    int alignment = 0;  // any address says that E itself is wanted, or that times grad_value
    if (call == Call::alignment || a.costs == Costs::given) a.dense.data = &alignment;
    if (!a.f64) kernels.of_floats = BackwardSweeps<FloatCell>::choose(a, false);
    if (has_producers(a) && !plan.cuda.units) kernels.of_large_costs = BackwardSweeps<FloatCell>::choose(a, true);
    if (has_producers(a) && a.has_long) kernels.of_longs = BackwardSweeps<LongCell>::choose(a, false);
    kernels.of_doubles = BackwardSweeps<DoubleCell>::choose(a, false);
    if (kernels.of_longs.source != Source::none && kernels.of_doubles.source != Source::differences)
      fail(SDTW_STATUS_INTERNAL, "DoubleCell does not fit beside LongCell");
  }
  plan.cuda.kernels = kernels;
}

bool has_units(const sdtw::Plan &plan) {
  const Args a = make_args(plan, Buffers{}, nullptr);
  if (a.slices) return true;
  return !prefers_slices() && current_device().room & rooms_of_units && BackwardSweeps<FloatCell>::fits_units(a) &&
         ForwardSweeps<FloatCell>::fits_units(a);
}

bool has_corridors() { return !prefers_slices() && current_device().room & rooms_of_corridor; }

const char *build_info() { return "cuda " SDTW_CUDA_BUILD; }

void core_forward(const sdtw::Plan &plan, const Buffers &buffers, const SeriesOfPair *series) {
  const cudaStream_t stream = plan.exec.stream;
  const bool stateful = buffers.state && !plan.exec.no_state;
  void *run = stateful ? buffers.state : buffers.workspace;
  Args a = make_args(plan, buffers, run);
  a.series = series;
  a.value = buffers.value;
  a.saved = stateful ? at<Word>(buffers.state, plan.cuda.saved) : nullptr;
  const Kernels &kernels = plan.cuda.kernels;
  if (has_warp_fallback(a)) return ForwardSweeps<FloatCell>::launch(a, kernels.of_floats, stream);
  reset(at<unsigned char>(run, plan.cuda.control), plan.cuda.saved - plan.cuda.control, stream);
  if (!a.f64) {
    if (plan.cuda.units) {
      Units units = take_units(a, plan, buffers, plan.cuda.forward_units, false);
      units.bounds = a.bounds;
      launch_units(units, stream);
    } else if (a.costs == Costs::tensor) {
      launch_bounds(a, stream);
    }
    ForwardSweeps<FloatCell>::launch(a, kernels.of_floats, stream);
  }
  if (kernels.of_longs.source != Source::none) ForwardSweeps<LongCell>::launch(a, kernels.of_longs, stream);
  if (kernels.of_doubles.source != Source::none) ForwardSweeps<DoubleCell>::launch(a, kernels.of_doubles, stream);
}

namespace {

// Sums over unit points in the workspace, and from these the caller's gradients.
void gradients_of_units(const sdtw::Plan &plan, const Buffers &buffers, Args a) {
  const Units units = take_units(a, plan, buffers, plan.cuda.backward_units, true);
  launch_units(units, plan.exec.stream);
  a.grad_value = nullptr;
  a.grad_x = buffers.grad_x, a.grad_y = buffers.grad_y;
  sweep_back(plan, buffers, a, {}, {});
  UnitGradients g{};
  g.of = units;
  for (const int which : {0, 1}) {
    const sdtw_out &to = which ? buffers.grad_y : buffers.grad_x;
    if (to.data) g.sums[which] = at<double>(buffers.workspace, which ? plan.cuda.sums_y : plan.cuda.sums_x);
    g.to[which] = {to.data, {to.stride[0], to.stride[1], to.stride[2]}, plan.problem.dtype};
  }
  g.grad_value = static_cast<const float *>(buffers.grad_value);
  g.status = a.status;
  launch_unit_gradients(g, plan.exec.stream);
}

}  // namespace

void core_backward(const sdtw::Plan &plan, const Buffers &buffers, const SeriesOfPair *series) {
  Args a = make_args(plan, buffers, buffers.state);
  a.series = series;
  a.grad_value = buffers.grad_value;
  if (a.costs == Costs::given) {
    a.dense = buffers.grad_x;
    a.scale_dense = true;
    sweep_back(plan, buffers, a, {a.dense, a.n, a.m, a.x_len, a.y_len}, {});
  } else if (plan.cuda.units) {
    gradients_of_units(plan, buffers, a);
  } else {
    a.grad_x = buffers.grad_x, a.grad_y = buffers.grad_y;
    sweep_back(plan, buffers, a, {a.grad_x, a.n, a.features, a.x_len}, {a.grad_y, a.m, a.features, a.y_len});
  }
}

void core_alignment(const sdtw::Plan &plan, const Buffers &buffers) {
  Args a = make_args(plan, buffers, buffers.state);
  if (plan.cuda.units) launch_units(take_units(a, plan, buffers, plan.cuda.backward_units, false), plan.exec.stream);
  a.dense = buffers.alignment;
  sweep_back(plan, buffers, a, {a.dense, a.n, a.m, nullptr}, {});
}

}  // namespace sdtw::cuda
