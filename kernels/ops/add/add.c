/* Add: checks and launch. */
#include "kernels/ops/add/add.h"

#include "kernels/ops/check.h"

mk_status mk_add(mk_stream *stream, const mk_add_args *args) {
  const char *op = "add";
  MK_CHECK_FLAT(stream, op, args, y, MK_ANY_FLOAT, -1);
  MK_CHECK_FLAT(stream, op, args, a, MK_ONE_OF(args->y.dtype), mk_tensor_count(&args->y));
  MK_CHECK_FLAT(stream, op, args, b, MK_ONE_OF(args->y.dtype), mk_tensor_count(&args->y));
  return mk_stream_launch(stream, MK_OP_add, args, sizeof *args);
}
