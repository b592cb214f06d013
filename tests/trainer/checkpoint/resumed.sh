#!/usr/bin/env bash
# 20 steps in a row equal 10, a checkpoint and 10 more, bit for bit: records (without times) and final weights, for each
# layout and precision, with real text, evaluation, skip_step and a cosine schedule.
#   resumed.sh TRAINER
set -euo pipefail
[ $# -eq 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
trainer=$1
work=$(mktemp -d "${TMPDIR:-/tmp}/moemark-resumed-XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1
for ((i = 0; i < 40; i++)); do cat "$0"; done >"$work/text"
RUN=("$trainer" --set layers=2 --set d_model=32 --set heads=4 --set kv_heads=2 --set head_dim=8 --set experts=4
  --set top_k=2 --set expert_hidden=16 --set vocab=256 --set seq_len=16 --set rank_tokens=32 --set global_tokens=128
  --set threads=1 --set lr=3e-3 --set schedule=cosine --set schedule_steps=20 --set skip_step=true --set data=bytes
  --set data_path="$work/text" --set holdout=0.1 --set eval_tokens=64 --set eval_every=5)

# What must be equal: no times, no counters of the machine.
numbers() {
  grep -hE '"type":"(step|eval)"' "$@" |
    sed -E 's/"(time_s|time_median_s|compute_max_s|compute_median_s|host_waits|wire_bytes|device_allocs)":[^,}]*,?//g'
}

failed=0
check() { # ranks options...
  local ranks=$1 start=()
  shift
  [ "$ranks" = 1 ] || start=(mpirun --allow-run-as-root --oversubscribe --bind-to none -mca mpi_yield_when_idle 1 -np "$ranks")
  rm -rf "$work"/{straight,first,second,c,w1,w2}
  {
    "${start[@]}" "${RUN[@]}" --set ranks="$ranks" "$@" --set steps=20 --out "$work/straight" --set weights_out="$work/w1"
    "${start[@]}" "${RUN[@]}" --set ranks="$ranks" "$@" --set steps=10 --out "$work/first" --set checkpoint_dir="$work/c"
    "${start[@]}" "${RUN[@]}" --set ranks="$ranks" "$@" --set steps=20 --out "$work/second" --set checkpoint_dir="$work/c" \
      --set weights_out="$work/w2" --resume auto
  } >"$work/log" 2>&1 || { echo "FAIL $*: a run failed"; cat "$work/log"; failed=1; return; }
  numbers "$work/straight/records.jsonl" >"$work/expected"
  numbers "$work/first/records.jsonl" "$work/second/records.jsonl" >"$work/got"
  [ "$(grep -c '"type":"step"' "$work/expected")" = 20 ] || { echo "FAIL $*: the straight run has not 20 steps"; failed=1; }
  diff "$work/expected" "$work/got" >"$work/diff" || { echo "FAIL $*: records differ:"; head -4 "$work/diff"; failed=1; }
  cmp "$work/w1/model.safetensors" "$work/w2/model.safetensors" || { echo "FAIL $*: weights differ"; failed=1; }
  echo "ok $*"
}

check 1 --set precision=mxfp8 --set expert_hidden=32
check 2 --set precision=mxfp8 --set expert_hidden=32 --set shard=dist_opt --set ep=world
for precision in fp32 bf16; do
  check 1 --set precision=$precision
  check 2 --set precision=$precision --set shard=ddp
  check 2 --set precision=$precision --set shard=dist_opt
  check 2 --set precision=$precision --set shard=dist_opt --set ep=world
  check 2 --set precision=$precision --set shard=fsdp
  check 1 --set precision=$precision --set routing=random
done

# C-14: a finished run that is started again does no step and leaves its checkpoint as it is
before=$(find "$work/c" -type f -exec sha256sum {} + | sort)
"${RUN[@]}" --set routing=random --set precision=bf16 --set steps=20 --set checkpoint_dir="$work/c" --resume auto --out "$work/third" 2>"$work/log"
[ "$before" = "$(find "$work/c" -type f -exec sha256sum {} + | sort)" ] || { echo "FAIL: a finished run wrote its checkpoint again"; failed=1; }
! grep -q '"type":"step"' "$work/third/records.jsonl" || { echo "FAIL: a finished run trained on"; failed=1; }

# L-01: stopped inside a long step, the step before it is saved; the records go on in the same file
rm -rf "$work/c"
LONG=("${RUN[@]}" --set checkpoint_dir="$work/c" --set global_tokens=32000000 --set steps=20 --out "$work/long")
"${RUN[@]}" --set checkpoint_dir="$work/c" --set steps=3 --out "$work/long" 2>"$work/log"
"${LONG[@]}" --resume auto 2>"$work/log" &
sleep 1.5
kill -TERM $!
code=0
wait $! || code=$?
[ "$code" = 130 ] || { echo "FAIL: exit code $code after SIGTERM"; cat "$work/log"; failed=1; }
grep -q 'interrupted by SIGTERM after step 3; resume=auto' "$work/log" || { echo "FAIL: said $(cat "$work/log")"; failed=1; }
"${RUN[@]}" --set checkpoint_dir="$work/c" --set steps=5 --resume auto --out "$work/long" 2>"$work/log"
[ "$(grep -c '"type":"step"' "$work/long/records.jsonl")" = 5 ] || { echo "FAIL: the records do not go on"; failed=1; }
exit "$failed"
