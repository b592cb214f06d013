#!/bin/sh
# moemark run, status, report, baseline and sysinfo as programs: exit codes, messages, what lies on disk.
# usage: test_cli.sh MOEMARK FAKE_TRAINER STUDY
moemark=$1 MOEMARK_TRAINER=$2 study=$3
export MOEMARK_TRAINER
work=$(mktemp -d /tmp/moemark-cli-XXXXXX) || exit 1
full=$work/full
trap 'umount "$full" 2>/dev/null; rm -rf "$work"' EXIT
. "$(dirname "$0")/../checks.sh"

run "good run" 0 "$moemark" run "$study" -o "$work/out"
latest=$work/out/fake/latest
has "good run" "$work/stdout" "tok_s in token/s"
has "good run" "$work/stdout" "low_n"
has "good run" "$work/stderr" "4/4"
[ "$(wc -l <"$latest/runs.csv")" = 5 ] || fail "runs.csv has not four rows"
for file in manifest.json runs.csv steps.csv summary.csv contrasts.csv claims.csv flops.csv verdict.json report.md curves.csv; do
  [ -s "$latest/$file" ] || fail "no $file"
done
has "base is named" "$work/stdout" "base experts=8"
has "manifest" "$latest/manifest.json" '"state":	"complete"'
first=$(readlink "$latest")
run "second run" 0 "$moemark" run "$study" -o "$work/out" --launches 1 -q
[ "$(readlink "$latest")" != "$first" ] && [ -d "$work/out/fake/$first" ] || fail "a run folder was overwritten"

run "status" 0 "$moemark" status "$latest" --format csv
has "status" "$work/stdout" "launch-1"
run "status of nothing" 2 "$moemark" status "$work"
run "report" 0 "$moemark" report "$latest"
has "report" "$work/stdout" "%experts=16"
run "report as Markdown" 0 "$moemark" report "$latest" --md
has "report as Markdown" "$work/stdout" "| case | n |"
run "report of nothing" 2 "$moemark" report "$work/out"


# a table that has lost its last line whole, or has one too many, still reads well: the counts do not
for file in launches.csv steps.csv summary.csv contrasts.csv claims.csv; do
  rm -rf "$work/cut" && cp -r "$latest/" "$work/cut" && sed -i '$d' "$work/cut/$file"
  run "$file without its last line" 2 "$moemark" report "$work/cut"
  has "$file without its last line" "$work/stderr" "/$file: $(($(wc -l <"$work/cut/$file") - 1)) rows, but "
done
cp "$latest/claims.csv" "$work/cut/claims.csv" && tail -n 1 "$latest/claims.csv" >>"$work/cut/claims.csv"
run "a claim too many" 2 "$moemark" report "$work/cut"
rm -rf "$work/cut" && cp -r "$latest/" "$work/cut" && sed -i '$d' "$work/cut/launches.csv"
run "status of a run that lost a launch" 2 "$moemark" status "$work/cut"
has "status of a run that lost a launch" "$work/stderr" "launches.csv: 1 rows, but manifest.json says 2"
rm "$work/cut/manifest.json"
run "status without a manifest" 0 "$moemark" status "$work/cut"
rm -rf "$work/cut" && cp -r "$latest/" "$work/cut"
sed -i 's/"rows":/"other":/' "$work/cut/manifest.json" "$work/cut/verdict.json" # older versions wrote no counts
sed -i '$d' "$work/cut/steps.csv"
run "report of a run without counts" 0 "$moemark" report "$work/cut"

run "option from the environment" 0 env MOEMARK_LAUNCHES=1 "$moemark" run "$study" -o "$work/env" -q
[ "$(wc -l <"$work/env/fake/latest/runs.csv")" = 3 ] || fail "MOEMARK_LAUNCHES was not heard"
run "scope of a capacity" 0 "$moemark" run "$study" -o "$work/scope" -q --launches 1 -S capacity_factor=1.25 -S capacity_scope=expert \
  -S ranks=2 -S ep=2 -S shard=ddp -S ep_transport=rowwise -S global_tokens=512
has "scope of a capacity" "$work/scope/fake/latest/manifest.json" '"capacity_scope":	"expert"'
head -n 1 "$work/scope/fake/latest/runs.csv" | grep -q ',capacity_scope$' || fail "runs.csv has no column capacity_scope"
tail -n 1 "$work/scope/fake/latest/runs.csv" | grep -q ',expert$' || fail "runs.csv does not show the scope of the capacity"
run "one case" 0 "$moemark" run "$study" -o "$work/one" -q -E "experts == 16"
grep -q '%experts=8' "$work/one/fake/latest/runs.csv" && fail "-E let another case through"

run "one case crashes" 3 env FAKE_8=crash "$moemark" run "$study" -o "$work/crash"
has "reason" "$work/stdout" "error: the fake fell over"
has "way back" "$work/stdout" "rerun: moemark run"
has "verdict file" "$work/crash/fake/latest/verdict.json" '"exit_code":	3'
has "the other case" "$work/crash/fake/latest/runs.csv" "%experts=16"
run "non-finite loss" 3 env FAKE_16=nonfinite "$moemark" run "$study" -o "$work/nan" -q
run "undeclared oom" 3 env FAKE=oom "$moemark" run "$study" -o "$work/oom" -q
run "stopped trainer" 3 env FAKE_8=stopped "$moemark" run "$study" -o "$work/stop" --timeout 0.5
has "stopped trainer" "$work/stdout" "no new record"
run "claim not met" 1 env FAKE_TIME_16=0.2 "$moemark" run "$study" -o "$work/slow" -q
has "claim not met" "$work/stdout" "not met (low_n)"

