// Validates sdtw_buffers for one call: presence, alignment, extents and overlap of every array that the call uses.
#include <algorithm>
#include <cinttypes>
#include <cstdlib>

#include "overlap.h"
#include "problem.h"

namespace sdtw {
namespace {

// One array of a call.
struct Array {
  const char *name;
  const void *data;
  int64_t shape[3];  // trailing dimensions that it does not have are 1
  int64_t stride[3];
  size_t element;
  size_t alignment;
  bool written;
  Extent extent = {};  // set by Arrays: strides from small to large
};

// The arrays of one call. Each is checked on its own as it is added, then all of them against each other.
class Arrays {
 public:
  void add(Array array) {
    if (!array.data) return;
    require_alignment(array);
    array.extent.element = array.element;
    locate(array);
    sort_strides(array);
    if (array.written) require_distinct_elements(array);
    arrays_[count_++] = array;
  }

  void require_disjoint() const {
    for (int i = 0; i < count_; i++)
      for (int j = 0; j < i; j++) {
        const Array &a = arrays_[i], &b = arrays_[j];
        if ((a.written || b.written) && Overlap::exists(a.extent, b.extent))
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

  // Sets the extent's beginning and end.
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
           !__builtin_add_overflow(data, low, &a.extent.begin) && !__builtin_add_overflow(data, high, &a.extent.end) &&
           a.extent.end - a.extent.begin <= PTRDIFF_MAX;
    if (!fits) invalid_strides(a, "it must lie within the address space");
  }

  // Sets the extent's strides.
  static void sort_strides(Array &a) {
    Stride(&strides)[3] = a.extent.strides;
    for (int k = 0; k < 3; k++)
      if (a.shape[k] > 1)
        strides[k] = {static_cast<uintptr_t>(std::llabs(a.stride[k])) * a.element,
                      static_cast<uintptr_t>(a.shape[k] - 1)};
    std::sort(strides, strides + 3, [](const Stride &s, const Stride &t) { return s.bytes < t.bytes; });
  }

  // Each stride must lead past all that the smaller ones reach.
  static void require_distinct_elements(const Array &a) {
    uintptr_t reached = a.element;
    for (const Stride &stride : a.extent.strides) {
      if (stride.count > 0 && stride.bytes < reached)
        invalid_strides(a, "elements of an output must not share an address");
      reached += stride.bytes * stride.count;
    }
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

// Whether the call writes values.
bool has_value(const Exec &exec, const sdtw_buffers &b, Call call) {
  const bool recomputes = call == Call::jvp || exec.no_state || !b.state;
  return call == Call::forward || (exec.with_value && recomputes);
}

// What the call does not use is absent from there on.
Buffers only_used(const Problem &problem, const Exec &exec, const sdtw_buffers &given, Call call) {
  Buffers b = given;
  const bool backward = call == Call::backward, jvp = call == Call::jvp;
  if (!problem.has_y()) b.y = {}, b.tangent_y = {};
  if (problem.symmetric) b.y_len = nullptr, b.grad_y = {}, b.grad_y_tangent = {};
  if (!has_value(exec, given, call)) b.value = nullptr;
  if (!backward) b.grad_x = {}, b.grad_y = {};
  if (!backward && !jvp) b.grad_value = nullptr;
  if (call != Call::alignment) b.alignment = {};
  if (!jvp) b.tangent_x = b.tangent_y = {}, b.value_tangent = nullptr, b.grad_x_tangent = b.grad_y_tangent = {};
  if (jvp || exec.no_state) b.state = nullptr;
  return b;
}

void require_presence(const Problem &problem, const Exec &exec, const Buffers &b, Call call) {
  require_present(b.x.data, "x", call);
  if (problem.has_y()) require_present(b.y.data, "y", call);
  if (has_value(exec, b, call))
    require_present(b.value, "value", call);
  else if (exec.with_value)
    invalid(
        "exec.flags has SDTW_WITH_VALUE, but buffers.state is %p: %s writes values where it computes them, without "
        "state (SDTW_NO_STATE, or buffers.state NULL)",
        b.state, name_of(call));
  if (call == Call::alignment) require_present(b.alignment.data, "alignment", call);
  const bool one_series = !problem.has_y();
  if (call == Call::jvp) {
    if (!problem.fused()) {
      require_present(b.tangent_x.data, "tangent_x", call);
      if (b.grad_y_tangent.data)
        invalid("buffers.grad_y_tangent is %p: with SDTW_PRECOMPUTED it must be NULL", b.grad_y_tangent.data);
    }
    if (!b.tangent_x.data && !b.tangent_y.data)
      invalid("buffers.tangent_x%s NULL: sdtw_jvp needs %s", one_series ? " is" : " and buffers.tangent_y are",
              one_series ? "it" : "one of them");
    if (!b.value_tangent && !b.grad_x_tangent.data && !b.grad_y_tangent.data)
      invalid("buffers.value_tangent%s are NULL: sdtw_jvp needs one of them",
              one_series ? " and grad_x_tangent" : ", grad_x_tangent and grad_y_tangent");
  }
  if (call == Call::backward && !problem.fused()) {
    require_present(b.grad_x.data, "grad_x", call);
    if (b.grad_y.data) invalid("buffers.grad_y is %p: with SDTW_PRECOMPUTED it must be NULL", b.grad_y.data);
  }
  if (call == Call::backward && !b.grad_x.data && !b.grad_y.data)
    invalid(one_series ? "buffers.grad_x is NULL: sdtw_backward needs it"
                       : "buffers.grad_x and buffers.grad_y are NULL: sdtw_backward needs one of them");
}

struct Shape {
  int64_t size[3];
};
struct Shapes {
  Shape pairs, x, y;
  explicit Shapes(const Problem &p)
      : pairs{{p.batch, p.n, p.m}},
        x(p.fused() ? Shape{{p.batch_x, p.n, p.features}} : pairs),
        y{{p.batch_y, p.m, p.features}} {}
};

// The stride of a dimension of one element means nothing and may be anything: from here on it is as if the array were
// contiguous, so that nobody overflows by multiplying it.
void settle_strides(const Shapes &shapes, Buffers &b) {
  const auto settle = [](int64_t(&stride)[3], const Shape &shape) {
    const auto &size = shape.size;
    const int64_t contiguous[3] = {size[1] * size[2], size[2], 1};
    for (int k = 0; k < 3; k++)
      if (size[k] == 1) stride[k] = contiguous[k];
  };
  settle(b.x.stride, shapes.x);
  settle(b.y.stride, shapes.y);
  settle(b.grad_x.stride, shapes.x);
  settle(b.grad_y.stride, shapes.y);
  settle(b.alignment.stride, shapes.pairs);
  settle(b.tangent_x.stride, shapes.x);
  settle(b.tangent_y.stride, shapes.y);
  settle(b.grad_x_tangent.stride, shapes.x);
  settle(b.grad_y_tangent.stride, shapes.y);
}

void require_sound(const Problem &p, const Shapes &shapes, const Buffers &b, Call call) {
  const auto &[pairs, x, y] = shapes;

  Arrays arrays;
  const auto add_strided = [&](const char *name, const void *data, const int64_t(&stride)[3], const Shape &shape,
                               bool written) {
    arrays.add({name,
                data,
                {shape.size[0], shape.size[1], shape.size[2]},
                {stride[0], stride[1], stride[2]},
                p.element_size(),
                p.element_size(),
                written});
  };
  const auto add_vector = [&](const char *name, const void *data, int64_t count, size_t element, bool written) {
    arrays.add({name, data, {count, 1, 1}, {1, 0, 0}, element, element, written});
  };
  const auto add_bytes = [&](const char *name, const void *data, size_t bytes, bool written) {
    if (data == nullptr) return;
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
  add_strided("tangent_x", b.tangent_x.data, b.tangent_x.stride, x, false);
  add_strided("tangent_y", b.tangent_y.data, b.tangent_y.stride, y, false);
  add_vector("value_tangent", b.value_tangent, p.batch, p.value_size(), true);
  add_strided("grad_x_tangent", b.grad_x_tangent.data, b.grad_x_tangent.stride, x, true);
  add_strided("grad_y_tangent", b.grad_y_tangent.data, b.grad_y_tangent.stride, y, true);
  add_bytes("state", b.state, b.state_bytes, call == Call::forward);
  add_bytes("workspace", b.workspace, b.workspace_bytes, true);
  arrays.require_disjoint();
}

}  // namespace

Buffers validate(const Problem &problem, const Exec &exec, const sdtw_buffers *buffers, Call call) {
  require_struct(buffers, "buffers");
  Buffers used = only_used(problem, exec, *buffers, call);
  if (problem.batch == 0) return used;
  const Shapes shapes(problem);
  settle_strides(shapes, used);
  require_presence(problem, exec, used, call);
  require_sound(problem, shapes, used, call);
  return used;
}

}  // namespace sdtw
