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

enum { TILE = 512, PIECE_ELEMENTS = 32768 };

MK_INLINE void *row_at(const mk_tensor *t, mk_dtype dtype, int64_t row, int64_t column) {
  return mk_at(t->data, dtype, row * t->dim[1] + column);
}

/* y[token, first .. first + n). y may be the memory of add: each element is read before it is written. */
MK_INLINE void sum_tile(const mk_combine_fwd_args *a, int64_t token, int64_t first, int64_t n, mk_dtype dtype) {
  int64_t top_k = a->map.dim[1];
  const int32_t *map = (const int32_t *)a->map.data + token * top_k;
  const float *weights = a->weights.data;
  float sum[TILE];
  for (int64_t i = 0; i < n; i++)
    sum[i] = 0;
  for (int64_t k = 0; k < top_k; k++) {
    if (map[k] < 0) continue;
    float weight = weights != NULL ? weights[token * top_k + k] : 1.0f;
    const void *row = row_at(&a->rows, dtype, map[k], first);
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

MK_INLINE void sum_tokens(const mk_combine_fwd_args *a, int64_t token, int64_t count, mk_dtype dtype) {
  int64_t columns = a->rows.dim[1];
  for (int64_t t = token; t < token + count; t++) {
    for (int64_t first = 0; first < columns; first += TILE) {
      sum_tile(a, t, first, columns - first < TILE ? columns - first : TILE, dtype);
    }
  }
}

MK_VECTOR static void sum_range(const void *args, int64_t first, int64_t count) {
  const mk_combine_fwd_args *a = args;
  if (a->rows.dtype == MK_BF16) {
    sum_tokens(a, first, count, MK_BF16);
  } else {
    sum_tokens(a, first, count, MK_F32);
  }
}

mk_status mk_combine_sum_cpu(mk_stream *stream, mk_op_id op, const mk_combine_fwd_args *a) {
  mk_context *ctx = stream->dev->ctx;
  int64_t grain = mk_cpu_grain_rows(PIECE_ELEMENTS, a->map.dim[1] * a->rows.dim[1]);
  MK_TRY(ctx, mk_cpu_check_float(stream, op, a->rows.dtype));
  MK_TRY(ctx, mk_cpu_check_float(stream, op, a->weights.dtype));
  MK_TRY(ctx, mk_ids_check(stream, mk_op_name(op), "map", &a->map, INT32_MIN, a->rows.dim[0]));
  mk_cpu_ranges(a->map.dim[0], grain, sum_range, a);
  return MK_OK;
}

mk_status mk_combine_fwd_cpu(mk_stream *stream, const void *args) {
  return mk_combine_sum_cpu(stream, MK_OP_combine_fwd, args);
}

/* drow = dy * weight, returns <row, dy>. drow may be the memory of row: each element is read before it is written,
 * which is what the simd pragma promises. Tiles bound the rounding error of the FP32 sum whatever the vector width. */
MK_INLINE float spread_row(const void *dy, const void *row, void *drow, float weight, int64_t columns, mk_dtype dtype) {
  double dot = 0;
  for (int64_t first = 0; first < columns; first += TILE) {
    int64_t end = columns - first < TILE ? columns : first + TILE;
    float part = 0;
#pragma omp simd reduction(+ : part)
    for (int64_t i = first; i < end; i++) {
      float g = mk_get(dy, dtype, i);
      part += g * mk_get(row, dtype, i);
      mk_put(drow, dtype, i, g * weight);
    }
    dot += (double)part;
  }
  return (float)dot;
}

MK_INLINE void spread_tokens(const mk_combine_bwd_args *a, int64_t token, int64_t count, mk_dtype dtype) {
  int64_t top_k = a->map.dim[1], columns = a->dy.dim[1];
  for (int64_t r = token * top_k; r < (token + count) * top_k; r++) {
    int32_t row = ((const int32_t *)a->map.data)[r];
    float weight = mk_round_to(dtype, ((const float *)a->weights.data)[r]), dot = 0;
    if (row >= 0) {
      dot = spread_row(row_at(&a->dy, dtype, r / top_k, 0), row_at(&a->rows, dtype, row, 0),
                       row_at(&a->drows, dtype, row, 0), weight, columns, dtype);
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
