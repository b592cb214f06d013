#!/bin/sh
# moemark list, check, plan: exit codes, messages, formats, environment before command line.
# usage: test_verbs.sh MOEMARK SOURCE_FOLDER
moemark=$1 source=$2
study=$source/experiments/expert-scaling/study.yaml
work=$(mktemp -d /tmp/moemark-verbs-XXXXXX) || exit 1
trap 'rm -rf "$work"' EXIT
. "$source/tests/suite/checks.sh"
cd "$work" || exit 1 # nothing may be found through the current folder

run "no verb" 2 "$moemark"
run "help" 0 "$moemark" --help
for code in "  0  everything" "  1  a judgement" "  2  the command" "  3  a run" "  5  refused" "130  interrupted"; do has "help" stdout "$code"; done
run "version" 0 "$moemark" --version
has "version" stdout "moemark 0."
run "unknown verb" 2 "$moemark" chek x
has "unknown verb" stderr "unknown verb 'chek'; the nearest is 'check'"
for verb in list check plan run status report baseline sysinfo; do
  run "$verb --help" 0 "$moemark" $verb --help
  has "$verb --help" stdout "Usage: moemark $verb"
  run "$verb, unknown option" 2 "$moemark" $verb --no-such-option
done

run "list studies" 0 "$moemark" list studies
has "list studies" stdout "expert-scaling"
has "list studies" stdout "peer-cpu"
run "list by tag" 0 "$moemark" list studies -t peers
hasnt "list by tag" stdout "expert-scaling"
run "list by name" 0 "$moemark" list studies -n '^expert'
hasnt "list by name" stdout "peer-cpu"
run "list cases" 0 "$moemark" list cases "$study" -s local -E "experts >= 32" --format csv
has "list cases" stdout "expert-scaling,local,%experts=128 %stack=dist_opt_ep,"
hasnt "list cases" stdout "%experts=8 "
run "list systems" 0 "$moemark" list systems
has "list systems" stdout "b300x512"
run "list metrics" 0 "$moemark" list metrics --format json
has "list metrics" stdout '"metric":	"tok_s"'
run "list baselines" 0 "$moemark" list baselines
has "list baselines" stdout "olmocore3"
run "list nothing" 2 "$moemark" list studeis
has "list nothing" stderr "is not one of studies, cases, systems, metrics, baselines"
run "bad expression" 2 "$moemark" list cases "$study" -E "experts >="
has "bad expression" stderr "a level expected"

run "check" 0 "$moemark" check "$source"/experiments/*/study.yaml
has "check" stdout "study.yaml: ok ("
run "check without file" 2 "$moemark" check
run "check a missing file" 2 "$moemark" check nosuch.yaml
has "check a missing file" stderr "nosuch.yaml:1:1: error: cannot open: No such file"
run "check a broken file" 2 "$moemark" check "$source/tests/suite/study/bad/several.yaml" "$source/tests/suite/study/good.yaml"
has "check a broken file" stderr "several.yaml:7:1: error: unknown key 'titel' in a study; the nearest is 'title'"
has "check a broken file" stderr "several.yaml:18:45: error:"
has "check a broken file" stdout "good.yaml: ok"
cp "$source/tests/suite/study/good.yaml" "$work/plan.yaml"
sed -i 's/global_tokens: 512/global_tokens: 500/' "$work/plan.yaml"
run "check plans every scale" 2 "$moemark" check plan.yaml
has "check plans every scale" stderr "global_tokens: 500 is not a multiple"

run "plan" 0 "$moemark" plan "$study" --scale local --format csv
has "plan" stdout "study,scale,case,hash,ranks,params_total,params_active,flop_token,mem_params_gib"
has "plan" stdout "oom (replicated weights and gradients exceed the scaled budget"
[ "$(wc -l <"$work/stdout")" = 9 ] || fail "plan: not eight cases"
run "plan, scale of another system" 0 "$moemark" plan "$study" --scale published --format csv
has "plan, scale of another system" stdout "expert-scaling,published,%experts=128 %stack=dist_opt_ep,"
for device in "" "--device cpu"; do
  run "run, scale of another system" 5 "$moemark" run "$study" --scale published -o "$work/out" $device
  has "run, scale of another system" stderr ": scale 'published' runs on system b300x8 (8 x B300), not on device cpu; use --scale local here"
  [ ! -e "$work/out" ] || fail "run: a refused run left a folder"
done
run "plan, unknown scale" 2 "$moemark" plan "$study" --scale big
has "plan, unknown scale" stderr "has no scale 'big'"
run "plan, override" 0 "$moemark" plan "$study" -S lr=0.1 -S routing=replay --format csv
has "plan, override" stdout "unsupported:"
run "plan, wrong key" 2 "$moemark" plan "$study" -S lrr=0.1
has "plan, wrong key" stderr "unknown key 'lrr'; the nearest is 'lr'"
run "plan, key of a factor" 2 "$moemark" plan "$study" -S experts=4
has "plan, key of a factor" stderr "factor 'experts'"

run "plan as text" 0 "$moemark" plan "$study"
hasnt "plan as text" stdout "params_total"
has "plan as text" stdout "planned_gib"

# installed: bin/moemark finds share/moemark beside it
mkdir -p inst/bin inst/share/moemark/suite inst/share/moemark/baselines inst/share/moemark/experiments
cp "$moemark" inst/bin/
cp -r "$source/suite/models" "$source/suite/systems" inst/share/moemark/suite/
cp -r "$source/baselines/published" inst/share/moemark/baselines/
cp -r "$source/experiments/expert-scaling" inst/share/moemark/experiments/
run "installed" 0 inst/bin/moemark list studies
has "installed" stdout "inst/bin/../share/moemark/experiments/expert-scaling/study.yaml"
hasnt "installed" stdout "peer-cpu"
run "installed check" 0 inst/bin/moemark check inst/share/moemark/experiments/expert-scaling/study.yaml

# a fault of a model file is said once, however many cases and scales use the model
sed -i '0,/params_total_no_norms: /s//params_total_no_norms: 9/' inst/share/moemark/suite/models/olmo3-8l-local.yaml
run "check with a broken model" 2 inst/bin/moemark check inst/share/moemark/experiments/expert-scaling/study.yaml
[ "$(grep -c 'olmo3-8l-local.yaml:[0-9]*:[0-9]*: error: params_total_no_norms: the file says' "$work/stderr")" = 1 ] ||
  { fail "check with a broken model: its fault is not said once"; sed 's/^/    /' "$work/stderr"; }

run "environment" 0 env MOEMARK_SCALE=local MOEMARK_FORMAT=csv "$moemark" plan "$study"
has "environment" stdout "expert-scaling,local,"
run "command line beats environment" 0 env MOEMARK_SCALE=local MOEMARK_FORMAT=json "$moemark" plan "$study" -s smoke -f csv
has "command line beats environment" stdout "expert-scaling,smoke,"
run "several overrides in the environment" 0 env MOEMARK_SET="lr=0.1 seed=7" "$moemark" plan "$study"
run "wrong environment" 2 env MOEMARK_FORMAT=xml "$moemark" plan "$study"
has "wrong environment" stderr "'xml' is not table, csv or json"
if [ -w /dev/full ]; then
  "$moemark" plan "$study" >/dev/full 2>"$work/stderr"
  [ $? = 5 ] || fail "full disk: exit code is not 5"
  has "full disk" stderr "standard output: cannot write"
fi

end_checks "all verbs behave"
