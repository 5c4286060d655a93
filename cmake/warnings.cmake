# sdtw_warnings: the warnings that every target of ours is compiled with (gcc, clang, and nvcc's host compiler).
add_library(sdtw_warnings INTERFACE)
set(warnings -Wall -Wextra -Wpedantic -Wshadow -Wundef -Wcast-align -Wvla)
target_compile_options(sdtw_warnings INTERFACE
  $<$<COMPILE_LANGUAGE:C,CXX>:${warnings}>
  $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra>)
if(SDTW_WERROR)
  target_compile_options(sdtw_warnings INTERFACE
    $<$<COMPILE_LANGUAGE:C,CXX>:-Werror>
    $<$<COMPILE_LANGUAGE:CUDA>:-Werror=all-warnings>)
endif()
