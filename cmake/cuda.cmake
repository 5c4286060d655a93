# The CUDA backend: kernels, one generated file per engine and pass, so that they compile in parallel.
target_sources(sdtw_objects PRIVATE src/cuda/backend.cu src/cuda/dispatch.cu src/cuda/pair_kernels.cu)
foreach(engine FloatCell DoubleCell)
  foreach(pass forward backward)
    set(file ${PROJECT_BINARY_DIR}/cuda/${pass}_${engine}.cu)
    configure_file(src/cuda/kernels.cu.in ${file} @ONLY)
    target_sources(sdtw_objects PRIVATE ${file})
  endforeach()
endforeach()
# The general engine's: a file for each cell, and whether it carries tangents.
target_sources(sdtw_objects PRIVATE src/cuda/general/backend.cu src/cuda/general/series.cu)
foreach(kernels "Soft<FloatCell, false>;false" "Soft<FloatCell, true>;false" "Soft<DoubleCell, false>;false"
                "Soft<DoubleCell, true>;false" "Soft<DoubleCell, true>;true" "Hard;false" "Hard;true")
  list(GET kernels 0 cell)
  list(GET kernels 1 tangents)
  string(MAKE_C_IDENTIFIER "general_${cell}_${tangents}" name)
  configure_file(src/cuda/general/kernels.cu.in ${PROJECT_BINARY_DIR}/cuda/${name}.cu @ONLY)
  target_sources(sdtw_objects PRIVATE ${PROJECT_BINARY_DIR}/cuda/${name}.cu)
endforeach()
set_target_properties(sdtw_objects PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static)

string(REPLACE ";" "," architectures "${CMAKE_CUDA_ARCHITECTURES}")
set_property(SOURCE src/cuda/backend.cu APPEND PROPERTY COMPILE_DEFINITIONS
  "SDTW_CUDA_BUILD=\"${CMAKE_CUDA_COMPILER_VERSION} (${architectures})\"")

set(SDTW_CUDA_SHARED_MEMORY "" CACHE STRING "Bytes of shared memory a block may take at most: tests what smaller GPUs get")
mark_as_advanced(SDTW_CUDA_SHARED_MEMORY)
if(SDTW_CUDA_SHARED_MEMORY)
  target_compile_definitions(sdtw_objects PRIVATE SDTW_CUDA_SHARED_MEMORY=${SDTW_CUDA_SHARED_MEMORY})
endif()

# cudart's static library, inside both of ours.
find_package(CUDAToolkit REQUIRED)
target_link_libraries(sdtw PRIVATE CUDA::cudart_static)
target_link_libraries(sdtw_static PRIVATE CUDA::cudart_static)
