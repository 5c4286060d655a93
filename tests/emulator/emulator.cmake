# The CUDA backend compiled as C++, on the emulator: `sources` are its files. Fused multiply-adds as nvcc makes them; little
# optimisation (under sanitizers that of theirs) and no more debug information than lines, since it takes minutes to
# compile and saves nothing where most of the time goes into switching fibers.
set(emulated ${PROJECT_SOURCE_DIR}/tests/emulator)
set(fused)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(fused "-mfma") # elsewhere the baseline has them
endif()
set(optimised -O1 -g1)
if(SDTW_SANITIZE)
  set(optimised)
endif()
set(sanitized)
if(SDTW_SANITIZE MATCHES undefined) # kernels have addresses in arrays that a call has not got, and do not use them
  set(sanitized "-fno-sanitize=pointer-overflow")
endif()
if(SDTW_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Accesses are checked by calls, not by code of their own: to compile them takes two thirds of the time.
  list(APPEND sanitized --param=asan-instrumentation-with-call-threshold=0)
endif()
# Exponents wrap around in lanes whose pair another kernel computes, of which nothing is used.
set_source_files_properties(${sources} TARGET_DIRECTORY sdtw_objects PROPERTIES
  LANGUAGE CXX
  COMPILE_OPTIONS "-xc++;-iquote${emulated};-isystem${emulated}/include;-include;${emulated}/include/cuda_runtime.h;${optimised};${fused};-ffp-contract=fast;-w;${sanitized};-fno-sanitize=signed-integer-overflow"
  COMPILE_DEFINITIONS "SDTW_CUDA_COUNTED_BARRIERS;SDTW_CUDA_BUILD=\"emulated\"")
target_sources(sdtw_objects PRIVATE ${emulated}/emulator.cpp)
