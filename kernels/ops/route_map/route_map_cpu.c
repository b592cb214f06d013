/* Route map, cpu. Counting sort over at most BLOCKS token blocks: every block counts its routes, an exclusive prefix
 * over blocks gives each block its first position per expert, and a second pass numbers the routes; integer sums, so
 * the result is the same for any number of threads. O(T*K + BLOCKS*E). */
#include <string.h>

#include "kernels/base/min_max.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/ops/ids.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/route_map/route_map.h"
#include "kernels/ops/router/router.h"

enum { BLOCKS = 16, MIN_BLOCK_ROUTES = 2048 };

static void count_routes(const int32_t *idx, int64_t routes, int64_t experts, int32_t *counts) {
  memset(counts, 0, sizeof *counts * (size_t)experts);
  for (int64_t r = 0; r < routes; r++)
    counts[idx[r]]++;
}

/* One counting sort: the routes of all blocks, and per block the next position of each expert. */
typedef struct sort_job {
  const int32_t *idx;
  int32_t *position;
  int64_t routes, experts, block_routes;
  int32_t (*next)[MK_MAX_EXPERTS];
} sort_job;

static void count_range(const void *args, int64_t first, int64_t count) {
  const sort_job *job = args;
  for (int64_t b = first; b < first + count; b++) {
    int64_t begin = b * job->block_routes;
    count_routes(job->idx + begin, mk_min(job->block_routes, job->routes - begin), job->experts, job->next[b]);
  }
}

static void number_range(const void *args, int64_t first, int64_t count) {
  const sort_job *job = args;
  for (int64_t b = first; b < first + count; b++) {
    int64_t end = mk_min((b + 1) * job->block_routes, job->routes);
    for (int64_t r = b * job->block_routes; r < end; r++)
      job->position[r] = job->next[b][job->idx[r]]++;
  }
}

/* Positions of all routes and the total per expert. */
static void number_routes(const mk_route_count_args *a, int32_t *total) {
  int32_t next[BLOCKS][MK_MAX_EXPERTS];
  int64_t routes = mk_tensor_count(&a->idx), experts = a->counts.dim[1];
  int64_t block_routes = (routes + BLOCKS - 1) / BLOCKS;
  if (block_routes < MIN_BLOCK_ROUTES) block_routes = MIN_BLOCK_ROUTES;
  int64_t blocks = (routes + block_routes - 1) / block_routes;
  sort_job job = {a->idx.data, a->position.data, routes, experts, block_routes, next};
  mk_cpu_ranges(blocks, 1, count_range, &job);
  memset(total, 0, sizeof *total * (size_t)experts);
  for (int64_t b = 0; b < blocks; b++) {
    for (int64_t e = 0; e < experts; e++) {
      int32_t count = next[b][e];
      next[b][e] = total[e];
      total[e] += count;
    }
  }
  mk_cpu_ranges(blocks, 1, number_range, &job);
}

static void count_groups(const void *args, int64_t first, int64_t count) {
  const mk_route_count_args *a = args;
  int64_t experts = a->counts.dim[1], routes = mk_tensor_count(&a->idx) / a->counts.dim[0];
  for (int64_t g = first; g < first + count; g++) {
    count_routes((const int32_t *)a->idx.data + g * routes, routes, experts, (int32_t *)a->counts.data + g * experts);
  }
}

mk_status mk_route_count_cpu(mk_stream *stream, const void *args) {
  const mk_route_count_args *a = args;
  int32_t *counts = a->counts.data, *total = a->total.data;
  int64_t *step_counts = a->step_counts.data;
  int64_t groups = a->counts.dim[0], experts = a->counts.dim[1];
  MK_TRY(stream->dev->ctx, mk_ids_check(stream, "route_count", "idx", &a->idx, 0, experts));
  number_routes(a, total);
  if (groups > 1) {
    mk_cpu_ranges(groups, 1, count_groups, a);
  } else if (counts != total) {
    memcpy(counts, total, sizeof *counts * (size_t)experts);
  }
  for (int64_t e = 0; step_counts != NULL && e < experts; e++)
    step_counts[e] += total[e];
  return MK_OK;
}

/* Where the routes of this rank go: first row at each expert's owner. */
typedef struct map_job {
  const mk_route_map_args *args;
  int32_t row[MK_MAX_EXPERTS];
} map_job;

/* keep under the capacities of rank and expert, first rows, and this rank's offsets. */
static void place_buckets(const mk_route_map_args *a, int32_t *row) {
  const int32_t *requested = a->requested.data;
  int32_t *keep = a->keep.data, *offsets = a->offsets.data;
  int64_t experts = a->requested.dim[1], locals = experts / a->ranks;
  offsets[0] = 0;
  for (int64_t expert = 0, filled = 0; expert < experts; expert++) {
    if (expert % locals == 0) filled = 0;
    int64_t end = a->expert_capacity > 0 ? mk_min(a->capacity, filled + a->expert_capacity) : a->capacity;
    for (int64_t source = 0; source < a->ranks; source++) {
      int64_t kept = mk_min(requested[source * experts + expert], end - filled);
      if (source == a->rank) row[expert] = (int32_t)filled;
      keep[source * experts + expert] = (int32_t)kept;
      filled += kept;
    }
    if (expert / locals == a->rank) offsets[expert % locals + 1] = (int32_t)filled;
  }
}

static void map_range(const void *args, int64_t first, int64_t count) {
  const map_job *job = args;
  const mk_route_map_args *a = job->args;
  const int32_t *idx = a->idx.data, *position = a->position.data;
  const int32_t *keep = (const int32_t *)a->keep.data + a->rank * a->keep.dim[1];
  int32_t *dst_row = a->dst_row.data, *dst_rank = a->dst_rank.data;
  int32_t locals = (int32_t)(a->keep.dim[1] / a->ranks);
  for (int64_t r = first; r < first + count; r++) {
    int32_t expert = idx[r];
    bool kept = position[r] < keep[expert];
    dst_row[r] = kept ? job->row[expert] + position[r] : -1;
    if (dst_rank != NULL) dst_rank[r] = kept ? expert / locals : -1;
  }
}

static double count_dropped(const void *args, int64_t first, int64_t count) {
  const int32_t *dst_row = args;
  int64_t dropped = 0;
  for (int64_t r = first; r < first + count; r++)
    dropped += dst_row[r] < 0;
  return (double)dropped;
}

mk_status mk_route_map_cpu(mk_stream *stream, const void *args) {
  map_job job = {.args = args};
  const mk_route_map_args *a = args;
  int64_t routes = mk_tensor_count(&a->idx);
  MK_TRY(stream->dev->ctx, mk_ids_check(stream, "route_map", "idx", &a->idx, 0, a->requested.dim[1]));
  place_buckets(a, job.row);
  mk_cpu_ranges(routes, MIN_BLOCK_ROUTES, map_range, &job);
  if (mk_tensor_present(&a->sums)) {
    double *sums = a->sums.data;
    sums[MK_SUM_DROPPED] += mk_cpu_ranges_sum_f64(routes, MIN_BLOCK_ROUTES, count_dropped, a->dst_row.data);
    sums[MK_SUM_ROUTED] += (double)routes;
  }
  return MK_OK;
}
