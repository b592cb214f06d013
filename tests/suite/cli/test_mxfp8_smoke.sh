#!/usr/bin/env bash
# The study mxfp8-vs-bf16 at smoke scale: all its cases run on two ranks, rows of MXFP8 say emulated and have no rate.
#   test_mxfp8_smoke.sh MOEMARK SOURCE
set -euo pipefail
moemark=$1 source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "FAIL $1"
  exit 1
}

"$moemark" run "$source/experiments/mxfp8-vs-bf16/study.yaml" --scale smoke -o "$work/out" > "$work/log" 2>&1 ||
  { cat "$work/log"; fail "the run ended with $?"; }
cd "$work/out/mxfp8-vs-bf16/latest"
column() { # COLUMN: case and that column of every row
  awk -F, -v name="$1" 'NR == 1 { for (i = 1; i <= NF; i++) { if ($i == name) at = i; if ($i == "case") c = i } next }
    { print $c ":" $at }' runs.csv | sort
}
[ "$(column kind | grep -c ':emulated$')" = 3 ] || { cat runs.csv; fail "three cases are emulated"; }
[ "$(column kind | grep 'prec=bf16:')" = "%prec=bf16:measured" ] || { cat runs.csv; fail "BF16 is measured"; }
for name in tok_s tok_s_gpu step_ms_p50 mfu_olmo3_pct; do
  ! column "$name" | grep mxfp8 | grep -q ':[0-9]' || { column "$name"; fail "$name of emulated arithmetic is reported"; }
  column "$name" | grep 'prec=bf16:' | grep -q ':[0-9]' || [ "$name" = mfu_olmo3_pct ] || fail "$name of BF16 is missing"
done
column loss_last | awk -F: '!($2 > 0) || seen[$2]++ { bad = 1 } END { exit bad }' ||
  { column loss_last; fail "four losses, all different"; }
grep -q '"kind":"emulated"' */launch-1/records.jsonl || fail "the trainer's record says emulated"
echo "mxfp8 smoke: passed"
