// What sdtw.h says about a call of a World, whatever is broken in it: written on its own, by looking at every byte.
#pragma once

#include <cmath>
#include <set>

#include "array.h"
#include "bad_calls.h"

namespace test {

__extension__ using Wide = __int128;

struct Expected {
  std::set<std::string> wrong;  // the names of which the message must contain one; not empty: the call must be refused
  std::set<sdtw_status> statuses;  // that the refusal may have
  bool may_refuse = false;         // what the library may refuse, or need not
  bool reachable = true;           // all memory that the call uses is the world's own: else it must not be made
  std::vector<unsigned char> used, written;  // if all but overlap is right: bytes of the world's memory

  void refuse(sdtw_status status, const std::string &name) {
    statuses.insert(status);
    wrong.insert(name);
  }
  void invalid(const std::string &name) { refuse(SDTW_STATUS_INVALID_ARGUMENT, name); }
  void may(sdtw_status status) {
    may_refuse = true;
    statuses.insert(status);
  }
};

template <class Struct>
bool expect_struct(Expected &e, const Struct *object, const char *name) {
  if (!object)
    e.invalid(std::string(name) + " is NULL");
  else if (object->struct_size != sizeof(Struct))
    e.refuse(SDTW_STATUS_INVALID_STRUCT, std::string(name) + ".struct_size");
  else
    return true;
  return false;
}

inline bool valid_enum(int32_t value, int32_t count) { return value >= 0 && value < count; }

// Sizes whose product is not far below what the address space holds may be refused, and those above it must be.
inline void expect_product(Expected &e, std::initializer_list<int64_t> sizes) {
  double product = 8;
  for (const int64_t size : sizes) {
    if (size <= 0) return;
    product *= static_cast<double>(size);
  }
  if (product > 1.001 * 0x1p63) e.invalid("problem");
  if (product > 0x1p40) e.may(SDTW_STATUS_INVALID_ARGUMENT);
}

inline void expect_problem(Expected &e, const sdtw_problem &p) {
  const auto bad = [&](bool is_bad, const std::string &name) {
    if (is_bad) e.invalid("problem." + name);
  };
  const bool all_pairs = p.flags & SDTW_ALL_PAIRS, precomputed = p.metric == SDTW_PRECOMPUTED;
  const bool empty = p.batch_x == 0 || (all_pairs && p.batch_y == 0);
  bad(!valid_enum(p.metric, 5), "metric");
  bad(!valid_enum(p.dtype, 4), "dtype");
  bad(p.flags > (SDTW_ALL_PAIRS | SDTW_SYMMETRIC), "flags");
  if (p.flags & SDTW_SYMMETRIC) {
    bad(!all_pairs || precomputed, "flags");
    bad(p.batch_x != p.batch_y, "batch_y");
    bad(p.n != p.m, "m");
    bad(p.step_weight[1] != p.step_weight[2], "step_weight[2]");
    bad(p.step_penalty[1] != p.step_penalty[2], "step_penalty[2]");
  }
  bad(p.batch_x < 0, "batch_x");
  bad(p.batch_y < 0 || (!all_pairs && p.batch_x != p.batch_y), "batch_y");
  const auto is_size = [&](int64_t size) { return size >= !empty && size < int64_t(1) << 30; };
  bad(!is_size(p.n), "n");
  bad(!is_size(p.m), "m");
  bad(precomputed ? p.features != 0 : !is_size(p.features), "features");
  const int64_t batch_y = all_pairs ? p.batch_y : 1;
  expect_product(e, {p.batch_x, batch_y, p.n, p.m});
  expect_product(e, {p.batch_x, batch_y});
  if (!precomputed) {
    expect_product(e, {p.batch_x, p.n, p.features});
    expect_product(e, {p.batch_y, p.m, p.features});
  }
  bad(p.gamma != 0 && !(p.gamma >= 1e-200 && std::isfinite(p.gamma)), "gamma");
  bad(!valid_enum(p.band, 4), "band");
  if (p.band > 0 && p.band < 4)
    bad(!std::isfinite(p.band_radius) || p.band_radius < (p.band == SDTW_BAND_ITAKURA), "band_radius");
  for (int k = 0; k < 3; ++k) {
    bad(!std::isfinite(p.step_weight[k]) || p.step_weight[k] < 0, "step_weight[" + std::to_string(k) + "]");
    bad(!std::isfinite(p.step_penalty[k]), "step_penalty[" + std::to_string(k) + "]");
  }
  bad(p.length_bits != 32 && p.length_bits != 64, "length_bits");
  bad(p.reserved != 0, "reserved");
}

inline void expect_exec(Expected &e, const sdtw_exec &exec) {
  if (!valid_enum(exec.device, 2)) e.invalid("exec.device");
  if (exec.flags > (SDTW_DETERMINISTIC | SDTW_NO_STATE | SDTW_WITH_VALUE)) e.invalid("exec.flags");
  if (exec.num_threads < 0 || exec.num_threads > 4096) e.invalid("exec.num_threads");
  if (!valid_enum(exec.cpu_isa, 5)) e.invalid("exec.cpu_isa");
}

// Valid, but not on this machine.
inline bool expect_unsupported(Expected &e, const sdtw_exec &exec, Function function) {
  if (exec.device == SDTW_CPU && !processor_has(exec.cpu_isa ? exec.cpu_isa : sdtw_cpu_isa(SDTW_CPU_ISA_BASELINE)))
    e.refuse(SDTW_STATUS_UNSUPPORTED, "exec.cpu_isa");
  if (exec.device == SDTW_CUDA && (function & computing)) {
    // Whether there is a GPU is asked last; where there is one, the world's memory is none of its own.
    e.reachable = sdtw_device_available(SDTW_CUDA) != SDTW_STATUS_OK;
    e.statuses.insert({SDTW_STATUS_NOT_BUILT, SDTW_STATUS_NO_DEVICE});
    e.wrong.insert({"CUDA", "GPU", "driver", "device"});
  }
  if (!e.wrong.empty() && (function & computing)) {  // buffers may be wrong, too, and are looked at first
    e.wrong.insert("buffers");
    e.statuses.insert({SDTW_STATUS_INVALID_ARGUMENT, SDTW_STATUS_BUFFER_TOO_SMALL});
  }
  return !e.wrong.empty();
}

// One array that a call uses, as sdtw.h describes it.
struct Used {
  const char *name;
  const void *data;
  std::array<int64_t, 3> shape;
  std::array<int64_t, 3> stride;
  int64_t element;
  uintptr_t alignment;
  bool written;
};

// Whether each of an output's dimensions, sorted by stride, steps past all that the smaller ones reach.
inline bool elements_are_distinct(const Used &a) {
  std::vector<std::pair<Wide, Wide>> steps;  // stride, elements beyond the first
  for (int k = 0; k < 3; ++k)
    if (a.shape[k] > 1) steps.emplace_back(a.stride[k] < 0 ? -Wide(a.stride[k]) : a.stride[k], a.shape[k] - 1);
  std::sort(steps.begin(), steps.end());
  Wide reach = 0;
  for (const auto &[stride, count] : steps) {
    if (stride <= reach) return false;
    reach += stride * count;
  }
  return true;
}

// What is wrong with the arrays, on their own and together.
inline void expect_arrays(Expected &e, const World &w, const std::vector<Used> &arrays) {
  const auto base = reinterpret_cast<uintptr_t>(w.memory.data());
  std::vector<std::pair<Wide, Wide>> extents;
  bool near = false;  // in each other's gaps, or overlapping
  for (const Used &a : arrays) {
    const auto address = reinterpret_cast<uintptr_t>(a.data);
    if (address % a.alignment) e.invalid(a.name);
    Wide low = address, high = address;
    for (int k = 0; k < 3; ++k) (a.stride[k] < 0 ? low : high) += Wide(a.shape[k] - 1) * a.stride[k] * a.element;
    high += a.element;
    if (low < 0 || high > Wide(UINTPTR_MAX) || high - low > PTRDIFF_MAX) e.invalid(a.name);
    if (a.written && !elements_are_distinct(a)) e.invalid(a.name);
    if (low < base || high > base + w.memory.size()) e.reachable = false;
    for (size_t k = 0; k < extents.size(); ++k)
      near |= (a.written || arrays[k].written) && low < extents[k].second && extents[k].first < high;
    extents.emplace_back(low, high);
  }
  if (!e.reachable || !e.wrong.empty()) {
    if (near) e.may(SDTW_STATUS_INVALID_ARGUMENT);  // not marked below: an overlap may be found before what is wrong
    return;
  }
  e.used.assign(w.memory.size(), 0);
  e.written.assign(w.memory.size(), 0);
  bool overlap = false;
  unsigned char id = 0;  // in used: of the array that has the byte, the last written one if there are more
  for (const Used &a : arrays) {
    ++id;
    const int64_t start = static_cast<int64_t>(reinterpret_cast<uintptr_t>(a.data) - base);
    const auto mark = [&](int64_t from, int64_t to) {
      for (int64_t byte = from; byte < to; ++byte) {
        overlap |= e.used[byte] != 0 && e.used[byte] != id && (a.written || e.written[byte]);
        if (!e.written[byte]) e.used[byte] = id;
        e.written[byte] |= a.written;
      }
    };
    if (a.element == 1) {
      mark(start, start + a.shape[0]);
      continue;
    }
    for (int64_t i = 0; i < a.shape[0]; ++i)
      for (int64_t j = 0; j < a.shape[1]; ++j)
        for (int64_t k = 0; k < a.shape[2]; ++k) {
          const int64_t at = start + (i * a.stride[0] + j * a.stride[1] + k * a.stride[2]) * a.element;
          mark(at, at + a.element);
        }
  }
  if (overlap) e.invalid("overlaps");
}

// The arrays of one call: what it uses, and whether they are there.
class CallArrays {
 public:
  CallArrays(Expected &e, const World &w, Function function)
      : e_(e), p_(w.problem), b_(w.buffers), flags_(w.exec.flags) {
    const bool all_pairs = p_.flags & SDTW_ALL_PAIRS;
    batch_ = all_pairs ? p_.batch_x * p_.batch_y : p_.batch_x;
    series(function);
    vectors(function);
    outputs(function);
  }
  std::vector<Used> used;

