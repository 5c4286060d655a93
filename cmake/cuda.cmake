# The CUDA backend. Kernels are instantiated by generated files, `kernels`, so that they compile in parallel.
set(sources src/cuda/backend.cu src/cuda/dispatch.cu src/cuda/all_pairs.cu src/cuda/pair_kernels.cu
            src/cuda/select_kernel.cu src/cuda/bounds.cu src/cuda/general/backend.cu src/cuda/general/reduce.cu
            src/cuda/general/series.cu src/cuda/short_pairs/backend.cu src/cuda/short_pairs/hard.cu
            src/cuda/short_pairs/steps.cu src/cuda/short_pairs/weights.cu src/cuda/streams/backend.cu src/cuda/units.cu)
set(kernels)
# The kernels of one pass and engine with costs from some sources. Every source that src/cuda/kernels.cuh visits is in
# one of these files, none of which takes more than a ninth of the time of all.
function(sdtw_add_kernels pass engine)
  set(instances)
  foreach(source ${ARGN})
    string(APPEND instances "template struct ${pass}Kernels<${engine}, ${source}>;\n")
  endforeach()
  string(MAKE_C_IDENTIFIER "${pass}_${engine}_${ARGV2}" name)
  configure_file(src/cuda/kernels.cu.in ${PROJECT_BINARY_DIR}/cuda/${name}.cu @ONLY)
  set(kernels ${kernels} ${PROJECT_BINARY_DIR}/cuda/${name}.cu PARENT_SCOPE)
endfunction()
sdtw_add_kernels(Backward LongCell Large)
sdtw_add_kernels(Backward LongCell LongSlices)
sdtw_add_kernels(Backward FloatCell Slices SlicesInWords)
sdtw_add_kernels(Backward FloatCell "InlineCosts<3>" "InlineCosts<4>" "InlineCosts<6>" "InlineCosts<8>")
sdtw_add_kernels(Backward FloatCell GivenCosts "InlineCosts<1>" "InlineCosts<2>")
sdtw_add_kernels(Backward FloatCell Words)
sdtw_add_kernels(Backward FloatCell Packed)
sdtw_add_kernels(Backward FloatCell WordPieces)
sdtw_add_kernels(Backward FloatCell PackedPieces)
sdtw_add_kernels(Backward FloatCell SmallestWords Smallest)
sdtw_add_kernels(Backward FloatCell UnitsInWords UnitSlicesInWords)
sdtw_add_kernels(Backward DoubleCell DifferenceCosts DirectCosts)
sdtw_add_kernels(Forward FloatCell SplitAlone SplitOfMany Split SplitOfPairs)
sdtw_add_kernels(Forward FloatCell SplitPieces Units UnitsOfMany UnitSlices SplitUnitSlices)
sdtw_add_kernels(Forward FloatCell PackedOfTwo PackedOfFour Smallest Slices SplitSlices)
sdtw_add_kernels(Forward FloatCell GivenCosts "InlineCosts<1>" "InlineCosts<2>" "InlineCosts<3>")
sdtw_add_kernels(Forward FloatCell "InlineCosts<4>" "InlineCosts<6>" "InlineCosts<8>")
sdtw_add_kernels(Forward LongCell Large LargeOfPairs LongSlices)
sdtw_add_kernels(Forward LongCell LargeGivenCosts "LargeInlineCosts<1>" "LargeInlineCosts<2>" "LargeInlineCosts<3>"
                 "LargeInlineCosts<4>" "LargeInlineCosts<6>" "LargeInlineCosts<8>")
sdtw_add_kernels(Forward DoubleCell DifferenceCosts DirectCosts)
# The general engine's: a file for each cell, and whether it carries tangents.
foreach(instance "Soft<FloatCell, Rule::unit>;false" "Soft<FloatCell, Rule::penalised>;false"
                "Soft<FloatCell, Rule::doubled>;false" "Soft<FloatCell, Rule::weighted>;false"
                "Soft<FloatCell, Rule::unit>;true" "Soft<FloatCell, Rule::weighted>;true"
                "Soft<DoubleCell, Rule::unit>;false"
                "Soft<DoubleCell, Rule::weighted>;false" "Soft<DoubleCell, Rule::unit>;true"
                "Soft<DoubleCell, Rule::weighted>;true" "Hard<Rule::unit, float>;false"
                "Hard<Rule::unit, float>;true" "Hard<Rule::weighted, float>;false" "Hard<Rule::weighted, float>;true"
                "Hard<Rule::unit, double>;false" "Hard<Rule::unit, double>;true" "Hard<Rule::weighted, double>;false"
                "Hard<Rule::weighted, double>;true")
  list(GET instance 0 cell)
  list(GET instance 1 tangents)
  string(MAKE_C_IDENTIFIER "general_${cell}_${tangents}" name)
  configure_file(src/cuda/general/kernels.cu.in ${PROJECT_BINARY_DIR}/cuda/${name}.cu @ONLY)
  list(APPEND kernels ${PROJECT_BINARY_DIR}/cuda/${name}.cu)
