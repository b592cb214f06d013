#!/usr/bin/env bash
# Runs one peer once and prints exactly one JSON line; messages go to stderr.
#   run.sh IMPL SHAPE DTYPE [STEPS] [bench_peer.py options]     e.g. run.sh plain-fn-compile S fp32 8
# Threads: OMP_NUM_THREADS, else 2. Python: $MOEMARK_PEER_VENV (made by setup.sh), else build/peers/venv.
# Exit: 0 ok, 2 wrong use, 3 the peer failed (the JSON line then has status "failed" and a reason).
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 3 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
impl=$1 shape=$2 dtype=$3 steps=${4:-8}
shift $(($# < 4 ? 3 : 4))
threads=${OMP_NUM_THREADS:-2}
python=${MOEMARK_PEER_VENV:-$here/../../../build/peers/venv}/bin/python

failed() { # reason, exit code
    printf '{"schema":"moemark/peer/1","status":"failed","impl":"%s","shape":"%s","dtype":"%s","threads":%d,"reason":"%s"}\n' \
        "$impl" "$shape" "$dtype" "$threads" "$(printf '%s' "$1" | tr -d '\000-\037' | sed 's/[\\"]/\\&/g')"
    exit "$2"
}
[ -x "$python" ] || failed "no Python environment: run baselines/peers/torch/setup.sh, or set MOEMARK_PEER_VENV" 3

tcmalloc=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | awk '$1 == "libtcmalloc_minimal.so.4" {print $NF; exit}')
tmp=$(mktemp -d) || failed "mktemp failed" 3
trap 'rm -rf "$tmp"' EXIT
env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE ${tcmalloc:+LD_PRELOAD=$tcmalloc} OMP_NUM_THREADS="$threads" PYTHONDONTWRITEBYTECODE=1 \
    "$python" "$here/bench_peer.py" --impl "$impl" --shape "$shape" --dtype "$dtype" --steps "$steps" --threads "$threads" "$@" \
    >"$tmp/out" 2>"$tmp/err" &
pid=$!
trap 'kill $pid 2>/dev/null; wait $pid; exit 143' TERM INT HUP # a peer left running would disturb whatever is measured next
wait $pid
rc=$?
[ $rc -eq 0 ] && [ -s "$tmp/out" ] && { tail -n 1 "$tmp/out"; exit 0; }
cat "$tmp/err" >&2
failed "exit status $rc: $(tail -n 1 "$tmp/err")" $((rc == 2 ? 2 : 3))
