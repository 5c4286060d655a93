// Validates sdtw_buffers for one call: presence, alignment, extents and overlap of every array that the call uses.
#include <algorithm>
#include <cinttypes>
#include <cstdlib>
#include <numeric>

#include "problem.h"

namespace sdtw {
namespace {

// One array of a call, as bytes in memory. For the checks of overlap strides have no sign and dimensions no order: all
// that counts is where the array begins and in which steps it goes on from there.
struct Step {
  uintptr_t bytes, count;
};
struct Array {
  const char *name;
  const void *data;
  int64_t shape[3];  // trailing dimensions that it does not have are 1
  int64_t stride[3];
  size_t element;
  size_t alignment;
  bool written;
  // Set by Arrays:
  uintptr_t begin = 0, end = 0;  // it lies in [begin, end)
  Step steps[3] = {};            // from small to large; a dimension of one element makes none
};

// The arrays of one call. Each is checked on its own as it is added, then all of them against each other.
class Arrays {
 public:
  void add(Array array) {
    if (!array.data) return;
    require_alignment(array);
    locate(array);
    sort_steps(array);
    if (array.written) require_distinct_elements(array);
    arrays_[count_++] = array;
  }

  void require_disjoint() const {
    for (int i = 0; i < count_; i++)
      for (int j = 0; j < i; j++) {
        const Array &a = arrays_[i], &b = arrays_[j];
        if ((a.written || b.written) && a.begin < b.end && b.begin < a.end && !interleaved(a, b))
          invalid("buffers.%s overlaps buffers.%s: memory that a call writes must not be used by it twice",
                  (a.written ? a : b).name, (a.written ? b : a).name);
      }
  }

 private:
  static void require_alignment(const Array &a) {
    if (reinterpret_cast<uintptr_t>(a.data) % a.alignment)
      invalid("buffers.%s is %p: it must be aligned to %zu bytes", a.name, a.data, a.alignment);
  }

  [[noreturn]] static void invalid_strides(const Array &a, const char *why) {
    invalid("buffers.%s.stride is (%" PRId64 ", %" PRId64 ", %" PRId64 ") for shape (%" PRId64 ", %" PRId64 ", %" PRId64
            "): %s",
            a.name, a.stride[0], a.stride[1], a.stride[2], a.shape[0], a.shape[1], a.shape[2], why);
  }

  // Sets begin and end.
  static void locate(Array &a) {
    int64_t low = 0, high = 0, reach;
    bool fits = true;
    for (int k = 0; k < 3; k++) {
      fits = fits && !__builtin_mul_overflow(a.shape[k] - 1, a.stride[k], &reach) &&
             !__builtin_mul_overflow(reach, static_cast<int64_t>(a.element), &reach);
      if (!fits) break;
      int64_t &bound = reach < 0 ? low : high;
      fits = !__builtin_add_overflow(bound, reach, &bound);
    }
    const uintptr_t data = reinterpret_cast<uintptr_t>(a.data);
    fits = fits && !__builtin_add_overflow(high, static_cast<int64_t>(a.element), &high) &&
           !__builtin_add_overflow(data, low, &a.begin) && !__builtin_add_overflow(data, high, &a.end) &&
           a.end - a.begin <= PTRDIFF_MAX;
    if (!fits) invalid_strides(a, "it must lie within the address space");
  }

  // Sets steps.
  static void sort_steps(Array &a) {
    for (int k = 0; k < 3; k++)
      if (a.shape[k] > 1)
        a.steps[k] = {static_cast<uintptr_t>(std::llabs(a.stride[k])) * a.element,
                      static_cast<uintptr_t>(a.shape[k] - 1)};
    std::sort(a.steps, a.steps + 3, [](const Step &s, const Step &t) { return s.bytes < t.bytes; });
  }

  // Bytes of a block: what the `inner` smallest steps reach.
  static uintptr_t span(const Array &a, int inner) {
    uintptr_t bytes = a.element;
    for (int k = 0; k < inner; k++) bytes += a.steps[k].bytes * a.steps[k].count;
    return bytes;
  }

  // Each step must take one past all that the smaller ones reach.
  static void require_distinct_elements(const Array &a) {
    for (int k = 0; k < 3; k++)
      if (a.steps[k].count > 0 && a.steps[k].bytes < span(a, k))
        invalid_strides(a, "elements of an output must not share an address");
  }

  // Whether the arrays lie in each other's gaps, as two halves of the rows of one matrix do: all blocks of both begin
  // at multiples of one pitch, and within a pitch the blocks of one end before those of the other begin.
  static bool interleaved(const Array &a, const Array &b) {
    for (int i = 0; i < 3; i++)
      for (int j = 0; j < 3; j++) {
        uintptr_t pitch = 0;
        for (int k = i; k < 3; k++) pitch = std::gcd(pitch, a.steps[k].bytes);
        for (int k = j; k < 3; k++) pitch = std::gcd(pitch, b.steps[k].bytes);
        if (pitch == 0) continue;
        const uintptr_t offset = b.begin >= a.begin ? (b.begin - a.begin) % pitch : pitch - (a.begin - b.begin) % pitch;
        if (offset >= span(a, i) && offset + span(b, j) <= pitch) return true;
      }
    return false;
  }

