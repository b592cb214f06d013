/* Linear layers: checks and launch. */
#include "kernels/ops/linear/linear.h"

#include "kernels/ops/linear/packed.h"

mk_status mk_linear_pack(mk_stream *stream, const mk_linear_pack_args *args) {
  const char *op = "linear_pack";
  bool grouped = args->w.n_dims == 3;
  MK_TRY(stream->dev->ctx,
         mk_check_tensor(stream, op, "w", &args->w, MK_ANY_FLOAT, grouped ? 3 : 2, -1, -1, grouped ? -1 : 1));
  int64_t bytes = mk_packed_bytes(stream, &args->w);
  if (bytes == 0) return MK_OK; /* this device takes the weights as they are */
  MK_CHECK_1D(stream, op, args, packed, MK_ONE_OF(MK_U8), bytes);
  return mk_stream_launch(stream, MK_OP_linear_pack, args, sizeof *args);
}

mk_status mk_linear_fwd(mk_stream *stream, const mk_linear_fwd_args *args) {
  const char *op = "linear_fwd";
  MK_CHECK_2D(stream, op, args, w, MK_ANY_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, x, MK_ANY_FLOAT, -1, args->w.dim[1]);
  MK_CHECK_2D(stream, op, args, y, MK_ANY_FLOAT, args->x.dim[0], args->w.dim[0]);
  MK_TRY(stream->dev->ctx, mk_packed_check(stream, op, &args->packed, &args->w));
  MK_CHECK_APART(stream, op, args, y, x);
  MK_CHECK_APART(stream, op, args, y, w);
  return mk_stream_launch(stream, MK_OP_linear_fwd, args, sizeof *args);
}

mk_status mk_linear_dgrad(mk_stream *stream, const mk_linear_dgrad_args *args) {
  const char *op = "linear_dgrad";
  MK_CHECK_2D(stream, op, args, w, MK_ANY_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, dy, MK_ANY_FLOAT, -1, args->w.dim[0]);
  MK_CHECK_2D(stream, op, args, dx, MK_ANY_FLOAT, args->dy.dim[0], args->w.dim[1]);
  if (mk_tensor_present(&args->add)) {
    MK_CHECK_2D(stream, op, args, add, MK_ONE_OF(args->dx.dtype), args->dx.dim[0], args->dx.dim[1]);
  }
  MK_TRY(stream->dev->ctx, mk_packed_check(stream, op, &args->packed, &args->w));
  MK_CHECK_APART(stream, op, args, dx, dy);
  MK_CHECK_APART(stream, op, args, dx, w);
  return mk_stream_launch(stream, MK_OP_linear_dgrad, args, sizeof *args);
}

mk_status mk_linear_wgrad(mk_stream *stream, const mk_linear_wgrad_args *args) {
  const char *op = "linear_wgrad";
  MK_CHECK_2D(stream, op, args, dw, MK_MASTER_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, dy, MK_ANY_FLOAT, -1, args->dw.dim[0]);
  MK_CHECK_2D(stream, op, args, x, MK_ANY_FLOAT, args->dy.dim[0], args->dw.dim[1]);
  MK_CHECK_APART(stream, op, args, dw, dy);
  MK_CHECK_APART(stream, op, args, dw, x);
  return mk_stream_launch(stream, MK_OP_linear_wgrad, args, sizeof *args);
}
