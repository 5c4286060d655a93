// One computation through the C API, whatever the backend: a Case goes in, a Result comes out.
//
// Every buffer is guarded, outputs, state and workspace are poisoned before each call, and the harness throws when a
// call fails, writes where it must not, or changes an input. It uses no Catch2 macro, so that threads may call it.
#pragma once

#include <memory>

#include "case.h"
#include "plan.h"

namespace test {

// A backend does not implement what was asked of it.
struct Unsupported : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// As it ends, this thread's limits are again what they were.
struct CudaLimits {
  const sdtw::cuda::Limits usual = sdtw::cuda::limits;
  ~CudaLimits() { sdtw::cuda::limits = usual; }
};

// Throws what a call that has failed says of it; the name is its function's.
void require_ok(sdtw_status status, const char *function);

// The buffers of a Case, and its calls one by one. Refers to the case: exec may change between calls, the rest may not.
// SDTW_WITH_VALUE is for those of its calls that compute forward themselves.
class Session {
 public:
  explicit Session(const Case &c);

  sdtw_buffers &buffers() { return buffers_; }  // for arrays that are not the harness's own

  std::vector<double> forward();

  void backward(Result &result);

  // value: what the call writes of values, if anything.
  std::vector<double> alignment(std::vector<double> *value = nullptr);

  void jvp(Result &result);

 private:
  using Function = decltype(&sdtw_forward);  // what those that compute have in common

  std::unique_ptr<Block> upload_lengths(const std::vector<int64_t> &lengths);

  // A call other than forward; and the values that it writes, if the case asks for them and it computes forward.
  std::vector<double> call_with_value(Function function, const char *name, size_t sdtw_sizes::*bytes);

  void call(Function function, const char *name, size_t sdtw_sizes::*bytes, const sdtw_exec &exec);

  // Rows and columns past a pair's lengths are never read.
  void hide_padding();

  // Backward and alignment only read the state.
  void check_state();

  const Case &case_;
  Memory &memory_;
  sdtw_sizes sizes_{};
  sdtw_buffers buffers_{};
  Array x_, y_, value_, grad_value_;
  std::unique_ptr<Block> x_len_, y_len_, state_;
  std::vector<unsigned char> state_after_forward_;
};

// Forward and whatever else the case wants. Most tests call run (run.h), which looks at alignments, too.
Result compute(const Case &c);

}  // namespace test
