#!/usr/bin/env bash
# Makes the Python environment of the PyTorch peers. Can be run again: a finished one is left as it is.
#   setup.sh [VENV_DIR] [--all]      VENV_DIR: default build/peers/venv; --all: also Olmo-core and torchtitan
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
venv=$root/build/peers/venv
reqs=requirements.txt
how=(-c "$here/requirements-all.txt")
for a in "$@"; do
    case $a in
        --all) reqs=requirements-all.txt how=(--no-deps) ;; # Olmo-core declares another torch than the one it is run with here
        -*) echo "setup.sh: unknown option $a (usage: setup.sh [VENV_DIR] [--all])" >&2; exit 2 ;;
        *) venv=$a ;;
    esac
done

fail() { printf 'setup.sh: error: %s\n  remedy: %s\n' "$1" "$2" >&2; exit 3; }

stamp=$venv/.moemark-$reqs
want=$(cat "$here"/requirements*.txt | sha256sum)
if [ "$(cat "$stamp" 2>/dev/null)" = "$want" ] && "$venv/bin/python" -c 'import torch, transformers' 2>/dev/null; then
    echo "setup.sh: $venv is up to date"
    exit 0
fi
command -v python3 >/dev/null || fail "python3 not found" "apt-get install python3 python3-venv"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' || fail "python3 is older than 3.11" "install Python 3.11 or newer and put it first in PATH"
free_kib=$(mkdir -p "$venv" && df -Pk "$venv" | awk 'NR == 2 {print $4}')
[ "$free_kib" -gt 12000000 ] || [ -d "$venv/lib" ] || fail "less than 12 GB free for $venv" "give another folder: setup.sh /path/with/space"
[ -x "$venv/bin/pip" ] || python3 -m venv "$venv" || fail "python3 -m venv failed" "apt-get install python3-venv"
echo "setup.sh: installing $reqs into $venv (about 3 GB to download; PyPI's torch brings its CUDA libraries)"
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-input "${how[@]}" -r "$here/$reqs" ||
    fail "pip could not install $reqs" "check that PyPI can be reached (pip download -d /tmp numpy==2.4.6) or set PIP_INDEX_URL to a mirror; then run setup.sh again"
"$venv/bin/python" -c 'import torch, transformers' || fail "torch or transformers does not import" "rm -r $venv and run setup.sh again"
command -v g++ >/dev/null || echo "setup.sh: warning: no g++, so the -compile variants will fail (apt-get install g++)" >&2
echo "$want" > "$stamp"
"$venv/bin/python" -c 'import sys, torch, transformers as t; print("setup.sh: ready: python", sys.version.split()[0], "torch", torch.__version__, "transformers", t.__version__)'
