#!/usr/bin/env bash
# What the commands of cases.tsv are made of. Each runs in an empty folder; M, T, STUDY, BAD, WORK come from run_cases.sh.
# shellcheck disable=SC2034,SC2154

# The smallest model that has every part; 16 tokens a step.
TINY=(--set layers=1 --set d_model=16 --set heads=2 --set kv_heads=1 --set head_dim=8 --set experts=4 --set top_k=2
  --set expert_hidden=8 --set vocab=256 --set seq_len=8 --set rank_tokens=16 --set global_tokens=16 --set steps=2
  --set threads=1)
tiny() { "$T" "${TINY[@]}" "$@"; }

# One key after the other: with experts=0 top_k=9
with() {
  local pair args=()
  for pair in "$@"; do args+=(--set "$pair"); done
  tiny "${args[@]}"
}

# Two ranks of the tiny model.
MPI=(mpirun --allow-run-as-root --oversubscribe --bind-to none -mca mpi_yield_when_idle 1 -np 2)
ranks() { "${MPI[@]}" "$T" "${TINY[@]}" --set ranks=2 --set shard=ddp --set global_tokens=32 "$@"; }

# Four ranks in two groups, whose windows are 72 MiB a group.
four_ranks() {
  "${MPI[@]:0:${#MPI[@]}-2}" -np 4 "$T" "${TINY[@]}" --set ranks=4 --set ep=2 --set shard=ddp --set ep_transport=rowwise \
    --set capacity_factor=0 --set d_model=512 --set rank_tokens=1536 --set global_tokens=6144 "$@"
}

# moemark run of the shipped study, one case of smoke scale.
one() { "$M" run "$STUDY" -o out -E 'experts == 8 and stack == dist_opt' "$@"; }
# shellcheck disable=SC2120,SC2119 # the arguments come from cells of cases.tsv
run() { "$M" run "$STUDY" -o out "$@"; }

# The good study of the suite's tests with one line replaced, run or checked: altered check SED-EXPRESSION
altered() {
  local verb=$1
  shift
  sed "$@" "$SOURCE/tests/suite/study/good.yaml" >altered.yaml
  "$M" "$verb" altered.yaml
}

# Two cases in a fixed order (pace = long, short): the first runs until something happens, the second for half a second.
PACES=$SOURCE/tests/bad_input/paces.yaml

skip() {
  echo "$*" >skip
  exit 0
}

# Waits up to 30 s for a condition.
until_true() {
  local i
  for ((i = 0; i < 300; i++)); do
    "$@" && return 0
    sleep 0.1
  done
  echo "gave up waiting for: $*" >&2
  return 1
}

has_lines() { [ -f "$1" ] && [ "$(wc -l <"$1")" -ge "$2" ]; }

# Processes of this case by a line of their environment and the name of their program.
process_of() {
  local folder
  for folder in /proc/[0-9]*; do
    grep -qzsxF "MOEMARK_CASE=${MOEMARK_CASE:-}" "$folder/environ" 2>/dev/null || continue
    grep -qzsxF -- "$1" "$folder/environ" 2>/dev/null || continue
    [[ $(readlink "$folder/exe") == */"$2" ]] || continue
    echo "${folder#/proc/}"
    return
  done
}
rank_pid() { process_of "OMPI_COMM_WORLD_RANK=$1" moemark-trainer; }
mpirun_pid() { process_of "MOEMARK_CASE=$MOEMARK_CASE" orterun; }

# Signals to one rank, to mpirun, to what the case started itself.
kill_rank() { kill "$2" "$(rank_pid "$1")"; }
kill_all_of_run() { kill -TERM "$(rank_pid 0)" "$(rank_pid 1)" "$(mpirun_pid)"; }
kill_mpirun() { kill "$1" "$(mpirun_pid)"; }
kill_started() {
  local signal
  for signal in "$@"; do kill "$signal" "$started" && sleep 0.2; done
}

# The run and all below it stop, and go on after more than twice its limit of 2 s; then it is told to end.
pause_all() {
  local all
  all=$(process_of "MOEMARK_CASE=$MOEMARK_CASE" moemark; mpirun_pid; rank_pid 0; rank_pid 1)
  # shellcheck disable=SC2086
  kill -STOP $all && sleep 6 && kill -CONT $all && sleep 1
  kill_started -INT
}

remove_results() {
  rm -rf out/paces
  kill_rank 1 -9
}

# Starts a command in the background, waits until its records have four lines, does the rest of the arguments, waits.
disturb() { # records command-array-name what...
  local records=$1 code
  local -n command=$2
  shift 2
  "${command[@]}" &
  started=$!
  until_true has_lines "$records" "${least:-4}" && "$@"
  wait "$started"
  code=$?
  return "$code"
}

