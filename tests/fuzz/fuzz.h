// One execution of the fuzzing harness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "bytes.h"

namespace test {

// Decodes the bytes into a call and makes it. Throws where the library does not do what sdtw.h says.
void fuzz_one(const uint8_t *data, size_t size);

void fuzz_valid(Bytes &bytes);    // valid.cpp: a call that must succeed, and what it computes
void fuzz_hostile(Bytes &bytes);  // hostile.cpp: any call at all
void fuzz_family(Bytes &bytes);   // family.cpp: a random problem of the whole family
void fuzz_library(Bytes &bytes);  // hostile.cpp: the functions that compute nothing

}  // namespace test
