// What libFuzzer calls, and what the random driver calls in its place.
#include <cstdio>
#include <cstdlib>

#include "backends.h"
#include "fuzz.h"

void test::fuzz_one(const uint8_t *data, size_t size) {
  Bytes bytes(data, size);
  const uint8_t kind = bytes.byte();
  if (kind < 140 || options().device == SDTW_CUDA)  // hostile calls are made with the host's memory
    fuzz_valid(bytes);
  else if (kind < 220)
    fuzz_hostile(bytes);
  else if (kind < 250)
    fuzz_family(bytes);
  else
    fuzz_library(bytes);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  try {
    test::fuzz_one(data, size);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "FAILED: %s\n", error.what());
    std::abort();
  }
  return 0;
}