 private:
  void strided(const char *name, const void *data, const int64_t (&stride)[3], std::array<int64_t, 3> shape,
               bool needed, bool out) {
    if (data)
      used.push_back({name, data, shape, {stride[0], stride[1], stride[2]}, element_, uintptr_t(element_), out});
    else if (needed)
      e_.invalid(name);
  }
  void vector(const char *name, const void *data, int64_t count, int64_t size, bool needed, bool out) {
    if (data)
      used.push_back({name, data, {count, 1, 1}, {1, 0, 0}, size, uintptr_t(size), out});
    else if (needed)
      e_.invalid(name);
  }
  template <class Array>
  void like_x(const char *name, const Array &array, bool needed, bool out) {
    strided(name, array.data, array.stride, {fused_ ? p_.batch_x : batch_, p_.n, fused_ ? p_.features : p_.m}, needed,
            out);
  }
  template <class Array>
  void like_y(const char *name, const Array &array, bool needed, bool out) {
    strided(name, array.data, array.stride, {p_.batch_y, p_.m, p_.features}, needed, out);
  }

  void series(Function function) {
    like_x("buffers.x", b_.x, true, false);
    if (two_) like_y("buffers.y", b_.y, true, false);
    if (function != jvp) return;
    like_x("buffers.tangent_x", b_.tangent_x, !two_ || !b_.tangent_y.data, false);
    if (two_) like_y("buffers.tangent_y", b_.tangent_y, false, false);
  }