  Array arrays_[16];
  int count_ = 0;
};

const char *name_of(Call call) {
  switch (call) {
    case Call::forward: return "sdtw_forward";
    case Call::backward: return "sdtw_backward";
    case Call::alignment: return "sdtw_alignment";
    case Call::jvp: return "sdtw_jvp";
  }
  return "";
}

void require_present(const void *data, const char *name, Call call) {
  if (!data) invalid("buffers.%s is NULL: %s needs it", name, name_of(call));
}

// What the call does not use is absent from there on.
Buffers only_used(const Problem &problem, const Exec &exec, const sdtw_buffers &given, Call call) {
  Buffers b = given;
  const bool forward = call == Call::forward, backward = call == Call::backward, jvp = call == Call::jvp;
  if (!problem.fused()) b.y = {};
  if (!forward) b.value = nullptr;
  if (!backward) b.grad_value = nullptr, b.grad_x = {}, b.grad_y = {};
  if (call != Call::alignment) b.alignment = {};
  if (!jvp) b.tangent = {}, b.value_tangent = nullptr, b.grad_tangent = {};
  if (forward && exec.no_state) b.state = nullptr;
  return b;
}

void require_presence(const Problem &problem, const Exec &exec, const Buffers &b, Call call) {
  require_present(b.x.data, "x", call);
  if (problem.fused()) require_present(b.y.data, "y", call);
  if (call == Call::forward) {
    require_present(b.value, "value", call);
    return;
  }
  if (exec.no_state) invalid("exec.flags has SDTW_NO_STATE: %s needs the state of a forward call", name_of(call));
  require_present(b.state, "state", call);
  if (call == Call::alignment) require_present(b.alignment.data, "alignment", call);
  if (call == Call::jvp) {
    require_present(b.tangent.data, "tangent", call);
    require_present(b.value_tangent, "value_tangent", call);
  }
  if (call == Call::backward && !problem.fused()) {
    require_present(b.grad_x.data, "grad_x", call);
    if (b.grad_y.data) invalid("buffers.grad_y is %p: with SDTW_PRECOMPUTED it must be NULL", b.grad_y.data);
  }
  if (call == Call::backward && !b.grad_x.data && !b.grad_y.data)
    invalid("buffers.grad_x and buffers.grad_y are NULL: sdtw_backward needs one of them");
}

void require_sound(const Problem &p, const Buffers &b, Call call) {
  struct Shape {
    int64_t size[3];
  };
  const Shape pairs{{p.batch, p.n, p.m}};
  const Shape x = p.fused() ? Shape{{p.batch_x, p.n, p.features}} : pairs;
  const Shape y{{p.batch_y, p.m, p.features}};

  Arrays arrays;
  const auto add_strided = [&](const char *name, const void *data, const int64_t(&stride)[3], const Shape &shape,
                               bool written) {
    arrays.add({name,
                data,
                {shape.size[0], shape.size[1], shape.size[2]},
                {stride[0], stride[1], stride[2]},
                p.element_size(),
                p.element_size(),
                written,
                0,
                0});
  };
  const auto add_vector = [&](const char *name, const void *data, int64_t count, size_t element, bool written) {
    arrays.add({name, data, {count, 1, 1}, {1, 0, 0}, element, element, written});
  };
  const auto add_bytes = [&](const char *name, const void *data, size_t bytes, bool written) {
    if (bytes > PTRDIFF_MAX) invalid("buffers.%s_bytes is %zu: it must fit the address space", name, bytes);
    if (bytes > 0)
      arrays.add({name, data, {static_cast<int64_t>(bytes), 1, 1}, {1, 0, 0}, 1, SDTW_BUFFER_ALIGNMENT, written});
  };

  const size_t length_size = static_cast<size_t>(p.length_bits) / 8;
  add_strided("x", b.x.data, b.x.stride, x, false);
  add_strided("y", b.y.data, b.y.stride, y, false);
  add_vector("x_len", b.x_len, p.fused() ? p.batch_x : p.batch, length_size, false);
  add_vector("y_len", b.y_len, p.fused() ? p.batch_y : p.batch, length_size, false);
  add_vector("value", b.value, p.batch, p.value_size(), true);
  add_vector("grad_value", b.grad_value, p.batch, p.value_size(), false);
  add_strided("grad_x", b.grad_x.data, b.grad_x.stride, x, true);
  add_strided("grad_y", b.grad_y.data, b.grad_y.stride, y, true);
  add_strided("alignment", b.alignment.data, b.alignment.stride, pairs, true);
  add_strided("tangent", b.tangent.data, b.tangent.stride, pairs, false);
  add_vector("value_tangent", b.value_tangent, p.batch, p.value_size(), true);
  add_strided("grad_tangent", b.grad_tangent.data, b.grad_tangent.stride, pairs, true);
  add_bytes("state", b.state, b.state_bytes, call == Call::forward);
  add_bytes("workspace", b.workspace, b.workspace_bytes, true);
  arrays.require_disjoint();
}

}  // namespace

Buffers validate(const Problem &problem, const Exec &exec, const sdtw_buffers *buffers, Call call) {
  require_struct(buffers, "buffers");
  const Buffers used = only_used(problem, exec, *buffers, call);
  if (problem.batch == 0) return used;
  require_presence(problem, exec, used, call);
  require_sound(problem, used, call);
  return used;
}

}  // namespace sdtw
