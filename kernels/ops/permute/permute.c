/* Permute: checks and launch. */
#include "kernels/ops/permute/permute.h"

#include "kernels/ops/check.h"

mk_status mk_permute_fwd(mk_stream *stream, const mk_permute_fwd_args *args) {
  const char *op = "permute_fwd";
  MK_CHECK_2D(stream, op, args, x, MK_ANY_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, map, MK_ONE_OF(MK_I32), args->x.dim[0], -1);
  MK_CHECK_2D(stream, op, args, out, MK_ONE_OF(args->x.dtype), -1, args->x.dim[1]);
  MK_CHECK_APART(stream, op, args, out, x);
  return mk_stream_launch(stream, MK_OP_permute_fwd, args, sizeof *args);
}

mk_status mk_permute_bwd(mk_stream *stream, const mk_permute_bwd_args *args) {
  const char *op = "permute_bwd";
  MK_CHECK_2D(stream, op, args, dout, MK_ANY_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, map, MK_ONE_OF(MK_I32), -1, -1);
  int64_t tokens = args->map.dim[0], columns = args->dout.dim[1];
  unsigned data = MK_ONE_OF(args->dout.dtype);
  if (mk_tensor_present(&args->add)) MK_CHECK_2D(stream, op, args, add, data, tokens, columns);
  MK_CHECK_2D(stream, op, args, dx, data, tokens, columns);
  return mk_stream_launch(stream, MK_OP_permute_bwd, args, sizeof *args);
}
