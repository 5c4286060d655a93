# The CUDA backend: one generated file per engine and pass, so that they compile in parallel.
set(sources src/cuda/backend.cu src/cuda/dispatch.cu src/cuda/all_pairs.cu src/cuda/pair_kernels.cu
            src/cuda/general/backend.cu src/cuda/general/reduce.cu src/cuda/general/series.cu src/cuda/streams/backend.cu)
foreach(engine FloatCell LongCell DoubleCell)
  foreach(pass Forward Backward)
    set(file ${PROJECT_BINARY_DIR}/cuda/${pass}_${engine}.cu)
    configure_file(src/cuda/kernels.cu.in ${file} @ONLY)
    list(APPEND sources ${file})
  endforeach()
endforeach()
# The general engine's: a file for each cell, whether it carries tangents, and whether tiles are small.
foreach(kernels "Soft<FloatCell, Rule::unit>;false" "Soft<FloatCell, Rule::penalised>;false"
                "Soft<FloatCell, Rule::weighted>;false" "Soft<DoubleCell, Rule::unit>;false"
                "Soft<DoubleCell, Rule::weighted>;false" "Soft<DoubleCell, Rule::unit>;true"
                "Soft<DoubleCell, Rule::weighted>;true" "Hard;false" "Hard;true")
  list(GET kernels 0 cell)
  list(GET kernels 1 tangents)
  foreach(small false true)
    string(MAKE_C_IDENTIFIER "general_${cell}_${tangents}_${small}" name)
    configure_file(src/cuda/general/kernels.cu.in ${PROJECT_BINARY_DIR}/cuda/${name}.cu @ONLY)
    list(APPEND sources ${PROJECT_BINARY_DIR}/cuda/${name}.cu)
  endforeach()
endforeach()
# The streams'.
foreach(rows "SoftRows<1>" "SoftRows<2>" "SoftRows<4>" "SoftRows<8>" "HardRows<1>" "HardRows<2>" "HardRows<4>"
             "HardRows<8>")
  string(MAKE_C_IDENTIFIER "streams_${rows}" name)
  configure_file(src/cuda/streams/kernels.cu.in ${PROJECT_BINARY_DIR}/cuda/${name}.cu @ONLY)
  list(APPEND sources ${PROJECT_BINARY_DIR}/cuda/${name}.cu)
endforeach()
target_sources(sdtw_objects PRIVATE ${sources})
set(SDTW_CUDA_SLICES "" CACHE STRING "Whether costs of many features are computed in integers, whatever the GPU: for tests")
mark_as_advanced(SDTW_CUDA_SLICES)
if(NOT SDTW_CUDA_SLICES STREQUAL "")
  target_compile_definitions(sdtw_objects PRIVATE SDTW_CUDA_SLICES=$<BOOL:${SDTW_CUDA_SLICES}>)
endif()
if(SDTW_CUDA STREQUAL "EMULATED")
  include(tests/emulator/emulator.cmake)
  return()
endif()
set_target_properties(sdtw_objects PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static)

string(REPLACE ";" "," architectures "${CMAKE_CUDA_ARCHITECTURES}")
set_property(SOURCE src/cuda/backend.cu APPEND PROPERTY COMPILE_DEFINITIONS
  "SDTW_CUDA_BUILD=\"${CMAKE_CUDA_COMPILER_VERSION} (${architectures})\"")

# Kernels packed as small as nvcc can, a quarter of what it does by itself. Drivers for 12.x may be older than that format.
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  target_compile_options(sdtw_objects PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:--compress-mode=size>)
endif()

set(SDTW_CUDA_SHARED_MEMORY "" CACHE STRING "Bytes of shared memory a block may take at most: tests what smaller GPUs get")
mark_as_advanced(SDTW_CUDA_SHARED_MEMORY)
if(SDTW_CUDA_SHARED_MEMORY)
  target_compile_definitions(sdtw_objects PRIVATE SDTW_CUDA_SHARED_MEMORY=${SDTW_CUDA_SHARED_MEMORY})
endif()
set(SDTW_CUDA_BLOCKS "" CACHE STRING "Blocks of a sweep's grid at most: tests that no block waits for one that is not running")
mark_as_advanced(SDTW_CUDA_BLOCKS)
if(SDTW_CUDA_BLOCKS)
  target_compile_definitions(sdtw_objects PRIVATE SDTW_CUDA_BLOCKS=${SDTW_CUDA_BLOCKS})
endif()
option(SDTW_CUDA_COUNTED_BARRIERS "Barriers as on GPUs before 8.0, on any: for tests" OFF)
mark_as_advanced(SDTW_CUDA_COUNTED_BARRIERS)
if(SDTW_CUDA_COUNTED_BARRIERS)
  target_compile_definitions(sdtw_objects PRIVATE SDTW_CUDA_COUNTED_BARRIERS)
endif()

# cudart's static library, inside both of ours.
find_package(CUDAToolkit REQUIRED)
target_link_libraries(sdtw PRIVATE CUDA::cudart_static)
target_link_libraries(sdtw_static PRIVATE CUDA::cudart_static)
