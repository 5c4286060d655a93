// The CUDA backend's entry points: which way a call goes, and the first steps on it.
//
//     Way            which calls                                                   where
//     streams        values of many short series of few features                   streams/
//     short_pairs    pairs of up to 64 steps, or 128, of any metric, stateless     short_pairs/
//     core           squared distances, given costs, unit points; their corridors  backend.cu
//     core_in_waves  backward of these without state: forward again, wave by wave  in_waves, below
//     all_pairs      all pairs of what the core or short_pairs computes, in waves  all_pairs.cu
//     general        all else: bands, steps, gamma = 0, tangents, ...              general/
//
// Ways of the core compute series of half precision, or of an odd number of many features, as others (as_computed):
// they are converted, and gradients back.
#include "backend.h"
#include "cuda/core_calls.h"
#include "cuda/general/backend.h"
#include "cuda/general/series.h"
#include "cuda/launch.h"
#include "cuda/short_pairs/backend.h"
#include "cuda/streams/backend.h"

namespace sdtw::cuda {

namespace {

enum class Way { streams, short_pairs, core, core_in_waves, all_pairs, general };

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

void take(Way way, const sdtw::Plan &plan, const Buffers &b, Call call) {
  const bool forward = call == Call::forward, alignment = call == Call::alignment;
  switch (way) {
    case Way::streams: return streams::forward(plan, b);
    case Way::short_pairs: return forward ? short_pairs::forward(plan, b) : short_pairs::backward(plan, b);
    case Way::core:
      return forward ? core_forward(plan, b) : alignment ? core_alignment(plan, b) : core_backward(plan, b);
    case Way::core_in_waves: return in_waves(plan, b, call);
    case Way::all_pairs: return forward ? pairs_forward(plan, b) : pairs_backward(plan, b);
    case Way::general:
      if (call == Call::jvp) return general::jvp(plan, b);
      return forward ? general::forward(plan, b) : alignment ? general::alignment(plan, b) : general::backward(plan, b);
  }
}

// A call as one with other series: as_computed.
void take_converted(Way way, const sdtw::Plan &plan, const Buffers &buffers, Call call) {
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
  choose_kernels(inner, call);
  take(way, inner, b, call);
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

// The plan of the problem as it was given, which streams exchange by rules of their own.
sdtw::Plan as_given(const sdtw::Plan &plan) {
  sdtw::Plan given = plan;
  if (plan.cuda.transposed) given.problem = transpose(plan.problem);
  return given;
}

// Where the GPU lacks the kernels that the plan is for.
void take_general(sdtw::Plan &plan) {
  plan.cuda.units = plan.cuda.corridor = plan.cuda.aligns = plan.cuda.converted = false;
  plan.cuda.route = Route::general;
}

// Whether a batch is of short pairs, which are read as they are given. All pairs are seen to wave by wave.
bool are_short(const sdtw::Plan &plan) { return plan.cuda.route != Route::pairs && plan.cuda.short_pairs.fit; }

Way way_of(const sdtw::Plan &plan, const Buffers &given, Call call) {
  const Plan &cuda = plan.cuda;
  if (call == Call::jvp) return Way::general;
  if (call == Call::forward && cuda.streams.fit && streams::suits(as_given(plan), given)) return Way::streams;
  if (are_short(plan)) return Way::short_pairs;
  if (cuda.route == Route::general || (call == Call::alignment && !cuda.aligns)) return Way::general;
  if (cuda.route == Route::pairs) return Way::all_pairs;
  return plan.exec.no_state && call != Call::forward ? Way::core_in_waves : Way::core;
}

void compute(const sdtw::Plan &plan, const Buffers &given, Call call) {
  const Way way = way_of(plan, given, call);
  if (way == Way::streams) return take(way, as_given(plan), given, call);
  const bool of_core = way == Way::core || way == Way::core_in_waves || way == Way::all_pairs;
  (of_core && plan.cuda.converted ? take_converted : take)(way, plan, oriented(plan, given), call);
}

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

void forward(const sdtw::Plan &plan, const Buffers &buffers) { compute(plan, buffers, Call::forward); }
void backward(const sdtw::Plan &plan, const Buffers &buffers) { compute(plan, buffers, Call::backward); }
void alignment(const sdtw::Plan &plan, const Buffers &buffers) { compute(plan, buffers, Call::alignment); }
void jvp(const sdtw::Plan &plan, const Buffers &buffers) { compute(plan, buffers, Call::jvp); }

}  // namespace sdtw::cuda
