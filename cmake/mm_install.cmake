# cmake --install: programs, static libraries of kernels and trainer with their headers, data, a CMake package and a
# pkg-config file. Tested by tests/install.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(MM_PUBLIC_HEADERS # what a program may include; headers that these need are installed with them
  kernels/base/file.h kernels/base/heap.h kernels/base/log.h kernels/base/rng.h kernels/base/status.h
  kernels/base/tensor.h kernels/base/text.h kernels/device/arena.h kernels/device/device.h kernels/ops/ops.h
  trainer/comm/comm.h trainer/comm/mesh.h trainer/launch/config.h trainer/data/data.h
  trainer/checkpoint/safetensors.h trainer/checkpoint/weights.h trainer/step/plan.h trainer/step/trainer.h)

# mm_headers_needed(<result> <header...>): the headers and all that they include, from the root of the tree.
function(mm_headers_needed result)
  set(waiting ${ARGN})
  set(needed)
  while(waiting)
    list(POP_FRONT waiting header)
    if(header IN_LIST needed)
      continue()
    endif()
    list(APPEND needed ${header})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${header})
    file(STRINGS ${CMAKE_SOURCE_DIR}/${header} lines REGEX "^#include \"")
    foreach(line ${lines})
      string(REGEX REPLACE "^#include \"([^\"]*)\".*" "\\1" included "${line}")
      list(APPEND waiting ${included})
    endforeach()
  endwhile()
  set(${result} ${needed} PARENT_SCOPE)
endfunction()

# mm_foreign_libraries(<result> <item...>): what a program that uses these targets must link beside the project's own
# libraries: paths, -l names and flags.
function(mm_foreign_libraries result)
  set(found)
  foreach(item ${ARGN})
    if(item MATCHES "^(mm_options|mk|mt)$" OR item MATCHES "[$]<")
      continue()
    elseif(TARGET ${item})
      foreach(property IMPORTED_LOCATION IMPORTED_LOCATION_RELEASE INTERFACE_LINK_OPTIONS)
        get_target_property(value ${item} ${property})
        if(value)
          string(REPLACE "SHELL:" "" value "${value}")
          list(APPEND found ${value})
        endif()
      endforeach()
      get_target_property(next ${item} INTERFACE_LINK_LIBRARIES)
      if(next)
        mm_foreign_libraries(next ${next})
        list(APPEND found ${next})
      endif()
    elseif(item MATCHES "^[-/]")
      list(APPEND found ${item})
    else()
      list(APPEND found -l${item})
    endif()
  endforeach()
  list(REMOVE_DUPLICATES found)
  set(${result} ${found} PARENT_SCOPE)
endfunction()

install(TARGETS moemark moemark-trainer moemark-golden RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

set_target_properties(mk PROPERTIES OUTPUT_NAME moemark_kernels)
set_target_properties(mt PROPERTIES OUTPUT_NAME moemark_trainer)
install(TARGETS mk mt ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})

mm_headers_needed(headers ${MM_PUBLIC_HEADERS})
foreach(header ${headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${CMAKE_SOURCE_DIR}/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/moemark/${folder})
endforeach()
list(TRANSFORM MM_PUBLIC_HEADERS REPLACE "(.+)" "#include \"\\1\"" OUTPUT_VARIABLE lines)
list(JOIN lines "\n" MM_INCLUDES)
configure_file(${CMAKE_CURRENT_LIST_DIR}/moemark.h.in ${CMAKE_BINARY_DIR}/install/moemark.h @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/install/moemark.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/moemark)

# The data of the program, laid out as in the source tree (suite/study/paths.c).
set(data ${CMAKE_INSTALL_DATADIR}/moemark)
install(DIRECTORY experiments DESTINATION ${data})
install(DIRECTORY suite/models suite/systems DESTINATION ${data}/suite
  FILES_MATCHING PATTERN "*.yaml" PATTERN "*.csv" PATTERN "README.md")
install(DIRECTORY baselines DESTINATION ${data} USE_SOURCE_PERMISSIONS
  PATTERN "__pycache__" EXCLUDE PATTERN ".venv*" EXCLUDE PATTERN "out" EXCLUDE)
install(FILES README.md LICENSE CITATION.cff DESTINATION ${CMAKE_INSTALL_DOCDIR})

get_target_property(links mk INTERFACE_LINK_LIBRARIES)
mm_foreign_libraries(MM_KERNELS_LIBRARIES ${links})
get_target_property(links mt INTERFACE_LINK_LIBRARIES)
mm_foreign_libraries(MM_TRAINER_LIBRARIES ${links})
file(RELATIVE_PATH MM_INCLUDE_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_FULL_INCLUDEDIR})
list(JOIN MM_TRAINER_LIBRARIES " " MM_TRAINER_FLAGS)
list(JOIN MM_KERNELS_LIBRARIES " " MM_KERNELS_FLAGS)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/moemark)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/moemarkConfig.cmake.in
  ${CMAKE_BINARY_DIR}/install/moemarkConfig.cmake INSTALL_DESTINATION ${package}
  PATH_VARS CMAKE_INSTALL_INCLUDEDIR CMAKE_INSTALL_LIBDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/install/moemarkConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/install/moemarkConfig.cmake ${CMAKE_BINARY_DIR}/install/moemarkConfigVersion.cmake
  DESTINATION ${package})
configure_file(${CMAKE_CURRENT_LIST_DIR}/moemark.pc.in ${CMAKE_BINARY_DIR}/install/moemark.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/install/moemark.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
