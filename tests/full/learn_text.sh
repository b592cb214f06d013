#!/usr/bin/env bash
# It learns as well as others in the same time: the text of Debian's perl-doc as bytes, 4 layers, 16 experts, 8 minutes
# each on 2 cores, first Hugging Face OLMoE with grouped GEMM, then moemark; held-out loss, load imbalance, both curves.
#   learn_text.sh TRAINER OUT [SECONDS]     TRAINER: path of moemark-trainer; OUT: new folder for curves and records
# Passes when moemark's held-out loss is at most the peer's and the worst layer's imbalance (max/mean of expert counts),
# averaged over the last 50 steps, is below 2.5. Needs baselines/peers/torch/setup.sh.
set -euo pipefail
[ $# -ge 2 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
trainer=$1 out=$2 seconds=${3:-480}
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=${MOEMARK_PEER_VENV:-$root/build/peers/venv}
[ -x "$venv/bin/python" ] || { echo "learn_text.sh: error: no Python environment in $venv; run baselines/peers/torch/setup.sh" >&2; exit 3; }
mkdir -p "$out"
text=$out/perl-doc.txt
bash "$root/trainer/data/perl_pods.sh" "$text"
preload=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | awk '$1 == "libtcmalloc_minimal.so.4" && !found {print $NF; found = 1}')

echo "== Hugging Face OLMoE, grouped GEMM, $seconds s"
env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE ${preload:+LD_PRELOAD=$preload} OMP_NUM_THREADS=2 \
  "$venv/bin/python" "$root/baselines/peers/hf/learn_text.py" --seconds "$seconds" --text "$text" --threads 2 \
  --curve "$out/hf.csv" | tail -n 1 > "$out/hf.json"

echo "== moemark, $seconds s"
"$trainer" --out "$out/moemark" \
  --set model=text-4l --set layers=4 --set d_model=256 --set heads=4 --set kv_heads=2 --set head_dim=64 \
  --set experts=16 --set top_k=4 --set expert_hidden=256 --set vocab=256 --set norm=pre --set qk_norm=head \
  --set norm_topk=true --set lb_weight=0.01 --set router_z_weight=1e-4 --set init_std=0.02 \
  --set seq_len=256 --set rank_tokens=3072 --set global_tokens=3072 --set precision=bf16 --set routing=learned \
  --set lr=2e-3 --set schedule=cosine --set lr_min_ratio=0.1 --set clip=1 --set decay=all --set weight_decay=0.1 \
  --set data=bytes --set data_path="$text" --set holdout=0.1 --set label_shift_inside=false --set eval_tokens=65536 \
  --set threads=2 --set steps=1000000 --set time_limit_s="$seconds"

python3 - "$out" "$seconds" <<'EOT'
import csv, json, sys
out, seconds = sys.argv[1], float(sys.argv[2])
rows = [json.loads(line) for line in open(out + "/moemark/records.jsonl")]
steps = [r for r in rows if r["type"] == "step"]
with open(out + "/moemark.csv", "w", newline="") as f:
    w = csv.writer(f, lineterminator="\n")
    w.writerow(["step", "seconds", "tokens", "loss"])
    t = 0.0
    for r in steps:
        t += r["time_s"]
        w.writerow([r["step"], f"{t:.3f}", r["step"] * r["tokens"], r["ce"]])
held = [r for r in rows if r["type"] == "eval"][-1]["loss"]
peer = json.load(open(out + "/hf.json"))
peer_held = peer["heldout_loss"]
last = [r["imbalance"] for r in steps[-50:]]
imbalance = sum(last) / len(last)
print(json.dumps({"seconds": seconds, "moemark_heldout": held, "moemark_tokens": sum(r["tokens"] for r in steps),
                  "moemark_seconds": round(t, 1), "imbalance_last_50": imbalance, "peer": peer}))
assert t <= 1.01 * seconds, f"moemark trained {t:.1f} s, more than {seconds} s"
sys.exit(0 if held <= peer_held and imbalance < 2.5 else 1)
EOT
