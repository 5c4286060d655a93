// The CUDA backend's entry points: which kernels a call goes to. The core case has kernels of its own, which compute
// all pairs as well if they are asked for without state (all_pairs.cu). Series of half precision that are the core case
// otherwise are converted to float32, and gradients back (as_computed). Without state the core kernels compute forward
// again, a wave of pairs at a time. Short pairs have kernels of their own, without state, which read half precision as
// it is, and take any metric. Values alone of many short series are the streams'. All else is the general engine's.
#include "backend.h"
#include "cuda/core_calls.h"
#include "cuda/general/backend.h"
#include "cuda/general/series.h"
#include "cuda/launch.h"
#include "cuda/short_pairs/backend.h"
#include "cuda/streams/backend.h"

namespace sdtw::cuda {

namespace {

using Function = void (*)(const sdtw::Plan &, const Buffers &);

template <class Array>
void skip(Array &array, int64_t first, size_t element) {
  if (!array.data) return;
  array.data = reinterpret_cast<decltype(array.data)>(reinterpret_cast<uintptr_t>(array.data) +
                                                      first * array.stride[0] * static_cast<int64_t>(element));
}
template <class T>
void skip(T *&data, int64_t bytes) {
  if (data) data = reinterpret_cast<T *>(reinterpret_cast<uintptr_t>(data) + bytes);
}

// Backward or alignment without state: forward into a state in the workspace, for as many pairs as it has room for, and
// values to where they are wanted, if they are.
void in_waves(const sdtw::Plan &plan, const Buffers &buffers, Call which) {
  const Problem &p = plan.problem;
  const Waves &waves = plan.cuda.waves;
  for (int64_t first = 0; first < p.batch; first += waves.pairs) {
    const int64_t pairs = std::min(waves.pairs, p.batch - first);
    sdtw::Plan part = make_plan_as_given(part_of(p, pairs), with_state(plan.exec));
    Buffers b = buffers;
    const size_t element = p.element_size();
    skip(b.x, first, element), skip(b.y, first, element);
    skip(b.grad_x, first, element), skip(b.grad_y, first, element), skip(b.alignment, first, element);
    skip(b.x_len, first * p.length_bits / 8), skip(b.y_len, first * p.length_bits / 8);
    skip(b.grad_value, first * static_cast<int64_t>(p.value_size()));
    skip(b.value, first * static_cast<int64_t>(p.value_size()));
    if (!b.value) b.value = at<void>(buffers.workspace, waves.value);
    b.state = at<void>(buffers.workspace, waves.state);
    b.workspace = at<void>(buffers.workspace, waves.workspace);
    choose_core_kernels(part, Call::forward);
    core_forward(part, b);
    choose_core_kernels(part, which);
    which == Call::alignment ? core_alignment(part, b) : core_backward(part, b);
  }
}

void forward_of_core(const sdtw::Plan &plan, const Buffers &buffers) { core_forward(plan, buffers); }
void backward_of_core(const sdtw::Plan &plan, const Buffers &buffers) {
  plan.exec.no_state ? in_waves(plan, buffers, Call::backward) : core_backward(plan, buffers);
}
void alignment_of_core(const sdtw::Plan &plan, const Buffers &buffers) {
  plan.exec.no_state ? in_waves(plan, buffers, Call::alignment) : core_alignment(plan, buffers);
}

// A call as one with other series: as_computed.
void converted(const sdtw::Plan &plan, const Buffers &buffers, Call which, Function call) {
  const Problem &p = plan.problem;
  const Scratch &scratch = plan.cuda.scratch;
  const bool is_long = p.length_bits == 64;
  const general::Side x{p.batch_x, static_cast<int>(p.n), static_cast<int>(p.features), buffers.x_len, is_long};
  const general::Side y{p.batch_y, static_cast<int>(p.m), static_cast<int>(p.features), buffers.y_len, is_long};
  sdtw::Plan inner = plan;
  inner.problem = as_computed(p);
  const int64_t features = inner.problem.features;
  Buffers b = buffers;
  const auto place = [&](size_t offset, const general::Side &side) {
    return sdtw_out{at<void>(buffers.workspace, offset), {side.rows * features, features, 1}};
  };
  const auto target = [](const sdtw_out &out, sdtw_dtype dtype) {
    return general::Target{out.data, {out.stride[0], out.stride[1], out.stride[2]}, dtype};
  };
  const auto series = [](const auto &in, sdtw_dtype dtype) {
    return general::Series{in.data, {in.stride[0], in.stride[1], in.stride[2]}, dtype};
  };
  general::OfSides<general::Conversion> loads, stores;
  const auto load = [&](sdtw_in &in, size_t offset, const general::Side &side) {
    const sdtw_out to = place(offset, side);
    loads.add({side, series(in, p.dtype), target(to, SDTW_F32), static_cast<int>(features)});
    in = {to.data, {to.stride[0], to.stride[1], to.stride[2]}};
  };
  load(b.x, scratch.x, x);
  if (p.has_y()) load(b.y, scratch.y, y);
  launch_convert(loads, plan.exec.stream);
  if (b.grad_x.data) b.grad_x = place(scratch.grad_x, x);
  if (b.grad_y.data) b.grad_y = place(scratch.grad_y, y);
  choose_kernels(inner, which);
  call(inner, b);
  const auto store = [&](const sdtw_out &from, const sdtw_out &to, general::Side side) {
    if (!to.data) return;
    side.lengths = nullptr;  // gradients are there beyond the lengths, too
    stores.add({side, series(from, SDTW_F32), target(to, p.dtype), side.features});
  };
  store(b.grad_x, buffers.grad_x, x), store(b.grad_y, buffers.grad_y, y);
  launch_convert(stores, plan.exec.stream);
}

// The arrays as the plan takes rows and columns.
Buffers oriented(const sdtw::Plan &plan, const Buffers &buffers) {
  return plan.cuda.transposed ? transpose(plan.problem, buffers) : buffers;
}

// Computes values by streams, of the problem as it was given, if its arrays suit them.
bool takes_streams(const sdtw::Plan &plan, const Buffers &buffers) {
  if (!plan.cuda.streams.fit) return false;
  sdtw::Plan given = plan;
  if (plan.cuda.transposed) given.problem = transpose(plan.problem);
  const bool suits = streams::suits(given, buffers);
  if (suits) streams::forward(given, buffers);
  return suits;
}

void compute(const sdtw::Plan &plan, const Buffers &buffers, Call call, Function function) {
  plan.cuda.converted ? converted(plan, buffers, call, function) : function(plan, buffers);
}

// Where the GPU lacks the kernels that the plan is for.
void take_general(sdtw::Plan &plan) {
  plan.cuda.units = plan.cuda.corridor = plan.cuda.aligns = plan.cuda.converted = false;
  plan.cuda.route = Route::general;
}

// Whether a batch is of short pairs, which are read as they are given. All pairs are seen to wave by wave.
bool are_short(const sdtw::Plan &plan) { return plan.cuda.route != Route::pairs && plan.cuda.short_pairs.fit; }

}  // namespace

void choose_kernels(sdtw::Plan &plan, Call call) {
  if ((plan.cuda.units && !has_units(plan)) || (plan.cuda.corridor && !has_corridors())) take_general(plan);
  plan.cuda.short_pairs.fit = short_pairs::are_fit(plan);
  plan.cuda.streams.fit &= plan.cuda.streams.everywhere || !current_device().avoids_float64;
  if (plan.cuda.route == Route::pairs && (call == Call::forward || call == Call::backward)) {
    const bool forward = call == Call::forward;
    const Problem of_wave =
        part_of(plan.problem, forward ? plan.cuda.forward_pairs.pairs : plan.cuda.backward_pairs.pairs);
    sdtw::Plan wave = make_plan_as_given(of_wave, forward ? plan.exec : with_state(plan.exec));
    choose_kernels(wave, call);
    plan.cuda.kernels = wave.cuda.kernels;
    plan.cuda.short_pairs = wave.cuda.short_pairs;
    if (plan.cuda.short_alone && !wave.cuda.short_pairs.fit) take_general(plan);
  }
  if (are_short(plan) && plan.cuda.short_pairs.before_streams) plan.cuda.streams.fit = false;
  if (plan.cuda.short_pairs.fit) return;
  const bool recomputes = plan.exec.no_state && call != Call::forward;
  const bool of_core = call != Call::jvp && (call != Call::alignment || plan.cuda.aligns);
  if (plan.cuda.route == Route::core && !recomputes && of_core) choose_core_kernels(plan, call);
}

void forward(const sdtw::Plan &plan, const Buffers &buffers) {
  if (takes_streams(plan, buffers)) return;
  if (are_short(plan)) return short_pairs::forward(plan, oriented(plan, buffers));
  constexpr Function by_route[] = {forward_of_core, pairs_forward, general::forward};
  compute(plan, oriented(plan, buffers), Call::forward, by_route[static_cast<int>(plan.cuda.route)]);
}

void backward(const sdtw::Plan &plan, const Buffers &buffers) {
  if (are_short(plan)) return short_pairs::backward(plan, oriented(plan, buffers));
  constexpr Function by_route[] = {backward_of_core, pairs_backward, general::backward};
  compute(plan, oriented(plan, buffers), Call::backward, by_route[static_cast<int>(plan.cuda.route)]);
}

void alignment(const sdtw::Plan &plan, const Buffers &buffers) {
  const Buffers b = oriented(plan, buffers);
  if (are_short(plan)) return short_pairs::backward(plan, b);
  plan.cuda.aligns ? compute(plan, b, Call::alignment, alignment_of_core) : general::alignment(plan, b);
}

void jvp(const sdtw::Plan &plan, const Buffers &buffers) { general::jvp(plan, oriented(plan, buffers)); }

}  // namespace sdtw::cuda
