#!/bin/sh
# Spoiled folders must not pass: moemark-golden ends with 1 for wrong values and with 2 for what it cannot read.
# Usage: test_exit_codes.sh MOEMARK_GOLDEN FOLDER
set -u
program=$1
folder=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0

# expect CODE WORDS: runs on $work/g, which must end with CODE and print WORDS
expect() {
  "$program" "$work/g" > "$work/out" 2>&1
  code=$?
  if [ "$code" -ne "$1" ] || ! grep -q -e "$2" "$work/out"; then
    echo "FAIL: $3: exit code $code, expected $1 and '$2'; last lines:"
    tail -n 3 "$work/out"
    failures=$((failures + 1))
  fi
}

fresh() {
  rm -rf "$work/g"
  cp -r "$folder" "$work/g"
}

# put OFFSET FILE: overwrites 8 bytes with the double 2^32
put() {
  printf '\000\000\000\000\000\000\360\101' | dd of="$2" bs=1 seek="$1" conv=notrunc status=none
}

fresh
expect 0 "0 outside" "untouched folder"
put $(($(stat -c %s "$work/g/golden_f64.safetensors") - 8)) "$work/g/golden_f64.safetensors"
expect 1 "FAIL" "one reference value changed"

fresh
sed 's/"weight_decay": 0.1/"weight_decay": 0.2/' "$folder/golden.json" > "$work/g/golden.json"
expect 1 "step 1, no clip .*FAIL" "another weight decay"

fresh
sed 's/"norm_topk_prob": false/"norm_topk_prob": true/' "$folder/golden.json" > "$work/g/golden.json"
expect 1 "expert weights .*FAIL" "weights renormalised"

fresh
rm "$work/g/golden.safetensors"
expect 2 "golden.safetensors: cannot open" "a missing file"

fresh
truncate -s -1 "$work/g/golden.safetensors"
expect 2 "golden.safetensors: tensor" "a file cut short"

fresh
sed 's/"model_type": "olmoe"/"model_type": "gpt2"/' "$folder/golden.json" > "$work/g/golden.json"
expect 2 "model_type 'gpt2'" "another architecture"

fresh
sed 's/"hidden_size": 64/"hidden_size": 128/' "$folder/golden.json" > "$work/g/golden.json"
expect 2 "expected shape" "weights of another width"

fresh
echo "{" > "$work/g/golden.json"
expect 2 "golden.json: not a JSON object" "broken JSON"

if "$program" "$folder" > /dev/full 2> "$work/out" || ! grep -q "cannot write to standard output" "$work/out"; then
  echo "FAIL: a full standard output is not told: $(cat "$work/out")"
  failures=$((failures + 1))
fi

[ "$failures" -eq 0 ] && echo "exit codes: all as documented"
exit "$failures"
