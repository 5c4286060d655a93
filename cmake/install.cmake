# Installs the header, both libraries, the CMake package and the pkg-config file.
include(CMakePackageConfigHelpers)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/sdtw)

install(FILES include/sdtw.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS sdtw sdtw_static EXPORT sdtw-targets)
install(EXPORT sdtw-targets NAMESPACE sdtw:: DESTINATION ${package_dir})

configure_package_config_file(cmake/sdtw-config.cmake.in ${PROJECT_BINARY_DIR}/sdtw-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/sdtw-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/sdtw-config.cmake ${PROJECT_BINARY_DIR}/sdtw-config-version.cmake
        DESTINATION ${package_dir})

# Relative to ${prefix}, so that the tree can be moved with pkg-config --define-prefix.
foreach(dir LIBDIR INCLUDEDIR)
  cmake_path(IS_ABSOLUTE CMAKE_INSTALL_${dir} absolute)
  if(absolute)
    set(SDTW_PC_${dir} ${CMAKE_INSTALL_${dir}})
  else()
    set(SDTW_PC_${dir} "\${prefix}/${CMAKE_INSTALL_${dir}}")
  endif()
endforeach()
configure_file(cmake/sdtw.pc.in ${PROJECT_BINARY_DIR}/sdtw.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/sdtw.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
