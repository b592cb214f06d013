#!/usr/bin/env bash
# Weights both ways between moemark and Hugging Face transformers, for OLMoE and Qwen3-MoE, with equal logits (1e-4, FP32).
#   interchange.sh TRAINER INTERCHANGE OUT     OUT: folder for the weights. Needs baselines/peers/torch/setup.sh.
# There: 20 steps of moemark-trainer, its weights_out loaded by transformers without a tensor missing or left over.
# Back: a model that transformers made and saved, loaded by moemark. Passes when all four are within the limit.
set -euo pipefail
[ $# -eq 3 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
trainer=$1 interchange=$2 out=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=${MOEMARK_PEER_VENV:-$root/build/peers/venv}
[ -x "$venv/bin/python" ] || { echo "interchange.sh: error: no Python environment in $venv; run baselines/peers/torch/setup.sh" >&2; exit 3; }
peer() { env -u LD_PRELOAD OMP_NUM_THREADS=1 "$venv/bin/python" "$root/baselines/peers/hf/roundtrip.py" "$@"; }
rm -rf "$out"
mkdir -p "$out"

# What makes a model of moemark exactly an OLMoE or a Qwen3-MoE.
TINY=(--set layers=2 --set d_model=64 --set heads=4 --set kv_heads=2 --set experts=8 --set top_k=2 --set expert_hidden=32
  --set vocab=256 --set norm=pre --set seq_len=48 --set rank_tokens=96 --set global_tokens=96 --set threads=1
  --set steps=20 --set lr=3e-3 --set init_std=0.08)
OLMOE=(--set head_dim=16 --set qk_norm=full --set rope_theta=10000 --set norm_eps=1e-5)
QWEN3=(--set head_dim=32 --set qk_norm=head --set rope_theta=1e6 --set norm_eps=1e-6)

failed=0
for arch in olmoe qwen3_moe; do
  [ "$arch" = olmoe ] && keys=("${OLMOE[@]}") || keys=("${QWEN3[@]}")
  "$trainer" "${TINY[@]}" "${keys[@]}" --set weights_out="$out/$arch-there" >"$out/$arch.log" 2>&1 ||
    { cat "$out/$arch.log"; exit 1; }
  grep -q "\"model_type\"[^,]*\"$arch\"" "$out/$arch-there/config.json" || { echo "FAIL $arch: config.json is of another model"; failed=1; }
  "$interchange" write "$out/$arch-there"
  peer check "$out/$arch-there" || { echo "FAIL $arch: moemark to transformers"; failed=1; }
  peer make "$out/$arch-back" --arch "$arch" --seed 3
  "$interchange" check "$out/$arch-back" || { echo "FAIL $arch: transformers to moemark"; failed=1; }
done
exit "$failed"
