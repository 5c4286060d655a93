# Cross-compiles for AArch64 with Debian's g++-aarch64-linux-gnu, and runs what is built under qemu-user's emulator.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(triplet aarch64-linux-gnu)
set(CMAKE_C_COMPILER ${triplet}-gcc)
set(CMAKE_CXX_COMPILER ${triplet}-g++)

# Catch2 consists of headers, so that this machine's will do; libraries do not.
set(CMAKE_FIND_ROOT_PATH /usr/${triplet})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE BOTH)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE BOTH)

find_program(SDTW_QEMU NAMES qemu-aarch64-static qemu-aarch64)
if(SDTW_QEMU)
  set(CMAKE_CROSSCOMPILING_EMULATOR ${SDTW_QEMU} -L /usr/${triplet})
endif()