# several ranks: whatever one rank does, the launch fails soon and nothing stays (open-mpi/ompi#4543, #1379)
two="-S ranks=2 -S shard=dist_opt -S global_tokens=512 --launches 1"
run "two ranks" 0 "$moemark" run "$study" -o "$work/two" -q $two
has "two ranks" "$work/two/fake/latest/experts=8/launch-1/command" "-np 2"
for end in crash segv abort; do
  run "rank 1: $end" 3 timeout 60 env FAKE=silent FAKE_RANK1=$end "$moemark" run "$study" -o "$work/rank-$end" $two
  has "rank 1: $end" "$work/stdout" "FAIL"
done
run "rank 1: stopped" 3 timeout 60 env FAKE=silent FAKE_RANK1=stopped "$moemark" run "$study" -o "$work/rank-stop" --timeout 0.5 $two
has "rank 1: stopped" "$work/stdout" "timeout: no new record"
ps -eo args | grep -F "$work" | grep -v -e grep -e test_cli && fail "ranks were left behind"

run "no such study" 2 "$moemark" run "$work/no.yaml"
run "no file" 2 "$moemark" run
run "unknown option" 2 "$moemark" run "$study" --no-such-option
run "no such case" 2 "$moemark" run "$study" -o "$work/none" -E "experts == 99"
run "no trainer" 3 env MOEMARK_TRAINER=/nowhere "$moemark" run "$study" -o "$work/none"
run "no mpirun" 3 env PATH=/nowhere "$moemark" run "$study" -o "$work/none" -S ranks=2 -S shard=dist_opt -S global_tokens=512
has "no mpirun" "$work/stderr" "openmpi-bin"
[ "$(wc -l <"$work/stderr")" -le 2 ] || fail "more than one message for a missing mpirun"
: >"$work/file"
run "results not writable" 5 "$moemark" run "$study" -o "$work/file"
has "results not writable" "$work/stderr" "$work/file"

run "no baseline" 5 "$moemark" baseline show fake --baselines "$work/accepted"
run "baseline of a run with two launches" 5 "$moemark" baseline update --from "$work/out/fake/$first" --baselines "$work/accepted"
has "baseline" "$work/stderr" "refused"
[ -e "$work/accepted" ] && fail "a refused baseline left files"
run "baseline without words" 2 "$moemark" baseline

run "sysinfo" 0 env XDG_CACHE_HOME="$work/cache" "$moemark" sysinfo --json
has "sysinfo" "$work/stdout" '"cpu_model"'
mkdir -p "$work/trainer"
printf '#!/bin/sh\necho "{\\"gemm_fp32_flops\\":3e11,\\"gemm_bf16_flops\\":6e11,\\"bandwidth_bytes_per_s\\":2e10,\\"kernel\\":\\"native\\"}"\n' >"$work/trainer/peaks"
chmod +x "$work/trainer/peaks"
run "peaks" 0 env XDG_CACHE_HOME="$work/cache" MOEMARK_TRAINER="$work/trainer/peaks" "$moemark" sysinfo --peaks
run "peaks are kept" 0 env XDG_CACHE_HOME="$work/cache" "$moemark" sysinfo
has "peaks are kept" "$work/stdout" "300000000000"
run "peaks of a broken trainer" 3 env XDG_CACHE_HOME="$work/cache2" MOEMARK_TRAINER=/bin/false "$moemark" sysinfo --peaks
run "a rate above the peak" 0 env FAKE_FLOPS_8=1506432 XDG_CACHE_HOME="$work/cache" "$moemark" run "$study" -o "$work/mfu" -q
grep -q ',3e+11,\|,300000000000,' "$work/mfu/fake/latest/runs.csv" || fail "runs.csv does not name the peak"

# SIGINT during a silent launch: 130, partial results, nothing left behind
FAKE=silent "$moemark" run "$study" -o "$work/int" >"$work/stdout" 2>"$work/stderr" &
pid=$!
until ls "$work"/int/fake/latest/*/launch-1/records.jsonl >/dev/null 2>&1; do sleep 0.1; done
kill -INT $pid
wait $pid
code=$?
[ $code = 130 ] || fail "interrupted run: exit code $code, wanted 130"
has "interrupted run" "$work/int/fake/latest/manifest.json" '"state":	"interrupted"'
has "interrupted run" "$work/int/fake/latest/runs.csv" "interrupted"
has "interrupted run" "$work/int/fake/latest/verdict.json" '"exit_code":	130'
ps -eo args | grep -F "$work/int" | grep -v grep && fail "the interrupted run left processes behind"

# a disk that is too small for the second launch's output
mkdir "$full"
if mount -t tmpfs -o size=600k tmpfs "$full" 2>/dev/null; then
  FAKE=big FAKE_MIB=1 "$moemark" run "$study" -o "$full" >"$work/stdout" 2>"$work/stderr" </dev/null
  code=$?
  case $code in
    3 | 5) ;;
    *) fail "full disk: exit code $code, wanted 3 or 5" && cat "$work/stderr" ;;
  esac
  [ "$(grep -c 'error:' "$work/stderr")" = 1 ] || { fail "full disk: not exactly one message" && cat "$work/stderr"; }
  find "$full" -name '*.tmp*' | grep . && fail "full disk: a temporary file was left"
  for file in "$full"/fake/latest/*.csv; do
    [ -z "$(tail -c 1 "$file")" ] || fail "full disk: $file is cut off"
  done
else
  echo "SKIP full disk: mounting a tmpfs is not permitted here"
fi

end_checks "all command-line checks hold"
