// Entry points of the general engine: a call is one or more waves of pairs, each of which goes through forward, unless
// the caller's state has what that leaves, and backward; then gradients of pairs become those of series. Nothing here
// depends on data. In a float32 problem the kernels of the float engine come first, then those of the double engine,
// which end at once unless pairs have been left to them.
#include "cuda/general/backend.h"
#include "cuda/general/penalties.h"
#include "cuda/general/series.h"
#include "cuda/general/task.cuh"

namespace sdtw::cuda::general {
namespace {

Series series_of(const sdtw_in &in, sdtw_dtype dtype) {
  return {in.data, {in.stride[0], in.stride[1], in.stride[2]}, dtype};
}
Target target_of(const sdtw_out &out, sdtw_dtype dtype) {
  return {out.data, {out.stride[0], out.stride[1], out.stride[2]}, dtype};
}
template <class Array>
Array contiguous(void *data, int64_t rows, int64_t columns, sdtw_dtype dtype) {
  return {data, {rows * columns, columns, 1}, dtype};
}

// What a wave is to do: sweep Z, sweep E; along tangents.
struct Work {
  bool forward, backward, tangents;
};

// One call.
class Execution {
 public:
  Execution(const sdtw::Plan &whole, const Buffers &given, const Layout &its, Work what)
      : plan(whole), p(whole.problem), g(whole.cuda.general), b(given), layout(its), work(what) {
    prepare_arguments();
  }

  // dense: [pairs][n][m], or no data. gradients: of x and y, likewise.
  void run(const Target &dense, bool scale_dense, const Target (&gradients)[2]) {
    normalise();
    const bool sums = gradients[0].data || gradients[1].data;
    if (sums && p.all_pairs) clear_sums_of_series();
    for (int64_t first = 0; first < g.pairs; first += layout.wave) {
      Args of_wave = a;
      of_wave.first = first, of_wave.pairs = std::min(layout.wave, g.pairs - first);
      place_wave(of_wave);
      if (work.forward) sweep_forward(of_wave);
      if (!work.backward) continue;
      if (dense.data) place_dense(of_wave, dense, scale_dense);
      if (sums) place_sums(of_wave, gradients);
      sweep_back(of_wave);
      if (sums) p.all_pairs ? reduce(of_wave) : finish_pairs(of_wave, gradients);
    }
    if (sums && p.all_pairs) finish_series(gradients);
  }

 private:
  const sdtw::Plan &plan;
  const Problem &p;
  const general::Plan &g;
  const Buffers &b;
  const Layout &layout;
  Work work;
  Args a{};

  cudaStream_t stream() const { return plan.exec.stream; }
  bool cosine() const { return p.metric == SDTW_COSINE; }
  bool soft() const { return p.gamma > 0; }
  bool wide() const {  // there is no float engine
    // At gamma = 0 all calls are to find the same of several best paths: tangents of cosine are the double engine's.
    if (!soft() && cosine() && current_device().avoids_float64) return true;
    return work.tangents ? !has_float_tangents(p) : p.dtype == SDTW_F64;
  }
  sdtw_dtype sum_type() const { return p.dtype == SDTW_F64 || g.wide_sums ? SDTW_F64 : SDTW_F32; }
  bool plain() const { return !work.tangents || cosine(); }

