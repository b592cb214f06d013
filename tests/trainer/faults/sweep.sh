#!/usr/bin/env bash
# One of several ranks (two, unless a KEY is ranks) fails, at its N-th host allocation or communication call, for
# N = FIRST, FIRST + STRIDE, ... until the run passes. Each run must end with exit code 3 within ten seconds, with one
# error line, which names the rank, and leave no process behind.
# usage: sweep.sh TRAINER heap|comm RANK FIRST STRIDE KEY=VALUE...
set -u
trainer=$1 kind=$2 rank=$3 n=$4 stride=$5
shift 5
export OMP_NUM_THREADS=1
work=$(mktemp -d "${TMPDIR:-/tmp}/moemark-sweep-XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
keys=(ranks=2 layers=2 d_model=16 heads=2 kv_heads=1 head_dim=8 experts=4 top_k=2 expert_hidden=8 vocab=64 seq_len=8
  rank_tokens=16 global_tokens=64 steps=2 threads=1 eval_tokens=8 "$@")
args=() ranks=2
for pair in "${keys[@]}"; do
  args+=(--set "$pair")
  case $pair in ranks=*) ranks=${pair#ranks=} ;; esac
done
launch=(mpirun --allow-run-as-root --oversubscribe --bind-to none -mca mpi_yield_when_idle 1 -np "$ranks")
tried=0

bad() {
  echo "FAIL $kind:$n@$rank: $*; it said:"
  head -20 "$work/said"
  exit 1
}

while :; do
  folder=$work/run-$n
  begin=$(date +%s%3N)
  timeout -k 5 60 "${launch[@]}" "$trainer" "${args[@]}" --set "fault=$kind:$n@$rank" --set "weights_out=$folder/weights" \
    --set "checkpoint_dir=$folder/checkpoints" --set checkpoint_every=1 --out "$folder" >"$work/said" 2>&1 </dev/null
  code=$?
  took=$(($(date +%s%3N) - begin))
  [ "$code" = 0 ] && break
  tried=$((tried + 1))
  lines=$(grep -cE '^moemark(\[rank [0-9]+\])?: error: ' "$work/said")
  [ "$code" = 3 ] || bad "exit code $code, wanted 3"
  [ "$lines" = 1 ] || bad "$lines error lines, wanted 1"
  # by the rank itself, or by a peer that it could still tell
  grep -qE "^moemark\[rank $rank\]: error: .*(memory|call $n of rank $rank fails)|error: (.*: )?rank $rank(: | could not)" \
    "$work/said" || bad "another message"
  [ "$took" -lt 10000 ] || bad "took $took ms"
  for ((wait = 0; wait < 20; wait++)); do # mpirun may end a moment before a rank that it has killed
    left=$(pgrep -f -- "--out $folder") || break
    sleep 0.1
  done
  [ -z "$left" ] || bad "processes left: $left"
  rm -rf "$folder"
  n=$((n + stride))
done
if [ "$tried" -lt 3 ]; then bad "only $tried faults came before the run passed"; fi
echo "ok: $tried faults, the last at $kind:$((n - stride))@$rank"
