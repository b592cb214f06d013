#!/usr/bin/env bash
# A file is an idea: at most 700 lines, half of all files at most 150. A function fits on a screen: at most 100 lines.
# Lines have at most 120 columns, comments too, which clang-format leaves as they are. Files over 400 and functions over 60
# lines are listed as warnings.
source "$(dirname "$0")/lint.sh"

lint_check() {
  local files
  mapfile -t files < <(lint_files '\.(c|h|cu|cuh)$')
  [ ${#files[@]} -gt 0 ] || return 0
  wc -l -- "${files[@]}" | awk '$2 != "total" || NF > 2 { print $1, $2 }' | sort -n | awk '
    { lines[++n] = $1 }
    $1 > 700 { print $2 ":1: " $1 " lines; the limit is 700" }
    $1 > 400 && $1 <= 700 { print "warning: " $2 ": " $1 " lines" > "/dev/stderr" }
    END { if (lines[int((n + 1) / 2)] > 150) print "tests/lint/length.sh:1: half of the files are longer than " lines[int((n + 1) / 2)] " lines; the limit is 150" }'
  { LC_ALL=C.UTF-8 grep -nHE '.{121}' -- "${files[@]}" || true; } | sed -E 's/^([^:]+:[0-9]+):.*/\1: wider than 120 columns/'
  lint_code '\.(c|h|cu|cuh)$' | awk '
    function code_of(s) { sub(/^[^:]*:[0-9]+:/, "", s); return s }
    {
      split($0, part, ":"); code = code_of($0)
      if (part[1] != file) { file = part[1]; body = 0; head = 0 }
      if (!body && code ~ /^[A-Za-z_]/ && code !~ /^(typedef|enum|union|extern)/ && code !~ /;[ \t]*$/) { head = part[2]; paren = 0; name = code }
      if (head && code ~ /\(/) paren = 1
      if (!body && head && paren && code ~ /\{[ \t]*$/) { body = part[2]; next }
      if (!body && code ~ /;[ \t]*$/) head = 0
      if (body && code ~ /^\}/) {
        long = part[2] - body + 1
        if (long > 100) print file ":" body ": a function of " long " lines; the limit is 100: " name
        else if (long > 60) print "warning: " file ":" body ": a function of " long " lines: " name > "/dev/stderr"
        body = head = 0
      }
    }'
}

lines() { # COUNT TEXT
  awk -v n="$1" -v text="$2" 'BEGIN { while (n-- > 0) print text }'
}

lint_self_test() {
  lines 10 '' > short.c
  lines 10 '' > short.h
  { echo 'static int f(int a,'; echo '             int b) {'; lines 98 '  a += b;'; echo '}'; } > fits.c
  { echo 'static const int table[] = {'; lines 150 '  1,'; echo '};'; } > table.c
  lines 699 '/* x */' > fits.h
  lines 10 '' > other.h
  printf '/*%116s*/\n' x > wide.c
  expect_clean
  printf '/*%117s*/\n' x > wider.c
  expect_found wider.c:1:
  rm wider.c
  { echo 'static int f(int a,'; echo '             int b) {'; lines 99 '  a += b;'; echo '}'; } > long.c
  lines 701 '/* x */' > long.h
  expect_found long.c:2: long.h:1:
  rm long.c long.h
  for i in 1 2 3 4 5 6 7 8; do lines 151 '/* x */' > "median$i.c"; done
  expect_found tests/lint/length.sh:1:
}

lint_main "$@"