  void prepare_arguments() {
    a.x = series_of(b.x, p.dtype), a.y = series_of(p.symmetric ? b.x : b.y, p.dtype);
    a.tangent_x = series_of(b.tangent_x, p.dtype);
    a.tangent_y = series_of(p.symmetric ? b.tangent_x : b.tangent_y, p.dtype);
    a.of_x = a.x, a.of_y = a.y;
    a.x_len = b.x_len, a.y_len = b.y_len, a.long_lengths = p.length_bits == 64;
    a.fused = p.fused(), a.all_pairs = p.all_pairs, a.symmetric = p.symmetric;
    a.batch_x = p.batch_x, a.batch_y = p.batch_y;
    a.n = static_cast<int>(p.n), a.m = static_cast<int>(p.m);
    a.features = a.cost_features = static_cast<int>(p.features);
    a.metric = p.metric;
    a.band.kind = p.band, a.band.radius = p.band_radius;
    a.scale = soft() ? core::log2_e / p.gamma : 1;
    a.inverse_gamma = soft() ? 1 / p.gamma : 0;
    for (int way = 0; way < transitions; way++) {
      a.weight[way] = a.out_weight[way] = p.step_weight[way];
      a.penalty[way] = p.step_penalty[way] * a.scale;
    }
    a.least_weight = g.least_weight;
    if (soft() && !wide()) {
      const Penalties rounded(a.penalty);
      std::copy(rounded.bits, rounded.bits + transitions, a.penalty);
      a.row_penalty = rounded.more_of_rows, a.column_penalty = rounded.more_of_columns;
    }
    a.f64_values = p.dtype == SDTW_F64;
    a.format = p.dtype == SDTW_F64 || (work.tangents && wide()) ? two_words : one_word;
    a.words = (soft() ? a.format == two_words ? 2 : 1 : 1) + (work.tangents ? 1 : 0);
    a.strips = static_cast<int>(g.strips);
    a.interval = static_cast<int>(layout.interval), a.slots = static_cast<int>(layout.slots),
    a.row_columns = g.row_columns;
    a.value = b.value, a.value_tangent = b.value_tangent, a.grad_value = b.grad_value;
  }

  Side side_of(int which) const {
    return which ? Side{p.batch_y, a.m, static_cast<int>(p.features), p.symmetric ? b.x_len : b.y_len, a.long_lengths}
                 : Side{p.batch_x, a.n, static_cast<int>(p.features), b.x_len, a.long_lengths};
  }
  Normalised normalised(int which) const {
    return {at<double>(b.workspace, layout.points[which]), at<double>(b.workspace, layout.norms[which]),
            work.tangents ? at<double>(b.workspace, layout.directions[which]) : nullptr, which};
  }

  // Cosine: from here on points, and their tangents, are the normalised ones.
  void normalise() {
    if (!cosine()) return;
    OfSides<Normalisation> sides;
    for (int which = 0; which < 2; which++) {
      Series &points = which ? a.y : a.x, &tangents = which ? a.tangent_y : a.tangent_x;
      const Normalised to = normalised(which);
      sides.add({side_of(which), points, tangents, to});
      const int64_t rows = which ? p.m : p.n;
      points = contiguous<Series>(to.points, rows, g.point_features, SDTW_F64);
      (which ? a.of_y : a.of_x) = points;
      if (work.tangents) tangents = contiguous<Series>(to.directions, rows, g.point_features, SDTW_F64);
    }
    launch_normalise(sides, stream());
    a.cost_features = static_cast<int>(g.point_features);  // gradients have none of those that points have more
  }

  // The wave's part of the state, which may be the caller's, with all pairs, and of the workspace.
  void place_wave(Args &of) const {
    const bool own = layout.run.bytes > 0;
    void *base = own ? at<void>(b.workspace, layout.run_at) : b.state;
    const Run &run = own ? layout.run : g.state;
    const int64_t skip = own ? 0 : of.first;
    const int64_t words = of.words, strips = of.strips;
    of.any_double = &at<Control>(base, run.control)->any_double;
    of.flags = at<int>(base, run.flags) + skip, of.status = at<int>(base, run.status) + skip;
    const int64_t columns = skip * strips * of.row_columns;
    of.rows = at<Word>(base, run.rows) + columns * words;
    of.rows_below = run.rows_below < run.crossings ? at<Word>(base, run.rows_below) + columns * words : nullptr;
    of.crossings = run.crossings < run.saved ? at<int>(base, run.crossings) + columns : nullptr;
    of.saved =
        run.saved < run.bytes ? at<Word>(base, run.saved) + skip * strips * of.slots * (K + 1) * warp * words : nullptr;
    of.done = at<int>(b.workspace, layout.done);
    of.rows_reset = at<Word>(b.workspace, layout.tickets) + 4;
    of.snapshots = at<Word>(b.workspace, layout.snapshots);
    of.entrances = at<Entrance>(b.workspace, layout.entrances), of.graded = at<int>(b.workspace, layout.graded);
    const bool both = own && work.forward;  // in one, as the run follows
    zero(at<void>(b.workspace, layout.tickets), (both ? layout.run_at + run.saved : layout.reset_end) - layout.tickets);
    if (work.forward && !own) zero(at<void>(base, run.control), run.saved - run.control);  // the wave is all pairs
  }
  void zero(void *data, size_t bytes) const { check(cudaMemsetAsync(data, 0, bytes, stream()), "cudaMemsetAsync"); }

