/* Parameter initialisation: checks and launch. */
#include "kernels/ops/param_init/param_init.h"

#include "kernels/ops/check.h"

mk_status mk_param_init(mk_stream *stream, const mk_param_init_args *args) {
  const char *op = "param_init";
  MK_CHECK_FLAT(stream, op, args, main, MK_ANY_FLOAT, -1);
  MK_CHECK(stream->dev->ctx, args->std >= 0 && args->first >= 0 && args->first < INT64_C(1) << 56, MK_ERR_ARG,
           "%s: std %g must not be negative, first %lld must lie in [0, 2^56)", op, (double)args->std,
           (long long)args->first);
  return mk_stream_launch(stream, MK_OP_param_init, args, sizeof *args);
}
