#!/bin/sh
# Stands in for moemark-trainer: writes canned records and ends as $FAKE_<experts> says (experts from run.json), else
# $FAKE; ranks above 0 end as $FAKE_RANK1 says. Ends: ok oom nonfinite crash segv silent stopped orphans noend lie resumed lost garbage slow selfkill config big:<MiB>.
# shellcheck disable=SC2154 # eval sets mode, params, flops and time
while [ $# -gt 0 ]; do
  case $1 in
    --config) config=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    *) echo "fake: unknown argument $1" >&2; exit 2 ;;
  esac
done
key() { sed -n "s/.*\"$1\":[^0-9]*\([0-9][0-9]*\).*/\1/p" "$config" | head -n 1; }
experts=$(key experts) warmup=$(key warmup_steps) steps=$(key steps)
eval "mode=\${FAKE_$experts:-\${FAKE:-ok}}"
eval "params=\${FAKE_PARAMS_$experts:-null} flops=\${FAKE_FLOPS_$experts:-null}"
eval "time=\${FAKE_TIME_$experts:-${FAKE_TIME:-0.1}}"
records=$out/records.jsonl
line() { printf '%s\n' "$1" >>"$records"; }
start() {
  line "{\"schema\":\"moemark/record/1\",\"type\":\"start\",\"ranks\":1,\"device\":\"cpu\",\"describe\":\"fake\",\"kernel\":\"fp32\",\"isa\":\"none\",\"library\":\"none\",\"threads\":1,\"params_total\":$params,\"flop_token\":$flops}"
}
step() { # number time loss
  line "{\"type\":\"step\",\"step\":$1,\"time_s\":$2,\"time_median_s\":$2,\"tokens\":1000,\"loss\":$3,\"drop_rate\":0.0,\"imbalance\":1.0,\"skipped\":0}"
}
end() { line "{\"type\":\"end\",\"status\":\"$1\",\"code\":$2,\"message\":\"$3\",\"peak_total_bytes\":1048576}"; exit "$2"; }
all_steps() {
  n=1
  while [ $n -le $((warmup + steps)) ]; do step $n "$time" 5.5; n=$((n + 1)); done
}
echo "fake trainer: $mode"
heard=${MOEMARK_SET:-}${MOEMARK_CONFIG:-}${MOEMARK_OUT:-}${MOEMARK_RESUME:-} # the real one reads these
[ -z "$heard" ] || { echo "fake: a variable of the caller came through: $heard" >&2; exit 2; }
if [ "${OMPI_COMM_WORLD_RANK:-0}" != 0 ]; then # other ranks write no records
  case ${FAKE_RANK1:-ok} in
    ok) exit 0 ;;
    crash) exit 3 ;;
    segv) kill -SEGV $$ ;;
    abort) kill -ABRT $$ ;;
    stopped) kill -STOP $$; sleep 600 ;;
  esac
fi
case $mode in
  ok) start; all_steps; end ok 0 "" ;;
  oom) start; end oom 3 "budget of 1 MiB exceeded" ;;
  nonfinite) start; step 1 0.1 null; end nonfinite 3 "loss is not finite" ;;
  config) end config 2 "top_k: larger than experts" ;;
  crash) start; step 1 0.1 5.5; echo "error: the fake fell over" >&2; exit 7 ;;
  segv) start; kill -SEGV $$ ;;
  selfkill) start; kill -KILL $$ ;;
  noend) start; all_steps; exit 0 ;;
  lie) start; all_steps; line '{"type":"end","status":"ok","code":0,"message":""}'; exit 9 ;;
  resumed) line '{"type":"start","ranks":1,"resumed_step":3}'; all_steps; end ok 0 "" ;;
  lost) start; all_steps; line '{"type":"end","status":"ok","code":0,"message":"","steps":9}'; exit 0 ;;
  garbage) start; line 'this is no JSON'; exit 0 ;;
  silent) start; step 1 0.1 5.5; sleep 600 ;;
  stopped) start; step 1 0.1 5.5; kill -STOP $$; sleep 600 ;;
  deaf) start; trap '' TERM INT; step 1 0.1 5.5; while :; do sleep 1; done ;;
  orphans) # a child in its own session that ignores SIGTERM, and outlives us
    start; all_steps
    setsid sh -c 'trap "" TERM; sleep 600 & sleep 601' >/dev/null 2>&1 &
    sleep 0.2; end ok 0 "" ;;
  slow) # each step takes 0.4 s: never silent for long
    start; n=1
    while [ $n -le $((warmup + steps)) ]; do sleep 0.4; step $n 0.4 5.5; n=$((n + 1)); done
    end ok 0 "" ;;
  late) # the first step takes 1.5 limits of a test with 1 s, later ones none
    start; sleep 1.5; all_steps; end ok 0 "" ;;
  big) start; all_steps; dd if=/dev/zero of="$out/ballast" bs=1M count="${FAKE_MIB:-64}" 2>/dev/null; end ok 0 "" ;;
  *) echo "fake: unknown mode $mode" >&2; exit 2 ;;
esac
