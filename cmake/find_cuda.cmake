# Resolves SDTW_CUDA into SDTW_HAVE_CUDA and enables the language, which an emulated backend does not need. Comes before
# the first target, which takes its architectures from here.
set(SDTW_HAVE_CUDA ${SDTW_CUDA})
if(SDTW_CUDA STREQUAL "AUTO")
  include(CheckLanguage)
  check_language(CUDA)
  set(SDTW_HAVE_CUDA OFF)
  if(CMAKE_CUDA_COMPILER)
    set(SDTW_HAVE_CUDA ON)
  endif()
endif()

if(SDTW_CUDA STREQUAL "EMULATED")
  set(SDTW_HAVE_CUDA OFF)
  message(STATUS "CUDA backend on the CPU, for tests (SDTW_CUDA is EMULATED)")
elseif(SDTW_HAVE_CUDA)
  # Left to itself CMake builds for one old architecture. The default is the GPUs that are there or, without one, code
  # for compute capability 9.0 and PTX that the driver compiles for others from 8.0 on when the library is first loaded:
  # that takes minutes, where every architecture that nvcc knows (all-major) takes five times as long.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    execute_process(COMMAND nvidia-smi -L OUTPUT_VARIABLE gpus ERROR_QUIET)
    if(gpus MATCHES "GPU 0")
      set(CMAKE_CUDA_ARCHITECTURES native)
    else()
      set(CMAKE_CUDA_ARCHITECTURES 80-virtual 90-real)
    endif()
  endif()
  enable_language(CUDA)
  list(JOIN CMAKE_CUDA_ARCHITECTURES ", " architectures)
  message(STATUS "CUDA backend for ${architectures} (CMAKE_CUDA_ARCHITECTURES chooses; all-major: every GPU)")
else()
  message(STATUS "No CUDA backend (SDTW_CUDA is ${SDTW_CUDA})")
endif()
