/* SwiGLU: checks and launch. */
#include "kernels/ops/swiglu/swiglu.h"

#include "kernels/ops/check.h"

mk_status mk_swiglu_fwd(mk_stream *stream, const mk_swiglu_fwd_args *args) {
  const char *op = "swiglu_fwd";
  MK_CHECK_2D(stream, op, args, y, MK_ANY_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, x, MK_ONE_OF(args->y.dtype), args->y.dim[0], 2 * args->y.dim[1]);
  if (mk_tensor_present(&args->rows)) MK_CHECK_1D(stream, op, args, rows, MK_ONE_OF(MK_I32), 1);
  MK_CHECK_APART(stream, op, args, y, x);
  return mk_stream_launch(stream, MK_OP_swiglu_fwd, args, sizeof *args);
}

mk_status mk_swiglu_bwd(mk_stream *stream, const mk_swiglu_bwd_args *args) {
  const char *op = "swiglu_bwd";
  MK_CHECK_2D(stream, op, args, dy, MK_ANY_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, x, MK_ONE_OF(args->dy.dtype), args->dy.dim[0], 2 * args->dy.dim[1]);
  MK_CHECK_2D(stream, op, args, dx, MK_ONE_OF(args->dy.dtype), args->dy.dim[0], 2 * args->dy.dim[1]);
  if (mk_tensor_present(&args->rows)) MK_CHECK_1D(stream, op, args, rows, MK_ONE_OF(MK_I32), 1);
  return mk_stream_launch(stream, MK_OP_swiglu_bwd, args, sizeof *args);
}
