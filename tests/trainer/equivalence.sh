#!/usr/bin/env bash
# All parallel strategies against one rank: the rows of tests/trainer/parallel/table.c on 1, 2, 4 and 8 ranks, one
# mpirun a rank count (8 with --full: two), those of 8 beside the others, because eight ranks mostly wait for one another.
#   equivalence.sh [--full] PARALLEL_CHECK OUT MPIRUN [ARGUMENT...]     OUT: folder for the table; MPIRUN ends in "-n"
# Without --full a subset in which every legal pair of settings occurs; with it every legal strategy, three runs each
# (table.h).
# Keeps OUT/equivalence.csv: settings, errors, bytes on the wire, peak memory and host waits, each beside its
# prediction, verdict; refused combinations with their reason. Ends with 1 when a row fails.
set -euo pipefail
full=no
[ "${1:-}" != --full ] || { full=yes; shift; }
[ $# -ge 3 ] || { sed -n '4,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
program=$1 out=$2
shift 2
mpi=("$@")
mkdir -p "$out"
rm -f "$out"/equivalence*.csv
check() { # RANKS ROWS NAME
  "${mpi[@]}" "$1" "$program" --csv "$out/equivalence_$3.csv" "$2" > "$out/equivalence_$3.txt"
}
failed=0 jobs=()
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
if [ $full = yes ]; then
  rows=all names="1 2 4 8a 8b"
  check 8 all:1/2 8a & jobs+=($!)
  check 8 all:2/2 8b & jobs+=($!)
else
  rows=pairs names="1 2 4 8"
  check 8 pairs 8 & jobs+=($!)
fi
for ranks in 1 2 4; do check $ranks $rows $ranks || failed=1; done
for job in "${jobs[@]}"; do wait "$job" || failed=1; done
for name in $names; do
  grep -v '^ok' "$out/equivalence_$name.txt" || true
  csv=$out/equivalence_$name.csv
  [ ! -f "$csv" ] || sed "$([ "$name" = 1 ] || echo 1d)" "$csv" >> "$out/equivalence.csv"
done
awk -F, 'NR > 1 && !/refused [0-9]/ { n++; t = /ep_transport=rowwise/ ? "rowwise" : /ep_transport=block/ ? "block" : \
    /ep_transport=deepep_v2/ ? "deepep_v2" : "no exchange"; rows[t]++; if ($15 > most[t]) most[t] = $15 + 0 }
  END { for (t in rows) printf "host waits of a step, at most: %-11s %d (%d rows)\n", t, most[t], rows[t]
        printf "%d rows in equivalence.csv\n", n }' "$out/equivalence.csv"
exit $failed
