#!/usr/bin/env bash
# What MPI itself saw: the bytes that Open MPI's pml_monitoring component counts are the predicted payload times the
# factor of the algorithm. 4 ranks, three steps, the tiny model.
#   transport_bytes.sh PARALLEL_CHECK OUT MPIRUN [ARGUMENT...]      OUT: new folder; MPIRUN must end in "-n" or alike
# Only messages of our own are compared (lines "E" of pml_monitoring_enable 2); MPI's own collectives, which make
# communicators and windows and serve barriers, are the lines "I".
#
# Factors, from trainer/comm/comm_mpi_reduce.c and comm_mpi_exchange.c, on sums over the P ranks of a group:
#   all_reduce of n bytes, large   each rank sends the others' slices (n - n/P), adds its own slice, and sends the sum
#                                  (n/P) to P - 1 ranks: 2 (P-1)/P of the payload P n
#   all_reduce of n bytes, small   everything to everyone (P n up to 128 KiB): P - 1 times the payload
#   all_gather                     the own part to P - 1 ranks: P - 1 times the payload
#   all_to_all_v                   rows of other ranks only; with uniform routing every rank asks every rank for as
#                                  many rows: (P-1)/P of the payload
#   send of a pipeline             as it is: 1
#   put and get of rowwise         plain stores and loads in shared memory: MPI sees none of them
# The algorithms are the trainer's own, so no MCA parameter changes them; the pinned ones are those of MPI's own "I" lines.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }
program=$1 out=$2
shift 2
rm -rf "$out"
mkdir -p "$out"
failed=0

# row NAME SETTINGS: runs the row under monitoring and compares.
row() {
  local name=$1 settings=$2
  shift 2
  "$@" 4 --mca pml_monitoring_enable 2 --mca pml_monitoring_enable_output 3 \
    --mca pml_monitoring_filename "$out/$name" --mca osc ^monitoring --mca coll_tuned_use_dynamic_rules 1 \
    --mca coll_tuned_allreduce_algorithm 3 "$program" --bare "$settings" > "$out/$name.txt"
  cat "$out/$name".*.prof | awk -v name="$name" -v list="$out/$name.txt" '
    $1 == "E" { counted += $4 }
    $1 == "I" { internal += $4 }
    END {
      p = 4
      while ((getline line < list) > 0) {
        if (split(line, w, " ") < 13 || w[1] != "bare:") continue
        ranks++; sharding += w[3]; optim += w[5]; counts += w[7]; rows += w[9]; window += w[11]; pp += w[13]
      }
      expected = sharding * 2 * (p - 1) / p + (optim + counts) * (p - 1) + rows * (p - 1) / p + pp
      good = ranks == p && counted == expected && expected > 0
      printf "%s %s: payload %d (gradients %d, reductions %d, counts %d, rows %d, streams %d), expected on the wire %d, MPI saw %d", \
        good ? "ok" : "FAIL", name, sharding + optim + counts + rows + pp, sharding, optim, counts, rows, pp, expected, counted
      printf "; through windows %d, unseen; MPI itself sent %d\n", window, internal
      exit !good
    }' || failed=1
}

# One bucket for all gradients: above 128 KiB over the ranks, so that the large all-reduce serves.
base="shard=ddp bucket_mib=250 routing=uniform"
row ddp "$base" "$@"
row ddp_ep4_block "$base ep=4 ep_transport=block" "$@"
row ddp_ep4_rowwise "$base ep=4 ep_transport=rowwise" "$@"
row pipeline "pp=4 pp_schedule=interleaved" "$@"
exit $failed
