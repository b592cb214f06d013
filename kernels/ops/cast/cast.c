/* Cast: checks and launch. */
#include "kernels/ops/cast/cast.h"

#include "kernels/ops/check.h"

mk_status mk_cast(mk_stream *stream, const mk_cast_args *args) {
  const char *op = "cast";
  MK_CHECK_FLAT(stream, op, args, x, MK_ANY_FLOAT, -1);
  MK_CHECK_FLAT(stream, op, args, y, MK_ANY_FLOAT, mk_tensor_count(&args->x));
  if (args->x.dtype != args->y.dtype) MK_CHECK_APART(stream, op, args, y, x);
  return mk_stream_launch(stream, MK_OP_cast, args, sizeof *args);
}
