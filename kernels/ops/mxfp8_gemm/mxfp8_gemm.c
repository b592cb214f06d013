/* GEMMs of MXFP8 operands: checks and launch. */
#include "kernels/ops/mxfp8_gemm/mxfp8_gemm.h"

#include "kernels/ops/mxfp8/mxfp8_check.h"

mk_status mk_mxfp8_linear(mk_stream *stream, const mk_mxfp8_linear_args *args) {
  const char *op = "mxfp8_linear";
  MK_TRY(stream->dev->ctx, mk_mxfp8_check(stream, op, &args->b, -1, -1, -1));
  MK_TRY(stream->dev->ctx, mk_mxfp8_check(stream, op, &args->a, -1, -1, args->b.q.dim[1]));
  MK_CHECK_2D(stream, op, args, y, MK_ANY_FLOAT, args->a.q.dim[0], args->b.q.dim[0]);
  if (mk_tensor_present(&args->add)) {
    MK_CHECK_2D(stream, op, args, add, MK_ONE_OF(args->y.dtype), args->y.dim[0], args->y.dim[1]);
  }
  return mk_stream_launch(stream, MK_OP_mxfp8_linear, args, sizeof *args);
}

mk_status mk_mxfp8_grouped(mk_stream *stream, const mk_mxfp8_grouped_args *args) {
  const char *op = "mxfp8_grouped";
  int64_t groups = args->b.q.dim[0];
  MK_TRY(stream->dev->ctx, mk_mxfp8_check(stream, op, &args->b, groups, -1, -1));
  MK_TRY(stream->dev->ctx, mk_mxfp8_check(stream, op, &args->a, -1, -1, args->b.q.dim[2]));
  MK_CHECK_2D(stream, op, args, y, MK_ANY_FLOAT, args->a.q.dim[0], args->b.q.dim[1]);
  MK_CHECK_1D(stream, op, args, offsets, MK_ONE_OF(MK_I32), groups + 1);
  return mk_stream_launch(stream, MK_OP_mxfp8_grouped, args, sizeof *args);
}
