#!/usr/bin/env bash
# Includes are repo-rooted, name a file that exists, and point down: kernels <- trainer <- suite. Tests may look at
# everything, nothing looks at tests, experiments or baselines. The suite uses of the kernels layer only base, the plain
# types of device.h and work formulas; the insides of a device stay within kernels/ and its tests.
source "$(dirname "$0")/lint.sh"

lint_check() {
  lint_grep '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' '\.(c|h|cu|cuh|in)$' | awk '
    function bad(why) { print at ": " why ": #include \"" name "\"" }
    {
      split($0, part, ":"); file = part[1]; at = part[1] ":" part[2]
      match($0, /"[^"]*"/); name = substr($0, RSTART + 1, RLENGTH - 2)
      split(file, from, "/"); split(name, to, "/")
      if (name !~ /\// || name ~ /^\.\.?\//) { bad("not repo-rooted"); next }
      if ((getline line < name) < 0) { bad("no such file in the tree"); next }
      close(name)
      if (to[1] == "experiments" || to[1] == "baselines") { bad("studies and baselines are data"); next }
      if (from[1] == "tests") next
      if (to[1] == "tests") { bad("only tests include tests"); next }
      rank["kernels"] = 1; rank["trainer"] = 2; rank["suite"] = 3
      if (!(from[1] in rank) || !(to[1] in rank)) { bad("neither kernels, trainer nor suite"); next }
      if (rank[to[1]] > rank[from[1]]) { bad("points up, from " from[1] " to " to[1]); next }
      if (from[1] == "suite" && name !~ /^(kernels\/base\/|kernels\/device\/device\.h|kernels\/ops\/work\.h|trainer\/|suite\/)/) {
        bad("the suite calls no kernel"); next
      }
      if (from[1] != "kernels" && name ~ /^kernels\/device\/(cpu|cuda|sim|absent)\//) bad("the inside of a device")
    }'
}

lint_self_test() {
  plant kernels/a.h '' && plant trainer/a.h '' && plant suite/a.h '' && plant tests/a.h '' && plant kernels/base/b.h ''
  plant baselines/a.h '' && plant kernels/device/cpu/c.h '' && plant experiments/a.h ''
  plant trainer/ok.c '#include "kernels/a.h"' '#include "trainer/a.h"' '#include <stdio.h>'
  plant suite/ok.c '#include "trainer/a.h"' '#include "kernels/base/b.h"'
  plant tests/ok.c '#include "kernels/device/cpu/c.h"' '#include "suite/a.h"'
  expect_clean
  plant kernels/up.c '' '#include "trainer/a.h"' '#include "suite/a.h"' '#include "tests/a.h"'
  plant trainer/up.c '#include "suite/a.h"' '#include "a.h"' '#include "../kernels/a.h"' '#include "kernels/none.h"'
  plant trainer/in.cu '#include "kernels/device/cpu/c.h"'
  plant suite/up.c '#include "kernels/a.h"' '#  include  "baselines/a.h"' '#include "experiments/a.h"'
  expect_found kernels/up.c:2: kernels/up.c:3: kernels/up.c:4: trainer/up.c:1: trainer/up.c:2: trainer/up.c:3: \
    trainer/up.c:4: trainer/in.cu:1: suite/up.c:1: suite/up.c:2: suite/up.c:3:
}

lint_main "$@"
