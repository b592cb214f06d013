#!/usr/bin/env bash
# Which PyTorch setting is at its best on this machine: implementations x precisions x compiled or not at one shape.
#   sweep.sh SHAPE [STEPS] [OUT_DIR]      writes OUT_DIR/sweep-SHAPE.csv (and .jsonl); defaults: 5 steps, build/peers
# Every setting runs once in a process of its own; then the finalists (the three fastest, and the two fastest in FP32) twice
# more, interleaved; the medians decide. SWEEP_IMPLS and SWEEP_DTYPES cut the sweep down; SWEEP_TIMEOUT_S (900) bounds a run.
# A launch waits until the machine is idle (at most SWEEP_WAIT_S, 300) and is done again, twice at most, when other processes
# took more than 5 % of the CPU meanwhile. Run again, it goes on where it stopped; delete the .jsonl to start anew.
# hf-batched is left out: it copies two expert matrices for every token and choice (17 GB at shape L).
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2; }
shape=$1 steps=${2:-5} out=${3:-$here/../../../build/peers}
python=${MOEMARK_PEER_VENV:-$here/../../../build/peers/venv}/bin/python
[ -x "$python" ] || { echo "sweep.sh: error: no $python: run $here/setup.sh first" >&2; exit 3; }
has() { "$python" -c "import importlib.util as u, sys; sys.exit(not u.find_spec('$1'))"; }
read -ra impls <<<"${SWEEP_IMPLS:-hf-eager hf-grouped plain-loop plain-grouped plain-fn $(has torchtitan && echo titan-moe) $(has olmo_core && echo olmo-ddp)}"
read -ra dtypes <<<"${SWEEP_DTYPES:-fp32 bf16 autocast}"
mkdir -p "$out"
jsonl=$out/sweep-$shape.jsonl csv=$out/sweep-$shape.csv
touch "$jsonl"
trap 'kill $(jobs -p) 2>/dev/null; exit 143' TERM INT HUP

busy() { # percent of the machine's CPU time used in the next two seconds
    { head -n 1 /proc/stat; sleep 2; head -n 1 /proc/stat; } |
        awk '{idle = $5 + $6 - idle; all = -all; for (i = 2; i <= 9; i++) all += $i} END {print int(100 - 100 * idle / all)}'
}
wait_for_calm() {
    local until=$((SECONDS + ${SWEEP_WAIT_S:-300}))
    while [ "$(busy)" -gt 5 ] && [ $SECONDS -lt $until ]; do sleep 3; done
}
rank() { "$python" "$here/to_record.py" rank "$jsonl" | tail -n +2; }
steady_launches() { rank | awk -F, -v i="$1" -v d="$2" '$1 == i && $2 == d && $5 == "yes" {n = $3} END {print n + 0}'; }

launch() { # IMPL DTYPE N: until there are N steady launches, three tries; a line of JSON each, and one to look at
    local _
    for _ in 1 2 3; do
        [ "$(steady_launches "$1" "$2")" -lt "$3" ] || return 0
        wait_for_calm
        timeout "${SWEEP_TIMEOUT_S:-900}" "$here/run.sh" "$1" "$shape" "$2" "$steps" >"$jsonl.last" 2>/dev/null &
        wait $! || true
        [ -s "$jsonl.last" ] || printf '{"schema":"moemark/peer/1","status":"timeout","impl":"%s","shape":"%s","dtype":"%s"}\n' "$1" "$shape" "$2" >"$jsonl.last"
        cat "$jsonl.last" >>"$jsonl"
        "$python" "$here/to_record.py" sweep "$jsonl" >"$csv"
        tail -n 1 "$csv" | cut -d, -f2-9,17 >&2
        grep -q '"status": "ok"' "$jsonl.last" || return 0
    done
}

for dtype in "${dtypes[@]}"; do
    for impl in "${impls[@]}"; do
        launch "$impl" "$dtype" 1
        launch "$impl-compile" "$dtype" 1
    done
done
finalists=$({ rank | head -n 3; rank | grep ',fp32,' | head -n 2; } | cut -d, -f1,2 | sort -u)
for n in 2 3; do
    for f in $finalists; do launch "${f%,*}" "${f#*,}" "$n"; done
done
rm -f "$jsonl.last"
final() { rank | grep -F "$(printf '%s,\n' $finalists)"; }
echo "fastest at $shape: $(final | head -n 1) (impl,dtype,launches,token/s,steady)"
echo "fastest in FP32:  $(final | grep ',fp32,' | head -n 1)"
echo "all of it: $csv"