  // Launches a pass: of the float engine first if there is one.
  template <class Launch>
  void launch_engines(Args of, int ticket, Launch launch) const {
    Word *tickets = at<Word>(b.workspace, layout.tickets) + ticket;
    of.ticket = tickets, of.primary = true;
    if (!wide()) {
      if (!soft())
        launch_either<Hard<Rule::unit, float>, Hard<Rule::weighted, float>>(of, launch);
      else if (work.tangents)
        launch_either<Soft<FloatCell, Rule::unit>, Soft<FloatCell, Rule::weighted>>(of, launch);
      else
        launch_float(multiplied(of), launch);
      leave_rest(of, tickets);
    }
    if (soft())
      launch_either<Soft<DoubleCell, Rule::unit>, Soft<DoubleCell, Rule::weighted>>(of, launch);
    else
      launch_either<Hard<Rule::unit, double>, Hard<Rule::weighted, double>>(of, launch);
  }
  // The kernels for unit steps, or those for any.
  template <class Unit, class Weighted, class Launch>
  void launch_either(const Args &of, Launch launch) const {
    if (p.has_unit_steps())
      work.tangents ? launch(Type<Unit, true>{}, of) : launch(Type<Unit, false>{}, of);
    else
      work.tangents ? launch(Type<Weighted, true>{}, of) : launch(Type<Weighted, false>{}, of);
  }
  template <class Launch>
  void launch_float(const Args &of, Launch launch) const {
    switch (rule_of(p, false)) {
      case Rule::unit: return launch(Type<Soft<FloatCell, Rule::unit>, false>{}, of);
      case Rule::penalised: return launch(Type<Soft<FloatCell, Rule::penalised>, false>{}, of);
      case Rule::doubled: return launch(Type<Soft<FloatCell, Rule::doubled>, false>{}, of);
      case Rule::weighted: return launch(Type<Soft<FloatCell, Rule::weighted>, false>{}, of);
    }
  }
  // To the double engine.
  static void leave_rest(Args &of, Word *tickets) {
    of.primary = false, of.ticket = tickets + 1, of.done += of.pairs * of.strips;
  }
  // The float engine takes squares of many features from products, unless these would leave more than little of a step.
  // Those of cosine are of the points as they are given, which are floats and not doubles. Products are of float64, and
  // so are resident points: where that is slow the code has neither.
  Args multiplied(Args of) const {
    of.products = !current_device().avoids_float64 && p.fused() && p.metric != SDTW_CITYBLOCK &&
                  a.scale <= core::product_cost_step && p.features > 2 * at_once;
    if (of.products && cosine()) {
      of.x = series_of(b.x, p.dtype), of.y = series_of(p.symmetric ? b.x : b.y, p.dtype);
      of.cost_features = static_cast<int>(p.features);
    }
    return of;
  }
  template <class Cell, bool tangents>
  struct Type {
    template <bool small>
    using kernels = Kernels<Cell, tangents, small>;
  };
  // Whether a kernel that needs so much shared memory beside what a block knows of its task can be launched.
  static bool fits(size_t bytes) { return bytes + sizeof(Block) <= current_device().shared_memory; }

