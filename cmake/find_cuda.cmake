# Resolves SDTW_CUDA into SDTW_HAVE_CUDA and enables the language. Comes before the first target, which takes its
# architectures from here.
set(SDTW_HAVE_CUDA ${SDTW_CUDA})
if(SDTW_CUDA STREQUAL "AUTO")
  include(CheckLanguage)
  check_language(CUDA)
  set(SDTW_HAVE_CUDA OFF)
  if(CMAKE_CUDA_COMPILER)
    set(SDTW_HAVE_CUDA ON)
  endif()
endif()

if(SDTW_HAVE_CUDA)
  # Left to itself CMake builds for one old architecture.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES all-major)
  endif()
  enable_language(CUDA)
endif()
