# Installs `build` below `scratch`, moves it elsewhere, and builds and runs consume/ against it: with find_package
# (shared and static) and with pkg-config. Run with cmake -P; definitions in tests/CMakeLists.txt.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(JOIN " " command ${ARGN})
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${command}\n${output}")
  endif()
  message(STATUS "${command}\n${output}")
endfunction()

file(REMOVE_RECURSE ${scratch})
run(${CMAKE_COMMAND} --install ${build} --prefix ${scratch}/installed)
file(RENAME ${scratch}/installed ${scratch}/prefix)  # an installed tree can be moved

file(GLOB_RECURSE installed RELATIVE ${scratch}/prefix LIST_DIRECTORIES false ${scratch}/prefix/*)
foreach(pattern "^include/sdtw.h$" "/libsdtw.a$" "/libsdtw.so$" "/sdtw-config.cmake$" "/sdtw.pc$")
  set(found ${installed})
  list(FILTER found INCLUDE REGEX ${pattern})
  list(LENGTH found count)
  if(NOT count EQUAL 1)
    message(FATAL_ERROR "installed ${count} files that match ${pattern}: ${installed}")
  endif()
endforeach()

run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${scratch}/build -G ${generator}
    -D CMAKE_PREFIX_PATH=${scratch}/prefix -D CMAKE_C_COMPILER=${c_compiler} -D CMAKE_CXX_COMPILER=${cxx_compiler})
run(${CMAKE_COMMAND} --build ${scratch}/build)
run(${scratch}/build/use_sdtw)
run(${scratch}/build/use_sdtw_static)

find_program(pkg_config NAMES pkg-config pkgconf)
if(NOT pkg_config)
  message(WARNING "SKIPPED: pkg-config is not on this machine")
  return()
endif()
file(GLOB_RECURSE pc_file ${scratch}/prefix/sdtw.pc)
cmake_path(GET pc_file PARENT_PATH pc_dir)
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
execute_process(COMMAND ${pkg_config} --cflags --libs sdtw
                OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags UNIX_COMMAND "${flags}")
cmake_path(GET pc_dir PARENT_PATH lib_dir)
run(${c_compiler} -std=c99 ${CMAKE_CURRENT_LIST_DIR}/main.c -o ${scratch}/use_pkg_config ${flags} -lm -Wl,-rpath,${lib_dir})
run(${scratch}/use_pkg_config)
