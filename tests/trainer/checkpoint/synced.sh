#!/usr/bin/env bash
# What a power cut would leave, by the order of the calls: content is synced before its file gets its name, files and their
# names before the folder gets its own, and the new checkpoint's name before an old one goes.
#   synced.sh TRAINER SHIM
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0" >&2; exit 2; }
trainer=$1 shim=$2
work=$(mktemp -d "${TMPDIR:-/tmp}/moemark-synced-XXXXXX")
trap 'rm -rf "$work"' EXIT
export OMP_NUM_THREADS=1
LD_PRELOAD=$shim MOEMARK_KILL_DIR=$work/c MOEMARK_KILL_LOG=$work/calls "$trainer" --set layers=1 --set d_model=16 \
  --set heads=2 --set kv_heads=1 --set head_dim=8 --set experts=4 --set top_k=2 --set expert_hidden=8 --set seq_len=8 \
  --set rank_tokens=16 --set global_tokens=32 --set threads=1 --set steps=3 --set checkpoint_every=1 \
  --set checkpoint_keep=1 --set checkpoint_dir="$work/c" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

awk '
  function folder(path) { sub(/\/[^\/]*$/, "", path); return path }
  function bad(why) { print "FAIL call " NR ": " $0 ": " why; failed = 1 }
  $1 == "write" { dirty[$2] = 1; written[$2] = 1 }
  $1 == "sync" { delete dirty[$2]; delete names[$2] }
  $1 == "move" && $2 in written {
    if ($2 in dirty) bad("the content is not synced")
    written[$3] = 1
    names[folder($3)] = 1
    next
  }
  $1 == "move" && $2 in whole {
    if (folder($2) in names) bad("an old checkpoint goes before the name of the new one is synced")
    next
  }
  $1 == "move" {
    for (file in dirty) if (index(file, $2 "/") == 1) bad(file " is not synced")
    if ($2 in names) bad("the names in the folder are not synced")
    whole[$3] = 1
    names[folder($3)] = 1
    checkpoints++
  }
  END {
    for (path in names) { print "FAIL at the end: the names in " path " are not synced"; failed = 1 }
    if (checkpoints != 3) { print "FAIL " checkpoints + 0 " folders got their names, expected 3"; failed = 1 }
    exit failed
  }' "$work/calls" || { sed "s|$work/||g" "$work/calls" | sed -n '1,60p'; exit 1; }
