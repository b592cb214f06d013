/* Embedding on the CPU. Forward shares tokens between threads. Backward shares columns: each thread adds all tokens, in
 * token order, into its own columns of the table's gradient, so that no two threads meet and the order never changes.
 */
#include "kernels/ops/embedding/embedding.h"

#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/device/cpu/vector.h"
#include "kernels/ops/embedding/embedding_ids.h"
#include "kernels/ops/op_decls.h"

enum { GRAIN_ELEMENTS = 16384, LINE_FLOATS = 16 };

MK_INLINE void fwd_leaf(const mk_embedding_fwd_args *a, mk_dtype from, mk_dtype to, int64_t first, int64_t count) {
  const int32_t *ids = a->ids.data;
  int64_t width = a->y.dim[1];
  for (int64_t t = first; t < first + count; t++) {
    const void *row = mk_at(a->table.data, from, ids[t] * width);
    void *y = mk_at(a->y.data, to, t * width);
#pragma omp simd
    for (int64_t d = 0; d < width; d++)
      mk_put(y, to, d, a->scale * mk_get(row, from, d));
  }
}

MK_VECTOR static void fwd_tokens(const void *args, int64_t first, int64_t count) {
  const mk_embedding_fwd_args *a = args;
  bool from_bf16 = a->table.dtype == MK_BF16, to_bf16 = a->y.dtype == MK_BF16;
  if (from_bf16 && to_bf16) {
    fwd_leaf(a, MK_BF16, MK_BF16, first, count);
  } else if (from_bf16) {
    fwd_leaf(a, MK_BF16, MK_F32, first, count);
  } else if (to_bf16) {
    fwd_leaf(a, MK_F32, MK_BF16, first, count);
  } else {
    fwd_leaf(a, MK_F32, MK_F32, first, count);
  }
}

MK_INLINE void bwd_leaf(const mk_embedding_bwd_args *a, mk_dtype dtype, int64_t first, int64_t count) {
  const int32_t *ids = a->ids.data;
  int64_t width = a->dy.dim[1];
  for (int64_t t = 0; t < a->dy.dim[0]; t++) {
    const void *dy = mk_at(a->dy.data, dtype, t * width + first);
    float *sum = (float *)a->dtable.data + ids[t] * width + first;
#pragma omp simd
    for (int64_t d = 0; d < count; d++)
      sum[d] += a->scale * mk_get(dy, dtype, d);
  }
}

MK_VECTOR static void bwd_columns(const void *args, int64_t first, int64_t count) {
  const mk_embedding_bwd_args *a = args;
  if (a->dy.dtype == MK_BF16) {
    bwd_leaf(a, MK_BF16, first, count);
  } else {
    bwd_leaf(a, MK_F32, first, count);
  }
}

mk_status mk_embedding_fwd_cpu(mk_stream *stream, const void *args) {
  const mk_embedding_fwd_args *a = args;
  mk_context *ctx = stream->dev->ctx;
  MK_TRY(ctx, mk_cpu_check_float(stream, MK_OP_embedding_fwd, a->table.dtype));
  MK_TRY(ctx, mk_cpu_check_float(stream, MK_OP_embedding_fwd, a->y.dtype));
  MK_TRY(ctx, mk_embedding_check_ids(stream, "embedding_fwd", &a->ids, a->table.dim[0]));
  mk_cpu_ranges(a->y.dim[0], mk_cpu_grain_rows(GRAIN_ELEMENTS, a->y.dim[1]), fwd_tokens, a);
  return MK_OK;
}

mk_status mk_embedding_bwd_cpu(mk_stream *stream, const void *args) {
  const mk_embedding_bwd_args *a = args;
  mk_context *ctx = stream->dev->ctx;
  MK_TRY(ctx, mk_cpu_check_float(stream, MK_OP_embedding_bwd, a->dy.dtype));
  MK_TRY(ctx, mk_cpu_check_float(stream, MK_OP_embedding_bwd, a->dtable.dtype));
  MK_TRY(ctx, mk_embedding_check_ids(stream, "embedding_bwd", &a->ids, a->dtable.dim[0]));
  int64_t width = a->dy.dim[1], threads = mk_cpu_device_of(stream)->threads;
  int64_t share = (width + threads - 1) / threads; /* any split gives the same bits */
  int64_t grain = (share + LINE_FLOATS - 1) / LINE_FLOATS * LINE_FLOATS;
  if (width > 0) mk_cpu_ranges(width, grain, bwd_columns, a);
  return MK_OK;
}