  void sweep_forward(const Args &of) const {
    Args wave = of;
    wave.tasks = of.pairs * count_turns(of, of.rows_below != nullptr);
    launch_engines(wave, 0, [&](auto type, Args args) {
      using Large = typename decltype(type)::template kernels<false>;
      using Small = typename decltype(type)::template kernels<true>;
      args.resident = Large::may_be_resident(args) && !current_device().avoids_float64;
      args.alone = args.resident && !args.products && args.tasks <= current_device().multiprocessors;
      args.alone = args.alone && fits(Large::forward_bytes(args));
      args.resident = args.resident && fits(Large::forward_bytes(args));
      const bool large = fits(Large::forward_bytes(args));
      require(large ? forward_rooms<false> : forward_rooms<true>);
      large ? Large::forward(args, stream()) : Small::forward(args, stream());
    });
  }
  void sweep_back(const Args &of) const {
    Args args = of;
    args.tasks = of.pairs * of.strips;
    if (args.strips > 0 && !args.dense.data && !args.sum_x.data && !args.sum_y.data && !args.turn_x.data &&
        !args.turn_y.data)
      return;
    launch_engines(args, 2, [&](auto type, Args with) {
      using Large = typename decltype(type)::template kernels<false>;
      using Small = typename decltype(type)::template kernels<true>;
      const size_t room = current_device().shared_memory - sizeof(Block);
      const bool large = Large::fit_backward(with, room);
      if (!large) Small::fit_backward(with, room);
      require(large ? backward_rooms<false> : backward_rooms<true>);
      large ? Large::backward(with, stream()) : Small::backward(with, stream());
    });
  }

  void place_dense(Args &of, const Target &dense, bool scale) const {
    of.dense = dense, of.scale_dense = scale;
    if (!scale)  // the alignment
      for (double &weight : of.out_weight) weight = 1;
    if (p.symmetric) return launch_fill_symmetric(of, stream());
    Target wave = dense;
    wave.data = at<void>(dense.data, of.first * dense.stride[0] * static_cast<int64_t>(p.element_size()));
    Zeros zeros{wave, of.pairs, a.n, a.m, of.status};
    if (scale && b.grad_value) {
      zeros.grad_value = static_cast<const char *>(b.grad_value) + of.first * static_cast<int64_t>(p.value_size());
      zeros.f64_values = a.f64_values;
      zeros.x = side_of(0), zeros.y = side_of(1);
      skip(zeros.x, of.first), skip(zeros.y, of.first);
    }
    launch_fill({1, {zeros}}, stream());
  }

  // Where each pair's gradients are summed up: in the caller's array, or in the workspace.
  void place_sums(Args &of, const Target (&gradients)[2]) const {
    OfSides<Zeros> fills;
    for (int which = 0; which < 2; which++) {
      const bool wanted = gradients[which].data || (p.symmetric && gradients[0].data);
      if (!wanted) continue;
      const int rows = which ? a.m : a.n;
      Target &sum = which ? of.sum_y : of.sum_x, &turn = which ? of.turn_y : of.turn_x;
      if (g.direct) {
        Target &to = work.tangents ? turn : sum;
        to = gradients[which];
        to.data = at<void>(to.data, of.first * to.stride[0] * static_cast<int64_t>(p.element_size()));
        fills.add({to, of.pairs, rows, a.features, nullptr});
        continue;
      }
      const auto place = [&](Target &to, size_t offset) {
        to = contiguous<Target>(at<void>(b.workspace, offset), rows, a.features, sum_type());
        zero(to.data, of.pairs * rows * static_cast<size_t>(a.features) * (sum_type() == SDTW_F64 ? 8 : 4));
      };
      if (plain()) place(sum, layout.pair_sums[which]);
      if (work.tangents) place(turn, layout.pair_turns[which]);
    }
    launch_fill(fills, stream());
  }

