/* Load balance: checks and launch. */
#include "kernels/ops/load_balance/load_balance.h"

#include "kernels/ops/check.h"

static mk_status check_groups(mk_stream *stream, const char *op, int64_t groups, int64_t tokens) {
  MK_CHECK(stream->dev->ctx, groups >= 1 && tokens >= 0 && tokens % groups == 0, MK_ERR_ARG,
           "%s: %lld groups do not divide %lld tokens", op, (long long)groups, (long long)tokens);
  return MK_OK;
}

mk_status mk_load_balance_stats(mk_stream *stream, const mk_load_balance_stats_args *args) {
  const char *op = "load_balance_stats";
  MK_CHECK_2D(stream, op, args, scores, MK_MASTER_FLOAT, -1, -1);
  MK_CHECK_2D(stream, op, args, score_sum, MK_ONE_OF(args->scores.dtype), -1, args->scores.dim[1]);
  MK_TRY(stream->dev->ctx, check_groups(stream, op, args->score_sum.dim[0], args->scores.dim[0]));
  return mk_stream_launch(stream, MK_OP_load_balance_stats, args, sizeof *args);
}

mk_status mk_load_balance_loss(mk_stream *stream, const mk_load_balance_loss_args *args) {
  const char *op = "load_balance_loss";
  mk_context *ctx = stream->dev->ctx;
  MK_CHECK_3D(stream, op, args, counts, MK_ONE_OF(MK_I32), -1, -1, -1);
  const int64_t *dim = args->counts.dim;
  MK_CHECK_3D(stream, op, args, score_sum, MK_MASTER_FLOAT, dim[0], dim[1], dim[2]);
  MK_CHECK_1D(stream, op, args, state, MK_ONE_OF(MK_U8), (int64_t)sizeof(mk_step_state));
  MK_CHECK_3D(stream, op, args, coef, MK_ONE_OF(args->score_sum.dtype), dim[0], dim[1], dim[2]);
  MK_CHECK_1D(stream, op, args, sums, MK_ONE_OF(MK_F64), MK_SUM_COUNT);
  MK_TRY(ctx, check_groups(stream, op, dim[1], args->tokens));
  MK_CHECK(ctx, args->top_k >= 1 && args->microbatches >= 1, MK_ERR_ARG,
           "%s: top_k is %lld and microbatches %lld, both must be at least 1", op, (long long)args->top_k,
           (long long)args->microbatches);
  return mk_stream_launch(stream, MK_OP_load_balance_loss, args, sizeof *args);
}
