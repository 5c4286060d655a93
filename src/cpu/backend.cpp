// The CPU backend's entry points: threads take pairs (or groups of pairs); each goes to the engine that its costs need;
// what is known without the recurrence is written here.
#include "backend.h"

#include "cpu/lanes.h"
#include "cpu/parallel.h"
#include "cpu/poisoned.h"
#include "cpu/strips.h"

namespace sdtw::cpu {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

// One call: plan, buffers, and where its parts of state and workspace are.
template <class In>
class Call {
 public:
  Call(const sdtw::Plan &whole_plan, const Buffers &buffers, bool backward, bool gradient, sdtw_cpu_isa which)
      : whole(whole_plan),
        p(whole.problem),
        plan(whole.cpu),
        b(buffers),
        isa(isa_kernels(which)),
        state_layout(p, plan),
        scratch(p, plan, backward, gradient) {
    state = static_cast<std::byte *>(buffers.state);
    const auto address = reinterpret_cast<uintptr_t>(buffers.workspace);
    workspace = static_cast<std::byte *>(buffers.workspace) + (round_up<uintptr_t>(address, 64) - address);
  }

  void forward();
  // Throws unless state is what forward writes for these lengths: what follows reads and writes where it says.
  void require_state() const;
  // target: where E goes (times g if `weighted`), or null for gradients of the series.
  void backward(const sdtw_out *target, bool weighted);

 private:
  // Thread i's own scratch, and that of the pair (group) it is working on.
  std::byte *local(int i) const {
    const size_t pairs = plan.wavefront ? 1 : size_t(plan.threads);
    return workspace + pairs * scratch.shared + size_t(i) * scratch.local;
  }
  std::byte *shared(int i) const { return workspace + (plan.wavefront ? 0 : size_t(i) * scratch.shared); }
  std::byte *block(int64_t unit) const {
    return state ? state + state_layout.blocks + size_t(unit) * state_layout.block : nullptr;
  }
  NotedLengths &noted_lengths(int64_t pair) const {
    return reinterpret_cast<NotedLengths *>(state + state_layout.lengths)[pair];
  }
  Kind &kind(int64_t pair) const { return reinterpret_cast<Kind *>(state + state_layout.kinds)[pair]; }
  void remember(int64_t pair, NotedLengths noted, Kind what) const {
    if (!state) return;
    noted_lengths(pair) = noted;
    kind(pair) = what;
  }
  Engine &engine(int64_t unit) const { return reinterpret_cast<Engine *>(state + state_layout.engines)[unit]; }

  // Runs body(unit, thread) for every unit: by all threads, or, as a wavefront, one unit after the other.
  template <class Body>
  void each_unit(Body &&body) {
    if (plan.wavefront || plan.threads == 1) {
      for (int64_t unit = 0; unit < plan.units; ++unit) body(unit, 0);
      return;
    }
    std::atomic<int64_t> tickets{0};
    std::atomic<int> members{0};
    parallel(plan.threads, [&] {
      const int thread = members.fetch_add(1);
      for (int64_t unit; (unit = tickets.fetch_add(1)) < plan.units;) body(unit, thread);
    });
  }
  int team() const { return plan.wavefront ? plan.threads : 1; }

  void forward_pair(int64_t pair, int thread);
  void forward_group(int64_t unit, int thread);
  // Solve with cells in T; false if that is not for these costs.
  template <class T>
  bool try_pair(int64_t pair, int thread, const Lengths &lengths, double &value);
  template <class T>
  bool try_group(int64_t unit, int thread, const Lengths *lengths, double *values);
  template <class T>
  void backward_pair(int64_t pair, int thread, const Lengths &lengths, const sdtw_out *target, double g,
                     bool derivative);
  template <class T>
  void backward_group(int64_t unit, int thread, const Lengths *lengths, const sdtw_out *target, const double *g);
  void clear(int64_t pair, const Lengths &lengths, const sdtw_out *target, Kind kind);
  // As state has them, once it has been checked: what the caller's arrays say by now is not asked again.
  Lengths lengths_after_forward(int64_t pair) const {
    Lengths lengths = lengths_of(noted_lengths(pair));
    lengths.kind = kind(pair);
    return lengths;
  }
  void require_length(bool rows, int64_t pair, int32_t then, int32_t now) const;
  bool is_sound(int64_t pair) const;

