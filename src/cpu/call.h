// One call to the CPU backend: threads take pairs (or groups of pairs); each goes to the engine that its costs need;
// what is known without the recurrence is written here. Who calls whom:
//
//   forward (backend.cpp) -> TypedCall::forward -> each_unit -> begin, solve, write_values
//     solve -> solve_pair  -> solve_with_any_engine -> try_pair<float>, else <double>  -> StripPair::forward
//           -> solve_group -> solve_group_as_float, else                               -> LaneGroup::forward
//   StripPair::forward -> forward_strip -> tile by tile: cost, sweep
//   LaneGroup::forward -> K rows at a time, tile by tile: cost, sweep
//
//   run_backward (backend.cpp) -> TypedCall::backward -> each_unit -> begin, solve if state has not recalled the pair
//     -> backward_unit -> backward_pair  -> StripPair::backward, write_gradients
//                      -> backward_group -> LaneGroup::backward, write_gradients
//   StripPair::backward -> backward_strip -> tile by tile from the last: cost, recompute, adjoint, use_alignment
//                       -> backward_path, at gamma = 0: the tiles of the best path
//   LaneGroup::backward -> tile by tile from the last: recompute, adjoint, gradient, or E is written
#pragma once

#include "cpu/lanes.h"
#include "cpu/parallel.h"
#include "cpu/state_header.h"
#include "cpu/strips.h"
#include "cpu/sums.h"

namespace sdtw::cpu {

// One call, of inputs of type In: plan, buffers, and where its parts of state and workspace are.
template <class In>
class TypedCall {
 public:
  TypedCall(const sdtw::Plan &whole_plan, const Buffers &buffers, Need need, sdtw_cpu_isa which)
      : whole(whole_plan),
        p(whole.problem),
        plan(whole.cpu),
        b(buffers),
        isa(isa_kernels(which)),
        state_layout(p, plan),
        scratch(p, plan, need) {
    state = static_cast<std::byte *>(buffers.state);
    const auto address = reinterpret_cast<uintptr_t>(buffers.workspace);
    workspace = static_cast<std::byte *>(buffers.workspace) + (round_up<uintptr_t>(address, 64) - address);
  }

  void forward();
  // Throws unless state is what forward writes for these lengths: what follows reads and writes where it says.
  void require_state() const;
  // With tangents derivatives take the place of what is wanted.
  void backward(Wanted wanted);

 private:
  static constexpr bool has_float = !std::is_same_v<In, double>;

  // A pair, or a group of pairs of which those from `count` on are lanes without cells; and what forward learns.
  struct Unit {
    int64_t index, count;
    int thread;
    std::byte *block;  // where boundaries of tiles are kept, or null
    bool in_state;     // the block is; else, if there is one, it is the thread's
    bool recalled;     // forward has solved it, and kept what backward takes
    std::byte *kept;   // where entries of tiles are, for cells of the problem's own type, or null
    Engine engine;
    int64_t features[lane_group];  // of which solvers compute costs, each one's at its first lane
    Place places[lane_group];
    NotedLengths noted[lane_group];
    Lengths lengths[lane_group];
    double values[lane_group];
    double value_tangent;  // jvp
  };

  // Thread i's own scratch, and that of the pair (group) it is working on.
  std::byte *local(int i) const {
    const size_t pairs = plan.wavefront ? 1 : size_t(plan.threads);
    return workspace + pairs * scratch.shared_bytes + size_t(i) * scratch.local_bytes;
  }
  std::byte *shared(int i) const { return workspace + (plan.wavefront ? 0 : size_t(i) * scratch.shared_bytes); }
  int64_t works_each() const { return plan.mapping == Mapping::lanes ? lane_group : 1; }
  NotedLengths &noted_lengths(int64_t work) const {
    return reinterpret_cast<NotedLengths *>(state + state_layout.lengths)[work];
  }
  Kind &kind(int64_t work) const { return reinterpret_cast<Kind *>(state + state_layout.kinds)[work]; }
  Engine &engine(int64_t unit) const { return reinterpret_cast<Engine *>(state + state_layout.engines)[unit]; }
  std::byte *block_of_state(int64_t unit) const {
    return state + state_layout.blocks + size_t(unit) * state_layout.block;
  }
  Place place(int64_t work) const { return place_of(p, plan.transposed, work); }

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
  auto locals(int thread) {
    return [this, thread](int i) { return local(plan.wavefront ? i : thread); };
  }

  // again: for backward, which has what forward did from state, or keeps what it does anew in the thread's own room.
  Unit begin(int64_t index, int thread, bool again) const;
  // The lengths of its pairs; or, if it has been solved, what state says of it.
  void note(Unit &unit) const;
  void recall(Unit &unit) const;
  // Whether state has room for it.
  bool fits(const Unit &unit) const;
  // Solves all of a unit.
  void solve(Unit &unit);
  void solve_pair(Unit &unit);
  bool solve_with_any_engine(Unit &unit);  // false: NaN
  void solve_group(Unit &unit);
  bool solve_group_as_float(Unit &unit);  // false: it is not for the float engine
  // Solve with cells in T; false if that is not for these costs.
  template <class T>
  bool try_pair(Unit &unit);
  template <class T>
  bool try_group(Unit &unit);

