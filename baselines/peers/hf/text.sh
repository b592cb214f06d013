#!/usr/bin/env bash
# Writes the real text that both sides learn: every .pod file of Debian's perl-doc, joined in byte order of their paths.
#   text.sh [OUT]      default build/peers/perl-doc.txt; prints path, bytes and SHA-256
set -euo pipefail
export LC_ALL=C
out=${1:-$(cd "$(dirname "$0")" && pwd)/../../../build/peers/perl-doc.txt}
dpkg -s perl-doc >/dev/null 2>&1 || { echo "text.sh: error: perl-doc is not installed; remedy: apt-get install perl-doc" >&2; exit 3; }
mkdir -p "$(dirname "$out")"
dpkg -L perl-doc | grep '\.pod$' | sort | xargs -d '\n' cat >"$out.part"
mv "$out.part" "$out"
echo "$out $(wc -c <"$out") $(sha256sum "$out" | cut -d' ' -f1) perl-doc=$(dpkg-query -W -f '${Version}' perl-doc)"