  const sdtw::Plan &whole;
  const Problem &p;
  const Plan &plan;
  const Buffers &b;
  const Isa &isa;
  const StateLayout state_layout;
  const ScratchLayout scratch;
  std::byte *state, *workspace;
};

template <class In>
template <class T>
bool Call<In>::try_pair(int64_t pair, int thread, const Lengths &lengths, double &value) {
  StripPair<T, In> solver(whole, isa, b, pair, lengths, scratch, shared(thread), block(pair));
  const Engine needed = solver.prepare(local(thread));
  if (sizeof(T) == 4 && needed == Engine::float64) return false;
  if (state) engine(pair) = needed;
  solver.use(needed);
  return solver.forward(
      value, [&](int i) { return local(plan.wavefront ? i : thread); }, team());
}

template <class In>
void Call<In>::forward_pair(int64_t pair, int thread) {
  const NotedLengths noted = note_lengths(p, b, pair);
  Lengths lengths = lengths_of(noted);
  double value = lengths.value;
  if (lengths.kind == Kind::solved) {
    bool fast = false;
    if constexpr (sizeof(In) == 4) fast = try_pair<float>(pair, thread, lengths, value);
    if (!fast) {
      // Given costs are looked at as they are read, series beforehand.
      const auto solves = [&] {
        // With a band a tile has costs of cells that are outside of it: whether they were the bad ones, is asked then.
        return try_pair<double>(pair, thread, lengths, value) ||
               (p.band != SDTW_BAND_NONE && !poisoned<In>(p, b, pair, lengths));
      };
      if ((p.fused() && poisoned<In>(p, b, pair, lengths)) || !solves()) {
        value = nan;
        lengths.kind = Kind::nan;
      }
    }
    if (std::isinf(value)) lengths.kind = Kind::zero;  // no admissible path
  }
  remember(pair, noted, lengths.kind);
  write_value(p, b, pair, value);
}

template <class In>
template <class T>
bool Call<In>::try_group(int64_t unit, int thread, const Lengths *lengths, double *values) {
  const int W = isa.kernels<T>().width;
  const auto group = [&](int64_t l) {
    std::byte *const part = state ? block(unit) + size_t(l) * state_layout.block / lane_group : nullptr;
    return LaneGroup<T, In>(whole, isa, b, unit * lane_group + l, lengths + l, scratch, shared(thread), local(thread),
                            part);
  };
  // One engine for all of the unit, so that results do not depend on the width of vectors.
  Engine needed = sizeof(T) == 4 ? Engine::plain : Engine::float64;
  if (sizeof(T) == 4)
    for (int64_t l = 0; l < lane_group; l += W)
      if (auto g = group(l); !g.empty()) needed = std::max(needed, g.prepare());
  if (sizeof(T) == 4 && needed == Engine::float64) return false;
  if (state) engine(unit) = needed;
  bool ok = true;
  for (int64_t l = 0; l < lane_group; l += W) {
    auto g = group(l);
    if (g.empty()) continue;
    if (sizeof(T) == 8) g.prepare();
    g.use(needed);
    ok &= g.forward(values + l);
    if (!ok && sizeof(T) == 4) return false;
  }
  return ok;
}

template <class In>
void Call<In>::forward_group(int64_t unit, int thread) {
  NotedLengths noted[lane_group];
  Lengths lengths[lane_group];
  double values[lane_group];
  const int64_t first = unit * lane_group, count = std::min(lane_group, p.batch - first);
  for (int64_t l = 0; l < lane_group; ++l) {
    noted[l] = l < count ? note_lengths(p, b, first + l) : NotedLengths{0, 0};
    lengths[l] = lengths_of(noted[l]);
    values[l] = lengths[l].value;
  }
  bool fast = false;
  if constexpr (sizeof(In) == 4) fast = try_group<float>(unit, thread, lengths, values);
  if (!fast) {
    const auto spoil = [&] {
      for (int64_t l = 0; l < count; ++l)
        if (lengths[l].kind == Kind::solved && poisoned<In>(p, b, first + l, lengths[l])) {
          lengths[l].kind = Kind::nan;
          values[l] = nan;
        }
    };
    if (p.fused()) spoil();
    // Costs that are NaN disturb no lane but their own: which one, is asked afterwards.
    if (!try_group<double>(unit, thread, lengths, values)) spoil();
    for (int64_t l = 0; l < count; ++l)
      if (lengths[l].kind == Kind::solved && std::isinf(values[l])) lengths[l].kind = Kind::zero;
  }
  for (int64_t l = 0; l < count; ++l) {
    remember(first + l, noted[l], lengths[l].kind);
    write_value(p, b, first + l, values[l]);
  }
}

template <class In>
void Call<In>::forward() {
  if (state) {
    const StateHeader header = StateHeader::of(whole, plan.isa);
    std::memcpy(state, &header, sizeof header);
  }
  each_unit([&](int64_t unit, int thread) {
    plan.mapping == Mapping::lanes ? forward_group(unit, thread) : forward_pair(unit, thread);
  });
}

// rows: of the lengths of rows, which are the caller's x unless the plan has turned the problem.
template <class In>
void Call<In>::require_length(bool rows, int64_t pair, int32_t then, int32_t now) const {
  if (then == now) return;
  const void *const lengths = rows ? b.x_len : b.y_len;
  const char *const name = rows != plan.transposed ? "x_len" : "y_len";
  const std::string was = then < 0 ? "out of range" : std::to_string(then);
  invalid("buffers.%s[%lld] is %lld%s: it must be what it was in the sdtw_forward that wrote buffers.state, %s", name,
          (long long)pair, (long long)read_length(lengths, p.length_bits, pair, rows ? p.n : p.m),
          lengths ? "" : ", as it is NULL", was.c_str());
}

// Whether what state says of a pair can be: of lengths that have been checked.
template <class In>
bool Call<In>::is_sound(int64_t pair) const {
  const Kind known = lengths_of(noted_lengths(pair)).kind, what = kind(pair);
  if (known != Kind::solved) return what == known;
  if (what != Kind::solved) return what == Kind::zero || what == Kind::nan;
  const Engine used = engine(plan.mapping == Mapping::lanes ? pair / lane_group : pair);
  if (used == Engine::float64) return true;
  return sizeof(In) == 4 && (used == Engine::plain || (used == Engine::double_costs && p.fused()));
}

template <class In>
void Call<In>::require_state() const {
  for (int64_t pair = 0; pair < p.batch; ++pair) {
    const NotedLengths then = noted_lengths(pair), now = note_lengths(p, b, pair);
    require_length(true, pair, then.n, now.n);
    require_length(false, pair, then.m, now.m);
    if (!is_sound(pair))
      invalid("buffers.state says of pair %lld what sdtw_forward does not write: it must be kept as that has left it",
              (long long)pair);
  }
}

// What the sweeps do not write of a pair's gradients or alignment: padding, and everything of a pair not solved.
template <class In>
void Call<In>::clear(int64_t pair, const Lengths &lengths, const sdtw_out *target, Kind kind) {
  const auto fill = [&](const sdtw_out &out, int64_t length, int64_t rows, int64_t cols) {
    const int64_t kept = kind == Kind::solved && !target ? length : 0;
    fill_matrix(element<In>(out, pair) + kept * out.stride[1], rows - kept, out.stride[1], cols, out.stride[2],
                kind == Kind::nan ? std::numeric_limits<In>::quiet_NaN() : In(0));
  };
  if (target) return fill(*target, 0, p.n, p.m);
  if (b.grad_x.data) fill(b.grad_x, lengths.n, p.n, p.features);
  if (b.grad_y.data) fill(b.grad_y, lengths.m, p.m, p.features);
}

template <class In>
template <class T>
void Call<In>::backward_pair(int64_t pair, int thread, const Lengths &lengths, const sdtw_out *target, double g,
                             bool derivative) {
  StripPair<T, In> solver(whole, isa, b, pair, lengths, scratch, shared(thread), block(pair));
  solver.prepare(local(thread));
  solver.use(engine(pair));
  const int64_t none[3] = {};
  solver.backward(
      target ? element<In>(*target, pair) : nullptr, target ? target->stride : none, T(g), derivative,
      [&](int i) { return local(plan.wavefront ? i : thread); }, team());
  if (!target) solver.write_gradients(T(g), local(thread));
}

template <class In>
template <class T>
void Call<In>::backward_group(int64_t unit, int thread, const Lengths *lengths, const sdtw_out *target,
                              const double *g) {
  const int W = isa.kernels<T>().width;
  for (int64_t l = 0; l < lane_group; l += W) {
    T factor[max_width] = {};
    for (int k = 0; k < W; ++k) factor[k] = T(g[l + k]);
    std::byte *const part = block(unit) + size_t(l) * state_layout.block / lane_group;
    LaneGroup<T, In> group(whole, isa, b, unit * lane_group + l, lengths + l, scratch, shared(thread), local(thread),
                           part);
    if (group.empty()) continue;
    group.prepare();
    group.use(engine(unit));
    group.backward(target, factor);
    if (!target) group.write_gradients(factor);
  }
}

template <class In>
void Call<In>::backward(const sdtw_out *target, bool weighted) {
  const auto g_of = [&](int64_t pair) { return weighted ? read_grad_value(p, b, pair) : 1.; };
  each_unit([&](int64_t unit, int thread) {
    if (plan.mapping == Mapping::strips) {
      const Lengths lengths = lengths_after_forward(unit);
      clear(unit, lengths, target, lengths.kind);
      if (lengths.kind != Kind::solved) return;
      if constexpr (sizeof(In) == 4)
        if (engine(unit) != Engine::float64)
          return backward_pair<float>(unit, thread, lengths, target, g_of(unit), weighted);
      return backward_pair<double>(unit, thread, lengths, target, g_of(unit), weighted);
    }
    Lengths lengths[lane_group];
    double g[lane_group] = {};
    const int64_t first = unit * lane_group, count = std::min(lane_group, p.batch - first);
    for (int64_t l = 0; l < lane_group; ++l) {
      lengths[l] = l < count ? lengths_after_forward(first + l) : Lengths{0, 0, Kind::zero, 0};
      if (l >= count) continue;
      clear(first + l, lengths[l], target, lengths[l].kind);
      g[l] = g_of(first + l);
    }
    if constexpr (sizeof(In) == 4)
      if (engine(unit) != Engine::float64) return backward_group<float>(unit, thread, lengths, target, g);
    return backward_group<double>(unit, thread, lengths, target, g);
  });
}

// The arrays as the plan takes rows and columns.
Buffers oriented(const sdtw::Plan &plan, Buffers b) {
  if (!plan.cpu.transposed) return b;
  std::swap(b.x_len, b.y_len);
  const auto turn = [](auto &matrix) { std::swap(matrix.stride[1], matrix.stride[2]); };
  turn(b.alignment);
  if (plan.problem.fused()) {
    std::swap(b.x, b.y);
    std::swap(b.grad_x, b.grad_y);
  } else {
    turn(b.x);
    turn(b.grad_x);
  }
  return b;
}

template <class In>
void run_backward(const sdtw::Plan &plan, const Buffers &b, const sdtw_out *target, bool weighted) {
  StateHeader header;
  std::memcpy(&header, b.state, sizeof header);
  if (!header.matches(plan) || header.isa == SDTW_CPU_ISA_AUTO || !has_isa(header.isa))
    invalid("buffers.state was not written by sdtw_forward for this problem on the CPU");
  Call<In> call(plan, b, true, !target, header.isa);
  call.require_state();
  call.backward(target, weighted);
}

void run_backward(const sdtw::Plan &plan, const Buffers &b, const sdtw_out *target, bool weighted) {
  return plan.problem.dtype == SDTW_F64 ? run_backward<double>(plan, b, target, weighted)
                                        : run_backward<float>(plan, b, target, weighted);
}

}  // namespace

void forward(const sdtw::Plan &plan, const Buffers &given) {
  const Buffers b = oriented(plan, given);
  if (plan.problem.dtype == SDTW_F64)
    Call<double>(plan, b, false, false, plan.cpu.isa).forward();
  else
    Call<float>(plan, b, false, false, plan.cpu.isa).forward();
}

void backward(const sdtw::Plan &plan, const Buffers &given) {
  const Buffers b = oriented(plan, given);
  run_backward(plan, b, plan.problem.fused() ? nullptr : &b.grad_x, true);
}

void alignment(const sdtw::Plan &plan, const Buffers &given) {
  const Buffers b = oriented(plan, given);
  run_backward(plan, b, &b.alignment, false);
}

void jvp(const sdtw::Plan &, const Buffers &) {}

}  // namespace sdtw::cpu
