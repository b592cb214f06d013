/* Rows times their weights: checks and launch. */
#include "kernels/ops/row_scale/row_scale.h"

#include "kernels/ops/check.h"

mk_status mk_row_scale_fwd(mk_stream *stream, const mk_row_scale_fwd_args *args) {
  const char *op = "row_scale_fwd";
  MK_CHECK_2D(stream, op, args, y, MK_ANY_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, x, MK_ONE_OF(args->y.dtype), args->y.dim[0], args->y.dim[1]);
  MK_CHECK_FLAT(stream, op, args, w, MK_MASTER_FLOAT, args->y.dim[0]);
  if (mk_tensor_present(&args->rows)) MK_CHECK_1D(stream, op, args, rows, MK_ONE_OF(MK_I32), 1);
  return mk_stream_launch(stream, MK_OP_row_scale_fwd, args, sizeof *args);
}

mk_status mk_row_scale_bwd(mk_stream *stream, const mk_row_scale_bwd_args *args) {
  const char *op = "row_scale_bwd";
  MK_CHECK_2D(stream, op, args, dy, MK_ANY_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, x, MK_ONE_OF(args->dy.dtype), args->dy.dim[0], args->dy.dim[1]);
  MK_CHECK_2D(stream, op, args, dx, MK_ONE_OF(args->dy.dtype), args->dy.dim[0], args->dy.dim[1]);
  MK_CHECK_FLAT(stream, op, args, w, MK_MASTER_FLOAT, args->dy.dim[0]);
  MK_CHECK_FLAT(stream, op, args, dw, MK_ONE_OF(args->w.dtype), args->dy.dim[0]);
  if (mk_tensor_present(&args->rows)) MK_CHECK_1D(stream, op, args, rows, MK_ONE_OF(MK_I32), 1);
  return mk_stream_launch(stream, MK_OP_row_scale_bwd, args, sizeof *args);
}
