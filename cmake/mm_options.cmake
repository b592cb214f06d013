# Build options (five) and the flags that every target of the project gets through mm_options.
if(MOEMARK_SIM)
  message(FATAL_ERROR "MOEMARK_SIM: simulated time is not built yet; configure with -UMOEMARK_SIM")
endif()
set(MOEMARK_MPI ON CACHE BOOL "Communication over MPI")
set(MOEMARK_CUDA AUTO CACHE STRING "CUDA device: ON, OFF or AUTO (ON where nvcc is found)")
set(MOEMARK_NCCL AUTO CACHE STRING "NCCL communication: ON, OFF or AUTO (ON where CUDA and nccl.h are found)")
set(MOEMARK_SANITIZE "" CACHE STRING "Sanitizers, e.g. address,undefined or thread; empty for none")
set(MOEMARK_WERROR OFF CACHE BOOL "Warnings are errors")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # POSIX and GNU interfaces (argp, target_clones)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(mm_options INTERFACE)
target_include_directories(mm_options INTERFACE $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}>)
target_compile_definitions(mm_options INTERFACE _GNU_SOURCE)
target_compile_options(mm_options INTERFACE
  $<$<COMPILE_LANGUAGE:C>:-Wall -Wextra -Wshadow -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Wvla>
  $<$<COMPILE_LANGUAGE:C>:-fno-math-errno -fno-trapping-math -ffp-contract=fast>
  $<$<AND:$<COMPILE_LANGUAGE:C>,$<CONFIG:Release>>:-O3>
  $<$<AND:$<COMPILE_LANGUAGE:C>,$<BOOL:${MOEMARK_WERROR}>>:-Werror>)
if(MOEMARK_SANITIZE)
  target_compile_options(mm_options INTERFACE
    $<$<COMPILE_LANGUAGE:C>:-fsanitize=${MOEMARK_SANITIZE} -fno-omit-frame-pointer>
    $<$<COMPILE_LANG_AND_ID:C,GNU>:-Wno-restrict>) # GCC 12 misjudges the lengths of instrumented code
  target_link_options(mm_options INTERFACE -fsanitize=${MOEMARK_SANITIZE})
  if(MOEMARK_SANITIZE MATCHES "thread") # the loader picks target_clones before the sanitizer's runtime has started
    target_compile_options(mm_options INTERFACE $<$<COMPILE_LANGUAGE:C>:--param=tsan-instrument-func-entry-exit=0>)
  endif()
endif()