  void vectors(Function function) {
    const int64_t length = p_.length_bits / 8, value = p_.dtype == SDTW_F64 ? 8 : 4;
    vector("buffers.x_len", b_.x_len, fused_ ? p_.batch_x : batch_, length, false, false);
    if (!symmetric_) vector("buffers.y_len", b_.y_len, fused_ ? p_.batch_y : batch_, length, false, false);
    const bool reads_state = (function & with_state) && b_.state && !(flags_ & SDTW_NO_STATE);
    const bool with_value = flags_ & SDTW_WITH_VALUE;
    if (function == forward || (with_value && !reads_state))
      vector("buffers.value", b_.value, batch_, value, true, true);
    else if (with_value)
      e_.invalid("exec.flags");
    if (function == backward || function == jvp)
      vector("buffers.grad_value", b_.grad_value, batch_, value, false, false);
    if (function == jvp) vector("buffers.value_tangent", b_.value_tangent, batch_, value, false, true);
  }

  void outputs(Function function) {
    if (function == alignment)
      strided("buffers.alignment", b_.alignment.data, b_.alignment.stride, {batch_, p_.n, p_.m}, true, true);
    if (function != backward && function != jvp) return;
    const bool of_tangents = function == jvp;
    const sdtw_out &x = of_tangents ? b_.grad_x_tangent : b_.grad_x, &y = of_tangents ? b_.grad_y_tangent : b_.grad_y;
    const char *const name_x = of_tangents ? "buffers.grad_x_tangent" : "buffers.grad_x";
    const char *const name_y = of_tangents ? "buffers.grad_y_tangent" : "buffers.grad_y";
    like_x(name_x, x, !of_tangents && (!two_ || !y.data), true);
    if (two_)
      like_y(name_y, y, false, true);
    else if (!fused_ && y.data)
      e_.invalid(name_y);
    if (of_tangents && !b_.value_tangent && !x.data && (symmetric_ || !y.data)) e_.invalid("buffers.value_tangent");
  }

