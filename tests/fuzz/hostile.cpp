// Any call at all: a World of bad_calls.h with some of its fields set to anything, against what expected.h says of it.
#include "expected.h"
#include "fuzz.h"

namespace test {
namespace {

// One field of a World that bytes may set.
struct Knob {
  void (*turn)(World &, Bytes &);
};

void set_size(size_t &field, Bytes &bytes) {
  const uint8_t kind = bytes.byte();
  field = kind < 128 ? field + static_cast<size_t>(static_cast<int64_t>(kind) - 64)
                     : static_cast<size_t>(bytes.special_integer());
}

// Nowhere, a little aside, onto another array, or anywhere.
template <class Pointer>
void set_pointer(Pointer &field, World &w, Bytes &bytes) {
  const uint8_t kind = bytes.byte();
  unsigned char *const memory = w.memory.data() + (64 - reinterpret_cast<uintptr_t>(w.memory.data()) % 64);
  const auto now = reinterpret_cast<uintptr_t>(field);
  uintptr_t address = 0;
  if (kind >= 40 && kind < 120) address = now + static_cast<uintptr_t>(static_cast<intptr_t>(bytes.byte()) - 128);
  if (kind >= 120 && kind < 240)
    address = reinterpret_cast<uintptr_t>(memory) + (kind - 120) % (World::regions + 2) * World::region +
              4 * static_cast<uintptr_t>(bytes.byte() % 128);
  if (kind >= 240) address = static_cast<uintptr_t>(bytes.special_integer());
  field = reinterpret_cast<Pointer>(address);
}

template <class Array>
void set_stride(Array &array, Bytes &bytes) {
  array.stride[bytes.below(3)] = bytes.special_integer();
}

#define KNOB(...)                               \
  {                                             \
    [](World &w, Bytes &bytes) { __VA_ARGS__; } \
  }
#define NUMBER(field, type) KNOB(w.field = static_cast<type>(bytes.special_integer()))
#define REAL(field) KNOB(w.field = bytes.special_double())
#define POINTER(field) KNOB(set_pointer(w.buffers.field, w, bytes))
#define STRIDED(array) POINTER(array.data), KNOB(set_stride(w.buffers.array, bytes))
#define NONE(argument) KNOB(w.argument = nullptr; (void)bytes)
const Knob knobs[] = {
    KNOB(set_size(w.problem.struct_size, bytes)),
    NUMBER(problem.metric, int32_t),
    NUMBER(problem.dtype, int32_t),
    NUMBER(problem.flags, uint32_t),
    NUMBER(problem.batch_x, int64_t),
    NUMBER(problem.batch_y, int64_t),
    KNOB(w.problem.batch_x = w.problem.batch_y = bytes.special_integer()),
    NUMBER(problem.n, int64_t),
    NUMBER(problem.m, int64_t),
    NUMBER(problem.features, int64_t),
    REAL(problem.gamma),
    NUMBER(problem.band, int32_t),
    REAL(problem.band_radius),
    KNOB(w.problem.step_weight[bytes.below(3)] = bytes.special_double()),
    KNOB(w.problem.step_penalty[bytes.below(3)] = bytes.special_double()),
    NUMBER(problem.length_bits, int32_t),
    NUMBER(problem.reserved, int32_t),
    KNOB(set_size(w.exec.struct_size, bytes)),
    NUMBER(exec.device, int32_t),
    NUMBER(exec.flags, uint32_t),
    NUMBER(exec.num_threads, int32_t),
    NUMBER(exec.cpu_isa, int32_t),
    KNOB(set_size(w.buffers.struct_size, bytes)),
    STRIDED(x),
    STRIDED(y),
    STRIDED(grad_x),
    STRIDED(grad_y),
    STRIDED(alignment),
    STRIDED(tangent_x),
    STRIDED(tangent_y),
    STRIDED(grad_x_tangent),
    STRIDED(grad_y_tangent),
    POINTER(x_len),
    POINTER(y_len),
    POINTER(value),
    POINTER(grad_value),
    POINTER(value_tangent),
    POINTER(state),
    POINTER(workspace),
    KNOB(set_size(w.buffers.state_bytes, bytes)),
    KNOB(set_size(w.buffers.workspace_bytes, bytes)),
    KNOB(set_size(w.sizes.struct_size, bytes)),
    KNOB(w.capacity = static_cast<size_t>(bytes.below(sizeof w.text + 1))),
    NONE(problem_argument),
    NONE(exec_argument),
    NONE(buffers_argument),
    NONE(sizes_argument),
    NONE(text_argument),
};

[[noreturn]] void fail(Function function, const std::string &what, sdtw_status status, const Expected &e) {
  std::string text = std::string(name_of(function)) + " " + what + ": " + sdtw_status_string(status);
  if (status != SDTW_STATUS_OK) text += ": " + std::string(sdtw_last_error());
  text += "; wrong are:";
  for (const std::string &name : e.wrong) text += " [" + name + "]";
  throw std::runtime_error(text);
}

// The lengths of all pairs, of x and then of y.
std::vector<int64_t> lengths_of(const World &w) {
  std::vector<int64_t> result;
  for (const bool of_x : {true, false})
    for (int64_t b = 0; b < World::batch; ++b) {
      const void *const lengths = of_x ? w.buffers.x_len : w.buffers.y_len;
      int64_t wide = of_x ? w.problem.n : w.problem.m;
      int32_t narrow = static_cast<int32_t>(wide);
      if (lengths && w.problem.length_bits == 64)
        std::memcpy(&wide, static_cast<const unsigned char *>(lengths) + 8 * b, 8);
      else if (lengths)
        std::memcpy(&narrow, static_cast<const unsigned char *>(lengths) + 4 * b, 4), wide = narrow;
      result.push_back(wide);
    }
  return result;
}

bool same_problem(const sdtw_problem &a, const sdtw_problem &b) {
  const auto steps = [](const double(&p)[3], const double(&q)[3]) { return std::equal(p, p + 3, q); };
  return a.metric == b.metric && a.dtype == b.dtype && a.flags == b.flags && a.batch_x == b.batch_x &&
         a.batch_y == b.batch_y && a.n == b.n && a.m == b.m && a.features == b.features && a.gamma == b.gamma &&
         a.band == b.band && (a.band == SDTW_BAND_NONE || a.band_radius == b.band_radius) &&
         steps(a.step_weight, b.step_weight) && steps(a.step_penalty, b.step_penalty);
}

void fill_inputs(World &w, Bytes &bytes) {
  const bool special = bytes.seldom(4);
  for (const sdtw_in *array : {&w.buffers.x, &w.buffers.y})
    for (size_t k = 0; array->data && k < World::region / sizeof(float); ++k) {
      const float value = special && k % 7 == 0 ? static_cast<float>(k % 3 ? NAN : INFINITY) : 0.25F * float(k % 11);
      std::memcpy(const_cast<unsigned char *>(static_cast<const unsigned char *>(array->data)) + k * sizeof value,
                  &value, sizeof value);
    }
}

void check_text(const World &w, sdtw_status status) {
  if (status != SDTW_STATUS_OK) return;
  const char *const end = static_cast<const char *>(std::memchr(w.text, 0, w.capacity));
  if (!end) throw std::runtime_error("sdtw_describe did not end its text");
  for (size_t k = w.capacity; k < sizeof w.text; ++k)
    if (w.text[k] != 'x') throw std::runtime_error("sdtw_describe wrote beyond its capacity");
}

void check_refusal(Function function, sdtw_status status, const Expected &e) {
  const std::string message = sdtw_last_error();
  if (message.empty()) fail(function, "left no message", status, e);
  if (!e.statuses.count(status)) fail(function, "refused what it must not, or with another status", status, e);
  if (e.wrong.empty()) return;
  for (const std::string &name : e.wrong)
    if (message.find(name) != std::string::npos) return;
  if (!e.may_refuse) fail(function, "names nothing that is wrong", status, e);
}

}  // namespace

void fuzz_hostile(Bytes &bytes) {
  World w(bytes.byte() & 1 ? SDTW_PRECOMPUTED : SDTW_SQEUCLIDEAN);
  w.exec.device = SDTW_CPU;  // its memory is the host's
  const Function function = bytes.one_of(functions);
  fill_inputs(w, bytes);
  if (w.call(forward) != SDTW_STATUS_OK) throw std::runtime_error("a plain call failed");
  const sdtw_problem of_state = w.problem;
  const void *const state = w.buffers.state;
  const std::vector<int64_t> lengths = lengths_of(w);
  for (int64_t left = bytes.integer(1, 4); left > 0; --left) bytes.one_of(knobs).turn(w, bytes);

  Expected e = expect(w, function, same_problem(of_state, w.problem) && w.buffers.state == state);
  if (!e.reachable && (e.wrong.empty() || w.exec.device == SDTW_CUDA)) return;
  const bool reads_state = (function & with_state) && w.buffers.state && !(w.exec.flags & SDTW_NO_STATE);
  if (reads_state && e.wrong.empty() && !e.used.empty()) {
    if (lengths_of(w) != lengths) {
      e.invalid("_len");
    } else if (bytes.seldom(3)) {
      static_cast<unsigned char *>(w.buffers.state)[bytes.word(2) % w.sizes.state] ^= 1 << bytes.below(8);
      e.may(SDTW_STATUS_INVALID_ARGUMENT);
    }
  }

  const auto before = w.snapshot();
  const std::vector<unsigned char> memory = w.memory;
  if (!e.used.empty()) hide_unused(w.memory.data(), e.used);
  const sdtw_status status = w.call(function);
  reveal(w.memory.data(), w.memory.size());
  if (status == SDTW_STATUS_OK) {
    if (!e.wrong.empty()) fail(function, "accepted what is wrong", status, e);
    for (size_t k = 0; k < memory.size(); ++k)
      if (memory[k] != w.memory[k] && (e.written.empty() || !e.written[k]))
        fail(function, "wrote what is no output at byte " + std::to_string(k), status, e);
    if (function == describe_plan) check_text(w, status);
    return;
  }
  if (w.snapshot() != before) fail(function, "failed, and wrote", status, e);
  check_refusal(function, status, e);
}

namespace {

template <class Struct>
void check_initialiser(sdtw_status (*init)(Struct *, size_t), Bytes &bytes) {
  Struct object, before;
  std::memset(&object, 0xa5, sizeof object);
  std::memcpy(&before, &object, sizeof before);
  size_t size = sizeof object;
  if (bytes.byte() & 1) set_size(size, bytes);
  const bool null = bytes.seldom(4);
  const sdtw_status status = init(null ? nullptr : &object, size);
  const bool good = !null && size == sizeof object;
  if (good != (status == SDTW_STATUS_OK))
    throw std::runtime_error("an initialiser took a wrong struct, or no right one");
  if (good && object.struct_size != size) throw std::runtime_error("an initialiser left struct_size");
  if (good) return;
  if (std::memcmp(&object, &before, sizeof object) != 0) throw std::runtime_error("an initialiser failed, and wrote");
  if (!*sdtw_last_error()) throw std::runtime_error("an initialiser left no message");
}

}  // namespace

void fuzz_library(Bytes &bytes) {
  check_initialiser(sdtw_problem_init, bytes);
  check_initialiser(sdtw_exec_init, bytes);
  check_initialiser(sdtw_buffers_init, bytes);
  check_initialiser(sdtw_sizes_init, bytes);
  if (!*sdtw_status_string(static_cast<sdtw_status>(bytes.special_integer())) || !*sdtw_build_info())
    throw std::runtime_error("an empty string");
  const auto device = static_cast<sdtw_device>(bytes.special_integer());
  const sdtw_status status = sdtw_device_available(device);
  if (device == SDTW_CPU ? status != SDTW_STATUS_OK : !valid_enum(device, 2) && status != SDTW_STATUS_INVALID_ARGUMENT)
    throw std::runtime_error("sdtw_device_available");
}

}  // namespace test
