# Installs the header, both libraries, the CMake package and the pkg-config file.
include(CMakePackageConfigHelpers)

set(SDTW_PC_PRIVATE ${OpenMP_CXX_LIB_NAMES} pthread dl rt m)
list(TRANSFORM SDTW_PC_PRIVATE PREPEND -l)
list(PREPEND SDTW_PC_PRIVATE ${SDTW_CXX_LIBRARIES})
list(REMOVE_DUPLICATES SDTW_PC_PRIVATE)
list(JOIN SDTW_PC_PRIVATE " " SDTW_PC_PRIVATE)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sdtw)

install(FILES include/sdtw.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(TARGETS sdtw sdtw_static EXPORT sdtw-targets)
install(EXPORT sdtw-targets NAMESPACE sdtw:: DESTINATION ${package_dir})

configure_package_config_file(cmake/sdtw-config.cmake.in ${PROJECT_BINARY_DIR}/sdtw-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sdtw-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sdtw-config.cmake ${PROJECT_BINARY_DIR}/sdtw-config-version.cmake
        DESTINATION ${package_dir})

# The pkg-config file finds the prefix from where it lies, so that an installed tree can be moved.
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
cmake_path(ABSOLUTE_PATH pkgconfig_dir BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE pkgconfig_full_dir)
foreach(dir LIBDIR INCLUDEDIR)
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_${dir} BASE_DIRECTORY ${pkgconfig_full_dir} OUTPUT_VARIABLE SDTW_PC_${dir})
endforeach()
set(SDTW_PC_CUDA "")
if(SDTW_HAVE_CUDA)
  set(SDTW_PC_CUDA "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static ")
endif()
configure_file(cmake/sdtw.pc.in ${PROJECT_BINARY_DIR}/sdtw.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sdtw.pc DESTINATION ${pkgconfig_dir})
