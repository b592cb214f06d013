#!/usr/bin/env bash
# How the program starts beside a folder of checkpoints, on one rank and on two: none there yet, all damaged; which
# resume counts; data that do not last from where the run goes on.
#   starts.sh TRAINER
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
trainer=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/moemark-starts-XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1
unset MOEMARK_RESUME MOEMARK_SET MOEMARK_CONFIG MOEMARK_OUT
RUN=("$trainer" --set layers=1 --set d_model=16 --set heads=2 --set kv_heads=1 --set head_dim=8 --set experts=4
  --set top_k=2 --set expert_hidden=8 --set vocab=256 --set seq_len=8 --set rank_tokens=16 --set threads=1)
MPI=(mpirun --allow-run-as-root --oversubscribe --bind-to none -mca mpi_yield_when_idle 1 -np 2)
cd "$work"

failed=0
# Expects exit code and words of the standard error.
expect() { # code words command...
  local want=$1 words=$2 code=0
  shift 2
  "$@" 2>log || code=$?
  if [ "$code" != "$want" ] || ! grep -q -- "$words" log; then
    echo "FAIL: $*"
    echo "  exit code $code, expected $want and '$words'; said:"
    sed 's/^/  /' log
    failed=1
  fi
}

# Three steps from nothing, then damage.
check_folder() { # command...
  rm -rf c
  expect 0 'no checkpoint in c: starting at step 0' "$@" --set steps=3 --set checkpoint_dir=c --resume auto
  [ -d c/step-000000003 ] || { echo "FAIL: no checkpoint after $*"; failed=1; }
  rm -rf c && mkdir c
  expect 0 'no checkpoint in c: starting at step 0' "$@" --set steps=3 --set checkpoint_dir=c --resume auto
  truncate -s -1 c/step-000000003/shard-00000.safetensors
  expect 3 'none of the 1 checkpoints in c is usable' "$@" --set steps=4 --set checkpoint_dir=c --resume auto
  [ ! -e c/step-000000004 ] || { echo "FAIL: trained past a damaged checkpoint: $*"; failed=1; }
}
check_folder "${RUN[@]}" --set global_tokens=32
check_folder "${MPI[@]}" "${RUN[@]}" --set ranks=2 --set shard=ddp --set global_tokens=32

# The command line beats the environment, whichever way it says resume.
expect 0 'resume: no checkpoint in e1' env MOEMARK_RESUME=auto "${RUN[@]}" --set global_tokens=16 --set steps=1 --set checkpoint_dir=e1
expect 0 'step 1/1' env MOEMARK_RESUME=auto "${RUN[@]}" --set global_tokens=16 --set steps=1 --set resume=none
expect 0 'resume: no checkpoint in e2' env MOEMARK_RESUME=none "${RUN[@]}" --set global_tokens=16 --set steps=1 --set checkpoint_dir=e2 --resume auto
expect 2 'MOEMARK_RESUME: ' env MOEMARK_RESUME="$(printf '%2000s' x)" "${RUN[@]}" --set global_tokens=16

# Twelve windows: 4 and then 8 of them fit; of 8 that are used up no 8 more.
header='{"tokens":{"dtype":"U8","shape":[3,4,8],"data_offsets":[0,96]}}'
{ printf '%b' "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0" && printf '%s' "$header" && head -c 96 /dev/zero; } >t.safetensors
DATA=("${RUN[@]}" --set data=tensors --set data_path=t.safetensors)
expect 0 'step 2/2' "${DATA[@]}" --set global_tokens=16 --set steps=2 --set checkpoint_dir=d1
expect 0 'step 4/4' "${DATA[@]}" --set global_tokens=32 --set steps=4 --set checkpoint_dir=d1 --resume auto
expect 0 'step 1/1' "${DATA[@]}" --set global_tokens=64 --set steps=1 --set checkpoint_dir=d2
expect 3 'error: data_path: t.safetensors: 12 windows .*steps 2 to 5 of 16 tokens need 16 with those already consumed' \
  "${DATA[@]}" --set global_tokens=16 --set steps=5 --set checkpoint_dir=d2 --resume auto
exit "$failed"
