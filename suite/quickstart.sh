#!/usr/bin/env bash
# From a fresh checkout to a first result: installs what is missing, builds, runs expert-scaling at local scale, prints
# the table, where the report is, and the commands for the rest. Can be run again; nothing is rebuilt for nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
source suite/install_packages.sh
build=${BUILD:-build}
jobs=${JOBS:-$(nproc)}
started=$SECONDS
moemark_install_packages tests/packages.txt

echo "== build"
mkdir -p "$build"
log=$build/configure.log
cmake --preset release -B "$build/release" > "$log" 2>&1 || { cat "$log" >&2; exit 2; }
cmake --build "$build/release" -j "$jobs" --target moemark moemark-trainer moemark-golden -- --quiet
bin=$build/release/bin
echo "built after $((SECONDS - started)) s"

echo "== this machine"
"$bin/moemark" sysinfo --peaks
echo "== study expert-scaling, local scale without fsdp (real arithmetic on this machine, 3 launches a case)"
rc=0
"$bin/moemark" run experiments/expert-scaling/study.yaml --scale local -E 'stack != fsdp' || rc=$?
cat <<EOT

Done after $((SECONDS - started)) s, exit code $rc. More:
  $bin/moemark list studies
  $bin/moemark plan experiments/expert-scaling/study.yaml --scale local
  $bin/moemark report out/expert-scaling/latest --md
  $bin/moemark run experiments/peer-cpu/study.yaml --scale local   # needs: bash baselines/peers/torch/setup.sh
  $bin/moemark --help
  bash tests/run.sh
EOT
exit "$rc"
