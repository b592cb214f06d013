#!/usr/bin/env bash
# What MPI itself saw: the bytes that Open MPI's pml_monitoring component counts are those of the calls that the trainer
# made, each times the factor of its algorithm; and the calls' payload is the predicted one. 4 ranks, three steps, the
# tiny model.
#   transport_bytes.sh PARALLEL_CHECK OUT MPIRUN [ARGUMENT...]      OUT: new folder; MPIRUN must end in "-n" or alike
# Only messages of our own are compared (lines "E" of pml_monitoring_enable 2); MPI's own collectives, which make
# communicators and windows and serve barriers, are the lines "I".
#
# Factors, from trainer/comm/comm_mpi_reduce.c and comm_mpi_exchange.c, on sums over the P ranks of the call's group:
#   all_reduce of n bytes, large   each rank sends the others' slices (n - n/P), adds its own slice, and sends the sum
#                                  (n/P) to P - 1 ranks: 2 (P-1)/P of the payload P n
#   all_reduce of n bytes, small   everything to everyone (P n up to 128 KiB): P - 1 times the payload
#   reduce_scatter                 each rank sends the others' slices: (P-1)/P of the payload
#   all_gather                     the own part to P - 1 ranks: P - 1 times the payload
#   all_to_all_v                   rows of other ranks only; with uniform routing every rank asks every rank for as
#                                  many rows: (P-1)/P of the payload
#   send of a pipeline             as it is: 1
#   put and get of windows         plain stores and loads in shared memory: MPI sees none of them
# The algorithms are the trainer's own, so no MCA parameter changes them; the pinned ones are those of MPI's own "I" lines.
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
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
    --mca coll_tuned_allreduce_algorithm 3 "$program" --bare "$out/$name" "$settings" > "$out/$name.txt"
  cat "$out/$name".*.prof "$out/$name.txt" "$out/$name".*.csv | awk -v name="$name" '
    $1 == "E" { counted += $4 }
    $1 == "I" { internal += $4 }
    $1 == "bare:" { ranks++; predicted += $3; window += $5; reading += $7 }
    split($0, w, ",") == 6 && w[1] != "op" {
      op = w[1]; n = w[5]; p = w[6]; payload += n; of[op] += n
      factor = op == "send" ? 1 : op == "all_gather" ? p - 1 : (p - 1) / p
      if (op == "all_reduce") factor = n * p <= 131072 ? p - 1 : 2 * (p - 1) / p
      expected += n * factor
    }
    END {
      good = ranks == 4 && counted == expected && expected > 0 && payload == predicted + reading
      for (op in of) if (of[op] > 0) list = list ", " op " " of[op]
      printf "%s %s: payload %d (predicted %d and %d to read values%s), expected on the wire %d, MPI saw %d", \
        good ? "ok" : "FAIL", name, payload, predicted, reading, list, expected, counted
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
base="bucket_mib=250 routing=uniform"
row dist_opt "$base shard=dist_opt" "$@"
row dist_opt_reduce_scatter "$base shard=dist_opt grad_reduce=reduce_scatter" "$@"
row dist_opt_ep4_deepep_v2 "$base shard=dist_opt ep=4 ep_transport=deepep_v2" "$@"
row fsdp "$base shard=fsdp" "$@"
row fsdp_ep2_hybrid "$base shard=fsdp ep=2 fsdp_shard_ranks=2" "$@"
exit $failed
