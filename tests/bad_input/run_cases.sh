#!/usr/bin/env bash
# Every case of cases.tsv: the command must fail as documented, say so in one line, and leave nothing behind.
# usage: run_cases.sh BIN SOURCE [-g GROUP] [ID...]     BIN: folder of moemark and moemark-trainer; SOURCE: the tree
# One line a case (ok, FAIL with the reason, skip with the reason), then "N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 2 ] || { echo "usage: run_cases.sh BIN SOURCE [-g GROUP] [ID...]" >&2; exit 2; }
BIN=$(cd "$1" && pwd) SOURCE=$(cd "$2" && pwd)
shift 2
group=
[ "${1:-}" = -g ] && { group=$2; shift 2; }
export BIN SOURCE OMP_NUM_THREADS=1
export M=$BIN/moemark T=$BIN/moemark-trainer BAD=$SOURCE/tests/suite/study/bad
export STUDY=$SOURCE/experiments/expert-scaling/study.yaml
for name in $(compgen -e MOEMARK_); do unset "$name"; done
work=$(mktemp -d /tmp/moemark-bad-XXXXXX) || exit 1
export WORK=$work XDG_CACHE_HOME=$work/cache
tag=MOEMARK_CASE # not read by any program; found again in /proc/<pid>/environ; its value names this run's folder too
trap 'rm -rf "$work"' EXIT
# shellcheck source=tests/bad_input/functions.sh
source "$here/functions.sh"
passed=0 failed=0 skipped=0

# Processes that carry the case's mark, whatever process group they are in.
left_behind() {
  local file
  for file in /proc/[0-9]*/environ; do
    if grep -qzsxF "$tag=$1 $work" "$file" 2>/dev/null; then
      file=${file%/environ}
      [ "$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "$file/status" 2>/dev/null)" = Z ] || echo "${file#/proc/}"
    fi
  done
}

# What is wrong with the case's end, one reason a line.
reasons() { # id wanted_codes regex check code
  local id=$1 codes=$2 regex=$3 check=$4 code=$5 lines wanted=1 pids second
  case " $codes " in *" $code "*) ;; *) echo "exit code $code, wanted $codes" ;; esac
  # mpirun and its helpers say what they like; ours begin with "moemark" or with the place in a study file
  lines=$(grep -aE '^(moemark(\[rank [0-9]+\])?|[^ ]+:[0-9]+:[0-9]+): error: ' stderr)
  [[ $check =~ (^| )lines=([0-9]+|any) ]] && wanted=${BASH_REMATCH[2]}
  [ -z "$lines" ] && second=0 || second=$(printf '%s\n' "$lines" | wc -l)
  [ "$wanted" = any ] || [ "$second" = "$wanted" ] || echo "$second error lines, wanted $wanted"
  printf '%s\n' "$lines" | grep -qE -- "$regex" || echo "no error line matches '$regex'"
  for ((second = 0; second < 100; second++)); do # ten seconds
    pids=$(left_behind "$id")
    [ -z "$pids" ] && break
    sleep 0.1
  done
  if [ -n "$pids" ]; then
    echo "still running after 10 s: $(ps -o args= -p "${pids//$'\n'/,}" | tr '\n' ';' | cut -c1-200)"
    # shellcheck disable=SC2086 # a list of numbers
    kill -9 $pids 2>/dev/null # ours: they carry the mark of this case
  fi
  find . -name '*.tmp*' -printf 'temporary file left: %P\n'
  find . -name records.jsonl -print0 | while IFS= read -r -d '' file; do
    [ -z "$(tail -c 1 "$file" | tr -d '\n')" ] || echo "$file ends within a line"
    [[ $check =~ (^| )some_ok ]] || ! tail -n 1 "$file" | grep -q '"type":"end","status":"ok"' || echo "$file looks whole"
  done
  [[ $check =~ (^| )(has|gone|check)_ ]] && for second in $check; do
    case $second in has_* | gone_* | check_*) "$second" 2>&1 ;; esac
  done
}

run_case() { # id attacks command codes regex check
  local id=$1 command=$3 code text
  mkdir -p "$work/$id" && cd "$work/$id" || exit 1
  env "$tag=$id $work" timeout -k 5 100 setsid --wait bash -c "source '$here/functions.sh'; $command" >stdout 2>stderr </dev/null
  code=$?
  if [ -e skip ]; then
    skipped=$((skipped + 1))
    echo "skip $id: $(cat skip)"
  else
    text=$(reasons "$id" "$4" "$5" "$6" "$code")
    if [ -z "$text" ]; then
      passed=$((passed + 1))
      echo "ok   $id: $2"
    else
      failed=$((failed + 1))
      echo "FAIL $id: $2: ${text//$'\n'/; }"
      sed 's/^/     | /' stderr | head -20
    fi
  fi
  cd "$work" && rm -rf "${work:?}/$id"
}

prepare_weights || { echo "FAIL: the good weights that the cases spoil could not be made"; exit 1; }
while IFS=$'\t' read -r id kind attacks command codes regex check; do
  case $id in '' | '#'* | id) continue ;; esac
  if [ $# -gt 0 ]; then
    [[ " $* " == *" $id "* ]] || continue
  elif [ -n "$group" ] && [ "$kind" != "$group" ]; then
    continue
  fi
  run_case "$id" "$attacks" "$command" "$codes" "$regex" "$check"
done <"$here/cases.tsv"
[ "$skipped" = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
