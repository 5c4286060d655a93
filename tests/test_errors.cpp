// Bad input: every argument of every function broken one at a time gives its status, a message that names it, and
// leaves the caller's memory as it was.
#include <limits>

#include "bad_calls.h"
#include "catch.h"

using namespace test;

namespace {

constexpr sdtw_status invalid = SDTW_STATUS_INVALID_ARGUMENT;
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();
constexpr double infinite = std::numeric_limits<double>::infinity();

using Table = std::vector<BadCall>;

// One row for each value that a field must not have. The message must say which it had.
template <class T, class Set>
void add_values(Table &table, unsigned calls, sdtw_status status, const std::string &field,
                std::initializer_list<T> values, Set set) {
  for (const T value : values) {
    const bool decimal = std::is_signed_v<T> && std::is_integral_v<T>;
    const std::string names = decimal ? field + " is " + std::to_string(value) + ": " : field + " is ";
    table.push_back({calls, status, names, [=](World &w) { set(w, value); }});
  }
}

void add_struct_sizes(Table &table, unsigned calls, const char *names, size_t right, void (*set)(World &, size_t)) {
  add_values(table, calls, SDTW_STATUS_INVALID_STRUCT, names, {size_t(0), size_t(8), right - 8, right + 8, SIZE_MAX},
             set);
}

Table problem_table() {
  Table t;
  t.push_back({every, invalid, "problem is NULL", [](World &w) { w.problem_argument = nullptr; }});
  add_struct_sizes(t, every, "problem.struct_size", sizeof(sdtw_problem),
                   [](World &w, size_t v) { w.problem.struct_size = v; });
  add_values(t, every, invalid, "problem.metric", {-1, 5, INT32_MAX}, [](World &w, int v) { w.problem.metric = v; });
  add_values(t, every, invalid, "problem.dtype", {-1, 4, INT32_MIN}, [](World &w, int v) { w.problem.dtype = v; });
  add_values(t, every, invalid, "problem.flags", {2u, 4u, 0x80000001u},
             [](World &w, uint32_t v) { w.problem.flags = v; });
  add_values<int64_t>(t, every, invalid, "problem.batch_x", {-1, INT64_MIN},
                      [](World &w, int64_t v) { w.problem.batch_x = v; });
  add_values<int64_t>(t, every, invalid, "problem.batch_y", {-1, 1, 3},
                      [](World &w, int64_t v) { w.problem.batch_y = v; });
  add_values<int64_t>(t, every, invalid, "problem.n", {0, -1, INT64_MIN}, [](World &w, int64_t v) { w.problem.n = v; });
  add_values<int64_t>(t, every, invalid, "problem.m", {0, -1, INT64_MIN}, [](World &w, int64_t v) { w.problem.m = v; });
  add_values<int64_t>(t, every, invalid, "problem.features", {0, -1},
                      [](World &w, int64_t v) { w.problem.features = v; });
  add_values(t, every, invalid, "problem.gamma", {-1.0, -1e-300, 5e-324, 9.9e-201, nan_value, infinite, -infinite},
             [](World &w, double v) { w.problem.gamma = v; });
  add_values(t, every, invalid, "problem.band", {-1, 4}, [](World &w, int v) { w.problem.band = v; });
  for (const sdtw_band band : {SDTW_BAND_SAKOE_CHIBA, SDTW_BAND_ABSOLUTE, SDTW_BAND_ITAKURA})
    add_values(t, every, invalid, "problem.band_radius", {-1.0, nan_value, infinite}, [band](World &w, double v) {
      w.problem.band = band;
      w.problem.band_radius = v;
    });
  t.push_back({every, invalid, "problem.band_radius", [](World &w) {
                 w.problem.band = SDTW_BAND_ITAKURA;
                 w.problem.band_radius = 0.5;
               }});
  for (int k = 0; k < 3; ++k) {
    const std::string index = "[" + std::to_string(k) + "]";
    add_values(t, every, invalid, "problem.step_weight" + index, {-0.5, nan_value, infinite},
               [k](World &w, double v) { w.problem.step_weight[k] = v; });
    add_values(t, every, invalid, "problem.step_penalty" + index, {nan_value, -infinite},
               [k](World &w, double v) { w.problem.step_penalty[k] = v; });
  }
  add_values(t, every, invalid, "problem.length_bits", {0, 16, 33, -64},
             [](World &w, int v) { w.problem.length_bits = v; });
  add_values(t, every, invalid, "problem.reserved", {1, -1}, [](World &w, int v) { w.problem.reserved = v; });
  constexpr int64_t limit = int64_t(1) << 30;
  for (const int64_t size : {limit, 2 * limit, INT64_MAX}) {
    const auto add = [&](const char *field, int64_t sdtw_problem::*member) {
      t.push_back({every, invalid,
                   std::string(field) + " is " + std::to_string(size) + ": it must be at most 1073741823",
                   [=](World &w) { w.problem.*member = size; }});
    };
    add("problem.n", &sdtw_problem::n);
    add("problem.m", &sdtw_problem::m);
    add("problem.features", &sdtw_problem::features);
  }
  return t;
}

// Sizes whose products overflow.
Table overflow_table() {
  Table t;
  const auto shape = [](int64_t batch, int64_t n, int64_t m, int64_t features) {
    return [=](World &w) {
      w.problem.batch_x = w.problem.batch_y = batch;
      w.problem.n = n;
      w.problem.m = m;
      w.problem.features = features;
    };
  };
  constexpr int64_t big = int64_t(1) << 32, most = (int64_t(1) << 30) - 1;
  t.push_back({every, invalid, "problem: pairs * n * m", shape(2, most, most, 1)});
  t.push_back({every, invalid, "problem.batch_x * problem.n", shape(big, most, 1, 1)});
  t.push_back({every, invalid, "problem.batch_y * problem.m", shape(big, 1, most, 1)});
  t.push_back({every, invalid, "problem.batch_x * problem.n * problem.features", shape(2, most, 1, most)});
  t.push_back({every, invalid, "problem.batch_y * problem.m * problem.features", shape(2, 1, most, most)});
  t.push_back({every, invalid, "problem", shape(INT64_MAX, 2, 1, 1)});
  t.push_back({planning, invalid, "address space", shape(INT64_MAX, 1, 1, 1)});
  return t;
}

Table exec_table() {
  Table t;
  t.push_back({every, invalid, "exec is NULL", [](World &w) { w.exec_argument = nullptr; }});
  add_struct_sizes(t, every, "exec.struct_size", sizeof(sdtw_exec), [](World &w, size_t v) { w.exec.struct_size = v; });
  add_values(t, every, invalid, "exec.device", {-1, 2}, [](World &w, int v) { w.exec.device = v; });
  add_values(t, every, invalid, "exec.flags", {8u, 0xffffffffu}, [](World &w, uint32_t v) { w.exec.flags = v; });
  t.push_back({with_state, invalid, "exec.flags has SDTW_WITH_VALUE, but buffers.state is ",
               [](World &w) { w.exec.flags = SDTW_WITH_VALUE; }});
  add_values(t, every, invalid, "exec.num_threads", {-1, 4097, INT32_MIN},
             [](World &w, int v) { w.exec.num_threads = v; });
  add_values(t, every, invalid, "exec.cpu_isa", {-1, 5}, [](World &w, int v) { w.exec.cpu_isa = v; });
  return t;
}

Table output_struct_table() {
  Table t;
  t.push_back({get_sizes, invalid, "sizes is NULL", [](World &w) { w.sizes_argument = nullptr; }});
  add_struct_sizes(t, get_sizes, "sizes.struct_size", sizeof(sdtw_sizes),
                   [](World &w, size_t v) { w.sizes.struct_size = v; });
  t.push_back({describe_plan, invalid, "text is NULL", [](World &w) { w.text_argument = nullptr; }});
  t.push_back({describe_plan, invalid, "capacity", [](World &w) { w.capacity = 0; }});
  return t;
}

// An array of sdtw_buffers: its name, its address, and the calls that use it, that need it and that write it.
struct Field {
  const char *name;
  void **(*address)(World &);
  unsigned used, needed, written;
  size_t alignment;
  int64_t *(*stride)(World &);  // null: it has none
};

template <class T>
void **address_of(T *&pointer) {
  return reinterpret_cast<void **>(const_cast<std::remove_const_t<T> **>(&pointer));
}

#define FIELD(member) [](World &w) { return address_of(w.buffers.member); }
#define STRIDE(member) [](World &w) { return w.buffers.member.stride; }
const Field fields[] = {
    {"x", FIELD(x.data), computing, computing, 0, 4, STRIDE(x)},
    {"y", FIELD(y.data), computing, computing, 0, 4, STRIDE(y)},
    {"x_len", FIELD(x_len), computing, 0, 0, 8, nullptr},
    {"y_len", FIELD(y_len), computing, 0, 0, 8, nullptr},
    {"value", FIELD(value), forward, forward, forward, 4, nullptr},
    {"grad_value", FIELD(grad_value), backward | jvp, 0, 0, 4, nullptr},
    {"grad_x", FIELD(grad_x.data), backward, 0, backward, 4, STRIDE(grad_x)},
    {"grad_y", FIELD(grad_y.data), backward, 0, backward, 4, STRIDE(grad_y)},
    {"alignment", FIELD(alignment.data), alignment, alignment, alignment, 4, STRIDE(alignment)},
    {"tangent_x", FIELD(tangent_x.data), jvp, 0, 0, 4, STRIDE(tangent_x)},
    {"tangent_y", FIELD(tangent_y.data), jvp, 0, 0, 4, STRIDE(tangent_y)},
    {"value_tangent", FIELD(value_tangent), jvp, 0, jvp, 4, nullptr},
    {"grad_x_tangent", FIELD(grad_x_tangent.data), jvp, 0, jvp, 4, STRIDE(grad_x_tangent)},
    {"grad_y_tangent", FIELD(grad_y_tangent.data), jvp, 0, jvp, 4, STRIDE(grad_y_tangent)},
    {"state", FIELD(state), forward | with_state, 0, forward, SDTW_BUFFER_ALIGNMENT, nullptr},
    {"workspace", FIELD(workspace), computing, 0, computing, SDTW_BUFFER_ALIGNMENT, nullptr},
};
#undef FIELD
#undef STRIDE

// Those that need any workspace for the world's problem.
unsigned with_workspace() {
  const World world;
  unsigned calls = 0;
  for (const Function function : {forward, backward, alignment, jvp})
    if (world.workspace_of(function) > 0) calls |= function;
  return calls;
}

std::string qualified(const Field &field) { return std::string("buffers.") + field.name; }

// Absent, misaligned, and with strides that no array or no output can have.
Table field_table() {
  Table t;
  t.push_back({computing, invalid, "buffers is NULL", [](World &w) { w.buffers_argument = nullptr; }});
  add_struct_sizes(t, computing, "buffers.struct_size", sizeof(sdtw_buffers),
                   [](World &w, size_t v) { w.buffers.struct_size = v; });
  for (const Field &f : fields) {
    const std::string name = qualified(f);
    const unsigned needed = name == "buffers.workspace" ? with_workspace() : f.needed;
    if (needed) t.push_back({needed, invalid, name, [&f](World &w) { *f.address(w) = nullptr; }});
    for (size_t off = 1; off < f.alignment; off *= 2)
      t.push_back({f.used, invalid, name,
                   [&f, off](World &w) { *f.address(w) = static_cast<unsigned char *>(*f.address(w)) + off; }});
    if (!f.stride) continue;
    for (const int64_t huge : {INT64_MAX, INT64_MIN, int64_t(1) << 61})
      for (const int k : {0, 1})
        t.push_back({f.used, invalid, name, [&f, huge, k](World &w) { f.stride(w)[k] = huge; }});
    if (!f.written) continue;
    for (const int k : {0, 1, 2}) t.push_back({f.used, invalid, name, [&f, k](World &w) { f.stride(w)[k] = 0; }});
    t.push_back({f.used, invalid, name, [&f](World &w) { f.stride(w)[0] = f.stride(w)[1]; }});
    t.push_back({f.used, invalid, name, [&f](World &w) { f.stride(w)[1] = -f.stride(w)[2]; }});
  }
  t.push_back({backward, invalid, "buffers.grad_x and buffers.grad_y",
               [](World &w) { w.buffers.grad_x.data = w.buffers.grad_y.data = nullptr; }});
  t.push_back({jvp, invalid, "buffers.tangent_x and buffers.tangent_y",
               [](World &w) { w.buffers.tangent_x.data = w.buffers.tangent_y.data = nullptr; }});
  t.push_back({jvp, invalid, "buffers.value_tangent, grad_x_tangent and grad_y_tangent", [](World &w) {
                 w.buffers.value_tangent = nullptr;
                 w.buffers.grad_x_tangent.data = w.buffers.grad_y_tangent.data = nullptr;
               }});
  return t;
}

// Values of calls that compute forward themselves, where SDTW_WITH_VALUE asks for them.
Table value_table() {
  Table t;
  const auto add = [&](unsigned calls, uint32_t flags, const char *names, void (*breaks)(World &)) {
    t.push_back({calls, invalid, names, [=](World &w) {
                   w.exec.flags = flags | SDTW_WITH_VALUE;
                   breaks(w);
                 }});
  };
  add(with_state | jvp, SDTW_NO_STATE, "buffers.value is NULL", [](World &w) { w.buffers.value = nullptr; });
  add(with_state | jvp, 0, "buffers.value is NULL", [](World &w) { w.buffers.value = w.buffers.state = nullptr; });
  add(with_state | jvp, SDTW_NO_STATE, "buffers.value is ",
      [](World &w) { w.buffers.value = static_cast<unsigned char *>(w.buffers.value) + 2; });
  add(with_state | jvp, SDTW_NO_STATE, "buffers.value",
      [](World &w) { w.buffers.value = const_cast<void *>(w.buffers.x.data); });
  add(backward | jvp, SDTW_NO_STATE, "buffers.value",
      [](World &w) { w.buffers.value = const_cast<void *>(w.buffers.grad_value); });
  add(backward, SDTW_NO_STATE, "buffers.grad_x", [](World &w) { w.buffers.grad_x.data = w.buffers.value; });
  add(alignment, SDTW_NO_STATE, "buffers.alignment", [](World &w) { w.buffers.alignment.data = w.buffers.value; });
  add(jvp, 0, "buffers.value_tangent", [](World &w) { w.buffers.value_tangent = w.buffers.value; });
  return t;
}

// Any two arrays of a call of which it writes one, each moved onto the other.
Table overlap_table() {
  Table t;
  for (const Field *a = std::begin(fields); a != std::end(fields); ++a)
    for (const Field *b = std::begin(fields); b != a; ++b) {
      const unsigned calls = a->used & b->used & (a->written | b->written);
      if (calls == 0) continue;
      t.push_back({calls, invalid, qualified(*a), [=](World &w) { *a->address(w) = *b->address(w); }});
      t.push_back({calls, invalid, qualified(*b), [=](World &w) { *b->address(w) = *a->address(w); }});
    }
  return t;
}

Table room_table() {
  Table t;
  constexpr sdtw_status small = SDTW_STATUS_BUFFER_TOO_SMALL;
  constexpr unsigned calls = forward | with_state;
  t.push_back({calls, small, "buffers.state_bytes", [](World &w) { w.buffers.state_bytes = w.sizes.state - 1; }});
  t.push_back({calls, small, "buffers.state_bytes", [](World &w) { w.buffers.state_bytes = 0; }});
  for (const Function function : {forward, backward, alignment, jvp})
    for (const bool nearly : {true, false})
      t.push_back({function & with_workspace(), small, "buffers.workspace_bytes",
                   [=](World &w) { w.buffers.workspace_bytes = nearly ? w.workspace_of(function) - 1 : 0; }});
  return t;
}

Table precomputed_table() {
  Table t;
  const auto add = [&](unsigned calls, const char *names, void (*breaks)(World &)) {
    t.push_back({calls, invalid, names, breaks, SDTW_PRECOMPUTED});
  };
  add(every, "problem.features", [](World &w) { w.problem.features = 2; });
  add(computing, "buffers.x", [](World &w) { w.buffers.x.data = nullptr; });
  add(backward, "buffers.grad_x", [](World &w) { w.buffers.grad_x.data = nullptr; });
  add(backward, "buffers.grad_x", [](World &w) { w.buffers.grad_x.stride[1] = 1; });
  add(backward, "buffers.x", [](World &w) { w.buffers.grad_x.data = const_cast<void *>(w.buffers.x.data); });
  add(alignment, "buffers.x", [](World &w) { w.buffers.alignment.data = const_cast<void *>(w.buffers.x.data); });
  add(backward, "buffers.grad_y", [](World &w) { w.buffers.grad_y = w.buffers.alignment; });
  add(jvp, "buffers.grad_y_tangent", [](World &w) { w.buffers.grad_y_tangent = w.buffers.alignment; });
  add(jvp, "buffers.tangent_x", [](World &w) { w.buffers.tangent_x.data = nullptr; });
  add(every, "problem.flags", [](World &w) {
    w.problem.flags = SDTW_ALL_PAIRS | SDTW_SYMMETRIC;
    w.problem.m = w.problem.n;
  });
  return t;
}

// With SDTW_SYMMETRIC all that makes (i, j) another pair than (j, i).
Table symmetric_table() {
  Table t;
  const auto add = [&](unsigned calls, const char *names, std::function<void(World &)> breaks) {
    t.push_back({calls, invalid, names, [=](World &w) {
                   w.problem.flags = SDTW_ALL_PAIRS | SDTW_SYMMETRIC;
                   w.problem.m = w.problem.n;
                   breaks(w);
                 }});
  };
  add(every, "problem.batch_y is 3: ", [](World &w) { w.problem.batch_y = 3; });
  add(every, "problem.m is 4: ", [](World &w) { w.problem.m = 4; });
  add(every, "problem.step_weight[2] is 2: ", [](World &w) { w.problem.step_weight[2] = 2; });
  add(every, "problem.step_penalty[2] is 0: ", [](World &w) { w.problem.step_penalty[1] = 0.5; });
  add(backward, "buffers.grad_x is NULL: ", [](World &w) { w.buffers.grad_x.data = nullptr; });
  add(jvp, "buffers.tangent_x is NULL", [](World &w) { w.buffers.tangent_x.data = nullptr; });
  return t;
}

// Makes every call of a table, checks that it is refused as it must be, and returns how many there were.
int refuse(const Table &table) {
  int calls = 0;
  for (size_t row = 0; row < table.size(); ++row)
    for (const Function function : functions) {
      const BadCall &bad = table[row];
      if (!(bad.functions & function)) continue;
      World world(bad.metric);
      bad.breaks(world);
      const auto before = world.snapshot();
      const sdtw_status status = world.call(function);
      const std::string message = sdtw_last_error();
      INFO(name_of(function) << ", row " << row << ", which is to name " << bad.names);
      INFO("status " << sdtw_status_string(status) << ", message: " << message);
      CHECK(status == bad.status);
      CHECK(message.find(bad.names) != std::string::npos);
      CHECK(world.snapshot() == before);
      ++calls;
    }
  return calls;
}

}  // namespace

