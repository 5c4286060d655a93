# Builds consume/ as projects of other people's and runs what they made: projects in C alone and in C and C++, that link
# the shared and the static library. With way=installed, against `build` installed below `scratch` and moved elsewhere,
# by find_package and by pkg-config; else with the sources of the library in the project, by add_subdirectory or
# FetchContent. What another processor is to run is run by `emulator`. Run with cmake -P; definitions in
# tests/CMakeLists.txt.
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(JOIN " " command ${ARGN})
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed (${status}): ${command}\n${output}")
  endif()
  message(STATUS "${command}\n${output}")
endfunction()

# consume(NAME LANGUAGES [CMAKE-OPTION...])
function(consume name languages)
  run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${scratch}/${name} -G ${generator} -D languages=${languages}
      -D CMAKE_C_COMPILER=${c_compiler} -D CMAKE_CXX_COMPILER=${cxx_compiler} -D CMAKE_TOOLCHAIN_FILE=${toolchain}
      --no-warn-unused-cli ${ARGN})
  run(${CMAKE_COMMAND} --build ${scratch}/${name})
  run(${emulator} ${scratch}/${name}/use_sdtw)
  run(${emulator} ${scratch}/${name}/use_sdtw_static)
endfunction()

# refuse(FOLDER OPTION MESSAGE): the folder of the library is not configured with the option.
function(refuse folder option message)
  execute_process(COMMAND ${CMAKE_COMMAND} --fresh -S ${source}/${folder} -B ${scratch}/bad -G ${generator}
                  -D ${option} ERROR_VARIABLE output OUTPUT_QUIET)
  string(REGEX REPLACE "[ \n]+" " " output "${output}")
  string(FIND "${output}" "${message}" found)
  if(found EQUAL -1)
    message(FATAL_ERROR "${option}: ${output}")
  endif()
endfunction()

file(REMOVE_RECURSE ${scratch})

if(NOT way STREQUAL "installed")
  # What is tested is that it builds: compiled as `build` is where ccache has the objects, else unoptimised and for the
  # plainest processor.
  set(plain -D CMAKE_BUILD_TYPE=Debug -D SDTW_COMPILER_HAS_AVX2=OFF -D SDTW_COMPILER_HAS_AVX512=OFF)
  if(ccache AND build_type)
    string(TOUPPER ${build_type} type)
    set(options CMAKE_BUILD_TYPE=${build_type} CMAKE_C_FLAGS_${type}=${c_flags} CMAKE_CXX_FLAGS_${type}=${cxx_flags}
                SDTW_WERROR=${werror} CMAKE_C_COMPILER_LAUNCHER=${ccache} CMAKE_CXX_COMPILER_LAUNCHER=${ccache})
    list(TRANSFORM options PREPEND -D)
  else()
    set(options ${plain})
  endif()
  consume(build C -D how=${way} -D sdtw_source=${source} -D SDTW_CUDA=OFF ${options})
  file(GLOB_RECURSE made RELATIVE ${scratch}/build LIST_DIRECTORIES false ${scratch}/build/*sdtw_tests*)
  if(made)
    message(FATAL_ERROR "the project builds tests of the library: ${made}")
  endif()
  if(way STREQUAL "add_subdirectory")
    consume(odd C -D odd=ON -D how=${way} -D sdtw_source=${source} -D SDTW_CUDA=OFF ${plain})
    run(${emulator} ${scratch}/odd/m)
    refuse(. SDTW_CUDA=auto "SDTW_CUDA is \"auto\": expected AUTO, ON, OFF or EMULATED")
    refuse(bindings/jax SDTW_JAX=auto "SDTW_JAX is \"auto\": expected AUTO, ON or OFF")
    refuse(bindings/jax SDTW_JAX_INCLUDE=/nowhere "SDTW_JAX is AUTO, but \"/nowhere\" has no xla/ffi/api/ffi.h")
    refuse(bindings/torch SDTW_TORCH=none "SDTW_TORCH is \"none\": expected AUTO, ON or OFF")
  endif()
  return()
endif()

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

consume(c C -D CMAKE_PREFIX_PATH=${scratch}/prefix)
consume(cxx C,CXX -D CMAKE_PREFIX_PATH=${scratch}/prefix)

find_program(pkg_config NAMES pkg-config pkgconf)
if(NOT pkg_config)
  message(WARNING "SKIPPED: pkg-config is not on this machine")
  return()
endif()
file(GLOB_RECURSE pc_file ${scratch}/prefix/sdtw.pc)
cmake_path(GET pc_file PARENT_PATH pc_dir)
set(ENV{PKG_CONFIG_PATH} ${pc_dir})
function(ask_pkg_config result)
  execute_process(COMMAND ${pkg_config} ${ARGN} sdtw
                  OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(answer UNIX_COMMAND "${answer}")
  set(${result} ${answer} PARENT_SCOPE)
endfunction()
set(compile ${c_compiler} -std=c99 ${CMAKE_CURRENT_LIST_DIR}/main.c)

# As docs/getting-started.md says: a library in a directory of one's own must be told to the loader, too.
ask_pkg_config(flags --cflags --libs)
ask_pkg_config(lib_dir --variable=libdir)
run(${compile} -o ${scratch}/use_pkg_config ${flags} -lm -Wl,-rpath,${lib_dir})
run(${emulator} ${scratch}/use_pkg_config)

# The static library by its file's name, since linkers prefer the shared one.
ask_pkg_config(flags --static --cflags --libs)
list(TRANSFORM flags REPLACE "^-lsdtw$" "-l:libsdtw.a")
run(${compile} -o ${scratch}/use_pkg_config_static -DSDTW_STATIC ${flags} -Wl,-z,nodelete)
run(${emulator} ${scratch}/use_pkg_config_static)