# A run of PACES, while its long case trains: attack [options of moemark run] -- what...
attack() {
  local run=("$M" run "$PACES" -o out)
  while [ "$1" != -- ]; do
    run+=("$1")
    shift
  done
  shift
  disturb out/paces/latest/pace=long/launch-1/records.jsonl run "$@"
}

# A trainer that would go on for ever: attack_trainer ranks|alone what...
attack_trainer() {
  local train=("$T" "${TINY[@]}" --set steps=100000000 --set comm_timeout_s=2 --out records)
  [ "$1" = alone ] || train=("${MPI[@]}" "${train[@]}" --set ranks=2 --set shard=ddp --set global_tokens=32)
  shift
  disturb records/records.jsonl train "$@"
}

# One step of a million microbatches, and an evaluation of as many.
long_step() {
  local train=("$T" "${TINY[@]}" --set global_tokens=16000000 --out records) least=1
  disturb records/records.jsonl train "$@"
}
long_evaluation() {
  local train=("$T" "${TINY[@]}" --set eval_tokens=1600000000 --out records) least=3
  disturb records/records.jsonl train "$@"
}

shrinking_data() {
  local train=("$T" "${TINY[@]}" --set data=bytes --set data_path=d --set steps=100000000 --out records)
  head -c 100000 /dev/zero >d
  disturb records/records.jsonl train truncate -s 10 d
}

# A small file system at ./small; the rest of the arguments is its mount options.
small_disk() {
  mkdir -p small
  mount -t tmpfs -o "$1" tmpfs small 2>/dev/null || skip "mounting a tmpfs is not permitted here"
  trap 'umount -l small' EXIT
}

# In a mount namespace of its own, with SIZE of /dev/shm.
small_shm() {
  local size=$1
  shift
  unshare -m true 2>/dev/null || skip "a mount namespace is not permitted here"
  unshare -m bash -c "mount -t tmpfs -o size=$size tmpfs /dev/shm && source '$SOURCE/tests/bad_input/functions.sh' && $*"
}

# ---- weights that are spoiled ----

prepare_weights() {
  tiny --set weights_out="$WORK/weights" >"$WORK/weights.log" 2>&1 || return 1
  # a safetensors file begins with the length of its header, 8 bytes
  header=$(od -An -tu8 -N8 "$WORK/weights/model.safetensors" | tr -d ' ')
  [ "$header" -gt 0 ]
}

# A copy of the good weights in ./w.safetensors and what is done to it.
spoiled() {
  cp "$WORK/weights/model.safetensors" w.safetensors && "$@"
}

# bytes (as printf takes them) at an offset into the first tensor
put_value() {
  local header
  header=$(od -An -tu8 -N8 w.safetensors | tr -d ' ')
  printf '%b' "$2" | dd of=w.safetensors bs=1 seek=$((8 + header + $1)) conv=notrunc status=none
}

put_value_of() { # tensor bytes
  put_value "$(grep -ao "$1\"[^}]*" w.safetensors | grep -o 'data_offsets":\[[0-9]*' | grep -o '[0-9]*$')" "$2"
}

# A safetensors file of int32 tokens [1,2,8]: token I is I, the last one is $1.
tokens() {
  local header='{"tokens":{"dtype":"I32","shape":[1,2,8],"data_offsets":[0,64]}}' i
  printf '%b' "\\x$(printf %02x ${#header})\\0\\0\\0\\0\\0\\0\\0" >t.safetensors
  printf '%s' "$header" >>t.safetensors
  for ((i = 0; i < 15; i++)); do printf '%b' "\\x0$(printf %x "$i")\\0\\0\\0" >>t.safetensors; done
  printf '%b' "$1" >>t.safetensors
}

# ---- checkpoints ----

# Two steps and their checkpoints in ./c; what is done to the newer one.
checkpoints() {
  with checkpoint_dir=c checkpoint_every=1 >/dev/null 2>&1 && "$@"
}
flip() { printf '\377' | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }

# The second checkpoint does not fit on the disk beside the first, which must still be good.
full_checkpoint_disk() {
  local code=0
  small_disk size=220k
  with checkpoint_dir=small/c checkpoint_every=1 || code=$?
  [ "$(ls -A small/c)" = step-000000001 ] || echo "found $(ls -A small/c)" >broken
  with resume=small/c/step-000000001 steps=3 >/dev/null 2>&1 || echo "the old checkpoint is not usable" >>broken
  exit "$code"
}

# A trainer that would go on for ever, with a checkpoint only when it is told to stop.
attack_saving_trainer() {
  local train=("$T" "${TINY[@]}" --set steps=100000000 --set checkpoint_dir=c --set comm_timeout_s=5 --out records)
  [ "$1" = alone ] || train=("${MPI[@]}" "${train[@]}" --set ranks=2 --set shard=ddp --set global_tokens=32)
  shift
  disturb records/records.jsonl train "$@"
}

