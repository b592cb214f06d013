/* Squared norm: checks and launch. */
#include "kernels/ops/squared_norm/squared_norm.h"

#include "kernels/ops/check.h"

mk_status mk_squared_norm(mk_stream *stream, const mk_squared_norm_args *args) {
  const char *op = "squared_norm";
  MK_CHECK_FLAT(stream, op, args, x, MK_MASTER_FLOAT, -1);
  MK_CHECK_1D(stream, op, args, out, MK_ONE_OF(MK_F64), 1);
  return mk_stream_launch(stream, MK_OP_squared_norm, args, sizeof *args);
}
