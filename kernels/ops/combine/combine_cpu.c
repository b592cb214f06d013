/* Combine, cpu: one pass over the routed rows, tokens split over threads. The sum of a token is kept in FP32 in a tile
 * that stays in the first-level cache while its K rows stream by; BF16 is widened on load and rounded on store.
 * O(T*K*D); every route row has one owner, so nothing is shared between threads. */
#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/combine/combine_sum.h"
#include "kernels/ops/ids.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/ops.h"
#include "kernels/ops/row_exchange/row_place.h"
#include "kernels/ops/row_scale/row_scale_leaf.h"

enum { TILE = 512, PIECE_ELEMENTS = 32768 };

MK_INLINE void *row_at(const mk_tensor *t, mk_dtype dtype, int64_t row, int64_t column) {
  return mk_at(t->data, dtype, row * t->dim[1] + column);
}

/* What is summed: rows of one buffer, or of the peers' buffers where routes is set. */
typedef struct sum_job {
  const mk_combine_fwd_args *args;
  const mk_row_routes *routes;
  int64_t tokens, top_k, columns;
} sum_job;

/* Row of route r from column `first` on, or NULL when it was dropped. */
MK_INLINE const void *routed_row(const sum_job *job, int64_t r, int64_t first, mk_dtype dtype) {
  if (job->routes != NULL) {
    const void *row = mk_row_place(job->routes, r, (size_t)job->columns * mk_dtype_bytes(dtype));
    return row == NULL ? NULL : mk_at(row, dtype, first);
  }
  int32_t row = ((const int32_t *)job->args->map.data)[r];
  return row < 0 ? NULL : row_at(&job->args->rows, dtype, row, first);
}

/* y[token, first .. first + n). y may be the memory of add: each element is read before it is written. */
MK_INLINE void sum_tile(const sum_job *job, int64_t token, int64_t first, int64_t n, mk_dtype dtype) {
  const mk_combine_fwd_args *a = job->args;
  const float *weights = a->weights.data;
  float sum[TILE];
  for (int64_t i = 0; i < n; i++)
    sum[i] = 0;
  for (int64_t r = token * job->top_k; r < (token + 1) * job->top_k; r++) {
    const void *row = routed_row(job, r, first, dtype);
    if (row == NULL) continue;
    float weight = weights != NULL ? weights[r] : 1.0f;
    for (int64_t i = 0; i < n; i++)
      sum[i] += weight * mk_get(row, dtype, i);
  }
  if (a->add.data != NULL) {
    const void *add = row_at(&a->add, dtype, token, first);
    for (int64_t i = 0; i < n; i++)
      sum[i] += mk_get(add, dtype, i);
  }
  void *y = row_at(&a->y, dtype, token, first);
  for (int64_t i = 0; i < n; i++)
    mk_put(y, dtype, i, sum[i]);
}

MK_INLINE void sum_tokens(const sum_job *job, int64_t token, int64_t count, mk_dtype dtype) {
  for (int64_t t = token; t < token + count; t++) {
    for (int64_t first = 0; first < job->columns; first += TILE) {
      sum_tile(job, t, first, job->columns - first < TILE ? job->columns - first : TILE, dtype);
    }
  }
}

MK_VECTOR static void sum_range(const void *args, int64_t first, int64_t count) {
  const sum_job *job = args;
  if (job->args->y.dtype == MK_BF16) {
    sum_tokens(job, first, count, MK_BF16);
  } else {
    sum_tokens(job, first, count, MK_F32);
  }
}

mk_status mk_combine_sum_cpu(mk_stream *stream, mk_op_id op, const mk_combine_fwd_args *a,
                             const mk_row_routes *routes) {
  mk_context *ctx = stream->dev->ctx;
  const mk_tensor *map = routes != NULL ? &routes->rank : &a->map;
  sum_job job = {a, routes, map->dim[0], map->dim[1], a->y.dim[1]};
  int64_t grain = mk_cpu_grain_rows(PIECE_ELEMENTS, job.top_k * job.columns);
  MK_TRY(ctx, mk_cpu_check_float(stream, op, a->y.dtype));
  MK_TRY(ctx, mk_cpu_check_float(stream, op, a->weights.dtype));
  if (routes != NULL) {
    MK_TRY(ctx, mk_row_routes_check(stream, mk_op_name(op), routes));
  } else {
    MK_TRY(ctx, mk_ids_check(stream, mk_op_name(op), "map", map, INT32_MIN, a->rows.dim[0]));
  }
  mk_cpu_ranges(job.tokens, grain, sum_range, &job);
  return MK_OK;
}

mk_status mk_combine_fwd_cpu(mk_stream *stream, const void *args) {
  return mk_combine_sum_cpu(stream, MK_OP_combine_fwd, args, NULL);
}

MK_INLINE void spread_tokens(const mk_combine_bwd_args *a, int64_t token, int64_t count, mk_dtype dtype) {
  int64_t top_k = a->map.dim[1], columns = a->dy.dim[1];
  for (int64_t r = token * top_k; r < (token + count) * top_k; r++) {
    int32_t row = ((const int32_t *)a->map.data)[r];
    float weight = mk_round_to(dtype, ((const float *)a->weights.data)[r]), dot = 0;
    const void *dy = row_at(&a->dy, dtype, r / top_k, 0);
    if (row >= 0 && a->drows.data != NULL) {
      void *drow = row_at(&a->drows, dtype, row, 0);
      dot = mk_row_scale_bwd_row(dy, row_at(&a->rows, dtype, row, 0), drow, weight, columns, dtype);
    } else if (row >= 0) {
      dot = mk_row_scale_bwd_row(dy, row_at(&a->rows, dtype, row, 0), NULL, weight, columns, dtype);
    }
    ((float *)a->dweights.data)[r] = dot;
  }
}

MK_VECTOR static void spread_range(const void *args, int64_t first, int64_t count) {
  const mk_combine_bwd_args *a = args;
  if (a->dy.dtype == MK_BF16) {
    spread_tokens(a, first, count, MK_BF16);
  } else {
    spread_tokens(a, first, count, MK_F32);
  }
}

mk_status mk_combine_bwd_cpu(mk_stream *stream, const void *args) {
  const mk_combine_bwd_args *a = args;
  mk_context *ctx = stream->dev->ctx;
  int64_t grain = mk_cpu_grain_rows(PIECE_ELEMENTS, a->map.dim[1] * a->dy.dim[1]);
  MK_TRY(ctx, mk_cpu_check_float(stream, MK_OP_combine_bwd, a->dy.dtype));
  MK_TRY(ctx, mk_cpu_check_float(stream, MK_OP_combine_bwd, a->weights.dtype));
  MK_TRY(ctx, mk_ids_check(stream, "combine_bwd", "map", &a->map, INT32_MIN, a->rows.dim[0]));
  mk_cpu_ranges(a->dy.dim[0], grain, spread_range, a);
  return MK_OK;
}