  // From here on of the pairs, or series, from `first` on.
  void skip(Side &side, int64_t first) const {
    if (side.lengths) side.lengths = static_cast<const char *>(side.lengths) + first * p.length_bits / 8;
  }
  void skip(Finish &f, int64_t first) const {
    skip(f.side, first);
    const int64_t points = first * f.side.rows;
    if (f.cosine) f.normalised.norms += points, f.normalised.points += points * g.point_features;
    if (f.normalised.directions) f.normalised.directions += points * g.point_features;
    if (f.tangents.data)
      f.tangents.data = static_cast<const char *>(f.tangents.data) +
                        first * f.tangents.stride[0] * static_cast<int64_t>(p.element_size());
  }
  // Of both sides in one launch; complete(Finish, which): what is not the same with all pairs.
  template <class Complete>
  void finish(const Target (&gradients)[2], const Complete &complete) const {
    OfSides<Finish> finishes;
    for (int which = 0; which < 2; which++) {
      if (!gradients[which].data) continue;
      Finish f{};
      f.side = side_of(which), f.to = gradients[which];
      f.f64_values = a.f64_values, f.cosine = cosine();
      if (cosine()) f.normalised = normalised(which);
      f.tangents = series_of(which ? b.tangent_y : b.tangent_x, p.dtype);
      complete(f, which);
      finishes.add(f);
    }
    launch_finish(finishes, stream());
  }
  void finish_pairs(const Args &of, const Target (&gradients)[2]) const {
    finish(gradients, [&](Finish &f, int which) {
      skip(f, of.first);
      f.count = of.pairs;
      f.sums = which ? of.sum_y : of.sum_x, f.turns = which ? of.turn_y : of.turn_x;
      f.to.data = at<void>(f.to.data, of.first * f.to.stride[0] * static_cast<int64_t>(p.element_size()));
      if (b.grad_value)
        f.grad_value = static_cast<const char *>(b.grad_value) + of.first * static_cast<int64_t>(p.value_size());
      f.status = of.status;
    });
  }

  // All pairs: sums over the pairs of a series, in double.
  Target sum_of_series(int which, bool turn) const {
    return contiguous<Target>(at<void>(b.workspace, turn ? layout.turns[which] : layout.sums[which]), which ? a.m : a.n,
                              a.features, SDTW_F64);
  }
  void clear_sums_of_series() const {
    for (int which = 0; which < (p.symmetric ? 1 : 2); which++) {
      const size_t bytes =
          (which ? p.batch_y * p.m : p.batch_x * p.n) * static_cast<size_t>(a.features) * sizeof(double);
      if (plain()) zero(sum_of_series(which, false).data, bytes);
      if (work.tangents) zero(sum_of_series(which, true).data, bytes);
    }
  }
  void reduce(const Args &of) const {
    const PairsOfWave wave{p.symmetric, p.batch_x, p.batch_y,    of.first,
                           of.pairs,    of.status, b.grad_value, a.f64_values};
    for (int which = 0; which < 2; which++) {
      const Target &sum = which ? of.sum_y : of.sum_x, &turn = which ? of.turn_y : of.turn_x;
      const int to = p.symmetric ? 0 : which;
      if (sum.data) launch_reduce(wave, sum, sum_of_series(to, false), which == 0, true, stream());
      if (turn.data) launch_reduce(wave, turn, sum_of_series(to, true), which == 0, true, stream());
    }
  }
  void finish_series(const Target (&gradients)[2]) const {
    finish(gradients, [&](Finish &f, int which) {
      f.count = f.side.batch;
      f.sums = sum_of_series(which, false);
      if (work.tangents) f.turns = sum_of_series(which, true);
    });
  }
};

}  // namespace

void forward(const sdtw::Plan &plan, const Buffers &buffers) {
  Execution(plan, buffers, plan.cuda.general.forward, {true, false, false}).run({}, false, {});
}

void backward(const sdtw::Plan &plan, const Buffers &buffers) {
  const Problem &p = plan.problem;
  Execution execution(plan, buffers, plan.cuda.general.backward, {plan.exec.no_state, true, false});
  if (p.fused())
    execution.run({}, false, {target_of(buffers.grad_x, p.dtype), target_of(buffers.grad_y, p.dtype)});
  else
    execution.run(target_of(buffers.grad_x, p.dtype), true, {});
}

void alignment(const sdtw::Plan &plan, const Buffers &buffers) {
  Execution(plan, buffers, plan.cuda.general.alignment, {plan.cuda.general.alignment.run.bytes > 0, true, false})
      .run(target_of(buffers.alignment, plan.problem.dtype), false, {});
}

void jvp(const sdtw::Plan &plan, const Buffers &buffers) {
  const Problem &p = plan.problem;
  const Target x = target_of(buffers.grad_x_tangent, p.dtype), y = target_of(buffers.grad_y_tangent, p.dtype);
  Execution execution(plan, buffers, plan.cuda.general.jvp, {true, x.data || y.data, true});
  if (p.fused())
    execution.run({}, false, {x, y});
  else
    execution.run(x, true, {});
}

}  // namespace sdtw::cuda::general
