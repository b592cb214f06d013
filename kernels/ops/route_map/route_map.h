/* Route map: where each assignment's row goes. O(T*K) counting sort; stable: route r = t*K + k in order.
 * route_count: counts per global expert and the position of each route inside its expert.
 * route_map: from the counts of all source ranks, the keep matrix under two bounds, the destination (rank, row) of each
 * local route and this rank's own receive offsets. `capacity` is a pool that the experts of a destination rank share
 * (Olmo-core 3.0.0, olmo_core/nn/moe/v2/ep_no_sync_common.py and ep_no_sync_rowwise_helpers.py); `expert_capacity` is
 * what each expert accepts from all sources together (Lepikhin et al. 2020, GShard, arXiv 2006.16668). Where both are
 * given, an expert takes what the second leaves of its requests, as far as the pool has room.
 * Order of filling at a destination: local expert outer, source rank inner; the last buckets are cut first; inside a
 * bucket the latest routes lose. Kept rows are dense: there is no gap between experts. Dropped routes get rank -1,
 * row -1. With one source and capacity T*K nothing drops.
 * E is at most MK_MAX_EXPERTS. An expert outside [0,E) fails with MK_ERR_ARG. */
#ifndef KERNELS_OPS_ROUTE_MAP_ROUTE_MAP_H
#define KERNELS_OPS_ROUTE_MAP_ROUTE_MAP_H

#include "kernels/device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mk_route_count_args {
  mk_tensor idx;         /* i32 [T,K] in [0,E) */
  mk_tensor counts;      /* out i32 [groups,E]; groups divides T: per sequence, or 1 */
  mk_tensor position;    /* out i32 [T,K]: stable position among all routes of this microbatch to the same expert */
  mk_tensor total;       /* out i32 [E]: sum over groups; may be the same memory as counts when groups is 1 */
  mk_tensor step_counts; /* optional in/out i64 [E]: running sum over the step's microbatches */
} mk_route_count_args;

typedef struct mk_route_map_args {
  mk_tensor requested;     /* i32 [S,E]: counts of every source rank of the group, S = R */
  mk_tensor idx;           /* i32 [T,K] */
  mk_tensor position;      /* i32 [T,K] */
  mk_tensor dst_rank;      /* optional out i32 [T,K]; -1 = dropped */
  mk_tensor dst_row;       /* out i32 [T,K]; -1 = dropped */
  mk_tensor keep;          /* out i32 [S,E]: kept of requested */
  mk_tensor offsets;       /* out i32 [E/R + 1]: receive offsets of this rank's local experts */
  mk_tensor sums;          /* optional in/out f64 [MK_SUM_COUNT]: DROPPED and ROUTED of this rank's routes */
  int64_t ranks;           /* R, divides E */
  int64_t rank;            /* this rank in the group: as source and as destination */
  int64_t capacity;        /* rows per destination rank, >= 1 */
  int64_t expert_capacity; /* rows that an expert accepts from all sources; 0 = no such bound */
} mk_route_map_args;

mk_status mk_route_count(mk_stream *stream, const mk_route_count_args *args);
mk_status mk_route_map(mk_stream *stream, const mk_route_map_args *args);

#ifdef __cplusplus
}
#endif

#endif
