# The CPU kernels: one translation unit per instruction set, each with its own flags, all in one binary. The rest of
# the library is compiled for the baseline and learns from SDTW_HAVE_AVX2, SDTW_HAVE_AVX512 and SDTW_HAVE_NEON which of
# them exist.
include(CheckCXXCompilerFlag)

# Results may not depend on the optimiser's taste: no contraction, no reassociation. What is switched off is only what
# keeps loops from being vectorised: errno and floating-point traps.
set(SDTW_KERNEL_FLAGS -ffp-contract=off -fno-math-errno -fno-trapping-math)
if(NOT SDTW_SANITIZE)
  list(APPEND SDTW_KERNEL_FLAGS $<$<NOT:$<CONFIG:Debug>>:-O3>)
elseif(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Tests of them take a quarter less than with the -Og of all else, and to compile them takes no longer. To watch the
  # scopes of what is inlined, every operation of a vector, would take as long again; preset fuzz, of clang, does so.
  list(APPEND SDTW_KERNEL_FLAGS -O1 -fno-sanitize-address-use-after-scope)
  # GCC bug 110027: where GCC 13 watches what outlives its function it does not align vectors of 512 bits.
  list(APPEND SDTW_KERNEL_FLAGS --param=asan-use-after-return=0)
  if(SDTW_SANITIZE MATCHES undefined) # a third of the time that they take to compile; preset fuzz, of clang, has it
    list(APPEND SDTW_KERNEL_FLAGS -fno-sanitize=alignment)
  endif()
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 carries what a step has stored over to the next one although another store of the same step, half a vector
  # further on, has changed it: in the baseline's gradients of y of float64 one column of 64 was wrong. GCC 13 does not.
  list(APPEND SDTW_KERNEL_FLAGS -fno-predictive-commoning)
endif()
# Vectors that the instruction set does not have are passed between inline functions of one file only.
list(APPEND SDTW_KERNEL_FLAGS -Wno-psabi)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC bug 105593: warnings about its own AVX-512 header.
  list(APPEND SDTW_KERNEL_FLAGS -Wno-uninitialized -Wno-maybe-uninitialized)
endif()
set(SDTW_AVX2_FLAGS -mavx2 -mfma -mf16c)
set(SDTW_AVX512_FLAGS -mavx512f -mavx512vl -mavx512bw -mavx512dq -mfma -mf16c -mprefer-vector-width=512)
# GCC 12 takes a vector in an array of structs to be another object than the same vector in memory, and moves its loads
# out of loops that change it: at gamma = 0 most values were infinite. Instruction counts are the same without.
set(SDTW_NEON_FLAGS -fno-strict-aliasing)

function(sdtw_add_cpu_kernel target isa)
  set(source src/cpu/kernels_${isa}.cpp)
  set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS ${SDTW_KERNEL_FLAGS} ${ARGN})
  target_sources(${target} PRIVATE ${source})
endfunction()

function(sdtw_add_cpu_kernels target)
  # Exponents that are too large for float wrap, as they do in AVX, before the pair's verdict throws them away.
  # Its sixteen rows a lane are not for registers anyway: unrolled they take 90 KB more and no less time.
  sdtw_add_cpu_kernel(${target} baseline -fwrapv
    $<$<CXX_COMPILER_ID:GNU>:--param=max-completely-peel-times=8>)
  # Every AArch64 processor has NEON. Lanes are numbered the other way round where bytes are.
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
    sdtw_add_cpu_kernel(${target} neon -fwrapv ${SDTW_NEON_FLAGS})
    target_compile_definitions(${target} PRIVATE SDTW_HAVE_NEON)
  endif()
  if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    return()
  endif()
  foreach(isa avx2 avx512)
    string(TOUPPER ${isa} ISA)
    string(JOIN " " flags ${SDTW_${ISA}_FLAGS})
    check_cxx_compiler_flag("${flags}" SDTW_COMPILER_HAS_${ISA})
    if(SDTW_COMPILER_HAS_${ISA})
      sdtw_add_cpu_kernel(${target} ${isa} ${SDTW_${ISA}_FLAGS})
      target_compile_definitions(${target} PRIVATE SDTW_HAVE_${ISA})
    endif()
  endforeach()
endfunction()
