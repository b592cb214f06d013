#!/usr/bin/env bash
# tests/failure_cases/cases.tsv: every number of its groups stands there once, and every test that it names exists:
# START_TEST(name) or an entry {"name", ...} or an array of cases in a C file, a row of a table, a test in a
# CMakeLists.txt. What is not shown says why.
source "$(dirname "$0")/lint.sh"

table=tests/failure_cases/cases.tsv
groups='R:15 P:14 E:10 O:14 S:8 Q:10 C:17'

# Does the file hold a test of that name?
has_test() { # file name
  [ -f "$1" ] || return 1
  case $1 in
    *.c) grep -qE "START_TEST\\($2\\)|\\{\"$2\", |[ }]$2\\[\\] = \\{" "$1" ;;
    *.tsv) grep -qP "^\\Q$2\\E\\t" "$1" ;;
    *CMakeLists.txt) grep -qE "[( ]${2//./\\.}( |\$)" "$1" ;;
    *) return 1 ;;
  esac
}

lint_check() {
  [ -f "$table" ] || { echo "$table:1: is missing"; return; }
  local line=0 number what state tests note test wanted group count
  while IFS=$'\t' read -r number what state tests note; do
    line=$((line + 1))
    [ $line -gt 1 ] || continue
    [ -n "$what" ] && [ -n "$note" ] || echo "$table:$line: five columns, the empty ones with -"
    case $state in
      shown) [ "$tests" != - ] || echo "$table:$line: $number is shown by no test" ;;
      absent | waits | gpu) [ "$note" != - ] || echo "$table:$line: $number: no reason" ;;
      *) echo "$table:$line: $number: state '$state' is not shown, absent, waits or gpu" ;;
    esac
    [ "$tests" != - ] || continue
    for test in $tests; do
      has_test "${test%%:*}" "${test#*:}" || echo "$table:$line: $number: no test ${test#*:} in ${test%%:*}"
    done
  done < "$table"
  for group in $groups; do
    count=${group#*:}
    for ((wanted = 1; wanted <= count; wanted++)); do
      number=$(printf '%s-%02d' "${group%:*}" "$wanted")
      [ "$(cut -f1 "$table" | grep -cx "$number")" = 1 ] || echo "$table:1: $number does not stand there once"
    done
  done
}

# The table with all numbers absent; the rest of the arguments replaces lines: NUMBER<TAB>...
planted() {
  local group wanted number row
  {
    echo number
    for group in $groups; do
      for ((wanted = 1; wanted <= ${group#*:}; wanted++)); do
        number=$(printf '%s-%02d' "${group%:*}" "$wanted")
        row=$(printf '%s\n' "$@" | grep -P "^$number\t" || [ $? = 1 ])
        printf '%s\n' "${row:-$number	w	absent	-	n}"
      done
    done
  } > "$table"
}

lint_self_test() {
  plant tests/a.c 'START_TEST(one) {' '} list[] = {' '    {"three", run},'
  plant tests/b.tsv 'id	x' 't-one	y'
  plant tests/CMakeLists.txt 'mm_add_mpi_test(par.np2 2 x)'
  mkdir -p tests/failure_cases
  planted 'R-01	w	shown	tests/a.c:one tests/a.c:list tests/a.c:three tests/b.tsv:t-one tests/CMakeLists.txt:par.np2	-'
  expect_clean
  planted 'R-01	w	shown	tests/a.c:on	-' 'R-02	w	shown	-	-' 'R-03	w	absent	-	-' 'R-04	w	done	-	n' \
    'R-05	w	shown	tests/b.tsv:t	-' 'R-06	w	shown	tests/CMakeLists.txt:par	-' 'R-07	w	shown	tests/none.c:one	-'
  sed -i '/^C-17/d' "$table"
  expect_found "$table:2:" "$table:3:" "$table:4:" "$table:5:" "$table:6:" "$table:7:" "$table:8:" "$table:1: C-17"
}

lint_main "$@"
