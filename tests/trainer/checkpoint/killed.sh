#!/usr/bin/env bash
# kill -9 at each of MOMENTS moments while a checkpoint is written, named, or an old one removed: what is left resumes, and
# ends with the weights of a run that was never disturbed.
#   killed.sh TRAINER SHIM MOMENTS
set -euo pipefail
[ $# -eq 3 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
trainer=$1 shim=$2 moments=$3
work=$(mktemp -d "${TMPDIR:-/tmp}/moemark-killed-XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1
TINY=(--set layers=1 --set d_model=16 --set heads=2 --set kv_heads=1 --set head_dim=8 --set experts=4 --set top_k=2
  --set expert_hidden=8 --set vocab=256 --set seq_len=8 --set rank_tokens=16 --set threads=1 --set checkpoint_every=1)
MPI=(mpirun --allow-run-as-root --oversubscribe --bind-to none -mca mpi_yield_when_idle 1 -np 2)

# train RANKS STEPS KEEP KILL_AT [options]
train() {
  local ranks=$1 steps=$2 keep=$3 at=$4
  shift 4
  local run=("$trainer" "${TINY[@]}" --set steps="$steps" --set checkpoint_keep="$keep" --set checkpoint_dir="$work/c" "$@")
  rm -f "$work/count"
  if [ "$ranks" = 1 ]; then
    LD_PRELOAD=$shim MOEMARK_KILL_DIR=$work/c MOEMARK_KILL_COUNT=$work/count MOEMARK_KILL_AT=$at \
      "${run[@]}" --set global_tokens=32
  else
    "${MPI[@]}" -x LD_PRELOAD="$shim" -x MOEMARK_KILL_DIR="$work/c" -x MOEMARK_KILL_COUNT="$work/count" \
      -x MOEMARK_KILL_AT="$at" "${run[@]}" --set ranks=2 --set shard=dist_opt --set ep=world --set global_tokens=32
  fi
}

# calls RANKS STEPS KEEP: how many calls change the folder
calls() {
  rm -rf "$work/c"
  train "$1" "$2" "$3" 0 --set weights_out="$work/straight" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
  wc -c <"$work/count"
}

failed=0
# disturb RANKS KEEP MOMENTS
disturb() {
  local ranks=$1 keep=$2 moments=$3 first all i at code
  first=$(calls "$ranks" 1 "$keep")
  all=$(calls "$ranks" 3 "$keep")
  [ "$all" -gt "$first" ] || { echo "no calls were counted: $first, $all"; exit 1; }
  for ((i = 0; i < moments; i++)); do
    at=$((first + 1 + i * (all - first - 1) / (moments > 1 ? moments - 1 : 1)))
    rm -rf "$work/c" "$work/records" "$work/weights"
    code=0
    train "$ranks" 3 "$keep" "$at" >"$work/log" 2>&1 || code=$?
    [ "$code" != 0 ] || { echo "FAIL call $at of $all was never reached"; failed=1; continue; }
    code=0
    train "$ranks" 3 "$keep" 0 --resume auto --out "$work/records" --set weights_out="$work/weights" >"$work/log" 2>&1 || code=$?
    if [ "$code" != 0 ] || ! grep -q '"resumed_step":[123]' "$work/records/records.jsonl"; then
      echo "FAIL killed at call $at of $all (ranks $ranks, keep $keep): no usable checkpoint: exit code $code"
      sed 's/^/  | /' "$work/log"
      failed=1
    elif ! cmp -s "$work/straight/model.safetensors" "$work/weights/model.safetensors"; then
      echo "FAIL killed at call $at of $all (ranks $ranks, keep $keep): other weights than without"
      failed=1
    fi
  done
  echo "ranks $ranks, keep $keep: killed at $moments of the calls $((first + 1)) to $all"
}

disturb 1 1 "$moments"
disturb 1 2 5
if command -v mpirun >/dev/null; then disturb 2 2 4; fi
exit "$failed"
