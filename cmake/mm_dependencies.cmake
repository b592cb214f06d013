# Every foreign library as one imported target mm::<name>, found here and nowhere else.
find_package(PkgConfig REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS C)
find_package(Threads REQUIRED)

function(mm_find_library name header library package)
  find_path(MM_${name}_INCLUDE ${header})
  find_library(MM_${name}_LIBRARY ${library})
  if(NOT MM_${name}_INCLUDE OR NOT MM_${name}_LIBRARY)
    message(FATAL_ERROR "${header} or lib${library} not found: install the Debian package ${package}")
  endif()
  add_library(mm::${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(mm::${name} SYSTEM INTERFACE ${MM_${name}_INCLUDE})
  target_link_libraries(mm::${name} INTERFACE ${MM_${name}_LIBRARY})
endfunction()

mm_find_library(dnnl dnnl.h dnnl libdnnl-dev)
mm_find_library(yaml yaml.h yaml libyaml-dev)
mm_find_library(csv csv.h csv libcsv-dev)
mm_find_library(cjson cjson/cJSON.h cjson libcjson-dev)
mm_find_library(hwloc hwloc.h hwloc libhwloc-dev)
mm_find_library(crypto openssl/evp.h crypto libssl-dev)

pkg_check_modules(MM_CHECK REQUIRED IMPORTED_TARGET GLOBAL check)

if(MOEMARK_MPI)
  find_package(MPI REQUIRED COMPONENTS C)
endif()
