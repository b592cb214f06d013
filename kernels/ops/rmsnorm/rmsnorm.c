/* RMSNorm: checks and launch. */
#include "kernels/ops/rmsnorm/rmsnorm.h"

#include "kernels/ops/check.h"

mk_status mk_rmsnorm_fwd(mk_stream *stream, const mk_rmsnorm_fwd_args *args) {
  const char *op = "rmsnorm_fwd";
  mk_context *ctx = stream->dev->ctx;
  MK_CHECK_2D(stream, op, args, x, MK_ANY_FLOAT, -1, -1);
  int64_t tokens = args->x.dim[0], width = args->x.dim[1];
  unsigned dtype = MK_ONE_OF(args->x.dtype);
  bool branch = mk_tensor_present(&args->branch);
  MK_CHECK(ctx, branch == mk_tensor_present(&args->sum), MK_ERR_ARG, "%s: sum must be given with branch and only then",
           op);
  if (branch) {
    MK_CHECK_2D(stream, op, args, branch, dtype, tokens, width);
    MK_CHECK_2D(stream, op, args, sum, dtype, tokens, width);
  }
  if (mk_tensor_present(&args->add)) MK_CHECK_2D(stream, op, args, add, dtype, tokens, width);
  MK_CHECK_1D(stream, op, args, gain, MK_ANY_FLOAT, width);
  MK_CHECK_2D(stream, op, args, y, dtype, tokens, width);
  MK_CHECK_1D(stream, op, args, rstd, MK_MASTER_FLOAT, tokens);
  MK_CHECK(ctx, args->eps >= 0, MK_ERR_ARG, "%s: eps %g is negative", op, (double)args->eps);
  return mk_stream_launch(stream, MK_OP_rmsnorm_fwd, args, sizeof *args);
}

mk_status mk_rmsnorm_bwd(mk_stream *stream, const mk_rmsnorm_bwd_args *args) {
  const char *op = "rmsnorm_bwd";
  MK_CHECK_2D(stream, op, args, dy, MK_ANY_FLOAT, -1, -1);
  int64_t tokens = args->dy.dim[0], width = args->dy.dim[1];
  unsigned dtype = MK_ONE_OF(args->dy.dtype);
  MK_CHECK_2D(stream, op, args, x, dtype, tokens, width);
  MK_CHECK_1D(stream, op, args, gain, MK_ANY_FLOAT, width);
  MK_CHECK_1D(stream, op, args, rstd, MK_MASTER_FLOAT, tokens);
  if (mk_tensor_present(&args->add)) MK_CHECK_2D(stream, op, args, add, dtype, tokens, width);
  MK_CHECK_2D(stream, op, args, dx, dtype, tokens, width);
  MK_CHECK_1D(stream, op, args, dgain, MK_MASTER_FLOAT, width);
  return mk_stream_launch(stream, MK_OP_rmsnorm_bwd, args, sizeof *args);
}
