// The caller's structs, validated once: what is behind a Problem or a Buffers is trusted from there on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/pairs.h"
#include "error.h"
#include "sdtw.h"

namespace sdtw {

// Of n, m and features, on either backend: indices of a pair, and sums of two of them, fit 32 bits.
constexpr int64_t largest_size = (int64_t{1} << 30) - 1;

// Of a gamma other than 0: costs of float32 inputs, of as many features as there may be, are below
// core::largest_wide_cost in units of gamma / log2(e).
constexpr double least_gamma = 1e-200;

// A validated sdtw_problem. Sizes are positive (or batch is 0), and their products small enough that
// 8-byte elements fit the address space.
struct Problem {
  sdtw_metric metric;
  sdtw_dtype dtype;
  bool all_pairs, symmetric;
  int64_t batch_x, batch_y;
  int64_t batch;  // pairs
  int64_t n, m;
  int64_t features;  // 0 for SDTW_PRECOMPUTED
  double gamma;
  sdtw_band band;
  double band_radius;
  double step_weight[3], step_penalty[3];
  int32_t length_bits;

  bool fused() const { return metric != SDTW_PRECOMPUTED; }
  bool has_y() const { return fused() && !symmetric; }  // whether buffers.y is read
  // What the core kernels compute: everything else is the general ones'. Given costs are of pairs, all or not.
  bool is_core() const {
    const bool is_batch = !all_pairs || (!fused() && !symmetric);
    return (metric == SDTW_PRECOMPUTED || metric == SDTW_SQEUCLIDEAN) && (dtype == SDTW_F32 || dtype == SDTW_F64) &&
           gamma > 0 && band == SDTW_BAND_NONE && has_unit_steps() && is_batch;
  }
  bool has_unit_steps() const {
    for (int k = 0; k < 3; k++)
      if (step_weight[k] != 1 || step_penalty[k] != 0) return false;
    return true;
  }
  size_t element_size() const { return dtype == SDTW_F64 ? 8 : dtype == SDTW_F32 ? 4 : 2; }
  size_t value_size() const { return dtype == SDTW_F64 ? 8 : 4; }
};

// A validated sdtw_exec.
struct Exec {
  sdtw_device device;
  bool no_state;
  bool with_value;      // of calls that compute forward themselves
  int32_t num_threads;  // as given: 0 is OpenMP's default
  sdtw_cpu_isa cpu_isa;
  struct CUstream_st *stream;
};

// The sdtw_buffers of one call. Absent arrays are null. validate has checked presence, alignment, strides and overlap
// for the call at hand; only what that call uses may be looked at.
using Buffers = sdtw_buffers;

enum class Call { forward, backward, alignment, jvp };

inline void require_pointer(const void *pointer, const char *name) {
  if (!pointer) invalid("%s is NULL: it must not be", name);
}

// Structs grow at their ends, so that a struct's size says which version its caller was compiled with. Each has had one
// version so far.
template <class Struct>
void require_struct_size(size_t size, const char *name) {
  if (size != sizeof(Struct))
    fail(SDTW_STATUS_INVALID_STRUCT, "%s.struct_size is %zu: it must be %zu, as sdtw_%s_init sets it", name, size,
         sizeof(Struct), name);
}

template <class Struct>
void require_struct(const Struct *object, const char *name) {
  require_pointer(object, name);
  require_struct_size<Struct>(object->struct_size, name);
}

void require_device_name(sdtw_device device, const char *field);
const char *isa_name(sdtw_cpu_isa isa);  // of a valid one

// Each throws SDTW_STATUS_INVALID_ARGUMENT or SDTW_STATUS_INVALID_STRUCT.
Problem validate(const sdtw_problem *problem);
Exec validate(const sdtw_exec *exec);

// Checks everything about buffers that the call `call` needs, but for the sizes of state and workspace, which only a
// plan knows. Returns a copy.
Buffers validate(const Problem &problem, const Exec &exec, const sdtw_buffers *buffers, Call call);

// The problem with x and y, and so rows and columns, in each other's places; and its arrays.
Problem transpose(const Problem &problem);
Buffers transpose(const Problem &problem, const Buffers &buffers);

}  // namespace sdtw
