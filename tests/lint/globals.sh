#!/usr/bin/env bash
# No writable globals and no function statics: simulated ranks share one address space. Looks at the object files of the
# libraries (LINT_ARCHIVES); constant tables of pointers (.data.rel.ro) are read-only once loaded.
source "$(dirname "$0")/lint.sh"

lint_check() {
  command -v objdump > /dev/null || lint_skip "no objdump"
  local archive archives
  if [ -n "${LINT_PLANTED:-}" ]; then
    archives=(planted.a)
  else
    read -ra archives <<< "${LINT_ARCHIVES:?object archives, separated by blanks}"
  fi
  for archive in "${archives[@]}"; do
    objdump -t "$archive" | awk -v archive="${archive##*/}" '
      /: +file format / { member = $1; sub(/:$/, "", member) }
      NF >= 5 && $1 ~ /^[0-9a-f]+$/ {
        name = $NF; section = ""
        for (i = 2; i <= NF; i++) if ($i ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/) { section = $i; break }
        if (name ~ /__device_stub__|__cudaFatCubinHandle|^DW[.]ref[.]/) next # written by nvcc for every kernel
        if (section == "" || section ~ /^\.data\.rel\.ro/ || name == section) next
        print archive "(" member "):1: " name " is writable, in " section
      }'
  done
}

lint_self_test() {
  command -v "${CC:-cc}" > /dev/null || lint_skip "no C compiler"
  plant good.c 'extern int puts(const char *);' 'static const int table[] = {1, 2};' 'int (*const fns[])(const char *) = {puts};' \
    'int f(int i) { return table[i] + fns[0]("a"); }'
  "${CC:-cc}" -O2 -fPIC -c good.c -o good.o
  ar rc planted.a good.o
  expect_clean
  plant bad.c 'int common;' 'static int started = 3;' 'static _Thread_local int mine;' \
    'int f2(void) { static int calls; mine++; started++; return ++calls; }'
  "${CC:-cc}" -O0 -fPIC -c bad.c -o bad.o
  ar rc planted.a bad.o
  expect_found 'planted.a(bad.o):1: common' 'planted.a(bad.o):1: started' 'planted.a(bad.o):1: mine' 'planted.a(bad.o):1: calls'
}

lint_main "$@"
