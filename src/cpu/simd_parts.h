// Vectors of two registers, for instruction sets whose registers have 128 bits. A cell waits for the one above it in
// the same vector: with one register a step would wait for that most of the time.
#pragma once

#include <cstring>

#define SDTW_INLINE inline __attribute__((always_inline))

namespace sdtw::cpu {

// Two members rather than an array, which GCC would write to memory in every turn of a loop.
template <class Register>
struct Parts {
  Register low, high;
};

// f of both parts.
template <class F, class First, class... Rest>
SDTW_INLINE auto each(F f, Parts<First> a, Parts<Rest>... rest) {
  return Parts<decltype(f(a.low, rest.low...))>{f(a.low, rest.low...), f(a.high, rest.high...)};
}

// A register from and to memory that may hold numbers of any type.
template <class Register>
SDTW_INLINE Register load_register(const void *p) {
  Register a;
  std::memcpy(&a, p, sizeof a);
  return a;
}
template <class Register>
SDTW_INLINE void store_register(void *p, Register a) {
  std::memcpy(p, &a, sizeof a);
}

}  // namespace sdtw::cpu