TEST_CASE("the world that the bad calls break is a good one", "[errors]") {
  for (const sdtw_metric metric : {SDTW_SQEUCLIDEAN, SDTW_PRECOMPUTED}) {
    World world(metric);
    if (world.exec.device != SDTW_CPU) return;  // its memory is the host's
    for (const Function function : functions) {
      const sdtw_status status = world.call(function);
      INFO(name_of(function) << ": " << sdtw_last_error());
      CHECK(status == SDTW_STATUS_OK);
    }
  }
}

TEST_CASE("arrays may lie in each other's gaps, and inputs upon each other", "[errors]") {
  World world;
  if (world.exec.device != SDTW_CPU) return;
  // Rows of grad_x and grad_y in turn, two features each.
  auto *const place = static_cast<float *>(world.buffers.grad_x.data);
  world.buffers.grad_y.data = place + 2;
  for (sdtw_out *gradient : {&world.buffers.grad_x, &world.buffers.grad_y}) {
    gradient->stride[0] = 16;
    gradient->stride[1] = 4;
  }
  world.buffers.y = world.buffers.x;
  world.buffers.y.stride[1] = 0;
  for (const Function function : {forward, backward}) {
    const sdtw_status status = world.call(function);
    INFO(name_of(function) << ": " << sdtw_last_error());
    CHECK(status == SDTW_STATUS_OK);
  }
}

TEST_CASE("every argument broken one at a time is refused by name", "[errors]") {
  int calls = 0;
  for (const auto &table : {problem_table, overflow_table, exec_table, output_struct_table, field_table, value_table,
                            overlap_table, room_table, precomputed_table, symmetric_table})
    calls += refuse(table());
  INFO(calls << " bad calls");
  CHECK(calls >= 200);
}
