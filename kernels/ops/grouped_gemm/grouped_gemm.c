/* Grouped GEMM: checks and launch. */
#include "kernels/ops/grouped_gemm/grouped_gemm.h"

#include "kernels/ops/linear/packed.h"

mk_status mk_grouped_gemm_fwd(mk_stream *stream, const mk_grouped_gemm_fwd_args *args) {
  const char *op = "grouped_gemm_fwd";
  MK_CHECK_3D(stream, op, args, w, MK_ANY_FLOAT, -1, -1, -1);
  MK_CHECK_2D(stream, op, args, x, MK_ANY_FLOAT, -1, args->w.dim[2]);
  MK_CHECK_2D(stream, op, args, y, MK_ANY_FLOAT, args->x.dim[0], args->w.dim[1]);
  MK_CHECK_1D(stream, op, args, offsets, MK_ONE_OF(MK_I32), args->w.dim[0] + 1);
  MK_TRY(stream->dev->ctx, mk_packed_check(stream, op, &args->packed, &args->w));
  MK_CHECK_APART(stream, op, args, y, x);
  MK_CHECK_APART(stream, op, args, y, w);
  return mk_stream_launch(stream, MK_OP_grouped_gemm_fwd, args, sizeof *args);
}

mk_status mk_grouped_gemm_dgrad(mk_stream *stream, const mk_grouped_gemm_dgrad_args *args) {
  const char *op = "grouped_gemm_dgrad";
  MK_CHECK_3D(stream, op, args, w, MK_ANY_FLOAT, -1, -1, -1);
  MK_CHECK_2D(stream, op, args, dy, MK_ANY_FLOAT, -1, args->w.dim[1]);
  MK_CHECK_2D(stream, op, args, dx, MK_ANY_FLOAT, args->dy.dim[0], args->w.dim[2]);
  MK_CHECK_1D(stream, op, args, offsets, MK_ONE_OF(MK_I32), args->w.dim[0] + 1);
  MK_TRY(stream->dev->ctx, mk_packed_check(stream, op, &args->packed, &args->w));
  MK_CHECK_APART(stream, op, args, dx, dy);
  MK_CHECK_APART(stream, op, args, dx, w);
  return mk_stream_launch(stream, MK_OP_grouped_gemm_dgrad, args, sizeof *args);
}

mk_status mk_grouped_gemm_wgrad(mk_stream *stream, const mk_grouped_gemm_wgrad_args *args) {
  const char *op = "grouped_gemm_wgrad";
  MK_CHECK_3D(stream, op, args, dw, MK_MASTER_FLOAT, -1, -1, -1);
  MK_CHECK_2D(stream, op, args, dy, MK_ANY_FLOAT, -1, args->dw.dim[1]);
  MK_CHECK_2D(stream, op, args, x, MK_ANY_FLOAT, args->dy.dim[0], args->dw.dim[2]);
  MK_CHECK_1D(stream, op, args, offsets, MK_ONE_OF(MK_I32), args->dw.dim[0] + 1);
  MK_CHECK_APART(stream, op, args, dw, dy);
  MK_CHECK_APART(stream, op, args, dw, x);
  return mk_stream_launch(stream, MK_OP_grouped_gemm_wgrad, args, sizeof *args);
}
