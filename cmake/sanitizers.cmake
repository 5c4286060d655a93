# sdtw_sanitizers: the flags of SDTW_SANITIZE, for compiling (SDTW_SANITIZER_FLAGS) and for linking; nothing when it is
# empty.
add_library(sdtw_sanitizers INTERFACE)
if(SDTW_SANITIZE)
  # What reports show of a call is its function and line. To compile this takes 17 s where -O1 -g takes 45 (GCC 12, the
  # CPU backend).
  set(SDTW_SANITIZER_FLAGS -fsanitize=${SDTW_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1 -Og)
  if(SDTW_SANITIZE MATCHES undefined) # a null pointer stops the program anyway; to look for it is a fifth of the time
    list(APPEND SDTW_SANITIZER_FLAGS -fno-sanitize=null)
  endif()
  if(SDTW_SANITIZE MATCHES fuzzer-no-link) # comparisons of loops took a third of the time, and tell a fuzzer nothing
    list(APPEND SDTW_SANITIZER_FLAGS -O2 -fno-sanitize-coverage=trace-cmp)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND SDTW_SANITIZER_FLAGS -Wno-maybe-uninitialized) # the checks that it puts in mislead its own analysis
    if(SDTW_SANITIZE MATCHES undefined)
      # A third of the time that CPU kernels take to compile. Accesses beyond an object are AddressSanitizer's to find,
      # and preset fuzz, of clang, looks at sums of pointers.
      list(APPEND SDTW_SANITIZER_FLAGS -fno-sanitize=pointer-overflow,object-size)
    endif()
  endif()
  target_compile_options(sdtw_sanitizers INTERFACE $<$<COMPILE_LANGUAGE:C,CXX>:${SDTW_SANITIZER_FLAGS}>)
  target_link_options(sdtw_sanitizers INTERFACE -fsanitize=${SDTW_SANITIZE})
endif()
