/* Rows times their weights on the CPU: one pass, FP32 arithmetic, rows shared between threads. */
#include "kernels/device/cpu/cpu_device.h"
#include "kernels/device/cpu/parallel.h"
#include "kernels/ops/op_decls.h"
#include "kernels/ops/row_scale/row_scale.h"
#include "kernels/ops/row_scale/row_scale_leaf.h"
#include "kernels/ops/valid_rows.h"

enum { GRAIN_ELEMENTS = 16384 };

MK_INLINE void fwd_leaf(const mk_row_scale_fwd_args *a, mk_dtype dtype, int64_t row) {
  int64_t width = a->y.dim[1];
  const void *x = mk_at(a->x.data, dtype, row * width);
  void *y = mk_at(a->y.data, dtype, row * width);
  float w = ((const float *)a->w.data)[row];
#pragma omp simd
  for (int64_t f = 0; f < width; f++)
    mk_put(y, dtype, f, mk_get(x, dtype, f) * w);
}

MK_INLINE void bwd_leaf(const mk_row_scale_bwd_args *a, mk_dtype dtype, int64_t row) {
  int64_t width = a->dy.dim[1], at = row * width;
  float w = ((const float *)a->w.data)[row];
  ((float *)a->dw.data)[row] = mk_row_scale_bwd_row(mk_at(a->dy.data, dtype, at), mk_at(a->x.data, dtype, at),
                                                    mk_at(a->dx.data, dtype, at), w, width, dtype);
}

MK_VECTOR static void fwd_rows(const void *args, int64_t first, int64_t count) {
  const mk_row_scale_fwd_args *a = args;
  for (int64_t row = first; row < first + count; row++) {
    if (a->y.dtype == MK_BF16) {
      fwd_leaf(a, MK_BF16, row);
    } else {
      fwd_leaf(a, MK_F32, row);
    }
  }
}

MK_VECTOR static void bwd_rows(const void *args, int64_t first, int64_t count) {
  const mk_row_scale_bwd_args *a = args;
  for (int64_t row = first; row < first + count; row++) {
    if (a->dy.dtype == MK_BF16) {
      bwd_leaf(a, MK_BF16, row);
    } else {
      bwd_leaf(a, MK_F32, row);
    }
  }
}

mk_status mk_row_scale_fwd_cpu(mk_stream *stream, const void *args) {
  const mk_row_scale_fwd_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_row_scale_fwd, a->y.dtype));
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_row_scale_fwd, a->w.dtype));
  int64_t rows = mk_valid_rows(&a->rows, a->y.dim[0]);
  mk_cpu_ranges(rows, mk_cpu_grain_rows(GRAIN_ELEMENTS, a->y.dim[1]), fwd_rows, a);
  return MK_OK;
}

mk_status mk_row_scale_bwd_cpu(mk_stream *stream, const void *args) {
  const mk_row_scale_bwd_args *a = args;
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_row_scale_bwd, a->dy.dtype));
  MK_TRY(stream->dev->ctx, mk_cpu_check_float(stream, MK_OP_row_scale_bwd, a->w.dtype));
  int64_t rows = mk_valid_rows(&a->rows, a->dy.dim[0]);
  mk_cpu_ranges(rows, mk_cpu_grain_rows(GRAIN_ELEMENTS, a->dy.dim[1]), bwd_rows, a);
  return MK_OK;
}