# Two ranks, the second with one key more.
two_ranks() {
  local keys=("${TINY[@]}" --set ranks=2 --set shard=ddp --set global_tokens=32)
  "${MPI[@]:0:${#MPI[@]}-2}" -np 1 "$T" "${keys[@]}" : -np 1 "$T" "${keys[@]}" --set "$1"
}

# Resumes where another run saves.
second_run() {
  local code=0
  with checkpoint_dir=c resume=auto || code=$?
  [ "$code" = 5 ] || echo "the second run ended with $code, wanted 5" >broken
  kill_started -INT
}

# ---- files of tokens ----

little() { printf '%b' "$(printf '\\x%02x' $(($1 & 255)) $(($1 >> 8 & 255)) $(($1 >> 16 & 255)) $(($1 >> 24 & 255)))"; }

# bin MAGIC VERSION COUNT TOKEN...: d.bin as llm.c writes it, tokens of two bytes
bin() {
  { little "$1"; little "$2"; little "$3"; head -c 1012 /dev/zero; } >d.bin
  shift 3
  for token in "$@"; do little "$token" | head -c 2; done >>d.bin
}
# npy DICTIONARY: d.npy with numpy's header and eight zero bytes
npy() {
  printf '%b' '\x93NUMPY\x01\x00' "$(printf '\\x%02x\\x00' ${#1})" >d.npy
  printf '%s' "$1" >>d.npy
  head -c 8 /dev/zero >>d.npy
}

# ---- further checks, named in the last column ----

# The case that was attacked failed, the other one ran well.
check_other_went_on() {
  local table=out/paces/latest/runs.csv
  grep -q '%pace=short' "$table" 2>/dev/null && grep '%pace=short' "$table" | grep -q ',ok,' || echo "the other case did not run well"
}
# Of failing.yaml two cases failed, each as its own kind, and the sound one ran.
check_failing() {
  local table=out/failing/latest/runs.csv
  grep '%what=comm' "$table" | grep -q ',crash,' || echo "what=comm is not recorded as crash"
  grep '%what=heap' "$table" | grep -q ',oom,' || echo "what=heap is not recorded as oom"
  grep '%what=nothing' "$table" | grep -q ',ok,' || echo "what=nothing did not run well"
}
check_run_complete() { grep -q '"state":.*"complete"' out/*/latest/manifest.json || echo "the manifest does not say complete"; }
check_run_interrupted() { grep -q '"state":.*"interrupted"' out/*/latest/manifest.json || echo "the manifest does not say interrupted"; }
check_no_results() { [ -z "$(ls -d out records w 2>/dev/null)" ] || echo "files were written"; }
check_interrupted_record() { tail -n 1 records/records.jsonl | grep -q '"status":"interrupted","code":130' || echo "the last record does not say interrupted"; }
# The checkpoint is that of the last recorded step, and a run of one more step takes it.
check_saved() {
  local step
  step=$(grep -o '"type":"step","step":[0-9]*' records/records.jsonl | tail -n 1 | grep -o '[0-9]*$')
  [ -d "c/step-$(printf %09d "$step")" ] || echo "no checkpoint of step $step: $(ls -A c)"
  tiny --resume auto --set checkpoint_dir=c --set steps=$((step + 1)) --set global_tokens=32 >/dev/null 2>again || cat again
}
check_not_broken() { [ ! -e broken ] || cat broken; }
check_two_checkpoints() { [ "$(ls -A c)" = "$(printf 'step-000000001\nstep-000000002')" ] || echo "found $(ls -A c)"; }
check_pipe() { [ -p p ] || echo "the pipe was replaced"; }
check_no_end_record() { ! grep -q '"type":"end"' records/records.jsonl || echo "there is an end record"; }
check_no_weights() { [ ! -e small/w/model.safetensors ] || echo "a weights file stands under its name"; }

# Nothing that a terminal obeys has come out.
check_no_escape() {
  ! grep -q "$(printf '\033')" stdout stderr || echo "an escape sequence of a table was printed"
}

# The file of measured rates of this machine, made by a stand-in and then cut short.
run_with_broken_rates() {
  local file
  export XDG_CACHE_HOME=$PWD/cache
  printf '#!/bin/sh\necho "{\\"gemm_fp32_flops\\":1,\\"gemm_bf16_flops\\":1,\\"bandwidth_bytes_per_s\\":1,\\"kernel\\":\\"x\\"}"\n' >peaks
  chmod +x peaks
  MOEMARK_TRAINER=$PWD/peaks "$M" sysinfo --peaks >/dev/null 2>&1
  for file in cache/moemark/peaks-*.json; do truncate -s 9 "$file"; done
  # shellcheck disable=SC2119
  run
}