  Expected &e_;
  const sdtw_problem &p_;
  const sdtw_buffers &b_;
  const uint32_t flags_;
  const bool fused_ = p_.metric != SDTW_PRECOMPUTED, symmetric_ = p_.flags & SDTW_SYMMETRIC;
  const bool two_ = fused_ && !symmetric_;
  const int64_t element_ = p_.dtype == SDTW_F64 ? 8 : p_.dtype == SDTW_F32 ? 4 : 2;
  int64_t batch_;
};

inline void expect_buffers(Expected &e, const World &w, Function function, bool state_is_whole) {
  const sdtw_buffers &b = w.buffers;
  std::vector<Used> arrays = CallArrays(e, w, function).used;

  sdtw_exec exec = w.exec;
  const bool with = function != jvp && b.state && !(exec.flags & SDTW_NO_STATE);
  if (!with) exec.flags |= SDTW_NO_STATE;
  sdtw_sizes sizes;
  sdtw_sizes_init(&sizes, sizeof sizes);
  const sdtw_status sized = sdtw_get_sizes(&w.problem, &exec, &sizes);
  // The problem is too large: expect_problem says whether it may be. Or the backend has not got it.
  if (sized == SDTW_STATUS_INVALID_ARGUMENT) e.invalid("");
  if (sized == SDTW_STATUS_UNSUPPORTED) e.refuse(sized, "");
  const size_t needed = function == forward     ? sizes.forward
                        : function == backward  ? sizes.backward
                        : function == alignment ? sizes.alignment
                                                : sizes.jvp;
  const auto room = [&](const char *name, const void *data, size_t bytes, size_t least, bool out) {
    if (data && bytes > PTRDIFF_MAX) e.invalid(name);
    if (bytes < least) e.refuse(SDTW_STATUS_BUFFER_TOO_SMALL, std::string(name) + "_bytes");
    if (!data && least > 0) e.invalid(name);
    if (data && bytes > 0 && bytes <= PTRDIFF_MAX)
      arrays.push_back({name, data, {int64_t(bytes), 1, 1}, {1, 0, 0}, 1, SDTW_BUFFER_ALIGNMENT, out});
  };
  if (with) room("buffers.state", b.state, b.state_bytes, sizes.state, function == forward);
  room("buffers.workspace", b.workspace, b.workspace_bytes, needed, true);
  expect_arrays(e, w, arrays);
  // What a state is of, is learnt by reading it.
  if (with && function != forward && !state_is_whole && (e.reachable || !e.wrong.empty())) e.invalid("buffers.state");
}

// state_is_whole: the state is of a forward call with the same problem.
inline Expected expect(const World &w, Function function, bool state_is_whole) {
  Expected e;
  const bool with_problem = expect_struct(e, w.problem_argument, "problem");
  const bool with_exec = expect_struct(e, w.exec_argument, "exec");
  if (with_problem) expect_problem(e, w.problem);
  if (with_exec) expect_exec(e, w.exec);
  if (function & computing) expect_struct(e, w.buffers_argument, "buffers");
  if (function == get_sizes) expect_struct(e, w.sizes_argument, "sizes");
  if (function == describe_plan) {
    if (!w.text_argument) e.invalid("text is NULL");
    if (w.capacity == 0) e.invalid("capacity");
  }
  if (!e.wrong.empty()) return e;
  const bool empty = w.problem.batch_x == 0 || w.problem.batch_y == 0;
  if (empty) return e;
  if (expect_unsupported(e, w.exec, function)) return e;
  if (function & computing) expect_buffers(e, w, function, state_is_whole);
  return e;
}

}  // namespace test
