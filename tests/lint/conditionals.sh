#!/usr/bin/env bash
# No conditional compilation: an absent backend is another file, chosen by CMake. A header has its include guard (the
# path in capitals) and extern "C", and nothing else.
source "$(dirname "$0")/lint.sh"

lint_check() {
  lint_grep '^[[:space:]]*#[[:space:]]*(if|ifdef|ifndef|elif|else|pragma[[:space:]]+once)' '\.(c|cu)$' |
    sed -E 's/^([^:]*:[0-9]+:)/\1 conditional compilation in a source: /'
  local headers
  mapfile -t headers < <(lint_files '\.(h|cuh)$')
  [ ${#headers[@]} -gt 0 ] || return 0
  awk '
    function finish() {
      if (file == "") return
      if (!opened) print file ":1: no include guard " guard
      if (depth != 0) print file ":1: #if and #endif do not match"
    }
    FNR == 1 { finish(); file = FILENAME; guard = toupper(file) "_"; sub(/_$/, "", guard); gsub(/[^A-Z0-9]/, "_", guard); opened = depth = 0 }
    /^[ \t]*#[ \t]*ifndef/ && $2 == guard && !opened { opened = 1; depth++; next }
    /^#ifdef __cplusplus$/ { depth++; next }
    /^[ \t]*#[ \t]*endif/ { depth--; next }
    /^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|pragma[ \t]+once)/ { print FILENAME ":" FNR ": neither the guard " guard " nor extern \"C\": " $0; if ($0 ~ /if/ && $0 !~ /elif/) depth++ }
    END { finish() }' "${headers[@]}"
}

lint_self_test() {
  plant kernels/ok.h '#ifndef KERNELS_OK_H' '#define KERNELS_OK_H' '#ifdef __cplusplus' 'extern "C" {' '#endif' 'int f(void);' \
    '#ifdef __cplusplus' '}' '#endif' '#endif'
  plant kernels/ok.c '#include "kernels/ok.h"' '#define TWO 2' '#pragma omp simd' 'int f(void) { return 2; } /* #if */'
  expect_clean
  plant kernels/bad.c '#if 0' 'int f(void);' ' #  else' '#endif'
  plant kernels/bad.cu '#ifdef __CUDACC__' '#endif'
  plant kernels/bad.h '#ifndef KERNELS_BAD_H' '#define KERNELS_BAD_H' '#if USE_MPI' '#endif' '#endif'
  plant kernels/none.h 'int f(void);'
  expect_found kernels/bad.c:1: kernels/bad.c:3: kernels/bad.cu:1: kernels/bad.h:3: kernels/none.h:1:
}

lint_main "$@"