  // Where entries of the unit's pairs from `lane` on are kept, or null: float32 problems have no room for doubles.
  template <class T>
  T *kept_of(const Unit &unit, int64_t lane) const {
    if (!unit.kept || sizeof(T) != p.value_size()) return nullptr;
    return reinterpret_cast<T *>(unit.kept) + scratch.kept_number / size_t(works_each()) * size_t(lane);
  }
  template <class T>
  StripPair<T, In> pair_solver(const Unit &unit) const {
    return {whole,
            isa,
            b,
            unit.places[0],
            unit.lengths[0],
            scratch,
            shared(unit.thread),
            unit.block,
            unit.in_state ? state_layout.block : 0,
            kept_of<T>(unit, 0)};
  }
  template <class T>
  LaneGroup<T, In> group_solver(const Unit &unit, int64_t lane) const {
    std::byte *const part = unit.block ? unit.block + size_t(lane) * state_layout.block / lane_group : nullptr;
    return {whole,
            isa,
            b,
            unit.places + lane,
            lane,
            unit.lengths + lane,
            scratch,
            shared(unit.thread),
            local(unit.thread),
            part,
            kept_of<T>(unit, lane)};
  }

  // sums: of all pairs' gradients, or null.
  void backward_unit(Unit &unit, Wanted wanted, GradientSums *sums);
  template <class T>
  void backward_pair(Unit &unit, Wanted wanted, double g, GradientSums *sums);
  template <class T>
  void backward_group(const Unit &unit, Wanted wanted, const double *g, GradientSums *sums);
  template <class T>
  void add_to(GradientSums &sums, const Unit &unit) const;
  SeriesSums sums_of(size_t offset, bool wanted, int64_t batch, int64_t steps) const;
  double grad_value(const Place &at, Wanted wanted) const;
  void write_values(const Unit &unit) const;
  void write_value_tangent(const Unit &unit, void *out) const;
  void clear(const Unit &unit, int64_t lane, Wanted wanted);
  void mirror(const Place &at, const sdtw_out &target) const;

  void require_length(bool rows, int64_t series, int32_t then, int32_t now) const;
  bool is_sound(int64_t work) const;

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
typename TypedCall<In>::Unit TypedCall<In>::begin(int64_t index, int thread, bool again) const {
  Unit unit;
  const int64_t first = index * works_each();
  unit.index = index;
  unit.count = std::min(works_each(), plan.works - first);
  unit.thread = thread;
  unit.engine = Engine::float64;
  unit.value_tangent = 0;
  for (int64_t l = 0; l < works_each(); ++l) {
    unit.places[l] = l < unit.count ? place(first + l) : Place{0, 0, 0, -1};
    unit.noted[l] = {0, 0};
    unit.lengths[l] = {0, 0, Kind::zero, 0};
  }
  if (again && state)
    recall(unit);
  else
    note(unit);
  unit.in_state = state && fits(unit);
  // Nothing is computed of a pair that is not solved.
  unit.recalled = again && state && (unit.in_state || unit.lengths[0].kind != Kind::solved);
  unit.block = nullptr;
  if (unit.in_state)
    unit.block = block_of_state(index);
  else if (again)
    unit.block = shared(thread) + scratch.block;
  unit.kept = again && !unit.in_state && scratch.kept_number > 0 ? shared(thread) + scratch.kept : nullptr;
  return unit;
}

template <class In>
void TypedCall<In>::note(Unit &unit) const {
  for (int64_t l = 0; l < unit.count; ++l) {
    unit.noted[l] = note_lengths(p, b, unit.places[l]);
    unit.lengths[l] = lengths_of(unit.noted[l]);
  }
}

// Lengths are those of forward, which have been checked: what the caller's arrays say by now is not asked again.
template <class In>
void TypedCall<In>::recall(Unit &unit) const {
  unit.engine = engine(unit.index);
  for (int64_t l = 0, work = unit.index * works_each(); l < unit.count; ++l, ++work) {
    unit.noted[l] = noted_lengths(work);
    unit.lengths[l] = lengths_of(unit.noted[l]);
    unit.lengths[l].kind = kind(work);
  }
}

template <class In>
bool TypedCall<In>::fits(const Unit &unit) const {
  if (!may_exceed_state(p, plan)) return true;
  const Lengths &of = unit.lengths[0];
  return Boundaries::of_pair(p, plan, of.n, of.m).bytes <= state_layout.block;
}

template <class In>
void TypedCall<In>::require_state() const {
  for (int64_t work = 0; work < plan.works; ++work) {
    const Place at = place(work);
    const NotedLengths then = noted_lengths(work), now = note_lengths(p, b, at);
    require_length(true, at.x, then.n, now.n);
    require_length(false, at.y, then.m, now.m);
    if (!is_sound(work))
      invalid("buffers.state says of pair %lld what sdtw_forward does not write: it must be kept as that has left it",
              (long long)at.result);
  }
}

// rows: of the lengths of rows, which are the caller's x unless the plan has turned the problem.
template <class In>
void TypedCall<In>::require_length(bool rows, int64_t series, int32_t then, int32_t now) const {
  if (then == now) return;
  const void *const lengths = rows ? b.x_len : b.y_len;
  const char *const name = rows != plan.transposed || p.symmetric ? "x_len" : "y_len";
  const std::string was = then < 0 ? "out of range" : std::to_string(then);
  invalid("buffers.%s[%lld] is %lld%s: it must be what it was in the sdtw_forward that wrote buffers.state, %s", name,
          (long long)series, (long long)read_length(lengths, p.length_bits, series, rows ? p.n : p.m),
          lengths ? "" : ", as it is NULL", was.c_str());
}

// Whether what state says of a pair can be: of lengths that have been checked.
template <class In>
bool TypedCall<In>::is_sound(int64_t work) const {
  const Kind known = lengths_of(noted_lengths(work)).kind, what = kind(work);
  if (known != Kind::solved) return what == known;
  if (what != Kind::solved) return what == Kind::zero || what == Kind::nan;
  const Engine used = engine(work / works_each());
  if (used == Engine::float64) return true;
  if (used == Engine::products) return has_float && has_products(p);
  return has_float && (used == Engine::plain || (used == Engine::double_costs && p.fused()));
}

}  // namespace sdtw::cpu
