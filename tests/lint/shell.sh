#!/usr/bin/env bash
# Shell scripts pass shellcheck at the severity "warning".
source "$(dirname "$0")/lint.sh"

lint_check() {
  local files
  command -v shellcheck > /dev/null || lint_skip "no shellcheck (Debian: shellcheck)"
  mapfile -t files < <(lint_files '\.sh$|^\.ci/run$')
  [ ${#files[@]} -gt 0 ] || return 0
  { shellcheck -S warning -f gcc "${files[@]}" || [ $? = 1 ]; } | sed -E 's/^([^:]+:[0-9]+):[0-9]+:/\1:/'
}

lint_self_test() {
  plant a.sh '#!/bin/sh' 'echo "$1"'
  expect_clean
  plant b.sh '#!/bin/sh' 'unused=3' 'cd /tmp'
  expect_found b.sh:2: b.sh:3:
}

lint_main "$@"
