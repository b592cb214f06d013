#!/usr/bin/env bash
# The memory of whole processes falls as planned: a model with some 40 M parameters (about 700 MiB of state) on four
# ranks under ddp, dist_opt and fsdp, and on one rank under none. The largest resident peak of the ranks (VmHWM, as
# wait4 reports it) must differ from that of ddp by what the memory plans differ, within 10 % of the plan's difference;
# none must be within 10 % of ddp.
#   shard_memory.sh TRAINER OUT     TRAINER: path of moemark-trainer; OUT: new folder
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
trainer=$1 out=$2
rm -rf "$out"
mkdir -p "$out"

# rank.py runs the trainer as a child and writes the child's resident peak, in KiB.
cat > "$out/rank.py" <<'EOT'
import os, resource, subprocess, sys
status = subprocess.run(sys.argv[2:]).returncode
rank = os.environ.get("OMPI_COMM_WORLD_RANK", "0")
with open(f"{sys.argv[1]}.{rank}.kib", "w") as f:
    f.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))
sys.exit(status)
EOT

run() { # name ranks settings...
  local name=$1 ranks=$2
  shift 2
  mpirun --allow-run-as-root --oversubscribe --bind-to none -np "$ranks" \
    python3 "$out/rank.py" "$out/$name" "$trainer" --out "$out/$name" \
    --set ranks="$ranks" --set layers=6 --set d_model=256 --set heads=4 --set kv_heads=2 --set head_dim=64 \
    --set experts=16 --set top_k=2 --set expert_hidden=512 --set vocab=1024 --set seq_len=64 --set rank_tokens=64 \
    --set global_tokens=$((64 * ranks)) --set precision=bf16 --set threads=1 --set steps=2 "$@" > "$out/$name.txt"
}

run none 1
run ddp 4 --set shard=ddp
run dist_opt 4 --set shard=dist_opt
run fsdp 4 --set shard=fsdp

python3 - "$out" <<'EOT'
import glob, json, sys
out, bad = sys.argv[1], 0
plan, peak = {}, {}
for name in ("none", "ddp", "dist_opt", "fsdp"):
    start = json.loads(open(f"{out}/{name}/records.jsonl").readline())
    plan[name] = sum(start["planned_bytes"].values()) / 2**20
    peak[name] = max(int(open(p).read()) for p in glob.glob(f"{out}/{name}.*.kib")) / 1024
for name in plan:
    planned, fell = plan["ddp"] - plan[name], peak["ddp"] - peak[name]
    allowed = 0.1 * (planned if name != "none" else plan["ddp"])
    ok = abs(fell - planned) <= allowed
    bad += not ok
    print(f"{name:9s} plan {plan[name]:7.1f} MiB, resident peak {peak[name]:7.1f} MiB; below ddp: planned {planned:7.1f}, "
          f"measured {fell:7.1f}" + ("" if ok else f"  FAIL: more than {allowed:.1f} apart"))
sys.exit(bad > 0)
EOT
