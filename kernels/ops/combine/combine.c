/* Combine: checks and launch. */
#include "kernels/ops/combine/combine.h"

#include "kernels/ops/check.h"

mk_status mk_combine_fwd(mk_stream *stream, const mk_combine_fwd_args *args) {
  const char *op = "combine_fwd";
  MK_CHECK_2D(stream, op, args, rows, MK_ANY_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, map, MK_ONE_OF(MK_I32), -1, -1);
  int64_t tokens = args->map.dim[0], columns = args->rows.dim[1];
  unsigned data = MK_ONE_OF(args->rows.dtype);
  MK_CHECK_2D(stream, op, args, weights, MK_MASTER_FLOAT, tokens, args->map.dim[1]);
  if (mk_tensor_present(&args->add)) MK_CHECK_2D(stream, op, args, add, data, tokens, columns);
  MK_CHECK_2D(stream, op, args, y, data, tokens, columns);
  return mk_stream_launch(stream, MK_OP_combine_fwd, args, sizeof *args);
}

mk_status mk_combine_bwd(mk_stream *stream, const mk_combine_bwd_args *args) {
  const char *op = "combine_bwd";
  MK_CHECK_2D(stream, op, args, dy, MK_ANY_FLOAT, -1, -1);
  int64_t tokens = args->dy.dim[0], columns = args->dy.dim[1];
  unsigned data = MK_ONE_OF(args->dy.dtype);
  MK_CHECK_2D(stream, op, args, rows, data, -1, columns);
  MK_CHECK_2D(stream, op, args, map, MK_ONE_OF(MK_I32), tokens, -1);
  MK_CHECK_2D(stream, op, args, weights, MK_MASTER_FLOAT, tokens, args->map.dim[1]);
  if (mk_tensor_present(&args->drows)) MK_CHECK_2D(stream, op, args, drows, data, args->rows.dim[0], columns);
  MK_CHECK_2D(stream, op, args, dweights, MK_ONE_OF(args->weights.dtype), tokens, args->map.dim[1]);
  return mk_stream_launch(stream, MK_OP_combine_bwd, args, sizeof *args);
}
