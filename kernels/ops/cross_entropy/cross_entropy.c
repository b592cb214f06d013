/* Cross-entropy: checks and launch. */
#include "kernels/ops/cross_entropy/cross_entropy.h"

#include "kernels/ops/check.h"

mk_status mk_cross_entropy(mk_stream *stream, const mk_cross_entropy_args *args) {
  const char *op = "cross_entropy";
  MK_CHECK_2D(stream, op, args, logits, MK_ANY_FLOAT, -1, -1);
  int64_t tokens = args->logits.dim[0];
  MK_CHECK(stream->dev->ctx, args->logits.dim[1] >= 1, MK_ERR_ARG, "%s: the vocabulary is empty", op);
  MK_CHECK_1D(stream, op, args, labels, MK_ONE_OF(MK_I32), tokens);
  MK_CHECK_1D(stream, op, args, state, MK_ONE_OF(MK_U8), (int64_t)sizeof(mk_step_state));
  MK_CHECK_1D(stream, op, args, sums, MK_ONE_OF(MK_F64), MK_SUM_COUNT);
  MK_CHECK_2D(stream, op, args, losses, MK_MASTER_FLOAT, 2, tokens);
  return mk_stream_launch(stream, MK_OP_cross_entropy, args, sizeof *args);
}
