#!/usr/bin/env bash
# Installs what is missing, builds and runs every test and lint. Ends with the line "N passed, N failed".
#   bash tests/run.sh          everything that takes less than 15 minutes together
#   bash tests/run.sh --full   also what takes longer (peers in PyTorch, long equivalence tables, learning on text)
# Environment: BUILD (default build), JOBS (default: number of cores).
set -euo pipefail
cd "$(dirname "$0")/.."
source suite/install_packages.sh
full=no
case "${1:-}" in
  "") ;;
  --full) full=yes ;;
  *) echo "usage: bash tests/run.sh [--full]" >&2; exit 2 ;;
esac
build=${BUILD:-build}
jobs=${JOBS:-$(nproc)}
moemark_install_packages tests/packages.txt
unset MOEMARK_SET MOEMARK_CONFIG MOEMARK_OUT MOEMARK_RESUME # the trainer would follow them in every test

echo "== build (release)"
cmake --preset release -B "$build/release" > "$build.configure.log" 2>&1 || { cat "$build.configure.log"; exit 2; }
rm -f "$build.configure.log"
cmake --build "$build/release" -j "$jobs" -- --quiet
echo "== build (address and undefined-behaviour sanitizers)"
cmake --preset dev -B "$build/dev" > "$build.configure.log" 2>&1 || { cat "$build.configure.log"; exit 2; }
rm -f "$build.configure.log"
cmake --build "$build/dev" -j "$jobs" --target mm_sanitized_tests -- --quiet

passed=0
failed=0
count() { # reads ctest's summary from a log
  local log=$1 total bad
  total=$(sed -n 's/.*tests failed out of \([0-9]*\)$/\1/p' "$log" | tail -1)
  bad=$(sed -n 's/.*, \([0-9]*\) tests failed out of.*/\1/p' "$log" | tail -1)
  if [ -z "$total" ]; then # the runner itself broke
    failed=$((failed + 1))
    return
  fi
  passed=$((passed + total - bad))
  failed=$((failed + bad))
}

suite() { # name, folder, further ctest arguments
  local name=$1 folder=$2 log
  shift 2
  log=$(mktemp)
  echo "== $name"
  ctest --test-dir "$folder" --output-on-failure -j "$jobs" "$@" 2>&1 | tee "$log" | grep -vE '^ *Start ' || true
  count "$log"
  rm -f "$log"
}

exclude=(-LE full)
[ "$full" = yes ] && exclude=()
suite "tests" "$build/release" "${exclude[@]}"
suite "tests under sanitizers" "$build/dev" -L sanitized

echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
