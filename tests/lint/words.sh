#!/usr/bin/env bash
# Nothing is left open in silence, and nothing names the place where it was written: no marks for later work, no paths of
# one machine, no names of documents that are not in the tree. A backend that is absent says so and never succeeds.
source "$(dirname "$0")/lint.sh"

lint_check() {
  local texts='\.(c|h|cu|cuh|in|md|sh|py|cmake|txt|yaml|csv|json)$|^\.ci/run$'
  lint_grep '(^|[^A-Za-z0-9_])(TODO|FIXME|XXX|HACK|not implemented|unimplemented)([^A-Za-z0-9_]|$)' "$texts" | lint_own |
    sed -E 's/^([^:]*:[0-9]+:)/\1 mark for later work: /'
  local place='(^|[^A-Za-z0-9_.])/(work|root|home|Users)/[A-Za-z]'
  place+='|(^|[^A-Za-z0-9_.-])[Ss]essions?([^A-Za-z0-9_]|$)|[Ss]ubagent|[Hh]elper [A-Z][0-9]?([^A-Za-z]|$)'
  lint_grep "$place" "$texts" | lint_own | sed -E 's/^([^:]*:[0-9]+:)/\1 names the place of writing: /'
  lint_grep '[A-Za-z0-9_./-]+\.md([^A-Za-z0-9]|$)' "$texts" | lint_own | lint_missing_papers
  lint_code_grep 'return MK_OK' '/absent/[^/]*\.c$' | sed -E 's/^([^:]*:[0-9]+:)/\1 an absent backend succeeds: /'
}

# A document that is named must be in the tree; report.md is what a run writes.
lint_missing_papers() {
  local all
  all=$(lint_files '\.md$')
  awk -v all="$all" '
    BEGIN {
      count = split(all, path, "\n")
      for (i = 1; i <= count; i++) { base = path[i]; sub(/.*\//, "", base); known[base] = 1 }
      known["report.md"] = 1
    }
    {
      split($0, part, ":"); rest = $0; sub(/^[^:]*:[0-9]+:/, "", rest)
      while (match(rest, /[A-Za-z0-9_.\/-]+\.md/)) {
        name = substr(rest, RSTART, RLENGTH); before = substr(rest, 1, RSTART - 1); rest = substr(rest, RSTART + RLENGTH)
        if (before ~ /[:@$}*]$/) continue # another repository, a variable
        base = name; sub(/.*\//, "", base)
        if (!(base in known)) print part[1] ":" part[2] ": names a document that is not in the tree: " name
      }
    }'
}

# The lint itself holds the words.
lint_own() {
  awk -F: '$1 != "tests/lint/words.sh" && $1 != "tests/lint/exceptions.txt"'
}

lint_self_test() {
  plant a.c '/* a stub of absent/ */ int todo_list; /* sessional, share/moemark, obsession */'
  plant trainer/absent/x.c 'int f(void) { return MK_FAIL(ctx, MK_ERR_UNSUPPORTED, "no"); }'
  plant README.md 'See docs/design.md, ../a/README.md and share/moemark/models.'
  plant docs/design.md 'x'
  plant docs/b.md 'design.md, docs/design.md, README.md'
  expect_clean
  plant b.c '/* TODO: more */' '' '// a FIXME'
  plant b.md 'as DESIGN.md 4 says' 'In /work/main' 'done in this session'
  plant trainer/absent/y.c 'int f(void) {' '  return MK_OK;' '}'
  expect_found b.c:1: b.c:3: b.md:1: b.md:2: b.md:3: trainer/absent/y.c:2:
}

lint_main "$@"
