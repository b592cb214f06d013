# mm_add_mpi_test(<name> <ranks> <target> [arguments...]): a ctest entry that runs a test program on that many ranks of
# this machine. mm_add_mpi_fail_test(<name> <ranks> <status> <target> [arguments...]): mpirun must end with that status
# ("nonzero" = any but 0). mm_add_mpi_fail_says_test(<name> <ranks> <status> <regex> <target> [arguments...]): and must
# have printed a line that the (grep -E) expression matches.
set(MM_MPIRUN ${MPIEXEC_EXECUTABLE} --allow-run-as-root --oversubscribe --bind-to none ${MPIEXEC_NUMPROC_FLAG})

# Leak detection is off because Open MPI leaks by itself; the tests count the blocks of our own heap.
function(mm_mpi_test_properties name ranks)
  set_tests_properties(${name} PROPERTIES TIMEOUT 300 PROCESSORS ${ranks}
    ENVIRONMENT "OMP_NUM_THREADS=1;ASAN_OPTIONS=detect_leaks=0")
endfunction()

function(mm_add_mpi_test name ranks target)
  add_test(NAME ${name} COMMAND ${MM_MPIRUN} ${ranks} $<TARGET_FILE:${target}> ${ARGN})
  mm_mpi_test_properties(${name} ${ranks})
endfunction()

function(mm_add_mpi_fail_test name ranks status target)
  if(status STREQUAL nonzero)
    set(check "test $? -ne 0")
  else()
    set(check "test $? -eq ${status}")
  endif()
  string(JOIN " " run ${MM_MPIRUN} ${ranks} $<TARGET_FILE:${target}> ${ARGN})
  add_test(NAME ${name} COMMAND sh -c "${run}; ${check}")
  mm_mpi_test_properties(${name} ${ranks})
endfunction()

function(mm_add_mpi_fail_says_test name ranks status regex target)
  string(JOIN " " run ${MM_MPIRUN} ${ranks} $<TARGET_FILE:${target}> ${ARGN})
  add_test(NAME ${name} COMMAND sh -c
    "out=$(${run} 2>&1); status=$?; echo \"$out\"; test $status -eq ${status} && echo \"$out\" | grep -Eq '${regex}'")
  mm_mpi_test_properties(${name} ${ranks})
endfunction()
