#!/usr/bin/env bash
# Re-makes the stored learning curve with transformers from the stored weights, and holds moemark against the fresh one.
#   curve_remake.sh MOEMARK_GOLDEN OUT      OUT: new folder. Needs baselines/peers/torch/setup.sh.
set -euo pipefail
[ $# -eq 2 ] || { sed -n '2,3s/^# \{0,1\}//p' "$0" >&2; exit 2; }
golden=$1 out=$2
root=$(cd "$(dirname "$0")/../.." && pwd)
venv=${MOEMARK_PEER_VENV:-$root/build/peers/venv}
[ -x "$venv/bin/python" ] || { echo "curve_remake.sh: error: no Python environment in $venv; run baselines/peers/torch/setup.sh" >&2; exit 3; }
"$venv/bin/python" "$root/baselines/peers/hf/learn_curve.py" --out "$out" --weights "$root/tests/golden/curve/golden.safetensors"
"$golden" "$out"
