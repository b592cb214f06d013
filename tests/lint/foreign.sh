#!/usr/bin/env bash
# Every foreign interface lives in the files that foreign.txt names and nowhere else.
# Rows: name | regular expression on code | files (shell patterns, * also crosses folders). All tests may use what a row
# ends with "+tests".
source "$(dirname "$0")/lint.sh"

lint_check() {
  local table=$LINT_HOME/foreign.txt
  [ ! -f foreign.txt ] || table=foreign.txt # a planted tree brings its own
  lint_code '\.(c|h|cu|cuh)$' | awk -v table="$table" '
    function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
    function as_regex(glob) { gsub(/\./, "[.]", glob); gsub(/\*/, ".*", glob); return "^" glob "$" }
    BEGIN {
      while ((getline row < table) > 0) {
        if (row ~ /^#/ || row == "") continue
        if (split(row, cell, /[ \t]+\|[ \t]+/) != 3) { print table ":1: not three cells: " row; continue }
        name[++n] = trim(cell[1]); want[n] = trim(cell[2])
        count = split(trim(cell[3]), glob, /[ \t]+/)
        allowed[n] = ""
        for (i = 1; i <= count; i++) {
          one = glob[i] == "+tests" ? "^tests/" : as_regex(glob[i])
          allowed[n] = allowed[n] (i > 1 ? "|" : "") one
        }
      }
    }
    {
      split($0, part, ":"); code = $0; sub(/^[^:]*:[0-9]+:/, "", code)
      for (i = 1; i <= n; i++)
        if ((" " code) ~ want[i] && part[1] !~ allowed[i])
          print part[1] ":" part[2] ": " name[i] " is used here; its files are in tests/lint/foreign.txt:" code
    }'
}

lint_self_test() {
  plant foreign.txt '# comment' 'MPI | [^A-Za-z0-9_]MPI_[A-Z] | trainer/comm/comm_mpi*.c' \
    'clock | [^A-Za-z0-9_.>]clock_gettime[(] | kernels/device/cpu/* +tests'
  plant trainer/comm/comm_mpi_x.c 'int f(void) { return MPI_Init(NULL, NULL); }'
  plant tests/a.c '  clock_gettime(0, &t);'
  plant kernels/device/cpu/deep/a.c '  clock_gettime(0, &t);'
  plant trainer/comm/other.c '/* MPI_Init' ' * MPI_Send */' 'const char *s = "MPI_Send(\"MPI_X";' "int MT_MPI_X; // MPI_Y"
  expect_clean
  plant trainer/step/x.c '#include <stdio.h>' 'int f(void) { /* a */ return MPI_Init(NULL, NULL); }' '' 'clock_gettime(0, &t);'
  plant tests/b.h 'MPI_Comm comm;'
  expect_found trainer/step/x.c:2: trainer/step/x.c:4: tests/b.h:1:
}

lint_main "$@"
