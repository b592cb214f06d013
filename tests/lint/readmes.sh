#!/usr/bin/env bash
# Every folder that holds sources or studies says in a README.md of at most 40 lines what lives there. A topic of
# tests/<layer>/ may instead be named, in backquotes, by the README.md above it.
source "$(dirname "$0")/lint.sh"

lint_check() {
  {
    lint_files '\.(c|h|cu|cuh|py|sh|cmake)$' | sed -n 's|/[^/]*$||p'
    lint_files '^experiments/[^/]+/study\.yaml$' | sed -n 's|/[^/]*$||p'
    lint_files '^(suite/(models|systems|systems/gpus)|baselines/published)/[^/]*$' | sed -n 's|/[^/]*$||p'
  } | sort -u | while IFS= read -r folder; do
    # every folder on the way down is a room as well
    while [ "$folder" != "${folder%/*}" ]; do
      echo "$folder"
      folder=${folder%/*}
    done
    echo "$folder"
  done | sort -u | while IFS= read -r folder; do
    [ ! -f "$folder/README.md" ] || continue
    case $folder in
      tests/*/*) ! grep -q "\`${folder##*/}[\`/]" "${folder%/*}/README.md" 2> /dev/null || continue ;;
    esac
    echo "$folder:1: no README.md"
  done
  lint_files '(^|/)README\.md$' | while IFS= read -r file; do
    lines=$(wc -l < "$file")
    [ "$file" = README.md ] || [ "$lines" -le 40 ] || echo "$file:41: $lines lines; the limit is 40"
    [ -s "$file" ] || echo "$file:1: empty"
  done
}

lint_self_test() {
  plant kernels/README.md '# kernels'
  plant kernels/base/README.md '# base'
  plant kernels/base/a.c ''
  plant tests/README.md 'x'
  plant tests/data/a.csv 'data'
  plant top.sh ''
  plant tests/suite/README.md 'Topics: `stats/`, `plan`'
  plant tests/suite/stats/a.c ''
  plant tests/suite/plan/a.c ''
  expect_clean
  plant kernels/device/cpu/a.c ''
  plant experiments/x/study.yaml ''
  plant tests/suite/run/a.c ''
  seq 41 > kernels/base/README.md
  : > tests/README.md
  expect_found kernels/device:1: kernels/device/cpu:1: experiments:1: experiments/x:1: tests/suite/run:1: kernels/base/README.md:41: tests/README.md:1:
}

lint_main "$@"
