#!/usr/bin/env bash
# All parallel strategies against one rank: the rows of tests/trainer/parallel/table.c on 1, 2, 4 and 8 ranks, one mpirun
# a rank count, that of 8 beside the others.
#   equivalence.sh [--full] PARALLEL_CHECK OUT MPIRUN [ARGUMENT...]     OUT: folder for the table; MPIRUN ends in "-n"
# Without --full a subset in which every legal pair of settings occurs; with it every legal strategy, three runs each
# (table.h).
# Keeps OUT/equivalence.csv: settings, errors, bytes on the wire, peak memory and host waits, each beside its prediction,
# verdict; refused combinations with their reason. Ends with 1 when a row fails.
set -euo pipefail
rows=pairs
[ "${1:-}" != --full ] || { rows=all; shift; }
[ $# -ge 3 ] || { sed -n '4,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
program=$1 out=$2
shift 2
mkdir -p "$out"
rm -f "$out"/equivalence*.csv
check() { # PARALLEL_CHECK on so many ranks
  "$@" --csv "$out/equivalence_$ranks.csv" "$rows" > "$out/equivalence_$ranks.txt"
}
failed=0
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
ranks=8 check "$@" 8 "$program" & # eight ranks mostly wait for one another: the others have room beside them
for ranks in 1 2 4; do check "$@" "$ranks" "$program" || failed=1; done
wait $! || failed=1
for ranks in 1 2 4 8; do
  grep -v '^ok' "$out/equivalence_$ranks.txt" || true
  [ ! -f "$out/equivalence_$ranks.csv" ] || sed "$([ "$ranks" = 1 ] || echo 1d)" "$out/equivalence_$ranks.csv" >> "$out/equivalence.csv"
done
awk -F, 'NR > 1 && $NF !~ /refused/ { n++; t = /ep_transport=rowwise/ ? "rowwise" : /ep_transport=block/ ? "block" : \
    /ep_transport=deepep_v2/ ? "deepep_v2" : "no exchange"; rows[t]++; if ($15 > most[t]) most[t] = $15 + 0 }
  END { for (t in rows) printf "host waits of a step, at most: %-11s %d (%d rows)\n", t, most[t], rows[t]
        printf "%d rows in equivalence.csv\n", n }' "$out/equivalence.csv"
exit $failed
