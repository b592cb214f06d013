/* AdamW: checks and launch. */
#include "kernels/ops/adamw/adamw.h"

#include "kernels/ops/check.h"
#include "kernels/ops/step_state/step_state.h"

mk_status mk_adamw(mk_stream *stream, const mk_adamw_args *args) {
  const char *op = "adamw";
  MK_CHECK_1D(stream, op, args, state, MK_ONE_OF(MK_U8), (int64_t)sizeof(mk_step_state));
  MK_CHECK_FLAT(stream, op, args, main, MK_MASTER_FLOAT, -1);
  int64_t count = mk_tensor_count(&args->main);
  MK_CHECK_FLAT(stream, op, args, grad, MK_ONE_OF(args->main.dtype), count);
  MK_CHECK_FLAT(stream, op, args, m, MK_ONE_OF(args->main.dtype), count);
  MK_CHECK_FLAT(stream, op, args, v, MK_ONE_OF(args->main.dtype), count);
  if (mk_tensor_present(&args->compute)) MK_CHECK_FLAT(stream, op, args, compute, MK_ANY_FLOAT, count);
  bool betas = args->beta1 >= 0 && args->beta1 < 1 && args->beta2 >= 0 && args->beta2 < 1;
  MK_CHECK(stream->dev->ctx, betas, MK_ERR_ARG, "%s: betas %g and %g must lie in [0, 1)", op, (double)args->beta1,
           (double)args->beta2);
  return mk_stream_launch(stream, MK_OP_adamw, args, sizeof *args);
}
