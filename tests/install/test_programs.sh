#!/usr/bin/env bash
# Every program that a README or a script names under build/release/bin is built there.
#   test_programs.sh SOURCE_DIR BIN_DIR
set -euo pipefail
source=$1 bin=$2
cd "$source"
missing=0
named=$(grep -rhoE '(build/release/bin|\$bin)/moemark[a-z-]*' --include='*.md' --include='*.sh' --exclude-dir=build --exclude-dir=out . |
  sed 's|.*/||' | sort -u)
[ -n "$named" ] || { echo "no program is named: the search is broken" >&2; exit 1; }
for program in $named; do
  [ -x "$bin/$program" ] || { echo "$program is named under build/release/bin but is not in $bin" >&2; missing=1; }
done
exit $missing
