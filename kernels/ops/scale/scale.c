/* Scale: checks and launch. */
#include "kernels/ops/scale/scale.h"

#include "kernels/ops/check.h"

mk_status mk_scale(mk_stream *stream, const mk_scale_args *args) {
  const char *op = "scale";
  MK_CHECK_FLAT(stream, op, args, x, MK_MASTER_FLOAT, -1);
  return mk_stream_launch(stream, MK_OP_scale, args, sizeof *args);
}