endforeach()
# The streams'. Those for what the first of them leave, and for other metrics, take pairs without a band as well. Of one
# feature Euclidean distances are those of city block.
foreach(instance "SoftRows;false" "SoftRows;true" "HardRows;false" "HardRows;true" "LongRows;true" "DoubleRows;true"
                "SoftCityblockRows;true" "SoftEuclideanRows;true" "LongDistanceRows;true" "HardCityblockRows;true"
                "HardEuclideanRows;true")
  list(GET instance 0 rows)
  list(GET instance 1 banded)
  set(instances)
  foreach(features 1 2 4 8)
    if(features GREATER 1 OR NOT rows MATCHES "Euclidean")
      string(APPEND instances "template struct Kernels<${rows}<${features}, ${banded}>>;\n")
    endif()
  endforeach()
  configure_file(src/cuda/streams/kernels.cu.in ${PROJECT_BINARY_DIR}/cuda/streams_${rows}_${banded}.cu @ONLY)
  list(APPEND kernels ${PROJECT_BINARY_DIR}/cuda/streams_${rows}_${banded}.cu)
endforeach()
# Each file takes nvcc two to four seconds for headers: unless processors are many, several are compiled as one.
cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR most_files "6 * ${processors}")
set(SDTW_CUDA_KERNEL_FILES ${most_files} CACHE STRING "Files that the kernels are compiled in, at most")
mark_as_advanced(SDTW_CUDA_KERNEL_FILES)
list(LENGTH kernels files)
if(SDTW_CUDA_KERNEL_FILES LESS files)
  set(index 0)
  foreach(file IN LISTS kernels)
    math(EXPR part "${index} % ${SDTW_CUDA_KERNEL_FILES}")
    string(APPEND part_${part} "#include \"${file}\"\n")
    math(EXPR index "${index} + 1")
  endforeach()
  set(kernels)
  math(EXPR last "${SDTW_CUDA_KERNEL_FILES} - 1")
  foreach(part RANGE ${last})
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/cuda/part_${part}.cu CONTENT "${part_${part}}" @ONLY)
    list(APPEND kernels ${PROJECT_BINARY_DIR}/cuda/part_${part}.cu)
  endforeach()
endif()
# Where there is to be no GPU's code (90-virtual), which is half of what nvcc has to do, one file has it all the same:
# what is inline assembly in the source is read by nobody else.
if(CMAKE_CUDA_ARCHITECTURES MATCHES "^([0-9]+)-virtual$")
  list(GET kernels 0 first)
  set_property(SOURCE ${first} APPEND PROPERTY COMPILE_OPTIONS
    --generate-code=arch=compute_${CMAKE_MATCH_1},code=sm_${CMAKE_MATCH_1})
endif()
list(APPEND sources ${kernels})
target_sources(sdtw_objects PRIVATE ${sources})
set(SDTW_CUDA_WITHOUT_FLOAT64 "" CACHE STRING "Whether kernels do without float64 as on GPUs where it is slow, whatever the GPU: for tests")
mark_as_advanced(SDTW_CUDA_WITHOUT_FLOAT64)
if(NOT SDTW_CUDA_WITHOUT_FLOAT64 STREQUAL "")
  target_compile_definitions(sdtw_objects PRIVATE SDTW_CUDA_WITHOUT_FLOAT64=$<BOOL:${SDTW_CUDA_WITHOUT_FLOAT64}>)
endif()
if(SDTW_CUDA STREQUAL "EMULATED")
  include(tests/emulator/emulator.cmake)
  return()
endif()
set_target_properties(sdtw_objects PROPERTIES CUDA_STANDARD 17 CUDA_STANDARD_REQUIRED ON CUDA_RUNTIME_LIBRARY Static)

string(REPLACE ";" "," architectures "${CMAKE_CUDA_ARCHITECTURES}")
set_property(SOURCE src/cuda/backend.cu APPEND PROPERTY COMPILE_DEFINITIONS
  "SDTW_CUDA_BUILD=\"${CMAKE_CUDA_COMPILER_VERSION} (${architectures})\"")

# Kernels packed as small as nvcc can, in what others get: it takes a fourteenth of the compile time. Drivers for 12.x may
# be older than that format.
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  target_compile_options(sdtw_objects PRIVATE
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<CONFIG:Release,MinSizeRel>>:--compress-mode=size>)
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
