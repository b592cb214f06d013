#!/bin/sh
# Writes the text corpus of the local studies: every .pod file of Debian's perl-doc, joined in name order.
# Usage: perl_pods.sh OUT   (the corpus depends on the perl-doc version; it is printed)
set -eu
LC_ALL=C
export LC_ALL
if [ $# -ne 1 ]; then
  echo "usage: $0 OUT" >&2
  exit 2
fi
if ! version=$(dpkg-query -W -f '${Version}' perl-doc 2>/dev/null) || [ -z "$version" ]; then
  echo "$0: Debian package perl-doc is not installed (apt-get install perl-doc)" >&2
  exit 2
fi
out=$1
temporary=$out.tmp$$
trap 'rm -f "$temporary"' EXIT
dpkg-query -L perl-doc | grep '\.pod$' | sort | xargs cat > "$temporary"
if [ ! -s "$temporary" ]; then
  echo "$0: perl-doc $version has no .pod files here (excluded from the installation?)" >&2
  exit 1
fi
mv "$temporary" "$out"
echo "perl-doc $version: $(wc -c < "$out") bytes, sha256 $(sha256sum < "$out" | cut -d ' ' -f 1)"
