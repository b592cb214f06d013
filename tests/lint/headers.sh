#!/usr/bin/env bash
# Each header compiles alone, as C11 and as C++17: what it needs it includes, and a C++ program can use it.
# LINT_MPI_INCLUDE: the folder of mpi.h. Headers of CUDA code are left to nvcc.
source "$(dirname "$0")/lint.sh"

lint_check() {
  local cc=${CC:-cc} cxx=${CXX:-c++} file said
  command -v "$cc" > /dev/null && command -v "$cxx" > /dev/null || lint_skip "no C and C++ compiler"
  local flags=(-D_GNU_SOURCE -fopenmp -Wall -fsyntax-only -I. -I"${LINT_MPI_INCLUDE:-/usr/include}")
  lint_files '\.h$' | while IFS= read -r file; do
    [ "${file#kernels/device/cuda/}" = "$file" ] || [ -n "${LINT_PLANTED:-}" ] || continue
    said=$("$cc" -std=gnu11 "${flags[@]}" -Wstrict-prototypes -x c "$file" 2>&1 | grep -E ': (fatal )?(error|warning):' | grep -v 'pragma once in main' | head -1) || true
    [ -z "$said" ] || echo "$file:1: not alone as C11: $said"
    said=$("$cxx" -std=gnu++17 "${flags[@]}" -x c++ "$file" 2>&1 | grep -E ': (fatal )?error:' | head -1) || true
    [ -z "$said" ] || echo "$file:1: not alone as C++17: $said"
  done
}

lint_self_test() {
  plant kernels/ok.h '#include <stdint.h>' 'static inline int64_t f(const void *p) { return *(const int64_t *)p; }'
  expect_clean
  plant kernels/needs.h 'int64_t f(void);'
  plant kernels/cast.h 'static inline const int *f(const void *p) { const int *q = p; return q; }'
  plant kernels/word.h 'struct a { int class; };'
  expect_found 'kernels/needs.h:1: not alone as C11' 'kernels/needs.h:1: not alone as C++17' 'kernels/cast.h:1: not alone as C++17' \
    'kernels/word.h:1: not alone as C++17'
}

lint_main "$@"
