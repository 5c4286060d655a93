// One FFI call in the terms of sdtw.h: operands, attributes and results of a handler, checked and decoded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "core.h"
#include "sdtw.h"
#include "xla/ffi/api/ffi.h"

namespace sdtw_jax {

namespace ffi = xla::ffi;

// What every handler is given. Absent arrays have no elements: y of metric "precomputed", lengths that are not given.
struct Operands {
  ffi::AnyBuffer x;         // [B, n, features], or the cost [B, n, m]
  ffi::AnyBuffer y;         // [B, m, features], or [0]
  ffi::AnyBuffer x_len;     // [B], or [0]
  ffi::AnyBuffer y_len;     // likewise
  ffi::AnyBuffer gamma;     // read by the handlers of the CPU alone: see GammaOperand
  ffi::Dictionary options;  // fields of sdtw_problem by their names, with _0, _1 and _2 behind those of steps
};

// A failure on its way to XLA, which raises it in the program's caller.
class Failure {
 public:
  explicit Failure(std::string message) : message_(std::move(message)) {}
  ffi::Error error() const { return ffi::Error(ffi::ErrorCode::kInvalidArgument, message_); }

 private:
  std::string message_;
};

// Throws what a status says.
void check(sdtw_status status);

// The problem of all pairs. gamma is the option's, for handlers that do not read the operand.
sdtw_problem make_problem(const Operands &operands);

// gamma of pair after pair: one number for all, as float32 or float64; one for each pair; or the bits of one float64 in
// two uint32, so that a number of Python loses none of them where JAX has no float64.
class GammaOperand {
 public:
  GammaOperand(const ffi::AnyBuffer &gamma, int64_t pairs);
  bool is_one() const { return one_; }
  double operator[](int64_t pair) const;

 private:
  const ffi::AnyBuffer &gamma_;
  bool one_;
};

// Arrays of a call, all of them contiguous, from pair `first` on.
class Arrays {
 public:
  Arrays(const Operands &operands, const sdtw_problem &problem, int64_t first);

  // Of shape [B, rows, columns] and of the problem's type; null if it has no elements.
  sdtw_in in(const ffi::AnyBuffer &array) const;
  sdtw_out out(const ffi::AnyBuffer &array) const;
  void *values(const ffi::AnyBuffer &array) const;  // [B], as sdtw_buffers.value
  sdtw_buffers inputs() const;

 private:
  template <class View>
  View view(const ffi::AnyBuffer &array) const;
  const void *lengths(const ffi::AnyBuffer &array) const;

  const Operands &operands_;
  size_t element_, value_, length_;
  int64_t first_;
};

}  // namespace sdtw_jax
