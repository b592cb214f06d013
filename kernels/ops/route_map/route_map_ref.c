/* Route map, reference: the definitions written out, without regard for speed. */
#include "kernels/ops/ids.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ref_access.h"
#include "kernels/ops/route_map/route_map.h"
#include "kernels/ops/step_state/step_state.h"

mk_status mk_route_count_ref(mk_stream *stream, const void *args) {
  const mk_route_count_args *a = args;
  int64_t routes = mk_tensor_count(&a->idx), groups = a->counts.dim[0], experts = a->counts.dim[1];
  MK_TRY(stream->dev->ctx, mk_ids_check(stream, "route_count", "idx", &a->idx, 0, experts));
  for (int64_t i = 0; i < groups * experts; i++)
    mk_ref_set(&a->counts, i, 0);
  for (int64_t r = 0; r < routes; r++) {
    int64_t expert = (int64_t)mk_ref_get(&a->idx, r), group = r / (routes / groups), before = 0;
    for (int64_t g = 0; g <= group; g++)
      before += (int64_t)mk_ref_get(&a->counts, g * experts + expert);
    mk_ref_set(&a->position, r, (double)before);
    mk_ref_add(&a->counts, group * experts + expert, 1);
  }
  for (int64_t e = 0; e < experts; e++) {
    double total = 0;
    for (int64_t g = 0; g < groups; g++)
      total += mk_ref_get(&a->counts, g * experts + e);
    mk_ref_set(&a->total, e, total);
    if (mk_tensor_present(&a->step_counts)) mk_ref_add(&a->step_counts, e, total);
  }
  return MK_OK;
}

/* What `bound` lets through of `more` after `*sum`, which grows: first difference of the running sum cut off there. */
static int64_t let_through(int64_t *sum, int64_t more, int64_t bound) {
  int64_t before = *sum < bound ? *sum : bound;
  *sum += more;
  return (*sum < bound ? *sum : bound) - before;
}

/* keep: of the requests to an expert what its own capacity lets through, and of that what the destination's does. */
static void fill_keep(const mk_route_map_args *a) {
  int64_t experts = a->requested.dim[1], locals = experts / a->ranks;
  int64_t own = a->expert_capacity > 0 ? a->expert_capacity : INT64_MAX;
  for (int64_t rank = 0; rank < a->ranks; rank++) {
    int64_t at_rank = 0;
    for (int64_t local = 0; local < locals; local++) {
      int64_t at_expert = 0;
      for (int64_t source = 0; source < a->ranks; source++) {
        int64_t at = source * experts + rank * locals + local;
        int64_t accepted = let_through(&at_expert, (int64_t)mk_ref_get(&a->requested, at), own);
        mk_ref_set(&a->keep, at, (double)let_through(&at_rank, accepted, a->capacity));
      }
    }
  }
}

/* First row at the owner of `expert` for the routes that come from `source`; source = ranks: one past the last. */
static int64_t first_row(const mk_route_map_args *a, int64_t expert, int64_t source) {
  int64_t experts = a->requested.dim[1], locals = experts / a->ranks, row = 0;
  for (int64_t e = expert / locals * locals; e <= expert; e++) {
    int64_t sources = e < expert ? a->ranks : source;
    for (int64_t s = 0; s < sources; s++)
      row += (int64_t)mk_ref_get(&a->keep, s * experts + e);
  }
  return row;
}

mk_status mk_route_map_ref(mk_stream *stream, const void *args) {
  const mk_route_map_args *a = args;
  int64_t experts = a->requested.dim[1], locals = experts / a->ranks, routes = mk_tensor_count(&a->idx);
  double dropped = 0;
  MK_TRY(stream->dev->ctx, mk_ids_check(stream, "route_map", "idx", &a->idx, 0, experts));
  fill_keep(a);
  mk_ref_set(&a->offsets, 0, 0);
  for (int64_t local = 0; local < locals; local++) {
    mk_ref_set(&a->offsets, local + 1, (double)first_row(a, a->rank * locals + local, a->ranks));
  }
  for (int64_t r = 0; r < routes; r++) {
    int64_t expert = (int64_t)mk_ref_get(&a->idx, r);
    double position = mk_ref_get(&a->position, r);
    bool kept = position < mk_ref_get(&a->keep, a->rank * experts + expert);
    mk_ref_set(&a->dst_row, r, kept ? (double)first_row(a, expert, a->rank) + position : -1);
    if (mk_tensor_present(&a->dst_rank)) mk_ref_set(&a->dst_rank, r, kept ? (double)(expert / locals) : -1);
    dropped += kept ? 0 : 1;
  }
  if (mk_tensor_present(&a->sums)) {
    ((double *)a->sums.data)[MK_SUM_DROPPED] += dropped;
    ((double *)a->sums.data)[MK_SUM_ROUTED] += (double)routes;
  }
  return MK_OK;
}
