# cmake -DSOURCE=.. -DOUT=.. -DVERSION=.. -DBUILD_TYPE=.. -DCOMPILER=.. -DFLAGS=.. -P build_info.cmake
# Writes the build's facts into OUT; an unchanged file is left alone, so that nothing is compiled again.
set(COMMIT unknown)
set(DIRTY unknown)
set(DIFF "")
execute_process(COMMAND git -C ${SOURCE} rev-parse HEAD OUTPUT_VARIABLE commit RESULT_VARIABLE failed
  OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(NOT failed)
  set(COMMIT ${commit})
  set(DIRTY no)
  execute_process(COMMAND git -C ${SOURCE} diff HEAD OUTPUT_FILE ${OUT}.diff RESULT_VARIABLE failed ERROR_QUIET)
  file(SIZE ${OUT}.diff bytes)
  if(bytes GREATER 0)
    set(DIRTY yes)
    file(SHA256 ${OUT}.diff DIFF)
  endif()
  file(REMOVE ${OUT}.diff)
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/build_info.c.in ${OUT} @ONLY)
