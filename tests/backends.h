// Which backends and instruction sets there are to test, and the options of the test program.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "sdtw.h"

namespace test {

struct Options {
  sdtw_device device = SDTW_CPU;
  bool table = false;  // print measured errors
};

// What --device names; the program ends at anything else.
inline sdtw_device device_called(const std::string &name) {
  if (name == "cpu") return SDTW_CPU;
  if (name == "cuda") return SDTW_CUDA;
  std::fprintf(stderr, "--device is cpu or cuda, not %s\n", name.c_str());
  std::exit(2);
}

inline Options &options() {
  static Options instance;
  return instance;
}

struct Backend {
  const char *name;
  sdtw_device device;
  sdtw_cpu_isa isa;
};

// Every backend of the chosen device, whether or not this machine can run it.
inline std::vector<Backend> all_backends() {
  if (options().device == SDTW_CUDA) return {{"cuda", SDTW_CUDA, SDTW_CPU_ISA_AUTO}};
  return {{"baseline", SDTW_CPU, SDTW_CPU_ISA_BASELINE},
          {"avx2", SDTW_CPU, SDTW_CPU_ISA_AVX2},
          {"avx512", SDTW_CPU, SDTW_CPU_ISA_AVX512},
          {"neon", SDTW_CPU, SDTW_CPU_ISA_NEON}};
}

// What the processor itself says: a library that refused an instruction set which is there must not pass for a skip.
inline bool processor_has(sdtw_cpu_isa isa) {
#if defined(__x86_64__)
  if (isa == SDTW_CPU_ISA_AVX2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == SDTW_CPU_ISA_AVX512)
    return processor_has(SDTW_CPU_ISA_AVX2) && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq");
  return isa != SDTW_CPU_ISA_NEON;
#elif defined(__aarch64__)
  return isa == SDTW_CPU_ISA_BASELINE || isa == SDTW_CPU_ISA_NEON;
#else
  return isa == SDTW_CPU_ISA_BASELINE;
#endif
}

inline bool available(const Backend &backend) {
  return backend.device == SDTW_CUDA ? sdtw_device_available(SDTW_CUDA) == SDTW_STATUS_OK : processor_has(backend.isa);
}

inline std::vector<Backend> backends() {
  std::vector<Backend> result;
  for (const Backend &backend : all_backends())
    if (available(backend)) result.push_back(backend);
  return result;
}

}  // namespace test
