#!/usr/bin/env bash
# Common to all lints. A lint is a bash file that sources this one, defines lint_check and lint_self_test, and ends with
# lint_main "$@".
#   <lint>.sh [ROOT]        checks the tree (default: the one it lies in); exit 1 when something is found
#   <lint>.sh --self-test   checks the lint itself: breaches planted in an empty tree must be found, and nothing else
# lint_check runs in the root of a tree and prints one line "file:line: message" for each breach. Exit 77 = cannot be
# checked here (a tool is missing).
# shellcheck shell=bash
set -euo pipefail
export LC_ALL=C

lint_name=$(basename "$0" .sh)
LINT_HOME=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
lint_self=$LINT_HOME/$lint_name.sh

lint_skip() {
  echo "lint.$lint_name: skipped: $*" >&2
  exit 77
}

# lint_files ERE: files of the tree whose path matches; generated ones (ignored by git, build folders) are left out.
lint_files() {
  local all
  if ! { [ -e .git ] && all=$(git ls-files -co --exclude-standard 2> /dev/null); }; then
    all=$(find . \( -name .git -o -name 'build*' -o -name out -o -name .venv -o -name __pycache__ \) -prune \
      -o -type f -print | sed 's|^\./||')
  fi
  printf '%s\n' "$all" | sort -u | awk -v want="$1" '$0 ~ want' | while IFS= read -r file; do
    [ ! -f "$file" ] || printf '%s\n' "$file"
  done
}

# lint_grep ERE FILES_ERE: "file:line:text" of the lines that match, in the files that match.
lint_grep() {
  local files
  mapfile -t files < <(lint_files "$2")
  [ ${#files[@]} -gt 0 ] || return 0
  grep -HnE -e "$1" -- "${files[@]}" || [ $? = 1 ]
}

# lint_code FILES_ERE: "file:line:code" of C sources without comments and the insides of texts.
lint_code() {
  local files
  mapfile -t files < <(lint_files "$1")
  [ ${#files[@]} -gt 0 ] || return 0
  awk -f "$LINT_HOME/code.awk" "${files[@]}"
}

# lint_code_grep ERE FILES_ERE: lines of lint_code whose code matches.
lint_code_grep() {
  lint_code "$2" | awk -v want="$1" '{ code = $0; sub(/^[^:]*:[0-9]+:/, "", code); if (code ~ want) print }'
}

# Takes out what exceptions.txt excuses; an exception that excuses nothing is a breach itself.
lint_excuse() {
  awk -v name="$lint_name" -v list="$1" '
    function trim(s) { gsub(/^[ \t]+|[ \t]+$/, "", s); return s }
    BEGIN {
      while (list != "" && (getline row < list) > 0) {
        number++
        if (row ~ /^#/ || row == "") continue
        if (split(row, cell, /[ \t]+\|[ \t]+/) != 4 || trim(cell[4]) == "") {
          print "tests/lint/exceptions.txt:" number ": not \"lint | file | regular expression | reason\""
          continue
        }
        if (trim(cell[1]) != name) continue
        file[++n] = trim(cell[2]); text[n] = trim(cell[3]); at[n] = number
      }
    }
    {
      path = $0; sub(/:.*/, "", path)
      for (i = 1; i <= n; i++)
        if (path == file[i] && $0 ~ text[i]) { used[i] = 1; next }
      print
    }
    END {
      for (i = 1; i <= n; i++)
        if (!(i in used)) print "tests/lint/exceptions.txt:" at[i] ": excuses nothing: " file[i]
    }'
}

lint_run() {
  local found
  found=$(lint_check | lint_excuse "$1")
  if [ -n "$found" ]; then
    printf '%s\n' "$found"
    printf 'lint.%s: %d found\n' "$lint_name" "$(printf '%s\n' "$found" | wc -l)" >&2
    return 1
  fi
}

# plant FILE LINE...: writes a file of the planted tree.
plant() {
  local file=$1
  shift
  mkdir -p "$(dirname "$file")"
  printf '%s\n' "$@" > "$file"
}

lint_bad() {
  echo "lint.$lint_name: self test: $*" >&2
  exit 1
}

# expect_found PREFIX...: the lint must report a line that starts with each prefix, and no other.
expect_found() {
  local out rc=0 prefix
  out=$(LINT_PLANTED=1 "$lint_self" "$PWD" 2> /dev/null) || rc=$?
  [ $rc = 1 ] || lint_bad "exit $rc instead of 1 on a planted breach; it said: $out"
  for prefix in "$@"; do
    awk -v p="$prefix" 'index($0, p) == 1 { hit = 1 } END { exit !hit }' <<< "$out" || lint_bad "not found: $prefix; found: $out"
  done
  [ "$(wc -l <<< "$out")" = $# ] || lint_bad "found more than was planted: $out"
}

expect_clean() {
  local out rc=0
  out=$(LINT_PLANTED=1 "$lint_self" "$PWD" 2>&1) || rc=$?
  [ $rc = 0 ] || lint_bad "exit $rc on a clean tree; it said: $out"
}

lint_main() {
  if [ "${1:-}" = --self-test ]; then
    lint_tree=$(mktemp -d)
    trap 'rm -rf "$lint_tree"' EXIT
    cd "$lint_tree"
    lint_self_test
    echo "lint.$lint_name: self test passed"
    return
  fi
  cd "${1:-$LINT_HOME/../..}"
  local exceptions=$LINT_HOME/exceptions.txt
  [ -z "${LINT_PLANTED:-}" ] || exceptions=
  lint_run "$exceptions"
}
