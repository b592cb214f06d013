#!/usr/bin/env bash
# The sources are as clang-format 14 writes them with the tree's .clang-format.
source "$(dirname "$0")/lint.sh"

lint_check() {
  local tool files
  tool=$(command -v clang-format-14 || command -v clang-format || true)
  [ -n "$tool" ] || lint_skip "no clang-format (Debian: clang-format-14)"
  "$tool" --version | grep -q 'version 14\.' || lint_skip "$("$tool" --version): version 14 is wanted"
  mapfile -t files < <(lint_files '\.(c|h|cu|cuh)$')
  [ ${#files[@]} -gt 0 ] || return 0
  { "$tool" --dry-run "${files[@]}" 2>&1 || true; } | sed -nE 's/^([^:]+:[0-9]+):[0-9]+: (warning|error): (.*)/\1: \3/p' | awk -F: '!($1 in seen) { seen[$1] = 1; print }'
}

lint_self_test() {
  cp "$LINT_HOME/../../.clang-format" .
  plant a.c 'int f(int a) { return a; }'
  expect_clean
  plant b.c 'int f(int a)' '{' 'return  a;' '}'
  expect_found b.c:1:
}

lint_main "$@"
